import functools
import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial

import numpy as np
import scipy

from dptheory import gradients, sparsification
from dptheory._arrays import Array
from dptheory.claims._draws import all_masks, drawn_masks
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.rf.thm1 import clipped
from dptheory.claims.rs._kappa import CASES, calculated, exact_kappa_of
from dptheory.claims.rs._runs import clip as clip_rows
from dptheory.claims.rs._runs import spelled
from dptheory.claims.rs.tuned import least_over_rates

order_d = new_row(
    id="rf.order_d",
    source=Source("rf", "section 1, after equation 3"),
    verdict=Verdict.CONDITIONAL,
    calculators=(gradients.clipped_gradient_mse,),
)


def errors(
    grad_norm: float,
    dim: int,
    deviation: float,
    clip: float,
    sigma: float,
    batch: int = 1,
    rate: float = 0.5,
    norms: Sequence[float] | None = None,
) -> gradients.MseBreakdown:
    step = spelled(d=dim, C=clip, sigma=sigma, B=batch, r=rate)
    return gradients.clipped_gradient_mse(grad_norm=grad_norm, deviation=deviation, **step, masked_norms=norms)


def clip_moments(grad_norm: float, dim: int, deviation: float, clip: float) -> gradients.ClipMoments:
    return gradients.gaussian_clip_moments(grad_norm=grad_norm, dim=dim, deviation=deviation, clip_norm=clip)


def _error(dim: int, norm: float) -> float:
    """The error of the clipped and noisy gradient (norm, 0, ..., 0), C = sigma C / B = 1: entry by entry."""
    return (norm - min(norm, 1.0)) ** 2 + sum(1.0 for _ in range(dim))


@order_d.equal((16, 16.0), (16, 4.0), (400, 20.0), (10, 0.5), tolerance=1e-12, kind=Kind.COUNTEREXAMPLE)
def _(dim: int, norm: float) -> Sides:
    """the error, against that of a gradient of norm sqrt d"""
    found = errors(norm, dim, 0.0, 1.0, 1.0)
    return found.full.mse, lambda: _error(dim, norm), _error(dim, math.sqrt(dim)) if norm > math.sqrt(dim) else 0.0


convergence = new_row(
    id="rf.convergence",
    source=Source("rf", "section 2.1, text after equation 5"),
    verdict=Verdict.FALSE,
    severity=Severity.SERIOUS,
    calculators=(gradients.clip,),
)

_SKEW = (((5, 0), Fraction(3, 8)), ((-3, 4), Fraction(5, 16)), ((-3, -4), Fraction(5, 16)))
"""xi and its chance where it is not 0: norm 5, so that clipping scales all by one factor."""


def _law(share: Fraction) -> tuple[tuple[tuple[int, int], Fraction], ...]:
    return ((0, 0), 1 - share), *((xi, share * p) for xi, p in _SKEW)


def _stop(clip: Fraction, share: Fraction) -> Fraction:
    """Where the masked updates lead to, for clip in [3, 5]: 3 eta (5 - C) / (8 - 3 eta)."""
    return 3 * share * (5 - clip) / (8 - 3 * share)


def _masked_update(w: tuple[Fraction, Fraction], clip: Fraction, share: Fraction) -> tuple[Fraction, Fraction]:
    """E_m E m * clip(m * (w + xi)), one of two entries kept: each entry is clipped by itself, with chance 1/2."""

    def entry(j: int) -> Fraction:
        return sum((p * max(-clip, min(clip, w[j] + xi[j])) for xi, p in _law(share)), Fraction(0)) / 2

    return entry(0), entry(1)


def _dense_update_at_zero(clip: Fraction, share: Fraction) -> tuple[Fraction, Fraction]:
    """E clip(xi) for clip <= 5."""
    first, second = (sum((p * xi[j] * clip / 5 for xi, p in _law(share)), Fraction(0)) for j in (0, 1))
    return first, second


def _largest_update(masked: bool, clip: Fraction, share: Fraction) -> Fraction:
    stop = (_stop(clip, share), Fraction(0))
    update = _masked_update(stop, clip, share) if masked else _dense_update_at_zero(clip, share)
    return max(map(abs, update))


