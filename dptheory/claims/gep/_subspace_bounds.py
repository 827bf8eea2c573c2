"""Residual bounds on laws with finitely many atoms: what the checks of GEP's Lemma 3.2 compare."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dptheory import embedding
from dptheory._arrays import Array

# --- Laws with finitely many atoms: every sample of anchors in turn, with exact ranks, moments and residuals


Row = tuple[Fraction, ...]


def rank(rows: Sequence[Sequence[Fraction | int]]) -> int:
    """Rank of a matrix of fractions, by elimination."""
    left = [[Fraction(x) for x in row] for row in rows]
    found = 0
    for column in range(len(left[0]) if left else 0):
        pivot = next((i for i in range(found, len(left)) if left[i][column]), None)
        if pivot is None:
            continue
        left[found], left[pivot] = left[pivot], left[found]
        for i in range(found + 1, len(left)):
            factor = left[i][column] / left[found][column]
            left[i] = [a - factor * b for a, b in zip(left[i], left[found], strict=True)]
        found += 1
    return found


def moment_curve(count: int, dim: int) -> list[tuple[int, ...]]:
    """(1, t, t^2, ...) for t = 1..count: any ``dim`` of these vectors are independent (Vandermonde)."""
    return [tuple(t**power for power in range(dim)) for t in range(1, count + 1)]


def samples(weights: Sequence[Fraction], size: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Every ordered sample of ``size`` atoms with its probability."""
    for picked in itertools.product(range(len(weights)), repeat=size):
        yield picked, math.prod((weights[i] for i in picked), start=Fraction(1))


def counts(weights: Sequence[float], size: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """How often each atom occurs in ``size`` draws, with the multinomial probability."""
    atoms = len(weights)
    for bars in itertools.combinations(range(size + atoms - 1), atoms - 1):
        edges = (-1, *bars, size + atoms - 1)
        often = tuple(b - a - 1 for a, b in itertools.pairwise(edges))
        chance = float(math.factorial(size))
        for weight, times in zip(weights, often, strict=True):
            chance *= weight**times / math.factorial(times)
        yield often, chance


def second_moments(atoms: Array, often: Sequence[float], size: float = 1.0) -> Array:
    """Second moment matrix of atoms that occur so often out of ``size``."""
    return np.asarray(np.einsum("i,ij,ik->jk", np.asarray(often, dtype=float) / size, atoms, atoms))


def leading(matrix: Array, count: int) -> Array:
    """Projection onto the leading eigenvectors."""
    vectors = np.linalg.eigh(matrix)[1][:, ::-1][:, :count]
    return np.asarray(vectors @ vectors.T)


def residuals(atoms: Array, weights: Sequence[float], size: int, count: int) -> Iterator[tuple[float, float]]:
    """E|xi - Pi xi|^2 with the subspace of each possible sample, and the probability of the sample."""
    population = second_moments(atoms, weights)
    for often, chance in counts(weights, size):
        projection = leading(second_moments(atoms, often, size), count)
        yield float(np.trace(population) - np.sum(projection * population)), chance


ALMOST_SURE_FAILURE = 1 - 1e-12  # leaves the deviation term out


@dataclass(frozen=True)
class Law:
    """Atoms (rows) and their probabilities."""

    atoms: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]

    @property
    def matrix(self) -> Array:
        return np.array(self.atoms)

    @property
    def eigenvalues(self) -> Array:
        return np.clip(np.linalg.eigvalsh(second_moments(self.matrix, self.weights)), 0.0, None)

    @property
    def fourth_moment(self) -> float:
        return float(np.square(np.square(self.matrix).sum(axis=1)) @ np.array(self.weights))

    @property
    def largest(self) -> float:
        return float(np.square(self.matrix).sum(axis=1).max())


SKEW = Law(((2.0, 0.0, 0.0), (0.5, 1.0, 0.0), (0.1, -0.4, 0.3)), (0.5, 0.3, 0.2))
PLANE = Law(((1.0, 0.0), (0.0, 1.0)), (0.7, 0.3))
FLAT = Law(((3.0, 0.0, 0.0), (2.5, 0.2, 0.1), (-2.8, 0.1, -0.2)), (0.4, 0.4, 0.2))


