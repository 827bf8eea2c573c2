"""``python -m dptheory.training.audits._power FILE``: how much an audit proves of DP-SGD whose epsilon is known.

A linear network of two classes on a thousand inputs, a thousand records and a thousand canaries with orthogonal gradients, every
gradient released: noise for an epsilon, sampling rate 0.1, fifty steps. The same scores are put to both bounds.
"""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import nn

from dptheory.cli._common import user_errors
from dptheory.files import require_writable, write_atomically
from dptheory.privacy import least_noise_multiplier
from dptheory.privacy.auditing import one_run_epsilon
from dptheory.training.audits import _canaries, _released
from dptheory.training.audits._diagnosis import Stated
from dptheory.training.audits._released import Steps

EPSILONS = (1.0, 2.0, 4.0, 8.0)
DELTA, RATE, STEPS, CLIP = 1e-5, 0.1, 50, 1.0
_ENTRIES, _RECORDS = 1000, 1000


def train(data: Any, stated: Stated, seed: int) -> Steps:
    """DP-SGD in plain torch, per-sample gradients by torch.func."""
    draws = torch.Generator().manual_seed(seed)
    pairs = [data[i] for i in range(len(data))]
    features, labels = torch.stack([x for x, _ in pairs]), torch.tensor([int(y) for _, y in pairs])
    model = nn.Linear(_ENTRIES, 2)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    of_each = _released._gradients_of(model)
    steps = Steps(model)
    for _ in range(STEPS):
        drawn = torch.rand(len(features), generator=draws) < stated.sampling_rate
        weights = {name: one.detach() for name, one in model.named_parameters()}
        own = of_each(weights, features[drawn], labels[drawn])
        sizes = torch.sqrt(sum((g.flatten(1) ** 2).sum(1) for g in own.values()))  # type: ignore[arg-type]
        factors = (stated.max_grad_norm / sizes).clamp(max=1.0)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                noise = torch.randn(weight.shape, generator=draws) * stated.noise_multiplier * stated.max_grad_norm
                weight.grad = (torch.einsum("n,n...->...", factors, own[name]) + noise) / stated.batch_size
                weight -= 0.1 * weight.grad
        steps.add()
    return steps


def measured(epsilon: float, canaries: int, seed: int) -> dict[str, float | int]:
    """One run: what both bounds prove, and the time of the whole audit."""
    start = time.perf_counter()
    rng = np.random.default_rng([seed, canaries])
    sigma = least_noise_multiplier(epsilon=epsilon, delta=DELTA, sampling_rate=RATE, steps=STEPS)
    stated = Stated(noise_multiplier=sigma, max_grad_norm=CLIP, sampling_rate=RATE, batch_size=RATE * _RECORDS)
    inputs = torch.from_numpy(rng.normal(size=(_RECORDS, _ENTRIES)) / _ENTRIES**0.5).float()
    data = [(one, int(label)) for one, label in zip(inputs, rng.integers(2, size=_RECORDS), strict=True)]
    chosen = _canaries.made(data, canaries, "gradients", rng)
    coins = rng.random(canaries) < 0.5
    steps = train(_canaries.with_drawn(data, chosen, coins), stated, seed)
    found = _released.seen(
        steps, chosen, unit=CLIP / stated.batch_size, noise=sigma, share=RATE / 2, done=lambda done: None
    )
    scores = _released.likelihood(found, RATE)
    proofs = [
        one_run_epsilon(scores=scores, coins=coins, delta=DELTA, composition=one)
        for one in (None, stated.composition(STEPS))
    ]
    return {
        "epsilon": epsilon,
        "canaries": canaries,
        "seed": seed,
        "noise_multiplier": sigma,
        "events": proofs[0].epsilon_lower,
        "trade_off": proofs[1].epsilon_lower,
        "hits": proofs[0].hits,
        "guesses": proofs[0].guesses,
        "seconds": time.perf_counter() - start,
    }


def main(
    out: Annotated[Path, typer.Argument(help="file of JSON lines to write")],
    seeds: Annotated[int, typer.Option(min=1, help="runs for each epsilon")] = 3,
) -> None:
    """Measure, as in `python -m dptheory.training.audits._power proofs/results/one_run.jsonl`."""
    with user_errors():
        require_writable(out)
        torch.set_num_threads(1)
        rows = [measured(epsilon, 1000, seed) for epsilon in EPSILONS for seed in range(seeds)]
        write_atomically(out, "".join(json.dumps(one) + "\n" for one in rows))


if __name__ == "__main__":
    typer.run(main)
