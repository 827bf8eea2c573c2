"""The index mechanism of GIP: a Mallows model over the subsets with a fixed number of members."""

import math
from dataclasses import KW_ONLY, dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import _validate
from dptheory._arrays import Array
from dptheory.errors import ArgumentError

_MAX_DIM = 10**12
_MAX_LAW = 5 * 10**6
"""Most swaps of which a law is returned."""
_TAIL = 45.0
"""Sums over the swaps leave out a tail of exp(-45) < 3e-20 on either side."""
# Above this many nats per swap the law is the point mass at "no swap" to far below double precision, for every dim.
_POINT_MASS = 1000.0


def index_sensitivity(dim: int, keep: int) -> int:
    """Largest Hamming distance between two subsets of size keep of dim entries: 2 min(keep, dim - keep).

    Args:
        dim: number of entries, >= 1.
        keep: number of members, 0..dim.

    Returns:
        The distance, an even number.

    Source: GIP, Definition 3 (gip.def3).

    Example: all 26 members can be others, which changes 52 places of the index vector.
        >>> from dptheory.pruning import index_sensitivity
        >>> index_sensitivity(256, 26)
        52
    """
    dim = _validate.integer("dim", dim, 1)
    keep = _validate.integer("keep", keep, 0, dim)
    return 2 * min(keep, dim - keep)


