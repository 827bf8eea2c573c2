import itertools
from collections.abc import Iterator
from fractions import Fraction

from dptheory import convergence
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rf.momentum import momentum_cases, noise_weights, solve


def _clipped_slack(mu: float, steps: float, deficit: float) -> float:
    """Mean and variance of the displacement at C = 1 - mu, against momentum-free ones at C = 1: 1 - deficit <= ratio <= 1."""
    size = round(steps)
    clip = 1 - mu
    mean = convergence.displacement_mean(
        learning_rate=1.0, force=clip, momentum=mu, steps=size
    ) / convergence.displacement_mean(learning_rate=1.0, force=1.0, momentum=0.0, steps=size)
    variance = convergence.displacement_variance(
        learning_rate=1.0, noise_std=clip, momentum=mu, steps=size
    ) / convergence.displacement_variance(learning_rate=1.0, noise_std=1.0, momentum=0.0, steps=size)
    lost = deficit * mu / ((1 - mu) * size)
    return min(1 - mean, 1 - variance, mean - 1 + lost, variance - 1 + lost)


def excess_by_lyapunov(rate: Fraction, mu: Fraction, curvature: Fraction, noise: Fraction) -> Fraction:
    """curvature E w^2 / 2 at rest: solves for the second moments of (w, v) that one step leaves as they are."""
    step = [[1 - rate * curvature, -rate * mu], [curvature, mu]]  # w' = w - rate v', v' = mu v + curvature w + noise
    kick = [-rate, Fraction(1)]
    pairs = [(0, 0), (0, 1), (1, 1)]
    rows = []
    for i, j in pairs:
        row = [Fraction((i, j) == pair) for pair in pairs]
        for k, m in itertools.product(range(2), repeat=2):
            row[pairs.index((min(k, m), max(k, m)))] -= step[i][k] * step[j][m]
        rows.append([*row, kick[i] * kick[j] * noise**2])
    return curvature * solve(rows)[0] / 2


def _quadratic_cases() -> Iterator[tuple[Fraction, Fraction, Fraction, Fraction]]:
    """(learning rate, mu, curvature, clip), the last pair the papers' (0.9, 0.1) and (0, 1)."""
    yield from itertools.product(
        (Fraction(1, 10), Fraction(1)),
        (Fraction(1, 2), Fraction(9, 10)),
        (Fraction(1, 20), Fraction(1)),
        (Fraction(1, 10), 1),
    )
    yield Fraction(1, 10), Fraction(0), Fraction(1), Fraction(1)


row = new_row(
    id="rf.scaling",
    source=Source("rf", "section 3.4, Appendix F; RS, Appendix H"),
    verdict=Verdict.CONDITIONAL,
    calculators=(convergence.displacement_mean, convergence.displacement_variance, convergence.stationary_excess),
)


@row.inequality(
    {"mu": Range(0.0, 0.999), "steps": Range(1, 1e6, log=True)}, wrong=lambda mu, steps: _clipped_slack(mu, steps, 1.0)
)
def _twice_the_memory_slack(mu: float, steps: float) -> float:
    """clipped: within a share 2 mu / ((1 - mu) T)"""
    return _clipped_slack(mu, steps, 2.0)


@row.equal(momentum_cases, tolerance=1e-13)
def _(mu: Fraction, steps: int) -> Sides:
    """clipped: drift, weights of the steps in fractions"""
    return (
        convergence.displacement_mean(learning_rate=1.0, force=1.0, momentum=float(mu), steps=steps),
        lambda: sum(noise_weights(mu, steps)[1], Fraction(0)),
        convergence.displacement_mean(learning_rate=1.0, force=1 / (1 - float(mu)), momentum=0.0, steps=steps),
    )


@row.equal(lambda: itertools.product((Fraction(1, 2), Fraction(9, 10)), (10**4, 10**6, 10**12)), tolerance=1e-12)
def _(mu: Fraction, steps: int) -> Sides:
    """clipped: drift over long runs, any force and learning rate"""
    return (
        convergence.displacement_mean(learning_rate=0.05, force=-0.03, momentum=float(mu), steps=steps),
        (steps - mu / (1 - mu)) / (1 - mu) * Fraction(-3, 2000),
        float((steps + 100) / (1 - mu) * Fraction(-3, 2000)),
    )


@row.equal(_quadratic_cases, tolerance=1e-13, kind=Kind.COUNTEREXAMPLE)
def _(rate: Fraction, mu: Fraction, curvature: Fraction, clip: Fraction) -> Sides:
    """unclipped: excess on a quadratic, second moments in fractions"""
    return (
        convergence.stationary_excess(
            learning_rate=float(rate), noise_std=float(clip), momentum=float(mu), curvature=float(curvature)
        ),
        lambda: excess_by_lyapunov(rate, mu, curvature, clip),
        convergence.stationary_excess(
            learning_rate=float(rate), noise_std=float(clip / (1 - mu)), momentum=0.0, curvature=float(curvature)
        ),
    )
