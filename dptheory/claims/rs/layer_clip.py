import itertools
import math
from collections.abc import Sequence

from dptheory import privacy
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row

_OWN = {"add-remove": 1, "replace-one": 2}
_GRID = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)

row = new_row(
    id="rs.layer_clip",
    source=Source("rs", "new, on Algorithm 1, line 5"),
    verdict=Verdict.HOLDS,
    calculators=(privacy.clipping.layer_clip_sensitivity,),
)


def clipped(record: Sequence[float], clips: Sequence[float]) -> list[float]:
    """Layers of one entry each."""
    return [max(-clip, min(clip, g)) for g, clip in zip(record, clips, strict=True)]


def largest_move(clips: Sequence[float], adjacency: str) -> float:
    """How far one record moves the sum, over a grid of gradients up to twice the clips."""
    records = itertools.product(*([clip * share for share in _GRID] for clip in clips))
    found = [clipped(record, clips) for record in records]
    if adjacency == "add-remove":
        return max(math.hypot(*one) for one in found)
    return max(math.dist(one, other) for one, other in itertools.product(found, repeat=2))


@row.equal(
    *itertools.product(((1.0,), (3.0, 4.0), (0.5, 2.0, 1e-3)), ("add-remove", "replace-one")),
    tolerance=1e-15,
)
def _(clips: tuple[float, ...], adjacency: str) -> Sides:
    """how far a record moves the sum, over a grid of gradients"""
    found = privacy.clipping.layer_clip_sensitivity(layer_clips=clips, adjacency=adjacency)
    wrong = _OWN[adjacency] * (max(clips) if len(clips) > 1 else 1.01 * clips[0])
    return found, lambda: largest_move(clips, adjacency), wrong


@row.equal(*((layers,) for layers in (2, 3, 5)), tolerance=1e-15, kind=Kind.COUNTEREXAMPLE)
def _(layers: int) -> Sides:
    """the clip of the whole for each layer costs the root of their number"""
    return math.sqrt(layers), lambda: largest_move([1.0] * layers, "add-remove"), 1.0


def _slack(bound: float, point: dict[str, float]) -> float:
    clips = [point[f"c{i}"] for i in range(3)]
    one, other = ([point[f"{name}{i}"] * 3 * clips[i] for i in range(3)] for name in "gh")
    moved = math.dist(clipped(one, clips), clipped(other, clips) if point["replaced"] else [0.0] * 3)
    return bound - moved


def _bound(point: dict[str, float]) -> float:
    clips = [point[f"c{i}"] for i in range(3)]
    return privacy.clipping.layer_clip_sensitivity(
        layer_clips=clips, adjacency="replace-one" if point["replaced"] else "add-remove"
    )


@row.inequality(
    {
        "replaced": Range(0, 1, integer=True),
        **{f"c{i}": Range(0.1, 3.0, log=True) for i in range(3)},
        **{f"{name}{i}": Range(-1.0, 1.0) for i in range(3) for name in "gh"},
    },
    # wrong: the largest clip alone
    wrong=lambda **point: _slack((1 + point["replaced"]) * max(point[f"c{i}"] for i in range(3)), point),
)
def _moved_slack(**point: float) -> float:
    """no two records are further apart"""
    return _slack(_bound(point), point)
