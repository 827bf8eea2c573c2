"""Enumerated runs for the checks of the descent bounds: fixed cases, a search box, and their bounds; the letters of these."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from dptheory import convergence
from dptheory._arrays import Array
from dptheory.checks import Range
from dptheory.claims._draws import Step, all_masks

_LETTERS = {
    "gap": "objective_gap",
    "gamma": "learning_rate",
    "mu": "momentum",
    "T": "steps",
    "n": "steps_per_epoch",
    "G": "smoothness",
    "C": "clip_norm",
    "M": "second_moment",
    "sigma": "noise_multiplier",
    "s": "deviation_norm",
    "tau": "sum_noise_std",
    "d": "dim",
    "B": "batch_size",
    "q": "sampling_rate",
    "r": "drop_rate",
    "p": "probability",
    "z": "deviation_share",
}


def spelled(**arguments: Any) -> dict[str, Any]:
    """Arguments of the calculators of bounds by the letters that the pages have for them."""
    return {_LETTERS.get(name, name): value for name, value in arguments.items()}


def noise_of(step: Step) -> dict[str, Any]:
    """What decides Delta_sigma at a step."""
    clip, sigma = float(step.clip), float(step.noise_multiplier)
    return spelled(G=float(step.smoothness), C=clip, sigma=sigma, d=step.dim, B=step.batch_size)


def least(value: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Where a function is least, and its value there: the best of a grid, then a bounded search about it."""
    grid = np.linspace(low, high, 121).tolist()
    best, step = min(grid, key=value), grid[1] - grid[0]
    about = (best - step, best + step)
    found = scipy.optimize.minimize_scalar(value, bounds=about, method="bounded", options={"xatol": 1e-10})
    return float(found.x), float(found.fun)


def mask_rows(dim: int, keep: int) -> Array:
    """Every mask with ``keep`` ones, a row each."""
    return np.array(all_masks(dim, keep), dtype=np.float64)


def four_entries(second: float, third: float, spread: float, turn: float, longest: float) -> tuple[Array, Array]:
    """A gradient of four entries, and four deviations from 0 to ``longest`` times ``spread`` with their negatives."""
    rows = np.random.default_rng(round(100 * turn)).standard_normal((4, 4))
    rows *= spread * np.array([[0.0], [0.3], [1.0], [longest]])
    return np.array([1.0, second, third, second * third]), np.concatenate((rows, -rows))


# --- Masked, clipped and noised SGD on L(w) = G |w|^2 / 2 in two dimensions, by enumeration of everything random
#
# A step draws one of the masks, ``batch_size`` deviations and one of four noise vectors (+-s, +-s), which have the mean and the
# variance of Gaussian noise; nothing else of the noise enters a descent inequality on a quadratic. All outcomes of all steps are kept,
# each with its probability, so every expectation is a finite sum.


Law = tuple[tuple[float, tuple[float, float]], ...]
"""Outcomes as (probability, vector)."""

ONE_OF_TWO: tuple[tuple[int, int], ...] = ((1, 0), (0, 1))
BOTH: tuple[tuple[int, int], ...] = ((1, 1),)


@dataclass(frozen=True)
class Settings:
    """A run: ``masks`` are equally likely; ``z`` is the share of the clipping norm in P(|xi| < z C)."""

    start: tuple[float, float]
    deviations: Law
    smoothness: float = 1.0
    clip: float = 1.0
    learning_rate: float = 0.5
    steps: int = 2
    batch_size: int = 1
    noise_std: float = 0.0
    masks: tuple[tuple[int, int], ...] = ONE_OF_TWO
    z: float = 0.75

    def __str__(self) -> str:
        mask = f"{len(self.masks)} mask{'s' if len(self.masks) > 1 else ''}"
        return f"w_1 = {self.start}, B = {self.batch_size}, T = {self.steps}, {mask}"


