import math
from fractions import Fraction

import numpy as np

from dptheory import sparsification
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.rs._kappa import CASES, DIM, calculated, exact_kappa_of, printed_kappa, spread_of

lem3_3 = new_row(
    id="rs.lem3.3",
    source=Source("rs", "Lemma 3.3", (11, 57, 77)),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=lambda rate: (1.0 - rate, 1.0),
    calculators=(sparsification.kappa,),
    figure="kappa_rate",
)


def _strictly_inside(name: str) -> bool:
    x = Fraction(CASES[name][1], DIM)
    return x < exact_kappa_of(name) < 1


def _condition_met(name: str) -> bool:
    """P >= sqrt(1 - r) and r > 0, in fractions: the lemma then says that kappa lies in (1 - r, 1)."""
    _, keep, rows = CASES[name]
    below = Fraction(sum(sum(x * x for x in row) < 9 for row in rows), len(rows))
    return keep < DIM and below**2 >= Fraction(keep, DIM)


def _stated_inside(name: str) -> bool:
    found = calculated(name)
    return found.lower < found.value < 1


@lem3_3.equal(lambda: [(name,) for name in CASES], kind=Kind.COUNTEREXAMPLE)
def _(name: str) -> Sides:
    """the open interval is left on both sides"""
    return _stated_inside(name), lambda: _strictly_inside(name), True if _condition_met(name) else None


@lem3_3.equal(lambda: [(name,) for name in CASES], tolerance=1e-14)
def _(name: str) -> Sides:
    """kappa in fractions: x, sqrt x, 1, 2"""
    return calculated(name).value, lambda: exact_kappa_of(name), printed_kappa(1 - CASES[name][1] / DIM)


def _step_57_holds(size: int, scale: int) -> bool:
    """Equation 57 for the gradient (size, 0), d = 2, r = 1/2, c = scale, by enumeration."""
    masked = (size, 0)
    low, high = [a for a in masked if a <= scale], [a for a in masked if a > scale]
    left = Fraction(sum(min(a, scale) * a for a in masked), 2)
    right = Fraction(len(low), 2) * Fraction(1, 2) * size**2 + Fraction(len(high), 2) * scale * Fraction(sum(masked), 2)
    return left >= right


@lem3_3.equal(lambda: [(size, scale) for size in (1, 2, 3, 10) for scale in (1, 2, 5)], kind=Kind.COUNTEREXAMPLE)
def _(size: int, scale: int) -> Sides:
    """step 57 fails for one entry above c"""
    return size <= scale, lambda: _step_57_holds(size, scale), True


def _found(second: float, third: float, fourth: float, keep: int, scale: float, margin: float) -> sparsification.Kappa:
    """Four entries, |w| = scale c, Gaussian deviation with P between sqrt x and 1."""
    u = np.array([1.0, second, third, fourth])
    root = math.sqrt(keep / 4)
    spread = spread_of(root + margin * (1 - root), 4) if margin < 1 and root < 1 else 0.0
    return sparsification.kappa(
        0.25 * scale * u / np.linalg.norm(u), clip_norm=1.0, drop_rate=1 - keep / 4, deviation=spread
    )


def _square_root_slack(**point: float) -> float:
    """Wrong statement: kappa is at least sqrt(1 - r)."""
    found = _found(**point)  # type: ignore[arg-type]
    return found.value / math.sqrt(found.lower) - 1


_BOX = {
    "second": Range(0, 1),
    "third": Range(0, 1),
    "fourth": Range(0, 1),
    "keep": Range(1, 4, integer=True),
    "scale": Range(0.01, 100, log=True),
    "margin": Range(0, 1),
}


@lem3_3.inequality(_BOX, wrong=_square_root_slack)
def _closed_range_slack(**point: float) -> float:
    """closed range where P >= sqrt(1 - r)"""
    found = _found(**point)  # type: ignore[arg-type]
    return min(found.value / found.lower, found.upper / found.value, 1 / found.value) - 1


def _at_most_one_slack(probability: float, scale: float, keep: int) -> float:
    """Wrong statement: kappa <= 1 without the condition."""
    found = sparsification.kappa(
        np.full(6, 0.25 * scale), clip_norm=1.0, drop_rate=1 - keep / 6, deviation=spread_of(probability, 6)
    )
    return 1 / found.value - 1


@lem3_3.inequality(
    {
        "probability": Range(1e-6, 0.999),
        "scale": Range(0.01, 100, log=True),
        "keep": Range(1, 6, integer=True),
    },
    wrong=_at_most_one_slack,
)
def _without_condition_slack(probability: float, scale: float, keep: int) -> float:
    """range for every P

    The upper end with P arbitrary: min(x max(1, s), sqrt x) / P.
    """
    found = sparsification.kappa(
        np.full(6, 0.25 * scale), clip_norm=1.0, drop_rate=1 - keep / 6, deviation=spread_of(probability, 6)
    )
    return min(found.value / found.lower, found.upper / found.value) - 1


rem2 = new_row(
    id="rs.rem2",
    source=Source("rs", "Remark 2"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
    printed=printed_kappa,
    calculators=(sparsification.kappa,),
)


@rem2.equal(("equal entries, P = 1/2",), ("equal entries, P = 1/4",), tolerance=1e-14, kind=Kind.COUNTEREXAMPLE)
def _(name: str) -> Sides:
    """1 / kappa = 1 under the condition, 1/2 without"""
    return 1 / calculated(name).value, lambda: 1 / exact_kappa_of(name), 1 / printed_kappa(0.75)
