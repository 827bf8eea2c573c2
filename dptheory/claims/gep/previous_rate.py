import math
from collections.abc import Iterator

from dptheory import embedding
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row

row = new_row(
    id="gep.previous_rate",
    source=Source("gep", "section 3.3, after Theorem 3.3, on the previous best"),
    verdict=Verdict.HOLDS,
    calculators=(embedding.noisy_descent_risk,),
)


def _risk(steps: int, dim: int, train_size: int, epsilon: float, log_delta: float) -> float:
    """Of gradient perturbation with sigma^2 = 4 T log(1/delta) / epsilon^2, beta = D = 1."""
    energy = dim * 4 * steps * log_delta / (epsilon * train_size) ** 2
    return float(
        embedding.noisy_descent_risk(smoothness=1.0, initial_distance=1.0, steps=steps, noise_energy=energy).value
    )


def _whole_steps() -> Iterator[tuple[int, int, int, float, float]]:
    """T = n epsilon / (2 sqrt(p log(1/delta))) is whole."""
    for root, steps, log_delta in ((1, 10, 4.0), (3, 7, 1.0), (100, 50, 9.0)):
        epsilon = 0.5
        train_size = round(2 * steps * root * math.sqrt(log_delta) / epsilon)
        yield steps, root**2, train_size, epsilon, log_delta


@row.equal(_whole_steps, tolerance=1e-12)
def _(steps: int, dim: int, train_size: int, epsilon: float, log_delta: float) -> Sides:
    """2 D sqrt(p log(1/delta)) / (n epsilon) at the best number of steps"""
    rate = math.sqrt(dim * log_delta) / (train_size * epsilon)
    return 2 * rate, lambda: _risk(steps, dim, train_size, epsilon, log_delta), 2 * rate * math.sqrt(log_delta)


@row.equal(_whole_steps)
def _(steps: int, dim: int, train_size: int, epsilon: float, log_delta: float) -> Sides:
    """no other number of steps is better"""
    others = (max(1, steps - 1), steps + 1, 2 * steps)

    def best() -> bool:
        here = _risk(steps, dim, train_size, epsilon, log_delta)
        return all(here <= _risk(other, dim, train_size, epsilon, log_delta) for other in others)

    return True, best, False


def rounded_up(best_steps: float) -> float:
    """5/2 less T*/T + T/T* at T = T* rounded up, where it is twice 1 at T = T*"""
    steps = math.ceil(best_steps)
    return 2.5 - best_steps / steps - steps / best_steps


def _too_small(best_steps: float) -> float:
    return rounded_up(best_steps) - 0.1


row.inequality({"best_steps": Range(1.0, 50.0)}, wrong=_too_small)(rounded_up)


@row.equal((0.5, 4.0), (1.0, 1.0), (8.0, 4.0), tolerance=1e-12)
def _(epsilon: float, log_delta: float) -> Sides:
    """epsilon of concentrated privacy at that noise, below the budget: T / (2 sigma^2) + sqrt(2 T log(1/delta)) / sigma"""
    steps, noise = 100, math.sqrt(4 * 100 * log_delta) / epsilon
    spent = epsilon**2 / (8 * log_delta) + epsilon / math.sqrt(2)
    assert spent <= epsilon
    cost = steps / (2 * noise**2)
    return spent, lambda: cost + 2 * math.sqrt(cost * log_delta), epsilon
