"""Conjectures: refuting them, and the files that hold them."""

import functools
import itertools
import math
import operator
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dptheory.checks import (
    Conjecture,
    ConjectureError,
    Kind,
    Range,
    Refutation,
    WorstCase,
    read_conjectures,
    refute,
    refute_file,
)
from dptheory.checks import _refute as module
from dptheory.checks._refute import shrink
from dptheory.errors import ArgumentError
from tests.refused import refused

# Refuting: what is false is refuted with a simple counterexample, what is true is not, and the stated power is there


EXAMPLES = Path(__file__).parents[2] / "proofs" / "refute"

HOW = {
    "random_freeze": Kind.SEARCH,
    "random_sparsification": Kind.SEARCH,
    "layer_freezing": Kind.EXACT,
    "gradient_embedding": Kind.CERTIFICATE,
    "index_pruning": Kind.MONTE_CARLO,
}


def test_every_example_has_its_test() -> None:
    assert {file.stem for file in EXAMPLES.glob("*.py")} == set(HOW)


@functools.cache
def _outcomes(name: str) -> dict[str, Refutation]:
    return {key: refute(one, budget=math.inf) for key, one in read_conjectures(EXAMPLES / f"{name}.py").items()}


@pytest.mark.parametrize("name", HOW)
def test_printed_formulas_are_refuted_and_their_corrections_are_not(name: str) -> None:
    found = _outcomes(name)
    assert {key: one.refuted for key, one in found.items()} == {"printed": True, "corrected": False}
    assert all(one.kind is HOW[name] and one.finished for one in found.values())
    corrected = found["corrected"]
    assert corrected.detectable <= 0.01 or corrected.relation == "<="
    assert found["printed"].error > 10 * corrected.detectable or corrected.relation == "<="


@pytest.mark.parametrize("name", HOW)
def test_the_tutorial_says_what_comes_out(name: str) -> None:
    """The counterexample as a call, and what would have been seen, in the row of the file."""
    page = (EXAMPLES.parent / "refute.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if f"](refute/{name}.py)" in line)
    found = _outcomes(name)
    assert f"`{found['printed'].call}` is {found['printed'].claimed:.6g}, the truth is" in row
    shown = row.split("the truth is ")[1].split(" |")[0]
    drawn = found["printed"].standard_error
    truth = float(shown.removeprefix("about "))
    assert truth == pytest.approx(found["printed"].observed, rel=1e-5 if drawn is None else 5e-3)
    assert f"{found['corrected'].detectable:.2g}" in row.split(" | ")[-1]


NATURAL = Range(0, 20, integer=True)


def _odd_sum(n: int) -> int:
    return sum(range(1, 2 * n, 2))


def test_enumeration_gives_the_first_counterexample() -> None:
    found = refute(Conjecture(claimed=lambda n: 2**n, truth=lambda n: n**2, relation=">=", ranges={"n": NATURAL}))
    assert (found.refuted, found.kind, found.call) == (True, Kind.EXACT, "claimed(n=0)")
    found = refute(Conjecture(claimed=lambda n: 2**n, truth=lambda n: n**2, relation="<=", ranges={"n": NATURAL}))
    assert (found.call, found.claimed, found.observed, found.points) == ("claimed(n=3)", 8.0, 9.0, 4)
    assert found.error == pytest.approx(1 / 9)


def test_enumeration_says_what_it_would_have_seen() -> None:
    found = refute(Conjecture(claimed=lambda n: n**2, truth=_odd_sum, ranges={"n": NATURAL}))
    assert (found.refuted, found.kind, found.points, found.finished) == (False, Kind.EXACT, 21, True)
    assert found.detectable == 1e-9
    assert found.summary.startswith("it holds at all 21 points of the ranges; a relative error of 1e-09")
    for off, refuted in ((0.9e-9, False), (1.1e-9, True)):
        wrong = Conjecture(claimed=lambda n, off=off: n**2 * (1 + off), truth=_odd_sum, ranges={"n": NATURAL})
        assert refute(wrong).refuted is refuted


