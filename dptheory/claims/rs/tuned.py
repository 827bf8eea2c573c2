import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import scipy

from dptheory import convergence, sparsification
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs._kappa import calculated, exact_kappa_of, spread_of
from dptheory.claims.rs._runs import least, spelled

# --- The least bound over the learning rate, by search


def _searched_rate(slope: float, gap: float, steps: float) -> tuple[float, float]:
    """Where gap / (g steps) + g slope is least over the learning rate g, and its value there, by a search over log g."""
    log_g, bound = least(lambda log: gap / steps * math.exp(-log) + slope * math.exp(log), -30.0, 30.0)
    return math.exp(log_g), bound


def least_over_rates(slope: float, gap: float, steps: float) -> float:
    """min over the learning rate of gap / (g steps) + g slope."""
    return _searched_rate(slope, gap, steps)[1]


Ratio = Callable[[float, float, float], float]


tuned_row = new_row(
    id="rs.tuned",
    source=Source("rs", "new, on Theorem 3.5"),
    verdict=Verdict.HOLDS,
    calculators=(sparsification.tuned_bound, sparsification.least_kappa_tuned),
    figure="tradeoff",
)


@tuned_row.equal(
    lambda: [
        (r, k, gap, t, d)
        for r in (0.0, 0.75)
        for k in (0.4, 1.0)
        for gap in (0.1, 3.0)
        for t, d in ((10.0, 0.0), (1e4, 50.0))
    ],
    tolerance=1e-10,
)
def _(r: float, k: float, gap: float, t: float, d: float) -> Sides:
    """least bound, by search over the learning rate"""
    run = spelled(gap=gap, T=t, r=r)
    found = sparsification.tuned_bound(**run, kappa=k, curvature_term=2.0, noise_term=d)
    noise = 2.0 + (1 - r) * d
    return found.bound, lambda: least_over_rates(noise, gap, t) / k, (gap / t + noise) / k


_GAIN_CASES = tuple(
    (Fraction(1, n * n), Fraction(k, 20), Fraction(ratio))
    for n in (2, 3)
    for k in range(2, 21)
    for ratio in (0, 1, 10, 1000)
)
"""x, kappa, D / A."""


@tuned_row.equal(lambda: _GAIN_CASES)
def _(x: Fraction, k: Fraction, ratio: Fraction) -> Sides:
    """who gains, in fractions"""
    needed = sparsification.least_kappa_tuned(drop_rate=float(1 - x), noise_to_curvature=float(ratio))
    squares_fall = (1 + x * ratio) / k**2 < 1 + ratio
    falls_at_a_fixed_rate = (1 + x * ratio) / k < 1 + ratio
    return k > needed * (1 + 1e-12), squares_fall, falls_at_a_fixed_rate


def _tuned_ratio(rate: float, kappa: float, noise_ratio: float) -> float:
    """Tuned bound with the mask over that without."""
    setting = {"objective_gap": 1.0, "steps": 100.0, "curvature_term": 1.0, "noise_term": noise_ratio}
    masked, plain = (
        sparsification.tuned_bound(drop_rate=r, kappa=k, **setting).bound for r, k in ((rate, kappa), (0.0, 1.0))
    )
    return masked / plain


def _fixed_ratio(rate: float, kappa: float, noise_ratio: float) -> float:
    """The same at a learning rate so large that Delta_L / (g T) is negligible."""
    bound = partial(sparsification.relative_bound, delta_c=1.0, step_noise=noise_ratio)
    return bound(drop_rate=rate, kappa=kappa) / bound(drop_rate=0.0, kappa=1.0)


def _same_probability(ratio: Ratio, second: float, third: float, keep: int, scale: float, noise_ratio: float) -> float:
    w = np.array([1.0, second, third, second, 1.0, third])
    found = sparsification.kappa(0.25 * scale * w / np.linalg.norm(w), clip_norm=1.0, drop_rate=1 - keep / 6)
    return ratio(1 - keep / 6, found.value, noise_ratio) - 1


@tuned_row.inequality(
    {
        "second": Range(0, 1),
        "third": Range(0, 1),
        "keep": Range(1, 6, integer=True),
        "scale": Range(0.01, 100, log=True),
        "noise_ratio": Range(1e-3, 1e9, log=True),
    },
    wrong=partial(_same_probability, _fixed_ratio),  # at a fixed learning rate
)
def _no_gain_slack(**point: float) -> float:
    """no gain where P' = P"""
    return _same_probability(_tuned_ratio, **point)  # type: ignore[arg-type]