@dataclass(frozen=True)
class Run:
    """Expectations, those of steps averaged over the steps.

    Attributes:
        alignment: E<grad, update>.
        second_moment: E|update without noise|^2.
        single_mean_square: E|E[u | iterate, mask]|^2 for the clipped update u of one example.
        single_square: E|u|^2.
        measure: E[P h |grad|], the left side of the theorems, P under the symmetrised law.
        masked_measure: E[P' h' |mask * grad|].
        bias: mean of E<mask * grad, update> under the law minus that under the symmetrised law.
        gap: L(w_1), the least value of L being 0.
        decrease: L(w_1) - E L(w_{T+1}).
    """

    alignment: float
    second_moment: float
    single_mean_square: float
    single_square: float
    measure: float
    masked_measure: float
    bias: float
    gap: float
    decrease: float


def two_point(first: float, second: float, weight: float = 0.5) -> Law:
    """v with probability ``weight``, else the multiple of -v that makes the mean zero; symmetric for weight 1/2."""
    return ((weight, (first, second)), (1 - weight, (-first * weight / (1 - weight), -second * weight / (1 - weight))))


def symmetrised(law: Law) -> Law:
    """The law of +-xi with a fair sign."""
    return tuple((p / 2, (sign * v[0], sign * v[1])) for p, v in law for sign in (1, -1))


def clip(rows: Array, bound: float) -> Array:
    """Rows along the last axis, scaled to at most ``bound``; without the calculators."""
    norms = np.sqrt(np.square(rows).sum(axis=-1, keepdims=True))
    return np.asarray(rows * np.minimum(1.0, bound / np.maximum(norms, 1e-300)))


def _dot(first: Array, second: Array) -> Array:
    """Inner product of the rows."""
    return np.asarray(np.einsum("ij,ij->i", first, second))


def run(settings: Settings) -> Run:
    """Enumerate the run; the masks are drawn afresh at every step."""
    s = settings
    states, chances = np.array([s.start]), np.ones(1)
    totals = np.zeros(7)
    for _ in range(s.steps):
        moved: list[Array] = []
        weights: list[Array] = []
        gradient = s.smoothness * states
        totals[3] += chances @ _measure(gradient, s, (1, 1))
        for mask in s.masks:
            share = chances / len(s.masks)
            masked = gradient * mask
            totals[4] += share @ _measure(gradient, s, mask)
            aligned, mean, square = _one_example(masked, s, s.deviations, mask)
            proxy = _one_example(masked, s, symmetrised(s.deviations), mask)[0]
            totals[5] += share @ (aligned - proxy)
            totals[2] += share @ _dot(mean, mean)
            totals[6] += share @ square
            for outcome in itertools.product(s.deviations, repeat=s.batch_size):
                chance = share * math.prod(p for p, _ in outcome)
                update = np.asarray(sum(clip(masked + np.multiply(v, mask), s.clip) for _, v in outcome) / s.batch_size)
                totals[0] += chance @ _dot(gradient, update)
                totals[1] += chance @ _dot(update, update)
                noisy = update[:, None, :] + _noises(s.noise_std, mask)
                moved.append((states[:, None, :] - s.learning_rate * noisy).reshape(-1, 2))
                weights.append(np.repeat(chance / noisy.shape[1], noisy.shape[1]))
        states, chances = np.concatenate(moved), np.concatenate(weights)
    totals /= s.steps
    first = s.smoothness / 2 * (s.start[0] ** 2 + s.start[1] ** 2)
    last = s.smoothness / 2 * float(chances @ _dot(states, states))
    return Run(
        alignment=float(totals[0]),
        second_moment=float(totals[1]),
        single_mean_square=float(totals[2]),
        single_square=float(totals[6]),
        measure=float(totals[3]),
        masked_measure=float(totals[4]),
        bias=float(totals[5]),
        gap=first,
        decrease=first - last,
    )


def _noises(std: float, mask: Sequence[int]) -> Array:
    """Equally likely noise vectors under the mask."""
    signs = itertools.product((1.0, -1.0), repeat=2) if std else [(0.0, 0.0)]
    return np.array([(std * a * mask[0], std * b * mask[1]) for a, b in signs])


def _measure(gradient: Array, s: Settings, mask: Sequence[int]) -> Array:
    """P(|mask * xi| < z C) min(|mask * grad|, (1 - z) C) |mask * grad| under the symmetrised law."""
    masked = gradient * mask
    norm = np.sqrt(_dot(masked, masked))
    chance = sum(p for p, v in s.deviations if math.hypot(v[0] * mask[0], v[1] * mask[1]) < s.z * s.clip)
    return np.asarray(chance * np.minimum(norm, (1 - s.z) * s.clip) * norm)