@convergence.equal(
    *itertools.product(
        (True, False), (Fraction(c, 2) for c in range(6, 10)), (Fraction(1, n) for n in (1, 2, 10, 100))
    ),
    kind=Kind.COUNTEREXAMPLE,
)
def _(masked: bool, clip: Fraction, share: Fraction) -> Sides:
    """largest entry of the mean update, in fractions: at 0 without a mask, at 3 eta (5 - C) / (8 - 3 eta) with one"""
    # wrong: that of the masked update at 0
    at_zero = _masked_update((Fraction(0), Fraction(0)), clip, share)[0]
    return Fraction(0), lambda: _largest_update(masked, clip, share), at_zero


def _limit(masked: bool, clip: float, share: float, steps: int = 3000, rate: float = 0.05) -> float:
    """Norm of the gradient w where the mean updates lead to, from (2, 1)."""
    w = [2.0, 1.0]
    law = _law(Fraction(share))
    for _ in range(steps):
        if masked:
            update = [sum(float(p) * max(-clip, min(clip, w[j] + xi[j])) for xi, p in law) / 2 for j in (0, 1)]
        else:
            kept = [(p, gradients.clip([w[0] + xi[0], w[1] + xi[1]], clip_norm=clip)) for xi, p in law]
            update = [sum(float(p) * float(g[j]) for p, g in kept) for j in (0, 1)]
        w = [value - rate * step for value, step in zip(w, update, strict=True)]
    return float((w[0] ** 2 + w[1] ** 2) ** 0.5)


@convergence.equal((True, 4.0, 1.0), (False, 4.0, 1.0), (True, 3.0, 0.5), (False, 4.0, 0.125), tolerance=1e-6)
def _(masked: bool, clip: float, share: float) -> Sides:
    """1 + the norm of the gradient where the mean updates lead to"""
    norm = float(_stop(Fraction(clip), Fraction(share))) if masked else 0.0
    return 1 + norm, lambda: 1 + _limit(masked, clip, share), 2.0


def _proxy(name: str, share: Fraction) -> tuple[tuple[tuple[Fraction, Fraction], Fraction], ...]:
    """A symmetric law to put for the deviations."""
    zero, half = Fraction(0), Fraction(1, 2)
    if name == "none":
        return (((zero, zero), Fraction(1)),)
    if name == "small":
        return ((half, zero), half), ((-half, zero), half)
    law = [((Fraction(xi[0]), Fraction(xi[1])), p) for xi, p in _law(share)]
    return tuple(((sign * xi[0], sign * xi[1]), p / 2) for xi, p in law for sign in (1, -1))


def _bias_and_bounded(name: str, share: Fraction) -> tuple[Fraction, Fraction, Fraction]:
    """-E_m b at the stopping point, kappa, and P h(w) |w|; C = 4, one of two entries kept. There <w, E_m g> = 0."""
    clip, law = Fraction(4), _proxy(name, share)
    w = _stop(clip, share)
    bias = sum((p * w * max(-clip, min(clip, w + xi[0])) for xi, p in law), Fraction(0)) / 2
    size = min(w, 3 * clip / 4) * w
    near = sum((p for xi, p in law if xi[0] ** 2 + xi[1] ** 2 < (clip / 4) ** 2), Fraction(0))
    masked = sum((p for xi, p in law if abs(xi[0]) < clip / 4), Fraction(0)) * size / 2
    return bias, masked / (near * size), near * size


@convergence.equal(lambda: itertools.product(("none", "small", "mirrored"), (Fraction(1, n) for n in (2, 10, 100))))
def _(name: str, share: Fraction) -> Sides:
    """at the stopping point the bias over kappa is at least all that is bounded"""
    bias, kappa, bounded = _bias_and_bounded(name, share)
    # wrong: the bias itself
    return True, lambda: bias / kappa >= bounded, bias >= bounded


inverse_kappa = new_row(
    id="rf.inverse_kappa",
    source=Source("rf", "section 2.1, text after equation 5, on kappa"),
    verdict=Verdict.HOLDS,
)


def _inverse(dim: int, keep: int) -> Fraction:
    """1 / kappa of the gradient (5, 0, ..., 0) without deviation, C = 4, by enumeration of the masks."""
    descents = [5 * mask[0] * min(5 * mask[0], 3) for mask in all_masks(dim, keep)]
    return 5 * min(5, 3) / Fraction(sum(descents), len(descents))


