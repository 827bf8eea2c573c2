import itertools
from fractions import Fraction

from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row


def printed_mean_factor(batch_size: int) -> Fraction:
    """E s^U over the mean gradient as Definition 3.1 is printed: B + 1 terms over B."""
    return Fraction(batch_size + 1, batch_size)


def _mean_signal(gradients: tuple[int, ...], batch_size: int, terms: int) -> Fraction:
    """E of 1/B times the sum of ``terms`` gradients, over all ordered draws with replacement."""
    draws = list(itertools.product(gradients, repeat=terms))
    return Fraction(sum(sum(draw) for draw in draws), len(draws) * batch_size)


def _mean(values: tuple[int, ...]) -> Fraction:
    return Fraction(sum(values), len(values))


row = new_row(
    id="lf.def3.1",
    source=Source("lf", "Definition 3.1"),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_mean_factor,
)


@row.equal(lambda: [(values, size) for values in ((1, 2), (3, -1, 4), (-2, 5)) for size in (1, 2, 4)])
def _(values: tuple[int, ...], size: int) -> Sides:
    """mean over all batches, in fractions"""
    return _mean(values), _mean_signal(values, size, size), printed_mean_factor(size) * _mean(values)


@row.equal(lambda: [(values, size) for values in ((1, 2), (3, -1, 4)) for size in (1, 2, 4)], kind=Kind.COUNTEREXAMPLE)
def _(values: tuple[int, ...], size: int) -> Sides:
    """what the printed sum estimates"""
    return printed_mean_factor(size) * _mean(values), _mean_signal(values, size, size + 1), _mean(values)
