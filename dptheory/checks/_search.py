"""Adversarial search for a violation of an inequality: uniform points, Hypothesis with ``target``, then scipy.optimize."""

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from dptheory.checks._evidence import Evidence, Kind, failing, stream

_SHARDS = 4
_DRAWN = 60
_EXAMPLES = 60
_POLISHED = 3
_POLISHING = 80
_CLEARLY = 1e-4  # a slack that far beyond the tolerance refutes a wrong statement: no need to look for more
# Hypothesis also tries the constants that it finds in the modules loaded, which differ from process to process. No constant
# lies in this range, so a seed gives one search everywhere; up to 24 bits it draws uniformly.
_GRID = 2**24
_OFFSET = 2**80


@dataclass(frozen=True)
class Range:
    """Where one parameter of a search lies; ``log`` searches on a logarithmic scale.

    Args:
        low, high: the ends, low < high; both > 0 where ``log``.
        integer: whole numbers only.
        log: whether the search is on a logarithmic scale.

    Example: half-way from 1 to 100 on a logarithmic scale.
        >>> from dptheory.checks import Range
        >>> round(Range(1.0, 100.0, log=True).value(0.5), 6)
        10.0
    """

    low: float
    high: float
    integer: bool = False
    log: bool = False

    def value(self, share: float) -> float | int:
        """The parameter at ``share`` in [0, 1] of the range.

        Args:
            share: in [0, 1].

        Returns:
            The parameter, whole where the range is one of whole numbers.

        Example: half-way from 1 to 100 on a logarithmic scale.
            >>> from dptheory.checks import Range
            >>> round(Range(1.0, 100.0, log=True).value(0.5), 6)
            10.0
        """
        span = self.high - self.low
        point = self.low * math.pow(self.high / self.low, share) if self.log else self.low + share * span
        point = min(max(point, self.low), self.high)
        return round(point) if self.integer else point


Slack = Callable[..., float]
"""``slack(**parameters)`` is >= 0 where the inequality holds; scale-free, so that it can be read as a relative gap."""


@dataclass(frozen=True)
class SearchCheck:
    """``slack >= -tolerance`` over the whole box, as far as a search can tell; ``wrong`` must be found violated.

    The corners of the box first, then four runs, each of uniform points and of a seeded Hypothesis run that minimises the slack
    by ``target``; Nelder-Mead goes on from the worst points. The search for a violation of ``wrong`` ends with the first clear
    one. The evidence's ``observed`` is the smallest slack found, ``detail`` says where; ``claimed`` is 0.

    Args:
        name: unique within the claim.
        box: the parameters and their ranges.
        slack: see :data:`Slack`; a function of a module, so that processes can run it.
        wrong: the slack of a wrong statement (the printed one, or this one strengthened); the same search must refute it.
        tolerance: slack that rounding may cost.

    Example: x^2 >= 2 x - 1 on the whole box, where x^2 >= 2 x fails.
        >>> import math
        >>> from dptheory.checks import Range, SearchCheck
        >>> SearchCheck(
        ...     "square",
        ...     box={"x": Range(-2.0, 2.0)},
        ...     slack=lambda x: x * x - 2 * x + 1,
        ...     wrong=lambda x: x * x - 2 * x,
        ... ).run(math.inf, 0).passed
        True
    """

    name: str
    box: Mapping[str, Range]
    slack: Slack
    wrong: Slack
    tolerance: float = 1e-12

    @property
    def kind(self) -> Kind:
        return Kind.SEARCH

    def run(self, budget: float, seed: int, executor: Executor | None = None) -> Evidence:
        start = time.perf_counter()
        own = stream(seed, self.name)
        worst, where, tried, done = smallest_slack(self.slack, self.box, budget, own, executor)
        left = budget - (time.perf_counter() - start)
        enough = -(self.tolerance + _CLEARLY)
        refuted, wrong_where, more, over = smallest_slack(self.wrong, self.box, left, own, executor, enough=enough)
        problems = failing(
            (worst >= -self.tolerance, f"violated at {_show(where)}"),
            (done and over, "budget spent before the search was over"),
            (refuted < -self.tolerance, "does not refute the wrong statement"),
        )
        return Evidence(
            check=self.name,
            kind=self.kind,
            passed=not problems,
            claimed=0.0,
            observed=worst,
            detectable=self.tolerance,
            samples=tried + more,
            seconds=time.perf_counter() - start,
            seed=seed,
            detail="; ".join(problems)
            or f"smallest slack at {_show(where)}; refutes wrong by {refuted:.3g} at {_show(wrong_where)}",
            finished=done and over,
        )


