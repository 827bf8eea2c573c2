"""Least squares with true and with random labels: what the checks of gep.random_labels compare."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dptheory.claims.gep import _atoms
from dptheory.embedding import anchor


def gradients(features: Sequence[_atoms.Row], errors: Sequence[Fraction]) -> list[_atoms.Row]:
    """Gradients (<x, theta> - y) x of half the squared error, from the features and the errors <x, theta> - y."""
    return [tuple(error * entry for entry in x) for x, error in zip(features, errors, strict=True)]


def same_span(first: Sequence[_atoms.Row], second: Sequence[_atoms.Row]) -> bool:
    """Whether two sets of rows span one space, by exact ranks."""
    together = _atoms.rank([*first, *second])
    return _atoms.rank(first) == together == _atoms.rank(second)


def spanning_cases() -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(errors under true labels, errors under random labels) for four features of rank 3 in five dimensions."""
    return [
        ((1, -2, 3, 1), (5, 1, -1, 2)),
        ((1, -2, 3, 1), (5, 0, -1, 2)),
        ((1, -2, 3, 1), (5, 0, 0, 2)),
        ((1, 0, 3, 1), (5, 0, 0, 2)),
        ((1, -2, 3, 1), (0, 0, 0, 1)),
    ]


FEATURES: tuple[_atoms.Row, ...] = tuple(
    tuple(map(Fraction, row)) for row in ((1, 0, 0, 2, 1), (0, 1, 0, 1, -1), (0, 0, 1, 0, 3), (1, 1, 1, 3, 3))
)


def spans_agree(true: Sequence[int], random: Sequence[int]) -> bool:
    """Whether the gradients under both labellings span one space."""
    fractions = [[Fraction(e) for e in errors] for errors in (true, random)]
    return same_span(gradients(FEATURES, fractions[0]), gradients(FEATURES, fractions[1]))


def kept_features_span(true: Sequence[int], random: Sequence[int]) -> bool:
    """The condition: the features whose errors are not 0 span one space."""
    kept = [[x for x, error in zip(FEATURES, errors, strict=True) if error] for errors in (true, random)]
    return same_span(kept[0], kept[1])


def top_line_residual(true: tuple[int, int], random: tuple[int, int]) -> Fraction:
    """Share of energy of true gradients along e_1, e_2 that the leading line of the random-label gradients misses."""
    energies, anchors = [e * e for e in true], [e * e for e in random]
    return Fraction(energies[1 - anchors.index(max(anchors))], sum(energies))


def _energies(seed: int, spread: float, dim: int) -> tuple[float, float, float]:
    """Residual energy under true labels, under random ones, and the largest ratio of squared errors."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((12, dim)) * 0.6 ** np.arange(dim)
    errors = np.exp(spread * rng.standard_normal((2, 12)))
    true, random = (error[:, None] * features for error in errors)
    basis = anchor.anchor_subspace(random, 2, 30, rng)
    ratio = float(np.square(errors[0] / errors[1]).max())
    return anchor.residual_energy(true, basis), anchor.residual_energy(random, basis), ratio


def energy_slack(seed: int, spread: float, dim: int) -> float:
    """bound / energy - 1."""
    true, random, ratio = _energies(seed, spread, dim)
    return ratio * random / true - 1


def equal_energy_slack(seed: int, spread: float, dim: int) -> float:
    """Wrong statement: the residual under true labels is no larger than that of the random-label gradients."""
    true, random, _ = _energies(seed, spread, dim)
    return random / true - 1