@dataclass(frozen=True)
class SubsetMallows:
    r"""P(I) proportional to exp(-theta * Hamming(I, I0)) over the subsets I with |I| = |I0| = keep.

    I arises from I0 by taking out i members and putting in i others; i, the number of swapped pairs, decides everything:
    :math:`P(i) \propto \binom{K}{i}\binom{d-K}{i} e^{-2\theta i}` (Fisher's noncentral hypergeometric law).

    Args:
        dim: number of entries d, 2..1e12.
        keep: number of members K, 1..dim-1.
        theta: dispersion in [0, inf]; 0 is a uniformly random subset, inf returns I0 itself.

    Source: GIP, Definitions 2 and 4, equation 11 (gip.alg_a2).

    Example: a group of 256 of which 26 are kept; at most 26 pairs can be swapped.
        >>> from dptheory.pruning import SubsetMallows
        >>> SubsetMallows(256, 26, theta=0.1).max_swaps
        26
    """

    dim: int
    keep: int
    _: KW_ONLY
    theta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", _validate.integer("dim", self.dim, 2, _MAX_DIM))
        object.__setattr__(self, "keep", _validate.integer("keep", self.keep, 1, self.dim - 1))
        object.__setattr__(self, "theta", _validate.real("theta", self.theta, 0.0))

    @property
    def max_swaps(self) -> int:
        """Largest possible number of swapped pairs, min(keep, dim - keep)."""
        return index_sensitivity(self.dim, self.keep) // 2

    def swap_log_pmf(self) -> Array:
        """log P(i swapped pairs) for i = 0..max_swaps, shape (max_swaps + 1,); -inf where theta = inf forbids it.

        Returns:
            The logarithms of the probabilities.

        Raises:
            ValueError: more than 5e6 swaps are possible.

        Source: GIP, equation 11 (gip.alg_a2).

        Example: by hand: of two entries the right one is kept three times in four.
            >>> import math
            >>> from dptheory.pruning import SubsetMallows
            >>> SubsetMallows(2, 1, theta=math.log(3) / 2).swap_log_pmf().round(4)
            array([-0.2877, -1.3863])
        """
        if self.max_swaps > _MAX_LAW:
            raise ArgumentError(
                "dim", f"allow at most {_MAX_LAW} swaps, min(keep, dim - keep), where their law is returned", self.dim
            )
        return self._log_law(0, self.max_swaps)

    def _log_law(self, first: int, last: int) -> Array:
        """log P(i) for i = first..last, as if no other number of swaps were possible."""
        i = np.arange(first, last, dtype=np.float64)
        ratios = np.log((self.keep - i) * (self.dim - self.keep - i) / (i + 1) ** 2) - 2.0 * self.theta
        # The ratios fall in i. Summing them outwards from the mode keeps the error small where the mass is.
        mode = int(np.count_nonzero(ratios > 0))
        left = -np.cumsum(ratios[:mode][::-1])[::-1]
        log_weights = np.concatenate([left, [0.0], np.cumsum(ratios[mode:])])
        return np.asarray(log_weights - scipy.special.logsumexp(log_weights))

    def _window(self) -> tuple[int, int]:
        """First and last number of swaps that sums need: Bernstein's inequality (proofs/gip/retained_gain.md, step 7)."""
        mode = self._mode()
        most = min(mode, self.max_swaps - mode) + 2.0
        reach = 2 + math.ceil(_TAIL / 3 + math.sqrt((_TAIL / 3) ** 2 + 2 * _TAIL * most))
        return max(0, mode - reach), min(self.max_swaps, mode + reach)

    def _mean_beyond(self, first: int, last: int) -> float:
        """E[i - first], by the swaps from ``first`` to ``last``."""
        return float(np.exp(self._log_law(first, last)) @ np.arange(last - first + 1.0))

    def _mode(self) -> int:
        """The most likely number of swaps, to within 1: the root of (K - i)(d - K - i) = e^{2 theta} i^2, rounded down."""
        ratio = math.exp(min(2.0 * self.theta, 300.0))  # beyond, no swap is likely for any dim
        pairs = float(self.keep * (self.dim - self.keep))
        root = math.sqrt(self.dim**2 + 4.0 * (ratio - 1.0) * pairs)
        return min(self.max_swaps, math.floor(2.0 * pairs / (self.dim + root)))

    def swap_pmf(self) -> Array:
        """P(i swapped pairs) for i = 0..max_swaps, shape (max_swaps + 1,).

        Returns:
            The probabilities.

        Source: GIP, equation 11 (gip.alg_a2).

        Example: by hand: of two entries the right one is kept three times in four.
            >>> import math
            >>> from dptheory.pruning import SubsetMallows
            >>> SubsetMallows(2, 1, theta=math.log(3) / 2).swap_pmf().round(4)
            array([0.75, 0.25])
        """
        return np.exp(self.swap_log_pmf())

    def mean_swaps(self) -> float:
        """Expected number of swapped pairs E[i], the F(theta) of the paper.

        Returns:
            The mean number, in [0, max_swaps].

        Source: GIP, Proposition 2 (gip.mse_t).

        Example: a random subset shares a tenth of its members with the reference: 26 * 230 / 256 are swapped.
            >>> from dptheory.pruning import SubsetMallows
            >>> [round(SubsetMallows(256, 26, theta=theta).mean_swaps(), 3) for theta in (0.0, 2.0)]
            [23.359, 8.283]
        """
        first, last = self._window()
        return first + self._mean_beyond(first, last)

    def retained_gain(self) -> float:
        r"""rho = 1 - E[i] / E_0[i], to full relative precision for every theta.

        :math:`E_0[i] = K(d-K)/d =: \mu` is the mean under theta = 0. The difference of two nearly equal means is avoided:
        with x = i - mu, :math:`\rho = E_\theta[x (e^{2\theta x} - 1)] / \mu`, a sum of terms that are all >= 0.
        For small theta, rho is about 2 theta k (1 - k) d / (d - 1) with k = keep / dim.

        Returns:
            The share, in [0, 1].

        Source: GIP, Proposition 2 (gip.order, gip.mse_t).

        Example: theta = 1 retains less than a third of what top-k gains over random-k.
            >>> from dptheory.pruning import SubsetMallows
            >>> [round(SubsetMallows(256, 26, theta=theta).retained_gain(), 3) for theta in (0.1, 1.0, 2.0)]
            [0.02, 0.295, 0.645]
        """
        tilt = 2.0 * self.theta
        if tilt == 0.0 or tilt > _POINT_MASS:
            return float(tilt > 0.0)
        uniform_mean = self.keep * (self.dim - self.keep) / self.dim
        first, last = self._window()
        uniform_last = SubsetMallows(self.dim, self.keep, theta=0.0)._window()[1]
        if last < uniform_mean:  # the two laws lie apart: no digits are lost
            below = (self.keep * (self.dim - self.keep) - first * self.dim) / self.dim
            return (below - self._mean_beyond(first, last)) / uniform_mean
        log_pmf = self._log_law(first, uniform_last)
        x = np.arange(first, uniform_last + 1) - uniform_mean
        log_pmf, x = log_pmf[x != 0], x[x != 0]
        y = tilt * x
        with np.errstate(divide="ignore"):  # a tilt so small that y underflows
            log_terms = log_pmf + np.log(np.abs(x)) + np.maximum(y, 0.0) + np.log(-np.expm1(-np.abs(y)))
        return min(1.0, float(np.exp(scipy.special.logsumexp(log_terms))) / uniform_mean)

    def epsilon(self, distance: int) -> float:
        """Exact pure-DP epsilon for two references at Hamming distance ``distance``: theta * distance.

        The loss is attained at the output I = I0, and the triangle inequality forbids more.

        Args:
            distance: Hamming distance of the two references: an even integer in 0..2 max_swaps.

        Returns:
            Epsilon in nats, >= 0; inf where theta is.

        Source: GIP, Theorem 1 (gip.thm1).

        Example: one example can turn all 26 members, 52 places of the index vector, at 0.1 each.
            >>> from dptheory.pruning import SubsetMallows
            >>> round(SubsetMallows(256, 26, theta=0.1).epsilon(52), 6)
            5.2
        """
        distance = _validate.integer("distance", distance, 0, 2 * self.max_swaps)
        if distance % 2:
            raise ArgumentError("distance", "be even (equal-sized subsets differ in pairs)", distance)
        return self.theta * distance if distance else 0.0

    def zcdp(self, distance: int) -> float:
        """rho of zero-concentrated DP for two references at Hamming distance ``distance``: theta^2 * distance.

        The Renyi divergence is at most rho * order at every order > 1. Pure epsilon = theta * distance alone would give
        epsilon^2 / 2, larger by a factor distance / 2. Several releases, groups and steps, add up.

        Args:
            distance: Hamming distance of the two references: an even integer in 0..2 max_swaps.

        Returns:
            rho, >= 0; inf where theta is.

        Source: GIP, Theorems 1 and 2 (gip.tight).

        Example: by hand 0.1^2 * 52; pure epsilon 5.2 alone would give 13.52.
            >>> from dptheory.pruning import SubsetMallows
            >>> round(SubsetMallows(256, 26, theta=0.1).zcdp(52), 6)
            0.52
        """
        loss = self.epsilon(distance)
        return self.theta * loss if loss else 0.0

    def sample(self, reference: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.bool_]:
        """Draw one subset for each row of ``reference``, independently.

        The law is that of the class to within the resolution of a double (2^-53 in the number of swaps; given that number
        the draw is uniform). Rarer outcomes are never drawn, so do not rely on it where floating-point attacks matter.

        Args:
            reference: boolean array of shape (..., dim), exactly ``keep`` True in each row.
            rng: source of randomness; the same generator state gives the same draw.

        Returns:
            Boolean array of the same shape, exactly ``keep`` True in each row.

        Raises:
            ValueError: wrong last axis, wrong type, or a row without exactly ``keep`` members.

        Source: GIP, Appendix A.2 (gip.alg_a2).

        Example: every draw keeps as many as the reference; theta = inf returns the reference itself.
            >>> import numpy as np
            >>> from dptheory.pruning import SubsetMallows
            >>> reference, rng = np.arange(256) < 26, np.random.default_rng(0)
            >>> int(SubsetMallows(256, 26, theta=0.1).sample(reference, rng).sum())
            26
            >>> bool((SubsetMallows(256, 26, theta=np.inf).sample(reference, rng) == reference).all())
            True
        """
        if not isinstance(rng, np.random.Generator):
            raise ArgumentError("rng", "be a numpy.random.Generator", rng)
        try:
            rows = np.asarray(reference)
        except (ValueError, TypeError, RuntimeError):  # ragged; a tensor on a GPU, or one that needs a gradient
            raise ArgumentError("reference", f"be boolean of shape (..., {self.dim})", reference) from None
        if rows.dtype != np.bool_ or rows.ndim == 0 or rows.shape[-1] != self.dim:
            raise ArgumentError(
                "reference", f"be boolean of shape (..., {self.dim})", reference, got=f"{rows.dtype} {rows.shape}"
            )
        shape, rows = rows.shape, rows.reshape(-1, self.dim)
        members = np.count_nonzero(rows, axis=1)
        if (members != self.keep).any():
            raise ArgumentError(
                "reference", f"have keep={self.keep} True per row", reference, got=f"{members[members != self.keep][0]}"
            )
        cdf = np.cumsum(self.swap_pmf())
        swaps = np.searchsorted(cdf / cdf[-1], rng.random(len(rows)), side="right")
        result = rows.copy()
        for side, size in ((rows, self.keep), (~rows, self.dim - self.keep)):
            flipped = rng.permuted(np.arange(size) < swaps[:, None], axis=1)
            result[side] ^= flipped.ravel()  # every row has `size` places on this side, so the orders agree
        return result.reshape(shape)


