"""Masks and Poisson batches without the calculators: masks drawn, or all of them; steps of clipped, noised descent in fractions.

The batch's sum is divided by the expected size B = qN; the objective is G|w|^2 / 2 where nothing else is said, so that the
descent inequality is an equality.
"""

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dptheory._arrays import Array


def drawn_masks(rng: np.random.Generator, n: int, dim: int, keep: int) -> Array:
    """Uniform masks with ``keep`` ones, by shuffling each row."""
    rows: Array = np.tile(np.where(np.arange(dim) < keep, 1.0, 0.0), (n, 1))
    return rng.permuted(rows, axis=1)


def all_masks(dim: int, keep: int) -> list[tuple[int, ...]]:
    """Every mask with ``keep`` ones, entries 0 and 1."""
    return [tuple(int(j in kept) for j in range(dim)) for kept in itertools.combinations(range(dim), keep)]


def size_law(examples: int, rate: Fraction) -> list[tuple[int, Fraction]]:
    """The sizes of a Poisson batch and their chances."""
    return [(k, math.comb(examples, k) * rate**k * (1 - rate) ** (examples - k)) for k in range(examples + 1)]


def mean_square(gradients: tuple[int, ...], rate: Fraction) -> Fraction:
    """E(sum of a Poisson batch / B)^2 for the given clipped gradients, numbers, over all batches."""
    total = Fraction(0)
    for batch in itertools.product((0, 1), repeat=len(gradients)):
        chance = math.prod((rate if drawn else 1 - rate for drawn in batch), start=Fraction(1))
        total += chance * sum(g for g, drawn in zip(gradients, batch, strict=True) if drawn) ** 2
    return total / (rate * len(gradients)) ** 2


class Batches:
    """Batches of one step: ``batch_size`` of the examples on average (Poisson), or that many where ``examples`` is None."""

    batch_size: int
    examples: int | None

    @property
    def sampling(self) -> dict[str, str | float]:
        """What the calculators are told of it."""
        if self.examples is None:
            return {"sampling": "fixed"}
        return {"sampling": "poisson", "sampling_rate": self.batch_size / self.examples}

    @property
    def batches(self) -> str:
        """What labels say of it."""
        return f"B = {self.batch_size}, {'fixed' if self.examples is None else f'N = {self.examples}'}"


@dataclass(frozen=True)
class Step(Batches):
    """One step from a point where all examples have one gradient of norm ``norm`` with equal entries.

    Attributes:
        norm: |grad L|.
        clip: C.
        noise_multiplier: sigma.
        learning_rate: gamma.
        smoothness: G.
        dim: d.
        kept: number of entries that every mask keeps.
        batch_size: B = qN, or the fixed size.
        examples: N of Poisson batches; None for batches of fixed size.
    """

    norm: Fraction
    clip: Fraction
    noise_multiplier: Fraction
    learning_rate: Fraction
    smoothness: Fraction
    dim: int
    kept: int
    batch_size: int
    examples: int | None

    def __str__(self) -> str:
        return f"d = {self.dim}, {self.kept} kept, {self.batches}"

    @property
    def signal(self) -> float:
        """Norm of the clipped gradient, |mask * grad| cut at C."""
        return min(float(self.norm) * math.sqrt(self.kept / self.dim), float(self.clip))

    @property
    def moment(self) -> float:
        """E|update without noise|^2, from the law of the batch size."""
        if self.examples is None:
            return self.signal**2
        rate = Fraction(self.batch_size, self.examples)
        # E K^2 for K of N independent indicators: N q + N (N - 1) q^2
        square = self.examples * rate + self.examples * (self.examples - 1) * rate**2
        return self.signal**2 * float(square / self.batch_size**2)

    @property
    def alignment(self) -> float:
        """E<grad L, update>; the same for every mask, and the mean batch size is B."""
        return self.signal * float(self.norm) * math.sqrt(self.kept / self.dim)

    @property
    def decrease(self) -> float:
        """L - E L after the step, entry by entry of the noise."""
        noise = self.kept * float((self.noise_multiplier * self.clip / self.batch_size) ** 2)
        gamma = float(self.learning_rate)
        return gamma * self.alignment - float(self.smoothness) * gamma**2 / 2 * (self.moment + noise)


