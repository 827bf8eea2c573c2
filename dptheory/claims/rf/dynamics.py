"""RF: momentum and its noise, the scaling rule, gradual cooling."""

import itertools
import math
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dptheory import convergence, sparsification
from dptheory.checks import ExactCheck, Kind, MeanCheck, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict

Array = NDArray[np.float64]

# --- rf.momentum ------------------------------------------------------------------------------------------------------


def printed_velocity_variance(noise_std: float, mu: float, steps: int) -> float:
    """Variance of (1 + mu + ... + mu^{t-1}) N(0, s^2), the noise of v_t as RF section 3.4 and RS equation 117 have it."""
    return float((noise_std * sum(mu**i for i in range(steps))) ** 2)


def noise_weights(mu: Fraction, steps: int) -> tuple[list[Fraction], list[Fraction]]:
    """Weights of the single noises in v_T and in w_0 - w_T (learning rate 1), by running the recursion on unit vectors."""
    velocity, moved = [Fraction(0)] * steps, [Fraction(0)] * steps
    for t in range(steps):
        velocity = [mu * v + (i == t) for i, v in enumerate(velocity)]
        moved = [w + v for w, v in zip(moved, velocity, strict=True)]
    return velocity, moved


def squares(weights: list[Fraction]) -> Fraction:
    """Sum of squares: the variance for independent unit noises."""
    return sum((w * w for w in weights), Fraction(0))


def momentum_cases() -> Iterator[tuple[Fraction, int]]:
    """(mu, steps): every pair from a small grid."""
    yield from itertools.product((Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10)), (1, 2, 5, 20))


def _simulated(rng: np.random.Generator, n: int, mu: float, steps: int, moved: bool) -> Array:
    """Squared noise of v_T, or of w_T - w_0 at learning rate 1, one coordinate."""
    velocity, position = np.zeros((2, n))
    for _ in range(steps):
        velocity = mu * velocity + rng.standard_normal(n)
        position = position - velocity
    return np.asarray(np.square(position if moved else velocity))


def _resting_velocity(mu: Fraction, noise: Fraction) -> Fraction:
    """E v^2 that v <- mu v + noise leaves as it is."""
    return _solve([[1 - mu**2, noise**2]])[0]


def _long_run(mu: Fraction, steps: int) -> float:
    """Sum of the squared weights of the noises in w_T - w_0, mu^T left out: far below rounding for these T."""
    memory = -2 * mu / (1 - mu) + mu**2 / (1 - mu**2)
    return float((steps + memory) / (1 - mu) ** 2)


