from fractions import Fraction

from dptheory import papers
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

Vector = tuple[int, ...]

row = new_row(
    id="gip.cosine_accuracy",
    source=Source("gip", "section 6.2, case studies, Fig. 4a against Fig. 3b"),
    verdict=Verdict.NOT_SHOWN,
)

_METHODS = ("GIP", "Jax-Privacy", "Random-0.5")
"""From the highest cosine to the lowest, as section 6.2 prints their order at epsilon = 1."""


def _accuracies(epsilon: str) -> list[Fraction]:
    table = papers.table("gip.table5")
    return [Fraction(table.cell(f"ResNet-18 CIFAR-10, {name}, epsilon {epsilon}").text) for name in _METHODS]


@row.equal(("0.5", False), ("1", True), ("2", True), ("4", True))
def _(epsilon: str, same: bool) -> Sides:
    """is the order of the cosines at epsilon = 1 that of the accuracies at this budget?"""
    found = _accuracies(epsilon)
    return same, lambda: found == sorted(found, reverse=True), not same


_CURVED = ((1, (9, 1), (1, 1)), (9, (9, 1), (1, 0)), (9, (9, 1), (0, 1)), (4, (1, 1), (3, 1)))
"""(curvature of the second coordinate, place, direction)"""


def _loss(curvature: int, place: tuple[Fraction, Fraction]) -> Fraction:
    return (place[0] ** 2 + curvature * place[1] ** 2) / 2


def _best_decrease(curvature: int, place: Vector, direction: Vector) -> Fraction:
    """max over rates, from the losses at the rates 0, 1 and 2: a parabola through three points."""
    x, y = Fraction(place[0]), Fraction(place[1])
    start, one, two = (_loss(curvature, (x - rate * direction[0], y - rate * direction[1])) for rate in (0, 1, 2))
    bend = (two - 2 * one + start) / 2
    slope = one - start - bend
    return slope**2 / (4 * bend)


def _stated_decrease(curvature: int, place: Vector, direction: Vector) -> Fraction:
    slope = place[0] * direction[0] + curvature * place[1] * direction[1]
    return Fraction(slope**2, 2 * (direction[0] ** 2 + curvature * direction[1] ** 2))


def _square_cosine(curvature: int, place: Vector, direction: Vector) -> Fraction:
    gradient = (place[0], curvature * place[1])
    inner = sum(a * b for a, b in zip(gradient, direction, strict=True))
    return Fraction(inner**2, sum(a * a for a in gradient) * sum(b * b for b in direction))


@row.equal(lambda: _CURVED, kind=Kind.COUNTEREXAMPLE)
def _(curvature: int, place: Vector, direction: Vector) -> Sides:
    """best decrease of a quadratic along a direction: not what its cosine says"""
    gradient = (place[0], curvature * place[1])
    by_cosine = _square_cosine(curvature, place, direction) * _stated_decrease(curvature, place, gradient)
    return (
        _stated_decrease(curvature, place, direction),
        lambda: _best_decrease(curvature, place, direction),
        by_cosine,
    )
