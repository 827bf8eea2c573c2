"""The public callables of a package, and everything that goes wrong when one is called with bad values."""

import dataclasses
import functools
import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from tests.calls import Call
from tests.calls.bad_values import Attempt, attempts
from tests.calls.judgement import Outcome, complaint, outcome, same

_TRAINING = "dptheory.training"
"""Not part of the theory: it is walked where it is asked for by name, as it needs PyTorch."""


def modules(package: types.ModuleType) -> Iterator[types.ModuleType]:
    """All modules of a package that have no underscore in their name; of ``dptheory`` those of the theory."""
    for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if found.name == _TRAINING or found.name.rpartition(".")[2].startswith("_"):
            continue
        module = importlib.import_module(found.name)
        yield module
        if found.ispkg:
            yield from modules(module)


def callables(public: Collection[types.ModuleType], left_out: Collection[str]) -> dict[str, Callable[..., Any]]:
    """Functions, constructors and methods by full name; results, which users read and do not make, have methods only."""
    members = {}
    for module in public:
        shown = getattr(module, "__all__", None)  # without one all that has no underscore
        exported = () if shown is None else shown
        for name, value in vars(module).items():
            if name.startswith("_") or not (inspect.isfunction(value) or inspect.isclass(value)):
                continue
            hidden = any(part.startswith("_") for part in value.__module__.split("."))
            own = value.__module__ == module.__name__ and (shown is None or name in shown)
            if own or (name in exported and hidden):
                members[f"{module.__name__}.{name}"] = value
    members = {name: value for name, value in members.items() if name not in left_out}
    results = _results(members)
    found: dict[str, Callable[..., Any]] = {}
    for name, value in members.items():
        if inspect.isfunction(value):
            found[name] = value
        elif not (issubclass(value, BaseException) or hasattr(value, "__members__") or inspect.isabstract(value)):
            if "__post_init__" in vars(value) or not dataclasses.is_dataclass(value) or value not in results:
                found[name] = value
            for method, function in vars(value).items():
                if inspect.isfunction(function) and not method.startswith("_"):
                    found[f"{name}.{method}"] = function
    return {name: value for name, value in found.items() if name not in left_out}


def _results(members: dict[str, Any]) -> set[type]:
    """Types of results, and of their fields."""
    found: set[type] = set()

    def add(hint: Any) -> None:
        for one in (hint, *typing.get_args(hint)):
            if inspect.isclass(one) and dataclasses.is_dataclass(one) and one not in found:
                found.add(one)
                for inner in _hints(one).values():
                    add(inner)
            elif one is not hint:
                add(one)

    for value in members.values():
        own = [value] if inspect.isfunction(value) else [f for _, f in inspect.getmembers(value, inspect.isfunction)]
        for function in own:
            add(_hints(function).get("return"))
    return found


def _hints(thing: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(thing)
    except NameError:  # a type that is imported for type checkers alone
        return {}


def documented(function: Callable[..., Any]) -> str:
    """Docstrings of the callable, of its class and of what it returns."""
    text = [function.__doc__ or ""]
    hint = _hints(function).get("return") if inspect.isfunction(function) else function
    for one in (hint, *typing.get_args(hint)):
        if dataclasses.is_dataclass(one):
            text.append(one.__doc__ or "")
            text += [vars(one)[name].__doc__ or "" for name in vars(one) if isinstance(vars(one)[name], property)]
    reference = " ".join(text)
    if "as :func:" in reference or "as for :func:" in reference or "errors: as" in reference:
        module = inspect.getmodule(function)
        reference += " ".join(f.__doc__ or "" for _, f in inspect.getmembers(module, inspect.isfunction))
    return reference


def failures(function: Callable[..., Any], calls: Collection[Call]) -> list[str]:
    """Everything that goes wrong with a callable, a line each."""
    found = []
    parameters = inspect.signature(function).parameters
    text = documented(function)
    for one in calls:
        plain = functools.partial(_in_plain_form, function, one, {})
        for argument in one.made():
            if argument == "self":
                continue
            optional = any(word in str(parameters[argument].annotation) for word in ("None", "Optional"))
            for attempt in attempts(one.made()[argument], optional, one.cost):
                wrong = _wrong(function, one, argument, attempt, text, plain)
                if wrong:
                    found.append(f"{argument}={_shown(attempt.value)}: {wrong}")
    return list(dict.fromkeys(found))


def _wrong(
    function: Callable[..., Any],
    one: Call,
    argument: str,
    attempt: Attempt,
    text: str,
    in_plain_form: Callable[[str, Any], Outcome],
) -> str | None:
    arguments = one.made() | {argument: attempt.value}
    found = outcome(function, arguments, one.use)
    wrong = complaint(found, argument, arguments, attempt.never, text)
    if wrong is None and found.error is None and attempt.plain is not None:
        plain = in_plain_form(argument, attempt.plain)
        if plain.error is None and not same(found.result, plain.result):
            return f"got {found.result!r}"[:200] + f", in its plain form {plain.result!r}"[:200]
    return wrong


def _in_plain_form(
    function: Callable[..., Any], one: Call, kept: dict[Any, Outcome], argument: str, value: Any
) -> Outcome:
    """The outcome, computed once for all forms of a value, and once for all arguments where it is the valid one."""
    same_as_valid = _text(value) == _text(one.made()[argument])
    key = None if same_as_valid else (argument, _text(value))
    if key not in kept:
        kept[key] = outcome(function, one.made() | {argument: value}, one.use)
    return kept[key]


def _text(value: Any) -> str:
    """All of a value that a callable could tell it by."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{value.tolist()!r}"
    return f"{type(value)}{value!r}"


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        value = f"{value.dtype}{value.shape} {np.asarray(value).ravel()[:3]}"
    try:
        return " ".join(f"{type(value).__name__} {value!r}"[:100].split())
    except ValueError:
        return f"an integer of {value.bit_length()} bits"
