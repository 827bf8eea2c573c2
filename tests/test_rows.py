"""A claim's file: what the decorators of its row make of the functions below them."""

import math
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from dptheory.claims import Claim
from dptheory.claims._row import Kind, Range, Row, Sides, Source, Verdict
from tests.refused import refused


def _row(printed: Callable[..., Any] | None = None) -> Row:
    return Row(Claim("gip.x", Source("gip", "Lemma 1"), Verdict.FALSE, printed=printed))


def _uniform(rng: np.random.Generator, n: int, scale: float) -> Any:
    return scale * rng.random(n)


def _die(rng: np.random.Generator, n: int) -> Any:
    return rng.integers(0, 2, n)


def test_the_printed_formula_is_what_has_to_be_rejected() -> None:
    row = _row(printed=lambda n: 2.0 * n)

    @row.equal((3,), (4,), tolerance=1e-9, kind=Kind.COUNTEREXAMPLE)
    def _(n: int) -> tuple[float, float]:
        """n is
        n

        A remark."""
        return float(n), float(n)

    (evidence,) = row.claim.check()
    assert (evidence.check, evidence.kind, evidence.passed) == ("n is n", Kind.COUNTEREXAMPLE, True)
    assert (evidence.claimed, evidence.observed, evidence.samples) == (3.0, 3.0, 2)
    assert evidence.detail == "rejects wrong 6 at (3)"


@pytest.mark.parametrize(
    ("sides", "passed", "says"),
    [
        ((1.0, 1.0, 2.0), True, "rejects wrong 2 at (1)"),
        ((np.float64(1.0), lambda: np.array(1.0), lambda: 2.0), True, "rejects wrong 2 at (1)"),
        ((1.0, 1.0, 1.0), False, "does not reject the wrong statement"),
        ((1.0, 1.0, None), False, "does not reject the wrong statement"),
        ((1.0, lambda: 2.0, 1.0), False, "fails at (1), off by 0.5"),
        ((1.0, 1.0), False, "ValueError: gip.x has no printed formula"),
    ],
)
def test_sides(sides: Any, passed: bool, says: str) -> None:
    row = _row()
    row.equal((1,), name="sides")(lambda n: sides)
    (evidence,) = row.claim.check()
    assert evidence.passed is passed and evidence.detail.startswith(says)


def test_the_function_runs_once_per_case_and_lazy_sides_after_it() -> None:
    """Wrong values up to the first that is rejected, here that of 1: the one of 0 is right."""
    calls: list[str] = []

    def compare(n: int) -> Sides:
        calls.append(f"compare {n}")
        return n, lambda: (calls.append(f"truth {n}"), n)[1], lambda: (calls.append(f"wrong {n}"), n * n + n)[1]

    row = _row()
    row.equal(lambda: [(i,) for i in range(3)], name="once")(compare)
    (evidence,) = row.claim.check()
    assert evidence.passed and evidence.detail == "rejects wrong 2 at (1)" and evidence.samples == 3
    assert calls == ["compare 0", "truth 0", "wrong 0", "compare 1", "truth 1", "wrong 1", "compare 2", "truth 2"]


def test_mean_law_inequality_and_certificate() -> None:
    row = _row(printed=lambda smoothness, distance: smoothness / 4 * distance**2)

    @row.mean(partial(_uniform, scale=2.0), wrong=lambda: 1.1, row_bytes=8)
    def _() -> float:
        """mean"""
        return 1.0

    @row.law(_die, wrong=lambda: np.array([0.4, 0.6]), row_bytes=8)
    def _() -> Any:
        """law"""
        return np.array([0.5, 0.5])

    def certified(smoothness: float, distance: float) -> float:
        """certificate"""
        return smoothness / 2 * distance**2

    row.certificate((1.0, 1.0), problem=print)(certified)
    row.inequality({"x": Range(0, 1)}, wrong=math.cos, name="slack")(math.sin)
    names = [check.name for check in row.claim.checks]
    assert names == ["mean", "law", "certificate", "slack"]
    mean, law, certificate, slack = row.claim.checks
    assert mean.run(60.0, 0).passed and law.run(60.0, 0).passed
    assert certificate.bound(1.0, 1.0) == 0.5 and certificate.wrong(1.0, 1.0) == 0.25  # type: ignore[attr-defined]
    assert slack.slack is math.sin and pickle.loads(pickle.dumps(mean.sampler)).keywords == {"scale": 2.0}  # type: ignore[attr-defined]


def test_what_a_file_may_not_do() -> None:
    row = _row()

    def _(x: float) -> float:
        """no name of its own"""
        return x

    with pytest.raises(ValueError, match="a slack must have a name of its own"):
        row.inequality({"x": Range(0, 1)}, wrong=math.cos)(_)
    with pytest.raises(ValueError, match="a check needs a name"):
        row.equal((1,))(lambda n: (n, n, 0))
    with pytest.raises(ValueError, match="a check needs a name"):
        row.mean(_uniform, row_bytes=8)(partial(float, "1"))
    with refused("cases"):
        row.equal((1,), lambda: [(2,)], name="two ways")(lambda n: (n, n, 0))
    assert row.claim.checks == ()
    with pytest.raises(RuntimeError, match=r"gip\.x was read before the check 'late' was added"):
        row.equal((1,), name="late")(lambda n: (n, n, 0))