@inverse_kappa.equal((10, 1), (10, 5), (4, 3), (7, 2))
def _(dim: int, keep: int) -> Sides:
    """one entry: 1 / kappa = 1 / (1 - r)"""
    return Fraction(dim, keep), lambda: _inverse(dim, keep), Fraction(1)


# --- Errors of clipped, masked, noised batch gradients: by enumeration in fractions, and for Gaussian gradients.


Vector = tuple[int, ...]

# Every norm that clipping with C = 5 meets is a whole number, with and without a mask of one or two entries.
BATCHES: tuple[tuple[Vector, ...], ...] = (((3, 4), (6, 8), (0, -9)), ((5, 12), (-8, 6)), ((0, 0), (20, -21)))
_BOUND = 5


def _batch_mean(batch: Sequence[Vector], mask: Vector) -> list[Fraction]:
    rows = [clipped(g, mask, _BOUND) for g in batch]
    return [sum(column, Fraction(0)) / len(batch) for column in zip(*rows, strict=True)]


def _mean(batch: Sequence[Vector]) -> list[Fraction]:
    return [Fraction(sum(column), len(batch)) for column in zip(*batch, strict=True)]


def _square(vector: Sequence[Fraction]) -> Fraction:
    return sum((x * x for x in vector), Fraction(0))


def enumerated_mse(batch: Sequence[Vector], kept: int, size: int) -> Fraction:
    """E|w - (g + m * noise)|^2 over masks and noise entries +-C size / B, w the mean of the batch's gradients."""
    w, dim = _mean(batch), len(batch[0])
    errors = []
    for mask in all_masks(dim, kept):
        g = _batch_mean(batch, mask)
        for signs in itertools.product((-1, 1), repeat=dim):
            noise = [Fraction(_BOUND * size * s * b, len(batch)) for s, b in zip(signs, mask, strict=True)]
            errors.append(_square([a - b - c for a, b, c in zip(w, g, noise, strict=True)]))
    return sum(errors, Fraction(0)) / len(errors)


def split_mse(batch: Sequence[Vector], kept: int, size: int, divisor: int) -> Fraction:
    """Signal loss plus kept C^2 size^2 / B^divisor."""
    w, dim = _mean(batch), len(batch[0])
    masks = all_masks(dim, kept)
    loss = sum(
        (_square([a - b for a, b in zip(w, _batch_mean(batch, mask), strict=True)]) for mask in masks), Fraction(0)
    )
    return loss / len(masks) + Fraction(kept * (_BOUND * size) ** 2, len(batch) ** divisor)


def gaussian_errors(
    rng: np.random.Generator,
    n: int,
    w: tuple[float, ...],
    kept: int,
    deviation: float,
    bound: float,
    sigma: float,
    batch: int,
) -> Array:
    """|w - released|^2 for a batch of Gaussian gradients under one random mask, clipped with plain NumPy."""
    center = np.array(w)
    mask = drawn_masks(rng, n, center.size, kept)
    gradients = (center + deviation * rng.standard_normal((n, batch, center.size))) * mask[:, None]
    mean = clip_rows(gradients, bound).mean(axis=1)
    noise = rng.standard_normal((n, center.size)) * (bound * sigma / batch) * mask
    return np.asarray(np.square(center - mean - noise).sum(axis=1))


FLAT = (0.25,) * 16


def flat_breakdown() -> gradients.MseBreakdown:
    """Errors of flat Gaussian gradients, d = 16, with 4 entries kept and without a mask, in batches of 4."""
    return errors(1.0, 16, 0.2, 0.9, 1.5, batch=4, rate=0.75)


# Moments of clipped Gaussian gradients by quadrature over both parts of the gradient, and the errors put together from them.


@functools.lru_cache(maxsize=256)
def split_moments(grad_norm: float, dim: int, deviation: float, bound: float) -> dict[str, float]:
    """Moments of clip(g): the trapezoidal rule along w, equally likely values of the chi-square law across it."""
    nodes = np.linspace(-7.0, 7.0, 801)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()
    along = (grad_norm + deviation * nodes)[:, None]
    across = deviation**2 * 2.0 * scipy.special.gammaincinv((dim - 1) / 2, (np.arange(1000) + 0.5) / 1000)
    square = along**2 + across
    slope = float(weights @ (np.minimum(1.0, bound / np.sqrt(square)) * along).mean(axis=1)) / grad_norm
    second = float(weights @ np.minimum(square, bound**2).mean(axis=1))
    rest = np.maximum(bound**2 - along[:, 0] ** 2, 0.0) / deviation**2
    return {
        "slope": slope,
        "shortfall": 1.0 - slope,
        "second_moment": second,
        "variance": second - (slope * grad_norm) ** 2,
        "clip_probability": float(weights @ scipy.special.gammaincc((dim - 1) / 2, rest / 2)),
    }


