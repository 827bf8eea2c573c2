from dptheory import embedding
from dptheory.claims._row import Source, Verdict, new_row
from dptheory.claims.gep import _noisy_steps as noisy

row = new_row(
    id="gep.eq11",
    source=Source("gep", "proof of Theorem 3.3", (7, 8, 9, 10, 11)),
    verdict=Verdict.HOLDS,
    calculators=(embedding.noisy_descent_risk,),
)


@row.certificate(
    (1.0, 1.0),
    (2.5, 0.4),
    (0.3, 7.0),
    problem=noisy.noisy_step,
    wrong=lambda smoothness, energy: energy / (2 * smoothness),
)
def _(smoothness: float, energy: float) -> float:
    """worst case of the inequality over smooth convex functions"""
    return energy / smoothness


@row.certificate(
    (1.0, 1.0),
    (2.5, 0.4),
    (0.3, 7.0),
    problem=noisy.noisy_step_at_start,
    wrong=lambda smoothness, energy: energy / smoothness,
)
def _(smoothness: float, energy: float) -> float:
    """worst case of the inequality at theta_t"""
    return embedding.noisy_descent_risk(smoothness=smoothness, initial_distance=0.0, steps=1, noise_energy=energy).value


@row.certificate(
    (1.0, 0.0, 1, 1.0),
    (2.5, 0.0, 1, 0.4),
    problem=noisy.noisy_run,
    wrong=lambda smoothness, distance, steps, energy: energy / smoothness,
)
def _(smoothness: float, distance: float, steps: int, energy: float) -> float:
    """worst case of one step from the minimiser"""
    return embedding.noisy_descent_risk(
        smoothness=smoothness, initial_distance=distance, steps=steps, noise_energy=energy
    ).value
