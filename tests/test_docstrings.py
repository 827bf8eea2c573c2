"""Every public callable says what it takes, returns and refuses, where it comes from, and shows an example, which runs.

That there is a docstring, and that it begins with one line, is held by ruff (rules D, in pyproject.toml).
The callables are found by walking the packages. A result, which users read and do not make, is described by its attributes.
"""

import dataclasses
import doctest
import importlib
import inspect
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import dptheory
from dptheory.claims import all_claims
from tests.calls.walk import callables, modules
from tests.every import every
from tests.examples import complaints, named, only_a_range, parsed, sections, sources_with_examples

_NO_CALCULATORS = re.compile(r"dptheory\.(cli.*|files|errors|claims\..+)")
"""The command line, what it writes with, errors, and the rows of the ledger."""
_PACKAGES = [one for one in modules(dptheory) if not _NO_CALCULATORS.fullmatch(one.__name__)]

PLUMBING = re.compile(r"dptheory\.(papers|claims|checks)\.")
"""Readers of what papers print, of the ledger, and the engine that checks it: they stand in no paper."""

NO_SOURCE = {
    "dptheory.gradients.all_masks": "a list of masks",
    "dptheory.gradients.random_masks": "a draw of masks",
    "dptheory.privacy.auditing.audit": "from other papers; it is used on all mechanisms of ours",
    "dptheory.privacy.auditing.bound_at_known_rate": "from other papers; it is used on all mechanisms of ours",
    "dptheory.privacy.auditing.largest_bound": "from other papers; it is used on all mechanisms of ours",
    "dptheory.privacy.samplers.selection_epsilon_upper_bound": "from another paper, cited",
    "dptheory.privacy.samplers.truncated_epsilon_upper_bound": "a sampler that no paper uses; a page of its own proves it",
    "dptheory.privacy.samplers.user_epsilon_upper_bound": "a unit that no paper uses; a page of its own proves it",
}
"""Without a claim behind them."""
NO_EXAMPLE = {
    "dptheory.checks.Check": "a protocol",
    "dptheory.checks.Check.run": "a protocol",
    "dptheory.checks.CertificateCheck": "needs PEPit and seconds; the checks of rs.thm3.2 and lf.lem3.1 are examples",
    "dptheory.checks.worst_case": "needs PEPit and seconds",
    "dptheory.claims.write_pages": "writes files: `dptheory pages` shows it",
}
_RUN = re.compile(r"dptheory\.checks\.(?!Check\.)\w+\.run|dptheory\.claims\.Watcher(\.\w+)?")
"""Described once, by the protocol; a watcher's methods say when they are called, and do nothing."""

CALLABLES = {name: one for name, one in callables(_PACKAGES, ()).items() if not _RUN.fullmatch(name)}
RECORDS = {
    f"{module.__name__}.{name}": value
    for module in _PACKAGES
    for name, value in vars(module).items()
    if name in getattr(module, "__all__", ()) and dataclasses.is_dataclass(value)
}


def parts_of(one: Callable[..., Any]) -> dict[str, str]:
    return sections(inspect.getdoc(one) or "")


def parameters(one: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(one).parameters) - {"self"}


@cache
def claims() -> frozenset[str]:
    return frozenset(claim.id for claim in all_claims())


def test_the_exceptions_exist() -> None:
    assert {*NO_SOURCE, *NO_EXAMPLE} <= set(CALLABLES)


@every(sorted(CALLABLES))
def test_every_argument_is_described_and_no_other(name: str) -> None:
    one = CALLABLES[name]
    if "Attributes" in parts_of(one):  # a record that users may make
        return
    if name.endswith("checks.Check"):
        return
    assert named(parts_of(one).get("Args", "")) == parameters(one)


@every(sorted(RECORDS))
def test_every_field_of_a_record_is_described_and_no_other(name: str) -> None:
    parts = parts_of(RECORDS[name])
    described = parts.get("Attributes") or parts.get("Args", "")
    assert named(described) == {field.name for field in dataclasses.fields(RECORDS[name])}


@every(sorted(CALLABLES))
def test_says_what_it_returns(name: str) -> None:
    one = CALLABLES[name]
    returns = not inspect.isclass(one) and inspect.signature(one).return_annotation not in (None, "None")
    assert ("Returns" in parts_of(one)) == returns


