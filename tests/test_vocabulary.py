"""Every public argument, field of a result and option is in proofs/glossary.md, and positional only as the glossary fixes."""

import dataclasses
import inspect
import re
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import dptheory
import training
from dptheory import cli, privacy
from dptheory.privacy import least_noise_multiplier
from tests.calls.walk import callables, modules
from training import __main__ as training_cli

GLOSSARY = (Path(__file__).parent.parent / "proofs" / "glossary.md").read_text(encoding="utf-8")
_NO_CALCULATORS = re.compile(r"dptheory\.(cli.*|checks.*|files|errors|claims\..*)")
_PARTS = re.compile(r"training\.(__main__|benchmarks.*|audits.*)")
"""Commands; their options are held below."""


def _section(title: str) -> str:
    return GLOSSARY.split(f"## {title}\n")[1].split("\n## ")[0]


def _rows(text: str) -> list[list[str]]:
    rows = [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines() if line.startswith("|")
    ]
    return [row for row in rows if not set(row[0]) <= {"-", "|"}]


def _names() -> set[str]:
    found: set[str] = set()
    for section in GLOSSARY.split("\n## ")[1:]:
        if section.startswith(("Positional", "One letter")):
            continue
        for row in _rows(section):
            found.update(re.findall(r"`(\w+)`", row[0]))
    return found


NAMES = _names()
_FAMILIES = _rows(_section("Positional order"))[1:]


def _family(start: str) -> list[str]:
    return re.findall(r"`(\w+)`", next(row[1] for row in _FAMILIES if row[0].startswith(start)))


def _public(package: types.ModuleType, left_out: re.Pattern[str]) -> list[types.ModuleType]:
    return [one for one in modules(package) if not left_out.fullmatch(one.__name__)]


THEORY = callables(_public(dptheory, _NO_CALCULATORS), ())
TRAINING = callables(_public(training, _PARTS), ())


def _dataclasses(found: list[types.ModuleType]) -> dict[str, type]:
    return {
        f"{module.__name__}.{name}": value
        for module in found
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and dataclasses.is_dataclass(value)
        and not name.startswith("_")
        and value.__module__.startswith(module.__name__)
    }


RESULTS = _dataclasses(_public(dptheory, _NO_CALCULATORS) + _public(training, _PARTS))


@pytest.mark.parametrize("name", sorted(THEORY | TRAINING))
def test_arguments_are_in_the_glossary(name: str) -> None:
    parameters = inspect.signature((THEORY | TRAINING)[name]).parameters.values()
    own = {p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)} - {"self"}
    assert own - NAMES == _of_other_libraries(name, own - NAMES)


def _of_other_libraries(name: str, unknown: set[str]) -> set[str]:
    """What PyTorch calls the arguments of a method that it calls."""
    return unknown & {
        "state",
        "closure",
        "set_to_none",
        "do_skip",
        "state_dict",
        "device",
        "params",
        "released",
        "total",
        "samples",
    }


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_fields_are_in_the_glossary(name: str) -> None:
    kind = RESULTS[name]
    public = {f.name for f in dataclasses.fields(kind) if not f.name.startswith("_")}
    public |= {attribute for attribute, value in vars(kind).items() if isinstance(value, property)}
    assert public - NAMES == set()


def _leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield " ".join(path), command
        return
    for name, child in children.items():
        yield from _leaves(child, (*path, name))


COMMANDS = {
    **{f"dptheory {name}": one for name, one in _leaves(typer.main.get_command(cli.app))},
    **{f"python -m training {name}": one for name, one in _leaves(typer.main.get_command(training_cli.app))},
}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_options_are_in_the_glossary(name: str) -> None:
    options = {one.opts[0].lstrip("-").replace("-", "_") for one in COMMANDS[name].params}
    assert options - NAMES == set()


def _positional(function: Callable[..., Any]) -> list[inspect.Parameter]:
    found = inspect.signature(function).parameters.values()
    return [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name != "self"]


def _fixed(names: list[str], required: int) -> bool:
    sizes = _family("sizes and")
    laws = sizes[2:]
    gaussian = _family("Gaussian privacy")
    vectors = _family("one vector")
    ordered = [name for name in gaussian if name in names]
    return (
        names == []
        or (len(names) == 1 and (required == 1 or names[0] in vectors or names[0] in sizes[:1]))
        or (names[:2] == sizes[:2] and (len(names) == 2 or (len(names) == 3 and names[2] in laws)))
        or (len(names) == 2 and names[0] == sizes[0] and names[1] in _family("law of a whole"))
        or (len(names) == 2 and names == ordered)
        or any(
            names == _family(start)
            for start in ("largest of", "an inner", "a draw", "a number", "a check", "an interface")
        )
    )


def _interface(name: str) -> bool:
    return name.endswith("IndexPRV.probability")


@pytest.mark.parametrize("name", sorted(name for name in THEORY if not name.startswith("dptheory.claims")))
def test_positional_only_as_the_families_say(name: str) -> None:
    parameters = inspect.signature(THEORY[name]).parameters.values()
    required = sum(p.default is p.empty and p.name != "self" for p in parameters)
    names = [p.name for p in _positional(THEORY[name])]
    assert _interface(name) or _fixed(names, required), names


@pytest.mark.parametrize("name", sorted(privacy.__all__))
def test_in_accounting_everything_is_named(name: str) -> None:
    function = getattr(privacy, name)
    if not callable(function) or name.startswith("gaussian"):
        return
    assert [p.name for p in _positional(function)] == (["parts"] if name == "Composition" else [])


_NUMBER = re.compile(r"\b(float|int|bool|str)\b")


def _number(annotation: Any) -> bool:
    """A number, a word or a choice between them; not an array, a mapping or a function that has some inside."""
    text = str(getattr(annotation, "__name__", annotation)) if inspect.isclass(annotation) else str(annotation)
    return "numpy" not in text and bool(_NUMBER.search(re.sub(r"\[.*\]", "", text)))


@pytest.mark.parametrize("name", sorted(TRAINING))
def test_training_has_at_most_one_positional_number(name: str) -> None:
    numbers = [p.name for p in _positional(TRAINING[name]) if _number(p.annotation)]
    if numbers == _family("a batch"):
        return
    assert len(numbers) <= 1, numbers


def test_two_numbers_in_the_wrong_order_are_an_error() -> None:
    """The call that gave 14.5 times too little noise: delta and sampling rate exchanged."""
    with pytest.raises(TypeError, match=r"least_noise_multiplier\(\) takes 0 positional arguments but 4 were given"):
        least_noise_multiplier(3.0, 0.02, 1e-5, 2000)  # type: ignore[misc]
    assert least_noise_multiplier(epsilon=3.0, delta=1e-5, sampling_rate=0.02, steps=2000) == pytest.approx(
        1.4525, abs=2e-3
    )
