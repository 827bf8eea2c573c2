import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from dptheory import gradients, privacy
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row

Vector = Sequence[float]
Rule = Callable[[Vector], list[float]]

clip_descent = new_row(
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


@clip_descent.inequality(
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


def _layer_slack(**point: float) -> float:
    """of a record's own gradient clipping by layer keeps no more than flat clipping"""
    g = [point[f"g{i}"] for i in range(3)]
    return _inner(g, flat(g)) - _inner(g, by_layer(g))


clip_descent.inequality(
    {f"g{i}": Range(-3.0, 3.0) for i in range(3)},
    wrong=lambda **point: -_layer_slack(**point),  # the other way round
    tolerance=1e-12,
)(_layer_slack)


@clip_descent.equal(
    *itertools.product((Fraction(1), Fraction(7, 3)), (Fraction(1, 10), Fraction(1), Fraction(19, 10))),
    kind=Kind.COUNTEREXAMPLE,
)
def _(a: Fraction, share: Fraction) -> Sides:
    """gradients 3a, -a, -a and a flat clip below 2a: the sum of the clipped ones points the wrong way"""
    clip = share * a
    total = sum(max(-clip, min(clip, g)) for g in (3 * a, -a, -a))
    return -min(clip, 2 * a - clip), total, clip


@clip_descent.equal(
    *itertools.product((Fraction(1), Fraction(7, 3)), (Fraction(1, 100), Fraction(1), Fraction(2))),
    kind=Kind.COUNTEREXAMPLE,
)
def _(a: Fraction, gamma: Fraction) -> Sides:
    """the same gradients normalised, gamma below 3a"""
    total = sum(g / (abs(g) + gamma) for g in (3 * a, -a, -a))
    return a * (gamma - 3 * a) / ((3 * a + gamma) * (a + gamma)), total, 1


_OWN = {"add-remove": 1, "replace-one": 2}
_SHARES = (1e-6, 0.01, 0.2, 0.5)

adaptive_clip = new_row(
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


def move_with_votes(sigma: float, share: float, adjacency: str, votes: Callable[[float], float] = vote) -> float:
    """How far one record moves the release, over a grid of gradients."""
    stds = privacy.clipping.counted_noise(noise_multiplier=sigma, count_share=share)
    found = [released(gradient, stds, votes) for gradient in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)]
    pairs = itertools.product(found, found if adjacency == "replace-one" else [(0.0, 0.0)])
    return max(math.dist(one, other) for one, other in pairs)


@adaptive_clip.equal(*itertools.product((0.3, 1.0, 40.0), _SHARES, ("add-remove", "replace-one")), tolerance=4e-15)
def _(sigma: float, share: float, adjacency: str) -> Sides:
    """how far a record moves sum and count, in units of their noise"""
    return move_with_votes(sigma, share, adjacency), _OWN[adjacency] / sigma, 1.01 * _OWN[adjacency] / sigma


@adaptive_clip.equal(*itertools.product((1.0, 3.0), _SHARES), tolerance=4e-15, kind=Kind.COUNTEREXAMPLE)
def _(sigma: float, share: float) -> Sides:
    """votes of 0 and 1 cost four times the share under add-remove"""
    found = math.sqrt(1 + 3 * share) / sigma
    wrong = 1 / sigma if share > 1e-3 else 1.01 * found
    return found, move_with_votes(sigma, share, "add-remove", zero_or_one), wrong


@adaptive_clip.equal(*itertools.product((0.3, 1.0, 40.0), _SHARES), tolerance=4e-15)
def _(sigma: float, share: float) -> Sides:
    """the two multipliers combine to that of the step"""
    stds = privacy.clipping.counted_noise(noise_multiplier=sigma, count_share=share)
    joint = privacy.combined_multiplier(noise_multipliers=[stds.gradient_multiplier, 2 * stds.count_std])
    return joint, sigma, 1.01 * sigma


def _votes_slack(point: dict[str, float], votes: Callable[[float], float]) -> float:
    stds = privacy.clipping.counted_noise(noise_multiplier=1.0, count_share=point["share"])
    parts = []
    for name in "gh":
        norm = point[name]
        shortened, angle = min(norm, 1.0) / stds.gradient_multiplier, point[f"{name}_angle"]
        parts.append((shortened * math.cos(angle), shortened * math.sin(angle), votes(norm) / stds.count_std))
    other = parts[1] if point["replaced"] else (0.0, 0.0, 0.0)
    return 1 + point["replaced"] - math.dist(parts[0], other)


@adaptive_clip.inequality(
    {
        "replaced": Range(0, 1, integer=True),
        "share": Range(1e-6, 0.5, log=True),
        **{name: Range(0.0, 3.0) for name in "gh"},
        **{f"{name}_angle": Range(0.0, 2 * math.pi) for name in "gh"},
    },
    # wrong: the votes are 0 and 1
    wrong=lambda **point: _votes_slack(point, zero_or_one),
    tolerance=1e-12,
)
def _moved_with_votes(**point: float) -> float:
    """no two records in the plane are further apart, at noise multiplier 1"""
    return _votes_slack(point, vote)


automatic_clip = new_row(
    id="rs.automatic_clip",
    source=Source("rs", "new, on Algorithm 1, line 5"),
    verdict=Verdict.HOLDS,
    calculators=(privacy.clipping.automatic_clip_sensitivity,),
)


def normalised(gradient: Fraction, clip: Fraction, gamma: Fraction) -> Fraction:
    return clip * gradient / (abs(gradient) + gamma)


def move_normalised(clip: Fraction, gamma: Fraction, longest: Fraction, adjacency: str) -> Fraction:
    """How far one record moves the sum, over a grid of gradients in one dimension."""
    found = [normalised(longest * Fraction(share, 8), clip, gamma) for share in range(-8, 9)]
    return max(found) - min(found) if adjacency == "replace-one" else max(map(abs, found))


@automatic_clip.equal(
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
    return found, lambda: move_normalised(clip, gamma, longest, adjacency), _OWN[adjacency] * clip


@automatic_clip.equal(
    *itertools.product((Fraction(1, 100), Fraction(5)), ("add-remove", "replace-one")), tolerance=1e-11
)
def _(gamma: Fraction, adjacency: str) -> Sides:
    """approached by long gradients, in fractions"""
    found = privacy.clipping.automatic_clip_sensitivity(clip_norm=2.0, gamma=float(gamma), adjacency=adjacency)
    return found, lambda: move_normalised(Fraction(2), gamma, Fraction(10**15), adjacency), 1.01 * found


def _normalised_slack(bound: float, point: dict[str, float]) -> float:
    parts = []
    for name in "gh":
        norm = point["longest"] * point[name]
        length = norm / (norm + point["gamma"])
        parts.append((length * math.cos(point[f"{name}_angle"]), length * math.sin(point[f"{name}_angle"])))
    return bound - math.dist(parts[0], parts[1] if point["replaced"] else (0.0, 0.0))


def _normalised_bound(point: dict[str, float]) -> float:
    adjacency = list(_OWN)[int(point["replaced"])]
    return privacy.clipping.automatic_clip_sensitivity(
        clip_norm=1.0, gamma=point["gamma"], largest_norm=point["longest"], adjacency=adjacency
    )


@automatic_clip.inequality(
    {
        "replaced": Range(0, 1, integer=True),
        "gamma": Range(1e-3, 10.0, log=True),
        "longest": Range(1e-2, 100.0, log=True),
        **{name: Range(0.0, 1.0) for name in "gh"},
        **{f"{name}_angle": Range(0.0, 2 * math.pi) for name in "gh"},
    },
    # wrong: R over R + 2 gamma
    wrong=lambda **point: _normalised_slack(_normalised_bound(point | {"gamma": 2 * point["gamma"]}), point),
)
def _moved_normalised(**point: float) -> float:
    """no two records in the plane are further apart"""
    return _normalised_slack(_normalised_bound(point), point)


_GRID = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)

layer_clip = new_row(
    id="rs.layer_clip",
    source=Source("rs", "new, on Algorithm 1, line 5"),
    verdict=Verdict.HOLDS,
    calculators=(privacy.clipping.layer_clip_sensitivity,),
)


def clipped(record: Sequence[float], clips: Sequence[float]) -> list[float]:
    """Layers of one entry each."""
    return [max(-clip, min(clip, g)) for g, clip in zip(record, clips, strict=True)]


def move_of_layers(clips: Sequence[float], adjacency: str) -> float:
    """How far one record moves the sum, over a grid of gradients up to twice the clips."""
    records = itertools.product(*([clip * share for share in _GRID] for clip in clips))
    found = [clipped(record, clips) for record in records]
    if adjacency == "add-remove":
        return max(math.hypot(*one) for one in found)
    return max(math.dist(one, other) for one, other in itertools.product(found, repeat=2))


@layer_clip.equal(
    *itertools.product(((1.0,), (3.0, 4.0), (0.5, 2.0, 1e-3)), ("add-remove", "replace-one")),
    tolerance=1e-15,
)
def _(clips: tuple[float, ...], adjacency: str) -> Sides:
    """how far a record moves the sum, over a grid of gradients"""
    found = privacy.clipping.layer_clip_sensitivity(layer_clips=clips, adjacency=adjacency)
    wrong = _OWN[adjacency] * (max(clips) if len(clips) > 1 else 1.01 * clips[0])
    return found, lambda: move_of_layers(clips, adjacency), wrong


@layer_clip.equal(*((layers,) for layers in (2, 3, 5)), tolerance=1e-15, kind=Kind.COUNTEREXAMPLE)
def _(layers: int) -> Sides:
    """the clip of the whole for each layer costs the root of their number"""
    return math.sqrt(layers), lambda: move_of_layers([1.0] * layers, "add-remove"), 1.0


def _layers_slack(bound: float, point: dict[str, float]) -> float:
    clips = [point[f"c{i}"] for i in range(3)]
    one, other = ([point[f"{name}{i}"] * 3 * clips[i] for i in range(3)] for name in "gh")
    moved = math.dist(clipped(one, clips), clipped(other, clips) if point["replaced"] else [0.0] * 3)
    return bound - moved


def _layers_bound(point: dict[str, float]) -> float:
    clips, adjacency = [point[f"c{i}"] for i in range(3)], list(_OWN)[int(point["replaced"])]
    return privacy.clipping.layer_clip_sensitivity(layer_clips=clips, adjacency=adjacency)


@layer_clip.inequality(
    {
        "replaced": Range(0, 1, integer=True),
        **{f"c{i}": Range(0.1, 3.0, log=True) for i in range(3)},
        **{f"{name}{i}": Range(-1.0, 1.0) for i in range(3) for name in "gh"},
    },
    # wrong: the largest clip alone
    wrong=lambda **point: _layers_slack((1 + point["replaced"]) * max(point[f"c{i}"] for i in range(3)), point),
)
def _moved_layers(**point: float) -> float:
    """no two records are further apart"""
    return _layers_slack(_layers_bound(point), point)
