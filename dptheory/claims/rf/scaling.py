"""rf.scaling: when the scaling rule of clip and momentum holds."""

import itertools
from collections.abc import Iterator
from fractions import Fraction

from dptheory import convergence
from dptheory.claims._row import Claim, Kind, Range, Row, Sides, Source, Verdict
from dptheory.claims.rf._momentum import momentum_cases, noise_weights, solve


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


def _once_the_memory_slack(mu: float, steps: float) -> float:
    return _clipped_slack(mu, steps, 1.0)


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


row = Row(
    Claim(
        id="rf.scaling",
        title="scaling rule of clip and momentum",
        source=Source("rf", "section 3.4, Appendix F; RS, Appendix H"),
        statement=r"""With all other hyperparameters fixed, networks trained with the same $C/(1-\mu)$ perform similarly; RF conjectures that the
rule ensures the same amount of injected noise. RS: the local optimal values of $C,\mu$ satisfy the same $C/(1-\mu)$, "the same
amount of noise" (where it prints the noise as $C(1-\mu)$ times a normal one, $C/(1-\mu)$ is meant).""",
        verdict=Verdict.CONDITIONAL,
        summary=(
            "while essentially every gradient is clipped at both bounds compared, over many steps signal and "
            r"noise depend on $C$ and $\mu$ through $C/(1-\mu)$ alone; without clipping the rule fails."
        ),
        conditions=(
            'Stated: all else fixed; many steps ("after many iterations").',
            "Unstated: clipping is active throughout: essentially every per-example gradient is clipped at the "
            "larger of the bounds compared ($K$ for the run without momentum), so that signal and noise scale with "
            r"$C$; $\sigma$ stands for the noise multiplier over $B$; many means $T\gg1/(1-\mu)$; $\mu\in[0,1)$.",
            "The conjectured reason, the same noise in the velocity, is false ([rf.momentum](momentum.md)): what "
            "agrees is the noise in the parameters.",
        ),
        correction=r"""What can be proved, with $w_{t+1} = w_t-\gamma v_{t+1}$, $v_{t+1} = \mu v_t+g_{t+1}$, $v_0 = 0$ and $K = C/(1-\mu)$:

- **Clipped.** Suppose that every per-example gradient has at least the norm $K$, so that it is clipped at $C$ as well as at $K$
  (for two runs $(C_1,\mu_1)$, $(C_2,\mu_2)$ with the same $K$: at least $\max(C_1,C_2)$). Then the averaged clipped gradient is
  $C\bar u_t$ with $\bar u_t$ the mean of the unit directions, and the step's noise is $C\sigma n_t$. For given $\bar u_t$ and
  $n_t$, the displacement $w_T-w_0$ under $(C,\mu)$ differs from that under $(K,0)$ by
  $\gamma K\sum_{t=1}^T\mu^{T-t+1}(\bar u_t+\sigma n_t)$, which does not grow with $T$. For a constant gradient and for the
  variance of the noise the ratio to $(K,0)$ is in $[1-\frac{2\mu}{(1-\mu)T},1]$.
- **Not clipped.** On $\frac\ell2w^2$ with noise of standard deviation $s = C\sigma$ the stationary expected loss is, for
  $\gamma\ell<2(1+\mu)$,

$$\frac{\gamma s^2(1+\mu)}{2(1-\mu)(2(1+\mu)-\gamma\ell)}\approx\frac{\gamma C^2\sigma^2}{4(1-\mu)}\qquad(\gamma\ell\ll1) .$$

  It depends on $C^2/(1-\mu)$, so it is not the same for the same $C/(1-\mu)$: at equal $K$ it is smaller with momentum by a
  factor of about $1-\mu$, while the drift has the factor $\gamma/(1-\mu)$ in place of $\gamma$.""",
        calculators=(convergence.displacement_mean, convergence.displacement_variance, convergence.stationary_excess),
        proved=True,
    )
)


@row.inequality({"mu": Range(0.0, 0.999), "steps": Range(1, 1e6, log=True)}, wrong=_once_the_memory_slack)
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
