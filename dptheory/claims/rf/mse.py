"""RF: the error of the clipped, masked, noised gradient, and what a smaller error is worth."""

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import chi2, ncx2, norm

from dptheory import gradients
from dptheory.checks import ExactCheck, Kind, MeanCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims._draws import all_masks, drawn_masks
from dptheory.claims.rf import _gaussian_moments

Array = NDArray[np.float64]

# --- enumeration ------------------------------------------------------------------------------------------------------

Vector = tuple[int, ...]

# Every norm that clipping with C = 5 meets is a whole number, with and without a mask of one or two entries.
_BATCHES: tuple[tuple[Vector, ...], ...] = (((3, 4), (6, 8), (0, -9)), ((5, 12), (-8, 6)), ((0, 0), (20, -21)))
_BOUND = 5


def _clipped(gradient: Sequence[int]) -> list[Fraction]:
    square = sum(x * x for x in gradient)
    norm = math.isqrt(square)
    if norm * norm != square:
        raise ValueError(f"the norm of {gradient} is not whole")
    return [Fraction(x) * min(Fraction(1), Fraction(_BOUND, norm or 1)) for x in gradient]


def _batch_mean(batch: Sequence[Vector], mask: Sequence[int]) -> list[Fraction]:
    rows = [_clipped([x * b for x, b in zip(g, mask, strict=True)]) for g in batch]
    return [sum(column, Fraction(0)) / len(batch) for column in zip(*rows, strict=True)]


def _mean(batch: Sequence[Vector]) -> list[Fraction]:
    return [Fraction(sum(column), len(batch)) for column in zip(*batch, strict=True)]


def _square(vector: Sequence[Fraction]) -> Fraction:
    return sum((x * x for x in vector), Fraction(0))


def _enumerated_mse(batch: Sequence[Vector], kept: int, size: int) -> Fraction:
    """E|w - (g + m * noise)|^2 over masks and noise entries +-C size / B, w the mean of the batch's gradients."""
    w, dim = _mean(batch), len(batch[0])
    errors = []
    for mask in all_masks(dim, kept):
        g = _batch_mean(batch, mask)
        for signs in itertools.product((-1, 1), repeat=dim):
            noise = [Fraction(_BOUND * size * s * b, len(batch)) for s, b in zip(signs, mask, strict=True)]
            errors.append(_square([a - b - c for a, b, c in zip(w, g, noise, strict=True)]))
    return sum(errors, Fraction(0)) / len(errors)


def _split_mse(batch: Sequence[Vector], kept: int, size: int, divisor: int) -> Fraction:
    """Signal loss plus kept C^2 size^2 / B^divisor."""
    w, dim = _mean(batch), len(batch[0])
    masks = all_masks(dim, kept)
    loss = sum(
        (_square([a - b for a, b in zip(w, _batch_mean(batch, mask), strict=True)]) for mask in masks), Fraction(0)
    )
    return loss / len(masks) + Fraction(kept * (_BOUND * size) ** 2, len(batch) ** divisor)


# --- Gaussian gradients -----------------------------------------------------------------------------------------------