def _small_gradient(probability: float, keep: int, scale: float) -> tuple[float, float]:
    """(rate, kappa) of six entries with |w| = scale c <= c and Gaussian deviation."""
    found = sparsification.kappa(
        np.full(6, 0.25 * scale / math.sqrt(6)),
        clip_norm=1.0,
        drop_rate=1 - keep / 6,
        deviation=spread_of(probability, 6),
    )
    return 1 - keep / 6, found.value


@tuned_row.inequality(
    {
        "margin": Range(0, 1),
        "keep": Range(1, 6, integer=True),
        "scale": Range(0.01, 1, log=True),
        "noise_ratio": Range(1e-3, 1e9, log=True),
    },
    # wrong: the same for every P
    wrong=lambda margin, keep, scale, noise_ratio: (
        _tuned_ratio(*_small_gradient(1e-3 + margin * 0.998, keep, scale), noise_ratio) - 1
    ),
)
def _small_gradient_slack(margin: float, keep: int, scale: float, noise_ratio: float) -> float:
    """no gain where |w| <= c and P >= sqrt x"""
    root = math.sqrt(keep / 6)
    return _tuned_ratio(*_small_gradient(root + margin * (0.9999 - root), keep, scale), noise_ratio) - 1


@tuned_row.equal(
    lambda: [
        (r, k, gap, t, d)
        for r in (0.0, 0.75)
        for k in (0.4, 1.0)
        for gap, t in ((0.5, 1.0), (3.0, 400.0), (0.3, 1e4))
        for d in (0.0, 30.0, 1e6)
        if r > 0 or k == 1.0
    ],
    tolerance=1e-5,
)
def _(r: float, k: float, gap: float, t: float, d: float) -> Sides:
    """learning rate of the least bound, by golden section"""
    tuned = partial(sparsification.tuned_bound, objective_gap=gap, steps=t, curvature_term=2.0)
    return (
        tuned(drop_rate=r, kappa=k, noise_term=d).learning_rate,
        lambda: _searched_rate(2.0 + (1 - r) * d, gap, t)[0],
        lambda: tuned(drop_rate=0.0, kappa=1.0, noise_term=d + 0.1).learning_rate,
    )


def _sharper_ratio(steps: int, bias: float | None) -> float:
    """Tuned bound with half of the entries and kappa = sqrt(1/2) over that without a mask, D / A = 100."""

    def tuned(rate: float, kappa: float) -> float:
        def bound(log_step: float) -> float:
            run = spelled(gap=1.0, gamma=math.exp(log_step), T=steps, G=1.0, C=1.0, sigma=1.0, d=100, B=1, r=rate)
            return convergence.dpsgd_bound(**run, kappa=kappa, bias=bias, sampling="fixed").value

        return least(bound, -12.0, 0.0)[1]

    return tuned(0.5, math.sqrt(0.5)) / tuned(0.0, 1.0)


@tuned_row.equal((None, True), (0.0, False), kind=Kind.COUNTEREXAMPLE)
def _(bias: float | None, falls: bool) -> Sides:
    """the sharper bound of rs.clipped_steps can fall at kappa = sqrt x, that of Theorem 3.5 cannot"""
    return falls, lambda: _sharper_ratio(1000, bias) < 0.99, not falls


fixed_rate = new_row(
    id="rs.fixed_rate",
    source=Source("rs", "new, on Theorem 3.5"),
    verdict=Verdict.HOLDS,
    calculators=(sparsification.least_kappa,),
    figure="tradeoff",
)


@fixed_rate.equal(
    lambda: [
        (Fraction(j, 4), Fraction(k, 20), Fraction(1), Fraction(n))
        for j in (1, 2, 3)
        for k in range(1, 21)
        for n in (0, 1, 7)
    ]
)
def _(x: Fraction, k: Fraction, dc: Fraction, n: Fraction) -> Sides:
    """who gains, in fractions"""
    return (
        k > sparsification.least_kappa(drop_rate=float(1 - x), delta_c=float(dc), step_noise=float(n)) * (1 + 1e-12),
        (dc + x * n) / k < dc + n,
        k > x,
    )


@fixed_rate.equal(("equal entries, P = 1/2",), kind=Kind.COUNTEREXAMPLE)
def _(name: str) -> Sides:
    """gain with d sigma^2 / B^2 = 1/4, kappa = 1"""
    return (
        sparsification.least_kappa(drop_rate=0.75, delta_c=1.0, step_noise=0.25) < calculated(name).value,
        lambda: (1 + Fraction(1, 4) * Fraction(1, 4)) / exact_kappa_of(name) < 1 + Fraction(1, 4),
        Fraction(1, 4) > 1,
    )


