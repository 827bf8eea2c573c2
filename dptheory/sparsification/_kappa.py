"""Random sparsification of clipped gradients: kappa, the ratio of lower bounds on the descent with and without the mask.

Notation: w = gradient, C = clip_norm, r = drop_rate, x = 1 - r, m a uniformly random mask with x d ones, xi = deviation of one
example's gradient from w; P = P(|xi| < z C), P'_m = P(|m*xi| < z C), c = (1 - z) C, f(X) = min(X, c sqrt X), which is
min(|v|, c) |v| at X = |v|^2. The random-sparsification paper has z = 3/4, random freeze z = 1/4.
"""

import math
import sys
from dataclasses import dataclass, replace

import numpy as np
import scipy

from dptheory import _arrays, _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.errors import ArgumentError
from dptheory.gradients import all_masks, gaussian_clip_moments, kept_entries, random_masks, symmetric_clip_lower_bound
from dptheory.sparsification._mask_average import Bracket, Shares, descent, mean_descent
from dptheory.sparsification._tradeoff import relative_bound

# --- kappa without a split of the clipping norm: its largest value, from norms alone


def largest_split_free_kappa(
    *, grad_norm: float, clip_norm: float, deviation_norms: ArrayLike, drop_rate: float
) -> float:
    r"""min(x, sqrt(x) C / |w|) / H with H = E min(1, (C - |xi|)_+ / |w|): no kappa without a split is larger; none is below x.

    kappa without a split is E_m E[|m*w| min(|m*w|, (C - |m*xi|)_+)] / E[|w| min(|w|, (C - |xi|)_+)]. Where this bound is at most
    sqrt(x), no mask that keeps the share x lowers the bound of Theorem 3.5 (``bias=0.0``) at a tuned learning rate.

    Args:
        grad_norm: \|w|, in [1e-70, 1e70].
        clip_norm: C, in [1e-70, 1e70].
        deviation_norms: equally likely values of |xi|, for instance measured ones; >= 0, shape (samples,).
        drop_rate: r = 1 - x, in [0, 1).

    Returns:
        The bound, 1 for rate 0; inf where H is 0, because every deviation is at least C.

    Source: RS, Lemma 3.3; our own (rs.split_free).

    Example: half of the deviations leave no room, so H = 1/2: a mask that keeps a quarter or less cannot pay.
        >>> from dptheory.sparsification import largest_split_free_kappa
        >>> norms = dict(grad_norm=0.5, clip_norm=1.0, deviation_norms=[0.1, 2.0])
        >>> [round(largest_split_free_kappa(drop_rate=r, **norms) / (1 - r) ** 0.5, 3) for r in (0.5, 0.75, 0.9)]
        [1.414, 1.0, 0.632]
    """
    grad_norm, clip_norm = _validate.size("grad_norm", grad_norm), _validate.size("clip_norm", clip_norm)
    kept = 1 - _validate.real("drop_rate", drop_rate, 0.0, 1.0, ends="[)")
    norms = _validate.nonnegative("deviation_norms", deviation_norms)
    found = symmetric_clip_lower_bound(grad_norm=grad_norm, clip_norm=clip_norm, deviation_norms=norms)
    if kept == 1:
        return 1.0
    share = found.integral / grad_norm / grad_norm
    return min(kept, math.sqrt(kept) * (clip_norm / grad_norm)) / share if share > 0 else math.inf


# --- E[1(A < 1) f(Y)] for measured deviations: which masks bring a row below the threshold, and what they keep of the descent
#
# A row q_1, ..., q_d >= 0 holds the squares of one example's deviation over the threshold, A is the sum of the entries that
# the mask keeps. Rows with q_1 + ... + q_d < 1 are below for every mask. For the others Bernstein's inequality says which are
# almost surely below or above; masks are drawn for what is left.


DOUBT = 1e-4  # the drawn part's error bound fails with at most this chance
_BLOCK = 2**22
_SURE = 1e-4  # share of E[f] below which a row is not drawn


@dataclass(frozen=True)
class RowsMean:
    """Mean over the rows of E[1(A < 1) f(Y)]: the estimate, what it lies between, and the standard error of the drawn part."""

    value: float
    low: float
    high: float
    standard_error: float


