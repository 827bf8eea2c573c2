"""The benchmarks run; with ``--slow`` they keep what they promise, with room for busy machines, and memory stays bounded."""

import json
import resource
import time

import pytest
import torch
from tiny import tiny_load
from typer.testing import CliRunner

from training import run as runs
from training.benchmarks import cases
from training.benchmarks.__main__ import app
from training.benchmarks.timing import Case, compare
from training.config import from_dict

CPU = torch.device("cpu")

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")


def test_ratio_of_known_times() -> None:
    found = compare(Case("half", lambda: time.sleep(0.01), lambda: time.sleep(0.02), target=0.9), 3)
    assert 0.3 < found.ratio < 0.8 and found.met and found.repetitions == 3
    part = compare(Case("part", lambda: time.sleep(0.01), lambda: time.sleep(0.01), 0.2, against_times=10), 3)
    assert part.ratio < 0.2 and part.against_seconds > 0.09


def test_command_line(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "CASES", (lambda device: Case("sleep", lambda: None, lambda: time.sleep(0.01), 0.5),))
    for case in cases.CASES:
        case.__name__ = "sleep"
    done = CliRunner().invoke(app, ["--repetitions", "2", "--out", str(tmp_path / "b.json"), "--device", "cpu"])
    assert done.exit_code == 0, done.output
    written = json.loads((tmp_path / "b.json").read_text())
    assert written["comparisons"][0]["met"] is True and set(written["versions"]) == {"python", "torch", "opacus"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "slack"),
    [
        (cases.random_sparsification, 1.2),
        (cases.masking, 2.0),
        (cases.layer_freezing, 1.0),
        (cases.index_sampling, 1.0),
        (cases.projection, 1.3),
    ],
)
def test_promised_ratios(build, slack: float) -> None:
    timing = compare(build(CPU), 7)
    assert timing.ratio < slack * timing.target, timing


@pytest.mark.slow
def test_memory_depends_on_the_physical_batch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """WRN-16-4, a logical batch of 96 in physical ones of 16: after two of them the peak stays where it is."""
    monkeypatch.setattr(runs, "load", tiny_load)
    table = {
        "data": "cifar-10", "model": "wrn-16-4", "epochs": 1, "batch_size": 96, "physical_batch_size": 16,
        "max_grad_norm": 1.0, "noise_multiplier": 1.0,
        "mechanism": {"name": "index-pruning", "keep_rate": 0.1, "index_epsilon": 0.01},
    }  # fmt: skip
    run = runs.prepare(from_dict(table), CPU)
    peaks = []
    backward = runs._backward

    def watched(run: runs.Run, part: torch.Tensor) -> float:
        loss = backward(run, part)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
        return loss

    monkeypatch.setattr(runs, "_backward", watched)
    runs.one_step(run)
    assert len(peaks) >= 4 and peaks[-1] < 12
    assert peaks[-1] - peaks[1] < 0.25