@pytest.mark.parametrize("relation", ["<=", ">="])
def test_a_bound_says_how_much_tighter_it_would_have_been_refuted(relation: str) -> None:
    """The bound is loosest by 25 % at n = 1 and by 10 % at n = 2: tighter by more than that it is refuted, by less it is not."""
    sign = 1 if relation == "<=" else -1
    spare = {1: 0.25, 2: 0.1, 3: 0.5}

    def refuted(tighter: float) -> Any:
        return refute(
            Conjecture(
                claimed=lambda n: 10.0 * (1 - sign * tighter),
                truth=lambda n: 10.0 * (1 - sign * spare[n]),
                relation=relation,
                ranges={"n": [1, 2, 3]},
            )
        )

    found = refuted(0.0)
    assert not found.refuted and found.detectable == pytest.approx(0.1) and found.call == "claimed(n=2)"
    assert found.error == pytest.approx(-0.1)
    assert not refuted(0.099).refuted
    assert refuted(0.101).refuted


def test_search_finds_a_narrow_violation_and_shrinks_it() -> None:
    box = {"x": Range(-3.0, 7.0), "k": Range(1, 10**6, integer=True), "word": ["short", "long"]}
    true = Conjecture(claimed=lambda x, k, word: x * x + k, truth=lambda x, k, word: k + x**2, ranges=box)
    found = refute(true)
    assert (found.refuted, found.kind, found.finished) == (False, Kind.SEARCH, True)
    assert found.points > 4 * 60, "those drawn in four runs, each counted once"
    false = Conjecture(
        claimed=lambda x, k, word: x * x + k + (word == "long") * max(0, k - 900), truth=true.truth, ranges=box
    )
    found = refute(false)
    assert found.refuted and found.parameters["word"] == "long" and found.parameters["k"] == 901
    assert found.call == f"claimed(x={found.parameters['x']}, k=901, word='long')"
    assert len(repr(found.parameters["x"])) <= 4


def test_search_sees_a_bound_fail_in_a_corner_of_the_box() -> None:
    box = {"x": Range(1e-3, 1e3, log=True), "y": Range(1e-3, 1e3, log=True)}
    claim = Conjecture(
        claimed=lambda x, y: x + y, truth=lambda x, y: 2 * math.sqrt(x * y), relation="<=", ranges=box, tolerance=1e-12
    )
    found = refute(claim)
    assert not found.refuted and found.detectable < 1e-6, "it is tight where x = y"
    tighter = Conjecture(claimed=lambda x, y: (x + y) * 0.999, truth=claim.truth, relation="<=", ranges=box)
    assert refute(tighter).refuted


def test_where_leaves_points_out() -> None:
    claim = Conjecture(
        claimed=lambda d, k: 1 / (d - k), truth=lambda d, k: 1 / (d - k), ranges={"d": range(5), "k": range(5)},
        where=lambda d, k: k < d,
    )  # fmt: skip
    assert refute(claim).points == 10
    for ranges in ({"d": range(5)}, {"d": Range(0.0, 1.0)}, {"d": Range(0, 99, integer=True)}):
        nowhere: dict[str, Any] = {"claimed": lambda d: d, "ranges": ranges, "where": lambda d: False}
        for truth in ({"truth": lambda d: d}, {"sampler": lambda rng, n, d: rng.random(n)}):
            with pytest.raises(ConjectureError, match=r"where .*\d+"):
                refute(Conjecture(**nowhere, **truth))


def test_rounding_near_zero_is_no_counterexample_where_it_is_allowed_for() -> None:
    claim: dict[str, Any] = {"claimed": lambda n: 0.0, "truth": lambda n: 1e-17 * n, "ranges": {"n": range(5)}}
    assert refute(Conjecture(**claim)).refuted
    assert not refute(Conjecture(**claim, absolute_tolerance=1e-15)).refuted


