"""Checks: means and certificates."""

import dataclasses
import importlib.util
import math
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from multiprocessing import get_context
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dptheory import convergence
from dptheory.checks import (
    CertificateCheck,
    EqualityCheck,
    Evidence,
    Kind,
    LawCheck,
    MeanCheck,
    Moments,
    Range,
    SearchCheck,
    WorstCase,
    _certificate,
    estimate,
    worst_case,
)
from dptheory.checks._mean import chunk_size, moments
from dptheory.claims.rs import _worst_case
from tests.refused import refused

# --- The checking engine: it passes what is right, fails what is wrong, and does not depend on the workers ---


def _squares(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    return np.square(rng.standard_normal(n))


def _broken(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    return np.full(n, math.nan)


def _die(rng: np.random.Generator, n: int, sides: int) -> NDArray[np.intp]:
    return rng.integers(0, sides, n)


def _parabola(x: float, n: float) -> float:
    return (x - 0.7) ** 2 + 1.0 / n


def _dip(x: float, n: float) -> float:
    """Negative in a narrow valley only."""
    return (x - 0.7) ** 2 + 1.0 / n - 0.02


def _undefined(x: float, n: float) -> float:
    return math.nan


BOX = {"x": Range(0, 1), "n": Range(1, 100, integer=True, log=True)}
GOOD_MEAN = MeanCheck("mean", _squares, lambda: 1.0, row_bytes=8)

GOOD_LAW = LawCheck(
    "law", partial(_die, sides=6), lambda: np.full(6, 1 / 6), lambda: np.array([0.2, *[0.16] * 5]), row_bytes=8
)

GOOD_SEARCH = SearchCheck("search", BOX, slack=_parabola, wrong=_dip)


def _same(first: Evidence, second: Evidence) -> bool:
    return dataclasses.replace(first, seconds=0.0) == dataclasses.replace(second, seconds=0.0)


def test_moments_merge_like_one_stream() -> None:
    values = np.random.default_rng(0).gamma(2.0, size=10_001) + 1e6
    merged = Moments()
    for part in np.array_split(values, 7):
        merged = merged.merge(moments(part))
    assert merged.count == values.size
    assert merged.mean == pytest.approx(values.mean(), rel=1e-14)
    assert merged.standard_error == pytest.approx(values.std(ddof=1) / math.sqrt(values.size), rel=1e-9)
    assert Moments().merge(Moments()) == Moments()
    assert Moments().standard_error == math.inf


def test_chunks_stay_small() -> None:
    for row_bytes in (8, 8 * 10**6, 10**10):
        assert chunk_size(row_bytes) == 1 or chunk_size(row_bytes) * row_bytes <= 64 * 2**20


def test_a_right_mean_passes_and_reports_its_reach() -> None:
    found = GOOD_MEAN.run(budget=600, seed=0)
    assert found.passed, found.detail
    assert found.kind is Kind.MONTE_CARLO
    assert found.detectable is not None and found.detectable <= 0.01
    assert found.standard_error is not None and abs(found.observed - 1.0) <= 5 * found.standard_error  # type: ignore[operator]


@pytest.mark.parametrize("claimed", [1.02, 0.98, 2.0])
def test_a_wrong_mean_fails(claimed: float) -> None:
    found = MeanCheck("mean", _squares, lambda: claimed, row_bytes=8).run(budget=600, seed=0)
    assert not found.passed
    assert "off by more than 5 standard errors" in found.detail


def test_too_few_samples_fail_and_say_what_they_could_have_seen() -> None:
    found = MeanCheck("mean", _squares, lambda: 1.0, row_bytes=8, resolution=1e-6).run(budget=0.01, seed=0)
    assert not found.passed and not found.finished
    assert "budget spent: could have detected" in found.detail


def test_a_printed_value_that_is_right_cannot_be_rejected() -> None:
    found = MeanCheck("mean", _squares, lambda: 1.0, row_bytes=8, wrong=lambda: 1.0005).run(budget=600, seed=0)
    assert not found.passed and found.finished
    assert "does not reject" in found.detail


def test_draws_that_are_not_finite_are_an_error() -> None:
    with pytest.raises(FloatingPointError, match="nan"):
        estimate(_broken, lambda m: True, budget=1, seed=0, row_bytes=8)


def _constant(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    return np.ones(n)


def _matrix(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    return rng.standard_normal((n, 50))


def test_two_draws_are_not_evidence() -> None:
    check = MeanCheck("mean", _nearly_one, lambda: 1.0, row_bytes=16 * 2**20)
    found = check.run(budget=0, seed=0)
    assert not found.passed and not found.finished and "fewer than 2000 draws" in found.detail


def _nearly_one(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    return 1 + 1e-4 * rng.standard_normal(n)


def test_a_wrong_value_that_is_not_a_number_is_not_rejected() -> None:
    found = MeanCheck("mean", _squares, lambda: 1.0, row_bytes=8, wrong=lambda: math.nan).run(20, 0)
    assert not found.passed and "does not reject the wrong value nan" in found.detail


def test_perturbed_values_are_judged_on_fresh_draws() -> None:
    first, again = (MeanCheck(name, _squares, lambda: 1.0, row_bytes=8).run(20, 0) for name in ("a", "a, fresh draws"))
    offsets = [float(part.split(" SE)")[0]) for part in first.detail.split("(")[1:]]
    judged = [(value - again.observed) / again.standard_error for value in (1 - first.detectable, 1 + first.detectable)]  # type: ignore[operator]
    assert offsets == pytest.approx(judged, rel=0.02), "the second stream is the one that judges"


def test_constant_draws() -> None:
    assert MeanCheck("mean", _constant, lambda: 1.0, row_bytes=8, wrong=lambda: 1.1).run(20, 0).passed
    assert not MeanCheck("mean", _constant, lambda: 1.1, row_bytes=8, wrong=lambda: 1.0).run(20, 0).passed


@pytest.mark.parametrize("claimed", [0.0, math.nan, math.inf])
def test_claims_without_a_scale_are_an_error(claimed: float) -> None:
    with refused("claimed", "0"):
        MeanCheck("mean", _squares, lambda: claimed, row_bytes=8).run(20, 0)


def test_sampler_of_the_wrong_shape_is_an_error() -> None:
    with refused("sampler"):
        MeanCheck("mean", _matrix, lambda: 1.0, row_bytes=8).run(20, 0)
    with refused("sampler"):
        dataclasses.replace(GOOD_LAW, sampler=partial(_die, sides=7)).run(20, 0)


@pytest.mark.parametrize("law", [np.array([1.0]), np.array([0.5, 0.6]), np.array([0.0, 1.0])])
def test_laws_must_be_laws(law: NDArray[np.float64]) -> None:
    with refused("wrong"):
        dataclasses.replace(GOOD_LAW, wrong=lambda: law).run(20, 0)


def test_laws_with_many_outcomes() -> None:
    many = LawCheck(
        "many",
        partial(_die, sides=400),
        lambda: np.full(400, 1 / 400),
        lambda: np.array([2 / 401, *[1 / 401] * 399]),
        row_bytes=8,
        resolution=0.03,
    )
    assert many.run(30, 0).passed


def test_seeds_matter_and_repeat() -> None:
    first, second, other = (GOOD_MEAN.run(20, seed) for seed in (1, 1, 2))
    assert _same(first, second)
    assert first.observed != other.observed
    twin = dataclasses.replace(GOOD_MEAN, name="twin").run(20, 1)
    assert twin.observed != first.observed, "checks under one seed draw different numbers"


def test_any_executor_gives_the_same_result() -> None:
    checks: list[MeanCheck | LawCheck | SearchCheck] = [GOOD_MEAN, GOOD_LAW, GOOD_SEARCH]
    alone = [check.run(60, seed=5) for check in checks]
    assert all(evidence.passed for evidence in alone), [evidence.detail for evidence in alone]
    pools: list[Executor] = [
        ThreadPoolExecutor(1),
        ThreadPoolExecutor(3),
        ProcessPoolExecutor(2, mp_context=get_context("spawn")),
    ]
    for pool in pools:
        with pool:
            for check, evidence in zip(checks, alone, strict=True):
                assert _same(check.run(60, seed=5, executor=pool), evidence), check.name


def test_a_loaded_die_is_noticed() -> None:
    loaded = dataclasses.replace(GOOD_LAW, sampler=partial(_die, sides=5))
    refused = loaded.run(20, 0)
    assert "chi-square" in refused.detail and not refused.passed and refused.finished
    blunt = dataclasses.replace(GOOD_LAW, wrong=GOOD_LAW.law)
    assert "does not reject the wrong law" in blunt.run(20, 0).detail
    hasty = dataclasses.replace(GOOD_LAW, resolution=1e-5)
    assert "budget spent" in hasty.run(0.01, 0).detail and not hasty.run(0.01, 0).finished


def test_search_finds_the_valley() -> None:
    violated = dataclasses.replace(GOOD_SEARCH, slack=_dip).run(60, 0)
    assert not violated.passed
    assert violated.observed == pytest.approx(-0.01, abs=1e-4), "Nelder-Mead ends in the valley"
    assert "violated at x=0." in violated.detail and "n=100" in violated.detail


def test_search_must_refute_the_wrong_statement() -> None:
    found = dataclasses.replace(GOOD_SEARCH, wrong=_parabola).run(60, 0)
    assert not found.passed and "does not refute" in found.detail


def test_search_out_of_time_fails() -> None:
    found = GOOD_SEARCH.run(1e-9, 0)
    assert not found.passed and not found.finished and "budget spent" in found.detail


def test_search_reports_nan_as_an_error() -> None:
    with pytest.raises(FloatingPointError, match="slack is NaN"):
        dataclasses.replace(GOOD_SEARCH, slack=_undefined).run(10, 0)


def _exact(
    truth: Callable[[int], object] = lambda n: Fraction(sum(range(n + 1))),
    statement: Callable[[int], object] = lambda n: Fraction(n * (n + 1), 2),
    wrong: Callable[[int], object] = lambda n: Fraction(n * n, 2),
    **changes: object,
) -> EqualityCheck:
    base = EqualityCheck("exact", lambda: [(n,) for n in range(1, 5)], lambda n: (statement(n), truth(n), wrong(n)))
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def test_exact_check_passes_and_shows_the_wrong_value() -> None:
    found = _exact().run(10, 0)
    assert found.passed and found.samples == 4
    assert "rejects wrong 1/2 at (1)" in found.detail


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"statement": lambda n: Fraction(n * (n + 1), 2) + (n == 4)}, "fails at (4)"),
        ({"wrong": lambda n: Fraction(n * (n + 1), 2)}, "does not reject the wrong statement"),
        ({"statement": lambda n: math.nan}, "fails at"),
        ({"statement": lambda n: True}, "fails at"),
        ({"tolerance": 1.0}, "does not reject the wrong statement"),
        ({"wrong": lambda n: math.nan}, "does not reject the wrong statement"),
        ({"truth": lambda n: np.bool_(True), "statement": lambda n: np.bool_(n < 4)}, "fails at (4), off by 1"),
    ],
)
def test_exact_check_fails(changes: dict[str, object], says: str) -> None:
    found = _exact(**changes).run(10, 0)
    assert not found.passed
    assert says in found.detail


def test_exact_check_without_cases_is_an_error() -> None:
    with refused("cases"):
        _exact(cases=list).run(10, 0)


def test_exact_check_out_of_time_fails() -> None:
    found = _exact().run(0, 0)
    assert not found.passed and not found.finished and "budget spent after 1 of 4 cases" in found.detail


def test_search_keeps_to_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that moves with the evaluations alone: 20 of them fit, and each of the eight runs may make one more."""
    now = 0.0

    def slow(x: float, n: float) -> float:
        nonlocal now
        now += 0.02
        return 1.0

    monkeypatch.setattr("dptheory.checks._search.time", SimpleNamespace(time=lambda: now, perf_counter=lambda: now))
    found = SearchCheck("slow", BOX, slack=slow, wrong=slow).run(0.4, 0)
    assert not found.passed and "budget spent" in found.detail
    assert 20 <= found.samples <= 28


# Certificates: right bounds pass, wrong constants and bad proofs fail, and nothing needs PEPit but the check itself


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