def _one_example(masked: Array, s: Settings, law: Law, mask: Sequence[int]) -> tuple[Array, Array, Array]:
    """E<grad, u>, E u and E|u|^2 of one example's clipped update u, given iterate and mask."""
    updates = [(p, clip(masked + np.multiply(v, mask), s.clip)) for p, v in law]
    mean = np.asarray(sum(p * u for p, u in updates))
    square = np.asarray(sum(p * _dot(u, u) for p, u in updates))
    return _dot(masked, mean), mean, square


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
    angle: float, size: float, deviation: float, weight: float, learning_rate: float, noise_std: float = 0.0
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


def noised(s: Settings) -> dict[str, Any]:
    """What decides the noise of a run: its noise_std is C sigma / B."""
    return spelled(G=s.smoothness, C=s.clip, sigma=s.noise_std * s.batch_size / s.clip, d=2, B=s.batch_size)


def noise(s: Settings) -> float:
    """Delta_sigma of a run."""
    return convergence.noise_term(**noised(s))


def moment(found: Run, batch_size: int) -> float:
    """Second moment of a batch of independent draws from that of one example."""
    return convergence.batch_second_moment(
        mean_norm=math.sqrt(found.single_mean_square),
        second_moment=found.single_square,
        batch_size=batch_size,
        sampling="fixed",
    )


def held(s: Settings) -> Run:
    """The run with one mask for all steps: the mean over the masks of the runs with that mask."""
    runs = [run(dataclasses.replace(s, masks=(mask,))) for mask in s.masks]
    names = [field.name for field in dataclasses.fields(Run)]
    return Run(**{name: sum(getattr(r, name) for r in runs) / len(runs) for name in names})


def alignment_bound(s: Settings, found: Run, dropped: float | None = None) -> float:
    """Bound on E<grad, update> with the run's own decrease and second moment."""
    run = spelled(gamma=s.learning_rate, G=s.smoothness, r=rate(s) if dropped is None else dropped)
    own = spelled(decrease=found.decrease / s.steps, M=moment(found, s.batch_size))
    return convergence.alignment_bound(**run, **own, noise_term=noise(s)).value


def kappa(found: Run) -> float | None:
    """Ratio of the left sides with and without mask; None where it is undefined."""
    return found.masked_measure / found.measure if found.measure > 0 else None


def theorem_bound(
    s: Settings, found: Run, gap: float, kappa: float | None, bias: float | None
) -> convergence.DescentBound:
    """Right side of the theorems with the run's own second moment, which is at most C^2."""
    run = spelled(gap=gap, gamma=s.learning_rate, T=s.steps, r=rate(s), M=moment(found, s.batch_size))
    return convergence.dpsgd_bound(**noised(s), **run, kappa=kappa, bias=bias, sampling="fixed")


def theorem_slack(s: Settings) -> float:
    """Right side minus left side of the theorems, over the size of the terms."""
    found = run(s)
    bound = theorem_bound(s, found, found.gap, kappa(found), found.bias)
    size = bound.optimization + bound.clipping + bound.noise + abs(bound.bias)
    return (bound.value - found.measure) / size


def maskless_slack(s: Settings) -> float:
    """The same for a wrong statement: kappa = 1, a mask that costs nothing."""
    found = run(s)
    bound = theorem_bound(s, found, found.gap, 1.0, found.bias)
    return (bound.value - found.measure) / (abs(bound.value) + found.measure)


def unclipped_slack(s: Settings) -> float:
    """The same for a wrong statement: the second moment of the update left out."""
    found = run(s)
    bound = theorem_bound(s, found, found.gap, kappa(found), found.bias)
    return (bound.value - bound.clipping - found.measure) / (abs(bound.value) + found.measure)


def with_decrease(s: Settings, found: Run, kappa: float | None, bias: float) -> float:
    """The right side with the run's decrease, of either sign, in place of the gap."""
    unit = theorem_bound(s, found, 1.0, kappa, bias)
    return found.decrease * unit.optimization + unit.clipping + unit.noise + unit.bias