NUMBERS: list[tuple[Any, Any, str, bool]] = [
    (Fraction(1, 3), Fraction(1, 3), "==", False),
    (Fraction(1, 3), 1 / 3, "==", False),
    (True, True, "==", False),
    (True, False, "==", True),
    (np.float64(2), np.array(2.0), "==", False),
    (math.inf, math.inf, "==", False),
    (math.inf, 5.0, "==", True),
    (math.inf, 5.0, "<=", False),
    (5.0, math.inf, "<=", True),
    (-math.inf, 5.0, ">=", False),
    (0.0, 0.0, "<=", False),
    (0.0, 1e-30, "<=", True),
    (-1.0, -2.0, "<=", False),
    (-2.0, -1.0, "<=", True),
    (-2.0, -1.0, ">=", False),
]


def test_numbers_of_all_kinds() -> None:
    wrong = []
    for claimed, truth, relation, refuted in NUMBERS:
        one = Conjecture(
            claimed=lambda n, c=claimed: c, truth=lambda n, t=truth: t, relation=relation, ranges={"n": [1]}
        )
        found = refute(one)
        if found.refuted is not refuted or math.isnan(found.error) or not found.summary:
            wrong.append((claimed, truth, relation, found))
    assert wrong == []


def test_a_worst_case_counts_with_its_own_error() -> None:
    def claim(gap: float) -> Conjecture:
        return Conjecture(
            claimed=lambda n: 1.0, truth=lambda n: WorstCase(1.001 - gap, 1.001, 0.0), relation="<=", ranges={"n": [1]}
        )

    sure = refute(claim(1e-6))
    assert sure.refuted and sure.kind is Kind.CERTIFICATE
    assert not refute(claim(0.01)).refuted


@pytest.mark.parametrize("where", [700, 3333, 5000])
def test_one_false_point_among_thousands_is_found(where: int) -> None:
    """Enumeration does not stop at a number of points, but where the budget does."""
    found = refute(
        Conjecture(
            claimed=lambda n: n + (n == where), truth=lambda n: n, ranges={"n": Range(1, 5000, integer=True)}
        )
    )  # fmt: skip
    assert found.refuted and found.parameters == {"n": where}


