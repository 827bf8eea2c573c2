import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dptheory import embedding, papers, privacy
from dptheory._validate import Adjacency
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.gep._mechanism import (
    most_concatenated,
    normalised_move,
    traced_energy,
)

_MU = 0.5
_PAPERS = tuple((dim, k) for dim in (269_722, 100_000) for k in (250, 500, 1000, 1500, 2000))
"""p, of ResNet20 and of a smaller network, and the k of section 4."""

lower_variance = new_row(
    id="gep.lower_variance",
    source=Source("gep", "section 1, second contribution"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("printed_is_false", "correction_holds"),
    calculators=(embedding.gep_mse, embedding.clipping_bias),
)


def _stated_ratio(dim: int, k: int, share: Fraction) -> Fraction:
    return 2 * (Fraction(k, dim) + share**2)


def _traced_ratio(dim: int, k: int, share: float) -> float:
    """Trace of GEP's noise over that of plain perturbation's."""
    published, plain = (
        traced_energy(way, dim, k, 10.0, 10.0 * share, _MU, 0.0, None) for way in ("published", "plain")
    )
    return published / plain


def _calculated_ratio(dim: int, k: int, share: float) -> float:
    found = embedding.gep_mse(dim=dim, subspace_dim=k, clip_norm=10.0, residual_clip=10.0 * share, mu=_MU)
    return found.published / found.plain


@lower_variance.equal(
    lambda: [(*sizes, share) for sizes in _PAPERS for share in (Fraction(1, 5), Fraction(7, 10))], tolerance=1e-12
)
def _(dim: int, k: int, share: Fraction) -> Sides:
    """ratio of the variances at the paper's sizes, and just below what the condition allows"""
    traced = _traced_ratio(dim, k, float(share))
    return _calculated_ratio(dim, k, float(share)), traced, traced - 2 * k / dim


@lower_variance.equal(lambda: _PAPERS, kind=Kind.COUNTEREXAMPLE, tolerance=1e-12)
def _(dim: int, k: int) -> Sides:
    """equal clips: more than twice the variance"""
    return float(_stated_ratio(dim, k, Fraction(1))), _traced_ratio(dim, k, 1.0), 1.0


@lower_variance.equal(
    lambda: [(dim, k, side) for dim, k in _PAPERS for side in (Fraction(999, 1000), Fraction(1001, 1000))]
)
def _(dim: int, k: int, side: Fraction) -> Sides:
    """the condition: lower just below it, higher just above"""
    share = float(side) * (0.5 - k / dim) ** 0.5
    return _traced_ratio(dim, k, share) < 1, side < 1, _traced_ratio(dim, k, share / 1.01) < 1


@lower_variance.equal(
    lambda: [(n, clip) for n in (1, 7) for clip in (2, 3, 5)], kind=Kind.COUNTEREXAMPLE, tolerance=1e-12
)
def _(rows: int, clip: int) -> Sides:
    """residuals of norm 5 and a clip below it: what the mean misses, per gradient"""
    bias = embedding.clipping_bias(
        [[0.0]] * rows, residuals=[[3.0, 4.0]] * rows, embedding_clip=10.0, residual_clip=float(clip)
    )
    return bias.square, float((rows * (5 - clip)) ** 2), 1.0


concat = new_row(
    id="gep.concat",
    source=Source("gep", "section 4, implementation details"),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds",),
    calculators=(embedding.joint_mu,),
)


@concat.equal(("add-remove",), ("replace-one",), tolerance=1e-12)
def _(adjacency: Adjacency) -> Sides:
    """squared sensitivity, by enumeration in fractions"""
    return (
        round(embedding.joint_mu([1.0, 1.0], adjacency=adjacency) ** 2, 12),
        lambda: most_concatenated(adjacency),
        Fraction(1 if adjacency == "add-remove" else 4),
    )


@concat.inequality(
    {name: Range(-20, 20) for name in ("w1", "w2", "r1", "r2")}
    | {name: Range(0.01, 20, log=True) for name in ("clip", "residual_clip")},
    # wrong: the longer of the two parts alone
    wrong=lambda **point: 1 - normalised_move(**point),
)
def within_slack(**point: float) -> float:
    """no gradient moves the sum further"""
    return math.sqrt(2) - normalised_move(**point)


best_over_k = new_row(
    id="gep.best_over_k",
    source=Source("gep", "section 4, results, Table 1"),
    verdict=Verdict.CONDITIONAL,
    calculators=(privacy.least_noise_multiplier,),
)

_RATE, _STEPS, _DELTA = 0.02, 10_000, 1e-5
"""CIFAR-10 at epsilon = 8: batches of 1,000 of 50,000 records, 200 epochs."""


def _mean_of_largest(count: int) -> float:
    """E max of standard normal numbers: 0, 1 / sqrt pi, 3 / (2 sqrt pi), 3 / sqrt pi (1/2 + asin(1/3) / pi) for one to four."""
    return (
        0.0,
        1 / math.sqrt(math.pi),
        1.5 / math.sqrt(math.pi),
        3 / math.sqrt(math.pi) * (0.5 + math.asin(1 / 3) / math.pi),
    )[count - 1]


def _by_midpoints(count: int) -> float:
    """int 1 - F^n over x > 0 less int F^n over x < 0, on a grid of midpoints."""
    edges = np.linspace(-9.0, 9.0, 36_001)
    middle = (edges[1:] + edges[:-1]) / 2
    below = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in middle]) ** count
    step = edges[1] - edges[0]
    return float(step * (np.sum(1 - below[middle > 0]) - np.sum(below[middle < 0])))


