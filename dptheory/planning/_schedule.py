"""The joint choice of batch size, epochs and clip at a budget, by the worst regret over what is not known."""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dptheory.planning._records import Choice
from dptheory.planning._setup import TrainingSetup, steps_of
from dptheory.planning._signal import Signal, Step
from dptheory.privacy import MAX_STEPS, NOISE, RATE, estimated_noise_multiplier

NEAR, FAR = 1.05, 1.10
"""The choice has the fewest epochs of those whose worst regret is within 5 % of the least; ranges reach to 10 % above it."""
_EPOCHS = (1, 3, 10, 20, 40, 70, 100, 200, 400, 1000, 3000, 10_000)
_MOST_BATCHES = 8
CLAIMS = ("rs.tuned", "rs.lem3.1")


@dataclass(frozen=True)
class Point:
    """One choice; clip None where nothing is known of it."""

    batch_size: int
    epochs: int
    clip_norm: float | None


@dataclass(frozen=True)
class Schedule:
    """The choice, its worst regret and, for each hyperparameter, the range around it."""

    point: Point
    worst_regret: float
    batch_size: Choice
    epochs: Choice
    clip_norm: Choice


Cases = Callable[[float | None], Sequence[Signal]]
"""For a clip: the possible signals, in the same order for every clip."""


def step_at(setup: TrainingSetup, point: Point, noise_multiplier: float) -> Step:
    rate = point.batch_size / setup.num_examples
    return Step(
        batch_size=point.batch_size,
        sampling_rate=rate,
        steps=steps_of(point.epochs, rate),
        noise_multiplier=noise_multiplier,
    )


@functools.lru_cache(maxsize=4096)
def estimated_noise(epsilon: float, delta: float, sampling_rate: float, steps: int) -> float:
    """As the calculator; a plan asks for the same again."""
    return estimated_noise_multiplier(epsilon=epsilon, delta=delta, sampling_rate=sampling_rate, steps=steps)


def choose(setup: TrainingSetup, clips: Sequence[float], cases: Cases) -> Schedule:
    """The point with the fewest epochs among those whose worst regret is within 5 % of the least, and the ranges.

    The worst regret is the largest ratio, over the cases, of the bound to the least bound of all points in that case.

    Args:
        setup: what is fixed.
        clips: that were measured; empty where nothing was.
        cases: see :data:`Cases`.
    """
    points = [
        Point(batch, epochs, clip)
        for batch, epochs, clip in itertools.product(_batches(setup), _epochs(setup), _clips(setup, clips))
        if steps_of(epochs, batch / setup.num_examples) <= MAX_STEPS
    ]
    if not points:
        raise ValueError(f"batch_size must be larger: more than {MAX_STEPS} steps, got {setup.batch_size!r}")
    # The noise is an estimate, and never above the most that is accounted for. Where all are there, the exact one will say so.
    points = [point for point in points if _noise(setup, point) < 0.99 * NOISE[1]] or points
    losses = {point: _losses(setup, point, cases) for point in points}
    best = [min(column) for column in zip(*losses.values(), strict=True)]
    regrets = {point: _worst(row, best) for point, row in losses.items()}
    least = min(regrets.values())
    near = [point for point, regret in regrets.items() if regret <= NEAR * least]
    chosen = min(near, key=lambda point: (point.epochs, regrets[point]))
    far = [point for point, regret in regrets.items() if regret <= FAR * least]
    clip_known = bool(clips) or setup.clip_norm is not None
    return Schedule(
        point=chosen,
        worst_regret=regrets[chosen],
        batch_size=_choice(
            "batch_size", chosen.batch_size, [p.batch_size for p in far], setup.batch_size is not None, CLAIMS
        ),
        epochs=_choice("epochs", chosen.epochs, [p.epochs for p in far], setup.epochs is not None, CLAIMS),
        clip_norm=_choice(
            "clip_norm",
            chosen.clip_norm,
            [p.clip_norm for p in far if p.clip_norm is not None],
            setup.clip_norm is not None,
            ("rf.mse_criterion",) if clip_known else ("rf.scaling",),
        ),
    )


def _noise(setup: TrainingSetup, point: Point) -> float:
    step = step_at(setup, point, 0.0)
    return estimated_noise(setup.epsilon, setup.delta, step.sampling_rate, step.steps)


def _losses(setup: TrainingSetup, point: Point, cases: Cases) -> list[float]:
    step = step_at(setup, point, _noise(setup, point))
    return [case.loss(step) for case in cases(point.clip_norm)]


def _worst(losses: Sequence[float], best: Sequence[float]) -> float:
    """Largest ratio to the best; a case that no choice helps in does not count."""
    ratios = [loss / least for loss, least in zip(losses, best, strict=True) if math.isfinite(least)]
    return max(ratios, default=1.0)


def _choice(name: str, value: float | None, near: Iterable[float], fixed: bool, claims: tuple[str, ...]) -> Choice:
    values = sorted(near)
    if value is None:
        return Choice(name=name, value=None, lower=None, upper=None, fixed=False, claims=claims)
    return Choice(name=name, value=value, lower=values[0], upper=values[-1], fixed=fixed, claims=claims)


def _batches(setup: TrainingSetup) -> list[int]:
    """Powers of two up to half of the records, the largest ones."""
    if setup.batch_size is not None:
        return [setup.batch_size]
    most = max(1, setup.num_examples // 2).bit_length() - 1
    powers = [2**i for i in range(max(0, most - _MOST_BATCHES + 1), most + 1)]
    return [batch for batch in powers if batch / setup.num_examples >= RATE[0]]


def _epochs(setup: TrainingSetup) -> list[int]:
    if setup.epochs is not None:
        return [setup.epochs]
    return [*(epochs for epochs in _EPOCHS if epochs < setup.max_epochs), setup.max_epochs]


def _clips(setup: TrainingSetup, clips: Sequence[float]) -> Sequence[float | None]:
    return [setup.clip_norm] if setup.clip_norm is not None or not clips else clips