def test_a_sparse_violation_among_pairs_is_found() -> None:
    def claimed(n: int, k: int) -> int:
        return n + k + (n % 2 == 1 and n > 51 and k == n // 3)

    found = refute(
        Conjecture(
            claimed=claimed,
            truth=lambda n, k: n + k,
            ranges={"n": Range(1, 100, integer=True), "k": Range(1, 100, integer=True)},
        )
    )
    assert found.refuted and found.parameters == {"n": 53, "k": 17}


def test_a_domain_that_only_where_describes_is_gone_through() -> None:
    """No point that the search draws is admitted; the enumeration reaches all of them."""
    found = refute(
        Conjecture(
            claimed=lambda n, k: n, truth=lambda n, k: n,
            ranges={"n": Range(0, 300, integer=True), "k": Range(0, 300, integer=True)},
            where=lambda n, k: n % 97 == 13 and k % 89 == 31,
        )
    )  # fmt: skip
    assert (found.refuted, found.kind, found.points) == (False, Kind.EXACT, 3 * 4)
    assert (found.domain, found.looked_at) == (301**2, 301**2)


def test_a_true_claim_is_gone_through_to_its_end_and_each_point_counts_once() -> None:
    asked: list[int] = []

    def truth(n: int) -> int:
        asked.append(n)
        return n

    found = refute(
        Conjecture(
            claimed=lambda n: n, truth=truth, ranges={"n": Range(-2, 5998, integer=True)}
        )
    )  # fmt: skip
    assert (found.refuted, found.kind, found.finished) == (False, Kind.EXACT, True)
    assert found.points == found.samples == found.domain == found.looked_at == len(asked) == len(set(asked)) == 6001


def test_what_was_searched_is_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A domain too large for the budget: the points tried, and how many of the domain were looked at."""
    clock = itertools.count()  # a second for each question, so that no load counts
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    asked: set[tuple[int, int]] = set()
    calls: list[int] = []

    def truth(n: int, k: int) -> int:
        asked.add((n, k))
        calls.append(n)
        return n + k

    found = refute(
        Conjecture(
            claimed=lambda n, k: n + k, truth=truth, where=lambda n, k: k % 2 == 0,
            ranges={"n": Range(0, 10**30, integer=True), "k": Range(0, 10**6, integer=True)},
        ),
        budget=2000.0,
    )  # fmt: skip
    assert (found.refuted, found.kind, found.finished) == (False, Kind.SEARCH, False)
    assert found.points == len(asked) == len(calls) and found.domain == (10**30 + 1) * (10**6 + 1)
    assert found.points < found.looked_at < 3 * found.points
    assert str(found.looked_at) in found.summary and str(found.domain) in found.summary
    assert {(n, k) for n in range(30) for k in range(0, 30, 2) if n + k < 30} <= asked


def test_points_of_a_search_over_real_numbers_count_once() -> None:
    asked: list[float] = []

    def truth(x: float) -> float:
        asked.append(x)
        return x

    found = refute(
        Conjecture(claimed=lambda x: x, truth=truth, ranges={"x": Range(0.0, 1.0)})
    )  # fmt: skip
    assert (found.kind, found.domain) == (Kind.SEARCH, None)
    assert found.points == found.looked_at == len(asked) == len(set(asked))


def test_nothing_admitted_in_an_immense_domain_ends() -> None:
    with pytest.raises(ConjectureError, match=r"where .*\d+"):
        refute(
            Conjecture(
                claimed=lambda n: n, truth=lambda n: n, ranges={"n": Range(0, 10**30, integer=True)},
                where=lambda n: False,
            ),
            budget=0.3,
        )  # fmt: skip


# --- draws --------------------------------------------------------------------------------------------------------------
def _uniform(rng: np.random.Generator, count: int, top: float) -> Any:
    return top * rng.random(count)


def _mean_claim(factor: float, relation: str = "==", **more: Any) -> Conjecture:
    return Conjecture(
        claimed=lambda top: factor * top / 2,
        sampler=_uniform,
        relation=relation,
        ranges={"top": Range(1.0, 3.0)},
        **more,
    )


def test_a_true_mean_is_not_refuted_and_an_error_of_the_stated_size_is_seen() -> None:
    found = refute(_mean_claim(1.0))
    assert (found.refuted, found.kind, found.points, found.finished) == (False, Kind.MONTE_CARLO, 12, True)
    assert 0.005 < found.detectable <= 0.01
    for seed in range(5):
        assert refute(_mean_claim(1 + found.detectable), seed=seed).refuted
        assert refute(_mean_claim(1 - found.detectable), seed=seed).refuted
        assert not refute(_mean_claim(1.0), seed=seed).refuted


def test_draws_do_not_say_that_a_bound_stays_away_from_the_truth() -> None:
    """Of this wrong bound, .3 % too low, it was said that it stays above the truth by .0098 of itself or more."""
    found = refute(_mean_claim(0.997, "<="))
    assert not found.refuted and "stays" not in found.summary
    assert f"{found.claimed:.6g}" in found.summary and f"{found.observed:.6g}" in found.summary


def test_a_point_whose_draws_take_long_gets_the_time_that_others_left() -> None:
    def slow(rng: np.random.Generator, count: int, top: float) -> Any:
        time.sleep(count * 2e-6 if top == 1 else 0.0)
        return _uniform(rng, count, top)

    many = {"top": [1, *range(2, 13)]}  # of the time the first has a 24th at first: .25 s, and needs .7
    found = refute(Conjecture(claimed=lambda top: top / 2, sampler=slow, ranges=many), budget=6.0)
    assert found.finished and found.detectable <= 0.01


def test_what_would_have_been_seen_is_that_of_the_point_that_sees_least() -> None:
    found = refute(
        Conjecture(
            claimed=lambda spread: 1.0,
            sampler=lambda rng, count, spread: 1 + spread * (rng.random(count) - 0.5),
            ranges={"spread": [1e-3, 1.0, 1e-2]},
        )
    )
    assert not found.refuted and 0.003 < found.detectable <= 0.01


@pytest.mark.parametrize(("relation", "sign"), [("<=", 1), (">=", -1)])
def test_a_bound_on_a_mean(relation: str, sign: int) -> None:
    loose = refute(_mean_claim(1 + sign * 0.2, relation))
    assert not loose.refuted and loose.finished
    assert 0.16 < loose.detectable < 0.27, "spare 0.2 / 1.2 or 0.2 / 0.8, and the reach of the draws"
    assert refute(_mean_claim((1 + sign * 0.2) * (1 - sign * loose.detectable), relation)).refuted
    assert refute(_mean_claim(1 - sign * 0.02, relation)).refuted


def test_a_counterexample_from_draws_is_shrunk() -> None:
    found = refute(
        Conjecture(
            claimed=lambda size: 0.5 * (1 + 0.3 * (size >= 40)),
            sampler=lambda rng, count, size: rng.random(count),
            ranges={"size": Range(1, 500, integer=True)},
        )
    )
    assert found.refuted and found.parameters == {"size": 40}
    assert found.standard_error is not None and abs(found.observed - 0.5) < 5 * found.standard_error


def test_too_few_draws_refute_nothing_and_are_no_end() -> None:
    found = refute(_mean_claim(1.001, resolution=1e-7), budget=0.05)
    assert (found.refuted, found.finished) == (False, False)
    assert found.detectable > 1e-4 and not found.finished


def test_a_difference_has_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One set of draws beyond 5 standard errors does not refute."""
    judged: list[str] = []
    real = module.mean_at

    def once(conjecture: Conjecture, point: dict[str, Any], budget: float, seed: int, part: str) -> Any:
        judged.append(part)
        return real(_mean_claim(1.5) if part == "first" else conjecture, point, budget, seed, part)

    monkeypatch.setattr(module, "mean_at", once)
    assert not refute(_mean_claim(1.0)).refuted
    assert judged == ["first", "again"] * 12


def test_constant_draws_and_rounding() -> None:
    def constant(rng: np.random.Generator, count: int, n: int) -> Any:
        return np.full(count, 0.1)

    assert not refute(Conjecture(claimed=lambda n: 0.1, sampler=constant, ranges={"n": [1]})).refuted
    assert refute(Conjecture(claimed=lambda n: 0.1000001, sampler=constant, ranges={"n": [1]})).refuted


def _law(weight: float) -> Conjecture:
    return Conjecture(
        claimed=lambda sides: np.array([weight, *[(1 - weight) / (sides - 1)] * (sides - 1)]),
        outcomes=lambda rng, count, sides: rng.integers(0, sides, count),
        ranges={"sides": [4]},
        resolution=0.02,
    )


def test_laws() -> None:
    true = refute(_law(0.25))
    assert not true.refuted and true.finished and true.detectable <= 0.02
    shift = true.detectable * math.sqrt(3) / 4  # of p = 1/4: sqrt(sum (p' - p)^2 / p) = detectable
    for share, refuted in ((0.3, False), (0.75, True), (1.2, True)):
        assert refute(_law(0.25 + share * shift)).refuted is refuted
    false = refute(_law(0.25 + 1.2 * shift))
    assert false.call == "claimed(sides=4)[0]"
    assert false.claimed > false.observed == pytest.approx(0.25, abs=0.01)


# --- what goes wrong ----------------------------------------------------------------------------------------------------
def _bad(rng: np.random.Generator, count: int, n: int) -> Any:
    return [np.zeros(count + 1), np.full(count, math.nan), np.full(count, "a")][n]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"truth": lambda n: 1 / 0}, r"test_refute.py, line \d+: ZeroDivisionError.* truth\(n=0\)"),
        ({"truth": lambda n: math.nan}, r"test_refute.py, line \d+: truth\(n=0\).* nan"),
        ({"truth": lambda n: None}, r"truth\(n=0\).* None"),
        ({"truth": lambda n: np.zeros(2)}, r"truth\(n=0\).* array"),
        ({"truth": lambda m: 1}, r"test_refute.py, line \d+: TypeError: .*'n'"),
        ({"truth": lambda n: exit(3)}, r"test_refute.py, line \d+: SystemExit: 3"),
        ({"sampler": _bad, "ranges": {"n": [0]}}, r"_bad\(n=0\).* shape"),
        ({"sampler": _bad, "ranges": {"n": [1]}}, r"_bad\(n=1\).* \[nan"),
        ({"sampler": _bad, "ranges": {"n": [2]}}, r"_bad\(n=2\) .*\d+"),
        ({"outcomes": _bad, "claimed": lambda n: [0.5, 0.5]}, r"_bad\(n=0\) .*\d+ .*0..1"),
        ({"outcomes": _bad}, r"claimed\(n=0\) "),
        ({"sampler": _bad, "claimed": lambda n: math.inf}, r"claimed\(n=0\) "),
    ],
)
def test_errors_name_file_line_and_call(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConjectureError, match=says):
        refute(Conjecture(**{"claimed": lambda n: 1.0, "ranges": {"n": [0]}} | given))


