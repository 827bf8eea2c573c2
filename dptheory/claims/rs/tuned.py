import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import scipy

from dptheory import convergence, sparsification
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs._kappa import spread_of

# --- The least bound over the learning rate, by search


def least_over_rates(slope: float, gap: float, steps: float) -> float:
    """min over the learning rate of gap / (g steps) + g slope, by a bounded search over log g."""

    def bound(log_g: float) -> float:
        return gap / steps * math.exp(-log_g) + slope * math.exp(log_g)

    found = scipy.optimize.minimize_scalar(bound, bounds=(-30.0, 30.0), method="bounded", options={"xatol": 1e-9})
    return float(found.fun)


Ratio = Callable[[float, float, float], float]


row = new_row(
    id="rs.tuned",
    source=Source("rs", "new, on Theorem 3.5"),
    verdict=Verdict.HOLDS,
    calculators=(sparsification.tuned_bound, sparsification.least_kappa_tuned),
    figure="tradeoff",
)


@row.equal(
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


@row.equal(lambda: _GAIN_CASES)
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


def _no_gain_fixed_slack(**point: float) -> float:
    """Wrong statement: the same at a fixed learning rate."""
    return _same_probability(_fixed_ratio, **point)  # type: ignore[arg-type]


@row.inequality(
    {
        "second": Range(0, 1),
        "third": Range(0, 1),
        "keep": Range(1, 6, integer=True),
        "scale": Range(0.01, 100, log=True),
        "noise_ratio": Range(1e-3, 1e9, log=True),
    },
    wrong=_no_gain_fixed_slack,
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


@row.inequality(
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


@row.equal(
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
            return convergence.dpsgd_bound(
                objective_gap=1.0,
                learning_rate=math.exp(log_step),
                steps=steps,
                smoothness=1.0,
                clip_norm=1.0,
                noise_multiplier=1.0,
                dim=100,
                batch_size=1,
                drop_rate=rate,
                kappa=kappa,
                bias=bias,
                sampling="fixed",
            ).value

        grid = np.linspace(-12.0, 0.0, 41)
        best = grid[np.argmin([bound(one) for one in grid])]
        return float(scipy.optimize.minimize_scalar(bound, bounds=(best - 0.3, best + 0.3), method="bounded").fun)

    return tuned(0.5, math.sqrt(0.5)) / tuned(0.0, 1.0)


@row.equal((None, True), (0.0, False), kind=Kind.COUNTEREXAMPLE)
def _(bias: float | None, falls: bool) -> Sides:
    """the sharper bound of rs.clipped_steps can fall at kappa = sqrt x, that of Theorem 3.5 cannot"""
    return falls, lambda: _sharper_ratio(1000, bias) < 0.99, not falls
