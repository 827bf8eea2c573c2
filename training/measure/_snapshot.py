"""Gradients of one DP-SGD run: at three moments, per sample and on all training examples."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from opacus import GradSampleModule
from torch import nn

from dptheory._arrays import Array
from dptheory.errors import ArgumentError
from dptheory.training._streams import simulation
from dptheory.training.data import Images
from dptheory.training.engine import MechanismOptimizer, PoissonBatches, attach
from dptheory.training.measure._linear_attack import LinearGradient
from dptheory.training.measure._rows import ValidateSettings
from dptheory.training.mechanisms import AnchorGradients, DpSgd
from dptheory.training.networks import layer_slices, mean_gradient, per_sample_gradients, small_tanh_cnn
from dptheory.training.runs import sampling_rate

_CLASSES = 10
_CHUNK = 250


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Gradients at the weights of one step, flat in the order of the parameters; tensors are float32 on the CPU.

    Attributes:
        name: "start", "middle" or "end".
        step: updates made before.
        true: mean gradient of all training examples, shape (d,).
        pool: gradients of examples drawn uniformly, shape (pool, d): the population of the measurements.
        batch: gradients of the step's Poisson batch, shape (n, d).
        anchors: gradients of auxiliary images with random labels, shape (anchors, d).
        layers: where each parameter tensor lies.
        window_sum: the clipped sums of the next ``window`` steps, added up, shape (d,).
        next_sum: the clipped sum of the step after those.
        head: gradient of the last layer for the example of the batch whose class scores' derivatives are least uneven.
    """

    name: str
    step: int
    true: Array
    pool: torch.Tensor
    batch: torch.Tensor
    anchors: torch.Tensor
    layers: dict[str, slice]
    window_sum: torch.Tensor
    next_sum: torch.Tensor
    head: LinearGradient

    @property
    def pool_mean(self) -> Array:
        """The true gradient where the pool is the population, shape (d,); that of all examples is off by chance."""
        return np.asarray(self.pool.double().mean(0).numpy())


@dataclass(frozen=True)
class Trainer:
    """A DP-SGD run under way; ``plain`` is a second model without hooks, which takes over the weights when it is used."""

    plain: nn.Sequential
    private: GradSampleModule
    optimizer: MechanismOptimizer
    anchors: AnchorGradients
    batches: PoissonBatches
    images: Images
    device: torch.device

    def batch_gradients(self, indices: torch.Tensor) -> torch.Tensor:
        """Per-sample gradients at the present weights, shape (n, d)."""
        self.synchronize()
        pixels, labels = self._examples(indices)
        return per_sample_gradients(self.plain, pixels, labels, physical_batch_size=_CHUNK)

    def step(self, index: int) -> torch.Tensor:
        """One update; returns the clipped sum before noise, shape (d,)."""
        batch = self.batches.batch(index)
        pixels, labels = self._examples(batch)
        self.optimizer.begin_batch(len(batch))
        self.optimizer.zero_grad()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Full backward hook is firing")
            losses = nn.functional.cross_entropy(self.private(pixels), labels, reduction="none")
            # Opacus multiplies a "mean" loss by the number of examples; an empty batch must not divide by it
            (losses.sum() / max(len(batch), 1)).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        assert self.optimizer.clipped_total is not None
        return torch.cat([total.flatten() for total in self.optimizer.clipped_total]).cpu()

    def true_gradient(self) -> Array:
        """Mean gradient of all training examples at the present weights, shape (d,)."""
        self.synchronize()
        return np.asarray(mean_gradient(self.plain, *self._examples(slice(None))).double().numpy())

    def synchronize(self) -> None:
        """Give ``plain`` the present weights."""
        self.plain.load_state_dict(self.private._module.state_dict())

    def _examples(self, which: torch.Tensor | slice) -> tuple[torch.Tensor, torch.Tensor]:
        return self.images.pixels[which].to(self.device), self.images.labels[which].to(self.device)