_ERROR_FIELDS = ("signal_loss", "noise", "alignment", "second_moment", "clip_probability")
_FIELDS = tuple(f"{side}.{name}" for side in ("full", "masked") for name in (*_ERROR_FIELDS, "mse", "descent_ratio"))


_BATCH, _SIGMA, _SPREAD = 4, 1.5, 0.6


def _norms(uneven: bool) -> tuple[float, ...]:
    """Norms of half of the entries of a gradient of norm 1; their mean square is 1/2, as over all masks."""
    return (0.3, math.sqrt(0.91)) if uneven else (math.sqrt(0.5),)


def _bound(field: str, dim: int, uneven: bool) -> float:
    """A clipping norm that about half the gradients exceed: all entries, or those kept for a field of the masked side."""
    deviation = _SPREAD / math.sqrt(dim)
    length, kept = (_norms(uneven)[-1], dim // 2) if field.startswith("masked") else (1.0, dim)
    return math.sqrt(length**2 + kept * deviation**2) + 0.3 * deviation


def read(field: str, dim: int, uneven: bool) -> float:
    """The field as the calculator gives it."""
    deviation, bound = _SPREAD / math.sqrt(dim), _bound(field, dim, uneven)
    found = errors(1.0, dim, deviation, bound, _SIGMA, _BATCH, norms=_norms(True) if uneven else None)
    return float(operator.attrgetter(field)(found))


def _put_together(
    whole: float, norm: float, kept: int, clip: float, sigma: float, batch: float, moments: Mapping[str, float]
) -> dict[str, float]:
    """Errors of a gradient of norm ``whole``, of which masks leave ``norm``, from the moments of what is clipped."""
    slope, drawn, noise = moments["slope"], moments["variance"] / batch, kept * (clip * sigma / batch) ** 2
    return {
        "signal_loss": whole**2 - norm**2 + ((1 - slope) * norm) ** 2 + drawn,
        "noise": noise,
        "alignment": slope * norm**2,
        "second_moment": (slope * norm) ** 2 + drawn + noise,
        "clip_probability": moments["clip_probability"],
    }


def assembled(field: str, dim: int, uneven: bool) -> float:
    """The same field from :func:`split_moments` and the definitions of the errors."""
    bound, sides = _bound(field, dim, uneven), {}
    for side, norms, kept in (("full", (1.0,), dim), ("masked", _norms(uneven), dim // 2)):
        rows = [
            _put_together(1.0, w, kept, bound, _SIGMA, _BATCH, split_moments(w, kept, _SPREAD / math.sqrt(dim), bound))
            for w in norms
        ]
        one = {name: math.fsum(row[name] for row in rows) / len(rows) for name in rows[0]}
        noise = one["noise"]
        sides[side] = one | {
            "mse": one["signal_loss"] + noise,
            "descent_ratio": one["alignment"] ** 2 / one["second_moment"],
        }
    if field.startswith("delta"):
        name = "mse" if field == "delta_mse" else "signal_loss"
        return sides["full"][name] - sides["masked"][name]
    side, name = field.split(".")
    return sides[side][name]


_MOMENTS = ("slope", "shortfall", "second_moment", "variance", "clip_probability")
_MOMENT_SETTINGS = (
    (1.0, 1, 1.0, 1.0),
    (0.0, 3, 1.0, 0.1),
    (1.0, 10, 0.1, 1.0),
    (5.0, 1000, 0.1, 4.0),
    (1.0, 100, 1.0, 12.0),
)


def _moment(name: str, grad_norm: float, dim: int, deviation: float, bound: float) -> float:
    """By the calculator."""
    return float(getattr(clip_moments(grad_norm, dim, deviation, bound), name))


def _textbook_moment(name: str, grad_norm: float, dim: int, deviation: float, bound: float) -> float:
    """The moments from distribution functions of the noncentral chi-square law, by SciPy; moderate dimensions only."""
    square, shift = (bound / deviation) ** 2, (grad_norm / deviation) ** 2

    def below(freedom: int) -> float:
        return float(scipy.stats.ncx2.cdf(square, freedom, shift or 1e-12))

    if name == "clip_probability":
        return 1.0 - below(dim)
    if name == "second_moment":
        inside = dim * below(dim + 2) + shift * below(dim + 4)
        return deviation**2 * inside + bound**2 * (1.0 - below(dim))
    if name == "shortfall":
        return 1.0 - _textbook_moment("slope", grad_norm, dim, deviation, bound)
    if name == "variance":
        second, slope = (_textbook_moment(one, grad_norm, dim, deviation, bound) for one in ("second_moment", "slope"))
        return second - (slope * grad_norm) ** 2
    mean, spread = dim + 2 + shift, math.sqrt(2 * (dim + 2) + 4 * shift)
    top = max(square, mean) + 60 * spread + 200
    points = [p for p in (mean - 3 * spread, mean, mean + 3 * spread) if p > square] or None

    def density(u: float) -> float:
        return float(scipy.stats.ncx2.pdf(u, dim + 2, max(shift, 1e-12))) / math.sqrt(u)

    beyond = scipy.integrate.quad(density, square, top, points=points, limit=500, epsabs=1e-13)[0]
    return below(dim + 2) + math.sqrt(square) * float(beyond)


def _small_variance(grad_norm: float, dim: int, deviation: float, distance: float) -> float:
    """V on a grid of the part of xi along w and of the quantiles of the rest; C = |w| + distance s. Lengths less |w|, over s."""
    z, half = np.linspace(-9, 9, 6001), (np.arange(60) + 0.5) / 60
    across = np.asarray(scipy.stats.chi2.ppf(half, dim - 1))[:, None]
    across *= (dim - 1) / float(across.mean())
    law = scipy.stats.norm.pdf(z) * (z[1] - z[0]) / 60
    longer = z + deviation * across / (2 * (grad_norm + deviation * z))  # |g|, the next term is of order s^2
    shrink = np.minimum(1.0, (grad_norm + deviation * distance) / (grad_norm + deviation * longer))
    cut = (distance - longer) * (grad_norm + deviation * z) / (grad_norm + deviation * longer)
    along = np.where(longer > distance, cut, 0.0) + z
    mean = float((law * along).sum())
    return deviation**2 * float((law * ((along - mean) ** 2 + shrink**2 * across)).sum())


_SIZES = ((1.0, 5000, 0.02, 1.2, 1.5, 64, 0.5), (0.5, 10**6, 1e-3, 1.0, 4.0, 1000, 0.9))


def _large_error_by_hand(side: str, name: str, *setting: float) -> float:
    """A field for a flat gradient, from SciPy's noncentral chi-square law."""
    grad_norm, dim, deviation, clip, sigma, batch, rate = setting
    kept = int(dim) if side == "full" else round((1 - rate) * dim)
    size = grad_norm * math.sqrt(kept / dim)
    moment = partial(_textbook_moment, grad_norm=size, dim=kept, deviation=deviation, bound=clip)
    moments = {one: moment(one) for one in ("slope", "variance", "clip_probability")}
    return _put_together(grad_norm, size, kept, clip, sigma, batch, moments)[name]


eq6 = new_row(
    id="rf.eq6",
    source=Source("rf", "section 2.2", (6,)),
    verdict=Verdict.HOLDS,
    calculators=(gradients.clipped_gradient_mse, gradients.gaussian_clip_moments),
    figure="rf_signal_loss",
)


@eq6.equal(lambda: [(i, size) for i in range(len(BATCHES)) for size in (1, 3)])
def _(i: int, size: int) -> Sides:
    """split by enumeration, two-point noise"""
    batch = BATCHES[i]
    return split_mse(batch, 2, size, 2), lambda: enumerated_mse(batch, 2, size), split_mse(batch, 2, size, 1)


@eq6.equal(
    lambda: [
        (562.015, 100, 1e-6, -5.61015e8),
        (1.0, 100, 1e-5, -2.0),
        (1.0, 1000, 1e-5, 3.0),
        *((1.0, d, s, t) for d in (2, 100) for s in (1e-7, 1e-9) for t in (-1e3, -5, -1, 0, 1, 5)),
    ],
    tolerance=1e-4,
)
def _(grad_norm: float, dim: int, deviation: float, distance: float) -> Sides:
    """variance far below C^2: small deviations, on a grid"""
    return (
        _moment("variance", grad_norm, dim, deviation, grad_norm + distance * deviation),
        lambda: _small_variance(grad_norm, dim, deviation, distance),
        dim * deviation**2,
    )


@eq6.equal(
    lambda: [(side, name, *one) for side in ("full", "masked") for name in _ERROR_FIELDS for one in _SIZES],
    tolerance=1e-6,
)
def _(side: str, name: str, *setting: float) -> Sides:
    """every field with and without a mask, d = 5,000 and 1e6, by SciPy's noncentral chi-square law"""
    stated = float(getattr(getattr(errors(*setting), side), name))  # type: ignore[arg-type]
    return stated, lambda: _large_error_by_hand(side, name, *setting), 1.001 * stated


@eq6.equal(*((name, *one) for name in _MOMENTS for one in _MOMENT_SETTINGS), tolerance=1e-8)
def _(name: str, grad_norm: float, dim: int, deviation: float, bound: float) -> Sides:
    """clip moments by SciPy's noncentral chi-square law"""
    return (
        _moment(name, grad_norm, dim, deviation, bound),
        lambda: _textbook_moment(name, grad_norm, dim, deviation, bound),
        _moment(name, grad_norm, dim + 1, deviation, bound),
    )


@eq6.mean(partial(gaussian_errors, w=FLAT, kept=16, bound=0.9, deviation=0.2, sigma=1.5, batch=4), row_bytes=6000)
def _() -> float:
    """Gaussian gradients, d = 16, batch of 4"""
    return flat_breakdown().full.mse


@eq6.mean(partial(gaussian_errors, w=FLAT, kept=16, bound=0.5, deviation=0.2, sigma=0.0, batch=4), row_bytes=6000)
def _() -> float:
    """signal loss alone, heavy clipping"""
    return errors(1.0, 16, 0.2, 0.5, 0.0, batch=4, rate=0.0).full.signal_loss


@eq6.equal(*itertools.product(_MOMENTS, (3, 40, 20_000, 10**6), (0.3, 1.0)), tolerance=2e-3)
def _(name: str, dim: int, spread: float) -> Sides:
    """every moment, small and users' sizes, by quadrature over both parts of the gradient"""
    deviation = spread / math.sqrt(dim)
    bound = math.sqrt(1.0 + spread**2) + 0.3 * deviation  # which about half the gradients exceed
    return (
        _moment(name, 1.0, dim, deviation, bound),
        lambda: split_moments(1.0, dim, deviation, bound)[name],
        _moment(name, 1.0, dim, deviation, 1.02 * bound),
    )


# field, dimension, and whether the masked norms are given; differences of two errors cancel in high dimension
@eq6.equal(
    *itertools.product(_FIELDS, (40, 20_000), (False, True)),
    *itertools.product(("delta_signal", "delta_mse"), (40,), (False, True)),
    tolerance=2e-3,
)
def _(field: str, dim: int, uneven: bool) -> Sides:
    """every field, small and users' sizes, put together from those moments"""
    found = read(field, dim, uneven)
    return found, lambda: assembled(field, dim, uneven), 1.05 * found


_UNEVEN = (1.0, 0.5, 0.5, -0.25, 0.1, 0.0)


eq7 = new_row(
    id="rf.eq7",
    source=Source("rf", "section 2.2", (7,)),
    verdict=Verdict.HOLDS,
    calculators=(gradients.clipped_gradient_mse, gradients.gaussian_clip_moments),
    figure="rf_signal_loss",
)


@eq7.equal(lambda: [(i, kept, size) for i in (0, 1) for kept in (1, 2) for size in (1, 3)])
def _(i: int, kept: int, size: int) -> Sides:
    """split by enumeration over masks, two-point noise"""
    batch = BATCHES[i]
    stated = split_mse(batch, kept, size, 2)
    unmasked = Fraction((2 - kept) * (5 * size) ** 2, len(batch) ** 2)
    return stated, lambda: enumerated_mse(batch, kept, size), stated + unmasked


@eq7.mean(partial(gaussian_errors, w=FLAT, kept=4, bound=0.9, deviation=0.2, sigma=1.5, batch=4), row_bytes=6000)
def _() -> float:
    """flat gradient, 4 of 16 kept"""
    return flat_breakdown().masked.mse


@eq7.mean(partial(gaussian_errors, w=_UNEVEN, kept=3, bound=0.9, deviation=0.2, sigma=1.5, batch=4), row_bytes=3000)
def _() -> float:
    """uneven gradient, 3 of 6 kept, averaged over masks"""
    norms = [math.sqrt(sum(x * x for x in kept)) for kept in itertools.combinations(_UNEVEN, 3)]
    return errors(math.sqrt(sum(x * x for x in _UNEVEN)), 6, 0.2, 0.9, 1.5, batch=4, norms=norms).masked.mse


def printed_preference(full_mse: float, masked_mse: float) -> bool:
    """Section 2.2: random freeze is to be preferred where its MSE is lower."""
    return masked_mse < full_mse


def _best_decrease(entry: int, dim: int, kept: int, size: int) -> Fraction:
    """max over learning rates of |w|^2 / 2 - E|w - rate g|^2 / 2, w = (entry, ...), g = m * (w + noise), noise entries +-size."""
    aligned, squares, count = 0, 0, 0
    for mask in all_masks(dim, kept):
        for signs in itertools.product((-1, 1), repeat=dim):
            g = [b * (entry + size * s) for s, b in zip(signs, mask, strict=True)]
            aligned += sum(entry * x for x in g)
            squares += sum(x * x for x in g)
            count += 1
    return Fraction(aligned, count) ** 2 / (2 * Fraction(squares, count))


def _noisy(entry: int, dim: int, kept: int, size: int) -> gradients.MseBreakdown:
    """The same setting for the calculator: nothing is clipped, C sigma / B = size."""
    clip = 100.0
    return errors(entry * math.sqrt(dim), dim, 0.0, clip, size / clip, rate=1.0 - kept / dim)


_DECREASES = (*itertools.product((1, 3), (2, 3), (1,), (2, 5)), (1, 4, 2, 0), (1, 4, 3, 3))


def _gap_by_entry(dim: int, kept: int, spread: int, size: int) -> Fraction:
    """MSE of the mask minus that of x times DP-SGD's gradient, w = (2, ..., 2), nothing clipped, batches of 2.

    Both errors are sums over the entries, all of one law: mask bit, deviations +-spread of two examples, noise +-size.
    """
    x, gap = Fraction(kept, dim), Fraction(0)
    for one, two, noise in itertools.product((-1, 1), repeat=3):
        g = 2 + Fraction(spread * (one + two), 2) + size * noise
        gap += (x * (2 - g) ** 2 + (1 - x) * 4 - (2 - x * g) ** 2) / 8
    return dim * gap


def _stated_gap(dim: int, kept: int, spread: int, size: int) -> float:
    """x (1 - x) E|g|^2 by the calculator."""
    clip = 1e3 * dim
    found = errors(2 * math.sqrt(dim), dim, spread, clip, 2 * size / clip, batch=2, rate=1 - kept / dim)
    return kept / dim * (1 - kept / dim) * found.full.second_moment


mse_criterion = new_row(
    id="rf.mse_criterion",
    source=Source("rf", "section 2.2"),
    verdict=Verdict.NOT_SHOWN,
    kernel_theorems=("reading_is_false",),
    printed=printed_preference,
    calculators=(gradients.clipped_gradient_mse,),
)


@mse_criterion.equal(*_DECREASES, kind=Kind.COUNTEREXAMPLE)
def _(entry: int, dim: int, kept: int, size: int) -> Sides:
    """does masking pay? best decrease on |w|^2 / 2, by enumeration"""
    found = _noisy(entry, dim, kept, size)
    return (
        found.masked.descent_ratio > found.full.descent_ratio,
        lambda: _best_decrease(entry, dim, kept, size) > _best_decrease(entry, dim, dim, size),
        printed_preference(found.full.mse, found.masked.mse),
    )


@mse_criterion.equal(*_DECREASES, tolerance=1e-12)
def _(entry: int, dim: int, kept: int, size: int) -> Sides:
    """descent ratio: twice the best decrease"""
    found = _noisy(entry, dim, kept, size)
    return found.masked.descent_ratio, lambda: 2 * _best_decrease(entry, dim, kept, size), found.full.descent_ratio


@mse_criterion.equal(lambda: itertools.product((4, 1000, 10**6), (1, 3), (0, 1), (0, 3)), tolerance=1e-9)
def _(dim: int, kept: int, spread: int, size: int) -> Sides:
    """scaling beats masking in MSE by x (1 - x) E|g|^2, unclipped: entry by entry, in fractions"""
    without = _stated_gap(dim, kept, 0, size)
    return _stated_gap(dim, kept, spread, size), lambda: _gap_by_entry(dim, kept, spread, size), without


def _raised_ratio(x: float, kappa: float, noise: float) -> float:
    """Tuned bound with the mask, T / x steps and noise D / x, over that without; A = 1."""

    def bound(x: float, kappa: float) -> float:
        run = spelled(gap=1.0, T=100.0 / x, r=1 - x)
        return sparsification.tuned_bound(**run, kappa=kappa, curvature_term=1.0, noise_term=noise / x).bound

    return bound(x, kappa) / bound(1.0, 1.0)


def _pays_by_search(x: float, kappa: float, noise: float) -> bool:
    """The two bounds, each minimised over the learning rate by a search; x D / x = D."""
    raised = least_over_rates(1.0 + noise, 1.0, 100.0 / x) / kappa
    return raised < least_over_rates(1.0 + noise, 1.0, 100.0) * (1 - 1e-9)


raise_noise = new_row(
    id="rf.raise_noise",
    source=Source("rf", "section 2.2, after Fig. 1"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
    calculators=(sparsification.tuned_bound,),
)


@raise_noise.equal(
    lambda: [(x, f * math.sqrt(x), n) for x in (0.1, 0.5) for f in (0.5, 0.99, 1.01, 1.4) for n in (0.0, 3.0, 1e4)],
    kind=Kind.COUNTEREXAMPLE,
)
def _(x: float, kappa: float, n: float) -> Sides:
    """better or not, by search over the learning rate"""
    return _raised_ratio(x, kappa, n) < 1 and kappa > math.sqrt(x), lambda: _pays_by_search(x, kappa, n), True


@raise_noise.equal(
    *itertools.product(tuple(CASES)[:4], (0, 10)),
    tolerance=1e-12,
)
def _(name: str, n: int) -> Sides:
    """ratio of the bounds where kappa is x, 1/2, 1, 2"""
    return _raised_ratio(0.25, calculated(name).value, n), lambda: Fraction(1, 2) / exact_kappa_of(name), Fraction(1, 2)


@raise_noise.inequality(
    {
        "second": Range(0, 1),
        "third": Range(0, 1),
        "keep": Range(1, 4, integer=True),
        "scale": Range(0.01, 100, log=True),
        "noise": Range(1e-3, 1e9, log=True),
    },
    # wrong: the same if the mask cost no descent (kappa = 1)
    wrong=lambda second, third, keep, scale, noise: _raised_ratio(keep / 4, 1.0, noise) - 1,
)
def _same_probability_slack(second: float, third: float, keep: int, scale: float, noise: float) -> float:
    """never better where P' = P"""
    w = np.array([1.0, second, third, second])
    found = sparsification.kappa(0.25 * scale * w / np.linalg.norm(w), clip_norm=1.0, drop_rate=1 - keep / 4)
    return _raised_ratio(keep / 4, found.value, noise) - 1


def _more_steps_slack(rate: float, noise_multiplier: float) -> float:
    """by the limit theorem subsampling buys at least 1 / (1 - r) times the steps

    By the central limit theorem of subsampled composition T grows by (e^a - 1) / (e^(x a) - 1) >= 1 / x, a = 1 /
    sigma^2.
    """
    a = noise_multiplier**-2
    return math.expm1(a) / math.expm1((1 - rate) * a) * (1 - rate) - 1


raise_noise.inequality(
    {"rate": Range(0, 0.999), "noise_multiplier": Range(0.3, 100, log=True)},
    # wrong: by 1 / (1 - r)^2
    wrong=lambda rate, noise_multiplier: (_more_steps_slack(rate, noise_multiplier) + 1) * (1 - rate) - 1,
)(_more_steps_slack)
