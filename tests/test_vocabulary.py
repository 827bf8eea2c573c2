"""Every public argument, field of a result and option is in proofs/glossary.md, and positional only as the glossary fixes; and
who comes from 0.2.0 finds each of its public names."""

import dataclasses
import importlib.util
import inspect
import json
import re
import tomllib
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dptheory
import dptheory.training
from dptheory import privacy
from dptheory.cli._joining import _loaded, joining
from dptheory.privacy import least_noise_multiplier
from dptheory.pruning import top_k_mse
from dptheory.training.measure import MeasureSettings, measure_gradient
from dptheory.training.runs import BUILDERS
from dptheory.training.studies import _rules, _study
from tests.calls.command_line import LEAVES
from tests.calls.walk import callables, modules
from tests.every import every
from tests.refused import refused

GLOSSARY = (Path(__file__).parent.parent / "proofs" / "glossary.md").read_text(encoding="utf-8")
_NO_CALCULATORS = re.compile(r"dptheory\.(cli.*|checks.*|files|errors|claims\..*)")
_PARTS = re.compile(r"dptheory\.training\.(_commands|benchmarks.*|audits.*)")
"""Commands; their options are held below."""


def _section(title: str) -> str:
    return GLOSSARY.split(f"## {title}\n")[1].split("\n## ")[0]


def _rows(text: str) -> list[list[str]]:
    rows = [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines() if line.startswith("|")
    ]
    return [row for row in rows if not set(row[0]) <= {"-", "|"}]


def _names(left_out: tuple[str, ...]) -> list[str]:
    sections = [one for one in GLOSSARY.split("\n## ")[1:] if not one.startswith(left_out)]
    return [name for one in sections for row in _rows(one) for name in re.findall(r"`(\w+)`", row[0])]


NAMES = set(_names(("Positional", "One letter")))
_FAMILIES = _rows(_section("Positional order"))[1:]


def _family(start: str) -> list[str]:
    return re.findall(r"`(\w+)`", next(row[1] for row in _FAMILIES if row[0].startswith(start)))


def _public(package: types.ModuleType, left_out: re.Pattern[str]) -> list[types.ModuleType]:
    return [one for one in modules(package) if not left_out.fullmatch(one.__name__)]


THEORY = callables(_public(dptheory, _NO_CALCULATORS), ())
TRAINING = callables(_public(dptheory.training, _PARTS), ())


def test_a_name_has_one_row() -> None:
    names = _names(("Positional", "Words", "One letter"))
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


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


RESULTS = _dataclasses(_public(dptheory, _NO_CALCULATORS) + _public(dptheory.training, _PARTS))


@every(sorted(THEORY | TRAINING))
def test_arguments_are_in_the_glossary(name: str) -> None:
    parameters = inspect.signature((THEORY | TRAINING)[name]).parameters.values()
    own = {p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)} - {"self"}
    assert own - NAMES == _of_other_libraries(name, own - NAMES)


def test_defaults_of_method_are_those_that_the_glossary_names() -> None:
    row = next(line for line in GLOSSARY.splitlines() if line.startswith("| `method` |"))
    given = {name: inspect.signature(THEORY[name]).parameters.get("method") for name in THEORY}
    defaults = {
        name: p.default for name, p in given.items() if p is not None and p.default is not inspect.Parameter.empty
    }
    others = {name.rsplit(".", 1)[1]: default for name, default in defaults.items() if default != "exact"}
    assert others == {"noise_ratio_excess": "stated", "audit": "events", "largest_bound": "events"}
    assert all(re.search(rf'`"{default}"` in [^;]*\b{name}`', row) for name, default in others.items())


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


@every(sorted(RESULTS))
def test_fields_are_in_the_glossary(name: str) -> None:
    kind = RESULTS[name]
    public = {f.name for f in dataclasses.fields(kind) if not f.name.startswith("_")}
    public |= {attribute for attribute, value in vars(kind).items() if isinstance(value, property)}
    assert public - NAMES == set()


COMMANDS = {
    **{f"dptheory {name}": one for name, one in LEAVES.items()},
    **{f"dptheory {name}": _loaded(name) for name in joining()},
}


@every(sorted(COMMANDS))
def test_options_are_in_the_glossary(name: str) -> None:
    options = {one.opts[0].lstrip("-").replace("-", "_") for one in COMMANDS[name].params}
    assert options - NAMES == set()


_CONFIGS = sorted((Path(dptheory.training.__file__).parent / "configs").rglob("*.toml"))
_CHOSEN = ("arms", "phases", "per_arm", "tuned_as", "measure", "methods")
"""Tables whose keys their author chooses: of a study its arms and phases; of an instrument what it measures, and on what."""


def _keys(value: Any, chosen: bool = False) -> Iterator[str]:
    """Keys at every level; ``chosen``: those of the first are names that the file gives, not the vocabulary's."""
    for one in value if isinstance(value, list) else ():
        yield from _keys(one)
    for key, inner in value.items() if isinstance(value, dict) else ():
        if not chosen:
            yield from key.split(".")
        yield from _keys(inner, not chosen and key in _CHOSEN)


