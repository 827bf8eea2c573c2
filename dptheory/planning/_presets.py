"""What a plan recommends at the papers' settings, beside what the papers chose."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dptheory.papers import Preset
from dptheory.planning import _measured
from dptheory.planning._plan import corners, plan
from dptheory.planning._preset_settings import KnownSetting
from dptheory.planning._records import Interval, Plan
from dptheory.planning._schedule import Point, step_at
from dptheory.planning._setup import TrainingSetup
from dptheory.planning._shipped import shipped_statistics
from dptheory.planning._signal import Signal, Step
from dptheory.planning._statistics import GradientStats
from dptheory.privacy import least_noise_multiplier, max_steps

_MOST_EPOCHS = 100
"""Where neither the paper nor its noise says how many; else the whole ones of these."""
_SHIPPED = {
    "MNIST": "small-cnn/mnist",
    "FMNIST": "small-cnn/fashion-mnist",
    "FashionMNIST": "small-cnn/fashion-mnist",
    "CIFAR10": "linear-probe/cifar-10",
}
_LIKE = 2.0
"""Statistics are borrowed for networks of half to twice the size: their curvature along noise is not scaled to another one."""
CLAIMS = ("rs.tuned", "rs.lem3.1")


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A plan for a paper's data, network and budget, and what the difference from the paper's choice is worth.

    Attributes:
        plan: the plan.
        worth: the tuned bound at the paper's batch, steps and (with statistics) clip over that at the plan's, from the lowest
            to the highest of what is not known; None where the paper does not print enough, or its clip lies outside those
            measured.
    """

    plan: Plan
    worth: Interval | None


@dataclass(frozen=True, kw_only=True)
class PresetPlan:
    """A paper's setting and the plans for it.

    Attributes:
        known: the setting, as printed, and what was assumed.
        steps: of the paper: those of its epochs, else the most that its noise can run for in the budget; None without either.
        noise_multiplier: the least for these steps where the epochs are printed, else the printed one; None without steps.
        free: without statistics.
        borrowed: with those that are shipped for the same data and a network of about its size; None without any.
    """

    known: KnownSetting
    steps: int | None
    noise_multiplier: float | None
    free: Compared
    borrowed: Compared | None


def plan_preset(known: KnownSetting) -> PresetPlan:
    """The plans for a paper's data, network and budget, and what the difference from the paper's choice is worth.

    Args:
        known: of :func:`dptheory.planning._preset_settings.known_settings`.

    Returns:
        The plans, with the ratios of the tuned bounds.

    Source: new, on RS, Theorem 3.5 (rs.tuned).

    Example: RF's CNN on CIFAR-10; 1000 of 50,000 images per batch.
        >>> from dptheory.planning._preset_settings import known_settings
        >>> from dptheory.planning._presets import plan_preset
        >>> found = plan_preset(known_settings()[0][0])
        >>> found.known.preset.name, found.free.plan.epochs.value, found.steps, round(found.noise_multiplier, 2)
        ('rf.end-to-end-cnn.eps3', 40, 2000, 1.45)
    """
    preset = known.preset
    theirs = printed_step(preset)
    setup = _setup(preset, theirs)
    free = plan(setup)
    stats = shipped_for(preset)
    return PresetPlan(
        known=known,
        steps=None if theirs is None else theirs.steps,
        noise_multiplier=None if theirs is None else theirs.noise_multiplier,
        free=Compared(plan=free, worth=None if theirs is None else _worth(free, theirs)),
        borrowed=None if stats is None else _with_statistics(setup, preset, theirs, stats),
    )


def shipped_for(preset: Preset) -> GradientStats | None:
    """Statistics that are shipped for the same data and a network of at most twice, at least half the size."""
    name = _SHIPPED.get(preset.dataset or "")
    if name is None or preset.dim is None:
        return None
    stats = shipped_statistics(name)
    return stats if max(preset.dim, stats.dim) <= _LIKE * min(preset.dim, stats.dim) else None


def printed_step(preset: Preset) -> Step | None:
    """The paper's batch, steps and noise, as far as they follow from what it prints."""
    if preset.batch_size is None or preset.train_size is None or preset.epsilon is None or preset.delta is None:
        return None
    epsilon, delta, rate = float(preset.epsilon), preset.delta, preset.batch_size / preset.train_size
    if preset.epochs is not None:
        steps = round(preset.epochs / rate)
        sigma = least_noise_multiplier(epsilon=epsilon, delta=delta, sampling_rate=rate, steps=steps)
    elif preset.noise_multiplier is not None:
        sigma = preset.noise_multiplier
        steps = max_steps(epsilon=epsilon, delta=delta, noise_multiplier=sigma, sampling_rate=rate)
    else:
        return None
    return Step(batch_size=preset.batch_size, sampling_rate=rate, steps=steps, noise_multiplier=sigma)


def _setup(preset: Preset, theirs: Step | None) -> TrainingSetup:
    assert preset.train_size is not None and preset.epsilon is not None and preset.delta is not None
    passes = _MOST_EPOCHS if theirs is None else max(1, math.floor(theirs.steps * theirs.sampling_rate * (1 + 1e-12)))
    return TrainingSetup(
        num_examples=preset.train_size,
        epsilon=float(preset.epsilon),
        delta=preset.delta,
        dim=preset.dim,
        max_epochs=passes,
    )


def _with_statistics(setup: TrainingSetup, preset: Preset, theirs: Step | None, stats: GradientStats) -> Compared:
    found = plan(setup, stats=stats, borrowed=True)
    known = _measured.measured(setup, stats, True)
    clip = preset.clip_norm
    if theirs is None or clip is None or not known.clips[0] <= clip <= known.clips[-1]:
        return Compared(plan=found, worth=None)
    cases = _measured.cases(known)
    return Compared(plan=found, worth=_ratio(found, theirs, cases(clip), cases(found.clip_norm.value)))


def _worth(found: Plan, theirs: Step) -> Interval:
    signals = corners(found.setup)
    return _ratio(found, theirs, signals, signals)


def _ratio(found: Plan, theirs: Step, at_theirs: Sequence[Signal], at_ours: Sequence[Signal]) -> Interval:
    """Over all signals at which the plan is seen to descend."""
    assert found.batch_size.value is not None and found.epochs.value is not None
    point = Point(int(found.batch_size.value), int(found.epochs.value), None)
    ours = step_at(found.setup, point, found.noise_multiplier)
    pairs = [(one.loss(theirs), other.loss(ours)) for one, other in zip(at_theirs, at_ours, strict=True)]
    ratios = [loss / least for loss, least in pairs if math.isfinite(least)]
    return Interval(lower=min(ratios), upper=max(ratios), claims=CLAIMS)
