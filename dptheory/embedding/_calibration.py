r"""Noise for two releases made together: the embedding, of sensitivity S1, and the residual, of sensitivity S2.

Everything is in ratios s_i = sigma_i / clip_i of noise to clip. One release has mu_i = c / s_i, with c = 1 where neighbours
differ by a record added or removed (the sensitivity is the clip) and c = 2 where one is replaced (it is twice the clip).
Gaussian releases compose exactly: mu^2 adds up.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from dptheory import _validate, privacy
from dptheory._validate import Adjacency
from dptheory.embedding._release import embedding_share
from dptheory.errors import ArgumentError, ConditionError

Method = Literal["exact", "renyi", "stated"]

_METHODS = ("exact", "renyi", "stated")
_MOST_STEPS = 10**12


def joint_mu(noise_multipliers: Sequence[float], *, steps: int = 1, adjacency: Adjacency = "add-remove") -> float:
    r"""mu of Gaussian releases made together at every step: c sqrt(T (1/s_1^2 + 1/s_2^2 + ...)).

    The sequence of all releases is mu-GDP and, where one record can move every release by its clip at once, no better.

    Args:
        noise_multipliers: s_i = sigma_i / clip_i, > 0, one for each release of a step; two for GEP.
        steps: T, 1..1e12.
        adjacency: "add-remove" (c = 1) or "replace-one" (c = 2).

    Returns:
        mu, > 0.

    Source: GEP, Theorems 3.1 and 3.2, section 4 (gep.thm3.1, gep.thm3.2, gep.concat).

    Example: by hand: sqrt(2) / 2 for GEP's two releases at noise 2.
        >>> from dptheory.embedding import joint_mu
        >>> round(joint_mu([2.0, 2.0]), 4)
        0.7071
    """
    ratios = _validate.scale("noise_multipliers", noise_multipliers)
    if ratios.ndim != 1 or not ratios.size or not ratios.all():
        raise ArgumentError("noise_multipliers", "be a list of positive numbers", noise_multipliers)
    return _change(adjacency) * math.sqrt(_steps(steps)) * math.sqrt(float(np.sum(ratios**-2.0)))


def output_mu(
    *,
    embedding_clip: float,
    residual_clip: float,
    embedding_std: float,
    residual_std: float,
    steps: int = 1,
    adjacency: Adjacency = "add-remove",
) -> float:
    r"""mu of the sums w B + r alone, which are all that GEP's algorithm returns: less than that of the pair (w, r).

    .. math:: \mu^2 = c^2 T \Big(\frac{S_1^2}{\sigma_1^2 + \sigma_2^2} + \frac{S_2^2}{\sigma_2^2}\Big)

    In the span of the basis the noises of both releases add up; orthogonal to it only the residual's is present.

    Args:
        embedding_clip: S1 of the embedding, in [1e-70, 1e70] or 0.
        residual_clip: S2 of the residual, likewise.
        embedding_std: standard deviation of the embedding's noise, likewise.
        residual_std: standard deviation of the residual's noise in each of the p coordinates, in [1e-70, 1e70].
        steps: T, 1..1e12.
        adjacency: "add-remove" (c = 1) or "replace-one" (c = 2).

    Returns:
        mu, >= 0.

    Source: GEP, Algorithm 1, line 15 (gep.thm3.1).

    Example: by hand: sqrt(10^2 / (20^2 + 4^2) + 2^2 / 4^2), against 0.707 for the pair.
        >>> from dptheory.embedding import output_mu
        >>> round(output_mu(embedding_clip=10.0, residual_clip=2.0, embedding_std=20.0, residual_std=4.0), 4)
        0.7003
    """
    first, second, noise, residual_noise = (
        _validate.size(name, value, zero=True)
        for name, value in (
            ("embedding_clip", embedding_clip),
            ("residual_clip", residual_clip),
            ("embedding_std", embedding_std),
            ("residual_std", residual_std),
        )
    )
    if residual_noise == 0.0:
        raise ArgumentError("residual_std", "be positive", residual_std)
    one_step = math.hypot(first / math.hypot(noise, residual_noise), second / residual_noise)
    return _change(adjacency) * math.sqrt(_steps(steps)) * one_step


def release_noise_ratio(
    *, epsilon: float, delta: float, steps: int = 1, adjacency: Adjacency = "add-remove", method: Method = "exact"
) -> float:
    r"""s = sigma_1 / S1 = sigma_2 / S2 for which T steps of two releases each are (epsilon, delta)-differentially private.

    "exact": c sqrt(2 T) / mu(epsilon, delta), the least that does it (:func:`dptheory.privacy.gaussian_mu`);
    "renyi": c sqrt(T) (sqrt(L + epsilon) + sqrt(L)) / epsilon, the best order of the conversion that the paper uses;
    "stated": c 2 sqrt(2 T L) / epsilon, L = log(1/delta), its theorems, for epsilon <= 2 L; given wherever it is enough:
    up to 2.34 L for every delta, 2.78 L at delta = 1e-10, 3.13 L at 1e-5.

    Args:
        epsilon: in [1e-100, 1e100].
        delta: in (0, 1).
        steps: T, 1..1e12.
        adjacency: "add-remove" (c = 1) or "replace-one" (c = 2).
        method: see above.

    Returns:
        The ratio s, > 0.

    Raises:
        ConditionError: "stated" with an epsilon so large that the noise is not enough.

    Source: GEP, Theorems 3.1 and 3.2 (gep.thm3.1, gep.thm3.2).

    Example: three accounts of one step at epsilon 8; the first is exact.
        >>> from dptheory.embedding import release_noise_ratio
        >>> [round(release_noise_ratio(epsilon=8.0, delta=1e-5, method=how), 3) for how in ("exact", "renyi", "stated")]
        [0.849, 0.976, 1.2]
    """
    epsilon = _validate.real("epsilon", epsilon, 1e-100, 1e100)
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    _validate.choice("method", method, _METHODS)
    admits = {"exact": privacy.gaussian_mu, "renyi": privacy.gaussian_rdp_mu, "stated": _stated_mu}
    mu = admits[method](epsilon, delta)
    return _change(adjacency) * math.sqrt(2.0 * _steps(steps)) / mu


def output_noise_ratio(
    *,
    embedding_clip: float,
    residual_clip: float,
    epsilon: float,
    delta: float,
    steps: int = 1,
    adjacency: Adjacency = "add-remove",
) -> float:
    r"""Least s = sigma_i / S_i, the same for both parts, where only the sums w B + r are published, as GEP's algorithm has it.

    .. math:: s = c\sqrt{T(1+a)}\,/\,\mu(\epsilon,\delta),\qquad a = \frac{S_1^2}{S_1^2+S_2^2},

    with the exact Gaussian trade-off mu(epsilon, delta): sqrt((1 + a) / 2) times the ratio that the pair (w, r) needs, which
    :func:`release_noise_ratio` gives. Only their ratio S_2 / S_1 matters.

    Args:
        embedding_clip: S1 of the embedding, in [1e-70, 1e70].
        residual_clip: S2 of the residual, in [1e-70, 1e70].
        epsilon: in [1e-100, 1e100].
        delta: in (0, 1).
        steps: T, 1..1e12.
        adjacency: "add-remove" (c = 1) or "replace-one" (c = 2).

    Returns:
        The ratio s, > 0.

    Source: GEP, Algorithm 1, line 15 (gep.thm3.1, gep.versus).

    Example: hardly less than for the pair, as the embedding's clip is much the larger.
        >>> from dptheory.embedding import output_noise_ratio, release_noise_ratio
        >>> round(output_noise_ratio(embedding_clip=10.0, residual_clip=2.0, epsilon=8.0, delta=1e-5), 3)
        0.841
        >>> round(release_noise_ratio(epsilon=8.0, delta=1e-5), 3)
        0.849
    """
    first, second = _validate.size("embedding_clip", embedding_clip), _validate.size("residual_clip", residual_clip)
    pair = release_noise_ratio(epsilon=epsilon, delta=delta, steps=steps, adjacency=adjacency)
    return math.sqrt((1.0 + embedding_share(first, second)) / 2.0) * pair


def noise_ratio_excess(
    *, epsilon: float, delta: float, method: Method = "stated", reference: Literal["exact", "renyi"] = "exact"
) -> float:
    """How many times the noise of ``reference`` the noise of ``method`` is, for every number of steps and either adjacency.

    "stated" over "renyi" is 2 sqrt(2) / (1 + sqrt(1 + epsilon / L)), from sqrt(2) down to 1.035. "stated" over "exact" has
    no bound as epsilon goes to 0.

    Args:
        epsilon: in [1e-100, 1e100]; for "stated" where :func:`release_noise_ratio` has it.
        delta: in (0, 1).
        method: "stated", "renyi" or "exact".
        reference: "exact" or "renyi".

    Returns:
        The ratio, >= 1 but for rounding.

    Raises:
        ConditionError: as :func:`release_noise_ratio`.

    Source: GEP, Theorems 3.1 and 3.2 (gep.thm3.1, gep.thm3.2).

    Example: the noise that the theorem asks for at epsilon 1 is 1.8 times what is needed.
        >>> from dptheory.embedding import noise_ratio_excess
        >>> round(noise_ratio_excess(epsilon=1.0, delta=1e-5), 3)
        1.819
    """
    _validate.choice("reference", reference, ("exact", "renyi"))
    return release_noise_ratio(epsilon=epsilon, delta=delta, method=method) / release_noise_ratio(
        epsilon=epsilon, delta=delta, method=reference
    )


def sampled_epsilon(*, epsilon: float, sampling_rate: float) -> float:
    r"""Epsilon of one step on records that are each drawn with probability q = ``sampling_rate``, at delta q.

    It is log(1 + q (e^epsilon - 1)).     If a step is (epsilon, delta)-differentially private on all records, it is
    (this, q delta)-differentially private on the
    drawn ones, where a record is added or removed and who was drawn is not told.

    Args:
        epsilon: of the step on all records, >= 0.
        sampling_rate: q in (0, 1].

    Returns:
        Epsilon in nats, >= 0.

    Source: GEP, section 3.3, after Theorem 3.2 (gep.sampling).

    Example: by hand: log(1 + 0.01 (e - 1)), against 1 on all records.
        >>> from dptheory.embedding import sampled_epsilon
        >>> round(sampled_epsilon(epsilon=1.0, sampling_rate=0.01), 4)
        0.017
    """
    epsilon = _validate.real("epsilon", epsilon, 0.0, ends="[)")
    sampling_rate = _validate.real("sampling_rate", sampling_rate, 0.0, 1.0, ends="(]")
    if epsilon < 700.0:  # e^epsilon is finite
        return min(epsilon, math.log1p(sampling_rate * math.expm1(epsilon)))
    return max(0.0, epsilon + math.log(sampling_rate + (1.0 - sampling_rate) * math.exp(-epsilon)))


def _stated_mu(epsilon: float, delta: float) -> float:
    """epsilon / (2 sqrt(L)): sqrt(2) over the theorem's sigma / S."""
    log_inverse = -math.log(delta)
    mu = epsilon / (2.0 * math.sqrt(log_inverse))
    # enough up to 2 L by the theorem; beyond it up to one epsilon, since the stated noise over the least falls with epsilon
    if epsilon > 2.0 * log_inverse and privacy.gaussian_log_delta(mu, epsilon) > -log_inverse:
        raise ConditionError(
            "gep.thm3.1",
            "epsilon",
            f"be so small that the stated noise is enough, as it is up to 2 log(1/delta) = {2.0 * log_inverse:.6g}",
            epsilon,
            then=f", for which delta would exceed {delta!r}",
        )
    return mu


def _change(adjacency: str) -> float:
    return 2.0 if _validate.adjacency(adjacency) == "replace-one" else 1.0


def _steps(steps: int) -> int:
    return _validate.integer("steps", steps, 1, _MOST_STEPS)
