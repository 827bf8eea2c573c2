"""Frozen layers on block quadratics, walked step by step: every sign of the noise, or plain recursions."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dptheory import freezing

Number = Any
"""A fraction or a float; the result is exact for fractions."""


@dataclass(frozen=True, repr=False)
class Setting:
    """Layers of parts, each (entries, gradient norm, curvature, deviation), and the run."""

    layers: tuple[tuple[tuple[int, Number, Number, Number], ...], ...]
    rates: tuple[Number, ...]
    clips: tuple[Number, ...]
    noise_multiplier: Number
    batch_size: int
    norms: tuple[Number, ...] | None = None

    def __repr__(self) -> str:
        entries = sum(part[0] for layer in self.layers for part in layer)
        return f"{len(self.layers)} layers, {entries} entries, {self.steps} steps"

    @property
    def steps(self) -> int:
        return len(self.rates)

    def _column(self, place: int) -> list[list[Any]]:
        return [[part[place] if place == 0 else float(part[place]) for part in layer] for layer in self.layers]

    def _known(self) -> dict[str, Any]:
        return {
            "gradient_norms": self._column(1),
            "curvature": self._column(2),
            "deviation_norm": self._column(3),
            "learning_rate": [float(rate) for rate in self.rates],
            "steps": self.steps,
            "noise_multiplier": float(self.noise_multiplier),
            "batch_size": self.batch_size,
        }

    def each(self) -> freezing.LayerSteps:
        return freezing.best_layer_steps(self._column(0), clip_norm=float(self.clips[0]), **self._known())

    def first(self) -> freezing.BestFreezing:
        return freezing.best_freezing(
            self._column(0), clip_norm=[float(clip) for clip in self.clips], layer_norms=self.norms, **self._known()
        )

    def unclipped(self) -> "Setting":
        return replace(self, norms=None)

    def share(self, frozen: int) -> float:
        """What clipping leaves of two examples' gradients that differ in signs alone, each layer as long as stated."""
        if self.norms is None:
            return 1
        kept = self.norms[frozen:]
        return min(1.0, float(self.clips[frozen]) / math.sqrt(sum(norm**2 for norm in kept)))

    def losses(self, frozen: int, after: int) -> list[Number]:
        """Of each layer at the end, its parts one after the other, the first ``frozen`` layers trained for ``after`` steps."""
        found = []
        for place, layer in enumerate(self.layers):
            total: Number = 0
            for entries, gradient, curvature, deviation in layer:
                square = gradient * gradient
                for step, rate in enumerate(self.rates):
                    now = frozen if step >= after else 0
                    if place < now:
                        break
                    share, move = self.share(now), rate * curvature
                    tau = self.noise_multiplier * self.clips[now] / self.batch_size
                    kick = entries * tau * tau + share * share * deviation * deviation / self.batch_size
                    square = (1 - share * move) * (1 - share * move) * square + move * move * kick
                total += square / (2 * curvature)
            found.append(total)
        return found

    def every_choice(self) -> list[tuple[Number, int, int]]:
        """(expected loss, layers frozen, steps before), all of them; nothing frozen comes first."""
        nothing = [(sum(self.losses(0, self.steps)), 0, self.steps)]
        return nothing + [
            (sum(self.losses(frozen, after)), frozen, after)
            for after in range(self.steps)
            for frozen in range(1, len(self.layers))
        ]


def of_signs(setting: Setting, schedule: Sequence[int]) -> Fraction:
    """E f(theta_T) where layer l moves in its first ``schedule[l]`` steps; one entry per part, noise +-tau in each, every sign.

    The gradient is that of the whole f, and steps are those of the algorithm.
    """
    curvatures = [part[2] for layer in setting.layers for part in layer]
    starts = [part[1] / part[2] for layer in setting.layers for part in layer]
    until = [last for last, layer in zip(schedule, setting.layers, strict=True) for _ in layer]
    tau = setting.noise_multiplier * setting.clips[0] / setting.batch_size
    total = Fraction(0)
    draws = list(itertools.product((tau, -tau), repeat=len(starts)))
    paths = [starts]
    for step, rate in enumerate(setting.rates):
        paths = [
            [
                x - rate * (curvature * x + noise) if step < last else x
                for x, curvature, noise, last in zip(theta, curvatures, draw, until, strict=True)
            ]
            for theta in paths
            for draw in draws
        ]
    for theta in paths:
        total += sum(curvature * x * x / 2 for x, curvature in zip(theta, curvatures, strict=True))
    return total / len(paths)


def enumerated(setting: Setting) -> tuple[Fraction, tuple[int, ...]]:
    """The least expected loss over all schedules of the layers, and the schedule: never where that is as good, else the earliest."""
    never = setting.steps
    schedules = itertools.product((never, *range(never)), repeat=len(setting.layers))
    return min(((of_signs(setting, schedule), schedule) for schedule in schedules), key=lambda found: found[0])


def first_of(condition: Callable[[int], bool], steps: int) -> int:
    """The first step at which the condition holds; ``steps`` if none."""
    return next((step for step in range(steps) if condition(step)), steps)