def bound(law: Law, subspace_dim: int, anchors: int, failure: float) -> embedding.ResidualBound:
    """The calculator's bound for a law."""
    return embedding.residual_bound(
        eigenvalues=law.eigenvalues,
        subspace_dim=subspace_dim,
        anchors=anchors,
        squared_norm_bound=law.largest,
        failure_probability=failure,
        fourth_moment=law.fourth_moment,
    )


_FAILURE, _SQUARED_NORM = 0.01, 3.0


def power_law_bound(part: str, dim: int, subspace_dim: int, anchors: int, fourth: float | None) -> float:
    """One field of the calculator's bound for eigenvalues 1, 1/4, 1/9, ... and |xi|^2 <= 3."""
    found = embedding.residual_bound(
        eigenvalues=_power_law(dim),
        subspace_dim=subspace_dim,
        anchors=anchors,
        squared_norm_bound=_SQUARED_NORM,
        failure_probability=_FAILURE,
        fourth_moment=fourth,
    )
    return float(getattr(found, part))


def looped_bound(
    part: str, dim: int, subspace_dim: int, anchors: int, fourth: float | None, every: bool = True
) -> float:
    """The same by a loop over j; ``every=False`` takes j = k alone.

    Without a fourth moment for the law with atoms sqrt(3) e_i of weight lambda_i / 3, and 0: E|S - Sigma|^2 is a sum of binomial
    variances. The centred projection j/p I - Pi has eigenvalues j/p and 1 - j/p, and exchanging an anchor moves F by 6/m at most.
    """
    spectrum = _power_law(dim)
    if fourth is None:
        energy = math.fsum(_SQUARED_NORM**2 * w * (1 - w) for w in (x / _SQUARED_NORM for x in spectrum)) / anchors
    else:
        energy = (fourth - math.fsum(x * x for x in spectrum)) / anchors
    change = 2 * _SQUARED_NORM / anchors
    found = []
    for j in range(0 if every else subspace_dim, subspace_dim + 1):
        estimated = 0 < j < dim
        spread = j * (1 - j / dim) ** 2 + (dim - j) * (j / dim) ** 2
        terms = {
            "tail": math.fsum(spectrum[j:]),
            "estimation": math.sqrt(energy * spread) if estimated else 0.0,
            "deviation": change * math.sqrt(anchors * math.log(1 / _FAILURE) / 2) if estimated else 0.0,
        }
        value = math.fsum(terms.values())
        found.append({**terms, **dict.fromkeys(("subspace_dim", "first_dim", "last_dim"), float(j)), "value": value})
    return min(found, key=lambda one: one["value"])[part]


def _power_law(dim: int) -> list[float]:
    return [1.0 / (i * i) for i in range(1, dim + 1)]


def printed_residual_bound(
    eigenvalues: Array, subspace_dim: int, anchors: int, squared_norm_bound: float, delta: float,
    fourth_moment: float, sample_fourth_moment: float, sample_eigenvalues: Array,
) -> float:  # fmt: skip
    """Right side of Lemma 3.2 as printed, said to hold with probability 1 - 2 e^-delta."""
    spectrum = np.sort(eigenvalues)[::-1]
    constant = fourth_moment - float(np.square(spectrum).sum())
    constant += sample_fourth_moment - float(np.square(sample_eigenvalues).sum())
    deviation = squared_norm_bound * math.sqrt(2 * delta / anchors)
    return float(spectrum[subspace_dim:].sum()) + math.sqrt(subspace_dim * max(constant, 0.0) / anchors) + deviation


def printed_mean_estimation(law: Law, subspace_dim: int, anchors: int) -> float:
    """sqrt(k E C / m) with both brackets of C: the second one is (1 - 1/m) of the first on average."""
    first = law.fourth_moment - float(np.square(law.eigenvalues).sum())
    return math.sqrt(subspace_dim * first * (2 - 1 / anchors) / anchors)