_MOMENTUM = Claim(
    id="rf.momentum",
    title="noise in the velocity",
    source=Source("rf", "section 3.4"),
    statement=r"With $v_{t+1} = \mu v_t + g_{t+1}$ the noise of $v_{t+1}$ is $(1+\mu+\dots+\mu^t)\mathcal N(0,C^2\sigma^2I)$, "
    r"after many iterations $\frac1{1-\mu}\mathcal N(0,C^2\sigma^2I)$.",
    verdict=Verdict.FALSE,
    conditions=(
        "fresh independent noise each step, as in Algorithm 1",
        "sigma is the noise multiplier; divide by B^2 for averaged gradients",
    ),
    correction=r"$\mathrm{Var}\,v_t = C^2\sigma^2\frac{1-\mu^{2t}}{1-\mu^2}$ a coordinate, at $\mu = 0.9$ 19 times less than printed. The noise of "
    r"$w_T-w_0$ has variance $\frac{\gamma^2C^2\sigma^2}{(1-\mu)^2}\big[T-\frac{2\mu(1-\mu^T)}{1-\mu}+\frac{\mu^2(1-\mu^{2T})}{1-\mu^2}\big]$.",
    printed=printed_velocity_variance,
    calculators=(convergence.velocity_variance, convergence.displacement_variance),
    checks=(
        ExactCheck(
            name="velocity, weights of the single noises in fractions",
            cases=momentum_cases,
            truth=lambda mu, steps: squares(noise_weights(mu, steps)[0]),
            statement=lambda mu, steps: convergence.velocity_variance(1.0, float(mu), steps),
            wrong=lambda mu, steps: printed_velocity_variance(1.0, float(mu), steps),
            tolerance=1e-13,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="displacement, weights of the single noises in fractions",
            cases=momentum_cases,
            truth=lambda mu, steps: squares(noise_weights(mu, steps)[1]),
            statement=lambda mu, steps: convergence.displacement_variance(1.0, 1.0, float(mu), steps),
            wrong=lambda mu, steps: steps * convergence.velocity_variance(1.0, float(mu), steps),  # as if independent
            tolerance=1e-13,
        ),
        ExactCheck(
            name="velocity at rest, in fractions",
            cases=lambda: itertools.product(
                (Fraction(0), Fraction(1, 2), Fraction(99, 100)), (Fraction(1), Fraction(3, 7))
            ),
            truth=_resting_velocity,
            statement=lambda mu, noise: convergence.velocity_variance(float(noise), float(mu)),
            wrong=lambda mu, noise: float(noise / (1 - mu)) ** 2,  # as printed for many iterations
            tolerance=1e-13,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="displacement over long runs, any noise and learning rate",
            cases=lambda: itertools.product((Fraction(1, 2), Fraction(9, 10)), (10**4, 10**6, 10**12)),
            truth=lambda mu, steps: _long_run(mu, steps) * (0.05 * 1e-3) ** 2,
            statement=lambda mu, steps: convergence.displacement_variance(0.05, 1e-3, float(mu), steps),
            wrong=lambda mu, steps: (0.05 * 1e-3 / float(1 - mu)) ** 2 * (steps + 100),
            tolerance=1e-12,
        ),
        MeanCheck(
            name="simulated velocity, mu = 0.9, 50 steps",
            sampler=partial(_simulated, mu=0.9, steps=50, moved=False),
            claimed=lambda: convergence.velocity_variance(1.0, 0.9, 50),
            wrong=lambda: printed_velocity_variance(1.0, 0.9, 50),
            row_bytes=64,
        ),
        MeanCheck(
            name="simulated displacement, mu = 0.9, 50 steps",
            sampler=partial(_simulated, mu=0.9, steps=50, moved=True),
            claimed=lambda: convergence.displacement_variance(1.0, 1.0, 0.9, 50),
            row_bytes=64,
        ),
        ExactCheck(
            name="velocity without an end: the weights of 3,000 noises",
            cases=lambda: [(mu,) for mu in (0.0, 0.5, 0.9, 0.99)],
            truth=lambda mu: 4.0 * math.fsum(mu ** (2 * j) for j in range(3000)),
            statement=lambda mu: convergence.velocity_variance(2.0, mu),
            wrong=lambda mu: 4.0 / (1 - mu) ** 2,
            tolerance=1e-12,
        ),
    ),
    proved=True,
    figure="momentum_noise",
)

# --- rf.scaling -------------------------------------------------------------------------------------------------------


def _clipped_slack(mu: float, steps: float, deficit: float) -> float:
    """Mean and variance of the displacement at C = 1 - mu, against momentum-free ones at C = 1: 1 - deficit <= ratio <= 1."""
    size = round(steps)
    clip = 1 - mu
    mean = convergence.displacement_mean(1.0, clip, mu, size) / convergence.displacement_mean(1.0, 1.0, 0.0, size)
    variance = convergence.displacement_variance(1.0, clip, mu, size) / convergence.displacement_variance(
        1.0, 1.0, 0.0, size
    )
    lost = deficit * mu / ((1 - mu) * size)
    return min(1 - mean, 1 - variance, mean - 1 + lost, variance - 1 + lost)


def _twice_the_memory_slack(mu: float, steps: float) -> float:
    return _clipped_slack(mu, steps, 2.0)


def _once_the_memory_slack(mu: float, steps: float) -> float:
    return _clipped_slack(mu, steps, 1.0)


def _excess_by_lyapunov(rate: Fraction, mu: Fraction, curvature: Fraction, noise: Fraction) -> Fraction:
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
    return curvature * _solve(rows)[0] / 2


def _solve(rows: list[list[Fraction]]) -> list[Fraction]:
    """Gauss-Jordan elimination on an augmented matrix."""
    size = len(rows)
    for i in range(size):
        pivot = next(k for k in range(i, size) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(size):
            if k != i:
                rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]


def _quadratic_cases() -> Iterator[tuple[Fraction, Fraction, Fraction, Fraction]]:
    """(learning rate, mu, curvature, clip), the last pair the papers' (0.9, 0.1) and (0, 1)."""
    yield from itertools.product(
        (Fraction(1, 10), Fraction(1)),
        (Fraction(1, 2), Fraction(9, 10)),
        (Fraction(1, 20), Fraction(1)),
        (Fraction(1, 10), 1),
    )
    yield Fraction(1, 10), Fraction(0), Fraction(1), Fraction(1)


