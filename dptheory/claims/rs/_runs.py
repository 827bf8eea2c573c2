"""Enumerated runs for the checks of the descent bounds: fixed cases, a search box, and their bounds."""

import dataclasses
import math

from dptheory import convergence
from dptheory.checks import Range
from dptheory.claims.rs import _enumeration as enumeration
from dptheory.claims.rs._enumeration import BOTH, Settings, two_point

PLAIN = (
    Settings((0.6, -0.3), two_point(0.5, 1.2), masks=BOTH, batch_size=1),
    Settings((0.6, -0.3), two_point(0.5, 1.2, 0.3), masks=BOTH, batch_size=2, smoothness=2.0, learning_rate=0.7),
    Settings((3.0, 4.0), two_point(0.1, 0.1), masks=BOTH, batch_size=3, steps=1, clip=2.0),
)
NOISY = (
    Settings((0.6, -0.3), two_point(0.5, 1.2), noise_std=0.4),
    Settings((0.6, -0.3), two_point(0.5, 1.2, 0.3), batch_size=2, smoothness=2.0, learning_rate=0.7, noise_std=1.3),
    Settings((3.0, 4.0), two_point(2.0, -1.0, 0.2), steps=3, clip=2.0, noise_std=0.2),
    Settings((1.0, 1.0), two_point(0.2, 0.3), masks=BOTH, noise_std=0.7),
)
UNCLIPPED = (
    Settings((0.2, -0.1), two_point(0.3, 0.2), clip=9.0, steps=3, noise_std=0.05, z=0.25),
    Settings((0.5, 0.4), two_point(0.1, 0.2), clip=9.0, batch_size=2, smoothness=1.5, noise_std=0.02),
    Settings((0.5, 0.4), two_point(0.1, 0.2), clip=9.0, batch_size=2, masks=BOTH, steps=2),
)

BOX = {
    "angle": Range(0, math.pi / 2),
    "size": Range(1e-2, 10, log=True),
    "deviation": Range(1e-3, 5, log=True),
    "weight": Range(0.05, 0.95),
    "learning_rate": Range(0.05, 1.9, log=True),
    "noise_std": Range(0, 2),
}
QUIET_BOX = {name: one for name, one in BOX.items() if name != "noise_std"}


def at(
    angle: float,
    size: float,
    deviation: float,
    weight: float,
    learning_rate: float,
    noise_std: float = 0.0,
) -> Settings:
    """Two masked steps with C = G = 1 for a point of :data:`BOX`."""
    return Settings(
        (size * math.cos(angle), size * math.sin(angle)),
        two_point(deviation * math.cos(2 * angle + 1), deviation * math.sin(2 * angle + 1), weight),
        learning_rate=learning_rate,
        noise_std=noise_std,
    )


def rate(s: Settings) -> float:
    """Share of entries that the masks drop."""
    return 0.0 if s.masks == BOTH else 0.5


def noise_multiplier(s: Settings) -> float:
    """sigma of a run: its noise_std is C sigma / B."""
    return s.noise_std * s.batch_size / s.clip


def noise(s: Settings) -> float:
    """Delta_sigma of a run."""
    return convergence.noise_term(
        smoothness=s.smoothness, clip_norm=s.clip, noise_multiplier=noise_multiplier(s), dim=2, batch_size=s.batch_size
    )


def moment(found: enumeration.Run, batch_size: int) -> float:
    """Second moment of a batch of independent draws from that of one example."""
    return convergence.batch_second_moment(
        mean_norm=math.sqrt(found.single_mean_square),
        second_moment=found.single_square,
        batch_size=batch_size,
        sampling="fixed",
    )


def held(s: Settings) -> enumeration.Run:
    """The run with one mask for all steps: the mean over the masks of the runs with that mask."""
    runs = [enumeration.run(dataclasses.replace(s, masks=(mask,))) for mask in s.masks]
    names = [field.name for field in dataclasses.fields(enumeration.Run)]
    return enumeration.Run(**{name: sum(getattr(r, name) for r in runs) / len(runs) for name in names})


def alignment_bound(s: Settings, found: enumeration.Run, dropped: float | None = None) -> float:
    """Bound on E<grad, update> with the run's own decrease and second moment."""
    return convergence.alignment_bound(
        decrease=found.decrease / s.steps,
        learning_rate=s.learning_rate,
        smoothness=s.smoothness,
        second_moment=moment(found, s.batch_size),
        noise_term=noise(s),
        drop_rate=rate(s) if dropped is None else dropped,
    ).value


def kappa(found: enumeration.Run) -> float | None:
    """Ratio of the left sides with and without mask; None where it is undefined."""
    return found.masked_measure / found.measure if found.measure > 0 else None


def theorem_bound(
    s: Settings, found: enumeration.Run, gap: float, kappa: float | None, bias: float
) -> convergence.DescentBound:
    """Right side of the theorems with the run's own second moment, which is at most C^2."""
    return convergence.dpsgd_bound(
        objective_gap=gap,
        learning_rate=s.learning_rate,
        steps=s.steps,
        smoothness=s.smoothness,
        clip_norm=s.clip,
        noise_multiplier=noise_multiplier(s),
        dim=2,
        batch_size=s.batch_size,
        drop_rate=rate(s),
        kappa=kappa,
        bias=bias,
        second_moment=moment(found, s.batch_size),
        sampling="fixed",
    )


def theorem_slack(s: Settings) -> float:
    """Right side minus left side of the theorems, over the size of the terms."""
    found = enumeration.run(s)
    bound = theorem_bound(s, found, found.gap, kappa(found), found.bias)
    size = bound.optimization + bound.clipping + bound.noise + abs(bound.bias)
    return (bound.value - found.measure) / size


def maskless_slack(s: Settings) -> float:
    """The same for a wrong statement: kappa = 1, a mask that costs nothing."""
    found = enumeration.run(s)
    bound = theorem_bound(s, found, found.gap, 1.0, found.bias)
    return (bound.value - found.measure) / (abs(bound.value) + found.measure)


def unclipped_slack(s: Settings) -> float:
    """The same for a wrong statement: the second moment of the update left out."""
    found = enumeration.run(s)
    bound = theorem_bound(s, found, found.gap, kappa(found), found.bias)
    return (bound.value - bound.clipping - found.measure) / (abs(bound.value) + found.measure)


def with_decrease(s: Settings, found: enumeration.Run, kappa: float | None, bias: float) -> float:
    """The right side with the run's decrease, of either sign, in place of the gap."""
    unit = theorem_bound(s, found, 1.0, kappa, bias)
    return found.decrease * unit.optimization + unit.clipping + unit.noise + unit.bias
