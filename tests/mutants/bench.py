"""Runs the checks of a claim once as they are, then again for every mutant, without doing twice what no mutant can change.

A check has two sides: the statement, which calls the calculators, and the truth (enumeration, draws, a solver), which should
not. The first run keeps the truths and notes which part of the check called which calculator, and where in its domain. For a
mutant only those parts of the statement are computed again; a truth that calls the mutated calculator is computed again as well,
so that a circular check notices nothing.
"""

import functools
import hashlib
import importlib
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from dptheory import checks
from dptheory.checks import (
    CertificateCheck,
    Check,
    EqualityCheck,
    Evidence,
    LawCheck,
    MeanCheck,
    SearchCheck,
    _certificate,
)
from dptheory.checks._equality import evaluated, relative_difference
from dptheory.checks._law import _CountsOfChunk
from dptheory.checks._mean import _MomentsOfChunk
from tests.mutants.moves import Handler, Move, moved, original, same, swapped
from tests.mutants.regions import Region, bound, regions
from tests.mutants.surface import Leaf, Target

BUDGET, SEED = 600.0, 0
"""Seconds, far more than a check takes: none may fail because the machine is busy."""
_REPLAYED = 30

Hits = dict[Target, frozenset[str]]
"""Which calculators a part of a check called, and in which regions."""


@dataclass(frozen=True)
class Mutant:
    """One field of one calculator's result, moved in one region."""

    target: Target
    leaf: Leaf
    region: Region
    move: Move

    def __str__(self) -> str:
        return f"{self.leaf} {self.move.name} where {self.region.name}"


@dataclass(frozen=True)
class Part:
    """A piece of a check that can be judged alone.

    ``hits`` are the calls of both sides together, ``both_hits`` those that statement and truth share (a circle).
    ``fails(target)`` computes again what the target can change.
    """

    hits: Hits
    both_hits: Hits
    fails: Callable[[Target], bool]


@dataclass(frozen=True)
class Recorded:
    """A check or a test, how it went unchanged (a check also with its evidence), and its parts."""

    name: str
    passed: bool
    detail: str
    parts: tuple[Part, ...]
    evidence: Evidence | None = None

    def calling(self, target: Target, region: str | None = None) -> list[Part]:
        """The parts that call the calculator, in one region or anywhere."""
        found = [part for part in self.parts if target in part.hits]
        return found if region is None else [part for part in found if region in part.hits[target]]

    def refuses(self, target: Target, region: str | None = None) -> bool:
        """Whether some part that calls the calculator fails while a mutant of it is in force."""
        return any(_breaks(part, target) for part in self.calling(target, region))

    def is_circular(self, target: Target) -> bool:
        """Whether every part that calls the calculator calls it for its truth, too."""
        calling = self.calling(target)
        return bool(calling) and all(target in part.both_hits for part in calling)


def _breaks(part: Part, target: Target) -> bool:
    try:
        return part.fails(target)
    except MutationError:
        raise
    except Exception:
        return True  # a check that breaks is a check that fails


class MutationError(Exception):
    """The mutant itself is at fault."""


