"""Every public callable answers bad input with the right value or with an error that names the argument.

The callables are found by walking the modules, the valid calls are those of ``tests/calls``: a public callable without one
fails. Every argument of every valid call is replaced by each bad value of its kind, see ``calls.bad_values``.
"""

import dataclasses
import faulthandler
import importlib
import inspect
import pkgutil
import re
import resource
import sys
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from calls import Call, Calls, descent, embedding, index, ledger, privacy, pruning
from calls.bad_values import Attempt, attempts
from calls.judgement import complaint, outcome, same

import dptheory

CALLS: Calls = {
    **privacy.CALLS,
    **index.CALLS,
    **pruning.CALLS,
    **descent.CALLS,
    **embedding.CALLS,
    **ledger.CALLS,
}

_TOOLS = re.compile(r"cli(_\w+)?|demo|report|files")  # the command line and what it prints with: tests/test_cli*.py
_PARTS = ("mask_average", "masked_rows")  # of sparsification.kappa, which checks the arguments
_SHARED = {  # lower levels that modules of the package share; not offered to users, who reach them through calculators
    "dptheory.masks.norm",
    "dptheory.masks.vector",
    "dptheory.lattice_loss.log_sum",
    "dptheory.lattice_loss.composed",
    "dptheory.index_privacy.largest_theta",
    "dptheory.renyi.conversion",
    "dptheory.embedding.clipping_bias.pairs",
    "dptheory.embedding.release.dimensions",
    "dptheory.embedding.release.embedding_share",
    "dptheory.embedding.release.size",
    "dptheory.embedding.release.positive",
}
_MOST_MEMORY = 3 * 2**30
_STUCK = 300.0  # seconds: only a call that C code never returns from


def _modules(package: types.ModuleType) -> Iterator[types.ModuleType]:
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        parts = found.name.split(".")[1:]
        if (
            not any(part.startswith("_") for part in parts)
            and not _TOOLS.fullmatch(parts[0])
            and parts[0] not in _PARTS
        ):
            yield importlib.import_module(found.name)


def _members() -> dict[str, Any]:
    """Functions and classes by the name under which they are public."""
    found = {}
    for module in _modules(dptheory):
        if module.__name__.startswith(("dptheory.claims.", "dptheory.montecarlo")):
            continue  # statements of the ledger and their checks; the engine takes functions, and runs what it is given
        exported = getattr(module, "__all__", ())
        for name, value in vars(module).items():
            if name.startswith("_") or not (inspect.isfunction(value) or inspect.isclass(value)):
                continue
            hidden = any(part.startswith("_") for part in value.__module__.split("."))
            if value.__module__ == module.__name__ or (name in exported and hidden):
                found[f"{module.__name__}.{name}"] = value
    return {name: value for name, value in found.items() if name not in _SHARED}


def _returned(members: dict[str, Any]) -> set[type]:
    """Types of results, and of their fields: what users read, not what they make."""
    found: set[type] = set()

    def add(hint: Any) -> None:
        for one in (hint, *typing.get_args(hint)):
            if inspect.isclass(one) and dataclasses.is_dataclass(one) and one not in found:
                found.add(one)
                for inner in typing.get_type_hints(one).values():
                    add(inner)
            elif one is not hint:
                add(one)

    for value in members.values():
        functions = (
            [value] if inspect.isfunction(value) else [f for _, f in inspect.getmembers(value, inspect.isfunction)]
        )
        for function in functions:
            add(typing.get_type_hints(function).get("return"))
    return found


def _callables() -> dict[str, Callable[..., Any]]:
    members = _members()
    returned = _returned(members)
    found: dict[str, Callable[..., Any]] = {}
    for name, value in members.items():
        if inspect.isfunction(value):
            found[name] = value
            continue
        if issubclass(value, BaseException) or typing.get_origin(value) is not None or hasattr(value, "__members__"):
            continue
        own_checks = "__post_init__" in vars(value) or not dataclasses.is_dataclass(value)
        if own_checks or value not in returned:
            found[name] = value
        for method, function in vars(value).items():
            if inspect.isfunction(function) and not method.startswith("_"):
                found[f"{name}.{method}"] = function
    return found


CALLABLES = _callables()


@pytest.fixture(autouse=True)
def _limits() -> Iterator[None]:
    """Memory that asks for the impossible fails at once; a call stuck in C code ends the process with its traceback."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY if hard < 0 else min(hard, _MOST_MEMORY), hard))
    faulthandler.dump_traceback_later(_STUCK, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def test_every_public_callable_has_a_valid_call() -> None:
    assert set(CALLABLES) - set(CALLS) == set(), "public callables without a valid call in tests/calls"
    assert set(CALLS) - set(CALLABLES) == set(), "valid calls of what is not public"


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_the_valid_calls_name_every_argument(name: str) -> None:
    named = {argument for one in CALLS[name] for argument in one.arguments}
    assert named == set(inspect.signature(CALLABLES[name]).parameters)


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_valid_calls_are_accepted(name: str) -> None:
    for one in CALLS[name]:
        found = outcome(CALLABLES[name], one.made())
        assert found.error is None, one.arguments


def documented(function: Callable[..., Any]) -> str:
    """Docstrings of the callable, of its class and of what it returns."""
    text = [function.__doc__ or ""]
    hint = typing.get_type_hints(function).get("return") if inspect.isfunction(function) else function
    for one in (hint, *typing.get_args(hint)):
        if dataclasses.is_dataclass(one):
            text.append(one.__doc__ or "")
            text += [vars(one)[name].__doc__ or "" for name in vars(one) if isinstance(vars(one)[name], property)]
    reference = " ".join(text)
    if "as :func:" in reference or "as for :func:" in reference or "errors: as" in reference:
        module = inspect.getmodule(function)
        reference += " ".join(f.__doc__ or "" for _, f in inspect.getmembers(module, inspect.isfunction))
    return reference


def failures(name: str) -> list[str]:
    """Everything that goes wrong with a callable, a line each."""
    function, found = CALLABLES[name], []
    parameters = inspect.signature(function).parameters
    text = documented(function)
    for one in CALLS[name]:
        for argument in one.arguments:
            if argument == "self":
                continue
            optional = "None" in str(parameters[argument].annotation)
            for attempt in attempts(one.made()[argument], optional, one.cost):
                wrong = _wrong(function, one, argument, attempt, text)
                if wrong:
                    found.append(f"{argument}={_shown(attempt.value)}: {wrong}")
    return list(dict.fromkeys(found))


def _wrong(function: Callable[..., Any], one: Call, argument: str, attempt: Attempt, text: str) -> str | None:
    arguments = one.made() | {argument: attempt.value}
    found = outcome(function, arguments)
    wrong = complaint(found, argument, arguments, attempt.never, text)
    if wrong is None and found.error is None and attempt.plain is not None:
        plain = outcome(function, one.made() | {argument: attempt.plain})
        if plain.error is None and not same(found.result, plain.result):
            return f"got {found.result!r}"[:200] + f", in its plain form {plain.result!r}"[:200]
    return wrong


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        value = f"{value.dtype}{value.shape} {np.asarray(value).ravel()[:3]}"
    try:
        return " ".join(f"{type(value).__name__} {value!r}"[:100].split())
    except ValueError:
        return f"an integer of {value.bit_length()} bits"


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_bad_input(name: str) -> None:
    found = failures(name)
    assert not found, "\n".join([f"{len(found)} answers", *found[:40]])