def smallest_slack(
    slack: Slack,
    box: Mapping[str, Range],
    budget: float,
    seed: int,
    executor: Executor | None = None,
    *,
    enough: float = -math.inf,
) -> tuple[float, dict[str, float | int], int, bool]:
    """Smallest slack found, where, after how many evaluations, and whether the search ran to its end within the budget.

    A slack below ``enough`` ends the search.

    Args:
        slack: see :data:`Slack`.
        box: the parameters and their ranges.
        budget: seconds; inf sets no limit.
        seed: of the search.
        executor: where the work is spread; None runs it here.
        enough: a slack below it ends the search.

    Returns:
        The slack, the point, the number of evaluations, and whether the search ran to its end.

    Example: the least value of (x - 1)^2 + 3 is found at 1.
        >>> import math
        >>> from dptheory.checks import Range, smallest_slack
        >>> value, where, _, finished = smallest_slack(lambda x: (x - 1) ** 2 + 3, {"x": Range(-2.0, 2.0)}, math.inf, 0)
        >>> round(value, 4), round(where["x"], 2), finished
        (3.0, 1.0, True)
    """
    deadline = time.time() + budget  # a clock that all processes share
    spread = map if executor is None else executor.map
    seeds = [int(s.generate_state(1)[0]) for s in np.random.SeedSequence(seed).spawn(_SHARDS)]
    found: list[tuple[float, tuple[float, ...]]] = []
    tried = 0
    shards = ([slack] * _SHARDS, [dict(box)] * _SHARDS, seeds, [deadline] * _SHARDS, [enough] * _SHARDS)
    for points, evaluations in spread(_shard, *shards):
        found.extend(points)
        tried += evaluations
        if min(found)[0] < enough:
            break
    value, shares = min(found)
    return value, _point(box, shares), tried, time.time() <= deadline


class _SearchIsOver(Exception):
    """Ends a Hypothesis run as a failure does, and Nelder-Mead."""


def _point(box: Mapping[str, Range], shares: tuple[float, ...]) -> dict[str, float | int]:
    return {name: one.value(share) for (name, one), share in zip(box.items(), shares, strict=True)}


def _shard(
    slack: Slack, box: dict[str, Range], seed: int, deadline: float, enough: float
) -> tuple[list[tuple[float, tuple[float, ...]]], int]:
    """The worst points of one run and what Nelder-Mead made of them; it stops past either end.

    Hypothesis costs more than most slacks: as many points are drawn without it.
    """
    import hypothesis
    from hypothesis import strategies as st
    from scipy.optimize import minimize

    found: list[tuple[float, tuple[float, ...]]] = []

    def is_over() -> bool:
        return bool(found) and (found[-1][0] < enough or time.time() > deadline)

    def evaluate(shares: tuple[float, ...]) -> float:
        if is_over():
            raise _SearchIsOver
        value = float(slack(**_point(box, shares)))
        if math.isnan(value):
            raise FloatingPointError(f"slack is NaN at {_show(_point(box, shares))}")
        found.append((value, shares))
        return value

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=_EXAMPLES,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.target],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.tuples(*[st.integers(_OFFSET, _OFFSET + _GRID)] * len(box)))
    def explore(steps: tuple[int, ...]) -> None:
        value = evaluate(tuple((step - _OFFSET) / _GRID for step in steps))
        hypothesis.target(-max(min(value, 1e300), -1e300))

    with contextlib.suppress(_SearchIsOver):
        for corner in itertools.product((0.0, 1.0), repeat=len(box)):
            evaluate(corner)
        for point in np.random.default_rng(seed).random((_DRAWN, len(box))).tolist():
            evaluate(tuple(point))
        explore()
        for _, shares in sorted(found)[:_POLISHED]:
            minimize(
                lambda x: evaluate(tuple(np.clip(x, 0.0, 1.0).tolist())),
                np.asarray(shares),
                method="Nelder-Mead",
                bounds=[(0.0, 1.0)] * len(box),
                options={"maxfev": _POLISHING},
            )
    return sorted(found)[:_POLISHED], len(found)


def _show(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value:.6g}" for name, value in point.items())
