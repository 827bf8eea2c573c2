from collections.abc import Callable
from fractions import Fraction

from dptheory import papers
from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row

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


row = new_row(
    id="gep.text",
    source=Source("gep", "sections 1, 3.2 and 4, Appendix A, Tables 1, 3, 6"),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
)


@row.equal(lambda: [(what,) for what in _FINDINGS], kind=Kind.COUNTEREXAMPLE)
def _(what: str) -> Sides:
    """sentences against tables"""
    return _FINDINGS[what][1], _FINDINGS[what][0](), _FINDINGS[what][2]


@row.equal(lambda: [(data, method, i) for data in _DATA for method in _TABLE_1_METHODS for i in range(len(_EPSILONS))])
def _(data: str, method: str, i: int) -> Sides:
    """improvements of Table 1, recomputed"""
    return (
        _CHANGES.cell(f"{data}, {method}, epsilon {_EPSILONS[i]}").number(),
        _accuracies(method, data)[i] - _accuracies("GP", data)[i],
        _accuracies(method, data)[i] - _accuracies("PATE", data)[i],
    )
