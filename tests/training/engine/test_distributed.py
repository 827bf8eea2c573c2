"""Two processes do what one does: same masks, noise once, same weights; they stop together and resume."""

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from dptheory.training import engine, runs
from dptheory.training import mechanisms as m
from dptheory.training.engine import _distributed as engine_group
from tests.refused import refused
from tests.rounding import rounding
from tests.training import sgd
from tests.training.forked import ROOT, Forked
from tests.training.processes import CLIP, MECHANISMS, SIGMA

HERE = Path(__file__).parents[1]
MAIN = ROOT / "dptheory" / "__main__.py"


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
    for name in (*MECHANISMS, "views", "allocated"):
        for one, first, second in zip(alone[name], both[0][name], both[1][name], strict=True):
            assert torch.equal(first, second), name
            torch.testing.assert_close(first, one, atol=atol, rtol=0.0)
            assert first.dtype == torch.float64
    for name in (*MECHANISMS, "allocated"):
        assert alone[f"{name} spent"] == both[0][f"{name} spent"] == both[1][f"{name} spent"]
    for kept in ("mask", "bases", "secure mask", "secure weights"):
        assert all(torch.equal(a, b) for a, b in zip(both[0][kept], both[1][kept], strict=True))
    assert all(torch.equal(a, b) for a, b in zip(alone["mask"], both[0]["mask"], strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(alone["secure mask"], both[0]["secure mask"], strict=True))
    assert both[0]["nonfinite"] == both[1]["nonfinite"] == alone["nonfinite"] > 0
    assert both[0]["budget"] == both[1]["budget"] == alone["budget"] and alone["budget"][1]
    for found in (alone, *both):
        assert float(found["noise"].std()) == pytest.approx(SIGMA * CLIP, rel=0.01)


@pytest.mark.numerics
def test_two_processes_are_one(on_cpu: tuple[dict, list[dict]]) -> None:
    """In float64, so that a near tie of max pooling does not fall by the kernel; weights are below 1, and each has fewer than
    10^6 operations behind it. Twice the noise, or another batch, moves them by about 1e-2."""
    check(*on_cpu, atol=rounding(1e6, 1.0, torch.float64))


# --- in one process that is told that it is one of two ---------------------------------------------------------------------


class Group:
    """A process group of two whose other process has the same totals; notes what is handed round."""

    def __init__(self, patch: pytest.MonkeyPatch, rank: int = 0) -> None:
        self.summed: list[int] = []
        self.handed: list[tuple[int, int]] = []
        for name, value in (
            ("is_initialized", lambda: True), ("get_rank", lambda *a: rank), ("get_world_size", lambda *a: 2),
            ("all_reduce", self._sum), ("broadcast", self._hand), ("get_backend", lambda: "gloo"),
        ):  # fmt: skip
            patch.setattr(torch.distributed, name, value)

    def _sum(self, tensor: torch.Tensor) -> None:
        self.summed.append(tensor.numel())
        tensor.mul_(2)

    def _hand(self, tensor: torch.Tensor, src: int) -> None:
        self.handed.append((tensor.numel(), src))


@pytest.mark.filterwarnings("ignore:Full backward hook")
@pytest.mark.parametrize(("reduction", "divisor"), [("mean", 10.0), ("sum", 1.0)])
def test_one_of_two_processes(reduction: str, divisor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Totals are summed, the first process's masks and release are handed to all, and the divisor is the whole batch's."""
    group = Group(monkeypatch)
    model = torch.nn.Linear(3, 2)
    before = model.weight.detach().clone()
    private, optimizer = engine.attach(
        module=DifferentiallyPrivateDistributedDataParallel(model), loss_reduction=reduction, sampling_rate=0.5, train_size=20,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0), mechanism=m.RandomSparsification(m.Constant(0.25), None),
        noise_multiplier=0.0, max_grad_norm=0.5,
    )  # fmt: skip
    group.handed.clear()
    optimizer.begin_batch(2)
    rows = torch.tensor([[1.0, 2.0, 3.0], [torch.nan, 0.0, 0.0]])
    loss = private(rows).sum(1)
    (loss.mean() if reduction == "mean" else loss.sum()).backward()
    optimizer.step()
    assert group.summed == [6, 2, 1] and group.handed == [(6, 0), (2, 0), (6, 0), (2, 0)]  # masks, then releases
    assert optimizer.nonfinite_samples == 2
    total = optimizer.clipped_total[0]  # of both processes
    norm = torch.cat([t.flatten() for t in optimizer.clipped_total]).norm()
    assert float(norm) == pytest.approx(2 * 0.5, rel=1e-5)
    torch.testing.assert_close(before - model.weight.detach(), total / divisor)


def plain_attach(module: torch.nn.Module):
    return sgd.attach(module, lr=1.0, sampling_rate=0.5, train_size=20, max_grad_norm=0.5)


def test_several_processes_need_the_wrapper_of_opacus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it each would draw noise, and step, by itself."""
    Group(monkeypatch)
    with refused("module"):
        plain_attach(torch.nn.Linear(3, 2))
    plain_attach(DifferentiallyPrivateDistributedDataParallel(torch.nn.Linear(3, 2)))


def test_the_wrapper_of_torch_is_refused() -> None:
    """Its processes sum up gradients that nobody takes: also in a group of one."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        with refused("module"):
            plain_attach(torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2)))
        plain_attach(torch.nn.Linear(3, 2))
    finally:
        torch.distributed.destroy_process_group()


def test_no_step_without_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    Group(monkeypatch)
    model = torch.nn.Linear(3, 2)
    _, optimizer = engine.attach(
        module=DifferentiallyPrivateDistributedDataParallel(model), sampling_rate=0.5, train_size=20,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0), mechanism=m.DpSgd(), noise_multiplier=0.0, max_grad_norm=0.5,
    )  # fmt: skip
    with refused("p.grad", "zero_grad()"):
        optimizer.add_noise()


@pytest.mark.parametrize(("rank", "own"), [(0, 4), (1, 3)])
def test_each_process_has_its_share_of_the_examples(rank: int, own: int, monkeypatch: pytest.MonkeyPatch) -> None:
    Group(monkeypatch, rank)
    model = torch.nn.Linear(3, 2)
    _, optimizer, loader = engine.make_private(
        module=DifferentiallyPrivateDistributedDataParallel(model), mechanism=m.DpSgd(), noise_multiplier=1.0,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0), max_grad_norm=0.5,
        data_loader=DataLoader(TensorDataset(torch.zeros(7, 3)), 7), probe=False,
    )  # fmt: skip
    assert loader.batch_sampler.num_samples == own
    assert [indices for indices in loader.batch_sampler] == [list(range(rank, 7, 2))]
    assert optimizer.expected_batch_size == 3.5


@pytest.mark.filterwarnings("ignore:Full backward hook")
@pytest.mark.parametrize("views", [1, 3])
@pytest.mark.parametrize("rank", [0, 1])
def test_dry_steps_of_a_process_wait_for_no_other(rank: int, views: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each compares records of its own, with all of their views; only steps that release something sum up."""
    group = Group(monkeypatch, rank)
    model = torch.nn.Linear(3, 2)
    private, optimizer, loader = engine.make_private(
        module=DifferentiallyPrivateDistributedDataParallel(model), mechanism=m.DpSgd(), noise_multiplier=1.0,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0), max_grad_norm=0.5,
        data_loader=DataLoader(TensorDataset(torch.rand(40, 3)), 20), views=views,
        augmentation=None if views == 1 else lambda record: (record[0] + 0.1 * torch.rand(3),),
    )  # fmt: skip
    sizes, summed = [], []
    for (rows,) in loader:
        optimizer.zero_grad()
        private(rows).square().mean().backward()
        optimizer.step()
        sizes.append(len(rows))
        summed.append(len(group.summed))
    assert sizes[:6] == [10 * views] * 5 + [9 * views] and len(sizes) == 8
    assert summed[:6] == [0] * 6 and summed[7] == 2 * summed[6] > 0
    assert optimizer.accountant.steps == 2
    assert optimizer.privacy(1e-5).records_apart == "compared before the steps 1, with at most 10 records"


def test_what_a_process_knows_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    assert not engine_group.active() and engine_group.place() == (0, 1) and engine_group.first()
    assert engine_group.summed(1.5, cpu) == 1.5 and engine_group.communicating() == cpu
    monkeypatch.setattr(torch.distributed, "is_available", lambda: False)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)  # not there in every build
    assert not engine_group.active()
    monkeypatch.setattr(torch.distributed, "is_available", lambda: True)
    Group(monkeypatch, 1)
    assert engine_group.active() and engine_group.place() == (1, 2) and not engine_group.first()
    assert engine_group.summed(1.5, cpu) == 3.0 and engine_group.communicating() == cpu
    monkeypatch.setattr(torch.distributed, "get_backend", lambda: "nccl")
    assert engine_group.communicating() == torch.device("cuda")


