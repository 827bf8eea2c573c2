"""Masked SGD with sampling deviations and noise, without clipping, on quadratics: by enumeration, and entry by entry."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dptheory import convergence
from dptheory._arrays import ArrayLike
from dptheory.claims._draws import Batches, all_masks
from dptheory.claims.rs._runs import spelled

Curvature = tuple[Fraction, ...]


# --- masks, drawn afresh or held -------------------------------------------------------------------------------------


def enumerated_moment(
    curvature: Curvature, gamma: Fraction, variance: Fraction, epochs: int, per_epoch: int, keep: int
) -> Fraction:
    """Sum over the entries of E w^2 after some epochs from w = (1, 2, ..), noise of the given variance, every mask in turn.

    Along one sequence of masks an entry is a fixed number plus independent noises of mean zero, whose squares add up.
    """
    dim = len(curvature)
    paths = list(itertools.product(all_masks(dim, keep), repeat=epochs))
    total = Fraction(0)
    for path in paths:
        for j, slope in enumerate(curvature):
            signal, spread = Fraction(j + 1), Fraction(0)
            for mask in path:
                for _ in range(per_epoch if mask[j] else 0):
                    signal *= 1 - gamma * slope
                    spread = spread * (1 - gamma * slope) ** 2 + gamma**2 * variance
            total += signal**2 + spread
    return total / len(paths)


def mask_cases() -> Iterator[tuple[Curvature, Fraction, Fraction, int, int, int]]:
    """Curvatures, learning rate, variance of the noise, epochs, steps in each, entries kept."""
    lengths = ((1, 1), (3, 1), (4, 1), (1, 3), (2, 3), (3, 2), (2, 5))
    for curvature in ((Fraction(1), Fraction(3)), (Fraction(2), Fraction(1), Fraction(1, 4))):
        for gamma, variance in itertools.product((Fraction(1, 3), Fraction(1, 2)), (Fraction(0), Fraction(3, 2))):
            for (epochs, per_epoch), keep in itertools.product(lengths, {1, len(curvature) - 1}):
                yield curvature, gamma, variance, epochs, per_epoch, keep


def stated_moment(
    curvature: Curvature, gamma: Fraction, variance: Fraction, epochs: int, per_epoch: int, keep: int, copies: int = 1
) -> float:
    """The same by the calculators, every entry that often; over the number of copies."""
    slopes = np.repeat(np.array(curvature, dtype=np.float64), copies)
    start = np.repeat(np.arange(1.0, len(curvature) + 1), copies)
    run = spelled(start=start, gamma=float(gamma), r=1 - keep / len(curvature), variance=float(variance))
    if per_epoch == 1:
        return float(convergence.fresh_mask_moments(slopes, steps=epochs, **run)[-1].sum()) / copies
    return (
        float(convergence.epoch_mask_moments(slopes, **spelled(epochs=epochs, n=per_epoch), **run)[-1].sum()) / copies
    )


def other_moment(
    curvature: Curvature, gamma: Fraction, variance: Fraction, epochs: int, per_epoch: int, keep: int
) -> float:
    """With one mask for all epochs; the two agree for one epoch."""
    return stated_moment(curvature, gamma, variance, 1, epochs * per_epoch, keep)


# --- the theorem -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoisyRun(Batches):
    """A run on G|w|^2 / 2 from w_1 = (1, .., 1).

    The deviations of two examples, or of two halves of N, are +-``deviation`` = s/sqrt(d) in every entry: E|xi|^2 = s^2. Without
    ``examples``, the N of Poisson batches, a batch is B independent draws.
    """

    dim: int
    steps: int
    learning_rate: Fraction
    smoothness: Fraction
    kept: int
    deviation: Fraction
    sum_noise_std: Fraction
    batch_size: int
    examples: int | None

    def __str__(self) -> str:
        return f"d = {self.dim}, T = {self.steps}, {self.kept} kept, {self.batches}"

    @property
    def gap(self) -> float:
        """L(w_1) - min L."""
        return float(self.smoothness) * self.dim / 2


def _batches(run: NoisyRun) -> list[tuple[Fraction, Fraction, Fraction]]:
    """(chance, number of examples over B, sum of their signs over B) of every batch of two examples."""
    if run.examples is None:
        draws = list(itertools.product((1, -1), repeat=run.batch_size))
        return [(Fraction(1, len(draws)), Fraction(1), Fraction(sum(draw), run.batch_size)) for draw in draws]
    rate = Fraction(run.batch_size, run.examples)
    signs = [1 if i % 2 == 0 else -1 for i in range(run.examples)]
    found = []
    for drawn in itertools.product((0, 1), repeat=run.examples):
        chance = math.prod((rate if one else 1 - rate for one in drawn), start=Fraction(1))
        total = sum(s for s, one in zip(signs, drawn, strict=True) if one)
        found.append((chance, Fraction(sum(drawn), run.batch_size), Fraction(total, run.batch_size)))
    return found


def enumerated_measure(run: NoisyRun) -> Fraction:
    """Mean of E|grad_t|^2 over the steps: every mask, batch and sign of the noise in turn."""
    return sum(enumerated_squares([run] * run.steps), Fraction(0)) / run.steps


def enumerated_squares(runs: list[NoisyRun]) -> Iterator[Fraction]:
    """E|grad_t|^2 for each step t; ``runs`` says how each is done, and may change from one to the next."""
    law = {(Fraction(1),) * runs[0].dim: Fraction(1)}
    for number, run in enumerate(runs):
        yield run.smoothness**2 * sum((p * sum(x * x for x in w) for w, p in law.items()), Fraction(0))
        if number < len(runs) - 1:
            law = _after_step(run, law)


def _after_step(run: NoisyRun, law: dict[Curvature, Fraction]) -> dict[Curvature, Fraction]:
    masks = all_masks(run.dim, run.kept)
    tau = run.sum_noise_std / run.batch_size
    noises = list(itertools.product((tau, -tau), repeat=run.dim)) if tau else [(Fraction(0),) * run.dim]
    after: dict[Curvature, Fraction] = {}
    for (w, p), mask, (chance, size, sign), noise in itertools.product(law.items(), masks, _batches(run), noises):
        moved = tuple(
            x - run.learning_rate * m * (size * run.smoothness * x + sign * run.deviation + z)
            for x, m, z in zip(w, mask, noise, strict=True)
        )
        after[moved] = after.get(moved, Fraction(0)) + p * chance / len(masks) / len(noises)
    return after


def measure_by_entries(run: NoisyRun) -> float:
    """The same from the second moment of one entry, step by step."""
    return sum(squares_by_entries([run] * run.steps)) / run.steps


def squares_by_entries(runs: list[NoisyRun]) -> Iterator[float]:
    """E|grad_t|^2 for each step, from the second moment of one entry; ``runs`` says how each step is done."""
    square = 1.0
    for run in runs:
        gamma, curvature, share = float(run.learning_rate), float(run.smoothness), run.kept / run.dim
        yield curvature**2 * run.dim * square
        rate = 0.0 if run.examples is None else run.batch_size / run.examples
        grown = 0.0 if run.examples is None else (1 - rate) / run.batch_size
        spread = 1 / run.batch_size if run.examples is None else grown
        kick = spread * float(run.deviation) ** 2 + float(run.sum_noise_std / run.batch_size) ** 2
        move = gamma * curvature
        square += share * (square * (-2 * move + move**2 * (1 + grown)) + gamma**2 * kick)


F = Fraction
SMALL = (
    # deviation alone and noise alone, B = 1 and 2, masked and not, fixed and Poisson
    NoisyRun(2, 2, F(1, 2), F(1), 1, F(0), F(0), 1, None),
    NoisyRun(1, 3, F(1, 2), F(2), 1, F(3), F(0), 2, None),
    NoisyRun(2, 2, F(1, 3), F(2), 1, F(2), F(3), 2, None),
    NoisyRun(2, 3, F(1), F(1), 1, F(1), F(0), 1, None),
    NoisyRun(1, 3, F(1, 2), F(1), 1, F(2), F(1), 1, 2),
    NoisyRun(2, 2, F(2, 3), F(1), 1, F(1), F(3), 2, 4),
    NoisyRun(1, 3, F(1, 3), F(2), 1, F(2), F(0), 2, 2),
)
LARGE = (
    NoisyRun(10**6, 3000, F(1, 50), F(1), 500_000, F(2), F(200), 1024, None),
    NoisyRun(10**6, 1, F(1, 50), F(1), 500_000, F(2), F(200), 1024, None),
    NoisyRun(10**6, 400, F(1, 20), F(3), 10_000, F(100), F(0), 256, 60_000),
    NoisyRun(550_000, 2000, F(1, 4), F(2), 550_000, F(0), F(1000), 512, 50_000),
)

# --- the bound by the calculator -------------------------------------------------------------------------------------


def deviating(run: NoisyRun) -> dict[str, Any]:
    """What a bound is told of the run, but for its steps and masks."""
    deviation, tau = float(run.deviation) * math.sqrt(run.dim), float(run.sum_noise_std)
    return spelled(gap=run.gap, G=float(run.smoothness), s=deviation, tau=tau, d=run.dim, B=run.batch_size)


def sharp_bound(run: NoisyRun) -> float:
    """The corrected bound, its two variances told apart."""
    steps = spelled(gamma=float(run.learning_rate), T=run.steps, r=1 - run.kept / run.dim)
    return convergence.noisy_sgd_bound(**(deviating(run) | run.sampling), **steps).value


def noisy_run(
    gap: float, gamma: ArrayLike, G: float, r: ArrayLike, T: int, energy: float = 0.0, dim: int = 4
) -> dict[str, Any]:
    """Steps of fixed batches without deviations; ``energy`` is the second moment of the noise before the mask."""
    run = spelled(gap=gap, gamma=gamma, T=T, G=G, r=r, tau=math.sqrt(energy / dim), d=dim, B=1)
    return run | {"sampling": "fixed"}


def without_final_gap(run: NoisyRun) -> float:
    """The sum of the one-step inequalities with E L_{T+1} >= min L: what the paper's proof gives, no worst case for finite T."""
    gamma, smoothness, keep = float(run.learning_rate), float(run.smoothness), run.kept / run.dim
    variance = run.dim * (float(run.deviation) ** 2 / run.batch_size + float(run.sum_noise_std / run.batch_size) ** 2)
    gap = run.gap / (keep * gamma * run.steps)
    return (gap + gamma * smoothness * variance / 2) / (1 - gamma * smoothness / 2)


def noisy_slack(steps: float, rate: float, spread: float, curvature: float, scale: float = 1.0) -> float:
    """Relative slack of the printed bound on a quadratic with curvatures (curvature, 1), gamma = 1/sqrt T."""
    steps = round(steps)
    walk = spelled(start=np.ones(2), T=steps, gamma=steps**-0.5, r=rate, variance=spread)
    moments = convergence.fresh_mask_moments([curvature, 1.0], **walk)
    measure = float((moments[:-1] @ [curvature**2, 1.0]).mean())
    run = noisy_run((curvature + 1) / 2, steps**-0.5, 1.0, rate, steps, 2 * spread, dim=2)
    return scale * convergence.noisy_sgd_bound(**run).value / measure - 1


def noisy_worst(gamma: ArrayLike, G: float, r: ArrayLike, T: int, energy: float = 0.0) -> float:
    return convergence.noisy_sgd_bound(**noisy_run(1.0, gamma, G, r, T, energy)).value
