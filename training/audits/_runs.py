"""``dptheory run`` from outside: a configuration goes in, and the weights and the metrics that it writes come out.

The linear probe on the excerpt: its gradients are known, so the weights tell the noise of a step on all examples, and how many
examples all steps of a sampled run had.
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from dptheory.training.audits import _findings, _laws
from dptheory.training.audits._board import Array
from dptheory.training.audits._epsilons import epsilon
from dptheory.training.audits._findings import Finding
from dptheory.training.engine import Batches
from dptheory.training.runs import prepare, read_config

Launch = Callable[[Sequence[str]], None]
"""Calls ``dptheory`` with these arguments, and raises where it fails."""

_CLIP, _SIGMA, _DELTA, _SEED = 1.0, 1.0, 1e-5, 3
_EXAMPLES = 2000
_BATCH = 1300
"""Of sampled steps: it does not divide the examples, and a rate of one in a whole number of steps is far from theirs."""
CONFIG = "audit.toml"
_TABLE = """data = "excerpt"
model = "linear-probe"
epochs = 1
batch_size = {batch_size}
physical_batch_size = 256
max_grad_norm = {clip_norm}
noise_multiplier = {noise_multiplier}
delta = {delta}
seed = {seed}
secure = {secure}
inputs = "unit"

[optimizer]
learning_rate = {learning_rate}

[mechanism]
{mechanism}
"""


def by_process(arguments: Sequence[str]) -> None:
    """In a process of its own."""
    _launch([sys.executable, "-m", "dptheory", *arguments])


def by_two_processes(arguments: Sequence[str]) -> None:
    """In two processes of torchrun."""
    _launch([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "dptheory", *arguments])


def _launch(command: Sequence[str]) -> None:
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, check=False)
    if done.returncode != 0:
        raise ValueError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")


@dataclass(frozen=True)
class Outcome:
    """What a run leaves behind, and what everybody knows of it.

    Attributes:
        moved: the sum of all releases: how far weights and biases moved, over learning rate and divisor, shape (10, d + 1).
        gradients: (10, N) and (N, d + 1): the factors of each example's gradient at the first weights, clipped.
        steps, epsilon: as the metrics say.
        sampling_rate: of the configuration.
        batches: that the configuration draws.
    """

    moved: Array
    slopes: Array
    inputs: Array
    steps: int
    epsilon: float
    sampling_rate: float
    batches: Batches

    @property
    def total(self) -> Array:
        """The clipped sum of all examples."""
        return _laws.product(self.slopes, self.inputs)


def outcome(
    launch: Launch, folder: Path, mechanism: str, secure: bool, batch_size: int, learning_rate: float
) -> Outcome:
    """Run once, in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    path, out = folder / CONFIG, folder / "out"
    path.write_text(
        _TABLE.format(
            batch_size=batch_size,
            clip_norm=_CLIP,
            noise_multiplier=_SIGMA,
            delta=_DELTA,
            seed=_SEED,
            secure=str(secure).lower(),
            learning_rate=learning_rate,
            mechanism=mechanism,
        )
    )
    launch(["run", str(path), "--out", str(out), "--device", "cpu"])
    start = prepare(read_config(path), torch.device("cpu"))
    before = _joined(start.model.state_dict())
    after = _joined(torch.load(out / "checkpoint.pt", weights_only=True)["model"])
    last = json.loads((out / "metrics.json").read_text())["epochs"][-1]
    inputs = np.hstack([start.train.pixels.flatten(1).double().numpy(), np.ones((len(start.train), 1))])
    slopes = _slopes(before, inputs, start.train.labels.numpy())
    norms = np.linalg.norm(slopes, axis=0) * np.linalg.norm(inputs, axis=1)
    return Outcome(
        moved=(before - after) / learning_rate * batch_size,
        slopes=slopes * np.minimum(1.0, _CLIP / norms),
        inputs=inputs,
        steps=last["step"],
        epsilon=math.inf if last["epsilon"] is None else last["epsilon"],
        sampling_rate=batch_size / len(start.train),
        batches=start.batches,
    )


def _joined(state: dict[str, torch.Tensor]) -> Array:
    """Weights and biases of the one layer side by side."""
    weight, bias = (tensor.double().numpy() for tensor in state.values())
    return np.hstack([weight, bias[:, None]])


def _slopes(weights: Array, inputs: Array, labels: NDArray[np.int64]) -> Array:
    """Derivatives of each example's cross-entropy by the ten class scores, shape (10, N)."""
    scores = weights @ inputs.T
    odds = np.exp(scores - scores.max(0))
    chances: Array = odds / odds.sum(0)
    chances[labels, np.arange(len(labels))] -= 1.0
    return chances


