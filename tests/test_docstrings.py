"""Every public callable says what it takes, returns and refuses, where it comes from, and shows an example, which runs.

That there is a docstring, and that it begins with one line, is held by ruff (rules D, in pyproject.toml).
The callables are found by walking the packages. A result, which users read and do not make, is described by its attributes.
"""

import builtins
import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

import dptheory
import dptheory.training.data
from dptheory.claims import all_claims
from dptheory.training.mechanisms import Mechanism
from tests.calls.walk import callables, modules
from tests.every import every
from tests.examples import complaints, named, only_a_range, parsed, sections, sources_with_examples

ROOT = Path(__file__).parents[1]
LEDGER = {claim.id for claim in all_claims()}
_NO_CALCULATORS = re.compile(r"dptheory\.(cli.*|files|errors|claims\..+)")
"""The command line, what it writes with, errors, and the rows of the ledger."""
_PACKAGES = [one for one in modules(dptheory) if not _NO_CALCULATORS.fullmatch(one.__name__)]
_RUN = re.compile(r"dptheory\.checks\.(?!Check\.)\w+\.run|dptheory\.claims\.Watcher(\.\w+)?")
"""Described once, by the protocol; a watcher's methods say when they are called, and do nothing."""
ROOMS = ("audits", "data", "engine", "measure", "mechanisms", "networks", "runs", "studies")
"""Of training."""


def _training() -> dict[str, Any]:
    rooms = {room: importlib.import_module(f"dptheory.training.{room}") for room in ROOMS}
    found = {f"{room}.{name}": getattr(package, name) for room, package in rooms.items() for name in package.__all__}
    return {name: value for name, value in found.items() if inspect.isclass(value) or inspect.isfunction(value)}


THEORY = {name: one for name, one in callables(_PACKAGES, ()).items() if not _RUN.fullmatch(name)}
RECORDS = {
    f"{module.__name__}.{name}": value
    for module in _PACKAGES
    for name, value in vars(module).items()
    if name in getattr(module, "__all__", ()) and dataclasses.is_dataclass(value)
}
PUBLIC: dict[str, Any] = THEORY | _training()

# --- what need not have a part, and why -----------------------------------------------------------------------------------

PLUMBING = re.compile(r"dptheory\.(papers|claims|checks)\.|(audits|data|engine|runs|studies)\.")
"""Readers of what papers print, of the ledger, and the engine that checks it; and what trains: they stand in no paper."""
OF_NO_PAPER = {
    "dptheory.gradients.all_masks": "a list of masks",
    "dptheory.gradients.random_masks": "a draw of masks",
    "dptheory.privacy.auditing.audit": "from other papers; it is used on all mechanisms of ours",
    "dptheory.privacy.auditing.bound_at_known_rate": "from other papers; it is used on all mechanisms of ours",
    "dptheory.privacy.auditing.largest_bound": "from other papers; it is used on all mechanisms of ours",
    "dptheory.privacy.samplers.selection_epsilon_upper_bound": "from another paper, cited",
    "dptheory.privacy.samplers.truncated_epsilon_upper_bound": "a sampler that no paper uses; a page of its own proves it",
    "dptheory.privacy.samplers.user_epsilon_upper_bound": "a unit that no paper uses; a page of its own proves it",
    "networks.mlp": "for the benchmarks of a step",
    "mechanisms.Checked": "sees that a schedule keeps its range",
    "mechanisms.Constant": "one value",
    "mechanisms.Contribution": "what a batch hands to the optimizer",
    "mechanisms.Mechanism": "what the algorithms share",
    "mechanisms.Schedule": "what schedules share",
    "mechanisms.StepCost": "what a step hands to the accountant",
    "networks.layer_slices": "bookkeeping",
    "networks.mean_gradient": "bookkeeping",
    "networks.per_sample_gradients": "bookkeeping",
    "networks.sample_loss": "bookkeeping",
    "networks.small_tanh_cnn": "usual in DP-SGD studies, of none of the five papers",
    "networks.small_colour_cnn": "the same for colour images",
    "measure.MeasureSettings": "measure_gradient names the sources",
    "measure.Moment": "each row has the ids of its claims",
    "measure.Result": "each row has the ids of its claims",
    "measure.Row": "has a field for the ids of its claims",
    "measure.Snapshot": "gradients of DP-SGD",
    "measure.ValidateSettings": "each row has the ids of its claims",
    "measure.measure_instrument": "an instrument names the claim of each of its figures",
    "measure.prepare": "a run of DP-SGD",
    "measure.row_table": "presentation",
    "measure.snapshots": "a run of DP-SGD",
    "measure.summary": "presentation",
    "measure.to_dict": "presentation",
    "measure.validate": "each row has the ids of its claims",
    "measure.validate_images": "each row has the ids of its claims",
    "measure.write_figure": "presentation",
    "measure.write_json": "presentation",
}
"""Without a claim behind them."""
ALSO_SOURCED = (
    "engine.AllocatedBatches",
    "engine.GeneratorBatches",
    "engine.PartitionBatches",
    "engine.PoissonBatches",
    "engine.PrivacyAccountant",
    "engine.SecureBatches",
    "runs.DpSgdSettings",
    "runs.parameter_groups",
)

