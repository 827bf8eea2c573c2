"""The private training that a point describes, as a simulation without an account of its steps, by every method of the plan."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from dptheory.convergence import SCHEDULES
from dptheory.training._last_weights import LastWeights, first_averaged
from dptheory.training._streams import simulation
from dptheory.training.engine import PoissonBatches, attach
from dptheory.training.mechanisms import (
    AnchorGradients,
    Constant,
    DpSgd,
    GepOptimal,
    LayerFreezing,
    Mechanism,
    NoisyMagnitudeTopK,
    RandomSparsification,
    layers,
)
from dptheory.training.planning._point import AVERAGES, Point, Schedule
from dptheory.training.planning._public import Mixtures
from dptheory.training.runs import pooled_channels_last

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
    """The networks after all steps: by the share of the last steps that their weights are the mean of, 0 for the last alone."""
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
        with pooled_channels_last(network):
            mean_loss = loss(private(features[drawn]), labels[drawn])
        mean_loss.backward()  # type: ignore[no-untyped-call]  # outside of it, as a pass of the whole network takes vmap
        wrapped.step()
        scheduler.step()
        for share, mean in means.items():
            if step >= first_averaged(steps.count, share):
                mean.take()
    private.remove_hooks()
    return {0.0: network.eval()} | {share: mean.of(network).eval() for share, mean in means.items()}


DP_SGD = "DP-SGD"
_DIRECTIONS, _MOST_ANCHORS = 20, 128
_KEPT_SHARE, _SELECTION_SHARE = 0.5, 0.1


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a mechanism is built for.

    Attributes:
        network: that is trained.
        public: features and labels, for GEP's anchors.
        steps: of the pilot.
        seed: of masks and subspaces.
    """

    network: nn.Module
    public: tuple[Tensor, Tensor]
    steps: Steps
    seed: int


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to change the gradients of DP-SGD.

    Attributes:
        build: the mechanism, at the noise that keeps the budget of plain DP-SGD.
        setting: its own hyperparameters, in words.
        why: what the theory says, in a sentence.
        claim: its id.
        serves: whether a network and its labels have what it needs.
    """

    build: Callable[[Run], Mechanism]
    setting: str
    why: str
    claim: str
    serves: Callable[[nn.Module, Tensor], bool] = lambda model, labels: True


def _masks(run: Run) -> Mechanism:
    return RandomSparsification(Constant(0.5), run.seed)


def _epoch_masks(run: Run) -> Mechanism:
    return RandomSparsification(Constant(0.5), run.seed, refresh_steps=max(1, run.steps.count // 10))


def _frozen(run: Run) -> Mechanism:
    return LayerFreezing(DpSgd(), frozen_layers=len(layers(run.network)) // 2, from_step=run.steps.count // 2)


def _embedding(run: Run) -> Mechanism:
    features, labels = run.public
    anchors = AnchorGradients(run.network, features[:_MOST_ANCHORS], classes=int(labels.max()) + 1, seed=run.seed)
    everything = list(range(sum(p.requires_grad for p in run.network.parameters())))
    return GepOptimal(
        anchors,  # type: ignore[arg-type]
        subspace_dim=_DIRECTIONS,
        residual_clip=run.steps.clip_norm / 2,
        groups=[everything],
        seed=run.seed,
    )


def _pruning(run: Run) -> Mechanism:
    share = math.sqrt(1.0 / _SELECTION_SHARE)
    return NoisyMagnitudeTopK(max(run.steps.noise_multiplier, 1e-6) * share, Constant(_KEPT_SHARE))


def _has_classes(model: nn.Module, labels: Tensor) -> bool:
    return labels.dim() == 1 and not labels.dtype.is_floating_point


METHODS: Mapping[str, Method] = {
    DP_SGD: Method(build=lambda run: DpSgd(), setting="", why="", claim=""),
    "random freeze": Method(
        build=_epoch_masks,
        setting="a mask of half the entries, held for a tenth of the steps",
        why="a mask keeps the mean of the gradient only up to the factor that it keeps of every entry",
        claim="rf.lem2",
    ),
    "random sparsification": Method(
        build=_masks,
        setting="a fresh mask of half the entries in every step",
        why="a mask of half the entries does nearly what a clip 1.4 times as large does without one: try that clip first",
        claim="rs.mask_is_clip",
    ),
    "layer freezing": Method(
        build=_frozen,
        setting="the lower half of the layers, for the second half of the steps",
        why="freezing helps where the gradient of the frozen layers turns the step less than their noise does",
        claim="lf.when_to_freeze",
        serves=lambda model, labels: len(layers(model)) > 1,
    ),
    "gradient embedding perturbation": Method(
        build=_embedding,
        setting=f"{_DIRECTIONS} directions from public records, residual clipped at half",
        why="splitting the release pays where the anchors' subspace holds most of the gradient",
        claim="gep.split",
        serves=_has_classes,
    ),
    "gradient index pruning": Method(
        build=_pruning,
        setting="half the entries by noisy magnitude, which takes a tenth of the budget",
        why="choosing entries costs noise, and pruned entries bias the gradient",
        claim="gip.selection_limit",
    ),
}
