import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import scipy

from dptheory import gradients, papers
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row

_TABLE_1, _TABLE_2, _TABLE_5, _TABLE_6 = (papers.table(f"gip.table{number}") for number in (1, 2, 5, 6))


def _epsilons(table: papers.Table) -> set[float]:
    return {float(cell.key("epsilon")) for cell in table.cells}


def _gains(method: str, settings: tuple[str, ...]) -> list[Fraction]:
    """Accuracy of ``method`` minus Jax-Privacy in Table 5, in percentage points."""
    return [
        cell.number() - _TABLE_5.cell(cell.name.replace(method, "Jax-Privacy")).number()
        for cell in _TABLE_5.cells
        if cell.key("setting") in settings and cell.key("method") == method
    ]


def _imagenet_gains() -> list[Fraction]:
    """Top-1 and top-5 accuracy of GIP minus Jax-Privacy in Table 1."""
    return [
        cell.number() - _TABLE_1.cell(cell.name.replace("GIP", "Jax-Privacy")).number()
        for cell in _TABLE_1.cells
        if cell.key("method") == "GIP"
    ]


def _least_fall_pre_trained() -> Fraction:
    """How much less a method has on the pre-trained WRN-28-10 at epsilon 4 than at 2, the least over the methods."""
    return min(
        cell.number() - _TABLE_5.cell(cell.name.replace("epsilon 2", "epsilon 4")).number()
        for cell in _TABLE_5.cells
        if cell.key("setting").startswith("WRN-28-10") and cell.key("epsilon") == "2" and cell.text != "-"
    )


def _hours() -> Fraction:
    return _TABLE_2.cell("Jax-Privacy, per batch").number() * papers.setting("gip.timing").whole("steps") / 3600


_EVERYWHERE = tuple(dict.fromkeys(cell.key("setting") for cell in _TABLE_5.cells))[:3]
_FINDINGS: dict[str, tuple[Callable[[], Fraction], Fraction, Fraction]] = {
    # what: (from the tables, corrected value, what the text says)
    "smallest gain of GIP from scratch": (lambda: min(_gains("GIP", _EVERYWHERE)), Fraction("0.59"), Fraction(2)),
    "largest gain of GIP from scratch": (lambda: max(_gains("GIP", _EVERYWHERE)), Fraction("5.35"), Fraction(3)),
    "largest deviation of Random-k": (
        lambda: max(map(abs, _gains("Random-0.5", _EVERYWHERE))),
        Fraction("3.74"),
        Fraction(1),
    ),
    "largest deviation of DataLens": (
        lambda: max(map(abs, _gains("DataLens", _EVERYWHERE))),
        Fraction("2.56"),
        Fraction(1),
    ),
    "hours of 875 batches at 12.6 s": (_hours, Fraction("3.0625"), _TABLE_2.cell("Jax-Privacy, in all").number()),
    "GIP minus Tramer & Boneh at epsilon 1": (
        lambda: _TABLE_6.cell("GIP, epsilon 1").number() - _TABLE_6.cell("Tramer & Boneh, epsilon 1").number(),
        Fraction("-0.99"),
        Fraction(1),  # "exceeds the state of the art by around 1 to 2 %"
    ),
    "GIP on WRN-16-4 at epsilon 1, Table 6 minus Table 5": (
        lambda: _TABLE_6.cell("GIP, epsilon 1").number() - _TABLE_5.cell("WRN-16-4 CIFAR-10, GIP, epsilon 1").number(),
        Fraction("0.34"),
        Fraction(0),
    ),
    "fall on WRN-28-10 from epsilon 2 to 4, the least": (_least_fall_pre_trained, Fraction("3.73"), Fraction(0)),
    "smallest gain of GIP on ImageNet": (lambda: min(_imagenet_gains()), Fraction("-0.07"), Fraction("0.1")),
    "largest gain of GIP on ImageNet": (lambda: max(_imagenet_gains()), Fraction("0.47"), Fraction("0.4")),
    "WRN-28-10 epsilons that Tables 4 and 5 share": (
        lambda: Fraction(len(_epsilons(_TABLE_5) & {one.epsilon for one in papers.settings("gip.wrn-28-10")})),
        Fraction(3),
        Fraction(4),
    ),
    "ImageNet epsilons that Tables 1 and 4 share": (
        lambda: Fraction(len(_epsilons(_TABLE_1) & {one.epsilon for one in papers.settings("gip.imagenet")})),
        Fraction(1),
        Fraction(4),
    ),
}


text = new_row(
    id="gip.text",
    source=Source("gip", "abstract, section 6.2, Tables 1, 2, 4, 5, 6"),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
)