SHOWN_BY = {
    "engine.BudgetError": "engine.PrivacyAccountant",
    "measure.prepare": "measure.snapshots",
    "measure.row_table": "measure.Result",
    "measure.to_dict": "measure.Result",
    "measure.write_json": "measure.Result",
    "measure.summary": "measure.Result",
}
"""What stands in the example of another name."""

WITHOUT_EXAMPLE = {
    "dptheory.checks.Check": "a protocol",
    "dptheory.checks.Check.run": "a protocol",
    "dptheory.checks.CertificateCheck": "needs PEPit and seconds; the checks of rs.thm3.2 and lf.lem3.1 are examples",
    "dptheory.checks.worst_case": "needs PEPit and seconds",
    "dptheory.claims.write_pages": "writes files: `dptheory pages` shows it",
    "audits.quick": "nearly a minute",
    "audits.report": "nearly a minute",
    "audits.thorough": "minutes",
    "data.DataFileError": "an error, raised for a damaged file",
    "data.DataMissingError": "an error, raised without a network",
    "engine.DistributedMechanismOptimizer": "several processes; make_private makes it",
    "engine.MechanismOptimizer": "make_private makes it, and shows its use",
    "engine.PoissonSampler": "make_private makes it, and shows its use",
    "mechanisms.AnchorSource": "AnchorGradients is one, and shows its use",
    "measure.LinearGradient": "a part of a snapshot",
    "measure.Moment": "a part of what validate gives",
    "measure.Snapshot": "what snapshots gives",
    "measure.measure_instrument": "minutes of training",
    "measure.validate": "three seconds for the smallest",
    "measure.validate_images": "three seconds for the smallest",
    "measure.write_figure": "drawing takes seconds",
    "studies.ComparisonResult": "what compare gives",
    "studies.Difference": "what paired_difference gives",
    "studies.Equivalence": "what equivalence gives",
    "runs.MechanismSetting": "what build_mechanism takes, and shows its use",
    "studies.Measuring": "a part of what read_instrument gives",
    "studies.Outcome": "what sweep gives",
    "runs.Run": "what prepare gives",
    "studies.Standing": "what standing gives",
    "studies.Study": "what study_from_dict gives",
}


# --- what is held: each gives the faults of one docstring -------------------------------------------------------------------


def _doc(value: Any) -> str:
    return inspect.cleandoc((vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__) or "")


def _parameters(value: Any) -> set[str]:
    """Names of the arguments; none of protocols and errors, whose constructors nobody here wrote."""
    if inspect.isclass(value) and (
        issubclass(value, BaseException) or value.__init__ is object.__init__ or getattr(value, "_is_protocol", False)
    ):
        return set()
    skip = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {p.name for p in inspect.signature(value).parameters.values() if p.kind not in skip} - {"self"}


def formula(name: str, value: Any, doc: str) -> bool:
    """A mechanism has one."""
    concrete = inspect.isclass(value) and issubclass(value, Mechanism) and not inspect.isabstract(value)
    return ":math:" in doc or not concrete


