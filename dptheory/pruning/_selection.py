"""Other ways to select the entries of a gradient privately, and what share of the top-k gain each retains."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from dptheory import _validate
from dptheory._arrays import Array
from dptheory.errors import ArgumentError
from dptheory.pruning._error import noise_mse, random_k_mse, retained_gain, top_k_gain
from dptheory.pruning._mallows import index_sensitivity

_MOST_BITS = 10**18


def randomized_response_epsilon(*, probability: float, distance: int) -> float:
    """Exact pure-DP epsilon for two index vectors at Hamming distance ``distance``: distance * |log(p / (1 - p))|.

    Args:
        probability: chance p of keeping a bit, in [0, 1]; 0 and 1 give inf unless distance is 0.
        distance: number of bits in which the two vectors differ, 0..1e18.

    Returns:
        Epsilon in nats, >= 0; inf as said above.

    Source: GIP, Proposition 3 (gip.prop3).

    Example: by hand: 2 log 3. With the 52 bits that one example can change it is 57.
        >>> from dptheory.pruning import randomized_response_epsilon
        >>> [round(randomized_response_epsilon(probability=0.75, distance=bits), 2) for bits in (2, 52)]
        [2.2, 57.13]
    """
    probability = _validate.real("probability", probability, 0.0, 1.0)
    distance = _validate.integer("distance", distance, 0, _MOST_BITS)
    return distance * abs(float(scipy.special.logit(probability))) if distance else 0.0


def randomized_response_probability(*, epsilon: float, distance: int) -> float:
    """Largest p with which :func:`randomized_response_epsilon` is at most ``epsilon``: e^(eps/distance) / (1 + e^(eps/distance)).

    The admissible p are those with max(p, 1 - p) at most this value.

    Args:
        epsilon: pure-DP budget, >= 0 and finite.
        distance: sensitivity of the index vector, 1..1e18.

    Returns:
        The probability, in [1/2, 1].

    Source: GIP, Proposition 3, equation 26 (gip.prop3).

    Example: an epsilon of 1 over 52 bits leaves hardly more than a coin.
        >>> from dptheory.pruning import randomized_response_probability
        >>> round(randomized_response_probability(epsilon=1.0, distance=52), 4)
        0.5048
    """
    epsilon = _validate.real("epsilon", epsilon, 0.0, ends="[)")
    distance = _validate.integer("distance", distance, 1, _MOST_BITS)
    probability = min(float(scipy.special.expit(epsilon / distance)), 1.0 - 2.0**-53)
    while probability > 0.5 and randomized_response_epsilon(probability=probability, distance=distance) > epsilon:
        probability = math.nextafter(probability, 0.0)
    return probability


def mallows_theta(probability: float) -> float:
    """Dispersion theta = log(p / (1 - p)) of the Mallows law that randomised response becomes given the number of ones.

    Args:
        probability: chance p of keeping a bit, in [1/2, 1]; 1 gives inf.

    Returns:
        theta, in [0, inf].

    Raises:
        ValueError: probability outside [1/2, 1].

    Source: GIP, Appendix A.4 (gip.a4).

    Example: by hand: log 3.
        >>> from dptheory.pruning import mallows_theta
        >>> round(mallows_theta(0.75), 4)
        1.0986
    """
    probability = _validate.real("probability", probability, 0.5, 1.0)
    return math.inf if probability == 1.0 else float(scipy.special.logit(probability))


# --- What share of the top-k gain a private selection by the sum of a batch can retain


_SPREAD = 1.0 - 2.0 / math.pi  # variance of |x|, x standard normal
_FAR = 12.0  # standard deviations that hold all of a normal law
_STEEPEST = 30.0  # in units of 1 / min(1, a^2), a the threshold of top-k; every slope gives a bound
_LIMIT_NODES, _LIMIT_WEIGHTS = np.polynomial.legendre.leggauss(20)


def selection_gain_bound(
    *, zcdp_rho: float, dim: int, keep: int, groups: int, sigma_g: float, clip_norm: float
) -> float:
    r"""Share of the top-k gain that no selection by the sum of a batch can exceed at a zCDP budget, whatever its mechanism.

    With D = dim groups, k = keep / dim and x standard normal, the selection learns at most
    :math:`R = \frac\rho D\big(\sqrt{(1 - 2/\pi)D}\thinspace\frac{\sigma_g}C + 1\big)^2` nats on an entry, and

    .. math:: \text{share} \le \min_{s > 0,\thinspace\nu} \frac{R + E c(s(x^2 - 1) - \nu)}s \Big/
        \frac{E[\text{top-}k\text{ energy}] - keep}{dim}, \qquad c(u) = \log(1 - k + ke^u) - ku .

    On average over gradients with independent N(0, sigma_g^2) entries, for every batch with that sum; a selection that sees the
    examples is held to it on one batch of every sum, the same for all selections, and can retain more on others. Not for a batch
    drawn at random with its drawing kept secret. Relative error about 1e-12, or 1e-16 / (1 - k) where that is more.

    Args:
        zcdp_rho: zCDP budget of the indices in one step, one example added or removed, in [1e-70, 1e70].
        dim, keep: size of one group and number kept in it (on average), 1 <= keep < dim <= 1e12.
        groups: number of groups, 1..1e12.
        sigma_g: standard deviation of an entry of the summed gradient, in [1e-70, 1e70].
        clip_norm: clipping norm C, in [1e-70, 1e70].

    Returns:
        The bound, in (0, 1].

    Source: new, on GIP, section 4.2 (gip.selection_limit).

    Example: the setting of :func:`dptheory.pruning.selection_gains`: noisy magnitudes have .002 of at most .004.
        >>> from dptheory.pruning import selection_gain_bound
        >>> bound = selection_gain_bound(zcdp_rho=1e-3, dim=256, keep=26, groups=10_547, sigma_g=0.11, clip_norm=1.0)
        >>> round(bound, 4)
        0.0038
    """
    zcdp_rho = _validate.size("zcdp_rho", zcdp_rho)
    dim = _validate.integer("dim", dim, 2, 10**12)
    keep = _validate.integer("keep", keep, 1, dim - 1)
    groups = _validate.integer("groups", groups, 1, 10**12)
    ratio = _validate.size("sigma_g", sigma_g) / _validate.size("clip_norm", clip_norm)
    root = math.sqrt(_SPREAD) * ratio + 1.0 / math.sqrt(dim * groups)
    return min(1.0, _most_gain(keep / dim, zcdp_rho * root * root) / top_k_gain(dim, keep, "exact"))


def _most_gain(share: float, nats: float) -> float:
    """At most E[(x^2 - 1) p(x)] for p with E p = k and information R: by duality, the minimum over s and nu."""
    middle = float(scipy.stats.norm.isf(share / 2))
    if nats >= -share * math.log(share) - (1.0 - share) * math.log1p(-share):  # enough to know the choice of top-k
        return math.inf
    edges = np.unique(np.r_[np.linspace(0.0, _FAR, 25), middle * np.linspace(0.0, 1.5, 31)])
    half = np.diff(edges)[:, None] / 2.0
    x = (edges[:-1, None] + half * (1.0 + _LIMIT_NODES)).ravel()
    weights = (half * _LIMIT_WEIGHTS).ravel() * 2.0 * scipy.stats.norm.pdf(x)
    excess = x * x - 1.0

    def bound(log_slope: float) -> float:
        slope = math.exp(log_slope)
        reach = slope * _FAR**2
        offset = scipy.optimize.brentq(
            lambda nu: weights @ _tilted(slope * excess - nu, share), -reach, reach, xtol=1e-14 * slope
        )
        return float(nats + weights @ _cumulant(slope * excess - offset, share)) / slope

    least = min(0.1, 1e-2 * math.sqrt(nats / (share * (1.0 - share))))
    most = _STEEPEST / min(1.0, middle**2)
    found = scipy.optimize.minimize_scalar(
        bound, bounds=(math.log(least), math.log(most)), method="bounded", options={"xatol": 1e-6}
    )
    return float(found.fun)


def _cumulant(u: Array, share: float) -> Array:
    """log(1 - k + k e^u) - k u, by its series where the difference would cancel."""
    variance = share * (1.0 - share)
    series = variance * u * u * (1.0 / 2.0 + (1.0 - 2.0 * share) * u / 6.0 + (1.0 - 6.0 * variance) * u * u / 24.0)
    direct = np.logaddexp(math.log1p(-share), math.log(share) + u)
    middle = np.log1p(share * np.expm1(np.clip(u, -700.0, 1.0)))
    return np.asarray(np.where(np.abs(u) < 1e-3, series, np.where(u > 1.0, direct, middle) - share * u))


def _tilted(u: Array, share: float) -> Array:
    """The derivative: k e^u / (1 - k + k e^u) - k."""
    grown = np.expm1(np.minimum(u, 700.0))
    return np.asarray(share * (1.0 - share) * grown / (1.0 + share * grown))


_MAX_RATIO = 1e9
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(60)


def magnitude_noise(zcdp_rho: float) -> float:
    r"""Noise multiplier with which \|g\| + N(0, (sigma_a C)^2) is rho-zCDP: 1 / sqrt(2 rho), whatever dim, keep and groups.

    The entrywise absolute values of two gradients are at most as far apart as the gradients: one example added or removed moves
    them by at most C.

    Args:
        zcdp_rho: zCDP budget of one step, one example added or removed, in [1e-70, 1e70].

    Returns:
        The noise multiplier sigma_a, > 0.

    Source: GIP, section 4.2, "can be replaced by any index pruning methods" (gip.alternatives).

    Example: by hand: 1 / sqrt(2 * 0.5); a budget of 0.001 a step asks for 22 C.
        >>> from dptheory.pruning import magnitude_noise
        >>> [round(magnitude_noise(rho), 2) for rho in (0.5, 0.001)]
        [1.0, 22.36]
    """
    return 1.0 / math.sqrt(2.0 * _validate.size("zcdp_rho", zcdp_rho))


def gumbel_rate(*, zcdp_rho: float, keep: int) -> float:
    r"""Rate lambda C with which top-k of \|g\| + Gumbel noise of scale 1 / lambda, in every group, is rho-zCDP.

    :math:`\lambda C = 2\sqrt{\rho / K}`: K rounds of the exponential mechanism, each with log-odds in an interval of length
    at most sqrt(2) lambda \|v_group\|. One step spends K lambda^2 C^2 / 4 over all groups together.

    Args:
        zcdp_rho: zCDP budget of one step, one example added or removed, in [1e-70, 1e70].
        keep: number kept in a group, 1..1e12.

    Returns:
        lambda C, > 0.

    Source: GIP, section 4.2, "can be replaced by any index pruning methods" (gip.alternatives).

    Example: an index budget of 0.001 a step: noise of scale 81 C on every magnitude.
        >>> from dptheory.pruning import gumbel_rate
        >>> round(1 / gumbel_rate(zcdp_rho=1e-3, keep=26), 1)
        80.6
    """
    zcdp_rho = _validate.size("zcdp_rho", zcdp_rho)
    return 2.0 * math.sqrt(zcdp_rho / _validate.integer("keep", keep, 1, 10**12))


def magnitude_gain(*, keep_share: float, noise_ratio: float) -> float:
    r"""Share of the top-k gain that top-k of \|g\| + N(0, s^2) retains, for Gaussian g and large groups.

    Absolute error about 1e-15 / (1 - k).

    Args:
        keep_share: k in [1e-12, 1 - 1e-9].
        noise_ratio: s / sigma_g, 0 or in [1e-70, 1e9].

    Returns:
        The share, in [0, 1].

    Source: GIP, Proposition 2 and section 4.2 (gip.alternatives).

    Example: noise as large as the entries takes half of what top-k gains.
        >>> from dptheory.pruning import magnitude_gain
        >>> round(magnitude_gain(keep_share=0.1, noise_ratio=1.0), 3)
        0.513
    """
    return _gain(keep_share, noise_ratio, lambda x: np.asarray(scipy.special.ndtr(x)))


def gumbel_gain(*, keep_share: float, noise_ratio: float) -> float:
    r"""Share of the top-k gain that top-k of \|g\| + Gumbel(scale s) retains, for Gaussian g and large groups.

    Absolute error about 1e-15 / (1 - k).

    Args:
        keep_share: k in [1e-12, 1 - 1e-9].
        noise_ratio: s / sigma_g, 0 or in [1e-70, 1e9].

    Returns:
        The share, in [0, 1].

    Source: GIP, Proposition 2 and section 4.2 (gip.alternatives).

    Example: noise as large as the entries takes two thirds of what top-k gains.
        >>> from dptheory.pruning import gumbel_gain
        >>> round(gumbel_gain(keep_share=0.1, noise_ratio=1.0), 3)
        0.313
    """
    return _gain(keep_share, noise_ratio, lambda x: np.asarray(-np.expm1(-np.exp(np.minimum(x, 700.0)))))


def released_gain(*, sigma_g: float, noise_std: float) -> float:
    r"""Share of the top-k gain that top-k of the released g + Z retains: sigma_g^2 / (sigma_g^2 + noise_std^2), at every dim.

    It costs no privacy. But it selects large noise: see :func:`released_top_k_mse`.

    Args:
        sigma_g: standard deviation of an entry of g, in [1e-70, 1e70].
        noise_std: standard deviation of an entry of Z, sigma C, in [0, 1e70].

    Returns:
        The share, in (0, 1].

    Source: GIP, Proposition 2 and section 4.2 (gip.alternatives).

    Example: by hand: noise three times as large as the entries leaves a tenth.
        >>> from dptheory.pruning import released_gain
        >>> round(released_gain(sigma_g=1.0, noise_std=3.0), 6)
        0.1
    """
    sigma_g = _validate.size("sigma_g", sigma_g)
    noise_std = _validate.real("noise_std", noise_std, 0.0, 1e70)
    return 1.0 / (1.0 + (noise_std / sigma_g) ** 2)


def released_top_k_mse(dim: int, keep: int, *, sigma_g: float, noise_std: float) -> float:
    r"""MSE of top-k of the released g + Z: random-k's, plus (noise_std^2 - sigma_g^2) d (S - k), S the top-k energy share.

    Worse than random-k exactly where the noise is larger than the gradient.

    Args:
        dim, keep: 1 <= keep <= dim <= 1e12.
        sigma_g, noise_std: standard deviations of an entry of g and of Z, 0 or in [1e-70, 1e70].

    Returns:
        The error, in squared units of the gradient.

    Source: GIP, Proposition 2 and section 4.2 (gip.alternatives).

    Example: choosing by the noisy release keeps the largest noise: five times the error of a random mask.
        >>> from dptheory.pruning import random_k_mse, released_top_k_mse
        >>> round(float(released_top_k_mse(256, 26, sigma_g=1.0, noise_std=3.0)), 1), float(random_k_mse(256, 26, sigma_g=1.0))
        (1158.6, 230.0)
    """
    dim = _validate.integer("dim", dim, 1, 10**12)
    keep = _validate.integer("keep", keep, 1, dim)
    sigma_g, noise_std = (
        _validate.size("sigma_g", sigma_g, zero=True),
        _validate.size("noise_std", noise_std, zero=True),
    )
    random = float(
        random_k_mse(dim, keep, sigma_g=sigma_g) + noise_mse(keep=keep, clip_norm=1.0, noise_multiplier=noise_std)
    )
    return random + (noise_std**2 - sigma_g**2) * dim * top_k_gain(dim, keep, "exact")


@dataclass(frozen=True, kw_only=True)
class SelectionGains:
    """Share of the top-k gain that each way to select retains at one budget.

    Attributes:
        mallows: the Mallows mechanism.
        magnitude: top-k of the noisy magnitudes.
        gumbel: top-k of magnitudes with Gumbel noise.
        released: top-k of the noisy release, which costs nothing.
    """

    mallows: float
    magnitude: float
    gumbel: float
    released: float


def selection_gains(
    *, zcdp_rho: float, dim: int, keep: int, groups: int, sigma_g: float, clip_norm: float, noise_multiplier: float
) -> SelectionGains:
    """Retained gains at the same zCDP budget of one step: Mallows, noisy magnitudes, one-shot Gumbel, the release itself.

    Mallows by rho = 2 theta^2 min(K, d - K) a group. The gains of noisy magnitudes and Gumbel are those of large groups.

    Args:
        zcdp_rho: zCDP budget of the indices in one step, in [1e-70, 1e70]; ``released`` does not use it.
        dim, keep: size of one group and number kept in it, 1 <= keep <= (1 - 1e-9) dim, 2 <= dim <= 1e12.
        groups: number of groups, 1..1e12.
        sigma_g: standard deviation of an entry of the summed gradient, in [1e-70, 1e70].
        clip_norm: clipping norm C, in [1e-70, 1e70].
        noise_multiplier: sigma of the values, in [0, 1e70], sigma C at most 1e70 sigma_g.

    Returns:
        The retained gain of each of the four ways.

    Raises:
        ValueError: an argument outside its range, or noise for rho of more than 1e9 sigma_g.

    Source: GIP, Proposition 2 and section 4.2 (gip.alternatives).

    Example: 0.001 a step for the indices of 10,547 groups, entries of the sum a tenth of the noise on them.
        >>> from dptheory.pruning import selection_gains
        >>> gains = selection_gains(zcdp_rho=1e-3, dim=256, keep=26, groups=10_547, sigma_g=0.11, clip_norm=1.0,
        ...                         noise_multiplier=1.1)
        >>> f"{gains.mallows:.0e} {gains.magnitude:.0e} {gains.gumbel:.0e} {gains.released:.0e}"
        '8e-06 2e-03 3e-04 1e-02'
    """
    zcdp_rho = _validate.size("zcdp_rho", zcdp_rho)
    dim = _validate.integer("dim", dim, 2, 10**12)
    keep = _validate.integer("keep", keep, 1, dim - math.ceil(dim / 10**9))  # at least a billionth is left out
    groups = _validate.integer("groups", groups, 1, 10**12)
    clip_norm = _validate.size("clip_norm", clip_norm)
    scale = clip_norm / _validate.size("sigma_g", sigma_g)
    noise_multiplier = _validate.real("noise_multiplier", noise_multiplier, 0.0, 1e70)
    if not scale * noise_multiplier <= 1e70:
        raise ArgumentError("noise_multiplier", "be at most 1e70 sigma_g / clip_norm", noise_multiplier)
    magnitude, gumbel = scale * magnitude_noise(zcdp_rho), scale / gumbel_rate(zcdp_rho=zcdp_rho, keep=keep)
    if not max(magnitude, gumbel) <= _MAX_RATIO:
        raise ArgumentError(
            "zcdp_rho",
            f"ask for noise of at most {_MAX_RATIO:g} sigma_g",
            zcdp_rho,
            then=f": {max(magnitude, gumbel):g} sigma_g",
        )
    # Below 1e-70 sigma_g noise costs nothing.
    magnitude, gumbel = (ratio if ratio >= _validate.SMALLEST else 0.0 for ratio in (magnitude, gumbel))
    share = keep / dim
    theta = math.sqrt(zcdp_rho / groups / index_sensitivity(dim, keep))
    return SelectionGains(
        mallows=retained_gain(dim, keep, theta=theta),
        magnitude=magnitude_gain(keep_share=share, noise_ratio=magnitude),
        gumbel=gumbel_gain(keep_share=share, noise_ratio=gumbel),
        released=released_gain(sigma_g=1.0, noise_std=scale * noise_multiplier),
    )


def _gain(keep_share: float, noise_ratio: float, tail: Callable[[Array], Array]) -> float:
    """E[(x^2 - 1) p(x)] / (2 a phi(a)), p(x) = tail((|x| - t) / scale) the chance to be selected, E p = k."""
    share = _validate.real("keep_share", keep_share, 1e-12, 1.0 - 1e-9)
    scale = _validate.size("noise_ratio", noise_ratio, high=_MAX_RATIO, zero=True)
    if scale == 0.0:
        return 1.0
    middle = float(scipy.stats.norm.isf(share / 2))

    def selected(threshold: float, weight: Callable[[Array], Array]) -> float:
        cuts = np.clip(threshold + scale * np.array([-40.0, -16.0, -8.0, -2.0, 0.0, 2.0, 8.0]), 0.0, _FAR)
        total = 0.0
        edges = np.unique(np.concatenate([np.linspace(0.0, _FAR, 9), cuts]))
        for low, high in itertools.pairwise(edges.tolist()):
            x = 0.5 * (low + high) + 0.5 * (high - low) * _NODES
            density = 2.0 * np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
            total += 0.5 * (high - low) * float(_WEIGHTS @ (density * weight(x) * tail((x - threshold) / scale)))
        return total

    reach = 40.0 * scale
    threshold = float(
        scipy.optimize.brentq(
            lambda t: selected(t, np.ones_like) - share,
            -reach,
            _FAR + reach,
            xtol=1e-13 * (min(1.0, middle) + scale),
            rtol=1e-14,
        )
    )
    top = 2.0 * middle * float(scipy.stats.norm.pdf(middle))
    return min(1.0, max(0.0, selected(threshold, lambda x: x * x - 1.0) / top))