def theta_for_retained_gain(*, retained_gain: float, dim: int, keep: int) -> float:
    """Dispersion at which the mechanism retains the share ``retained_gain`` of the top-k gain: the inverse of ``retained_gain``.

    Args:
        retained_gain: share rho in [0, 1]; 0 gives theta = 0, 1 gives inf.
        dim: number of entries d, 2..1e12.
        keep: number of members K, 1..dim-1.

    Returns:
        theta, in [0, inf].

    Source: GIP, Proposition 2 (gip.retained_gain, gip.mse_t).

    Example: half of the gain of a pair needs log(3) / 2, as keeping the right one three times in four does.
        >>> from dptheory.pruning import theta_for_retained_gain
        >>> round(theta_for_retained_gain(retained_gain=0.5, dim=2, keep=1), 4)
        0.5493
    """
    retained_gain = _validate.real("retained_gain", retained_gain, 0.0, 1.0)
    dim = _validate.integer("dim", dim, 2, _MAX_DIM)
    keep = _validate.integer("keep", keep, 1, dim - 1)
    if retained_gain == 0.0 or retained_gain == 1.0:
        return 0.0 if retained_gain == 0.0 else math.inf

    def excess(log_theta: float) -> float:
        found = SubsetMallows(dim, keep, theta=math.exp(log_theta)).retained_gain()
        return math.log(max(found, 5e-324)) - math.log(retained_gain) if retained_gain < 0.5 else found - retained_gain

    # The swaps are a sum of independent indicators, so their variance is at most their mean, and the slope of the gain,
    # 2 Var / E_0, at most 2: theta = gain / 8 retains less. Above the point mass all is retained.
    low, high = math.log(retained_gain) - math.log(8.0), math.log(_POINT_MASS)
    return math.exp(float(scipy.optimize.brentq(excess, low, high, xtol=1e-14, rtol=1e-15, maxiter=300)))
