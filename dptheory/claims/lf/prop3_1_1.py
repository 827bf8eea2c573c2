import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from dptheory import freezing
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.lf._batches import (
    IMPROVING,
    LENGTHS,
    LINE,
    TURNING,
    Batch,
    Block,
    Vector,
    in_blocks,
    signed_square_cosine,
)


def _bias_falls(batch: Batch) -> bool:
    """Does the bias angle of a full batch that meets the assumptions not rise? In fractions."""
    if not batch.meets_the_assumptions():
        raise ValueError(f"batch must meet the assumptions, got {batch}")
    u = batch.direction()
    after, before = (signed_square_cosine(u, batch.clipped_sum(frozen)) for frozen in (True, False))
    return after >= before


def _stated_bias_falls(batch: Batch) -> bool:
    u = np.array(batch.direction(), dtype=np.float64)
    before = freezing.biased_signal(batch.rows, frozen_norms=batch.frozen_norms, clip_norm=1.0)
    after = freezing.biased_signal(batch.rows, frozen_norms=0.0, clip_norm=1.0)
    return freezing.bias_angle(direction=u, signal=after) <= freezing.bias_angle(direction=u, signal=before)


def _aimed(x: tuple[int, ...], w: tuple[int, ...], limit: Fraction, off: int) -> freezing.BiasAngleChange:
    """u = x + limit w and a part at right angles to x and w: the closest point of the ray is known."""
    u = [*(float(a + limit * b) for a, b in zip(x, w, strict=True)), float(off)]
    return freezing.bias_turn(direction=u, signal=[*x, 0], added=[*w, 0])


def _ray(u: Vector, x: Vector, w: Vector) -> tuple[Array, Array, Array]:
    return np.array(u, dtype=np.float64), np.array(x, dtype=np.float64), np.array(w, dtype=np.float64)


def _cosine_rate(u: Vector, x: Vector, w: Vector) -> float:
    """d cos(u, x + t w) / dt at t = 0 by a central difference, times |x| / |w|."""
    a, b, c = _ray(u, x, w)
    step = 1e-4
    ahead, behind = (float(a @ y / np.linalg.norm(a) / np.linalg.norm(y)) for y in (b + step * c, b - step * c))
    return float((ahead - behind) / (2 * step) * np.linalg.norm(b) / np.linalg.norm(c))


def _rays() -> Iterator[tuple[Vector, Vector, Vector]]:
    vectors: tuple[Vector, ...] = ((1, 0, 0), (2, 1, 0), (0, 1, 3), (-3, 1, 1))
    yield from itertools.permutations(vectors, 3)


def _closer_margin(u: Vector, x: Vector, w: Vector) -> float:
    """Wrong statement: cos(u, w) - cos(u, x), as if only a vector closer to u helped."""
    a, b, c = _ray(u, x, w)
    return math.cos(freezing.bias_angle(direction=a, signal=c)) - math.cos(freezing.bias_angle(direction=a, signal=b))


def _directions(lean: float, tilt: float, turn: float, length: float) -> tuple[Array, Array, Array]:
    """u, x of norm 1 at the angle lean, and w of norm length at the angle tilt to u, turned about u."""
    u, x = np.array([1.0, 0.0, 0.0]), np.array([math.cos(lean), math.sin(lean), 0.0])
    side = math.sin(tilt) * np.array([0.0, math.cos(turn), math.sin(turn)])
    return u, x, length * (math.cos(tilt) * u + side)


def _fall(u: Array, x: Array, y: Array) -> float:
    return (
        freezing.bias_angle(direction=u, signal=x) - freezing.bias_angle(direction=u, signal=y)
        if np.linalg.norm(y) > 1e-6
        else 0.0
    )


_BLOCK_ANGLES = tuple(
    (first, second) for first in ((1, 0), (3, 4), (-5, 12)) for second in ((1, 0), (8, 15), (-20, 21), (10**7, 1))
)


def _angle_by_hand(first: Block, second: Block, length: int) -> float:
    """By the complex quotient of the two, in whole numbers."""
    across, along = first[0] * second[1] - first[1] * second[0], first[0] * second[0] + first[1] * second[1]
    return math.atan2(abs(across), along)


_BLOCK_RAYS: tuple[tuple[tuple[Block, Block, Block], float | Fraction], ...] = (
    # u, x, w and how long the angle between u and x + t w falls
    (((2, 3, 5), (1, 0, 0), (1, 3, 0)), Fraction(1)),  # u is at right angles to the plane but for x + w
    (((17, 49, 5), (3, 0, 0), (2, 7, 0)), Fraction(7)),
    (((1, 0, 0), (0, 1, 0), (1, 0, 0)), math.inf),  # towards u itself
    (((1, 2, 0), (1, 0, 0), (1, -1, 0)), 0.0),  # away from u
    (((1, 0, 0), (1, 0, 0), (0, 1, 0)), 0.0),  # x along u
    (((-1, 0, 0), (1, 0, 0), (0, 1, 0)), math.inf),  # x opposite to u
    (((1, 1, 0), (2, 0, 0), (3, 0, 0)), math.inf),  # parallel: nothing turns
    (((1, 1, 0), (7, 0, 0), (-2, 0, 0)), Fraction(7, 2)),  # the signal passes 0
    (((-1, 1, 0), (7, 0, 0), (-2, 0, 0)), math.inf),
)


