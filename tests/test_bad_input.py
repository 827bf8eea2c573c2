"""Every public callable of ``dptheory`` answers bad input with the right value or with an error that names the argument.

The callables are found by walking the modules, the valid calls are those of ``tests/calls``: a public callable without one
fails. Every argument of every valid call is replaced by each bad value of its kind, see ``calls.bad_values``.
"""

import inspect
import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import dptheory
from dptheory import _validate, claims
from tests.calls import Calls, descent, embedding, index, ledger, privacy, pruning
from tests.calls.judgement import Here, limits, outcome
from tests.calls.number_kinds import narrow_numbers_change_nothing, nothing_is_calculated_with_as_given
from tests.calls.ranges import beyond
from tests.calls.refusals import ALONE, TOGETHER, WHOLE
from tests.calls.walk import callables, failures, modules
from tests.every import every
from tests.refused import refused

CALLS: Calls = {
    **privacy.CALLS,
    **index.CALLS,
    **pruning.CALLS,
    **descent.CALLS,
    **embedding.CALLS,
    **ledger.CALLS,
}

_NOT_PUBLIC = re.compile(
    r"dptheory\.("
    r"cli|files"  # the command line and what it writes with: tests/test_bad_options.py
    r"|claims\..*|checks"  # statements of the ledger and their checks; the engine runs what it is given
    r")"
)
_TOLD = {f"dptheory.claims.Watcher.{name}" for name in ("started", "checking", "checked")}
"""What the library calls, not its users."""
_SHARED = {  # lower levels that claims name as calculators; not offered to users, who reach them through others
    "dptheory.privacy.index_sets.composed",
    "dptheory.privacy.conversion",
}
_WHOLE = {f"dptheory.claims.{name}" for name in ("check_claims", "write_pages")}
"""They go through the whole ledger where their arguments ask for it: what they refuse is tested at the end."""
_ALL = callables([one for one in modules(dptheory) if not _NOT_PUBLIC.fullmatch(one.__name__)], _SHARED | _TOLD)
CALLABLES = {name: value for name, value in _ALL.items() if name not in _WHOLE}


@pytest.fixture(autouse=True)
def _limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("dptheory.privacy.referee._compare.Worker", Here)
    with limits():
        yield


def test_every_public_callable_has_a_valid_call() -> None:
    assert set(CALLABLES) - set(CALLS) == set(), "write a valid call in tests/calls/"
    assert set(CALLS) - set(CALLABLES) == set(), "valid calls of what is not public"


@every(sorted(CALLABLES.keys() & CALLS.keys()))
def test_the_valid_calls_name_every_argument(name: str) -> None:
    named = {argument for one in CALLS[name] for argument in one.made()}
    assert named == set(inspect.signature(CALLABLES[name]).parameters)


@pytest.mark.parametrize("name", sorted(CALLABLES.keys() & CALLS.keys()))
def test_valid_calls_are_accepted(name: str) -> None:
    for one in CALLS[name]:
        found = outcome(CALLABLES[name], one.made())
        assert found.error is None, one.made()
        if inspect.signature(CALLABLES[name]).return_annotation is float:
            assert type(found.result) is float, one.made()  # not NumPy's, whose repr differs


@pytest.mark.parametrize("name", sorted(CALLABLES.keys() & CALLS.keys()))
def test_bad_input(name: str) -> None:
    found = failures(CALLABLES[name], CALLS[name])
    assert not found, "\n".join([f"{len(found)} answers", *found[:40]])


@every(sorted(CALLABLES.keys() & CALLS.keys()))
def test_a_number_next_to_its_documented_range_is_refused(name: str) -> None:
    assert [told for one in CALLS[name] for told in beyond(CALLABLES[name], one, CALLABLES)] == []


@every([(name, argument) for name in ALONE for argument in ALONE[name]])
def test_values_of_one_argument_are_refused(case: tuple[str, str]) -> None:
    name, argument = case
    function = CALLABLES[f"dptheory.{name}"]
    valid = next(made for one in CALLS[f"dptheory.{name}"] if argument in (made := one.made()))
    for value in ALONE[name][argument]:
        with refused(argument):
            function(**valid | {argument: value})


@every(range(len(TOGETHER) + len(WHOLE)))
def test_values_that_do_not_go_together_are_refused(number: int) -> None:
    name, given, argument, *shown = (*TOGETHER, *WHOLE)[number]
    valid = CALLS[f"dptheory.{name}"][0].made() if number < len(TOGETHER) else {}
    with refused(argument, *shown):
        CALLABLES[f"dptheory.{name}"](**valid | given)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(("budget", value) for value in (0.0, -1.0, math.nan, "1", None, True, [1.0])),
        *(("seed", value) for value in (-1, 0.5, 10**19, "0", None, True, math.nan)),
        *(("patterns", value) for value in (["nothing.*"], [1], 3, math.nan)),
        *(("directory", value) for value in (3, None)),
    ],
    ids=str,
)
def test_the_whole_ledger_is_not_begun_with_bad_input(argument: str, value: object, tmp_path: Path) -> None:
    run = {"patterns": ["gip.eq18"], "budget": 10.0, "seed": 0}
    for function, valid in (
        (claims.check_claims, run),
        (claims.write_pages, {"directory": tmp_path}),
    ):
        if argument in valid:
            with refused(argument):
                function(**(valid | {argument: value}))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [np.ma.array(26, mask=True), np.ma.array(26), np.timedelta64(26)])
def test_no_number_hides_in_a_mask_or_a_time(value: object) -> None:
    with refused("keep"):
        _validate.integer("keep", value, 1)  # type: ignore[arg-type]
    with refused("rate"):
        _validate.real("rate", value, 0.0)


@pytest.mark.parametrize("value", [b"ab", {3, 1}, {3: 1}, np.ma.array([3, 1])])
def test_a_row_of_integers_has_an_order_and_no_mask(value: object) -> None:
    with refused("layer_sizes"):
        _validate.integers("layer_sizes", value, 1, 1000)


# --- a number is a number: NumPy's narrow ones, arrays without dimensions and numbers of other libraries change no result ---


@every(sorted(CALLABLES.keys() & CALLS.keys()))
def test_numbers_of_any_kind_give_what_plain_ones_give(name: str) -> None:
    for one in CALLS[name]:
        narrow_numbers_change_nothing(CALLABLES[name], one)


@every(sorted(CALLABLES.keys() & CALLS.keys()))
def test_nothing_is_calculated_with_a_number_as_given(name: str) -> None:
    for one in CALLS[name]:
        nothing_is_calculated_with_as_given(CALLABLES[name], one)
