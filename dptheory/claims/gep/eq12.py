from fractions import Fraction

from dptheory import embedding
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.gep import _noisy_steps as noisy


def printed_summed_risk(smoothness: float, distance: float, steps: int, noise_energy: float) -> float:
    """Right side of equation 12 as printed: the distance is not squared. noise_energy = sigma^2 (k + p rbar) / n^2."""
    return smoothness * distance / (2 * steps) + noise_energy / smoothness


row = new_row(
    id="gep.eq12",
    source=Source("gep", "proof of Theorem 3.3", (12,)),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
    kernel_theorems=("printed_is_false",),
    printed=printed_summed_risk,
    calculators=(embedding.noisy_descent_risk, embedding.least_risk),
)


@row.equal(lambda: [(field, steps) for field in ("steps", "optimal_steps") for steps in (1, 17, 10**6)])
def _(field: str, steps: int) -> Sides:
    """T is the T that was given, and no best one was sought"""
    found = embedding.noisy_descent_risk(smoothness=1.0, initial_distance=1.0, steps=steps, noise_energy=1.0)
    if field == "steps":
        return found.steps, steps, steps + 1
    return 1 / found.optimal_steps, 0.0, steps + 1


@row.equal(
    lambda: [(1, Fraction(4), 1, Fraction(noise)) for noise in (0, Fraction(1, 10), Fraction(1, 2))],
    kind=Kind.COUNTEREXAMPLE,
)
def _(beta: int, distance: Fraction, steps: int, noise: Fraction) -> Sides:
    """rounded |x| with slope 1, D = 4, one step: does the bound hold?"""
    return (
        noisy.mean_excess(beta, distance, 1, steps, noise)
        <= embedding.noisy_descent_risk(
            smoothness=float(beta), initial_distance=float(distance), steps=steps, noise_energy=float(noise) ** 2
        ).value,
        True,
        noisy.mean_excess(beta, distance, 1, steps, noise) <= Fraction(beta) * distance / (2 * steps) + noise**2 / beta,
    )


@row.certificate(
    (1.0, 1.0, 1, 1.0),
    (2.0, 0.5, 1, 0.1),
    (1.0, 3.0, 2, 0.5),
    (1.0, 0.1, 2, 1.0),
    problem=noisy.noisy_run,
    wrong=printed_summed_risk,
    looseness=2.0,  # without noise it is (T + 2) / T - 1, and noise lowers it
)
def _(beta: float, distance: float, steps: int, energy: float) -> float:
    """worst case of one and two noisy steps"""
    return embedding.noisy_descent_risk(
        smoothness=beta, initial_distance=distance, steps=steps, noise_energy=energy
    ).value


@row.equal(
    lambda: [
        (beta, Fraction(d), t, noise)
        for beta in (1, Fraction(5, 2))
        for d in (0, 1, 30)
        for t in (1, 2, 7)
        for noise in (Fraction(1, 3), Fraction(0), Fraction(20))
        if d or noise
    ],
    tolerance=1e-12,
)
def _(beta: Fraction | int, d: Fraction, t: int, noise: Fraction) -> Sides:
    """the sum over the steps with equality, on a quadratic, every sign"""
    return (
        embedding.noisy_descent_risk(
            smoothness=float(beta), initial_distance=float(d), steps=t, noise_energy=float(noise) ** 2
        ).value,
        lambda: noisy.telescoped_quadratic(beta, d, t, noise),
        float(beta) * float(d) ** 2 / (2 * t) + float(noise) ** 2 / float(beta),
    )


def _strong_run_slack(smoothness: float, distance: float, share: float, steps: int, noise: float) -> float:
    """Wrong statement: half the bound."""
    return run_slack(smoothness, distance, share, steps, noise, 0.5)


@row.inequality(
    {
        "smoothness": Range(0.1, 10.0, log=True),
        "distance": Range(0.1, 10.0, log=True),
        "share": Range(0.01, 1.0),
        "steps": Range(1, 6, integer=True),
        "noise": Range(1e-3, 10.0, log=True),
    },
    wrong=_strong_run_slack,
)
def run_slack(smoothness: float, distance: float, share: float, steps: int, noise: float, kept: float = 1.0) -> float:
    """rounded |x| with noise, every sign

    (bound - excess) / bound on the rounded absolute value; ``kept`` of the bound is kept.
    """
    slope = share * smoothness * distance
    excess = float(noisy.mean_excess(smoothness, distance, slope, steps, noise))
    bound = embedding.noisy_descent_risk(
        smoothness=smoothness, initial_distance=distance, steps=steps, noise_energy=noise**2
    ).value
    return kept - excess / bound


@row.equal(lambda: [(beta, d, t) for beta in (1, Fraction(5, 2)) for d in (1, 3) for t in (1, 2, 7)], tolerance=1e-12)
def _(beta: Fraction | int, d: int, t: int) -> Sides:
    """without noise (T + 2)/T times the risk of the rounded |x|"""
    return (
        embedding.noisy_descent_risk(
            smoothness=float(beta), initial_distance=float(d), steps=t, noise_energy=0.0
        ).value,
        noisy.mean_excess(beta, Fraction(d), Fraction(beta) * d / (t + 2), t, 0) * Fraction(t + 2, t),
        printed_summed_risk(float(beta), float(d), t, 0.0),
    )


@row.certificate(
    (1.0, 1.0, 1, 0.0),
    (2.0, 0.5, 2, 0.0),
    (1.0, 2.0, 3, 0.0),
    problem=noisy.noisy_run,
    wrong=lambda beta, distance, steps, energy: (
        embedding.noisy_descent_risk(smoothness=beta, initial_distance=distance, steps=steps, noise_energy=0.0).value
    ),
)
def _(beta: float, distance: float, steps: int, energy: float) -> float:
    """worst case without noise, one to three steps"""
    return embedding.least_risk(smoothness=beta, initial_distance=distance, steps=steps)
