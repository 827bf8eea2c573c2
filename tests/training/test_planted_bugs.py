"""The bugs of a review, and of factors: which statements of the audit refuse each of them, and which tests fail with it."""

import contextlib
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dptheory.cli import app
from dptheory.training.audits import Finding, _attacks, _cases, _draws, _measure, _runs, _suite
from tests.training import reviewed_bugs as bugs
from tests.training.bugs import Bug

CASES = {case.name: case for case in _cases.cases()}
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG")

Part = Callable[[Path], list[Finding]]
"""A part of the audit, in a folder for its files."""


def of_case(name: str, secure: bool = False) -> Part:
    """The training of a mechanism, without the trainings that lack an example."""
    return lambda folder: _measure.measure(CASES[name], _suite.plan(0, secure), 0)


def sensitivity_of(name: str) -> Part:
    return lambda folder: _measure.sensitivity(CASES[name], replace(_suite.plan(0), epochs=1), 0)


def small_batches(folder: Path) -> list[Finding]:
    return _measure.measure(CASES["DP-SGD"], _suite.small_batches(0), 0)


def batches_of_runs(folder: Path) -> list[Finding]:
    found = []
    for secure in (False, True):
        table = dict(batch_size=1300, clip_norm=1.0, noise_multiplier=1.0, delta=1e-5, seed=3, learning_rate=1.0)
        path = folder / f"{secure}.toml"
        path.write_text(_runs._TABLE.format(**table, secure=str(secure).lower(), mechanism='name = "dp-sgd"'))
        found += _draws.run(path, secure)
    return found