@pytest.mark.parametrize(
    ("name", "value"), [("conjecture", 3), ("budget", 0.0), ("budget", math.nan), ("seed", -1), ("seed", 10**19)]
)
def test_bad_arguments(name: str, value: Any) -> None:
    with refused(name):
        refute(**{"conjecture": _mean_claim(1.0)} | {name: value})


def test_the_seed_decides() -> None:
    first, again, other = (refute(_mean_claim(1.0), seed=seed) for seed in (1, 1, 2))
    assert (first.observed, first.call) == (again.observed, again.call) != (other.observed, other.call)


# --- shrinking ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("where", "start", "refutes", "expected"),
    [
        (Range(0, 10**9, integer=True), 987_654_321, lambda x: x >= 77, 77),
        (Range(-5, 5, integer=True), 5, lambda x: True, -5),
        (Range(0.0, 10.0), 7.123456, lambda x: x > 3, 7.0),
        (Range(0.0, 10.0), 7.123456, lambda x: x > 0.4, 1.0),
        (Range(0.05, 10.0), 0.071234, lambda x: x < 0.08, 0.05),
        (["a", "b", "c"], "c", lambda x: x != "a", "b"),
    ],
)
def test_shrinking(where: Any, start: Any, refutes: Callable[[Any], bool], expected: Any) -> None:
    found = shrink({"x": start, "y": 1}, {"x": where, "y": [1]}, lambda point: refutes(point["x"]))
    assert found == {"x": expected, "y": 1}