F = Fraction
STEPS = (
    # small; masked; Poisson at the sizes of the papers, with and without mask; a fixed batch of that size; noise that dominates
    Step(F(3), F(1), F(1, 2), F(1, 2), F(1), 2, 2, 1, 4),
    Step(F(3), F(1), F(1, 2), F(1, 2), F(1), 4, 1, 2, 4),
    Step(F(40), F(3, 2), F(1), F(1), F(2), 10**6, 10**6, 1024, 60_000),
    Step(F(40), F(3, 2), F(1), F(1), F(2), 10**6, 250_000, 1024, 60_000),
    Step(F(5), F(3, 2), F(1), F(1), F(2), 10**6, 250_000, 1024, None),
    Step(F(5), F(1, 10), F(2), F(3), F(1, 2), 10**8, 10**6, 64, 10**6),
)
"""Steps whose gradient is clipped: E|update|^2 is the largest that there is."""


def one_step(gradient: Fraction, learning_rate: Fraction, examples: int, rate: Fraction) -> tuple[Fraction, Fraction]:
    """E<grad, update> and L - E L after one step on w^2 / 2 from w = ``gradient`` > 0, all examples clipped to C = 1."""
    clipped, size = min(gradient, Fraction(1)), rate * examples
    ends = [(gradient - learning_rate * clipped * k / size, chance) for k, chance in size_law(examples, rate)]
    after = sum((chance * w**2 / 2 for w, chance in ends), Fraction(0))
    aligned = sum((chance * gradient * clipped * k / size for k, chance in size_law(examples, rate)), Fraction(0))
    return aligned, gradient**2 / 2 - after


def run_alignment(examples: int, steps: int) -> tuple[float, float]:
    """Mean of E<grad, update> over the steps, and L(w_1) - E L(w_{T+1}), of a run with Poisson batches of mean size 1.

    L = w^2 / 2, C = 1, gamma = 2, w_1 = 1: every iterate is an odd number 2j + 1, and every gradient is clipped to its sign.
    """
    sizes = np.array([float(chance) for _, chance in size_law(examples, Fraction(1, examples))])
    reach = 2 * examples  # no step ends further out than examples, on either side
    law = np.zeros(2 * reach)  # index reach is j = 0
    law[reach] = 1.0
    odd = 2.0 * np.arange(-reach, reach) + 1.0
    total = 0.0
    for _ in range(steps):
        total += float(law @ np.abs(odd))
        moved = np.zeros(2 * reach)
        for size, chance in enumerate(sizes):
            moved[: 2 * reach - size] += chance * np.where(odd > 0, law, 0.0)[size:]
            moved[size:] += chance * np.where(odd < 0, law, 0.0)[: 2 * reach - size]
        law = moved
    return total / steps, 0.5 - float(law @ odd**2) / 2


def two_steps_hold(examples: int, poisson: bool) -> bool:
    """Do two steps of batches of mean size 1 stay below the printed bound of clipped SGD, C^2 as second moment?

    L(w) = max(w, 0)^2 / 2, G = C = 1, gamma = 1/12, w_1 = 1/6. N - 1 examples have the gradient 1, the last one what is left of
    N max(w, 0), at most -1 at every point met: clipped to -1. The symmetric law is the point 0, so that left side and bias add up
    to E<grad, update>, whatever z is as long as |grad| <= (1 - z) C: no gradient met exceeds C/4.
    """
    gamma, start = Fraction(1, 12), Fraction(1, 6)
    rate = Fraction(1, examples)
    law: dict[Fraction, Fraction] = {}
    if poisson:
        for up, chance in size_law(examples - 1, rate):
            for down in (0, 1):
                at = start - gamma * (up - down)
                law[at] = law.get(at, Fraction(0)) + chance * (rate if down else 1 - rate)
    else:
        law = {start - gamma: 1 - rate, start + gamma: rate}
    for w in (start, *law):
        assert w <= Fraction(1, 4) and examples * max(w, Fraction(0)) - (examples - 1) <= -1
    mean_update = 1 - 2 * rate
    second = sum((p * max(w, Fraction(0)) for w, p in law.items()), Fraction(0))
    left = mean_update * (start + second) / 2
    right = start**2 / 2 / (2 * gamma) + gamma / 2
    return left <= right