def arguments(name: str, value: Any, doc: str) -> bool:
    parts = sections(doc)
    args, attributes, wanted = named(parts.get("Args", "")), named(parts.get("Attributes", "")), _parameters(value)
    return wanted <= args | attributes and args <= wanted and (bool(args) or attributes <= wanted)


def results(name: str, value: Any, doc: str) -> bool:
    returns = not inspect.isclass(value) and inspect.signature(value).return_annotation not in (None, "None")
    return ("Returns" in sections(doc)) == returns


def errors(name: str, value: Any, doc: str) -> bool:
    """Where it raises more than that a value must be in its range, which ``dptheory.errors`` says of all."""
    said = sections(doc).get("Raises")
    kinds = named(said or "")
    raised = set() if inspect.isclass(value) else set(re.findall(r"raise (\w+)\(", inspect.getsource(value)))
    shown = all(map(_is_error, kinds)) and bool(kinds) == (said is not None) and not only_a_range(said or "")
    return shown and (said is not None or raised <= {"ArgumentError"})


def _is_error(name: str) -> bool:
    kind = getattr(builtins, name, None) or getattr(dptheory.training.data, name, None)
    kind = kind or getattr(dptheory.errors, name, None)
    return inspect.isclass(kind) and issubclass(kind, BaseException)


_ID = re.compile(r"\b(?:rf|rs|lf|gep|gip)\.[A-Za-z]\w*(?:[.-]\w+)*")


def sources(name: str, value: Any, doc: str) -> bool:
    """Ids of claims, each with its paper."""
    text = sections(doc).get("Source", "")
    if name in OF_NO_PAPER or (PLUMBING.match(name) and name not in ALSO_SOURCED):
        return name.startswith("dptheory.") or not text
    found = _ID.findall(text)
    return bool(found) and all(re.search(rf"\b{id.split('.')[0].upper()}\b", text) for id in found)


def ids(name: str, value: Any, doc: str) -> bool:
    """They are in the ledger; names of printed settings and tables look alike."""
    return name.startswith("dptheory.papers.") or set(_ID.findall(doc.split("Example:")[0])) <= LEDGER


def example(name: str, value: Any, doc: str) -> bool:
    """It stands last, after a sentence; in the theory it uses what it is of, and shows a result."""
    given, parts = parsed(doc, name, {}).examples, sections(doc)
    if name in SHOWN_BY:
        return not given and name.split(".")[1] in sections(_doc(PUBLIC[SHOWN_BY[name]]))["Example"]
    if name in WITHOUT_EXAMPLE:
        return not given
    code = "".join(one.source for one in given)
    shows = any(one.want for one in given) and re.search(rf"\b{name.rsplit('.', 1)[1]}\b", code)
    last = list(parts)[-1] == "Example" and parts["Example"].split("\n")[0].endswith((".", "?"))
    return bool(given) and last and bool(shows or not name.startswith("dptheory."))


Check = Callable[[str, Any, str], bool]
CHECKS: tuple[Check, ...] = (formula, arguments, results, errors, sources, ids, example)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_public_name_has_the_part(check: Check) -> None:
    assert [name for name in sorted(PUBLIC) if not check(name, PUBLIC[name], _doc(PUBLIC[name]))] == []


@every(sorted(RECORDS))
def test_every_field_of_a_record_is_described_and_no_other(name: str) -> None:
    parts = sections(_doc(RECORDS[name]))
    described = parts.get("Attributes") or parts.get("Args", "")
    assert named(described) == {field.name for field in dataclasses.fields(RECORDS[name])}


def test_lists_of_exceptions_name_what_is_there() -> None:
    lists = (OF_NO_PAPER, SHOWN_BY, WITHOUT_EXAMPLE)
    assert {name for one in lists for name in one} | set(ALSO_SOURCED) <= set(PUBLIC)
    assert not set(SHOWN_BY) & set(WITHOUT_EXAMPLE)


_SPECIMENS = ("mechanisms.RandomSparsification", "mechanisms.largest_entries")