class Recorder:
    """Notes which targets are called, and where."""

    def __init__(self, targets: Iterable[Target]) -> None:
        self._regions = {target: regions(target) for target in targets}
        self._found: defaultdict[Target, set[str]] = defaultdict(set)

    def handlers(self) -> dict[Target, Callable[..., Any]]:
        return {target: functools.partial(self._call, target, original(target)) for target in self._regions}

    def _call(self, target: Target, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = function(*args, **kwargs)
        arguments = bound(target, args, kwargs, _signature(target))
        found = self._found[target]
        found.update(r.name for r in self._regions[target] if r.name not in found and r.holds(arguments, result))
        return result

    def take(self) -> Hits:
        """What was called since the last time."""
        hits = {target: frozenset(names) for target, names in self._found.items()}
        self._found.clear()
        return hits


@functools.cache
def _signature(target: Target) -> Any:
    return inspect.signature(original(target))


@dataclass
class _Side:
    """Calls of one side of a check: arguments, value and hits of each."""

    function: Callable[..., Any]
    recorder: Recorder
    keeps: bool = True
    rows: list[tuple[tuple[Any, ...], dict[str, Any], Any, Hits]] = field(default_factory=list)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.recorder.take()
        value = self.function(*args, **kwargs)
        self.rows.append((*((args, kwargs, value) if self.keeps else ((), {}, None)), self.recorder.take()))
        return value


def record(check: Check, targets: Iterable[Target]) -> Recorded:
    """Run a check as it is and keep what mutants will need."""
    clear_caches("dptheory.claims")
    recorder = Recorder(targets)
    with swapped(recorder.handlers()):
        if isinstance(check, EqualityCheck):
            return _record_equality(check, recorder)
        if isinstance(check, SearchCheck):
            return _record_search(check, recorder)
        if isinstance(check, CertificateCheck):
            return _record_certificate(check, recorder)
        if isinstance(check, MeanCheck | LawCheck):
            return _record_draws(check, recorder)
    raise TypeError(f"no way to record a {type(check).__name__}")


def _record_equality(check: EqualityCheck, recorder: Recorder) -> Recorded:
    """A truth that is given as a function of nothing is the check's other side; any other is computed with the statement."""
    cases = _Side(lambda: list(check.cases()), recorder)
    truths: list[_Side] = []

    def compare(*case: Any) -> Any:
        stated, truth, wrong = check.compare(*case)
        truths.append(_Side(functools.partial(evaluated, truth), recorder))
        return stated, truths[-1], wrong

    sides = _Side(compare, recorder)
    ran = replace(check, cases=cases, compare=sides).run(BUDGET, SEED)
    in_cases = cases.rows[0][3]

    def part(i: int) -> Part:
        case, _, _, hits = sides.rows[i]
        _, _, value, truth_hits = truths[i].rows[0]

        def fails(target: Target) -> bool:
            stated, truth, _ = check.compare(*case)
            fresh = value if callable(truth) and target not in truth_hits else evaluated(truth)
            return relative_difference(evaluated(stated), fresh) > check.tolerance

        return Part(_union(hits, truth_hits, in_cases), _common(hits, truth_hits), fails)

    return _recorded(check, ran, map(part, range(len(sides.rows))))


def _record_search(check: SearchCheck, recorder: Recorder) -> Recorded:
    slack = _Side(check.slack, recorder)
    ran = replace(check, slack=slack).run(BUDGET, SEED)
    tight = sorted(slack.rows, key=lambda row: row[2])
    chosen = tight[:_REPLAYED] + tight[_REPLAYED :: max(1, len(tight) // _REPLAYED)]

    def part(row: tuple[Any, ...]) -> Part:
        def fails(target: Target) -> bool:
            return bool(check.slack(**row[1]) < -check.tolerance)

        return Part(row[3], {}, fails)

    return _recorded(check, ran, map(part, chosen))


def _record_certificate(check: CertificateCheck, recorder: Recorder) -> Recorded:
    problem, bounds = _Side(check.problem, recorder), _Side(check.bound, recorder)
    solved: dict[Any, Any] = {}
    solve = checks.worst_case

    def keep(asked: Any) -> Any:
        solved[len(solved)] = solve(asked)
        return solved[len(solved) - 1]

    with mock.patch.object(_certificate, "worst_case", keep):
        ran = replace(check, problem=problem, bound=bounds).run(BUDGET, SEED)

    def part(i: int) -> Part:
        case, _, _, truth_hits = problem.rows[i]

        def fails(target: Target) -> bool:
            found = solve(check.problem(*case)) if target in truth_hits else solved[i]
            return check.outside(check.bound(*case), found) > check.tolerance

        return Part(_union(bounds.rows[i][3], truth_hits), _common(bounds.rows[i][3], truth_hits), fails)

    return _recorded(check, ran, map(part, range(len(bounds.rows))))


def _record_draws(check: MeanCheck | LawCheck, recorder: Recorder) -> Recorded:
    sampler = _Side(check.sampler, recorder, keeps=False)
    claimed = "claimed" if isinstance(check, MeanCheck) else "law"
    stated = _Side(getattr(check, claimed), recorder)
    drawn: dict[Any, Any] = {}
    with _drawing_once(drawn):
        ran = replace(check, sampler=sampler, **{claimed: stated}).run(BUDGET, SEED)
    truth_hits = _union(*(row[3] for row in sampler.rows))

    def fails(target: Target) -> bool:
        with _drawing_once({} if target in truth_hits else drawn):
            found = check.run(BUDGET, SEED)
        return found.finished and not found.passed

    hits = _union(stated.rows[0][3], truth_hits)
    return _recorded(check, ran, [Part(hits, _common(stated.rows[0][3], truth_hits), fails)])


@contextmanager
def _drawing_once(drawn: dict[Any, Any]) -> Iterator[None]:
    """Each chunk of draws is made once: its seed says which one it is."""

    def remembered(kind: type) -> Callable[..., Any]:
        draw = kind.__call__  # type: ignore[operator]

        def call(self: Any, seed: np.random.SeedSequence, size: int) -> Any:
            key = (kind.__name__, seed.entropy, seed.spawn_key, size)
            if key not in drawn:
                drawn[key] = draw(self, seed, size)
            return drawn[key]

        return call

    with ExitStack() as stack:
        for kind in (_MomentsOfChunk, _CountsOfChunk):
            stack.enter_context(mock.patch.object(kind, "__call__", remembered(kind)))
        yield


def _recorded(check: Any, ran: Evidence, parts: Iterable[Part]) -> Recorded:
    return Recorded(check.name, ran.passed and ran.finished, ran.detail, tuple(parts), ran)


def record_test(name: str, targets: Iterable[Target]) -> Recorded:
    """A named test, ``folder.test_file::test_function``, with all of its parameters."""
    module, function = name.split("::")
    test = getattr(importlib.import_module(f"tests.{module}"), function)
    recorder = Recorder(targets)
    parts = []
    for kwargs in _parametrized(test):
        with swapped(recorder.handlers()):
            problem = _raises(test, kwargs)
        hits = recorder.take()
        if problem is not None:
            return Recorded(name, False, problem, ())
        parts.append(Part(hits, {}, functools.partial(_test_fails, test, kwargs)))
    return Recorded(name, True, "", tuple(parts))


def _test_fails(test: Callable[..., Any], kwargs: dict[str, Any], target: Target) -> bool:
    return _raises(test, kwargs) is not None


def _raises(test: Callable[..., Any], kwargs: dict[str, Any]) -> str | None:
    try:
        test(**kwargs)
    except MutationError:
        raise
    except (Exception, pytest.fail.Exception) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _parametrized(test: Any) -> list[dict[str, Any]]:
    """The arguments of every case of a parametrized test."""
    found: list[dict[str, Any]] = [{}]
    for mark in getattr(test, "pytestmark", []):
        if mark.name != "parametrize":
            continue
        names = [n.strip() for n in mark.args[0].split(",")] if isinstance(mark.args[0], str) else list(mark.args[0])
        rows = [row if len(names) > 1 else (row,) for row in mark.args[1]]
        found = [{**one, **dict(zip(names, row, strict=True))} for one in found for row in rows]
    return found


def _union(*hits: Hits) -> Hits:
    found: dict[Target, frozenset[str]] = {}
    for one in hits:
        for target, names in one.items():
            found[target] = found.get(target, frozenset()) | names
    return found


def _common(first: Hits, second: Hits) -> Hits:
    return {target: names & second[target] for target, names in first.items() if target in second}


class Memory:
    """The right results of one calculator, each computed once."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._function = original(target)
        self._signature = _signature(target)
        self._kept: dict[Any, tuple[Any, Any]] = {}

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """The arguments by name, and the result."""
        try:
            key = (_key(args), _key(tuple(sorted(kwargs.items()))))
        except _NoKey:
            return self._fresh(args, kwargs)
        if key not in self._kept:
            self._kept[key] = self._fresh(args, kwargs)
        return self._kept[key]

    def _fresh(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        result = self._function(*args, **kwargs)
        return bound(self._target, args, kwargs, self._signature), result


class _NoKey(Exception):
    """An argument that cannot tell whether it is the same again, such as a random generator."""


_PLAIN = (float, int, str, bool, type(None))


def _key(value: Any) -> Any:
    if type(value) in _PLAIN:
        return type(value), value
    if value is None or isinstance(value, int | float | str | np.generic):
        return type(value), value
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.dtype.str, value.shape, hashlib.blake2b(np.ascontiguousarray(value).tobytes()).digest()
    if isinstance(value, list | tuple):
        return type(value), tuple(map(_key, value))
    if is_dataclass(value) and not isinstance(value, type):
        return type(value), tuple(_key(v) for v in vars(value).values())
    raise _NoKey


@contextmanager
def in_force(mutant: Mutant, memory: Memory, changed: list[bool]) -> Iterator[None]:
    """The calculator is wrong while the context is open; ``changed`` learns whether a result differed."""

    def handler(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        arguments, result = memory(args, kwargs)
        try:
            if not mutant.region.holds(arguments, result):
                return result
            other = moved(result, mutant.leaf.path, mutant.move.change)
            if not changed and not same(result, other):
                changed.append(True)
        except Exception as error:
            raise MutationError(f"{mutant.target.name}, {mutant}: {error!r}") from error
        return other

    with replaced(mutant.target, handler):
        yield


@contextmanager
def replaced(target: Target, handler: Handler) -> Iterator[None]:
    """``handler`` in place of the calculator, with nothing remembered from before or for afterwards."""
    clear_caches("dptheory.claims")
    try:
        with swapped({target: handler}):
            yield
    finally:
        clear_caches("dptheory.claims")


def clear_caches(package: str) -> None:
    """Forget what functions of these modules remember of a calculator."""
    for remembering in _remembering(package, len(sys.modules)):
        remembering.cache_clear()


@functools.cache
def _remembering(package: str, modules: int) -> tuple[Any, ...]:
    """Of the ``modules`` that are loaded by now, those of the package."""
    assert modules == len(sys.modules)
    names = [name for name in sys.modules if name.startswith(package) and name != "dptheory.claims._registry"]
    values = (value for name in names for value in vars(sys.modules[name]).values())
    return tuple(value for value in values if isinstance(value, functools._lru_cache_wrapper))