def test_shrinking_ends() -> None:
    asked = []
    shrink(
        {"x": 10**12}, {"x": Range(0, 10**12, integer=True)}, lambda p: bool(asked.append(p["x"])) or p["x"] > 10**11
    )
    assert len(asked) <= 300
    assert not any(map(operator.eq, asked, asked[1:]))


# --- What a conjecture may be ---


VALID: dict[str, Any] = {"claimed": lambda n: n, "truth": lambda n: n, "ranges": {"n": Range(1, 5, integer=True)}}


def test_bad_arguments_are_named() -> None:
    bad: list[tuple[str, Any]] = [
        *(("claimed", value) for value in (3, None, "f")),
        *(("truth", value) for value in (3, "f", None)),
        *(("where", value) for value in (3, "f")),
        *(("relation", value) for value in ("=", "<", None, 3)),
        *(("tolerance", value) for value in (-1e-9, 1.0, math.nan, "0")),
        *(("absolute_tolerance", value) for value in (-1.0, math.inf, math.nan)),
        *(("resolution", value) for value in (0.0, 1.0, math.nan)),
        *(("row_bytes", value) for value in (0, 2**31, 1.5, True)),
        *(("ranges", value) for value in ({}, None, [1], {"n": []}, {"n": "ab"}, {"n": 3}, {"2": [1]}, {3: [1]})),
        *(("ranges", {"n": Range(*ends)}) for ends in ((1, 1), (2, 1), (0, math.inf), (math.nan, 1))),
        ("ranges", {"n": Range(0, 1, log=True)}),
        ("ranges", {"n": Range(0.5, 3, integer=True)}),
    ]
    wrong = []
    for name, value in bad:
        try:
            Conjecture(**VALID | {name: value})
        except ArgumentError as error:
            if error.argument == name:
                continue
            wrong.append((name, value, str(error)))
        else:
            wrong.append((name, value, "accepted"))
    assert wrong == []