def all_masks_mean(shares: Array, squares: Array, keep: int, scale: float) -> tuple[float, float]:
    """E[f(Y)] and the rows' mean of E[1(A < 1) f(Y)], over every mask."""
    every = all_masks(shares.size, keep)
    kept = descent(every @ shares, scale)
    return float(kept.mean()), float((kept * (every @ squares.T < 1.0).mean(axis=1)).mean())


def rows_mean(
    shares: Array, squares: Array, keep: int, scale: float, plain: Bracket, masks: int, seed: int
) -> RowsMean:
    """The mean over the rows of ``squares``, shape (n, d); ``plain`` brackets E[f(Y)].

    Source: RS, Lemma 3.3 (rs.kappa, rs.kappa_error).
    """
    always = squares.sum(axis=1) < 1.0
    others = squares[~always]
    below, above = _rare_chances(others, keep)
    x = keep / shares.size

    def at_most(chance: Array) -> Array:
        """E[f(Y); event] by Jensen's inequality given the event."""
        return np.minimum(plain.high, np.sqrt(chance * x))

    sure = _SURE * plain.low
    rarely = at_most(below) <= sure
    mostly = ~rarely & (at_most(above) <= sure)
    drawn = others[~rarely & ~mostly]
    certain = int(always.sum()) + int(mostly.sum())
    low = certain * plain.low - float(at_most(above[mostly]).sum())
    high = certain * plain.high + float(at_most(below[rarely]).sum())
    value, error, standard_error = 0.5 * (low + high), 0.0, 0.0
    if len(drawn):
        mean, error, standard_error = _drawn(shares, drawn, keep, scale, masks, seed)
        most = min(plain.high, mean + error)
        low += len(drawn) * max(0.0, mean - error)
        high += len(drawn) * most
        value += len(drawn) * min(mean, most)
    rows = len(squares)
    return RowsMean(value / rows, max(0.0, low) / rows, high / rows, standard_error * len(drawn) / rows)


def _rare_chances(squares: Array, keep: int) -> tuple[Array, Array]:
    """Bounds on P(A < 1) and P(A >= 1) for each row: Bernstein for the entries kept and for those left out."""
    dim = squares.shape[1]
    mean = squares.mean(axis=1)
    variance = squares.var(axis=1)
    up, down = squares.max(axis=1) - mean, mean - squares.min(axis=1)
    distance = keep * mean - 1.0

    def tail(reach: Array, kept_side: Array, left_side: Array) -> Array:
        """P(A - E[A] >= reach), reach > 0; the terms that are left out stray to the other side."""
        smallest = np.minimum(
            keep * variance + kept_side * reach / 3.0, (dim - keep) * variance + left_side * reach / 3.0
        )
        exponent = np.divide(np.square(reach), 2.0 * smallest, out=np.full_like(reach, np.inf), where=smallest > 0.0)
        return np.where(reach > 1e-9, np.exp(-exponent), 1.0)

    return tail(distance, down, up), tail(-distance, up, down)


