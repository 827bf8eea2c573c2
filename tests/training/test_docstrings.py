"""Every public name of training says what it computes, takes, gives and refuses, where it is from, and shows how it is used."""

import builtins
import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

import dptheory.training.data
from dptheory.claims import all_claims
from dptheory.training.mechanisms import Mechanism
from tests.examples import complaints, named, only_a_range, parsed, sections, sources_with_examples

ROOT = Path(__file__).parents[2]
LEDGER = {claim.id for claim in all_claims()}
ROOMS = ("audits", "data", "engine", "measure", "mechanisms", "networks", "runs", "studies")


def _public() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for room in ROOMS:
        package = importlib.import_module(f"training.{room}")
        for name in package.__all__:
            value = getattr(package, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                found[f"{room}.{name}"] = value
    return found


PUBLIC = _public()
NAMES = sorted(PUBLIC)

# --- what need not have a part, and why -----------------------------------------------------------------------------------

SOURCED_ROOMS = ("measure", "mechanisms", "networks")
OF_NO_PAPER = {
    "networks.mlp": "for the benchmarks of a step",
    "mechanisms.Checked": "sees that a schedule keeps its range",
    "mechanisms.Constant": "one value",
    "mechanisms.Contribution": "what a batch hands to the optimizer",
    "mechanisms.Mechanism": "what the algorithms share",
    "mechanisms.Schedule": "what schedules share",
    "mechanisms.StepCost": "what a step hands to the accountant",
    "networks.layer_slices": "bookkeeping",
    "networks.loss_hessian": "bookkeeping",
    "networks.mean_gradient": "bookkeeping",
    "networks.per_sample_gradients": "bookkeeping",
    "networks.sample_loss": "bookkeeping",
    "networks.small_tanh_cnn": "usual in DP-SGD studies, of none of the five papers",
    "networks.small_colour_cnn": "the same for colour images",
    "measure.MeasureSettings": "measure_gradient names the sources",
    "measure.ProbeSettings": "run_probe names the sources",
    "measure.Result": "each row has the ids of its claims",
    "measure.Row": "has a field for the ids of its claims",
    "measure.Snapshot": "gradients of DP-SGD",
    "measure.ValidateSettings": "each row has the ids of its claims",
    "measure.fit_table": "presentation",
    "measure.measure_instrument": "an instrument names the claim of each of its figures",
    "measure.prepare": "a run of DP-SGD",
    "measure.row_table": "presentation",
    "measure.snapshots": "a run of DP-SGD",
    "measure.spread_steps": "bookkeeping",
    "measure.summary": "presentation",
    "measure.to_dict": "presentation",
    "measure.validate": "each row has the ids of its claims",
    "measure.validate_images": "each row has the ids of its claims",
    "measure.write_figure": "presentation",
    "measure.write_gradients": "presentation",
    "measure.write_json": "presentation",
}
ALSO_SOURCED = (
    "engine.AllocatedBatches",
    "engine.GeneratorBatches",
    "engine.PartitionBatches",
    "engine.PoissonBatches",
    "engine.PrivacyAccountant",
    "engine.SecureBatches",
    "runs.DpSgdSettings",
    "runs.Step",
    "runs.dp_sgd",
    "runs.parameter_groups",
)

SHOWN_BY = {
    "engine.BudgetError": "engine.PrivacyAccountant",
    "measure.fit_table": "measure.run_probe",
    "measure.prepare": "measure.snapshots",
    "measure.row_table": "measure.Result",
    "measure.to_dict": "measure.run_probe",
    "measure.write_gradients": "measure.run_probe",
    "measure.write_json": "measure.run_probe",
    "measure.summary": "measure.Result",
}
"""What stands in the example of another name."""

WITHOUT_EXAMPLE = {
    "audits.quick": "nearly a minute",
    "audits.report": "nearly a minute",
    "audits.thorough": "minutes",
    "data.DataFileError": "an error, raised for a damaged file",
    "data.DataMissingError": "an error, raised without a network",
    "engine.DistributedMechanismOptimizer": "several processes; make_private makes it",
    "engine.MechanismOptimizer": "make_private makes it, and shows its use",
    "engine.PoissonSampler": "make_private makes it, and shows its use",
    "mechanisms.AnchorSource": "AnchorGradients is one, and shows its use",
    "measure.Fit": "a part of what measure_gradient gives",
    "measure.LinearGradient": "what linear_gradient gives",
    "measure.Moment": "a part of what run_probe gives",
    "measure.Snapshot": "what snapshots gives",
    "measure.ProbeSettings": "what the result of run_probe holds",
    "measure.linear_attack": "takes its budget of seconds to decide",
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
    "runs.Step": "what dp_sgd gives",
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
    return {p.name for p in inspect.signature(value).parameters.values() if p.kind not in skip}


def formula(name: str, value: Any, doc: str) -> bool:
    """A mechanism has one."""
    concrete = inspect.isclass(value) and issubclass(value, Mechanism) and not inspect.isabstract(value)
    return ":math:" in doc or not concrete


def arguments(name: str, value: Any, doc: str) -> bool:
    parts = sections(doc)
    args, attributes, wanted = named(parts.get("Args", "")), named(parts.get("Attributes", "")), _parameters(value)
    return wanted <= args | attributes and args <= wanted and (bool(args) or attributes <= wanted)


def results(name: str, value: Any, doc: str) -> bool:
    return inspect.isclass(value) or (inspect.signature(value).return_annotation is not None) == (
        "Returns" in sections(doc)
    )


def errors(name: str, value: Any, doc: str) -> bool:
    """Where it raises more than that a value must be in its range, which ``dptheory.errors`` says of all."""
    said = sections(doc).get("Raises")
    kinds = named(said or "")
    return all(map(_is_error, kinds)) and bool(kinds) == (said is not None) and not only_a_range(said or "")


def _is_error(name: str) -> bool:
    kind = getattr(builtins, name, None) or getattr(dptheory.training.data, name, None)
    return inspect.isclass(kind) and issubclass(kind, BaseException)


def sources(name: str, value: Any, doc: str) -> bool:
    """Ids of claims that are in the ledger, each with its paper."""
    text = sections(doc).get("Source", "")
    wanted = (name.split(".")[0] in SOURCED_ROOMS and name not in OF_NO_PAPER) or name in ALSO_SOURCED
    claims = re.findall(r"\b(rf|rs|lf|gep|gip)\.([\w.-]+\w)", text)
    return wanted == bool(claims) == bool(text) and all(
        f"{paper}.{claim}" in LEDGER and re.search(rf"\b{paper.upper()}\b", text) for paper, claim in claims
    )


def example(name: str, value: Any, doc: str) -> bool:
    """It stands last, after a sentence; that it stands alone is seen where it runs."""
    given = ">>> " in doc
    if name in SHOWN_BY:
        return not given and name.split(".")[1] in sections(_doc(PUBLIC[SHOWN_BY[name]]))["Example"]
    last = list(sections(doc))[-1] == "Example" and sections(doc)["Example"].split("\n")[0].endswith((".", "?"))
    return given == last == (name not in WITHOUT_EXAMPLE)


Check = Callable[[str, Any, str], bool]
CHECKS: tuple[Check, ...] = (formula, arguments, results, errors, sources, example)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_public_name_has_the_part(check: Check) -> None:
    assert [name for name in NAMES if not check(name, PUBLIC[name], _doc(PUBLIC[name]))] == []


def test_lists_of_exceptions_name_what_is_there() -> None:
    lists = (OF_NO_PAPER, SHOWN_BY, WITHOUT_EXAMPLE)
    assert {name for one in lists for name in one} | set(ALSO_SOURCED) <= set(PUBLIC)
    assert not set(SHOWN_BY) & set(WITHOUT_EXAMPLE)
    assert {name.split(".")[0] for name in OF_NO_PAPER} <= set(SOURCED_ROOMS)


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
        (sources, r"(r[fs])\.(alg\w*|density)", r"\1.nothing"),
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


EXAMPLES = {f"{module}.{name}": text for module, name, text in sources_with_examples(ROOT / "training")}


@pytest.mark.parametrize("module", sorted({name.rpartition(".")[0] for name in EXAMPLES}))
def test_the_examples_of_a_module_give_what_they_say(module: str) -> None:
    texts = {name: text for name, text in EXAMPLES.items() if name.rpartition(".")[0] == module}
    said = {name: complaints(parsed(text, name, {})) for name, text in texts.items()}
    assert {name: one for name, one in said.items() if one} == {}


def test_no_example_of_a_public_name_is_left_out() -> None:
    shown = {name for name in NAMES if ">>> " in _doc(PUBLIC[name])}
    assert {_doc(PUBLIC[name]) for name in shown} <= set(EXAMPLES.values())
