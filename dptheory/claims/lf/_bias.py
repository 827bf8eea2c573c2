"""LF: the angle of the biased signal with the true direction, Appendix C and Proposition 3.1 (1)."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dptheory import freezing
from dptheory.checks import ExactCheck, Kind, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.lf import _at_scale
from dptheory.claims.lf._batches import IMPROVING, LINE, TURNING, Batch, Vector, dot, signed_square_cosine

Array = NDArray[np.float64]

# --- lf.appC.cos ------------------------------------------------------------------------------------------------------


def printed_cosine(a: float, b: float, c: float, factor: float) -> float:
    """cos(v2, k v2 + v1) as the appendix simplifies it, with a = |v2|^2, b = <v1, v2>, c = |v1|^2, k = factor."""
    return (factor**2 * a + factor * b) / (factor * math.sqrt(a) + math.sqrt(factor**2 * a + c + 2 * factor * b))


def _pairs() -> Iterator[tuple[Vector, Vector, Fraction]]:
    """v1, v2 at acute, right and obtuse angles, and k > 1."""
    vectors: tuple[Vector, ...] = ((1, 0, 0), (2, 1, 0), (0, 1, 3), (-3, 1, 1), (-1, -1, 2))
    for v1, v2 in itertools.permutations(vectors, 2):
        for factor in (Fraction(11, 10), Fraction(2), Fraction(40)):
            yield v1, v2, factor


def _combined(v1: Vector, v2: Vector, factor: Fraction) -> Vector:
    return tuple(factor * y + x for x, y in zip(v1, v2, strict=True))


def _angle(a: Vector, b: Vector) -> float:
    return freezing.bias_angle([float(x) for x in a], [float(x) for x in b])


def _falls(seen_from: Vector, v1: Vector, v2: Vector, factor: Fraction) -> bool:
    """Does the angle between a vector and k v2 + v1 fall between 1 and k = factor? In fractions."""
    one = _combined(v1, v2, Fraction(1))
    return signed_square_cosine(seen_from, _combined(v1, v2, factor)) > signed_square_cosine(seen_from, one)


COSINE = Claim(
    id="lf.appC.cos",
    title="a longer summand turns the sum",
    source=Source("lf", "Appendix C"),
    statement=r"For $v_3 = v_1+v_2$: where $v_2$ gets longer and $v_1$ stays, the angle between $v_1$ and $v_3$ falls.",
    verdict=Verdict.FALSE,
    conditions=(
        "for the corrected statement the angle is the one between v3 and v2, the vector that gets longer, as in the appendix's calculation; its text names v1",
        "v1 and v2 are not 0, nor is v3; the calculation's extra condition <v1, v2> >= 0 is not needed",
    ),
    correction=r"$\cot\angle(v_2,kv_2+v_1) = (k\|v_2\|^2+\langle v_1,v_2\rangle)/\sqrt{\|v_1\|^2\|v_2\|^2-\langle v_1,v_2\rangle^2}$: linear and rising in $k$. "
    r"The angle of $v_1$ and $kv_2+v_1$ rises. In the printed formula the denominator has a sum for a product.",
    printed=printed_cosine,
    calculators=(freezing.bias_angle,),
    checks=(
        ExactCheck(
            name="which angle falls? in fractions",
            cases=_pairs,
            truth=lambda v1, v2, factor: _falls(v2, v1, v2, factor),
            statement=lambda v1, v2, factor: (
                _angle(v2, _combined(v1, v2, factor)) < _angle(v2, _combined(v1, v2, Fraction(1)))
            ),
            wrong=lambda v1, v2, factor: _falls(v1, v1, v2, factor),
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="cosine of the angle with the longer vector",
            cases=_pairs,
            truth=lambda v1, v2, factor: (
                lambda s: math.copysign(math.sqrt(abs(s)), s)
            )(signed_square_cosine(v2, _combined(v1, v2, factor))),
            statement=lambda v1, v2, factor: math.cos(_angle(v2, _combined(v1, v2, factor))),
            wrong=lambda v1, v2, factor: printed_cosine(
                float(dot(v2, v2)), float(dot(v1, v2)), float(dot(v1, v1)), float(factor)
            ),
            tolerance=1e-12,
        ),
    ),
    proved=True,
)  # fmt: skip

# --- lf.prop3.1.1 -----------------------------------------------------------------------------------------------------


def _bias_falls(batch: Batch) -> bool:
    """Does the bias angle of a full batch that meets the assumptions not rise? In fractions."""
    if not batch.meets_the_assumptions():
        raise ValueError(f"batch must meet the assumptions, got {batch}")
    u = batch.direction()
    after, before = (signed_square_cosine(u, batch.clipped_sum(frozen)) for frozen in (True, False))
    return after >= before


def _stated_bias_falls(batch: Batch) -> bool:
    u = np.array(batch.direction(), dtype=np.float64)
    before = freezing.biased_signal(batch.rows, batch.frozen_norms, 1.0)
    after = freezing.biased_signal(batch.rows, 0.0, 1.0)
    return freezing.bias_angle(u, after) <= freezing.bias_angle(u, before)


def _aimed(x: tuple[int, ...], w: tuple[int, ...], limit: Fraction, off: int) -> freezing.BiasTurn:
    """u = x + limit w and a part at right angles to x and w: the closest point of the ray is known."""
    u = [*(float(a + limit * b) for a, b in zip(x, w, strict=True)), float(off)]
    return freezing.bias_turn(u, [*x, 0], [*w, 0])


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
    return math.cos(_angle(u, w)) - math.cos(_angle(u, x))


def _directions(lean: float, tilt: float, turn: float, length: float) -> tuple[Array, Array, Array]:
    """u, x of norm 1 at the angle lean, and w of norm length at the angle tilt to u, turned about u."""
    u, x = np.array([1.0, 0.0, 0.0]), np.array([math.cos(lean), math.sin(lean), 0.0])
    side = math.sin(tilt) * np.array([0.0, math.cos(turn), math.sin(turn)])
    return u, x, length * (math.cos(tilt) * u + side)


def _fall(u: Array, x: Array, y: Array) -> float:
    return freezing.bias_angle(u, x) - freezing.bias_angle(u, y) if np.linalg.norm(y) > 1e-6 else 0.0


def _limit_slack(lean: float, tilt: float, turn: float, length: float, share: float, factor: float = 1.0) -> float:
    u, x, w = _directions(lean, tilt, turn, length)
    limit = min(freezing.bias_turn(u, x, w).limit, 10.0)
    return _fall(u, x, x + share * factor * limit * w)


def _beyond_slack(lean: float, tilt: float, turn: float, length: float, share: float) -> float:
    """Wrong statement: the angle is no larger at ten times the limit."""
    return _limit_slack(lean, tilt, turn, length, share, 10.0)


def _cone_slack(lean: float, share: float, turn: float, length: float) -> float:
    """Adding a vector that is no further from u than the signal is."""
    u, x, w = _directions(lean, share * lean, turn, length)
    return _fall(u, x, x + w)


def _wider_cone_slack(lean: float, share: float, turn: float, length: float) -> float:
    """Wrong statement: a vector a tenth further away will do."""
    return _cone_slack(lean, 1.1 * share, turn, length)


BIAS = Claim(
    id="lf.prop3.1.1",
    title="freezing lowers the bias angle",
    source=Source("lf", "Proposition 3.1 (1)"),
    statement=r"Under Assumptions 3.1 and 3.2 $E[\gamma^{B,a}(\theta')]\le E[\gamma^{B,b}(\theta')]$.",
    verdict=Verdict.FALSE,
    conditions=(
        "the printed step has the angle between v and v + w fall as w grows: it rises (lf.appC.cos)",
        "Assumption 3.1 compares the clipped gradients with the unclipped ones; what counts is how they compare with the biased signal",
    ),
    correction=r"With $u = \nabla f$, $x = s^b$, $w = s^a-s^b$: the angle falls at first if $\cos(u,w)>\cos(u,x)\cos(x,w)$ and rises if $<$; it falls or stays all the way if "
    r"$\cos(u,w)\ge\cos(u,y)\cos(y,w)$ at $y = s^b$ and at $y = s^a$. Enough: $\gamma^{B,b}\le\pi/2$ and every sample whose clip factor grows lies within $\gamma^{B,b}$ of $u$.",
    calculators=(freezing.bias_turn, freezing.bias_angle, freezing.biased_signal),
    checks=(
        ExactCheck(
            name="does the bias angle fall? full batches that meet every assumption, in fractions",
            cases=lambda: [(batch,) for batch in (TURNING, IMPROVING, LINE)],
            truth=_bias_falls,
            statement=_stated_bias_falls,
            wrong=lambda batch: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="how far the angle falls, rays with a known closest point",
            cases=lambda: itertools.product(
                ((1, 0), (2, -1)), ((0, 1), (1, 3), (-1, 4)), (Fraction(1, 7), Fraction(2)), (0, 5)
            ),
            truth=lambda x, w, limit, off: limit,
            statement=lambda *case: _aimed(*case).limit,
            wrong=lambda *case: _aimed(*case).margin,
            tolerance=1e-12,
        ),
        ExactCheck(
            name="the margin is the rate of the cosine",
            cases=_rays,
            truth=_cosine_rate,
            statement=lambda u, x, w: freezing.bias_turn(*_ray(u, x, w)).margin,
            wrong=_closer_margin,
            tolerance=1e-6,
        ),
        *_at_scale.TURN,
        SearchCheck(
            name="the angle does not rise up to the limit",
            box={
                "lean": Range(0.01, 3.1),
                "tilt": Range(0.01, 3.1),
                "turn": Range(0.0, math.pi),
                "length": Range(0.1, 10.0, log=True),
                "share": Range(0.01, 1.0),
            },
            slack=_limit_slack,
            wrong=_beyond_slack,
            tolerance=1e-9,
        ),
        SearchCheck(
            name="the cone about the true direction",
            box={
                "lean": Range(0.01, math.pi / 2),
                "share": Range(0.0, 1.0),
                "turn": Range(0.0, math.pi),
                "length": Range(0.01, 100.0, log=True),
            },
            slack=_cone_slack,
            wrong=_wider_cone_slack,
            tolerance=1e-9,
        ),
    ),
    proved=True,
)