@pytest.mark.parametrize(("device", "backend", "own"), [("cpu", "gloo", "cpu"), ("cuda", "nccl", "cuda:1")])
def test_the_group_that_torchrun_asks_for(device: str, backend: str, own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda name: done.append(name))
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: done.append("left"))
    monkeypatch.setattr(torch.cuda, "set_device", lambda which: done.append(str(which)))
    monkeypatch.delenv("RANK", raising=False)
    with engine.process_group(torch.device(device)) as found:
        assert found == torch.device(device) and done == []  # without torchrun there is none
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.raises(KeyError), engine.process_group(torch.device(device)) as found:
        assert str(found) == own
        raise KeyError
    assert done == [*([own] if device == "cuda" else []), backend, "left"]


@pytest.mark.cuda
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_two_devices_are_one(tmp_path: Path) -> None:
    check(*results(tmp_path, "cuda"), atol=rounding(1e6, 1.0, torch.float64))


def test_processes_stop_together_and_resume(tmp_path: Path) -> None:
    """The signal reaches one process alone; both stop after the same step, with exit code 130."""
    command = ["run", "configs/fashion_mnist/random_sparsification", "--out", str(tmp_path / "run")]
    for change in ("data=excerpt", "epochs=2", "batch_size=100", "mechanism.cooling_epochs=2"):
        command += ["--set", change]
    for code, text in finish(start(tmp_path, HERE / "interrupted.py", ["25", "SIGINT", *command], 2)):
        assert code == 130 and "Traceback" not in text, text
    assert torch.load(tmp_path / "run" / runs.STATE)["step"] == 25
    for code, text in finish(start(tmp_path, MAIN, [*command, "--resume"], 1)):  # on another number of processes
        assert code == 0, text
    state = torch.load(tmp_path / "run" / runs.STATE)
    assert state["step"] == 40 and [row["epoch"] for row in state["rows"]] == [1, 2]
