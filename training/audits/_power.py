"""``python -m dptheory.training.audits._power``: how much of a true epsilon one run proves, where every gradient is seen.

DP-SGD by Opacus on the first 500 images of the excerpt, a dense network of two layers, in runs whose epsilon is known. Every run is
one line of JSON, written when it ends; what the file has is not run again. Processor seconds are those of one core.
"""

import itertools
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from opacus import GradSampleModule
from opacus.data_loader import DPDataLoader
from opacus.optimizers import DPOptimizer
from torch import nn

from dptheory.privacy import Composition, Step
from dptheory.training._files import JsonLines
from dptheory.training.audits import Stated, Steps, audit
from dptheory.training.data import load, standardised

DELTA, CLIP, RATE = 1e-5, 1.0, 0.2
RECORDS, HIDDEN, CANARIES = 500, 8, 784
EPSILONS = (4.0, 8.0, 2.0, 1.0)
SCHEDULES = ((0.1, 100), (1.0, 20))
"""Sampling rate and steps."""
REPETITIONS = 200
"""Of a true claim of 4, a seed each."""
KEYS = ("epsilon", "claim", "rate", "steps", "canaries", "seed")


def wanted() -> list[tuple[float, float, float, int, int, int]]:
    """The keys of every run: true claims, half of epsilon 8, a tenth of epsilon 4, few canaries, the repetitions."""
    first, _ = SCHEDULES
    true = [(epsilon, epsilon, *schedule, CANARIES, 0) for schedule in SCHEDULES for epsilon in EPSILONS]
    half = [(8.0, 4.0, *schedule, CANARIES, 0) for schedule in SCHEDULES]
    again = [
        (4.0, 4.0, *schedule, CANARIES, seed) for schedule in reversed(SCHEDULES) for seed in range(1, REPETITIONS)
    ]
    return [*true, *half, (4.0, 0.4, *first, CANARIES, 0), (4.0, 4.0, *first, 200, 0), *again]


def trained(data: Any, stated: Stated, steps: int, seed: int) -> Steps:
    """The released gradients of a plain loop."""
    torch.manual_seed(seed)
    draws = torch.Generator().manual_seed(seed + 1)
    model = GradSampleModule(nn.Sequential(nn.Linear(784, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10)))
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=RATE),
        noise_multiplier=stated.noise_multiplier,
        max_grad_norm=stated.max_grad_norm,
        expected_batch_size=int(stated.batch_size),
        generator=draws,
    )
    released = Steps(model)
    batches: Any = DPDataLoader(data, sample_rate=stated.sampling_rate, generator=draws)
    for features, labels in itertools.islice(itertools.chain.from_iterable(itertools.repeat(batches)), steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(features), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        released.add()
    return released


def measured(epsilon: float, claim: float, rate: float, steps: int, canaries: int, seed: int) -> dict[str, Any]:
    """One audit of a claim on a run that spends this epsilon."""
    images = standardised(load(name="excerpt", train=True))
    data = [(images.pixels[i].flatten(), int(images.labels[i])) for i in range(RECORDS)]
    one = Composition((Step(noise_multiplier=1.0, sampling_rate=rate, count=steps),))
    sigma = one.noise_scale(epsilon=epsilon, delta=DELTA)
    batch = round(rate * (RECORDS + canaries / 2))
    stated = Stated(noise_multiplier=sigma, max_grad_norm=CLIP, sampling_rate=rate, batch_size=batch)
    started = time.process_time()
    found = audit(
        lambda joined: trained(joined, stated, steps, seed),
        data,
        canaries=canaries,
        epsilon=claim,
        delta=DELTA,
        access="gradients",
        stated=stated,
        seed=seed,
    )
    return {
        "epsilon": epsilon,
        "claim": claim,
        "rate": rate,
        "steps": steps,
        "canaries": canaries,
        "seed": seed,
        "noise_multiplier": sigma,
        "proved": found.epsilon_lower,
        "most": found.epsilon_most,
        "hits": found.proof.hits,
        "guesses": found.proof.guesses,
        "accused": [one.name for one in found.findings if not one.passed],
        "seconds": round(time.process_time() - started, 1),
    }


def main(out: Annotated[Path, typer.Option(help="file of the runs")] = Path("proofs/results/audits.jsonl")) -> None:
    """Run what the file does not have yet."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "Full backward hook is firing")
    lines = JsonLines(out)
    done = {tuple(line[key] for key in KEYS) for line in lines.lines()}
    for run in wanted():
        if run not in done:
            lines.add(measured(*run))


if __name__ == "__main__":
    typer.run(main)