_SCALING = Claim(
    id="rf.scaling",
    title="scaling rule of clip and momentum",
    source=Source("rf", "section 3.4, Appendix F; RS, Appendix H"),
    statement=r"Networks trained with the same $C/(1-\mu)$, all else fixed, perform similarly; the conjectured reason is the same amount "
    r"of injected noise.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "essentially every per-example gradient is clipped at the larger of the two bounds compared, so that signal and noise scale with C",
        "T >> 1/(1 - mu)",
    ),
    correction=r"Clipped: for the same directions and noises, drift and noise of $w_T-w_0$ are those of $\mu = 0$ at $C/(1-\mu)$ up to a "
    r"share $2\mu/((1-\mu)T)$. Unclipped, on a quadratic of curvature $\ell$, the stationary excess loss is "
    r"$\frac{\gamma C^2\sigma^2(1+\mu)}{2(1-\mu)(2(1+\mu)-\gamma\ell)}\approx\frac{\gamma C^2\sigma^2}{4(1-\mu)}$: not the same for the same $C/(1-\mu)$.",
    calculators=(convergence.displacement_mean, convergence.displacement_variance, convergence.stationary_excess),
    checks=(
        SearchCheck(
            name="clipped: within a share 2 mu / ((1 - mu) T)",
            box={"mu": Range(0.0, 0.999), "steps": Range(1, 1e6, log=True)},
            slack=_twice_the_memory_slack,
            wrong=_once_the_memory_slack,
        ),
        ExactCheck(
            name="clipped: drift, weights of the steps in fractions",
            cases=momentum_cases,
            truth=lambda mu, steps: sum(noise_weights(mu, steps)[1], Fraction(0)),
            statement=lambda mu, steps: convergence.displacement_mean(1.0, 1.0, float(mu), steps),
            wrong=lambda mu, steps: convergence.displacement_mean(1.0, 1 / (1 - float(mu)), 0.0, steps),
            tolerance=1e-13,
        ),
        ExactCheck(
            name="clipped: drift over long runs, any force and learning rate",
            cases=lambda: itertools.product((Fraction(1, 2), Fraction(9, 10)), (10**4, 10**6, 10**12)),
            truth=lambda mu, steps: float((steps - mu / (1 - mu)) / (1 - mu) * Fraction(-3, 2000)),
            statement=lambda mu, steps: convergence.displacement_mean(0.05, -0.03, float(mu), steps),
            wrong=lambda mu, steps: float((steps + 100) / (1 - mu) * Fraction(-3, 2000)),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="unclipped: excess on a quadratic, second moments in fractions",
            cases=_quadratic_cases,
            truth=_excess_by_lyapunov,
            statement=lambda rate, mu, curvature, clip: convergence.stationary_excess(
                float(rate), float(clip), float(mu), float(curvature)
            ),
            wrong=lambda rate, mu, curvature, clip: convergence.stationary_excess(
                float(rate), float(clip / (1 - mu)), 0.0, float(curvature)
            ),
            tolerance=1e-13,
            kind=Kind.COUNTEREXAMPLE,
        ),
    ),
    proved=True,
)

# --- rf.density, rf.sparsity70 ----------------------------------------------------------------------------------------


def _counted_density(final: Fraction, cooling: int, epochs: int, baseline: int) -> Fraction:
    """Share of non-zero entries, epoch by epoch as Algorithm 1 runs."""
    rates = [final * min(Fraction(e, cooling - 1), Fraction(1)) for e in range(epochs)]
    return sum((1 - r for r in rates), Fraction(0)) / baseline


def _density(final: Fraction, cooling: int, epochs: int, baseline: int) -> float:
    return sparsification.total_density(float(final), cooling, epochs, baseline)


def _rounded(value: float, digits: int) -> Fraction:
    """Half up at ``digits`` places; the twelfth place absorbs what float64 lost."""
    unit = Decimal(1).scaleb(-digits)
    return Fraction(Decimal(f"{value:.12f}").quantize(unit, ROUND_HALF_UP))