def enumerated_estimation(law: Law, subspace_dim: int, anchors: int) -> float:
    """sqrt(E|S - Sigma|^2) over all samples, times the spread of the projections about their centre."""
    population = second_moments(law.matrix, law.weights)
    energy = 0.0
    for often, chance in counts(law.weights, anchors):
        energy += chance * float(np.square(second_moments(law.matrix, often, anchors) - population).sum())
    dim = law.matrix.shape[1]
    centred = leading(population, subspace_dim) - subspace_dim / dim * np.eye(dim)
    return math.sqrt(energy * float(np.square(centred).sum()))


def _gain(law: Law, often: tuple[int, ...], anchors: int, subspace_dim: int) -> float:
    """F = sup over subspaces of <Pi_V - Pi*, S - Sigma>."""
    population = second_moments(law.matrix, law.weights)
    error = second_moments(law.matrix, often, anchors) - population
    best = float(np.sort(np.linalg.eigvalsh(error))[::-1][:subspace_dim].sum())
    return best - float(np.sum(leading(population, subspace_dim) * error))


def exchanged_deviation(law: Law, subspace_dim: int, anchors: int, failure: float) -> float:
    """McDiarmid's deviation from the largest change of F when one anchor is exchanged, over all samples."""
    change = 0.0
    for often, _ in counts(law.weights, anchors - 1):
        gains = [
            _gain(law, tuple(n + (i == j) for i, n in enumerate(often)), anchors, subspace_dim)
            for j in range(len(often))
        ]
        change = max(change, max(gains) - min(gains))
    return change * math.sqrt(-math.log(failure) * anchors / 2)


def _turned(share: float, ratio: float, angle: float) -> Law:
    """Two atoms at an angle, the second one shorter by the ratio."""
    return Law(((1.0, 0.0), (ratio * math.cos(angle), ratio * math.sin(angle))), (share, 1 - share))


def mean_slack(share: float, ratio: float, angle: float, anchors: int, kept: float = 1.0) -> float:
    """(tail + kept * estimation) minus the mean residual of the estimated line, over the trace."""
    law = _turned(share, ratio, angle)
    found = bound(law, 1, anchors, ALMOST_SURE_FAILURE)
    mean = sum(residual * chance for residual, chance in residuals(law.matrix, law.weights, anchors, 1))
    return (found.tail + kept * found.estimation + found.deviation - mean) / float(law.eigenvalues.sum())


def tail_slack(share: float, ratio: float, angle: float, anchors: int, failure: float, kept: float = 1.0) -> float:
    """failure - P(residual > tail + kept * (estimation + deviation))."""
    law = _turned(share, ratio, angle)
    found = bound(law, 1, anchors, failure)
    limit = found.tail + kept * (found.estimation + found.deviation) + 1e-12
    pairs = residuals(law.matrix, law.weights, anchors, 1)
    return failure - sum(chance for residual, chance in pairs if residual > limit)


def growth_slack(decay: float, anchors: int, subspace_dim: int, failure: float) -> float:
    """The calculator's bound does not grow from k to k + 1: spectrum decay^j of unit atoms."""
    law = _axes(decay)
    return bound(law, subspace_dim, anchors, failure).value - bound(law, subspace_dim + 1, anchors, failure).value


def printed_growth_slack(decay: float, anchors: int, subspace_dim: int, failure: float) -> float:
    """The same of the printed bound, with the mean of its second bracket."""
    law = _axes(decay)
    spectrum = np.sort(law.eigenvalues)[::-1]
    steps = [printed_mean_estimation(law, k, anchors) for k in (subspace_dim, subspace_dim + 1)]
    return float(spectrum[subspace_dim]) + steps[0] - steps[1]


def _axes(decay: float) -> Law:
    weights = decay ** np.arange(6)
    return Law(tuple(tuple(row) for row in np.eye(6).tolist()), tuple((weights / weights.sum()).tolist()))
