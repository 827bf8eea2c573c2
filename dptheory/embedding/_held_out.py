"""What the subspace leaves of a fresh gradient, from anchors that did not shape it."""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from dptheory import _validate
from dptheory.errors import ArgumentError

_LARGEST_ENTRY = 1e140  # squares of such numbers add up without overflow


@dataclass(frozen=True, kw_only=True)
class HeldOutResidual:
    """Size of a fresh residual R clipped at S, and how often clipping changes it.

    Attributes:
        energy: mean of min(|R|, S)^2 over the held-out anchors; its expectation is that of a fresh gradient.
        energy_bound: upper bound on E min(|R|, S)^2.
        clip_probability: (N + 1) / (h + 1), N the number of held-out residuals longer than S: at least P(|R| > S) on average.
        clip_probability_bound: upper bound on P(|R| > S).
    """

    energy: float
    energy_bound: float
    clip_probability: float
    clip_probability_bound: float


def held_out_residual(*, residuals: ArrayLike, residual_clip: float, failure_probability: float) -> HeldOutResidual:
    r"""Bounds on E min(\|R\|, S)^2 and P(\|R\| > S), R the residual of a fresh gradient, from h anchors that were held out.

    With Y the mean of min(\|R_i\|, S)^2 / S^2 and N the number of R_i longer than S, each with probability at least 1 - delta,

    .. math:: E\min(|R|, S)^2 \le S^2 \max\{\mu : Y\log\tfrac Y\mu + (1 - Y)\log\tfrac{1 - Y}{1 - \mu} \le
        \tfrac1h\log\tfrac1\delta\}, \qquad P(|R| > S) \le \max\{b : P(\mathrm{Bin}(h, b) \le N) \ge \delta\}.

    Needs, and cannot check: the held-out anchors are independent draws of the law of the fresh gradient, at a model and a
    subspace that they did not help to choose; S was fixed before they were seen.

    Args:
        residuals: what the subspace leaves of the held-out anchors, shape (h, p), entries in [-1e140, 1e140]; see
            :func:`dptheory.embedding.project`.
        residual_clip: S in [1e-70, 1e70].
        failure_probability: delta in [1e-200, 1), of each of the two bounds.

    Returns:
        The mean and the share with their bounds.

    Raises:
        ValueError: an argument outside its range.

    Source: new, in place of GEP, Lemma 3.2 (gep.held_out).

    Example: 200 held-out residuals of length 0.5, none clipped at 0.6.
        >>> from dptheory.embedding import held_out_residual
        >>> found = held_out_residual(residuals=[[0.3, 0.4]] * 200, residual_clip=0.6, failure_probability=0.05)
        >>> round(found.energy, 6), round(found.energy_bound, 3), round(found.clip_probability_bound, 3)
        (0.25, 0.277, 0.015)
    """
    matrix = _validate.finite("residuals", residuals)
    if matrix.ndim != 2 or not matrix.size or np.abs(matrix).max() > _LARGEST_ENTRY:
        raise ArgumentError(
            "residuals",
            f"be a matrix of numbers in [-{_LARGEST_ENTRY:g}, {_LARGEST_ENTRY:g}] with a row for each held-out anchor",
            residuals,
        )
    clip = _validate.size("residual_clip", residual_clip)
    failure = _validate.real("failure_probability", failure_probability, 1e-200, 1.0, ends="[)")
    norms = np.sqrt(np.square(matrix).sum(axis=1))
    count, clipped = len(norms), int((norms > clip).sum())
    share = float(np.square(np.minimum(norms / clip, 1.0)).mean())
    return HeldOutResidual(
        energy=share * clip**2,
        energy_bound=_largest_mean(share, -math.log(failure) / count) * clip**2,
        clip_probability=(clipped + 1) / (count + 1),
        clip_probability_bound=_largest_chance(clipped, count, failure),
    )


def _largest_chance(clipped: int, count: int, failure: float) -> float:
    """The chance with which so few are clipped with probability ``failure``."""
    found = 1.0 if clipped == count else float(scipy.special.betainccinv(clipped + 1, count - clipped, failure))
    return 1.0 if math.isnan(found) else found  # next to 1, where the inversion finds no number


def _largest_mean(share: float, nats: float) -> float:
    """The largest mu in [share, 1] whose coin has a divergence of at most ``nats`` from one with the chance ``share``."""
    if share >= 1.0:
        return 1.0

    def excess(odds: float) -> float:
        other = share + (1.0 - share) * odds
        return float(scipy.special.rel_entr(share, other)) - (1.0 - share) * math.log1p(-odds) - nats

    most = 1.0 - math.ulp(1.0)
    return (
        1.0
        if excess(most) <= 0
        else share + (1.0 - share) * float(scipy.optimize.brentq(excess, 0.0, most, xtol=1e-300, rtol=1e-14))
    )
