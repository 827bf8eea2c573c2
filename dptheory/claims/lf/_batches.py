"""Batches with rational clipped gradients, in fractions, and angles drawn from Gaussian vectors: what the checks of freezing and of angles share."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory._arrays import Array

Vector = tuple[Fraction | int, ...]


def dot(a: Vector, b: Vector) -> Fraction:
    """Inner product."""
    return sum((Fraction(x * y) for x, y in zip(a, b, strict=True)), Fraction(0))


def signed_square_cosine(a: Vector, b: Vector) -> Fraction:
    """cos |cos| of the angle: rational, and it falls where the angle rises."""
    inner = dot(a, b)
    return inner * abs(inner) / (dot(a, a) * dot(b, b))


def _sum(vectors: Sequence[Vector], dim: int) -> Vector:
    return tuple(sum((Fraction(v[j]) for v in vectors), Fraction(0)) for j in range(dim))


@dataclass(frozen=True)
class Batch:
    """Per-sample gradients under C = 1: trainable parts, and squared norms of the frozen parts; clipped norms are rational."""

    name: str
    trainable: tuple[Vector, ...]
    frozen_squares: tuple[int, ...]

    def __str__(self) -> str:
        return self.name

    @property
    def dim(self) -> int:
        return len(self.trainable[0])

    @property
    def rows(self) -> Array:
        """Trainable parts in floating point."""
        return np.array(self.trainable, dtype=np.float64)

    @property
    def frozen_norms(self) -> Array:
        return np.sqrt(np.array(self.frozen_squares, dtype=np.float64))

    def factor(self, sample: int, frozen: bool) -> Fraction:
        """min(1, 1 / |g|) of one sample; ``frozen``: after freezing."""
        g = self.trainable[sample]
        square = dot(g, g) + (0 if frozen else self.frozen_squares[sample])
        if square <= 1:
            return Fraction(1)
        root = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
        if root**2 != square:
            raise ValueError(f"trainable must have rational norms where clipped, got {g!r}")
        return 1 / root

    def clipped(self, frozen: bool) -> tuple[int, ...]:
        """Which samples are clipped."""
        return tuple(i for i in range(len(self.trainable)) if self.factor(i, frozen) < 1)

    def clipped_sum(self, frozen: bool, among: Sequence[int] | None = None) -> Vector:
        """Sum of the trainable parts of the clipped gradients, of all samples or of some."""
        chosen = range(len(self.trainable)) if among is None else among
        return _sum([tuple(self.factor(i, frozen) * x for x in self.trainable[i]) for i in chosen], self.dim)

    def direction(self, among: Sequence[int] | None = None) -> Vector:
        """Sum of the trainable parts unclipped; of all samples: the true direction of a full batch."""
        chosen = range(len(self.trainable)) if among is None else among
        return _sum([self.trainable[i] for i in chosen], self.dim)

    def meets_the_assumptions(self) -> bool:
        """Assumptions 3.1 and 3.2 and the extra condition of the proof of Proposition 3.1, full batch.

        Assumption 3.1 in three readings: the mean of the raw gradients with |g| > C, and of the clipped ones before and after
        freezing, is closer in angle to the true direction than that of the others.
        """
        large = self.clipped(False)
        small = tuple(i for i in range(len(self.trainable)) if i not in large)
        if large != self.clipped(True) or not large or not small:
            return False
        u, v = self.direction(), self.direction(small)
        means = (self.direction(large), self.clipped_sum(False, large), self.clipped_sum(True, large))
        aligned = all(signed_square_cosine(u, w) > signed_square_cosine(u, v) for w in means)
        return aligned and signed_square_cosine(u, v) <= signed_square_cosine(v, means[1])


CANCELLING = Batch("(1; 0), (-3; 4)", ((1,), (-3,)), (0, 16))
CANCELLING_ROOT = Batch("(1; 0), (-2; sqrt 12)", ((1,), (-2,)), (0, 12))
ORTHOGONAL = Batch("(3, 0; 4), (0, 12; 5)", ((3, 0), (0, 12)), (16, 25))
OBLIQUE = Batch("(4, 3; 12), (-5, 0; 12), (8, 6; 0)", ((4, 3), (-5, 0), (8, 6)), (144, 144, 0))

# full batches that meet the assumptions
_SMALL = Fraction(1, 100)
TURNING = Batch("(72, 0; 21), (0, 16; 63), (-.01, .01; 0)", ((72, 0), (0, 16), (-_SMALL, _SMALL)), (441, 3969, 0))
IMPROVING = Batch("(12, 0; 5), (0, 12; 35), (-.01, -.01; 0)", ((12, 0), (0, 12), (-_SMALL, -_SMALL)), (25, 1225, 0))
LINE = Batch(
    "three (12; 5), two (-3; 4), (-.1; 0)",
    ((12,), (12,), (12,), (-3,), (-3,), (Fraction(-1, 10),)),
    (25, 25, 25, 16, 16, 0),
)
GROWING_LINE = Batch("(12; 5), (3; 4), (-.1; 0)", ((12,), (3,), (Fraction(-1, 10),)), (25, 16, 0))


# Vectors of blocks of equal entries, whose sums and norms are known exactly at any size.


Block = tuple[int, ...]
"""One whole number per block."""

LENGTHS = (1, 6400)
"""Length of a block of equal entries: a square, so that norms stay rational."""


def in_blocks(values: Iterable[float | Fraction], length: int) -> Array:
    """A vector of blocks of equal entries."""
    return np.repeat(np.array([float(value) for value in values]), length)


def angles_drawn(rng: np.random.Generator, n: int, dim: int, snr: float) -> Array:
    """Angles between s and s + z, |s| = snr, z ~ N(0, I)."""
    noise = rng.standard_normal((n, dim))
    return np.asarray(np.arctan2(np.linalg.norm(noise[:, 1:], axis=1), snr + noise[:, 0]))


def angle_bins(rng: np.random.Generator, n: int, dim: int, snr: float, edges: tuple[float, ...]) -> NDArray[np.intp]:
    """In which bin the angle lies."""
    return np.searchsorted(edges, angles_drawn(rng, n, dim, snr))


def half_squares(rng: np.random.Generator, n: int, draw: Callable[..., Array], dim: int, snr: float) -> Array:
    """Half the squared difference of two independent angles: its mean is the variance."""
    return (draw(rng, n, dim, snr) - draw(rng, n, dim, snr)) ** 2 / 2


def squares(rng: np.random.Generator, n: int, dim: int, snr: float) -> Array:
    """Squared angles."""
    return angles_drawn(rng, n, dim, snr) ** 2


def opposed_angles(rng: np.random.Generator, n: int, dim: int, snr: float) -> Array:
    """Angles where the clipped signal points along or against the true gradient, with equal chances."""
    angle = angles_drawn(rng, n, dim, snr)
    return np.where(rng.random(n) < 0.5, angle, math.pi - angle)


def private_cosines(rng: np.random.Generator, n: int, dim: int, snr: float, cos_bias: float) -> Array:
    """Cosines between a first axis and s + z, |s| = snr, where s has the given cosine with that axis."""
    private = rng.standard_normal((n, dim))
    private[:, 0] += snr * cos_bias
    private[:, 1] += snr * math.sqrt(1 - cos_bias**2)
    return np.asarray(private[:, 0] / np.linalg.norm(private, axis=1))


def density_in_two_or_three(dim: int, snr: float, angle: float) -> float:
    """Density of the angle in the plane and in space, with the normal distribution function."""
    c = snr * math.cos(angle)
    tail = math.sqrt(2 * math.pi) * math.exp(c**2 / 2) * float(scipy.special.ndtr(c))
    radial = 1 + c * tail if dim == 2 else c + (1 + c**2) * tail
    constant = 1 / math.pi if dim == 2 else math.sin(angle) / math.sqrt(2 * math.pi)
    return constant * math.exp(-(snr**2) / 2) * radial