@text.equal(lambda: [(what,) for what in _FINDINGS], kind=Kind.COUNTEREXAMPLE)
def _(what: str) -> Sides:
    """sentences against tables"""
    return _FINDINGS[what][1], lambda: _FINDINGS[what][0](), _FINDINGS[what][2]


Vector = tuple[int, ...]

cosine_accuracy = new_row(
    id="gip.cosine_accuracy",
    source=Source("gip", "section 6.2, case studies, Fig. 4a against Fig. 3b"),
    verdict=Verdict.NOT_SHOWN,
)

_METHODS = ("GIP", "Jax-Privacy", "Random-0.5")
"""From the highest cosine to the lowest, as section 6.2 prints their order at epsilon = 1."""


def _accuracies(epsilon: str) -> list[Fraction]:
    table = papers.table("gip.table5")
    return [Fraction(table.cell(f"ResNet-18 CIFAR-10, {name}, epsilon {epsilon}").text) for name in _METHODS]


@cosine_accuracy.equal(("0.5", False), ("1", True), ("2", True), ("4", True))
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


@cosine_accuracy.equal(lambda: _CURVED, kind=Kind.COUNTEREXAMPLE)
def _(curvature: int, place: Vector, direction: Vector) -> Sides:
    """best decrease of a quadratic along a direction: not what its cosine says"""
    gradient = (place[0], curvature * place[1])
    by_cosine = _square_cosine(curvature, place, direction) * _stated_decrease(curvature, place, gradient)
    return (
        _stated_decrease(curvature, place, direction),
        lambda: _best_decrease(curvature, place, direction),
        by_cosine,
    )


def _cosines(rng: np.random.Generator, n: int, dim: int, snr: float) -> Array:
    signal = np.full(dim, snr / math.sqrt(dim))
    noisy = signal + rng.standard_normal((n, dim))
    return np.asarray(noisy @ signal / snr / np.linalg.norm(noisy, axis=1))


def _low_dimensional_cosine(dim: int, snr: float) -> float:
    """E cos in one dimension (the error function) and in the plane (modified Bessel functions)."""
    if dim == 1:
        return math.erf(snr / math.sqrt(2))
    return math.sqrt(math.pi / 8) * snr * float(scipy.special.ive(0, snr**2 / 4) + scipy.special.ive(1, snr**2 / 4))


def _tighter_slack(dim: float, snr: float) -> float:
    """Wrong statement: the upper bound with d in place of d - 1."""
    d = round(dim)
    return snr / math.hypot(snr, math.sqrt(d)) / gradients.DistortionAngle(d, snr=snr).expected_cos() - 1


def _fast_fall_slack(dim: float, snr: float) -> float:
    """Wrong statement: the cosine falls like 1 / dim."""
    small, large = (gradients.DistortionAngle(d, snr=snr).expected_cos() for d in (round(dim), 4 * round(dim)))
    return small / large - 4


fig1 = new_row(
    id="gip.fig1",
    source=Source("gip", "Fig. 1, observation 3 of section 1"),
    verdict=Verdict.HOLDS,
    calculators=(gradients.DistortionAngle.expected_cos,),
    figure="cosine_dimension",
)


@fig1.mean(partial(_cosines, dim=50, snr=3.0), wrong=lambda: 3.0 / math.sqrt(50), row_bytes=1200)
def _() -> float:
    """d = 50, snr = 3"""
    return gradients.DistortionAngle(50, snr=3.0).expected_cos()


@fig1.equal(lambda: [(dim, snr) for dim in (1, 2) for snr in (0.01, 1.0, 6.0)], tolerance=1e-12)
def _(dim: int, snr: float) -> Sides:
    """one and two dimensions in closed form"""
    return (
        gradients.DistortionAngle(dim, snr=snr).expected_cos(),
        lambda: _low_dimensional_cosine(dim, snr),
        snr / math.hypot(snr, math.sqrt(dim)),
    )


@fig1.inequality({"dim": Range(1, 1e8, log=True), "snr": Range(1e-6, 1e6, log=True)}, wrong=_fast_fall_slack)
def _fall_slack(dim: float, snr: float) -> float:
    """falls in the dimension"""
    lower, higher = (gradients.DistortionAngle(d, snr=snr).expected_cos() for d in (round(dim), round(1.1 * dim) + 1))
    return lower / higher - 1


@fig1.inequality({"dim": Range(1, 1e6, log=True), "snr": Range(1e-3, 1e3, log=True)}, wrong=_tighter_slack)
def _two_sided_slack(dim: float, snr: float) -> float:
    """two-sided bound"""
    d, value = round(dim), gradients.DistortionAngle(round(dim), snr=snr).expected_cos()
    return min(value * math.hypot(snr, math.sqrt(d + 2)) / snr - 1, snr / math.hypot(snr, math.sqrt(d - 1)) / value - 1)
