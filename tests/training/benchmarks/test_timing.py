"""The benchmarks run, and count right; with ``--slow``, memory stays bounded. No test asks how long anything takes."""

import dataclasses
import itertools
import json
import resource
from collections.abc import Callable
from functools import partial

import pytest
import torch
from typer.testing import CliRunner

from dptheory.training import runs
from dptheory.training.benchmarks import _calculators, _mechanisms
from dptheory.training.benchmarks.__main__ import app
from dptheory.training.benchmarks._timing import Case, compare
from dptheory.training.runs import _prepare, _train, from_dict
from tests.training.tiny import tiny_load

CPU = torch.device("cpu")

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def sleeper(self, *seconds: float) -> Callable[[], None]:
        """Work that takes the times in turn."""
        waits = itertools.cycle(seconds)

        def work() -> None:
            self.now += next(waits)

        return work


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("dptheory.training.benchmarks._timing.time", clock)
    return clock


def test_ratio_of_known_times(clock: Clock) -> None:
    found = compare(Case("half", clock.sleeper(1.0), clock.sleeper(2.0), target=0.5), 3)
    assert (found.seconds, found.against_seconds, found.ratio, found.repetitions) == (1.0, 2.0, 0.5, 3)
    assert found.met and not dataclasses.replace(found, target=0.499).met
    part = compare(Case("part", clock.sleeper(1.0), clock.sleeper(1.0), 0.2, against_times=10), 3)
    assert (part.ratio, part.against_seconds) == (0.1, 10.0)


def test_the_first_round_does_not_count_and_the_median_does(clock: Clock) -> None:
    case = Case("first", clock.sleeper(100.0, 1.0, 2.0, 9.0), clock.sleeper(1.0), target=1.0)
    assert compare(case, 3).ratio == 2.0
    waited = compare(Case("device", clock.sleeper(1.0), clock.sleeper(1.0), 1.0), 3, finish=clock.sleeper(0.0, 3.0))
    assert waited.seconds == 4.0  # what the device still had to do belongs to the work


def test_long_work_is_done_less_often(clock: Clock) -> None:
    assert compare(Case("long", clock.sleeper(1.0), clock.sleeper(1.0), 1.0, rounds=2), 15).repetitions == 2
    assert compare(Case("long", clock.sleeper(1.0), clock.sleeper(1.0), 1.0, rounds=20), 15).repetitions == 15


def test_command_line(tmp_path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    def sleep(device: torch.device) -> Case:
        return Case("sleep", clock.sleeper(1.0), clock.sleeper(10.0), 0.5)

    monkeypatch.setattr(_mechanisms, "CASES", (sleep,))
    monkeypatch.setattr(_calculators, "CASES", (sleep,))
    done = CliRunner().invoke(app, ["--repetitions", "2", "--out", str(tmp_path / "b.json"), "--device", "cpu"])
    assert done.exit_code == 0, done.output
    written = json.loads((tmp_path / "b.json").read_text())
    assert [found["met"] for found in written["comparisons"]] == [True, True]
    assert set(written["versions"]) == {"python", "torch", "opacus"}


@pytest.mark.parametrize(
    "build",
    [
        partial(_calculators.kappa, dim=30),
        partial(_calculators.best_rate, dim=15),
        *(build for build in _calculators.CASES if build not in (_calculators.kappa, _calculators.best_rate)),
    ],
)
def test_calculators_can_be_timed(build) -> None:
    build(CPU).work()


@pytest.mark.slow
def test_memory_depends_on_the_physical_batch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """WRN-16-4, a logical batch of 96 in physical ones of 16: after two of them the peak stays where it is."""
    monkeypatch.setattr(_prepare, "load", tiny_load)
    table = {
        "data": "cifar-10", "model": "wrn-16-4", "epochs": 1, "batch_size": 96, "physical_batch_size": 16,
        "max_grad_norm": 1.0, "noise_multiplier": 1.0,
        "mechanism": {"name": "index-pruning", "keep_share": 0.1, "index_epsilon": 0.01},
    }  # fmt: skip
    run = runs.prepare(from_dict(table), CPU)
    peaks = []
    backward = _train._backward

    def watched(run: runs.Run, part: torch.Tensor) -> float:
        loss = backward(run, part)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
        return loss

    monkeypatch.setattr(_train, "_backward", watched)
    _train.one_step(run)
    assert len(peaks) >= 4 and peaks[-1] < 12
    assert peaks[-1] - peaks[1] < 0.25