def _gaussian_errors(
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
    norms = np.linalg.norm(gradients, axis=2, keepdims=True)
    mean = (gradients * np.minimum(1.0, bound / np.maximum(norms, 1e-300))).mean(axis=1)
    noise = rng.standard_normal((n, center.size)) * (bound * sigma / batch) * mask
    return np.asarray(np.square(center - mean - noise).sum(axis=1))


_FLAT = (0.25,) * 16
_UNEVEN = (1.0, 0.5, 0.5, -0.25, 0.1, 0.0)


def _uneven_norms() -> list[float]:
    return [math.sqrt(sum(_UNEVEN[j] ** 2 for j in m)) for m in itertools.combinations(range(6), 3)]


def _uneven_breakdown() -> gradients.MseBreakdown:
    norm = math.sqrt(sum(x * x for x in _UNEVEN))
    return gradients.clipped_gradient_mse(norm, 6, 0.2, 0.9, 1.5, 4, 0.5, masked_norms=_uneven_norms())


def _flat_breakdown() -> gradients.MseBreakdown:
    return gradients.clipped_gradient_mse(1.0, 16, 0.2, 0.9, 1.5, 4, 0.75)


def _moment_cases() -> Iterator[tuple[str, float, int, float, float]]:
    settings = (
        (1.0, 1, 1.0, 1.0),
        (0.0, 3, 1.0, 0.1),
        (1.0, 10, 0.1, 1.0),
        (5.0, 1000, 0.1, 4.0),
        (1.0, 100, 1.0, 12.0),
    )
    names = ("slope", "shortfall", "second_moment", "variance", "clip_probability")
    for name, setting in itertools.product(names, settings):
        yield (name, *setting)


def _textbook_moment(name: str, grad_norm: float, dim: int, deviation: float, bound: float) -> float:
    """The moments from distribution functions of the noncentral chi-square law, by SciPy; moderate dimensions only."""
    square, shift = (bound / deviation) ** 2, (grad_norm / deviation) ** 2

    def below(freedom: int) -> float:
        return float(ncx2.cdf(square, freedom, shift)) if shift else float(ncx2.cdf(square, freedom, 1e-12))

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
    density = partial(_over_root, freedom=dim + 2, shift=max(shift, 1e-12))
    return below(dim + 2) + math.sqrt(square) * float(
        quad(density, square, top, points=points, limit=500, epsabs=1e-13)[0]
    )


def _small_variance(grad_norm: float, dim: int, deviation: float, distance: float) -> float:
    """V on a grid of the part of xi along w and of the quantiles of the rest; C = |w| + distance s. Lengths less |w|, over s."""
    z, half = np.linspace(-9, 9, 6001), (np.arange(60) + 0.5) / 60
    across = np.asarray(chi2.ppf(half, dim - 1))[:, None]
    across *= (dim - 1) / float(across.mean())
    law = norm.pdf(z) * (z[1] - z[0]) / 60
    longer = z + deviation * across / (2 * (grad_norm + deviation * z))  # |g|, the next term is of order s^2
    shrink = np.minimum(1.0, (grad_norm + deviation * distance) / (grad_norm + deviation * longer))
    along = (
        np.where(
            longer > distance, (distance - longer) * (grad_norm + deviation * z) / (grad_norm + deviation * longer), 0.0
        )
        + z
    )
    mean = float((law * along).sum())
    return deviation**2 * float((law * ((along - mean) ** 2 + shrink**2 * across)).sum())


def _found_variance(grad_norm: float, dim: int, deviation: float, distance: float) -> float:
    bound = grad_norm + distance * deviation
    return gradients.gaussian_clip_moments(grad_norm, dim, deviation, bound).variance


_SIZES = ((1.0, 5000, 0.02, 1.2, 1.5, 64, 0.5), (0.5, 10**6, 1e-3, 1.0, 4.0, 1000, 0.9))
"""|w|, d, s, C, sigma, B, r."""
_ERROR_FIELDS = ("signal_loss", "noise", "alignment", "second_moment", "clip_probability")


def _large_error(side: str, name: str, *setting: float) -> float:
    """A field of the calculator for a flat gradient."""
    grad_norm, dim, deviation, clip, sigma, batch, rate = setting
    found = gradients.clipped_gradient_mse(grad_norm, int(dim), deviation, clip, sigma, int(batch), rate)
    return float(getattr(getattr(found, side), name))


def _large_error_by_hand(side: str, name: str, *setting: float) -> float:
    """The same from SciPy's noncentral chi-square law."""
    grad_norm, dim, deviation, clip, sigma, batch, rate = setting
    kept = int(dim) if side == "full" else round((1 - rate) * dim)
    size = grad_norm * math.sqrt(kept / dim)
    moment = partial(_textbook_moment, grad_norm=size, dim=kept, deviation=deviation, bound=clip)
    slope, variance = moment("slope"), moment("variance")
    noise = kept * (clip * sigma / batch) ** 2
    return {
        "signal_loss": grad_norm**2 - size**2 + (1 - slope) ** 2 * size**2 + variance / batch,
        "noise": noise,
        "alignment": slope * size**2,
        "second_moment": (slope * size) ** 2 + variance / batch + noise,
        "clip_probability": moment("clip_probability"),
    }[name]


def _over_root(u: float, freedom: int, shift: float) -> float:
    return float(ncx2.pdf(u, freedom, shift)) / math.sqrt(u)


# --- rf.eq6, rf.eq7 ---------------------------------------------------------------------------------------------------

_EQ6 = Claim(
    id="rf.eq6",
    title="error of DP-SGD's gradient",
    source=Source("rf", "section 2.2", (6,)),
    statement=r"$E\|w-(\bar g+\xi_{DP})\|^2 = E\|w-\bar g\|^2+C^2\sigma^2d/B^2$.",
    verdict=Verdict.HOLDS,
    conditions=("the noise has mean zero, variance (C sigma / B)^2 in every entry, and is independent of the batch",),
    correction=r"For $g_i\sim N(w,s^2I)$, independent, in closed form: $E\|w-\bar g\|^2 = (1-a)^2\|w\|^2+V/B$, $a = E\min(1,\tau/R_{d+2})$, $V = s^2E\min(R_d^2,\tau^2)-a^2\|w\|^2$, $\tau = C/s$, $R_k$ noncentral chi with $k$ degrees of freedom and $\lambda = \|w\|^2/s^2$.",
    calculators=(gradients.clipped_gradient_mse, gradients.gaussian_clip_moments),
    checks=(
        ExactCheck(
            name="split by enumeration, two-point noise",
            cases=lambda: [(i, size) for i in range(len(_BATCHES)) for size in (1, 3)],
            truth=lambda i, size: _enumerated_mse(_BATCHES[i], 2, size),
            statement=lambda i, size: _split_mse(_BATCHES[i], 2, size, 2),
            wrong=lambda i, size: _split_mse(_BATCHES[i], 2, size, 1),
        ),
        ExactCheck(
            name="variance far below C^2: small deviations, on a grid",
            cases=lambda: [
                (562.015, 100, 1e-6, -5.61015e8),
                (1.0, 100, 1e-5, -2.0),
                (1.0, 1000, 1e-5, 3.0),
                *((1.0, d, s, t) for d in (2, 100) for s in (1e-7, 1e-9) for t in (-1e3, -5, -1, 0, 1, 5)),
            ],
            truth=_small_variance,
            statement=_found_variance,
            wrong=lambda grad_norm, dim, deviation, distance: dim * deviation**2,
            tolerance=1e-4,
        ),
        ExactCheck(
            name="every field with and without a mask, d = 5,000 and 1e6, by SciPy's noncentral chi-square law",
            cases=lambda: [
                (side, name, *one) for side in ("full", "masked") for name in _ERROR_FIELDS for one in _SIZES
            ],
            truth=_large_error_by_hand,
            statement=_large_error,
            wrong=lambda side, name, *one: 1.001 * _large_error(side, name, *one),
            tolerance=1e-6,
        ),
        ExactCheck(
            name="clip moments by SciPy's noncentral chi-square law",
            cases=_moment_cases,
            truth=_textbook_moment,
            statement=lambda name, *setting: getattr(gradients.gaussian_clip_moments(*setting), name),
            wrong=lambda name, w, k, s, c: getattr(gradients.gaussian_clip_moments(w, k + 1, s, c), name),
            tolerance=1e-8,
        ),
        MeanCheck(
            name="Gaussian gradients, d = 16, batch of 4",
            sampler=partial(_gaussian_errors, w=_FLAT, kept=16, bound=0.9, deviation=0.2, sigma=1.5, batch=4),
            claimed=lambda: _flat_breakdown().full.mse,
            row_bytes=6000,
        ),
        MeanCheck(
            name="signal loss alone, heavy clipping",
            sampler=partial(_gaussian_errors, w=_FLAT, kept=16, bound=0.5, deviation=0.2, sigma=0.0, batch=4),
            claimed=lambda: gradients.clipped_gradient_mse(1.0, 16, 0.2, 0.5, 0.0, 4, 0.0).full.signal_loss,
            row_bytes=6000,
        ),
        ExactCheck(
            name="every moment, small and users' sizes, by quadrature over both parts of the gradient",
            cases=lambda: itertools.product(
                ("slope", "shortfall", "second_moment", "variance", "clip_probability"),
                (3, 40, 20_000, 10**6),
                (0.3, 1.0),
            ),
            truth=lambda name, dim, spread: _gaussian_moments.split_moments(
                1.0, dim, spread / math.sqrt(dim), _gaussian_moments.crossed(dim, spread)
            )[name],
            statement=lambda name, dim, spread: getattr(
                gradients.gaussian_clip_moments(
                    1.0, dim, spread / math.sqrt(dim), _gaussian_moments.crossed(dim, spread)
                ),
                name,
            ),
            wrong=lambda name, dim, spread: getattr(
                gradients.gaussian_clip_moments(
                    1.0, dim, spread / math.sqrt(dim), 1.02 * _gaussian_moments.crossed(dim, spread)
                ),
                name,
            ),
            tolerance=2e-3,
        ),
        ExactCheck(
            name="every field, small and users' sizes, put together from those moments",
            cases=lambda: _gaussian_moments.cases(),
            truth=_gaussian_moments.assembled,
            statement=lambda field, dim, uneven: _gaussian_moments.read(field, dim, uneven),
            wrong=lambda field, dim, uneven: 1.05 * _gaussian_moments.read(field, dim, uneven),
            tolerance=2e-3,
        ),
    ),
    proved=True,
    figure="rf_signal_loss",
)

_EQ7 = Claim(
    id="rf.eq7",
    title="error of random freeze's gradient",
    source=Source("rf", "section 2.2", (7,)),
    statement=r"$E\|w-(\hat g+m\odot\xi_{DP})\|^2 = E\|w-\hat g\|^2+(1-r)C^2\sigma^2d/B^2$.",
    verdict=Verdict.HOLDS,
    conditions=(
        "the noise has mean zero, variance (C sigma / B)^2 in every entry, and is independent of batch and mask",
        "the mask keeps (1 - r) d entries; its law may be any",
    ),
    correction=r"For $g_i\sim N(w,s^2I)$, a uniform mask for the whole batch, $k=(1-r)d$ and $w'=m\odot w$: $E\|w-\hat g\|^2 = r\|w\|^2+E_m[(1-a)^2\|w'\|^2+V/B]$, $a$ and $V$ as in rf.eq6 with $k$ and $w'$.",
    calculators=(gradients.clipped_gradient_mse, gradients.gaussian_clip_moments),
    checks=(
        ExactCheck(
            name="split by enumeration over masks, two-point noise",
            cases=lambda: [(i, kept, size) for i in (0, 1) for kept in (1, 2) for size in (1, 3)],
            truth=lambda i, kept, size: _enumerated_mse(_BATCHES[i], kept, size),
            statement=lambda i, kept, size: _split_mse(_BATCHES[i], kept, size, 2),
            wrong=lambda i, kept, size: (
                _split_mse(_BATCHES[i], kept, size, 2) + Fraction((2 - kept) * (5 * size) ** 2, len(_BATCHES[i]) ** 2)
            ),
        ),
        MeanCheck(
            name="flat gradient, 4 of 16 kept",
            sampler=partial(_gaussian_errors, w=_FLAT, kept=4, bound=0.9, deviation=0.2, sigma=1.5, batch=4),
            claimed=lambda: _flat_breakdown().masked.mse,
            row_bytes=6000,
        ),
        MeanCheck(
            name="uneven gradient, 3 of 6 kept, averaged over masks",
            sampler=partial(_gaussian_errors, w=_UNEVEN, kept=3, bound=0.9, deviation=0.2, sigma=1.5, batch=4),
            claimed=lambda: _uneven_breakdown().masked.mse,
            row_bytes=3000,
        ),
    ),
    proved=True,
    figure="rf_signal_loss",
)

# --- rf.mse_criterion -------------------------------------------------------------------------------------------------


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
    return gradients.clipped_gradient_mse(entry * math.sqrt(dim), dim, 0.0, clip, size / clip, 1, 1.0 - kept / dim)


def _decrease_cases() -> Iterator[tuple[int, int, int, int]]:
    yield from itertools.product((1, 3), (2, 3), (1,), (2, 5))
    yield from ((1, 4, 2, 0), (1, 4, 3, 3))


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
    found = gradients.clipped_gradient_mse(2 * math.sqrt(dim), dim, spread, clip, 2 * size / clip, 2, 1 - kept / dim)
    return kept / dim * (1 - kept / dim) * found.full.second_moment


_MSE_CRITERION = Claim(
    id="rf.mse_criterion",
    title="a lower MSE as a reason to mask",
    source=Source("rf", "section 2.2"),
    statement=r"Where $\mathrm{MSE}_{RF} < \mathrm{MSE}_{DP}$ random freeze is the better choice: the lower error shows the possibility of better convergence.",
    verdict=Verdict.FALSE,
    conditions=(
        "for clipped gradients both outcomes occur: masking can raise the descent ratio of an uneven gradient",
    ),
    correction=r"What a step is worth is $(E\langle w,g\rangle)^2/E\|g\|^2$. Without clipping masking multiplies it by exactly $1-r$, however much the MSE falls; and $(1-r)$ times DP-SGD's own gradient, a mere change of learning rate, has a smaller MSE than the mask.",
    printed=printed_preference,
    calculators=(gradients.clipped_gradient_mse,),
    checks=(
        ExactCheck(
            name="does masking pay? best decrease on |w|^2 / 2, by enumeration",
            cases=_decrease_cases,
            truth=lambda *case: _best_decrease(*case) > _best_decrease(case[0], case[1], case[1], case[3]),
            statement=lambda *case: (lambda b: b.masked.descent_ratio > b.full.descent_ratio)(_noisy(*case)),
            wrong=lambda *case: (lambda b: printed_preference(b.full.mse, b.masked.mse))(_noisy(*case)),
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="descent ratio: twice the best decrease",
            cases=_decrease_cases,
            truth=lambda *case: 2 * _best_decrease(*case),
            statement=lambda *case: _noisy(*case).masked.descent_ratio,
            wrong=lambda *case: _noisy(*case).full.descent_ratio,
            tolerance=1e-12,
        ),
        ExactCheck(
            name="scaling beats masking in MSE by x (1 - x) E|g|^2, unclipped: entry by entry, in fractions",
            cases=lambda: itertools.product((4, 1000, 10**6), (1, 3), (0, 1), (0, 3)),
            truth=_gap_by_entry,
            statement=_stated_gap,
            wrong=lambda dim, kept, spread, size: _stated_gap(dim, kept, 0, size),
            tolerance=1e-9,
        ),
    ),
    proved=True,
)

CLAIMS = (_EQ6, _EQ7, _MSE_CRITERION)