PRINTED_DENSITIES = {
    # where: (printed, r*, e*, E, epochs of the dense run)
    "Table 2, End-to-end CNN, epsilon = 7.53": ("0.65", "0.7", 80, 80, 80),
    "Table 2, End-to-end CNN, epsilon = 3": ("0.65", "0.7", 40, 40, 40),
    "Table 2, Handcrafted CNN": ("0.7", "0.6", 80, 80, 80),
    "Table 2, GEP": ("0.8", "0.4", 200, 200, 200),
    "Table 2, DP-Transfer Learning": ("0.65", "0.7", 50, 50, 50),
    "Table 9, epsilon = 3": ("0.6", "0.9", 40, 60, 40),
    "Table 9, epsilon = 7.53": ("0.58", "0.9", 80, 100, 80),
}


def _printed_density(where: str) -> Fraction:
    return Fraction(PRINTED_DENSITIES[where][0])


def _density_as_printed(where: str, own_epochs: bool) -> Fraction:
    printed, final, cooling, epochs, baseline = PRINTED_DENSITIES[where]
    value = sparsification.total_density(float(final), cooling, epochs, epochs if own_epochs else baseline)
    return _rounded(value, len(printed.split(".")[1]))


_DENSITY = Claim(
    id="rf.density",
    title="total density",
    source=Source("rf", "section 4, Tables 2 and 9"),
    statement=r"Gradual cooling to $r^*$ sends in all 0.65, 0.7, 0.8 and 0.65 of the entries for $r^* = 0.7, 0.6, 0.4, 0.7$, and 0.6 and "
    r"0.58 in the two runs of Table 9 ($r^* = 0.9$).",
    verdict=Verdict.HOLDS,
    conditions=(
        "epochs of equal length; e* >= 2 (for e* = 1 the ramp is 0/0)",
        "Table 9 counts against the dense run of 40 and 80 epochs; against its own 60 and 100 epochs it is 0.4 and 0.46",
    ),
    correction=r"$\frac{E-r^*(e^*/2+E-e^*)}{E_0}$ for $E\ge e^*$; $1-r^*/2$ for $e^* = E = E_0$.",
    calculators=(sparsification.total_density, sparsification.freeze_rate),
    checks=(
        ExactCheck(
            name="counted epoch by epoch, in fractions",
            cases=lambda: itertools.product(
                (Fraction(0), Fraction(7, 10), Fraction(1)), (2, 3, 40), (1, 2, 40, 100), (40, 100)
            ),
            truth=_counted_density,
            statement=_density,
            wrong=lambda final, cooling, epochs, baseline: float(1 - final / 2),  # whatever the lengths
            tolerance=1e-13,
        ),
        ExactCheck(
            name="rate of each epoch",
            cases=lambda: itertools.product((2, 3, 40), (0, 1, 20, 39, 40, 99)),
            truth=lambda cooling, epoch: Fraction(9, 10) * min(Fraction(epoch, cooling - 1), Fraction(1)),
            statement=lambda cooling, epoch: sparsification.freeze_rate(epoch, 0.9, cooling),
            wrong=lambda cooling, epoch: 0.9 * min(epoch / cooling, 1.0),  # the text: r* is reached in epoch e*
            tolerance=1e-15,
        ),
        ExactCheck(
            name="the printed densities",
            cases=lambda: [(where,) for where in PRINTED_DENSITIES],
            truth=_printed_density,
            statement=partial(_density_as_printed, own_epochs=False),
            wrong=partial(_density_as_printed, own_epochs=True),
        ),
    ),
    proved=True,
)

_SPARSITY70 = Claim(
    id="rf.sparsity70",
    title="up to 70 % sparsity",
    source=Source("rf", "abstract, section 4, Table 1"),
    statement=r"Random freeze reaches up to 70 % representation sparsity of the gradient.",
    verdict=Verdict.CONDITIONAL,
    conditions=("sparsity is that of the last epoch, r* = 0.7",),
    correction=r"Over the run the sparsity is $r^*/2 = 35\,\%$ (Table 2: density 0.65); at most $r^*/2$ whenever $e^* = E$.",
    calculators=(sparsification.total_density,),
    checks=(
        ExactCheck(
            name="sparsity of the whole run",
            cases=lambda: [(Fraction(7, 10), epochs, epochs, epochs) for epochs in (2, 40, 50, 80)],
            truth=lambda *run: 1 - _counted_density(*run),
            statement=lambda *run: 1 - _density(*run),
            wrong=lambda final, *lengths: float(final),
            tolerance=1e-13,
            kind=Kind.COUNTEREXAMPLE,
        ),
    ),
    proved=True,
)

CLAIMS = (_MOMENTUM, _SCALING, _DENSITY, _SPARSITY70)