def test_one_truth_alone() -> None:
    for more in ("sampler", "outcomes"):
        with refused("truth", more):
            Conjecture(**VALID | {more: lambda rng, count, n: n})
    with refused("relation", "'=='"):
        Conjecture(**VALID | {"truth": None, "outcomes": lambda rng, count, n: n, "relation": "<="})


def test_calls_are_python() -> None:
    def formula(n: int, word: str = "", scale: float = 1.0) -> float:
        return n * scale

    for claimed in (formula, functools.partial(formula, scale=2.0), functools.lru_cache(formula)):
        claim = Conjecture(**VALID | {"claimed": claimed})
        assert claim.call({"n": 2, "word": "a b"}) == "formula(n=2, word='a b')"
    with refused("parameters", "3"):
        claim.call(3)  # type: ignore[arg-type]


# --- Files of conjectures: what they define, and one line for what is wrong with them ---


GOOD = """
from dataclasses import dataclass
from dptheory.checks import Conjecture

@dataclass
class Row:
    size: "int"

def truth(n):
    return Row(n).size

second = Conjecture(claimed=lambda n: n, truth=truth, ranges={"n": range(3)})
first = Conjecture(claimed=lambda n: n, truth=truth, ranges={"n": range(3)})
_hidden = first
number = 3
"""


def test_conjectures_in_their_order_and_nothing_left_behind(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(GOOD)
    for path in (file, str(file)):
        assert list(read_conjectures(path)) == ["second", "first"]
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\n", r"mine.py.*Conjecture\("),
        ("", "mine.py.*Conjecture"),
        ("x = 1\ny = (\n", r"mine.py, line 2: .*'\('"),
        ("x = 1\n  y = 2\n", "mine.py, line 2: "),
        ("x = 1\nx / 0\n", "mine.py, line 2: ZeroDivisionError"),
        ("def f():\n    return 1 / 0\n\nf()\n", "mine.py, line 2: ZeroDivisionError"),
        ("import nothing_of_this_name\n", "mine.py, line 1: ModuleNotFoundError"),
        ("import sys\nsys.exit(0)\n", "mine.py, line 2: SystemExit: 0"),
        ("from dptheory.checks import Conjecture\n\nc = Conjecture(claimed=3, ranges={})\n", "line 3: ArgumentError: claimed"),
        ("raise ValueError('two\\nlines')\n", "mine.py, line 1: ValueError: two lines$"),
        (b"x = '\xff'\n", "mine.py.*: .*(utf-8|UTF-8)"),
        (b"x = 1\0\n", "mine.py.*: source code (string )?cannot contain null bytes"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_one_line(tmp_path: Path, text: str | bytes, says: str) -> None:
    file = tmp_path / "mine.py"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ConjectureError, match=says) as error:
        read_conjectures(file)
    assert "\n" not in str(error.value)


def test_outcomes_by_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(GOOD)
    assert list(refute_file(file)) == ["second", "first"] and list(refute_file(file, names=["first"])) == ["first"]
    assert not any(one.refuted for one in refute_file(file, seed=3).values())
    bad: list[tuple[str, Any]] = [("names", value) for value in ("first", [3], ["_hidden"], ["number"])]
    bad += [("budget", 0.0), ("budget", "1s"), ("seed", -1), ("path", None)]
    for name, value in bad:
        with refused(name):
            refute_file(**{"path": file} | {name: value})


def test_paths() -> None:
    bad: tuple[Any, ...] = (None, 3, "")
    for path in bad:
        with refused("path"):
            read_conjectures(path)
    with pytest.raises(OSError):
        read_conjectures("no-such-file.py")
