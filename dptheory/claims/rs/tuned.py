import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import scipy

from dptheory import convergence, sparsification
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs._kappa import calculated, exact_kappa_of, spread_of
from dptheory.claims.rs._runs import spelled

# --- The least bound over the learning rate, by search


def least_over_rates(slope: float, gap: float, steps: float) -> float:
    """min over the learning rate of gap / (g steps) + g slope, by a bounded search over log g."""

    def bound(log_g: float) -> float:
        return gap / steps * math.exp(-log_g) + slope * math.exp(log_g)

    found = scipy.optimize.minimize_scalar(bound, bounds=(-30.0, 30.0), method="bounded", options={"xatol": 1e-9})
    return float(found.fun)


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
    return (
        sparsification.tuned_bound(
            drop_rate=r, kappa=k, objective_gap=gap, steps=t, curvature_term=2.0, noise_term=d
        ).bound,
        lambda: least_over_rates(2.0 + (1 - r) * d, gap, t) / k,
        (gap / t + 2.0 + (1 - r) * d) / k,
    )


_GAIN_CASES = tuple(
    (Fraction(1, n * n), Fraction(k, 20), Fraction(ratio))
    for n in (2, 3)
    for k in range(2, 21)
    for ratio in (0, 1, 10, 1000)
)
"""x, kappa, D / A."""


def _tuned_gain(x: Fraction, kappa: Fraction, ratio: Fraction) -> bool:
    """Squares of the tuned bounds compared in fractions."""
    return (1 + x * ratio) / kappa**2 < 1 + ratio


@tuned_row.equal(lambda: _GAIN_CASES)
def _(x: Fraction, k: Fraction, ratio: Fraction) -> Sides:
    """who gains, in fractions"""
    # wrong: the comparison at a fixed rate
    return (
        k > sparsification.least_kappa_tuned(drop_rate=float(1 - x), noise_to_curvature=float(ratio)) * (1 + 1e-12),
        lambda: _tuned_gain(x, k, ratio),
        (1 + x * ratio) / k < 1 + ratio,
    )


def _tuned_ratio(rate: float, kappa: float, noise_ratio: float) -> float:
    """Tuned bound with the mask over that without."""
    masked = sparsification.tuned_bound(
        drop_rate=rate, kappa=kappa, objective_gap=1.0, steps=100.0, curvature_term=1.0, noise_term=noise_ratio
    ).bound
    return (
        masked
        / sparsification.tuned_bound(
            drop_rate=0.0, kappa=1.0, objective_gap=1.0, steps=100.0, curvature_term=1.0, noise_term=noise_ratio
        ).bound
    )


def _fixed_ratio(rate: float, kappa: float, noise_ratio: float) -> float:
    """The same at a learning rate so large that Delta_L / (g T) is negligible."""
    return sparsification.relative_bound(
        drop_rate=rate, delta_c=1.0, step_noise=noise_ratio, kappa=kappa
    ) / sparsification.relative_bound(drop_rate=0.0, delta_c=1.0, step_noise=noise_ratio, kappa=1.0)


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
    """no gain where P' = P

    No deviation, so P' = P: the tuned bound with a mask is never the smaller one.
    """
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
    """no gain where |w| <= c and P >= sqrt x

    |w| <= c and sqrt x <= P <= 1: no gain at the tuned rate although P' > P.
    """
    root = math.sqrt(keep / 6)
    return _tuned_ratio(*_small_gradient(root + margin * (0.9999 - root), keep, scale), noise_ratio) - 1


def _best_learning_rate(slope: float, gap: float, steps: float) -> float:
    """argmin of gap / (g T) + g slope over log g."""
    found = scipy.optimize.minimize_scalar(
        lambda log: gap / steps * math.exp(-log) + slope * math.exp(log),
        bounds=(-20, 20),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return math.exp(float(found.x))


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
    return (
        sparsification.tuned_bound(
            drop_rate=r, kappa=k, objective_gap=gap, steps=t, curvature_term=2.0, noise_term=d
        ).learning_rate,
        lambda: _best_learning_rate(2.0 + (1 - r) * d, gap, t),
        lambda: (
            sparsification.tuned_bound(
                drop_rate=0.0, kappa=1.0, objective_gap=gap, steps=t, curvature_term=2.0, noise_term=d + 0.1
            ).learning_rate
        ),
    )


def _sharper_ratio(steps: int, bias: float | None) -> float:
    """Tuned bound with half of the entries and kappa = sqrt(1/2) over that without a mask, D / A = 100."""

    def tuned(rate: float, kappa: float) -> float:
        def bound(log_step: float) -> float:
            run = spelled(gap=1.0, gamma=math.exp(log_step), T=steps, G=1.0, C=1.0, sigma=1.0, d=100, B=1, r=rate)
            return convergence.dpsgd_bound(**run, kappa=kappa, bias=bias, sampling="fixed").value

        grid = np.linspace(-12.0, 0.0, 41)
        best = grid[np.argmin([bound(one) for one in grid])]
        return float(scipy.optimize.minimize_scalar(bound, bounds=(best - 0.3, best + 0.3), method="bounded").fun)

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


def _needed_noise(x: float, share: float) -> float:
    """(1 + Delta_L / (g^2 T A)) / sqrt x, ``share`` = Delta_L / (g^2 T A): what D / A has to exceed where kappa <= sqrt x."""
    return (1 + share) / math.sqrt(x)


def _needed_noise_slack(x: float, share: float, excess: float, kappa_share: float) -> float:
    """noise that is needed where kappa <= sqrt x

    Below the needed noise no kappa in [x, sqrt x] gives a gain; A = g = 1.
    """
    noise = excess * _needed_noise(x, share)
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


def _noise_reduced_by_calculator(size: int, threshold: int, keep: int) -> bool:
    found = sparsification.kappa(np.full(4, float(size)), clip_norm=4.0 * threshold, drop_rate=1 - keep / 4)
    return found.lower / found.value < 1 - 1e-12


@rem3.equal(
    lambda: [(size, c, keep) for size in (1, 2, 5) for c in (1, 3, 10) for keep in (1, 4)], kind=Kind.COUNTEREXAMPLE
)
def _(size: int, threshold: int, keep: int) -> Sides:
    """is noise saved?"""
    return (
        _noise_reduced_by_calculator(size, threshold, keep),
        lambda: _noise_reduced(size, threshold, keep),
        True if keep < 4 else None,
    )


def _tuned(rate: float, kappa: float, noise: Fraction) -> float:
    """Tuned bound for Delta_L = 1, T = 9, A = 1, D = noise."""
    return sparsification.tuned_bound(
        drop_rate=rate, kappa=kappa, objective_gap=1.0, steps=9.0, curvature_term=1.0, noise_term=float(noise)
    ).bound


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
    return (
        sparsification.least_kappa(drop_rate=float(1 - x), delta_c=1.0, step_noise=float(n)),
        lambda: float(
            scipy.optimize.brentq(lambda k: float(1 + x * n) / k - float(1 + n), float(x) / 2, 2.0, xtol=1e-15)
        ),
        x,
    )