def in_process(arguments: Sequence[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        app(list(arguments), standalone_mode=False)


def sampling_of_runs(folder: Path) -> list[Finding]:
    return _runs.sampling(in_process, folder / "run")


def both_loaders(folder: Path) -> list[Finding]:
    return [*_draws.loader(0), *_draws.loader(0, secure=True)]


def fine_rates(folder: Path) -> list[Finding]:
    return _draws.fine_rates(0)


def bits(folder: Path) -> list[Finding]:
    return _draws.secure_bits()


def resumes(folder: Path) -> list[Finding]:
    return _attacks.resumed(_suite.plan(0))


def going_back(folder: Path) -> list[Finding]:
    return _attacks.gone_back(_suite.plan(0))


def layers(folder: Path) -> list[Finding]:
    return _suite.layers(0)


def views(folder: Path) -> list[Finding]:
    return _suite.views(0)


def moved(name: str) -> set[str]:
    return {f"{name}: sensitivity to an example {how}" for how in ("zeroed", "taken out")}


HERE = Path(__file__).parent
LAW = "law of batch sizes"
LAW_OF_A_RUN = "test_batches_of_a_run_follow_the_law_where_their_size_does_not_divide_the_images"
AGAIN_AND_AGAIN = "test_a_run_that_goes_on_again_and_again_counts_every_step_and_release"
OF_ITS_OWN = "test_dp_sgd_adds_noise_of_its_own_to_each_tensor_of_this_step_alone"
OF_TENSORS = "test_operations_are_those_of_the_tensors"
SUBSETS = "test_every_subset_of_four_records_has_its_chance"
AUDITED: list[tuple[Bug, Part, set[str]]] = [
    (bugs.empty_batches_not_recorded, small_batches, {"DP-SGD: steps", "DP-SGD: epsilon"}),
    (bugs.selection_costs_what_the_first_one_did, of_case("index pruning, share that moves"),
     {"index pruning, share that moves: epsilon of the choices"}),
    (bugs.fresh_mask_costs_what_the_first_one_did, of_case("posterior freeze, share that moves", secure=True),
     {"posterior freeze, share that moves: epsilon"}),
    (bugs.batches_of_fixed_size_in_runs, batches_of_runs,
     {f"batches of dptheory run: {LAW}", f"batches of dptheory run, secure: {LAW}"}),
    (bugs.batches_of_fixed_size_in_the_steps_of_runs, sampling_of_runs, {"dptheory run: batches"}),
    (bugs.loader_at_a_rate_of_whole_steps, both_loaders,
     {f"loader of make_private{kind}: {what}" for kind in ("", ", secure") for what in ("sampling rate", LAW)}),
    (bugs.runs_at_a_rate_of_whole_steps, batches_of_runs,
     {f"batches of dptheory run{kind}: {what}" for kind in ("", ", secure") for what in ("sampling rate", LAW)}),
    (bugs.runs_at_a_rate_of_whole_steps, sampling_of_runs, {"dptheory run: sampling rate"}),
    (bugs.batches_in_single_precision, fine_rates, {"batches of a generator: rate 1e-12", "batches of a seed: rate 1e-12"}),
    (bugs.secure_rate_of_sixteen_bits, fine_rates, {"secure batches: rate 2.29e-05"}),
    (bugs.repeats_not_drawn_again, both_loaders,
     {f"loader of make_private{kind}: {what}" for kind in ("", ", secure") for what in ("sampling rate", LAW)}),
    (bugs.size_is_its_mean, both_loaders, {f"loader of make_private{kind}: {LAW}" for kind in ("", ", secure")}),
    (bugs.last_record_never_drawn, both_loaders,
     {f"loader of make_private{kind}: each record" for kind in ("", ", secure")}),
    (bugs.held_mask_amplifies, of_case("posterior freeze, mask held", secure=True), {"posterior freeze, mask held: epsilon"}),
    (bugs.state_of_the_last_two_processes, resumes, {"three resumes: steps", "three resumes: epsilon"}),
    (bugs.releases_lost_on_resume, resumes, {"three resumes: releases", "three resumes: epsilon"}),
    (bugs.going_back_repeats_noise, going_back, {"going back: fresh noise"}),
    (bugs.one_noise_for_all_tensors, of_case("DP-SGD"), {"DP-SGD: fresh noise"}),
    (bugs.noise_behind_another_mask, of_case("random sparsification"), {"random sparsification: entries of each step"}),
    (bugs.momentum_before_noise, of_case("DP-SGD"), {"DP-SGD: noise"}),
    (bugs.ranking_noise_without_the_clip, of_case("top-k of noisy magnitudes"),
     {"top-k of noisy magnitudes: choice of entries"}),
    (bugs.secure_normal_of_few_bits, bits, {"secure noise: bits"}),
    (bugs.nothing_ranks_what_is_masked, of_case("ranked sparsification"), {"ranked sparsification: entries that come back"}),
    (bugs.divisor_by_the_drawn_batch, of_case("DP-SGD"), {"DP-SGD: noise of each step"}),
    (bugs.clipped_by_the_largest_layer, sensitivity_of("DP-SGD"), moved("DP-SGD")),
    (bugs.layers_clipped_to_the_whole_clip, sensitivity_of("clipping by layer"), moved("clipping by layer")),
    (bugs.normalised_layer_by_layer, sensitivity_of("automatic clipping"), moved("automatic clipping")),
    (bugs.count_without_noise, of_case("adaptive clipping"), {"adaptive clipping: noise on the count"}),
    (bugs.count_that_nothing_is_paid_for, of_case("adaptive clipping"), {"adaptive clipping: noise"}),
    (bugs.count_of_zeros_and_ones, of_case("adaptive clipping"), {"adaptive clipping: noise on the count"}),
    (bugs.zero_gradients_vote, sensitivity_of("adaptive clipping"), {"adaptive clipping: sensitivity to an example zeroed"}),
    (bugs.mask_dropped_in_the_norm, layers, {"random sparsification, layers: noise"}),
    (bugs.factors_of_another_batch, layers, {f"{name}, layers: noise" for name in ("DP-SGD", "random sparsification")}),
    (bugs.views_clipped_apart, views, moved("DP-SGD, views") | moved("random sparsification, views")),
    (bugs.norm_without_the_bias, layers, moved("DP-SGD, layers") | moved("random sparsification, layers")),
    (bugs.frozen_layers_count_in_the_clip, of_case("layer freezing"), {"layer freezing: noise"}),
    (bugs.cooling_one_step_early, of_case("random sparsification, cooling"),
     {"random sparsification, cooling: entries of each step"}),
    (bugs.freezing_one_step_late, of_case("layer freezing"), {"layer freezing: entries of each step"}),
    (bugs.residual_not_clipped, of_case("GEP, optimal split"), {"GEP, optimal split: noise"}),
    (bugs.residual_clipped_by_its_largest_tensor, sensitivity_of("GEP, optimal split"), moved("GEP, optimal split")),
    (bugs.joint_split_for_the_clip_itself, of_case("GEP, joint clipping"), {"GEP, joint clipping: noise"}),
    (bugs.private_batch_among_the_anchors, of_case("B-GEP"), {"B-GEP: what is public"}),
]  # fmt: skip


def words(value: object) -> str:
    return getattr(value, "__name__", "")


@pytest.mark.parametrize(("bug", "part", "expected"), AUDITED, ids=words)
def test_the_audit_refuses(
    bug: Bug, part: Part, expected: set[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bug(monkeypatch)
    if not any("sensitivity" in name for name in expected):  # which alone trains without an example
        monkeypatch.setattr(_measure, "sensitivity", lambda *_: [])
    assert expected <= {one.name for one in part(tmp_path) if not one.passed}


PARTS = {part for _, part, _ in AUDITED if part.__name__ != "<lambda>"} - {layers, views, sampling_of_runs}


@pytest.mark.parametrize("part", sorted(PARTS, key=words), ids=words)
def test_without_a_bug_the_same_parts_refuse_nothing(part: Part, tmp_path: Path) -> None:
    """Trainings of the mechanisms, on layers, of views and of the command line are looked at in test_suite.py."""
    assert [one for one in part(tmp_path) if not one.passed] == []


TESTED: list[tuple[Bug, str]] = [
    (bugs.empty_batches_not_recorded, "engine/test_optimizer.py::test_empty_batch_adds_noise_only"),
    (bugs.selection_costs_what_the_first_one_did,
     "mechanisms/test_masks.py::test_every_step_costs_what_its_own_share_does"),
    (bugs.fresh_mask_costs_what_the_first_one_did,
     "mechanisms/test_masks.py::test_every_fresh_mask_costs_what_it_keeps"),
    (bugs.batches_of_fixed_size_in_runs, f"runs/test_prepare.py::{LAW_OF_A_RUN}[False]"),
    (bugs.batches_of_fixed_size_in_the_steps_of_runs,
     "runs/test_train.py::test_a_run_is_its_algorithm_written_out[small-cnn-dp-sgd]"),
    (bugs.loader_at_a_rate_of_whole_steps,
     "engine/test_private.py::test_the_loader_draws_with_the_reported_rate[30-7-False]"),
    (bugs.runs_at_a_rate_of_whole_steps, f"runs/test_prepare.py::{LAW_OF_A_RUN}[True]"),
    (bugs.batches_in_single_precision, "engine/test_sampling.py::test_small_rates_are_not_rounded[PoissonBatches]"),
    (bugs.secure_rate_of_sixteen_bits, "engine/test_sampling.py::test_small_rates_are_not_rounded[SecureBatches]"),
    (bugs.repeats_not_drawn_again, f"engine/test_sampling.py::{SUBSETS}[0.5-secure]"),
    (bugs.size_is_its_mean, f"engine/test_sampling.py::{SUBSETS}[0.15-resumed]"),
    (bugs.last_record_never_drawn, f"engine/test_sampling.py::{SUBSETS}[0.5-went on]"),
    (bugs.held_mask_amplifies, "engine/test_private.py::test_masks_used_again_never_amplify"),
    (bugs.budget_of_one_step_too_many, "engine/test_accountant.py::test_budget_is_used_up_and_kept[plain]"),
    (bugs.state_of_the_last_two_processes, f"engine/test_accountant.py::{AGAIN_AND_AGAIN}"),
    (bugs.releases_lost_on_resume, f"engine/test_accountant.py::{AGAIN_AND_AGAIN}"),
    (bugs.going_back_repeats_noise,
     "engine/test_private.py::test_a_run_that_goes_back_keeps_its_count_and_never_draws_its_noise_twice"),
    (bugs.one_noise_for_all_tensors, f"mechanisms/test_mechanisms.py::{OF_ITS_OWN}"),
    (bugs.momentum_before_noise, f"mechanisms/test_mechanisms.py::{OF_ITS_OWN}"),
    (bugs.noise_behind_another_mask,
     "mechanisms/test_mechanisms.py::test_the_release_is_the_total_plus_the_noise[random sparsification]"),
    (bugs.ranking_noise_without_the_clip,
     "mechanisms/test_mechanisms.py::test_noise_on_magnitudes_has_the_scale_of_the_clip"),
    (bugs.secure_normal_of_few_bits, "engine/test_sampling.py::test_each_is_half_a_sum_of_four"),
    (bugs.nothing_ranks_what_is_masked,
     "mechanisms/test_masks.py::test_ranking_sums_hold_releases_and_noise_where_nothing_left"),
    (bugs.divisor_by_the_drawn_batch, "engine/test_private.py::test_the_update_is_divided_by_the_callers_constant"),
    (bugs.clipped_by_the_largest_layer, "mechanisms/test_mechanisms.py::test_dp_sgd_and_ablations"),
    (bugs.mask_dropped_in_the_norm, f"per_example/test_per_example.py::{OF_TENSORS}[dense]"),
    (bugs.factors_of_another_batch, "per_example/test_layers.py::test_gradients_are_those_of_the_batch_at_hand[factors]"),
    (bugs.views_clipped_apart, "engine/test_records.py::test_equal_views_are_one_example[deep-plain]"),
    (bugs.norm_without_the_bias, "per_example/test_per_example.py::test_all_parameters_together"),
    (bugs.frozen_layers_count_in_the_clip,
     "mechanisms/test_masks.py::test_layers_are_frozen_from_the_stated_step_on[1]"),
    (bugs.cooling_one_step_early, "mechanisms/test_mechanisms.py::test_schedules_step_by_step"),
    (bugs.freezing_one_step_late,
     "mechanisms/test_masks.py::test_layers_are_frozen_from_the_stated_step_on[1]"),
    (bugs.residual_not_clipped, "mechanisms/test_mechanisms.py::test_gep_clips_both_parts[Gep]"),
    (bugs.residual_clipped_by_its_largest_tensor, "mechanisms/test_mechanisms.py::test_gep_clips_both_parts[Gep]"),
    (bugs.joint_split_for_the_clip_itself,
     "mechanisms/test_gep.py::test_the_release_is_the_totals_plus_the_noise[GepJoint-1.0]"),
    (bugs.private_batch_among_the_anchors,
     "mechanisms/test_gep.py::test_private_gradients_leave_the_bases_as_they_are[Gep]"),
    (bugs.layers_clipped_to_the_whole_clip,
     "mechanisms/test_clipping.py::test_no_example_adds_more_than_the_clip[LayerClipping]"),
    (bugs.normalised_layer_by_layer, "mechanisms/test_clipping.py::test_automatic_clipping_normalises_the_whole"),
    (bugs.count_without_noise, "mechanisms/test_clipping.py::test_a_step_by_hand"),
    (bugs.count_that_nothing_is_paid_for, "mechanisms/test_clipping.py::test_a_step_by_hand"),
    (bugs.count_of_zeros_and_ones, "mechanisms/test_clipping.py::test_a_step_by_hand"),
    (bugs.zero_gradients_vote, "mechanisms/test_clipping.py::test_an_empty_batch_votes_nothing"),
    (bugs.stale_anchors, "runs/test_build.py::test_embeddings[gep-Gep]"),
]  # fmt: skip


def ends_with(test: str) -> int:
    """The exit code of pytest on one test, in this process: 0 where it passes, 1 where it fails."""
    with contextlib.redirect_stdout(io.StringIO()):
        return int(pytest.main([str(HERE / test), "-q", "-n0", "-p", "no:cacheprovider"]))


@pytest.mark.parametrize(("bug", "test"), TESTED, ids=words)
def test_a_test_fails(bug: Bug, test: str) -> None:
    """And passes without the bug; its module is there before, so that the bug stays in none of its names."""
    assert ends_with(test) == 0
    with pytest.MonkeyPatch.context() as patch:
        bug(patch)
        assert ends_with(test) == 1


def test_every_planted_bug_is_seen() -> None:
    """By a test each, and by the audit all but those that it does not reach or that change nothing of what a run spends."""
    planted = {
        thing
        for name, thing in vars(bugs).items()
        if getattr(thing, "__module__", "") == bugs.__name__ and callable(thing) and name[0] != "_"
    } - {bugs.FixedSize}
    assert {bug for bug, _ in TESTED} == planted and len(planted) == 43
    assert planted - {bug for bug, _, _ in AUDITED} == {
        bugs.budget_of_one_step_too_many,
        bugs.stale_anchors,
    }