def noise(launch: Launch, folder: Path, secure: bool = False, masked: bool = False) -> list[Finding]:
    """One step on all examples: the weights (with posterior freeze those that moved) less the clipped sum are the noise."""
    mechanism = 'name = "posterior-freeze"\ndrop_rate = 0.3' if masked else 'name = "dp-sgd"'
    found = outcome(launch, folder, mechanism, secure, _EXAMPLES, 1.0)
    kept = found.moved != 0
    scores = (found.moved - found.total) / (_SIGMA * _CLIP)
    prefix = f"dptheory run, {'posterior freeze' if masked else 'DP-SGD'}{', secure' if secure else ''}"
    share = 0.7 if masked else 1.0
    statement = "the release less the clipped sum is the stated noise"
    return [
        _findings.equal(f"{prefix}: steps", "one epoch of the whole data is one step", found.steps, 1),
        _findings.equal(f"{prefix}: entries", "the stated share of the entries is released", kept.mean(), share, 1e-3),
        _findings.spread(f"{prefix}: noise", statement, scores[kept]),
        _findings.spread(f"{prefix}: noise on the biases", statement, scores[:, -1][kept[:, -1]]),
        _findings.normal(f"{prefix}: law of the noise", "the noise is Gaussian as stated", scores[kept]),
    ]


def sampling(launch: Launch, folder: Path, secure: bool = False) -> list[Finding]:
    """An epoch of batches that do not divide the data: how many examples its steps had, how much noise, and its epsilon."""
    found = outcome(launch, folder, 'name = "dp-sgd"', secure, _BATCH, 1e-4)
    total = found.total
    size = float(np.linalg.norm(total))
    along = np.einsum("cn,nd,cd->n", found.slopes, found.inputs, total, optimize=True) / size
    passes = float(np.sum(found.moved * total)) / size**2
    expected = found.steps * found.sampling_rate
    variance = expected * (1 - found.sampling_rate) * float(np.sum(along**2)) + found.steps * (_SIGMA * _CLIP) ** 2
    least = epsilon(_SIGMA, found.sampling_rate, found.steps, _DELTA)
    prefix = f"dptheory run{', secure' if secure else ''}"
    beside = (
        []
        if secure
        else [
            _findings.spread(
                f"{prefix}: batches",
                "weights less the gradients of the batches that the seed foretells are the noise",
                _beside(found),
            )
        ]
    )
    return [
        *beside,
        _findings.standardised(
            f"{prefix}: sampling rate",
            "all steps together have drawn steps times rate times the data",
            passes,
            expected,
            (passes - expected) * size / math.sqrt(variance),
        ),
        _findings.spread(
            f"{prefix}: noise of all steps", "where images differ little, weights get noise alone", _quiet(found)
        ),
        _findings.at_least(
            f"{prefix}: epsilon",
            "epsilon in the metrics is at least that of another library's accountant",
            found.epsilon,
            least,
            1e-6 * least,
        ),
    ]


def _beside(found: Outcome) -> Array:
    """Scores N(0, 1) of the weights, less what the batches of the seed add to them, where other batches would show.

    That is along directions in which the sampled gradients vary more than a tenth of the noise.
    """
    drawn = np.concatenate([found.batches.batch(step, 0, 1).numpy() for step in range(found.steps)])
    times = np.bincount(drawn, minlength=len(found.inputs))
    left = found.moved - _laws.product(found.slopes * times, found.inputs)
    directions, _, sampled = _variances(found)
    noise = found.steps * (_SIGMA * _CLIP) ** 2
    return np.asarray((_laws.product(left, directions) / math.sqrt(noise))[sampled > 0.1 * noise])


def _variances(found: Outcome) -> tuple[Array, Array, Array]:
    """Principal directions of the inputs, the inputs along them, and the variance of the sampled gradients along each."""
    _, axes = torch.linalg.eigh(torch.from_numpy(_laws.product(found.inputs.T, found.inputs)))
    directions = np.asarray(axes.numpy())
    along = _laws.product(found.inputs, directions)
    expected = found.steps * found.sampling_rate
    sampled = expected * (1 - found.sampling_rate) * _laws.product(found.slopes**2, along**2)
    return directions, along, sampled


def _quiet(found: Outcome) -> Array:
    """Scores N(0, 1) of the weights along directions in which the sampled gradients vary less than a tenth of the noise.

    Each has the known mean, and the variance of the noise and of the sampling together; it is the noise's to 1 %.
    """
    directions, along, sampled = _variances(found)
    expected = found.steps * found.sampling_rate
    noise = found.steps * (_SIGMA * _CLIP) ** 2
    scores = (_laws.product(found.moved, directions) - expected * _laws.product(found.slopes, along)) / np.sqrt(
        sampled + noise
    )
    return np.asarray(scores[sampled < 0.01 * noise])