def _drawn(shares: Array, squares: Array, keep: int, scale: float, masks: int, seed: int) -> tuple[float, float, float]:
    """Mean of 1(A < 1) f(Y) over rows and drawn masks, the empirical Bernstein bound on its error, its standard error."""
    rng, dim = np.random.default_rng(seed), shares.size
    step = max(1, _BLOCK // dim)
    found = []
    for start in range(0, masks, step):
        block = random_masks(rng=rng, count=min(step, masks - start), dim=dim, keep=keep)
        found.append(descent(block @ shares, scale) * (block @ squares.T < 1.0).mean(axis=1))
    values = np.concatenate(found)
    variance = float(values.var(ddof=1))
    most = float(descent(np.minimum(np.partition(shares, dim - keep)[dim - keep :].sum(), 1.0), scale))
    doubt = math.log(4.0 / DOUBT)
    error = math.sqrt(2.0 * variance * doubt / masks) + 7.0 * most * doubt / (3.0 * (masks - 1))
    return float(values.mean()), error, math.sqrt(variance / masks)


_RATES = 48
_NEARBY = 12
_ROUNDING = 2e-12  # in the logarithm of a bound, of two bounds together: twice what rounding does to R
_LOG_LARGEST = 709.0
_LEAST_HALF = 1e-300
_SMALLEST_Z = 1e-70
_MAX_DIM, _SHARE = 10**12, 0.75
_BEYOND = 1e70  # entries so far above the threshold decide a row whatever their size


@dataclass(frozen=True, kw_only=True)
class Kappa:
    r"""kappa at one gradient, and what it is made of.

    Attributes:
        value: kappa = E_m[P'_m f(|m*w|^2)] / (P f(|w|^2)), in [lower, upper]; inf where it exceeds the largest float.
        standard_error: of the part of ``value`` that rests on masks drawn at random; 0 where none was drawn.
        norm_ratio: R = E_m f(|m*w|^2) / f(|w|^2), kappa without deviation.
        probability: P.
        lower: x, no kappa of this rate is smaller.
        upper: min(x max(1, |w| / c), sqrt x) / P, no kappa of this rate, |w| and P is larger.
        error: \|value - kappa\| is at most this. Proved, rounding aside; where masks were drawn (``standard_error`` > 0) it
            holds with a chance of at least 0.9999 over their draw. What rounding does to R is counted, what it does to the gain
            P'/P of a Gaussian deviation is not (4e-12 of kappa at d = 1e6 and kappa = 1e79). 0 where ``value`` is inf, of which
            it says nothing.
        norm_ratio_error: \|norm_ratio - R\| is at most this. Proved, rounding aside, of which about 1e-12 of R is counted.
    """

    value: float
    standard_error: float
    norm_ratio: float
    probability: float
    lower: float
    upper: float
    error: float
    norm_ratio_error: float

    @property
    def condition(self) -> bool:
        """P >= sqrt(x), which makes ``upper`` at most 1; the paper asks for it."""
        return self.probability >= math.sqrt(self.lower)


@dataclass(frozen=True, kw_only=True)
class BestRate:
    """The rate with the smallest proved bound among those tried.

    Attributes:
        drop_rate: r.
        first_rate, last_rate: the ends of the run of tried rates around it whose U(r) may be the least, for all that ``error`` of
            their kappa and rounding leave open.
        bound: U(r) with ``kappa.value - kappa.error`` in place of kappa, so never below U(r) but for rounding; where masks were
            drawn for rows of deviations, with a chance of at least 0.99, as each of the at most 82 rates tried may miss with
            1e-4. The smallest float above 0 where that is smaller still.
        kappa: kappa at this rate.
    """

    drop_rate: float
    first_rate: float
    last_rate: float
    bound: float
    kappa: Kappa


def kappa(
    gradient: ArrayLike,
    *,
    clip_norm: float,
    drop_rate: float,
    deviation: ArrayLike = 0.0,
    deviation_share: float = 0.75,
    masks: int = 2000,
    seed: int = 0,
) -> Kappa:
    r"""kappa = E_m[P'_m f(|m*w|^2)] / (P f(|w|^2)), in [1 - r, 1] where P >= sqrt(1 - r).

    Isotropic Gaussian deviation: the ratio of two chi-square distribution functions times R. R lies between two proved bounds
    (:mod:`dptheory.sparsification`), as a rule within a thousandth of it (``error`` says), and is exact for |w| <= c (then it
    is x), where one entry or every entry is kept, for gradients with at most two sizes of entries, and where there are at
    most ``masks`` masks. Rows of deviations: rows that are almost surely on one side of z C for every mask are bounded; for
    the others ``masks`` masks are drawn, unless there are fewer.

    Args:
        gradient: w, shape (d,), entries at most 1e70 in size, of norm at least 1e-70.
        clip_norm: C, in [1e-70, 1e70].
        drop_rate: r in [0, 1) with (1 - r) d whole.
        deviation: a number s in [0, 1e70] for xi ~ N(0, s^2 I), or an array (n, d) whose rows are equally likely values of
            xi (the examples' gradients less w), entries at most 1e70 in size.
        deviation_share: share of C left to the deviation, in [1e-70, 1).
        masks: number of masks drawn, 100..1e7.
        seed: of the draw, an integer >= 0.

    Returns:
        kappa, with its parts and proved bounds.

    Raises:
        ValueError: an argument outside its range; a zero gradient, or P = 0, where kappa is undefined.

    Source: RS, Lemma 3.3 (rs.lem3.3, rs.kappa).

    Example: equal entries, all masks clipped: by hand sqrt(1 - r); below the threshold 1 - r.
        >>> from dptheory.sparsification import kappa
        >>> round(kappa([1.0] * 4, clip_norm=1.0, drop_rate=0.75).value, 4)
        0.5
        >>> round(kappa([0.01] * 4, clip_norm=1.0, drop_rate=0.75).value, 4)
        0.25
    """
    problem = _Problem.of(gradient, clip_norm, deviation, deviation_share)
    keep = kept_entries(dim=problem.shares.size, drop_rate=drop_rate)
    masks = _validate.integer("masks", masks, 100, 10**7)
    return problem.kappa(keep, masks, _validate.integer("seed", seed, 0))


def flat_kappa(*, grad_norm: float, dim: int, clip_norm: float, drop_rate: float, deviation: float = 0.0) -> Kappa:
    r"""Kappa of a gradient whose entries are all of one size, :math:`w_j = |w| / \sqrt d`.

    By :func:`kappa` at its default z = 3/4, the random-sparsification paper's.

    Args:
        grad_norm: \|w|, in [1e-70, 1e70].
        dim: number of entries d, 1..1e12.
        clip_norm: C, in [1e-70, 1e70].
        drop_rate: r in [0, 1) with (1 - r) d whole.
        deviation: s in [0, 1e70]; one example's gradient is w + xi with xi ~ N(0, s^2 I).

    Returns:
        kappa and its parts; no mask is drawn, all of them keep the same norm.

    Raises:
        ValueError: an argument outside its range, or P = 0, where kappa is undefined.

    Source: RS, Lemma 3.3 (rs.lem3.3, rs.kappa).

    Example: half of a gradient below the clip is dropped. The lower bound falls to the root of one half, the descent to half.
        >>> from dptheory.sparsification import flat_kappa
        >>> found = flat_kappa(grad_norm=2.0, dim=1000, clip_norm=4.0, drop_rate=0.5)
        >>> round(found.value, 6), found.lower
        (0.707107, 0.5)
    """
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    size, clip = _validate.size("grad_norm", grad_norm), _validate.size("clip_norm", clip_norm)
    spread = _validate.size("deviation", deviation, 0.0) / (_SHARE * clip)
    keep = kept_entries(dim=dim, drop_rate=drop_rate)
    kept, scale = keep / dim, max(1.0, size / ((1.0 - _SHARE) * clip))
    ratio = min(kept * scale, math.sqrt(kept))
    gain = _gaussian_gain(_log_gaussian_gain(dim, keep, spread)) if keep < dim else 1.0
    exact = RowsMean(ratio, ratio, ratio, 0.0)
    return _made_of(kept, ratio, _gaussian_probability(dim, spread), gain, Bracket(ratio, ratio), exact)


def best_rate(
    gradient: ArrayLike,
    *,
    clip_norm: float,
    delta_c: float,
    step_noise: float,
    deviation: ArrayLike = 0.0,
    deviation_share: float = 0.75,
) -> BestRate:
    r"""The rate with the least U(r), with the exact kappa of the gradient; of about 70 rates up to that which keeps one entry.

    All rates are tried for d <= 20. Above, about 50 numbers of entries kept are tried on a logarithmic scale, then
    twelve between the neighbours of the best. Rates are compared by the logarithm of the U(r) that is proved for them: where
    the deviation is long against deviation_share * clip_norm, P is tiny and kappa may exceed the largest float. U(r)
    bounds the mean of P f(|w|^2), so it is then tiny too, and says little of \|w|.

    Args:
        gradient, clip_norm, deviation, deviation_share: as in :func:`kappa`.
        delta_c, step_noise: as in :func:`relative_bound`, in [0, 1e70].

    Returns:
        The rate, its bound, and its kappa.

    Source: RS, Appendix G, with the exact kappa (rs.appG).

    Example: noise 100 times the other terms: four equal entries should be masked until clipping no longer helps, to one.
        >>> from dptheory.sparsification import best_rate
        >>> found = best_rate([1.0, 1.0, 1.0, 1.0], clip_norm=1.0, delta_c=0.01, step_noise=1.0)
        >>> found.drop_rate, round(found.kappa.value, 4)
        (0.75, 0.5)
    """
    problem = _Problem.of(gradient, clip_norm, deviation, deviation_share)
    dim = problem.shares.size

    def tried(keep: int) -> tuple[float, float, BestRate]:
        """Logarithms of U(r) at its proved most and least, and what is returned if this rate is the best."""
        found = problem.kappa(keep, 2000, 0)
        rate = 1.0 - keep / dim
        terms = relative_bound(drop_rate=rate, delta_c=delta_c, step_noise=step_noise, kappa=1.0)
        least, most = problem.log_ends(keep, found)
        log_bound, bound = _bound(terms, least, max(found.lower, found.value - found.error))
        alone = BestRate(drop_rate=rate, first_rate=rate, last_rate=rate, bound=bound, kappa=found)
        return log_bound, math.log(terms) - most if terms else -math.inf, alone

    def counts(first: int, last: int, number: int) -> list[int]:
        return sorted({round(float(one)) for one in np.geomspace(first, last, number)})

    keeps = sorted({*counts(1, dim, _RATES), *range(1, min(dim, 20) + 1)})
    found = {keep: tried(keep) for keep in keeps}
    best = min(reversed(keeps), key=lambda keep: found[keep][0])
    place = keeps.index(best)
    nearby = counts(keeps[max(place - 1, 0)], keeps[min(place + 1, len(keeps) - 1)], _NEARBY + 2)
    found |= {keep: tried(keep) for keep in nearby if keep not in found}
    rising = [found[keep] for keep in sorted(found, reverse=True)]
    place = min(range(len(rising)), key=lambda one: rising[one][0])
    log_bound, _, chosen = rising[place]
    rounding = _ROUNDING * max(1.0, abs(log_bound)) if math.isfinite(log_bound) else 0.0
    first, last = _arrays.run_around(np.array([least <= log_bound + rounding for _, least, _ in rising]), place)
    return replace(chosen, first_rate=rising[first][2].drop_rate, last_rate=rising[last][2].drop_rate)


def _bound(terms: float, log_least: float, least: float) -> tuple[float, float]:
    """log(terms / kappa) for the least kappa, and the bound itself, from above where it or kappa is no plain float."""
    if terms == 0.0:
        return -math.inf, 0.0
    bound = terms / least
    if bound > sys.float_info.min:
        return math.log(bound), bound
    log_bound = math.log(terms) - log_least
    return log_bound, math.exp(log_bound) * (1.0 + 1e-9) + math.ulp(0.0)


@dataclass(frozen=True)
class _Problem:
    """What does not depend on the rate: ``shares`` = w_j^2 / |w|^2, ``scale`` = max(1, |w| / c), the deviation over z C."""

    shares: Array
    ascending: Shares
    scale: float
    spread: float
    squares: Array | None
    probability: float

    @classmethod
    def of(cls, gradient: ArrayLike, clip: float, deviation: ArrayLike, z: float) -> "_Problem":
        w = _validate.vector("gradient", gradient)
        clip = _validate.size("clip_norm", clip)
        z = _validate.real("deviation_share", z, _SMALLEST_Z, 1.0, ends="[)")
        size = _arrays.norm(w)
        if size == 0.0:
            raise ArgumentError("gradient", "not be zero, where kappa is undefined", gradient)
        if size < _validate.SMALLEST:
            raise ArgumentError("gradient", f"have a norm of at least {_validate.SMALLEST:g}", gradient)
        shares = np.square(w / size)
        shares /= shares.sum()
        scale = max(1.0, size / ((1.0 - z) * clip))
        xi = _validate.bounded("deviation", deviation)
        if xi.ndim == 0:
            spread = _validate.real("deviation", float(xi), 0.0) / (z * clip)
            return cls(shares, Shares(np.sort(shares)), scale, spread, None, _gaussian_probability(w.size, spread))
        if xi.ndim != 2 or xi.shape[1] != w.size or len(xi) == 0:
            raise ArgumentError(
                "deviation", f"be a number or an array of shape (n, {w.size})", deviation, got=f"shape {xi.shape}"
            )
        squares = np.square(np.minimum(np.abs(xi) / (z * clip), _BEYOND))
        probability = float((squares.sum(axis=1) < 1.0).mean())
        if probability == 0.0:
            raise ArgumentError(
                "deviation",
                "have a row shorter than deviation_share * clip_norm, kappa is undefined",
                deviation,
                got=f"none of {len(xi)}",
            )
        return cls(shares, Shares(np.sort(shares)), scale, 0.0, squares, probability)

    def log_ends(self, keep: int, found: Kappa) -> tuple[float, float]:
        """Logarithms of the least and the largest kappa proved, beyond the largest float as well: where a Gaussian deviation leads."""
        if math.isfinite(found.value):
            most = min(found.upper, found.value + found.error)
            return math.log(max(found.lower, found.value - found.error)), math.log(max(found.value, most))
        gain = _log_gaussian_gain(self.shares.size, keep, self.spread)
        least = max(found.lower, found.norm_ratio - found.norm_ratio_error)
        return math.log(least) + gain, math.log(found.norm_ratio + found.norm_ratio_error) + gain

    def kappa(self, keep: int, masks: int, seed: int) -> Kappa:
        dim, p = self.shares.size, self.probability
        x = keep / dim
        highest = min(x * self.scale, math.sqrt(x))
        if keep == dim:
            return _made_of(1.0, 1.0, p, 1.0, Bracket(1.0, 1.0), RowsMean(1.0, 1.0, 1.0, 0.0))
        squares = self.squares if self.squares is not None else np.zeros((1, dim))
        if _few_masks(dim, keep, masks):
            ratio, mean = all_masks_mean(self.shares, squares, keep, self.scale)
            plain, rows = Bracket(ratio, ratio), RowsMean(mean, mean, mean, 0.0)
        else:
            plain = mean_descent(self.ascending, keep, self.scale)
            rows = RowsMean(plain.middle, plain.low, plain.high, 0.0)
            if self.squares is not None:
                rows = rows_mean(self.shares, squares, keep, self.scale, plain, masks, seed)
        gain = 1.0 / p if self.squares is not None else _gaussian_gain(_log_gaussian_gain(dim, keep, self.spread))
        return _made_of(x, highest, p, gain, plain, rows)


def _made_of(x: float, highest: float, p: float, gain: float, plain: Bracket, rows: RowsMean) -> Kappa:
    """kappa of the share x: R is within ``plain`` and at most ``highest``, and kappa is what ``rows`` say times the gain."""
    upper = highest / p if p > 0.0 else math.inf
    # rounding alone can lead out of the range, or masks drawn
    low, value, high = (min(max(y * gain, x), upper) for y in (rows.low, rows.value, rows.high))
    error = max(high - value, value - low) if high > low else 0.0
    return Kappa(
        value=value,
        standard_error=rows.standard_error * gain if rows.standard_error else 0.0,
        norm_ratio=plain.middle,
        probability=p,
        lower=x,
        upper=upper,
        error=error,
        norm_ratio_error=plain.half_width,
    )


def _few_masks(dim: int, keep: int, masks: int) -> bool:
    """There are no more masks than would be drawn."""
    rough = math.lgamma(dim + 1) - math.lgamma(keep + 1) - math.lgamma(dim - keep + 1)
    return rough < math.log(masks) + 1.0 and math.comb(dim, keep) <= masks


def _gaussian_probability(dim: int, spread: float) -> float:
    """P for xi ~ N(0, spread^2 I) and threshold 1."""
    return float(scipy.special.gammainc(dim / 2, 0.5 / spread / spread)) if spread > 0.0 else 1.0


def _log_gaussian_gain(dim: int, keep: int, spread: float) -> float:
    """log(P' / P) for xi ~ N(0, spread^2 I) and threshold 1."""
    half = 0.5 / spread / spread if spread > 0.0 else math.inf
    if math.isinf(half):
        return 0.0
    if half < _LEAST_HALF:  # there the incomplete gamma function is half^shape / Gamma(shape + 1) to every digit
        log_half = -math.log(2.0) - 2.0 * math.log(spread)
        return (keep - dim) / 2 * log_half + math.lgamma(dim / 2 + 1) - math.lgamma(keep / 2 + 1)
    return _log_gammainc(keep / 2, half) - _log_gammainc(dim / 2, half)


def _gaussian_gain(log_gain: float) -> float:
    return math.exp(log_gain) if log_gain < _LOG_LARGEST else math.inf


def _log_gammainc(shape: float, point: float) -> float:
    """Logarithm of the regularised lower incomplete gamma function; its power series where that underflows."""
    value = float(scipy.special.gammainc(shape, point))
    if value > 1e-290:
        return math.log(value)
    terms = 50 + math.ceil(40.0 / (1.0 - point / (shape + 1.0)))
    series = 1.0 + float(np.cumprod(point / (shape + np.arange(1.0, terms))).sum())
    if shape < 20.0:
        peak = shape * math.log(point) - point - math.lgamma(shape + 1.0)
    else:  # Stirling: the large parts of the three terms cancel
        excess = (point - shape) / shape
        rest = 1.0 / (12.0 * shape) - 1.0 / (360.0 * shape**3) + 1.0 / (1260.0 * shape**5)
        log_ratio = math.log1p(excess) if excess > -0.5 else math.log(point / shape)
        peak = shape * (log_ratio - excess) - 0.5 * math.log(2.0 * math.pi * shape) - rest
    return peak + math.log(series)


# --- kappa without any bound between: the share of the exact descent that a mask keeps, for isotropic Gaussian deviation


def isotropic_kappa(*, grad_norm: float, dim: int, clip_norm: float, drop_rate: float, deviation: float = 0.0) -> float:
    r"""E_m E<w, clip(m * g)> / E<w, clip(g)> for g ~ N(w, s^2 I) and entries of w that are all of one size: exact.

    No gradient of the same norm has more. With k = x d and the noncentral chi laws R of
    :func:`dptheory.gradients.gaussian_clip_moments`

    .. math:: \kappa^* = x\, \frac{E \min(1, C / s R_{k+2}(x|w|^2/s^2))}{E \min(1, C / s R_{d+2}(|w|^2/s^2))}

    It is the ratio of the descents themselves; :func:`kappa` is that of the lower bounds on them that the papers use, and can be
    far above it where these say little.

    Args:
        grad_norm: \|w|, in [1e-70, 1e70].
        dim: number of entries d, 1..1e12.
        clip_norm: clipping norm C, in [1e-70, 1e70].
        drop_rate: r in [0, 1) with (1 - r) d whole.
        deviation: s, standard deviation of one entry of one example's gradient, in [0, 1e70].

    Returns:
        The ratio, to about nine digits, at least 1 - r.

    Source: RS, Lemma 3.3 and Theorem 3.5; our own (rs.phase).

    Example: clipped to a tenth of the gradient's length, with deviations twice as long as it: sqrt(1 - r) is not reached.
        >>> from dptheory.sparsification import isotropic_kappa
        >>> round(isotropic_kappa(grad_norm=1.0, dim=100, clip_norm=0.1, drop_rate=0.75, deviation=0.2), 4)
        0.4987
    """
    grad_norm = _validate.size("grad_norm", grad_norm)
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    keep = kept_entries(dim=dim, drop_rate=drop_rate)
    share = keep / dim

    def slope(length: float, entries: int) -> float:
        return gaussian_clip_moments(grad_norm=length, dim=entries, deviation=deviation, clip_norm=clip_norm).slope

    return share * (slope(math.sqrt(share) * grad_norm, keep) / slope(grad_norm, dim))


def largest_isotropic_kappa(*, dim: int, drop_rate: float) -> float:
    r"""sqrt(x (1 + r / (6 k - 1))), k = x d: the exact kappa of isotropic Gaussian deviation is never larger.

    Whatever the gradient, C and the size of the deviation; also for mixtures of Gaussians of several sizes, heavy tails included.
    With this kappa a mask lowers the bound of Theorem 3.5 at a tuned learning rate only above :func:`least_kappa_tuned`, so only
    where (sigma / B)^2 > 6 - 1/k - 1/d.

    Args:
        dim: number of entries d, 1..1e12.
        drop_rate: r in [0, 1) with (1 - r) d whole.

    Returns:
        The bound, 1 for rate 0.

    Source: RS, Lemma 3.3 and Theorem 3.5; our own (rs.phase).

    Example: sqrt(1 - r) can be exceeded by 10 % where one entry is kept, by next to nothing where many are.
        >>> from dptheory.sparsification import largest_isotropic_kappa
        >>> [round(largest_isotropic_kappa(dim=d, drop_rate=0.9) / 0.1**0.5, 6) for d in (10, 100, 10_000)]
        [1.086278, 1.007598, 1.000075]
    """
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    keep = kept_entries(dim=dim, drop_rate=drop_rate)
    share = keep / dim
    return math.sqrt(share * (1.0 + (1.0 - share) / (6.0 * keep - 1.0)))
