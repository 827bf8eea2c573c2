"""Private steps beside plain ones, the memory of a step, drawing a batch, and an epoch of a run: part after part."""

import contextlib
import dataclasses
import os
import re
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from torch.nn.functional import cross_entropy

from dptheory.errors import ArgumentError
from dptheory.training import runs
from dptheory.training.benchmarks import _arms
from dptheory.training.benchmarks._networks import BY_HAND, NETWORKS, TEXT, VIEWS, Timed
from dptheory.training.benchmarks._timing import WARM_UP, Work, in_turns
from dptheory.training.data import NAMES
from dptheory.training.engine import GeneratorBatches, PoissonBatches, SecureBatches

# --- How much memory a step takes, asked in a process of its own
#
# ``python -m dptheory.training.benchmarks._steps DP-SGD MLP 4096 2`` prints it in MiB: arm, network, rows of the batch, threads.


NAMED = NETWORKS | VIEWS | TEXT | BY_HAND
_STEPS = 3
_STATUS = Path("/proc/self/status")


def peak(arm: str, network: str, batch: int, threads: int) -> float:
    """MiB that three steps take at their peak, beyond what a fresh process held with the network and the batch."""
    command = [sys.executable, "-m", __name__, arm, network, str(batch), str(threads)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def beyond_start(arm: str, network: str, batch: int) -> float:
    """The same, of this process."""
    timed = dataclasses.replace(NAMED[network], batch=batch)
    step = _arms.build(arm, timed, *timed.examples(batch))
    start, _ = resident()
    for _ in range(_STEPS):
        step()
    return max(0.0, resident()[1] - start)


def resident() -> tuple[float, float]:
    """MiB of memory that this process holds, and the most that it ever held.

    On Linux these are the kernel's VmRSS and VmHWM, as ``ru_maxrss`` of a child starts at its parent's.
    """
    if not _STATUS.exists():
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2 ** (20 if sys.platform == "darwin" else 10)
        return most, most
    status = _STATUS.read_text(encoding="ascii")
    now, most = (int(re.findall(rf"{name}:\s+(\d+) kB", status)[0]) / 2**10 for name in ("VmRSS", "VmHWM"))
    return now, most


def _main(arm: str, network: str, batch: str, threads: str) -> None:
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(int(threads))
    print(beyond_start(arm, network, int(batch)))


if __name__ == "__main__":
    _main(*sys.argv[1:])


DRAWN = 256
SIZES = (10**6, 10**7, 10**8)
MEMORY_ARMS = (_arms.PLAIN, _arms.DP_SGD, _arms.MASK, _arms.FROZEN, _arms.GEP, _arms.HOOKS, _arms.GHOST)
MEMORY_NETWORK = "MLP"
EPOCH_BATCH = 512
_LONG = 5.0
"""Seconds after which no further round of a draw is begun."""

Part = Callable[[], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is measured."""

    rounds: int
    threads: int
    memory_batch: int = 4096
    sizes: tuple[int, ...] = SIZES
    data: str = "fashion-mnist"
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.data not in NAMES:
            raise ArgumentError("data", f"be one of {', '.join(NAMES)}", self.data)


def parts(options: Options, networks: Mapping[str, Timed] = NETWORKS) -> Iterator[tuple[str, Part]]:
    """Names of what is measured, and how: each part may be measured in another session."""
    for name, timed in networks.items():
        yield f"step/{name}", lambda timed=timed: measured(lambda: step_times(timed, options.rounds, options.device))  # type: ignore[misc]
    for arm in MEMORY_ARMS:
        yield (
            f"memory/{arm}",
            lambda arm=arm: {  # type: ignore[misc]
                "mebibytes": peak(arm, MEMORY_NETWORK, options.memory_batch, options.threads)
            },
        )
    for size in options.sizes:
        yield f"draw/{size}", lambda size=size: measured(lambda: draw_times(size, options.rounds))  # type: ignore[misc]
    yield "epoch", lambda: measured(lambda: epoch_times(options.data, options.rounds))


def step_times(timed: Timed, rounds: int, device: str = "cpu") -> dict[str, Any]:
    """A step by every arm, in turns; what there is no step of, and why."""
    inputs, labels = (one.to(device) for one in timed.examples(timed.batch))
    works, skipped = {}, {}
    for arm in _arms.ARMS:
        try:
            works[arm] = _arms.build(arm, timed, inputs, labels)
        except _arms.SkippedError as error:
            skipped[arm] = str(error)
    count = sum(p.numel() for p in timed.model().parameters())
    finish = torch.cuda.synchronize if device == "cuda" else lambda: None
    found = in_turns(works, min(rounds, timed.rounds), finish=finish)
    return {"batch": timed.batch, "parameters": count, "times": found, "skipped": skipped}


def draw_times(size: int, rounds: int) -> dict[str, Any]:
    """A batch of about 256 of ``size`` records by the samplers here, and by Opacus's."""
    rate = DRAWN / size
    seeded = PoissonBatches(train_size=size, sampling_rate=rate, seed=0)
    by_generator = GeneratorBatches(train_size=size, sampling_rate=rate, generator=torch.Generator())
    secure = SecureBatches(train_size=size, sampling_rate=rate)
    theirs = UniformWithReplacementSampler(num_samples=size, sample_rate=rate, generator=torch.Generator())
    works: dict[str, Work] = {
        "PoissonBatches": lambda: seeded.batch(0),
        "GeneratorBatches": lambda: by_generator.batch(0),
        "SecureBatches": lambda: secure.batch(0),
        "Opacus": lambda: next(iter(theirs)),
    }
    return {
        "times": {name: in_turns({name: work}, rounds, warm_up=1, limit=_LONG)[name] for name, work in works.items()}
    }


def epoch_times(data: str, rounds: int) -> dict[str, Any]:
    """An epoch of a run of DP-SGD on the MLP with the test at its end, and of the same loop in plain torch, in turns."""
    table = {
        "data": data, "model": "mlp", "epochs": 10 * (rounds + WARM_UP), "batch_size": EPOCH_BATCH,
        "physical_batch_size": 2 * EPOCH_BATCH, "max_grad_norm": 1.0, "noise_multiplier": 1.0,
        "optimizer": {"name": "sgd", "learning_rate": 0.1},
    }  # fmt: skip
    run = runs.prepare(runs.from_dict(table), torch.device("cpu"))
    model = runs.build_model("mlp", features=run.train.pixels[0].numel(), seed=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = round(len(run.train) / EPOCH_BATCH)

    def private() -> None:
        for _ in range(steps):
            runs.one_step(run)
        runs.accuracy(run.model, run.test, run.device)
        run.optimizer.epsilon(run.config.delta)

    def plain() -> None:
        for part in torch.split(torch.randperm(len(run.train)), EPOCH_BATCH)[:steps]:
            optimizer.zero_grad()
            loss = cross_entropy(model(run.train.pixels[part]), run.train.labels[part])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            float(loss.detach())
        runs.accuracy(model, run.test, run.device)

    works = {"run": private, _arms.PLAIN: plain}
    return {"data": data, "steps": steps, "times": in_turns(works, min(rounds, 5), warm_up=1)}


def measured(work: Part) -> dict[str, Any]:
    """What is found, and how many processes waited for a processor before and after: above the number of cores it is shared."""
    before = _load()
    found = work()
    return found | {"load": [before, _load()]}


def _load() -> float | None:
    with contextlib.suppress(OSError, AttributeError):
        return round(os.getloadavg()[0], 1)
    return None
