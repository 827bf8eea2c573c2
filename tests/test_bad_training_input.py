"""What users of ``dptheory.training`` call answers bad input as the calculators do: see ``tests/test_bad_input.py``."""

import inspect
import re
from collections.abc import Iterator

import pytest
import torch

import dptheory.training
from tests.calls.judgement import limits, outcome
from tests.calls.number_kinds import narrow_numbers_change_nothing, nothing_is_calculated_with_as_given
from tests.calls.ranges import beyond, refused_ends
from tests.calls.training import CALLS
from tests.calls.walk import callables, failures, modules
from tests.every import every

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")

_NOT_PUBLIC = re.compile(r"dptheory\.training\.benchmarks")
_LEFT_OUT = re.compile(
    r"dptheory\.training\.(mechanisms\.[a-z]\w*"  # functions that mechanisms share
    r"|mechanisms\.\w+\.(attach|belong|leave|check_clip|begin_step|shared|contribute|release|end_step|cost|seeded|secured|streams"
    r"|factors|groups|kept|clip_of)"
    r"|per_example\..*"  # what mechanisms are handed, and the hooks that leave it: tests/training/per_example
    r"|[\w.]+\.(state_dict|load_state_dict|save_checkpoint|load_checkpoint)"  # what the optimizer calls, and checkpoints
    r"|mechanisms\.(AnchorSource|Schedule|Checked|Noise|Contribution|Mechanism|StepCost)(\..*)?"
    r"|engine\.(Distributed)?MechanismOptimizer(\.(?!epsilon|privacy|begin_batch)\w+)?"  # make_private makes it
    r"|engine\.((Batches|PoissonSampler|PrivacyReport).*"
    r"|active|place|first|summed|communicating|process_group)"  # parts of `dptheory run`: tests/training/engine
    r"|engine\.PrivacyEngine\.make_private\w*"  # hand their arguments on: tests/training/engine/test_privacy_engine.py
    r"|runs\.(read_config|from_dict|RunConfig\.as_dict)"  # a file's content: tests/training/runs/test_config.py
    r"|runs\.(build_(?!model)\w+|parameter_groups|Run(\..*)?|prepare|train|accuracy|DpSgdSettings\.stream)"
    r"|studies\.(Study|Places|Standing|Outcome|Lines|ComparisonResult)(\..*)?"  # what a study file holds, and what a sweep tells
    r"|runs\.(Auxiliary|MechanismSetting)(\..*)?"  # what builders are told: tests/training/runs/test_build.py
    r"|runs\.metrics|studies\.(read_study|study_from_dict|standing|sweep|show|compare)"  # tests/training/studies/test_sweep.py
    r"|studies\.write_answers"  # tests/training/studies/test_results.py
    r"|studies\.(Rerun|rerun|seconds_taken)"  # tests/training/studies/test_worker.py
    r"|runs\.write_(statement|weights)"  # tests/training/runs/test_checkpoint.py
    r"|studies\.(Instrument(\..*)?|Measuring|read_instrument|write_measured|code_that_counts)|runs\.one_step"
    # what a file of instruments holds, and parts of `dptheory instrument`: tests/training/measure
    r"|data\.(?!load)\w+.*|networks\.(scattering_features|layer_slices)"  # take what `load` gives
    r"|networks\.(sample_loss|per_sample_gradients|mean_gradient)"  # tests/training/test_networks.py
    r"|measure\.(measure_instrument|write_\w+|\w+_table|to_dict|summary|Moment|Result|Snapshot)(\..*)?"
    r"|measure\.(LinearGradient|attack|prepare|snapshots|validate|validate_images)(\..*)?"
    r"|measure\.ValidateSettings\.stream"  # all of them parts of `dptheory validate`
    r"|runs\.(images_of|own_network|own_records)"  # what files of the user's hold: tests/training/runs/test_own.py
    r"|planning\.(plan|Shipped\.records|Synthetic\.records)"  # tests/training/planning/test_plan.py
    r"|planning\.(Choice|MethodGain|Point|PrivateTuning|Range)(\..*)?"  # what a plan answers
    r"|audits\.(?!StepAudit\.run$)\w+.*"  # audits run what they are given
    r")"
)
_LARGE = {"dptheory.training.networks.linear_probe", "dptheory.training.runs.build_model"}
"""Weights for as many features as there may be need more memory than there is."""
_ALL = callables([one for one in modules(dptheory.training) if not _NOT_PUBLIC.fullmatch(one.__name__)], ())
CALLABLES = {name: value for name, value in _ALL.items() if not _LEFT_OUT.fullmatch(name)}


@pytest.fixture(autouse=True)
def _limits() -> Iterator[None]:
    with limits(), torch.random.fork_rng(devices=[]):
        yield


def test_every_public_callable_has_a_valid_call() -> None:
    assert set(CALLABLES) - set(CALLS) == set(), "public callables without a valid call in tests/calls"
    assert set(CALLS) - set(CALLABLES) == set(), "valid calls of what is not public"


@pytest.mark.parametrize("name", sorted(CALLS))
def test_the_valid_calls_name_every_argument_and_are_accepted(name: str) -> None:
    named = {argument for one in CALLS[name] for argument in one.made()}
    assert named == set(inspect.signature(CALLABLES[name]).parameters)
    for one in CALLS[name]:
        found = outcome(CALLABLES[name], one.made(), one.use)
        assert found.error is None, one.made()


@pytest.mark.parametrize("name", sorted(CALLS))
def test_bad_input(name: str) -> None:
    found = failures(CALLABLES[name], CALLS[name])
    assert not found, "\n".join([f"{len(found)} answers", *found[:40]])


@every(sorted(CALLS))
def test_a_number_next_to_its_documented_range_is_refused(name: str) -> None:
    assert [told for one in CALLS[name] for told in beyond(CALLABLES[name], one, CALLABLES)] == []


@every(sorted(set(CALLS) - _LARGE))
def test_the_ends_of_a_documented_range_are_accepted(name: str) -> None:
    assert [told for one in CALLS[name] for told in refused_ends(CALLABLES[name], one, CALLABLES)] == []


@every(sorted(CALLS))
def test_numbers_of_any_kind_give_what_plain_ones_give(name: str) -> None:
    for one in CALLS[name]:
        narrow_numbers_change_nothing(CALLABLES[name], one)
        nothing_is_calculated_with_as_given(CALLABLES[name], one)
