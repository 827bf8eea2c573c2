"""The private training that a point describes, as a simulation: the engine's own steps, without an account of them."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from dptheory.convergence import SCHEDULES
from dptheory.training._last_weights import LastWeights, first_averaged
from dptheory.training._streams import simulation
from dptheory.training.engine import PoissonBatches, attach
from dptheory.training.mechanisms import Mechanism
from dptheory.training.planning._mixtures import Mixtures
from dptheory.training.planning._point import AVERAGES, Point, Schedule

Loss = Callable[[Tensor, Tensor], Tensor]
Records = tuple[Tensor | Mixtures, Tensor]
"""Features and labels."""
_ODD = 1e-15
"""What stands for a noise multiplier of less, which the engine takes for a mistake."""


@dataclass(frozen=True, kw_only=True)
class Steps:
    """How the steps of a simulation go.

    Attributes:
        count: number of steps.
        batch_size: expected size of the Poisson batches, and divisor of the sum of the clipped gradients.
        noise_multiplier: sigma, of the noise on that sum.
        clip_norm: C.
        learning_rate: of the first step.
        momentum: in [0, 1).
        schedule: of the learning rate.
    """

    count: int
    batch_size: float
    noise_multiplier: float
    clip_norm: float
    learning_rate: float
    momentum: float
    schedule: Schedule


def private_steps(point: Point) -> Steps:
    """The steps of the private run that a point describes."""
    return Steps(
        count=point.steps,
        batch_size=point.batch_size,
        noise_multiplier=point.noise_multiplier,
        clip_norm=point.clip_norm,
        learning_rate=point.learning_rate,
        momentum=point.momentum,
        schedule=point.schedule,
    )


def trained(
    model: nn.Module,
    loss: Loss,
    records: Records,
    *,
    steps: Steps,
    seed: int,
    mechanism: Callable[[nn.Module], Mechanism],
    averages: tuple[float, ...] = AVERAGES,
) -> Mapping[float, nn.Module]:
    """The networks after all steps: by the share of the last steps that their weights are the mean of.

    Args:
        model: at its starting weights, which stay.
        loss: a mean over the batch.
        records: features and labels.
        steps: how many, and how large.
        seed: of batches and noise.
        mechanism: builds a new one, from the network that is trained.
        averages: shares, 0 for the last weights alone.
    """
    features, labels = records
    rate = min(1.0, steps.batch_size / len(labels))
    batches = PoissonBatches(train_size=len(labels), sampling_rate=rate, seed=seed)
    network = copy.deepcopy(model).train()
    optimizer = torch.optim.SGD(
        [p for p in network.parameters() if p.requires_grad], lr=steps.learning_rate, momentum=steps.momentum
    )
    with simulation():
        private, wrapped = attach(
            module=network,
            optimizer=optimizer,
            mechanism=mechanism(network),
            sampling_rate=rate,
            expected_batch_size=steps.batch_size,
            noise_multiplier=0.0 if steps.noise_multiplier < _ODD else steps.noise_multiplier,
            max_grad_norm=steps.clip_norm,
            noise_generator=torch.Generator().manual_seed(seed),
        )
    factor = SCHEDULES[steps.schedule]
    scheduler = LambdaLR(optimizer, lambda step: float(factor(step / steps.count)))
    means = {share: LastWeights(network) for share in averages if share}
    for step in range(steps.count):
        drawn = batches.batch(step)
        wrapped.begin_batch(len(drawn))
        wrapped.zero_grad(set_to_none=True)
        loss(private(features[drawn]), labels[drawn]).backward()  # type: ignore[no-untyped-call]
        wrapped.step()
        scheduler.step()
        for share, mean in means.items():
            if step >= first_averaged(steps.count, share):
                mean.take()
    private.remove_hooks()
    return {0.0: network.eval()} | {share: mean.of(network).eval() for share, mean in means.items()}
