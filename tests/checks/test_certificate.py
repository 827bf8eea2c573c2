"""Certificates: right bounds pass, wrong constants and bad proofs fail, and nothing needs PEPit but the check itself."""

import importlib.util
import math
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("PEPit")

from dptheory import convergence
from dptheory.checks import CertificateCheck, Kind, WorstCase, _certificate, worst_case
from dptheory.claims.rs import _worst_case

CASES = ((0.5, 1.0, 0.5, 1), (0.3, 2.0, 0.0, 2))


def _bound(learning_rate: float, smoothness: float, rate: float, steps: int) -> float:
    return convergence.noisy_sgd_bound(
        objective_gap=1.0,
        learning_rate=learning_rate,
        steps=steps,
        smoothness=smoothness,
        drop_rate=rate,
        sampling="fixed",
    ).value


def _check(**changes: Any) -> CertificateCheck:
    arguments: dict[str, Any] = {
        "name": "few steps",
        "cases": lambda: CASES,
        "problem": _worst_case.masked_run,
        "bound": _bound,
        "wrong": lambda *case: 1.01 * _bound(*case),
    }
    return CertificateCheck(**(arguments | changes))


def test_worst_case_of_gradient_descent() -> None:
    """f(x_n) - f* <= G R^2 / (4 n + 2) for convex f and step 1/G is tight (Drori and Teboulle): an outside reference."""
    from PEPit import PEP
    from PEPit.functions import SmoothConvexFunction

    problem = PEP()
    function = problem.declare_function(SmoothConvexFunction, L=3.0)
    best = function.stationary_point()
    point = problem.set_initial_point()
    problem.set_initial_condition((point - best) ** 2 <= 1)
    for _ in range(2):
        point = point - function.gradient(point) / 3.0
    problem.set_performance_metric(function(point) - function(best))
    found = worst_case(problem)
    assert found.dual == pytest.approx(3.0 / 10, rel=1e-5)
    assert found.primal == pytest.approx(3.0 / 10, rel=1e-5)
    assert found.gap < 1e-6
    assert found.defect < 1e-5


def test_a_right_bound_passes_and_leaves_its_gap() -> None:
    found = _check().run(budget=60, seed=0)
    assert found.passed, found.detail
    assert found.kind is Kind.CERTIFICATE
    assert found.samples == len(CASES)
    assert found.claimed == pytest.approx(found.observed, rel=1e-4)
    assert "duality gap" in found.detail and "rejects wrong" in found.detail


@pytest.mark.parametrize("factor", [0.99, 1.01, 0.0, -1.0, math.inf, math.nan])
def test_a_wrong_constant_fails(factor: float) -> None:
    found = _check(bound=lambda *case: factor * _bound(*case)).run(budget=60, seed=0)
    assert not found.passed
    assert "fails at" in found.detail


def test_a_check_that_rejects_nothing_fails() -> None:
    found = _check(wrong=_bound).run(budget=60, seed=0)
    assert not found.passed
    assert "does not reject" in found.detail


def test_looseness_lets_a_bound_lie_above_but_never_below() -> None:
    def half_more(*case: float) -> float:
        return 1.5 * _bound(*case)

    assert not _check(bound=half_more).run(60, 0).passed
    assert not _check(bound=half_more, looseness=0.4).run(60, 0).passed
    assert _check(bound=half_more, looseness=0.6, wrong=lambda *case: 1.7 * _bound(*case)).run(60, 0).passed
    valid = _check(bound=half_more, looseness=math.inf, wrong=lambda *case: 0.9 * _bound(*case))
    assert valid.run(60, 0).passed
    below = _check(bound=lambda *case: 0.9 * _bound(*case), looseness=math.inf, wrong=lambda *case: 0.8 * _bound(*case))
    assert not below.run(60, 0).passed


def test_a_spent_budget_is_a_failure() -> None:
    found = _check().run(budget=0, seed=0)
    assert not found.passed
    assert "budget spent after 1 of 2" in found.detail


@pytest.mark.parametrize(
    ("found", "says"),
    [(WorstCase(1.0, 1.2, 0.0), "duality gap"), (WorstCase(1.2, 1.2, 0.1), "no proof")],
)
def test_a_bad_proof_is_a_failure(found: WorstCase, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_certificate, "worst_case", lambda problem: found)
    evidence = _check(bound=lambda *case: 1.2, wrong=lambda *case: 2.0).run(budget=60, seed=0)
    assert not evidence.passed
    assert says in evidence.detail


def test_without_pepit_the_check_fails_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = _check().run(budget=60, seed=0)
    assert not found.passed
    assert found.samples == 0
    assert "PEPit is missing" in found.detail


def test_the_ledger_loads_without_pepit() -> None:
    code = "import sys; from dptheory import claims; claims.all_claims(); print('PEPit' in sys.modules, 'cvxpy' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "False"]
