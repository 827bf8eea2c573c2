"""GEP: least squares with true and with random labels."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dptheory import embedding
from dptheory.checks import ExactCheck, Kind, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.gep import _atoms


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
    basis = embedding.anchor_subspace(random, 2, 30, rng)
    ratio = float(np.square(errors[0] / errors[1]).max())
    return embedding.residual_energy(true, basis), embedding.residual_energy(random, basis), ratio


def energy_slack(seed: int, spread: float, dim: int) -> float:
    """bound / energy - 1."""
    true, random, ratio = _energies(seed, spread, dim)
    return ratio * random / true - 1


def equal_energy_slack(seed: int, spread: float, dim: int) -> float:
    """Wrong statement: the residual under true labels is no larger than that of the random-label gradients."""
    true, random, _ = _energies(seed, spread, dim)
    return random / true - 1


def share(true: tuple[int, int], random: tuple[int, int]) -> float:
    """:func:`top_line_residual` by the calculators."""
    basis = embedding.anchor_subspace(np.diag(random), 1, 60, np.random.default_rng(3))
    return embedding.residual_energy(np.diag(true), basis) / (sum(e * e for e in true) / 2)


_LABELS = Claim(
    id="gep.random_labels",
    title="random labels suffice for least squares",
    source=Source("gep", "section 3.1, and Fig. 4 in section 3.2"),
    statement=r"For least squares the gradient is aligned with the feature and the label only scales its length, so randomly labelled auxiliary "
    r"data are sufficient for finding the anchor subspace.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "one output: gradient = (<x, theta> - y) x, along x up to sign, and 0 where the label is fitted",
        "the features with random-label error not 0 span those with true error not 0, as they do for labels with a density given the model",
        "the subspace has as many dimensions as the features span; with fewer the labels decide which directions are kept",
    ),
    correction=r"The full span does not depend on the labels (none fitted). For a smaller subspace, on the same features: true residual energy $\le"
    r"\max_j(e_j/\hat e_j)^2\times$ random-label residual energy, $e$ and $\hat e$ the errors under true and random labels.",
    calculators=(embedding.residual_energy, embedding.project, embedding.anchor_subspace),
    checks=(
        ExactCheck(
            name="spans under two labellings, exact ranks",
            cases=spanning_cases,
            truth=spans_agree,
            statement=kept_features_span,
            wrong=lambda true, random: True,
        ),
        ExactCheck(
            name="features e_1 and e_2, errors (1, 10) and (10, 1): the leading line misses 100/101",
            cases=lambda: [((1, 10), (10, 1))],
            truth=top_line_residual,
            statement=lambda true, random: Fraction(100, 101),
            wrong=lambda true, random: Fraction(1, 101),
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="the same by the calculators",
            cases=lambda: [((1, 10), (10, 1)), ((3, 1), (2, 1)), ((1, 4), (5, 1))],
            truth=lambda true, random: float(top_line_residual(true, random)),
            statement=lambda true, random: share(true, random),
            wrong=lambda true, random: min(e * e for e in true) / sum(e * e for e in true),
            tolerance=1e-9,
        ),
        SearchCheck(
            name="residual energy against the largest ratio of squared errors",
            box={"seed": Range(0, 10**6, integer=True), "spread": Range(0.0, 2.0), "dim": Range(3, 8, integer=True)},
            slack=energy_slack,
            wrong=equal_energy_slack,
            tolerance=1e-9,
        ),
    ),
    proved=True,
)

CLAIMS: tuple[Claim, ...] = (_LABELS,)