def _needed_noise_slack(x: float, share: float, excess: float, kappa_share: float) -> float:
    """noise that is needed where kappa <= sqrt x

    D / A has to exceed (1 + share) / sqrt x, share = Delta_L / (g^2 T A): below it no kappa in [x, sqrt x] gives a gain; A = g = 1.
    """
    noise = excess * (1 + share) / math.sqrt(x)
    kappa = x + kappa_share * (math.sqrt(x) - x)
    return sparsification.least_kappa(drop_rate=1 - x, delta_c=1 + share, step_noise=noise) / kappa - 1


fixed_rate.inequality(
    {
        "x": Range(1e-4, 0.999, log=True),
        "share": Range(1e-6, 1e6, log=True),
        "excess": Range(0, 1),
        "kappa_share": Range(0, 1),
    },
    # wrong: up to 1.01 times the needed noise
    wrong=lambda x, share, excess, kappa_share: _needed_noise_slack(x, share, 1.01 * excess, kappa_share),
)(_needed_noise_slack)


rem3 = new_row(
    id="rs.rem3",
    source=Source("rs", "Remark 3"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
    calculators=(sparsification.least_kappa, sparsification.tuned_bound),
    figure="tradeoff",
)


def _noise_reduced(size: int, threshold: int, keep: int) -> bool:
    """(1 - r) / kappa < 1 for four entries of this size, c = threshold, no deviation; keep 1 or 4, so norms are whole."""

    def part(length: int) -> int:
        return min(length, threshold) * length

    kappa = Fraction(part(size * math.isqrt(keep)), part(2 * size))
    return Fraction(keep, 4) / kappa < 1


@rem3.equal(
    lambda: [(size, c, keep) for size in (1, 2, 5) for c in (1, 3, 10) for keep in (1, 4)], kind=Kind.COUNTEREXAMPLE
)
def _(size: int, threshold: int, keep: int) -> Sides:
    """is noise saved?"""
    found = sparsification.kappa(np.full(4, float(size)), clip_norm=4.0 * threshold, drop_rate=1 - keep / 4)
    saved = found.lower / found.value < 1 - 1e-12
    return saved, lambda: _noise_reduced(size, threshold, keep), True if keep < 4 else None


def _tuned(rate: float, kappa: float, noise: Fraction) -> float:
    """Tuned bound for Delta_L = 1, T = 9, A = 1, D = noise."""
    run = spelled(gap=1.0, T=9.0, r=rate)
    return sparsification.tuned_bound(**run, kappa=kappa, curvature_term=1.0, noise_term=float(noise)).bound


def _searched(x: Fraction, kappa: Fraction, noise: Fraction) -> float:
    """The same by a search over the learning rate."""
    return least_over_rates(float(1 + x * noise), 1.0, 9.0) / float(kappa)


@rem3.equal(lambda: [(Fraction(n),) for n in (0, 1, 10, 1000, 10**6)], tolerance=1e-9)
def _(n: Fraction) -> Sides:
    """kappa = sqrt x = 1/2: squared ratio of the tuned bounds, by search over the learning rate"""
    return (
        (_tuned(0.75, 0.5, n) / _tuned(0.0, 1.0, n)) ** 2,
        lambda: (_searched(Fraction(1, 4), Fraction(1, 2), n) / _searched(Fraction(1), Fraction(1), n)) ** 2,
        ((1 + n / 4) / (1 + n) * 2) ** 2,
    )


@rem3.equal(
    lambda: [(x, k, Fraction(n)) for x, k in ((1, 1), (Fraction(1, 4), Fraction(1, 2))) for n in (0, 1, 1000)],
    tolerance=1e-9,
)
def _(x: Fraction, kappa: Fraction, noise: Fraction) -> Sides:
    """the tuned bounds themselves, by search over the learning rate"""
    return (
        _tuned(float(1 - x), float(kappa), noise),
        lambda: _searched(x, kappa, noise),
        lambda: _tuned(0.0, 1.0, noise) / float(kappa),
    )


@rem3.equal(lambda: [(Fraction(j, 4), Fraction(n)) for j in (1, 2, 3) for n in (0, 1, 10)], tolerance=1e-12)
def _(x: Fraction, n: Fraction) -> Sides:
    """threshold of a fixed rate: where the bounds with and without the mask meet, by root finding"""
    found = sparsification.least_kappa(drop_rate=float(1 - x), delta_c=1.0, step_noise=float(n))

    def excess(kappa: float) -> float:
        return float(1 + x * n) / kappa - float(1 + n)

    return found, lambda: float(scipy.optimize.brentq(excess, float(x) / 2, 2.0, xtol=1e-15)), x
