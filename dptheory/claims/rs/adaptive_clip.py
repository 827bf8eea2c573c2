import itertools
import math
from collections.abc import Callable

from dptheory import privacy
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row

_OWN = {"add-remove": 1, "replace-one": 2}
_SHARES = (1e-6, 0.01, 0.2, 0.5)

row = new_row(
    id="rs.adaptive_clip",
    source=Source("rs", "new, on Algorithm 1, line 5"),
    verdict=Verdict.HOLDS,
    calculators=(privacy.clipping.counted_noise,),
)


def vote(norm: float) -> float:
    """Of an example, at clip 1."""
    return 0.0 if norm == 0 else 0.5 if norm <= 1 else -0.5


def zero_or_one(norm: float) -> float:
    """Of an example, without the offset."""
    return 0.0 if norm == 0 or norm > 1 else 1.0


def released(
    gradient: float, stds: privacy.clipping.CountedNoise, votes: Callable[[float], float]
) -> tuple[float, float]:
    """What a record adds to sum and count, each in units of its noise; one dimension, clip 1."""
    return max(-1.0, min(1.0, gradient)) / stds.gradient_multiplier, votes(abs(gradient)) / stds.count_std


def largest_move(sigma: float, share: float, adjacency: str, votes: Callable[[float], float] = vote) -> float:
    """How far one record moves the release, over a grid of gradients."""
    stds = privacy.clipping.counted_noise(noise_multiplier=sigma, count_share=share)
    found = [released(gradient, stds, votes) for gradient in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)]
    pairs = itertools.product(found, found if adjacency == "replace-one" else [(0.0, 0.0)])
    return max(math.dist(one, other) for one, other in pairs)


@row.equal(*itertools.product((0.3, 1.0, 40.0), _SHARES, ("add-remove", "replace-one")), tolerance=4e-15)
def _(sigma: float, share: float, adjacency: str) -> Sides:
    """how far a record moves sum and count, in units of their noise"""
    return largest_move(sigma, share, adjacency), _OWN[adjacency] / sigma, 1.01 * _OWN[adjacency] / sigma


@row.equal(*itertools.product((1.0, 3.0), _SHARES), tolerance=4e-15, kind=Kind.COUNTEREXAMPLE)
def _(sigma: float, share: float) -> Sides:
    """votes of 0 and 1 cost four times the share under add-remove"""
    found = math.sqrt(1 + 3 * share) / sigma
    wrong = 1 / sigma if share > 1e-3 else 1.01 * found
    return found, largest_move(sigma, share, "add-remove", zero_or_one), wrong


@row.equal(*itertools.product((0.3, 1.0, 40.0), _SHARES), tolerance=4e-15)
def _(sigma: float, share: float) -> Sides:
    """the two multipliers combine to that of the step"""
    stds = privacy.clipping.counted_noise(noise_multiplier=sigma, count_share=share)
    joint = privacy.combined_multiplier(noise_multipliers=[stds.gradient_multiplier, 2 * stds.count_std])
    return joint, sigma, 1.01 * sigma


def _slack(point: dict[str, float], votes: Callable[[float], float]) -> float:
    stds = privacy.clipping.counted_noise(noise_multiplier=1.0, count_share=point["share"])
    parts = []
    for name in "gh":
        norm = point[name]
        shortened, angle = min(norm, 1.0) / stds.gradient_multiplier, point[f"{name}_angle"]
        parts.append((shortened * math.cos(angle), shortened * math.sin(angle), votes(norm) / stds.count_std))
    other = parts[1] if point["replaced"] else (0.0, 0.0, 0.0)
    return 1 + point["replaced"] - math.dist(parts[0], other)


@row.inequality(
    {
        "replaced": Range(0, 1, integer=True),
        "share": Range(1e-6, 0.5, log=True),
        **{name: Range(0.0, 3.0) for name in "gh"},
        **{f"{name}_angle": Range(0.0, 2 * math.pi) for name in "gh"},
    },
    # wrong: the votes are 0 and 1
    wrong=lambda **point: _slack(point, zero_or_one),
    tolerance=1e-12,
)
def _moved_slack(**point: float) -> float:
    """no two records in the plane are further apart, at noise multiplier 1"""
    return _slack(point, vote)
