import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import scipy

from dptheory import convergence
from dptheory.claims._poisson import size_law
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

row = new_row(
    id="rs.batch_divisors",
    source=Source("rs", "new, on Theorem 3.5 and Algorithm 1"),
    verdict=Verdict.HOLDS,
    calculators=(convergence.drawn_size_factor,),
)


def _factor(examples: int, rate: Fraction) -> Fraction:
    """By its definition."""
    law = [(size, chance) for size, chance in size_law(examples, rate) if size]
    mean = rate * examples
    return sum((chance * (mean / size) ** 2 for size, chance in law), Fraction(0)) / sum(chance for _, chance in law)


@row.equal(
    *itertools.product((1, 2, 5, 40), (Fraction(1, 50), Fraction(1, 2), Fraction(9, 10), Fraction(1))), tolerance=1e-12
)
def _(examples: int, rate: Fraction) -> Sides:
    """factor of the drawn size, in fractions"""
    found = convergence.drawn_size_factor(train_size=examples, sampling_rate=float(rate))
    return found, lambda: _factor(examples, rate), 1.01 * found


@row.equal((20_000, 0.001), (60_000, 256 / 60_000), (50_000, 0.1), (10**8, 1e-7), (10**8, 4e-5), tolerance=1e-8)
def _(examples: int, rate: float) -> Sides:
    """factor at users' sizes, by quadrature of the generating function"""
    mean = rate * examples

    def by_integral() -> float:
        # 1 / k^2 is the integral of u^{k-1} log(1/u) over (0, 1); u = 1 - t / mean
        empty = math.exp(examples * math.log1p(-rate))

        def density(t: float) -> float:
            left = math.exp(examples * math.log1p(-rate * t / mean)) - empty
            return -math.log1p(-t / mean) / (1 - t / mean) * left / mean

        parts = [0.0, *(edge for edge in (1.0, 5.0, 20.0, 80.0, 300.0) if edge < mean), mean]
        total = sum(
            scipy.integrate.quad(density, a, b, epsabs=0, epsrel=1e-11, limit=200)[0]
            for a, b in itertools.pairwise(parts)
        )
        return float(mean**2 * total / (1 - empty))

    return convergence.drawn_size_factor(train_size=examples, sampling_rate=rate), by_integral, 1.0


@row.equal((4, Fraction(1, 2)), (5, Fraction(1, 5)), (6, Fraction(2, 3)))
def _(examples: int, rate: Fraction) -> Sides:
    """a step divided by the drawn size on a quadratic, over all batches and masks in fractions"""
    # w = (3, 4), two entries, one kept, clip 2, gamma = 1/3, noise +-1 in the kept entry of the sum; the examples' clipped gradients
    # alternate between 2 and 1 in that entry
    gamma, start = Fraction(1, 3), (3, 4)
    clipped = [Fraction(2 if i % 2 == 0 else 1) for i in range(examples)]
    chance_left = 1 - (1 - rate) ** examples
    aligned = decrease = square = Fraction(0)
    for drawn in itertools.product((0, 1), repeat=examples):
        size = sum(drawn)
        if not size:
            continue
        chance = rate**size * (1 - rate) ** (examples - size) / chance_left
        update = sum((u for u, one in zip(clipped, drawn, strict=True) if one), Fraction(0)) / size
        for entry, sign in itertools.product(start, (1, -1)):
            moved = entry - gamma * (update + Fraction(sign, size))
            decrease += chance / 4 * (entry**2 - moved**2) / 2
            aligned += chance / 4 * entry * update
            square += chance / 4 * update**2
    factor = _factor(examples, rate) / (rate * examples) ** 2
    right = decrease / gamma + gamma / 2 * (square + factor)
    return right, aligned, right + gamma / 2 * (1 / (rate * examples) ** 2 - factor)


@dataclass(frozen=True)
class Outlier:
    """N - 1 examples with the clipped gradient (g, s) of norm C = 1 and one that makes the mean (g, 0), w_1 = (g, 0), G = 1."""

    examples: int
    batch_size: int
    g: float
    gamma: float

    @property
    def _clipped(self) -> tuple[tuple[float, float], tuple[float, float]]:
        s = math.sqrt(1 - self.g**2)
        length = math.hypot(self.g, (self.examples - 1) * s)
        return (self.g, s), (self.g / length, -(self.examples - 1) * s / length)

    def after(self) -> float:
        """E|w_2|^2 from the number of usual examples drawn and whether the odd one is."""
        (usual, odd), rate = self._clipped, self.batch_size / self.examples
        count = self.examples - 1
        mean = [(count * usual[j] + odd[j]) / self.examples for j in range(2)]
        excess = (1 - rate) / self.batch_size  # E|u|^2 = 1
        square = sum(e * e for e in mean) + excess
        return self.g**2 - 2 * self.gamma * self.g * mean[0] + self.gamma**2 * square

    def enumerated(self) -> float:
        """The same over all batches."""
        (usual, odd), rate = self._clipped, self.batch_size / self.examples
        total = 0.0
        for drawn in itertools.product((0, 1), repeat=self.examples):
            chance = math.prod(rate if one else 1 - rate for one in drawn)
            plain, strange = sum(drawn[1:]), drawn[0]
            moved = [
                (self.g if j == 0 else 0.0) - self.gamma * (plain * usual[j] + strange * odd[j]) / self.batch_size
                for j in range(2)
            ]
            total += chance * (moved[0] ** 2 + moved[1] ** 2)
        return total

    def least_constant(self, after: float) -> float:
        """The M for which the bound of rs.clipped_steps at T = 2 is the mean of the two squares."""
        unit = [
            convergence.dpsgd_bound(
                objective_gap=self.g**2 / 2,
                learning_rate=self.gamma,
                steps=2,
                smoothness=1.0,
                clip_norm=1.0,
                batch_size=self.batch_size,
                second_moment=moment,
            ).value
            for moment in (0.0, 0.5)
        ]
        # a moment known in the mean may all come at the first step, the only one that counts here: 1/2 is 1 there
        return ((self.g**2 + after) / 2 - unit[0]) / (unit[1] - unit[0])


_SMALL = tuple(Outlier(n, b, 0.2, gamma) for n, b in ((4, 1), (7, 2), (9, 4)) for gamma in (0.05, 0.2))


@row.equal(lambda: [(one,) for one in _SMALL], tolerance=1e-12)
def _(one: Outlier) -> Sides:
    """two steps with one odd example, over all batches"""
    return one.after(), one.enumerated, one.after() * 1.01


@row.equal((1, 0.05), (2, 0.01), (16, 0.05), tolerance=2e-4, kind=Kind.EXACT)
def _(batch_size: int, gamma: float) -> Sides:
    """the least constant for large N is C^2 (1 + 1/B)"""
    one = Outlier(10**7, batch_size, 0.2, gamma)
    return 1 + 1 / batch_size, lambda: one.least_constant(one.after()), 1.0
