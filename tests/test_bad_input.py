"""Every public callable of ``dptheory`` answers bad input with the right value or with an error that names the argument.

The callables are found by walking the modules, the valid calls are those of ``tests/calls``: a public callable without one
fails. Every argument of every valid call is replaced by each bad value of its kind, see ``calls.bad_values``.
"""

import inspect
import re
from collections.abc import Iterator

import pytest

import dptheory
from tests.calls import Calls, descent, embedding, index, ledger, privacy, pruning
from tests.calls.judgement import outcome
from tests.calls.limits import limits
from tests.calls.walk import callables, failures, modules

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
_LONG = {f"dptheory.claims.{name}" for name in ("check_claims", "write_pages", "demonstrate")}
"""No patterns mean every check of the ledger: tests/claims tries each of their arguments with no check to run."""
_SHARED = {  # lower levels that claims name as calculators; not offered to users, who reach them through others
    "dptheory.privacy.composed",
    "dptheory.privacy.conversion",
}
_FOUND = callables([one for one in modules(dptheory) if not _NOT_PUBLIC.fullmatch(one.__name__)], _SHARED)
CALLABLES = {name: one for name, one in _FOUND.items() if name not in _TOLD | _LONG}


@pytest.fixture(autouse=True)
def _limits() -> Iterator[None]:
    with limits():
        yield


def test_every_public_callable_has_a_valid_call() -> None:
    assert set(CALLABLES) - set(CALLS) == set(), "public callables without a valid call in tests/calls"
    assert set(CALLS) - set(CALLABLES) == set(), "valid calls of what is not public"


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_the_valid_calls_name_every_argument(name: str) -> None:
    named = {argument for one in CALLS[name] for argument in one.made()}
    assert named == set(inspect.signature(CALLABLES[name]).parameters)


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_valid_calls_are_accepted(name: str) -> None:
    for one in CALLS[name]:
        found = outcome(CALLABLES[name], one.made())
        assert found.error is None, one.made()


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_bad_input(name: str) -> None:
    found = failures(CALLABLES[name], CALLS[name])
    assert not found, "\n".join([f"{len(found)} answers", *found[:40]])