def prepare(images: Images, auxiliary: torch.Tensor, settings: ValidateSettings, device: torch.device) -> Trainer:
    """The small tanh CNN under DP-SGD, before its first step.

    Args:
        images: training examples.
        auxiliary: pixels of images that nothing protects, at least ``settings.anchors``.
        settings: see :class:`ValidateSettings`.
        device: where to train.

    Returns:
        The run, for :func:`snapshots`.

    Raises:
        ValueError: batch_size, pool or anchors above the number of images.
    """
    training = settings.training
    rate = sampling_rate(batch_size=training.batch_size, train_size=len(images))
    if settings.pool > len(images):
        raise ArgumentError("pool", f"be at most the {len(images)} training examples", settings.pool)
    if settings.anchors > len(auxiliary):
        raise ArgumentError(
            "anchors", f"be at most the {len(auxiliary)} auxiliary images", settings.anchors, got=f"{settings.anchors}"
        )
    model = small_tanh_cnn(training.stream(0)).to(device).train()
    plain = copy.deepcopy(model)
    with simulation():  # measured bit for bit again
        anchors = AnchorGradients(plain, auxiliary[: settings.anchors], classes=_CLASSES, seed=training.stream(4))
        private, optimizer = attach(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=training.learning_rate),
            mechanism=DpSgd(),
            sampling_rate=rate,
            train_size=len(images),
            noise_multiplier=training.noise_multiplier,
            max_grad_norm=training.max_grad_norm,
            noise_generator=torch.Generator(device).manual_seed(training.stream(2)),
        )
    batches = PoissonBatches(train_size=len(images), sampling_rate=rate, seed=training.stream(1))
    return Trainer(plain, private, optimizer, anchors, batches, images, device)


def snapshots(trainer: Trainer, settings: ValidateSettings, stepped: Callable[[], object]) -> list[Snapshot]:
    """Train to the end, and take the gradients of the three moments on the way.

    Args:
        trainer: of :func:`prepare`.
        settings: those that it was prepared with.
        stepped: called after each update.

    Returns:
        Start, middle and end.

    Raises:
        ValueError: the Poisson batch of a moment is empty.

    Example: three moments of a run of four steps.
        >>> import torch
        >>> from dptheory.training.data import Images, load
        >>> from dptheory.training.measure import ValidateSettings, prepare, snapshots
        >>> from dptheory.training.runs import DpSgdSettings
        >>> whole = load(name="excerpt", train=False)
        >>> images = Images("few", whole.pixels[:40], whole.labels[:40])
        >>> settings = ValidateSettings(DpSgdSettings(steps=4, batch_size=20, noise_multiplier=1.0, max_grad_norm=1.0,
        ...     learning_rate=0.1, seed=0), pool=2, anchors=3, window=1, subspace_dims=(1,))
        >>> trainer = prepare(images, whole.pixels[40:], settings, torch.device("cpu"))
        >>> [(one.name, one.step, tuple(one.anchors.shape)) for one in snapshots(trainer, settings, lambda: None)]
        [('start', 0, (3, 26010)), ('middle', 1, (3, 26010)), ('end', 2, (3, 26010))]
    """
    found: dict[int, dict[str, Any]] = {}
    sums = []
    for index in range(settings.training.steps):
        if index in settings.moments.values():
            found[index] = _gradients(trainer, index, settings)
        sums.append(trainer.step(index))
        stepped()
    layers, window = layer_slices(trainer.plain), settings.window
    return [
        Snapshot(
            name=name,
            step=index,
            layers=layers,
            window_sum=torch.stack(sums[index : index + window]).sum(0),
            next_sum=sums[index + window],
            **found[index],
        )
        for name, index in settings.moments.items()
    ]


def _gradients(trainer: Trainer, index: int, settings: ValidateSettings) -> dict[str, Any]:
    """What a snapshot holds of the present weights alone."""
    batch = trainer.batches.batch(index)
    if not len(batch):
        raise ArgumentError("batch_size", "be larger", index, got=f"an empty Poisson batch of step {index}")
    rng = np.random.default_rng((settings.training.stream(3), index))
    pool = torch.from_numpy(rng.choice(len(trainer.images), settings.pool, replace=False))
    gradients = trainer.batch_gradients(batch)  # `plain` has the present weights from here on
    return {
        "true": trainer.true_gradient(),
        "pool": trainer.batch_gradients(pool),
        "batch": gradients,
        "anchors": torch.cat([g.flatten(1) for g in trainer.anchors()], dim=1).cpu(),
        "head": _head(trainer, batch, gradients),
    }


def _head(trainer: Trainer, batch: torch.Tensor, gradients: torch.Tensor) -> LinearGradient:
    """The last layer's gradient, its outputs' derivatives (the gradient of the bias) and its inputs, for one example."""
    slices = layer_slices(trainer.plain)
    outputs = gradients[:, slices["fc2.bias"]].double()
    chosen = int(outputs.abs().amin(1).argmax())
    with torch.no_grad():
        features = trainer.plain[:-1](trainer.images.pixels[batch[chosen]][None].to(trainer.device))[0].cpu().double()
    weights = gradients[chosen, slices["fc2.weight"]].double().view(_CLASSES, len(features))
    return LinearGradient(weights.numpy(), outputs[chosen].numpy(), features.numpy())