@best_over_k.equal((2,), (3,), (4,), tolerance=1e-6)
def _(count: int) -> Sides:
    """the best of equal ones is above their mean by so many deviations"""
    return _mean_of_largest(count), lambda: _by_midpoints(count), _mean_of_largest(count % 4 + 1)


def _epsilon(runs: int) -> float:
    """Of so many runs, one part of a composition each, at the noise that one of them needs for epsilon = 8."""
    noise = privacy.least_noise_multiplier(epsilon=8.0, delta=_DELTA, sampling_rate=_RATE, steps=_STEPS)
    part = privacy.Step(noise_multiplier=noise, sampling_rate=_RATE, count=_STEPS)
    return float(privacy.Composition((part,) * runs).epsilon(_DELTA).upper)


@best_over_k.equal((1, 8.0), (4, 18.8913), tolerance=1e-5)
def _(runs: int, epsilon: float) -> Sides:
    """epsilon of all runs among which the best is chosen"""
    return epsilon, lambda: _epsilon(runs), 8.0 * runs  # wrong: basic composition


_TABLE_1, _CHANGES, _TABLE_3 = map(papers.table, ("gep.table1", "gep.table1-change", "gep.table3"))
_DATA = tuple(dict.fromkeys(cell.key("dataset") for cell in _TABLE_1.cells))
_EPSILONS = tuple(dict.fromkeys(cell.key("epsilon") for cell in _TABLE_1.cells))
_TABLE_1_METHODS, _TABLE_3_METHODS = (
    tuple(dict.fromkeys(cell.key("method") for cell in table.cells)) for table in (_TABLE_1, _TABLE_3)
)
_CAPTIONS = {number: papers.table(f"gep.table{number}").caption for number in (1, 4)}
"""Of the tables that the text of section 4 could mean, as they begin."""


def _accuracies(method: str, data: str) -> list[Fraction]:
    return [_TABLE_1.cell(f"{data}, {method}, epsilon {epsilon}").number() for epsilon in _EPSILONS]


def _features(method: str) -> list[Fraction]:
    return [cell.number() for cell in _TABLE_3.cells if cell.key("method") == method]


def _lead(method: str, other: str) -> list[Fraction]:
    """Accuracy of ``method`` minus that of ``other``, over all cells of Tables 1 and 3 that hold both."""
    rows = [(_accuracies(method, data), _accuracies(other, data)) for data in _DATA]
    if other in _TABLE_3_METHODS:
        rows.append((_features(method), _features(other)))
    return [a - b for mine, theirs in rows for a, b in zip(mine, theirs, strict=True)]


def _won() -> Fraction:
    """Data sets of Table 1 on which GEP has the highest accuracy at every epsilon."""
    return Fraction(
        sum(
            all(
                gep > max(others)
                for gep, *others in zip(
                    _accuracies("GEP", data),
                    *(_accuracies(m, data) for m in _TABLE_1_METHODS if m != "GEP"),
                    strict=True,
                )
            )
            for data in _DATA
        )
    )


_FINDINGS: dict[str, tuple[Callable[[], Fraction], Fraction, Fraction]] = {
    # what: (from the tables, corrected value, what the text says)
    "B-GEP minus GP at epsilon 0.1, Table 3": (
        lambda: _features("B-GEP")[0] - _features("GP")[0],
        Fraction("2.8"),
        Fraction(0),  # "performs on par with GP"
    ),
    "data sets of Table 1 on which GEP is best at every epsilon": (_won, Fraction(2), Fraction(3)),
    "smallest lead of GEP over PATE": (lambda: min(_lead("GEP", "PATE")), Fraction("-2.2"), Fraction(0)),
    "cells in which GEP is below B-GEP": (
        lambda: Fraction(sum(lead < 0 for lead in _lead("GEP", "B-GEP"))),
        Fraction(1),
        Fraction(0),
    ),
    "number of the table with the best accuracy for given epsilon": (
        lambda: Fraction(next(number for number, caption in _CAPTIONS.items() if "accuracy" in caption)),
        Fraction(1),
        Fraction(4),
    ),
}


text = new_row(
    id="gep.text",
    source=Source("gep", "sections 1, 3.2 and 4, Appendix A, Tables 1, 3, 6"),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
)


@text.equal(lambda: [(what,) for what in _FINDINGS], kind=Kind.COUNTEREXAMPLE)
def _(what: str) -> Sides:
    """sentences against tables"""
    return _FINDINGS[what][1], _FINDINGS[what][0](), _FINDINGS[what][2]


@text.equal(lambda: [(data, method, i) for data in _DATA for method in _TABLE_1_METHODS for i in range(len(_EPSILONS))])
def _(data: str, method: str, i: int) -> Sides:
    """improvements of Table 1, recomputed"""
    return (
        _CHANGES.cell(f"{data}, {method}, epsilon {_EPSILONS[i]}").number(),
        _accuracies(method, data)[i] - _accuracies("GP", data)[i],
        _accuracies(method, data)[i] - _accuracies("PATE", data)[i],
    )