@every(sorted(CALLABLES))
def test_says_what_it_raises_beyond_ranges(name: str) -> None:
    """That an argument must be in its range is said once, in ``dptheory.errors``, and tried by test_bad_input."""
    one = CALLABLES[name]
    said = parts_of(one).get("Raises")
    others = set() if inspect.isclass(one) else set(re.findall(r"raise (\w+)\(", inspect.getsource(one)))
    assert said or others <= {"ArgumentError"}
    assert said is None or (re.match(r"\s*\w+Error(, \w+Error)*: \S", said) and not only_a_range(said))


@every(sorted(CALLABLES))
def test_says_where_it_comes_from(name: str) -> None:
    source = parts_of(CALLABLES[name]).get("Source", "")
    if name in NO_SOURCE or PLUMBING.match(name):
        return
    found = re.search(r"\(([^()]+)\)\.?\s*$", source)
    assert found, "no claim id at the end of Source"
    assert set(found[1].split(", ")) <= claims()


@every(sorted(CALLABLES))
def test_ids_of_claims_exist(name: str) -> None:
    """Anywhere in the docstring; names of printed settings and tables look alike."""
    if name.startswith("dptheory.papers."):
        return
    text = inspect.getdoc(CALLABLES[name]) or ""
    prose = text.split("Example:")[0]
    ids = set(re.findall(r"\b(?:rf|rs|lf|gep|gip)\.[A-Za-z]\w*(?:[.-]\w+)*", prose))
    assert ids <= claims()


def _reachable(reference: str, one: Callable[..., Any]) -> bool:
    target = reference.lstrip("~.")
    if target.startswith("dptheory."):
        return any(
            target == f"{module.__name__}.{found}" for module in _PACKAGES for found in dir(module)
        ) or target in {
            *CALLABLES,
            *(module.__name__ for module in _PACKAGES),
        }
    package = ".".join(one.__module__.split(".")[:2])
    owner = one.__qualname__.split(".")[0]
    if reference.startswith("."):
        return any(hasattr(module, target) for module in _PACKAGES)
    rooms = [module.__name__ for module in _PACKAGES if f"{module.__name__}.".startswith(f"{package}.")]
    return any(f"{name}.{target}" in CALLABLES or f"{name}.{owner}.{target}" in CALLABLES for name in rooms) or any(
        module.__name__ == package and hasattr(module, target.split(".")[0]) for module in _PACKAGES
    )


@every(sorted(CALLABLES))
def test_references_lead_somewhere(name: str) -> None:
    one = CALLABLES[name]
    references = re.findall(r":(?:func|meth|class):`([\w.~]+)`", inspect.getdoc(one) or "")
    assert [reference for reference in references if not _reachable(reference, one)] == []


# --- the examples -------------------------------------------------------------------------------------------------------


def example(name: str) -> doctest.DocTest:
    """The example of a callable, with nothing but builtins around it."""
    return parsed(inspect.getdoc(CALLABLES[name]) or "", name, {})


@every(sorted(CALLABLES))
def test_has_an_example_that_shows_it(name: str) -> None:
    found = example(name).examples
    if name in NO_EXAMPLE:
        assert not found, "an exception that is none"
        return
    assert list(parts_of(CALLABLES[name]))[-1] == "Example", "no part Example at the end"
    assert parts_of(CALLABLES[name])["Example"].split("\n")[0].endswith((".", "?")), (
        "no sentence that says what it shows"
    )
    code = "".join(one.source for one in found)
    assert re.search(rf"\b{name.rsplit('.', 1)[1]}\b", code), "the example does not use it"
    assert any(one.want for one in found), "the example shows no result"


@every(sorted(set(CALLABLES) - set(NO_EXAMPLE)))
def test_the_example_gives_what_it_says(name: str) -> None:
    said = complaints(example(name))
    assert not said


def _private() -> dict[str, tuple[str, str]]:
    """Examples elsewhere in the sources, by name: the module, and the docstring."""
    known = {inspect.getdoc(one) for one in CALLABLES.values()}
    found = sources_with_examples(Path(dptheory.__path__[0]))
    return {f"{module}.{name}": (module, text) for module, name, text in found if text not in known}


def test_an_example_of_a_private_part_gives_what_it_says() -> None:
    said = {
        name: complaints(parsed(text, name, vars(importlib.import_module(module))))
        for name, (module, text) in _private().items()
    }
    assert {name: one for name, one in said.items() if one} == {}
