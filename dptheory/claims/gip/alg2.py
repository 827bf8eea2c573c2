import itertools
from fractions import Fraction

from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row


def _descend(start: Fraction, learning_rate: Fraction, steps: int) -> Fraction:
    """Gradient descent on w^2 / 2, the training that Algorithm 2 is meant to do."""
    weight = start
    for _ in range(steps):
        weight -= learning_rate * weight
    return weight


def printed_training(start: Fraction, learning_rate: Fraction, steps: int) -> Fraction:
    """Algorithm 2 as printed on w^2 / 2 without noise or pruning: line 12 stands behind the loop."""
    weight = start
    gradient = Fraction(0)
    for _ in range(steps):
        gradient = weight
    return weight - learning_rate * gradient


def _noise_of_average(sigma: Fraction, clip: Fraction, batch: int) -> Fraction:
    """sigma times the largest move of sum / |B| when one of |B| examples from {-C, 0, C} leaves."""
    examples = itertools.product((-clip, Fraction(0), clip), repeat=batch)
    moves = (abs(sum(batch_of, Fraction(0)) - sum(batch_of[1:], Fraction(0))) / batch for batch_of in examples)
    return sigma * max(moves)


row = new_row(
    id="gip.alg2",
    source=Source("gip", "Algorithm 2, sections 3 and 4"),
    verdict=Verdict.CONDITIONAL,
    printed=printed_training,
)


@row.equal(lambda: [(Fraction(1), Fraction(1, 2), steps) for steps in (1, 2, 5)], kind=Kind.COUNTEREXAMPLE)
def _(start: Fraction, rate: Fraction, steps: int) -> tuple[Fraction, Fraction]:
    """update inside the loop"""
    return _descend(start, rate, steps), start * (1 - rate) ** steps


@row.equal(lambda: [(Fraction(10), Fraction(3), batch) for batch in (1, 2, 5)], kind=Kind.COUNTEREXAMPLE)
def _(sigma: Fraction, clip: Fraction, batch: int) -> Sides:
    """noise on the average for the same privacy"""
    return (sigma * clip) / batch, lambda: _noise_of_average(sigma, clip, batch), sigma * clip
