import itertools
import math
from fractions import Fraction

from dptheory import privacy
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row

_OWN = {"add-remove": 1, "replace-one": 2}

row = new_row(
    id="rs.automatic_clip",
    source=Source("rs", "new, on Algorithm 1, line 5"),
    verdict=Verdict.HOLDS,
    calculators=(privacy.clipping.automatic_clip_sensitivity,),
)


def normalised(gradient: Fraction, clip: Fraction, gamma: Fraction) -> Fraction:
    return clip * gradient / (abs(gradient) + gamma)


def largest_move(clip: Fraction, gamma: Fraction, longest: Fraction, adjacency: str) -> Fraction:
    """How far one record moves the sum, over a grid of gradients in one dimension."""
    found = [normalised(longest * Fraction(share, 8), clip, gamma) for share in range(-8, 9)]
    return max(found) - min(found) if adjacency == "replace-one" else max(map(abs, found))


@row.equal(
    *itertools.product(
        (Fraction(1), Fraction(3, 4)),
        (Fraction(1, 100), Fraction(2)),
        (Fraction(1, 2), Fraction(7), Fraction(10**6)),
        ("add-remove", "replace-one"),
    ),
    tolerance=1e-15,
)
def _(clip: Fraction, gamma: Fraction, longest: Fraction, adjacency: str) -> Sides:
    """how far a record moves the sum, over a grid of gradients, in fractions"""
    found = privacy.clipping.automatic_clip_sensitivity(
        clip_norm=float(clip), gamma=float(gamma), largest_norm=float(longest), adjacency=adjacency
    )
    return found, lambda: largest_move(clip, gamma, longest, adjacency), _OWN[adjacency] * clip


@row.equal(*itertools.product((Fraction(1, 100), Fraction(5)), ("add-remove", "replace-one")), tolerance=1e-11)
def _(gamma: Fraction, adjacency: str) -> Sides:
    """approached by long gradients, in fractions"""
    found = privacy.clipping.automatic_clip_sensitivity(clip_norm=2.0, gamma=float(gamma), adjacency=adjacency)
    return found, lambda: largest_move(Fraction(2), gamma, Fraction(10**15), adjacency), 1.01 * found


def _slack(bound: float, point: dict[str, float]) -> float:
    parts = []
    for name in "gh":
        norm = point["longest"] * point[name]
        length = norm / (norm + point["gamma"])
        parts.append((length * math.cos(point[f"{name}_angle"]), length * math.sin(point[f"{name}_angle"])))
    return bound - math.dist(parts[0], parts[1] if point["replaced"] else (0.0, 0.0))


def _bound(point: dict[str, float]) -> float:
    return privacy.clipping.automatic_clip_sensitivity(
        clip_norm=1.0,
        gamma=point["gamma"],
        largest_norm=point["longest"],
        adjacency="replace-one" if point["replaced"] else "add-remove",
    )


@row.inequality(
    {
        "replaced": Range(0, 1, integer=True),
        "gamma": Range(1e-3, 10.0, log=True),
        "longest": Range(1e-2, 100.0, log=True),
        **{name: Range(0.0, 1.0) for name in "gh"},
        **{f"{name}_angle": Range(0.0, 2 * math.pi) for name in "gh"},
    },
    # wrong: R over R + 2 gamma
    wrong=lambda **point: _slack(_bound(point | {"gamma": 2 * point["gamma"]}), point),
)
def _moved_slack(**point: float) -> float:
    """no two records in the plane are further apart"""
    return _slack(_bound(point), point)
