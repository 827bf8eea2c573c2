"""What the processes of ``test_distributed`` do; each is started with the usual environment of torchrun.

Usage: python -m tests.training.processes FOLDER DEVICE
"""

import sys
from pathlib import Path

import pytest
import torch
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from torch import nn

from dptheory.training import engine, runs
from dptheory.training.data import Images
from dptheory.training.mechanisms import DpSgd
from dptheory.training.runs import _prepare, _train
from tests.training.tiny import made_up_data, tiny_config, tiny_load

CLIP, SIGMA, VIEWS = 1.0, 2.0, 3
MECHANISMS = {
    "dp-sgd": {"name": "dp-sgd"},
    "random-sparsification": {"name": "random-sparsification", "drop_rate": 0.5},
    "index-pruning": {"name": "index-pruning", "keep_share": 0.2, "index_epsilon": 0.5},
    "gep-optimal": {"name": "gep-optimal", "subspace_dim": 12, "residual_clip": 0.3, "anchors": 24},
    "freezing": {"name": "layer-freezing", "after": 0.3},
}


def few_steps(mechanism: dict, device: torch.device, steps: int = 4, **changes) -> runs.Run:
    run = runs.prepare(tiny_config(mechanism, **changes), device)
    for _ in range(steps):
        _train.one_step(run)
    return run


def released_noise(device: torch.device) -> torch.Tensor:
    """Many coordinates of the noise of steps without examples: their spread shows how often it was added."""
    run = runs.prepare(tiny_config(noise_multiplier=SIGMA, max_grad_norm=CLIP, epochs=5), device)
    empty = torch.zeros(0, dtype=torch.long)
    type(run.batches).batch = lambda *_: empty
    found = []
    for _ in range(run.steps):
        _train.one_step(run)
        found += [p.grad.flatten() * run.config.batch_size for p in run.optimizer.params]
    return torch.cat(found)


def in_views(device: torch.device) -> list[torch.Tensor]:
    """The weights after some steps on three views of each record, of which every process has its own."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3)).to(device)
    records, labels = torch.rand(40, 8).to(device), (torch.arange(40) % 3).to(device)
    rank, processes = engine.place()
    private, optimizer = engine.attach(
        module=DifferentiallyPrivateDistributedDataParallel(model) if processes > 1 else model, mechanism=DpSgd(), views=VIEWS,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5), sampling_rate=0.5, train_size=40, noise_multiplier=0.1,
        max_grad_norm=0.1, noise_generator=torch.Generator(device).manual_seed(1),
    )  # fmt: skip
    batches = engine.PoissonBatches(train_size=40, sampling_rate=0.5, seed=2)
    for step in range(4):
        own = [i for i in batches.batch(step).tolist() if i % processes == rank]
        rows = torch.stack([records[own].roll(view, 1) for view in range(VIEWS)], 1).flatten(0, 1)
        optimizer.begin_batch(len(own))
        optimizer.zero_grad()
        nn.functional.cross_entropy(private(rows), labels[own].repeat_interleave(VIEWS)).backward()
        optimizer.step()
    return [p.detach().cpu() for p in model.parameters()]


def in_float64(name: str, *, train: bool) -> Images:
    """Of which sums in another order are the same up to 1e-13, and near ties of max pooling fall alike on every processor."""
    images = tiny_load(name, train=train)
    return Images(images.name, images.pixels.double(), images.labels)


def result(device: torch.device) -> dict:
    made_up_data(pytest.MonkeyPatch())
    _prepare.load = in_float64
    found: dict = {}
    for name, mechanism in MECHANISMS.items():
        run = few_steps(mechanism, device)
        found[name] = [p.detach().cpu() for p in run.model.parameters()]
        found[f"{name} spent"] = (run.optimizer.accountant.steps, run.optimizer.epsilon(1e-5))
        if name == "random-sparsification":
            found["mask"] = [m.cpu() for m in run.optimizer.mechanism.mask]
        if name == "gep-optimal":
            found["bases"] = [b.cpu() for b in run.optimizer.mechanism.bases]
    found["views"] = in_views(device)
    allocated = few_steps(MECHANISMS["dp-sgd"], device, sampling="random allocation")
    found["allocated"] = [p.detach().cpu() for p in allocated.model.parameters()]
    found["allocated spent"] = (allocated.optimizer.accountant.steps, allocated.optimizer.epsilon(1e-5))
    secure = few_steps({"name": "random-k", "keep_share": 0.5}, device, secure=True)
    found["secure mask"] = [m.cpu() for m in secure.optimizer.mechanism.mask]
    found["secure weights"] = [p.detach().cpu() for p in secure.model.parameters()]
    bad = in_float64("excerpt", train=True)
    bad.pixels[:30] = torch.nan
    _prepare.load = lambda name, train: bad if train else in_float64(name, train=False)
    found["nonfinite"] = few_steps(MECHANISMS["dp-sgd"], device).optimizer.nonfinite_samples
    _prepare.load = in_float64
    budget = few_steps(MECHANISMS["dp-sgd"], device, steps=9, epsilon=5.0)
    found["budget"] = (budget.step, budget.spent)
    found["noise"] = released_noise(device).cpu()
    return found


def main(folder: str, device: str) -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    with engine.process_group(torch.device(device)) as chosen:
        torch.save(result(chosen), Path(folder) / f"rank{engine.place()[0]}of{engine.place()[1]}.pt")


if __name__ == "__main__":
    main(*sys.argv[1:])