def test_keys_of_configurations_are_in_the_glossary() -> None:
    found = {arg for builder in BUILDERS.values() for arg in list(inspect.signature(builder).parameters)[1:]}
    for kind in (_study.Study, _study.Phase, _study.Comparison, _rules.Asked, _rules.Rule, _rules.Condition):
        found |= {field.name for field in dataclasses.fields(kind)}
    for path in _CONFIGS:
        # rules are named after claims, runs and instruments by their author
        found |= set(_keys(tomllib.loads(path.read_text(encoding="utf-8")), chosen=path.parent.name != "studies"))
    assert {"tuned_by", "learning_rate", "refreshes_per_epoch", "differs", "unset"} <= found
    assert sorted(found - NAMES) == []


def test_quantities_of_the_probe_are_in_the_glossary() -> None:
    settings = MeasureSettings((0.5,), draws=10, noise_multiplier=1.0, max_grad_norm=1.0)
    rng = np.random.default_rng(0)
    found = {row.quantity for row in measure_gradient(rng.normal(size=512), settings, rng)}
    assert len(found) >= 9 and sorted(found - NAMES) == []


def _positional(function: Callable[..., Any]) -> list[inspect.Parameter]:
    found = inspect.signature(function).parameters.values()
    return [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name != "self"]


def _fixed(names: list[str], required: int) -> bool:
    sizes = _family("sizes")
    gaussian = _family("Gaussian privacy")
    vectors = _family("one vector")
    ordered = [name for name in gaussian if name in names]
    return (
        names == []
        or (len(names) == 1 and (required == 1 or names[0] in vectors or names[0] in sizes[:1]))
        or names == sizes[:2]
        or (len(names) == 2 and names == ordered)
        or any(
            names == _family(start)
            for start in ("largest of", "an inner", "a draw", "a number", "a check", "an interface")
        )
    )


def _interface(name: str) -> bool:
    return name.endswith("IndexPRV.probability")


@every(sorted(name for name in THEORY if not name.startswith("dptheory.claims")))
def test_positional_only_as_the_families_say(name: str) -> None:
    parameters = inspect.signature(THEORY[name]).parameters.values()
    required = sum(p.default is p.empty and p.name != "self" for p in parameters)
    names = [p.name for p in _positional(THEORY[name])]
    assert _interface(name) or _fixed(names, required), names


ONE_ARGUMENT = {"Composition": ["parts"], "read_composition": ["path"], "read_statement": ["path"]}
"""In accounting, what takes one thing that no number can be taken for."""


@every(sorted(privacy.__all__))
def test_in_accounting_everything_is_named(name: str) -> None:
    function = getattr(privacy, name)
    if not callable(function) or name.startswith("gaussian"):
        return
    assert [p.name for p in _positional(function)] == ONE_ARGUMENT.get(name, [])


_NUMBER = re.compile(r"\b(float|int|bool|str)\b")


def _number(annotation: Any) -> bool:
    """A number, a word or a choice between them; not an array, a mapping or a function that has some inside."""
    text = str(getattr(annotation, "__name__", annotation)) if inspect.isclass(annotation) else str(annotation)
    return "numpy" not in text and bool(_NUMBER.search(re.sub(r"\[.*\]", "", text)))


@every(sorted(TRAINING))
def test_training_has_at_most_one_positional_number(name: str) -> None:
    numbers = [p.name for p in _positional(TRAINING[name]) if _number(p.annotation)]
    if numbers == _family("a batch"):
        return
    assert len(numbers) <= 1, numbers


def test_two_numbers_in_the_wrong_order_are_an_error() -> None:
    """The call that gave 14.5 times too little noise: delta and sampling rate exchanged."""
    with pytest.raises(TypeError, match=r"least_noise_multiplier\(\) takes 0 positional arguments but 4 were given"):
        least_noise_multiplier(3.0, 0.02, 1e-5, 2000)  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"top_k_mse\(\) takes 2 positional arguments but 3 were given"):
        top_k_mse(256, 2, 26)  # type: ignore[misc]
    with refused("keep", "1..26", "256"):
        top_k_mse(26, 256, sigma_g=2)
    assert least_noise_multiplier(epsilon=3.0, delta=1e-5, sampling_rate=0.02, steps=2000) == pytest.approx(
        1.4525, abs=2e-3
    )


# --- Names of 0.2.0 stand where they did, or on the page that says what took their place

NAMES_OF_0_2: dict[str, list[str]] = json.loads(
    (Path(__file__).parent / "names_of_0_2.json").read_text(encoding="utf-8")
)
"""The ``__all__`` of every package of 0.2.0, ``training`` under its new name."""
MOVED = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in (Path(__file__).parents[1] / "proofs" / "guides" / "from_0_2.md")
    .read_text(encoding="utf-8")
    .splitlines()
    if line.startswith("| `dptheory.")
]


def _has(package: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(package), name)
    except ModuleNotFoundError:
        return False


def test_every_name_that_is_gone_stands_on_the_page_and_no_other() -> None:
    gone = {(package, name) for package, names in NAMES_OF_0_2.items() for name in names if not _has(package, name)}
    listed = {(row[0].strip("`"), name) for row in MOVED for name in re.findall(r"`(\w+)`", row[1])}
    assert listed == gone


def test_what_took_their_place_is_there() -> None:
    for package, names, successor in MOVED:
        for name in re.findall(r"`(\w+)`", names):
            if successor.startswith("the same name in"):
                assert _has(successor.split("`")[1], name), (name, successor)
        for path in re.findall(r"`(dptheory\.[\w.]+\.\w+)`", successor):
            assert _has(*path.rsplit(".", 1)) or importlib.util.find_spec(path), path
        for name in re.findall(r"`(\w+)`", successor):
            assert _has(package.strip("`"), name), name
