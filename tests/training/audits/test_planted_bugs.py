"""The bugs that a review planted: which statements of the audit refuse each of them, and which tests fail with it."""

import contextlib
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dptheory.cli import app
from dptheory.training.audits import Finding, _bits, _cases, _draws, _measure, _resumes, _runs, _suite
from tests.training import reviewed_bugs as bugs
from tests.training.bugs import Bug

CASES = {case.name: case for case in _cases.cases()}
HERE = "tests/training"

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
    return _bits.secure_bits()


def resumes(folder: Path) -> list[Finding]:
    return _resumes.resumed(_suite.plan(0))


def going_back(folder: Path) -> list[Finding]:
    return _resumes.gone_back(_suite.plan(0))


def moved(name: str) -> set[str]:
    return {f"{name}: sensitivity to an example {how}" for how in ("zeroed", "taken out")}


LAW = "law of batch sizes"
AUDITED: list[tuple[Bug, Part, set[str]]] = [
    (bugs.empty_batches_not_recorded, small_batches, {"DP-SGD: steps", "DP-SGD: epsilon"}),
    (bugs.selection_costs_what_the_first_one_did, of_case("index pruning, share that moves"),
     {"index pruning, share that moves: epsilon of the choices"}),
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
    assert expected <= {one.name for one in part(tmp_path) if not one.passed}


PARTS = {part for _, part, _ in AUDITED if part.__name__ != "<lambda>"}


@pytest.mark.parametrize("part", sorted(PARTS, key=words), ids=words)
def test_without_a_bug_the_same_parts_refuse_nothing(part: Part, tmp_path: Path) -> None:
    """Trainings of the mechanisms are looked at in test_suite.py."""
    assert [one for one in part(tmp_path) if not one.passed] == []
