from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dptheory import embedding
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.gep import _subspace_bounds


def _gradients(features: Sequence[_subspace_bounds.Row], errors: Sequence[Fraction]) -> list[_subspace_bounds.Row]:
    """Gradients (<x, theta> - y) x of half the squared error, from the features and the errors <x, theta> - y."""
    return [tuple(error * entry for entry in x) for x, error in zip(features, errors, strict=True)]


def _same_span(first: Sequence[_subspace_bounds.Row], second: Sequence[_subspace_bounds.Row]) -> bool:
    """Whether two sets of rows span one space, by exact ranks."""
    together = _subspace_bounds.rank([*first, *second])
    return _subspace_bounds.rank(first) == together == _subspace_bounds.rank(second)


def _spanning_cases() -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(errors under true labels, errors under random labels) for four features of rank 3 in five dimensions."""
    return [
        ((1, -2, 3, 1), (5, 1, -1, 2)),
        ((1, -2, 3, 1), (5, 0, -1, 2)),
        ((1, -2, 3, 1), (5, 0, 0, 2)),
        ((1, 0, 3, 1), (5, 0, 0, 2)),
        ((1, -2, 3, 1), (0, 0, 0, 1)),
    ]


_FEATURES: tuple[_subspace_bounds.Row, ...] = tuple(
    tuple(map(Fraction, row)) for row in ((1, 0, 0, 2, 1), (0, 1, 0, 1, -1), (0, 0, 1, 0, 3), (1, 1, 1, 3, 3))
)


def _spans_agree(true: Sequence[int], random: Sequence[int]) -> bool:
    """Whether the gradients under both labellings span one space."""
    fractions = [[Fraction(e) for e in errors] for errors in (true, random)]
    return _same_span(_gradients(_FEATURES, fractions[0]), _gradients(_FEATURES, fractions[1]))


def _kept_features_span(true: Sequence[int], random: Sequence[int]) -> bool:
    """The condition: the features whose errors are not 0 span one space."""
    kept = [[x for x, error in zip(_FEATURES, errors, strict=True) if error] for errors in (true, random)]
    return _same_span(kept[0], kept[1])


def _top_line_residual(true: tuple[int, int], random: tuple[int, int]) -> Fraction:
    """Share of energy of true gradients along e_1, e_2 that the leading line of the random-label gradients misses."""
    energies, anchors = [e * e for e in true], [e * e for e in random]
    return Fraction(energies[1 - anchors.index(max(anchors))], sum(energies))


def _energies(seed: int, spread: float, dim: int) -> tuple[float, float, float]:
    """Residual energy under true labels, under random ones, and the largest ratio of squared errors."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((12, dim)) * 0.6 ** np.arange(dim)
    errors = np.exp(spread * rng.standard_normal((2, 12)))
    true, random = (error[:, None] * features for error in errors)
    basis = embedding.anchor_subspace(random, subspace_dim=2, iterations=30, rng=rng)
    ratio = float(np.square(errors[0] / errors[1]).max())
    return embedding.residual_energy(true, basis=basis), embedding.residual_energy(random, basis=basis), ratio


def _equal_energy_slack(seed: int, spread: float, dim: int) -> float:
    """Wrong statement: the residual under true labels is no larger than that of the random-label gradients."""
    true, random, _ = _energies(seed, spread, dim)
    return random / true - 1


def _share(true: tuple[int, int], random: tuple[int, int]) -> float:
    """:func:`_top_line_residual` by the calculators."""
    basis = embedding.anchor_subspace(np.diag(random), subspace_dim=1, iterations=60, rng=np.random.default_rng(3))
    return embedding.residual_energy(np.diag(true), basis=basis) / (sum(e * e for e in true) / 2)


row = new_row(
    id="gep.random_labels",
    source=Source("gep", "section 3.1, and Fig. 4 in section 3.2"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("printed_is_false", "correction_holds"),
    calculators=(embedding.residual_energy, embedding.project, embedding.anchor_subspace),
)


@row.equal(_spanning_cases)
def _(true: tuple[int, ...], random: tuple[int, ...]) -> Sides:
    """spans under two labellings, exact ranks"""
    return _kept_features_span(true, random), lambda: _spans_agree(true, random), True


@row.equal(((1, 10), (10, 1)), kind=Kind.COUNTEREXAMPLE)
def _(true: tuple[int, int], random: tuple[int, int]) -> Sides:
    """features e_1 and e_2, errors (1, 10) and (10, 1): the leading line misses 100/101"""
    return Fraction(100, 101), lambda: _top_line_residual(true, random), Fraction(1, 101)


@row.equal(((1, 10), (10, 1)), ((3, 1), (2, 1)), ((1, 4), (5, 1)), tolerance=1e-9)
def _(true: tuple[int, int], random: tuple[int, int]) -> Sides:
    """the same by the calculators"""
    return _share(true, random), _top_line_residual(true, random), min(e * e for e in true) / sum(e * e for e in true)


@row.inequality(
    {"seed": Range(0, 10**6, integer=True), "spread": Range(0.0, 2.0), "dim": Range(3, 8, integer=True)},
    wrong=_equal_energy_slack,
    tolerance=1e-9,
)
def energy_slack(seed: int, spread: float, dim: int) -> float:
    """residual energy against the largest ratio of squared errors

    bound / energy - 1.
    """
    true, random, ratio = _energies(seed, spread, dim)
    return ratio * random / true - 1