@pytest.mark.parametrize("name", _SPECIMENS)
@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        (formula, ":math:", ""),
        (arguments, r"^    drop_rate: ", "    rate: "),
        (arguments, r"^    drop_rate:.*?(?=^    \w+:|^$)", ""),
        (results, "^Returns:", "Gives:"),
        (errors, r"^    \w+Error: .*?$", "    ValueError: a rate outside its range."),
        (errors, "ValueError", "ValuError"),
        (sources, "^Source:.*?$", ""),
        (ids, r"(r[fs])\.(alg\w*|density)", r"\1.nothing"),
        (sources, "RF", "GIP"),
        (example, ">>>", "$"),
        (example, r"^Example: [^\n]*$", "Example:"),
        (example, r"\Z", "\n\nAttributes: after the example"),
    ],
)
def test_a_fault_in_a_docstring_is_seen(name: str, check: Check, old: str, new: str) -> None:
    value, doc = PUBLIC[name], _doc(PUBLIC[name])
    broken = re.sub(old, new, doc, flags=re.MULTILINE | re.DOTALL)
    part_of_functions_alone = check is results and inspect.isclass(value)
    part_of_mechanisms_alone = check is formula and not inspect.isclass(value)
    assert check(name, value, doc)
    assert not check(name, value, broken) or part_of_functions_alone or part_of_mechanisms_alone


class Quiet(Protocol):
    """Has no arguments of its own."""

    def method(self, one: int) -> None: ...


def test_what_has_no_arguments() -> None:
    assert (
        _parameters(Quiet)
        == _parameters(dptheory.training.data.DataFileError)
        == _parameters(PUBLIC["mechanisms.NoisySgd"])
        == set()
    )
    assert "optimizer" in _parameters(PUBLIC["engine.DistributedMechanismOptimizer"])


def _reachable(reference: str, one: Callable[..., Any]) -> bool:
    target = reference.lstrip("~.")
    if target.startswith("dptheory."):
        return any(
            target == f"{module.__name__}.{found}" for module in _PACKAGES for found in dir(module)
        ) or target in {
            *THEORY,
            *(module.__name__ for module in _PACKAGES),
        }
    package = ".".join(one.__module__.split(".")[:2])
    owner = one.__qualname__.split(".")[0]
    if reference.startswith("."):
        return any(hasattr(module, target) for module in _PACKAGES)
    rooms = [module.__name__ for module in _PACKAGES if f"{module.__name__}.".startswith(f"{package}.")]
    return any(f"{name}.{target}" in THEORY or f"{name}.{owner}.{target}" in THEORY for name in rooms) or any(
        module.__name__ == package and hasattr(module, target.split(".")[0]) for module in _PACKAGES
    )


@every(sorted(THEORY))
def test_references_lead_somewhere(name: str) -> None:
    one = THEORY[name]
    references = re.findall(r":(?:func|meth|class):`([\w.~]+)`", inspect.getdoc(one) or "")
    assert [reference for reference in references if not _reachable(reference, one)] == []


# --- the examples -------------------------------------------------------------------------------------------------------

_SHOWN = {_doc(value) for value in PUBLIC.values()}
_TEXTS = [*sources_with_examples(ROOT / "dptheory"), *sources_with_examples(ROOT / "training")]
_ALONE = {text for _, _, text in _TEXTS} & _SHOWN
"""With nothing but builtins around it; that of a private part of the theory has its module."""


@pytest.mark.parametrize("module", sorted({module for module, _, _ in _TEXTS}))
def test_the_examples_of_a_module_give_what_they_say(module: str) -> None:
    said = {}
    for found, name, text in _TEXTS:
        if found == module:
            alone = text in _ALONE or module.startswith("training.")
            said[name] = complaints(parsed(text, name, {} if alone else vars(importlib.import_module(module))))
    assert {name: one for name, one in said.items() if one} == {}


def test_no_example_of_a_public_name_is_left_out() -> None:
    assert {text for text in _SHOWN if ">>> " in text} <= {text for _, _, text in _TEXTS}
