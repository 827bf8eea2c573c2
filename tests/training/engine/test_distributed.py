"""Two processes do what one does: same masks, noise once, same weights; they stop together and resume."""

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from tests.training.forked import ROOT, Forked
from tests.training.processes import CLIP, MECHANISMS, SIGMA
from training import runs

HERE = Path(__file__).parents[1]
MAIN = ROOT / "training" / "__main__.py"


def start(folder: Path, script: Path, arguments: Sequence[str], processes: int) -> list[Forked]:
    """The script in one process, or in several with the environment that torchrun would give."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes)}
    envs = [{} if processes == 1 else group | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]
    return [Forked(folder / f"said{processes}.{i}", script, arguments, env) for i, env in enumerate(envs)]


def finish(started: list[Forked]) -> list[tuple[int | None, str]]:
    return [process.finish() for process in started]


def results(folder: Path, device: str) -> tuple[dict, list[dict]]:
    """What one process found, and what each of two did."""
    for processes in (1, 2):
        for code, text in finish(start(folder, HERE / "processes.py", [str(folder), device], processes)):
            assert code == 0, text
    return torch.load(folder / "rank0of1.pt"), [torch.load(folder / f"rank{r}of2.pt") for r in (0, 1)]


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, list[dict]]:
    return results(tmp_path_factory.mktemp("gloo"), "cpu")


def check(alone: dict, both: list[dict], atol: float) -> None:
    for name in MECHANISMS:
        for one, first, second in zip(alone[name], both[0][name], both[1][name], strict=True):
            assert torch.equal(first, second), name
            torch.testing.assert_close(first, one, atol=atol, rtol=1e-4)
        assert alone[f"{name} spent"] == both[0][f"{name} spent"] == both[1][f"{name} spent"]
    for kept in ("mask", "bases", "secure mask", "secure weights"):
        assert all(torch.equal(a, b) for a, b in zip(both[0][kept], both[1][kept], strict=True))
    assert all(torch.equal(a, b) for a, b in zip(alone["mask"], both[0]["mask"], strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(alone["secure mask"], both[0]["secure mask"], strict=True))
    assert both[0]["nonfinite"] == both[1]["nonfinite"] == alone["nonfinite"] > 0
    assert both[0]["budget"] == both[1]["budget"] == alone["budget"] and alone["budget"][1]
    for found in (alone, *both):
        assert float(found["noise"].std()) == pytest.approx(SIGMA * CLIP, rel=0.01)


def test_two_processes_are_one(on_cpu: tuple[dict, list[dict]]) -> None:
    check(*on_cpu, atol=1e-5)


@pytest.mark.cuda
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_two_devices_are_one(tmp_path: Path) -> None:
    check(*results(tmp_path, "cuda"), atol=1e-3)


def test_processes_stop_together_and_resume(tmp_path: Path) -> None:
    """The signal reaches one process alone; both stop after the same step, with exit code 130."""
    command = ["run", "configs/fashion_mnist/random_sparsification.toml", "--out", str(tmp_path / "run")]
    for change in ("data=excerpt", "epochs=4", "batch_size=100", "mechanism.cooling_epochs=3"):
        command += ["--set", change]
    for code, text in finish(start(tmp_path, HERE / "interrupted.py", ["25", "SIGINT", *command], 2)):
        assert code == 130 and "Traceback" not in text, text
    assert torch.load(tmp_path / "run" / runs.STATE)["step"] == 25
    for code, text in finish(start(tmp_path, MAIN, [*command, "--resume"], 1)):  # on another number of processes
        assert code == 0, text
    state = torch.load(tmp_path / "run" / runs.STATE)
    assert state["step"] == 80 and [row["epoch"] for row in state["rows"]] == [1, 2, 3, 4]