def _block_turn(field: str, ray: tuple[Block, Block, Block], length: int) -> float:
    u, x, w = (in_blocks(vector, length) for vector in ray)
    return float(getattr(freezing.bias_turn(direction=u, signal=x, added=w), field))


def _block_rate(ray: tuple[Block, Block, Block]) -> float:
    """d cos(u, x + t w) / dt at t = 0 by a difference of fourth order, times |x| / |w|."""
    u, x, w = (in_blocks(vector, 1) for vector in ray)
    step = 1e-3 * float(np.linalg.norm(x) / np.linalg.norm(w))

    def cosine(t: float) -> float:
        y = x + t * w
        return float(u @ y / np.linalg.norm(u) / np.linalg.norm(y))

    rate = (8 * (cosine(step) - cosine(-step)) - cosine(2 * step) + cosine(-2 * step)) / (12 * step)
    return float(rate * np.linalg.norm(x) / np.linalg.norm(w))


row = new_row(
    id="lf.prop3.1.1",
    source=Source("lf", "Proposition 3.1 (1)"),
    verdict=Verdict.FALSE,
    severity=Severity.SERIOUS,
    kernel_theorems=("printed_is_false",),
    calculators=(freezing.bias_turn, freezing.bias_angle, freezing.biased_signal),
)


@row.equal(lambda: [(batch,) for batch in (TURNING, IMPROVING, LINE)], kind=Kind.COUNTEREXAMPLE)
def _(batch: Batch) -> Sides:
    """does the bias angle fall? full batches that meet every assumption, in fractions"""
    return _stated_bias_falls(batch), _bias_falls(batch), True


@row.equal(
    lambda: itertools.product(((1, 0), (2, -1)), ((0, 1), (1, 3), (-1, 4)), (Fraction(1, 7), Fraction(2)), (0, 5)),
    tolerance=1e-12,
)
def _(x: tuple[int, ...], w: tuple[int, ...], limit: Fraction, off: int) -> Sides:
    """how far the angle falls, rays with a known closest point"""
    found = _aimed(x, w, limit, off)
    return found.limit, limit, found.margin


@row.equal(_rays, tolerance=1e-6)
def _(u: Vector, x: Vector, w: Vector) -> Sides:
    """the margin is the rate of the cosine"""
    direction, signal, added = _ray(u, x, w)
    found = freezing.bias_turn(direction=direction, signal=signal, added=added)
    return found.margin, _cosine_rate(u, x, w), _closer_margin(u, x, w)


@row.equal(lambda: [(*pair, length) for pair in _BLOCK_ANGLES for length in LENGTHS], tolerance=1e-12)
def _(first: Block, second: Block, length: int) -> Sides:
    """bias angle in blocks, by a complex quotient"""
    by_hand = _angle_by_hand(first, second, length)
    return (
        freezing.bias_angle(direction=in_blocks(first, length), signal=in_blocks(second, length)),
        by_hand,
        math.pi - by_hand,
    )


@row.equal(lambda: [(*ray, length) for ray in _BLOCK_RAYS for length in LENGTHS], tolerance=1e-12)
def _(ray: tuple[Block, Block, Block], limit: float | Fraction, length: int) -> Sides:
    """how far the angle falls, in blocks, on every branch"""
    return _block_turn("limit", ray, length), limit, limit / 2 + 1


@row.equal(
    lambda: [(ray, length) for ray, _ in _BLOCK_RAYS if abs(_block_rate(ray)) > 1e-6 for length in LENGTHS],
    tolerance=1e-9,
)
def _(ray: tuple[Block, Block, Block], length: int) -> Sides:
    """margin in blocks, by differences of the cosine"""
    return _block_turn("margin", ray, length), _block_rate(ray), -_block_rate(ray)


def _beyond_slack(lean: float, tilt: float, turn: float, length: float, share: float) -> float:
    """Wrong statement: the angle is no larger at ten times the limit."""
    return _limit_slack(lean, tilt, turn, length, share, 10.0)


@row.inequality(
    {
        "lean": Range(0.01, 3.1),
        "tilt": Range(0.01, 3.1),
        "turn": Range(0.0, math.pi),
        "length": Range(0.1, 10.0, log=True),
        "share": Range(0.01, 1.0),
    },
    wrong=_beyond_slack,
    tolerance=1e-9,
)
def _limit_slack(lean: float, tilt: float, turn: float, length: float, share: float, factor: float = 1.0) -> float:
    """the angle does not rise up to the limit"""
    u, x, w = _directions(lean, tilt, turn, length)
    limit = min(freezing.bias_turn(direction=u, signal=x, added=w).limit, 10.0)
    return _fall(u, x, x + share * factor * limit * w)


def _wider_cone_slack(lean: float, share: float, turn: float, length: float) -> float:
    """Wrong statement: a vector a tenth further away will do."""
    return _cone_slack(lean, 1.1 * share, turn, length)


@row.inequality(
    {
        "lean": Range(0.01, math.pi / 2),
        "share": Range(0.0, 1.0),
        "turn": Range(0.0, math.pi),
        "length": Range(0.01, 100.0, log=True),
    },
    wrong=_wider_cone_slack,
    tolerance=1e-9,
)
def _cone_slack(lean: float, share: float, turn: float, length: float) -> float:
    """the cone about the true direction

    Adding a vector that is no further from u than the signal is.
    """
    u, x, w = _directions(lean, share * lean, turn, length)
    return _fall(u, x, x + w)
