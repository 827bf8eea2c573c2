import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from dptheory import gradients
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row

Vector = Sequence[float]
Rule = Callable[[Vector], list[float]]

row = new_row(
    id="rs.clip_descent",
    source=Source("rs", "new, on Theorem 3.4 and Algorithm 1, line 5"),
    verdict=Verdict.HOLDS,
    calculators=(gradients.clip,),
)


def flat(g: Vector) -> list[float]:
    return [float(x) for x in gradients.clip(g, clip_norm=1.0)]


def by_layer(g: Vector) -> list[float]:
    """Layers of one and of two entries, clips 0.6 and 0.8."""
    return [x * min(1.0, clip / max(norm, 1e-300)) for x, clip, norm in zip(g, *_layers(g), strict=True)]


def _layers(g: Vector) -> tuple[tuple[float, ...], tuple[float, ...]]:
    rest = math.hypot(*g[1:])
    return (0.6, 0.8, 0.8), (abs(g[0]), rest, rest)


def automatic(g: Vector) -> list[float]:
    return [x / (math.hypot(*g) + 0.1) for x in g]


RULES: tuple[Rule, ...] = (flat, by_layer, automatic)


def _inner(one: Vector, other: Vector) -> float:
    return math.fsum(x * y for x, y in zip(one, other, strict=True))


def _descended(rule: Rule, g: Vector, deviations: Sequence[Vector]) -> float:
    """Inner product of the gradient and the sum of the clipped gradients, in units of the gradient's norm."""
    found = [_inner(g, rule([x + y for x, y in zip(g, deviation, strict=True)])) for deviation in deviations]
    return math.fsum(found) / math.hypot(*g)


def _vectors(point: dict[str, float]) -> tuple[Rule, list[float], list[float]]:
    rule = RULES[int(point["rule"])]
    return rule, [point["size"] * x for x in (1.0, point["g1"], point["g2"])], [point[f"x{i}"] for i in range(3)]


def _skewed_slack(**point: float) -> float:
    """Wrong statement: deviations of mean zero."""
    rule, g, x = _vectors(point)
    return _descended(rule, g, [[2 * one for one in x], [-one for one in x], [-one for one in x]])


@row.inequality(
    {
        "rule": Range(0, 2, integer=True),
        "size": Range(0.01, 10.0, log=True),
        **{f"g{i}": Range(-1.0, 1.0) for i in (1, 2)},
        **{f"x{i}": Range(-5.0, 5.0) for i in range(3)},
    },
    wrong=_skewed_slack,
    tolerance=1e-12,
)
def _symmetric_slack(**point: float) -> float:
    """symmetric deviations: no rule goes uphill"""
    rule, g, x = _vectors(point)
    return _descended(rule, g, [x, [-one for one in x]])


def _flat_is_no_better_slack(**point: float) -> float:
    """Wrong statement: the other way round."""
    return -_layer_slack(**point)


@row.inequality(
    {f"g{i}": Range(-3.0, 3.0) for i in range(3)},
    wrong=_flat_is_no_better_slack,
    tolerance=1e-12,
)
def _layer_slack(**point: float) -> float:
    """of a record's own gradient clipping by layer keeps no more than flat clipping"""
    g = [point[f"g{i}"] for i in range(3)]
    return _inner(g, flat(g)) - _inner(g, by_layer(g))


@row.equal(
    *itertools.product((Fraction(1), Fraction(7, 3)), (Fraction(1, 10), Fraction(1), Fraction(19, 10))),
    kind=Kind.COUNTEREXAMPLE,
)
def _(a: Fraction, share: Fraction) -> Sides:
    """gradients 3a, -a, -a and a flat clip below 2a: the sum of the clipped ones points the wrong way"""
    clip = share * a
    total = sum(max(-clip, min(clip, g)) for g in (3 * a, -a, -a))
    return -min(clip, 2 * a - clip), total, clip


@row.equal(
    *itertools.product((Fraction(1), Fraction(7, 3)), (Fraction(1, 100), Fraction(1), Fraction(2))),
    kind=Kind.COUNTEREXAMPLE,
)
def _(a: Fraction, gamma: Fraction) -> Sides:
    """the same gradients normalised, gamma below 3a"""
    total = sum(g / (abs(g) + gamma) for g in (3 * a, -a, -a))
    return a * (gamma - 3 * a) / ((3 * a + gamma) * (a + gamma)), total, 1
