"""From a configuration to a run before its first step: images, model, mechanism, batches."""

import logging
import math
import os
from collections import Counter
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, cast

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from opacus import GradSampleModule
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from torch import nn
from torch.nn.functional import cross_entropy

from dptheory import _validate, privacy
from dptheory._rounding import rounded_up
from dptheory.errors import ArgumentError
from dptheory.training import engine, networks
from dptheory.training._files import is_own
from dptheory.training._last_weights import LastWeights
from dptheory.training._streams import simulation
from dptheory.training.data import Images, data_folder, load, standardised
from dptheory.training.engine import (
    AllocatedBatches,
    Batches,
    MechanismOptimizer,
    PartitionBatches,
    PoissonBatches,
    SecureBatches,
    attach,
)
from dptheory.training.networks import (
    IMAGE_SHAPE,
    SCATTERING_INPUT,
    scattering_features,
    small_tanh_cnn,
    standardise_weights,
)
from dptheory.training.runs import _build
from dptheory.training.runs._config import (
    AUGMENTATIONS,
    MODELS,
    OF_A_SEED,
    OWN,
    WITHOUT_PIXELS,
    OptimizerConfig,
    RunConfig,
)
from dptheory.training.runs._own import is_file, own_network, own_records

_log = logging.getLogger("dptheory.training")

# --- Scattering coefficients of a data set, computed once per machine and kept beside the data


_FOLDER = "scattering"
_LEAST = 1000
"""Images, below which the coefficients are computed faster than they are read."""


def kept_features(pixels: torch.Tensor) -> torch.Tensor:
    """Normalised :func:`dptheory.training.networks.scattering_features`, from a file where the same images had theirs computed before.

    The file lies in the folder ``scattering`` of the data folder: 3.1 GB for the 50,000 training images of CIFAR-10, which take
    minutes to compute. Runs at the same time share its memory. Where the folder cannot be written nothing is kept. Of pixels of
    shape (n, channels, 32, 32), float32, on the CPU, the shape is (n, 81 channels, 8, 8).
    """
    folder = data_folder() / _FOLDER
    if len(pixels) < _LEAST or not _writable(folder):
        return scattering_features(pixels, normalised=True)
    memory = joblib.Memory(folder, mmap_mode="c", verbose=0)
    return torch.from_numpy(memory.cache(_normalised)(pixels.numpy()))


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _normalised(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = scattering_features(torch.from_numpy(pixels), normalised=True).numpy()
    return found


_WEIGHTS, _BATCHES, _NOISE, _MASKS, DROPOUT, VIEWS = range(6)
_COMPARED = 16
"""Records of a batch that shows whether one of them changes another one's gradient."""
AUXILIARY = {"excerpt": "excerpt", "fashion-mnist": "fashion-mnist", "mnist": "excerpt", "cifar-10": "cifar-10"}
"""Where images that nothing protects come from: test images of the set named, which is not always that of the run.

They are the first of the test images; half of them at most, where the run is judged by the same set. A run whose mechanism
takes some is judged by the others, as in GEP, Appendix C; all other runs by all test images.
"""


@dataclass
class Run:
    """A run that is set up, and can be stepped; :func:`prepare` makes it.

    Attributes:
        config: what it is made of.
        model: the plain network.
        private: the same with Opacus's hooks.
        optimizer: what releases gradients.
        batches: of every step.
        train, test: the images.
        device: where it trains.
        steps: planned.
        step: made so far.
        losses, seen: sum of the losses of this epoch, and of how many examples.
        seconds: of this epoch so far.
        spent: whether the budget stopped it.
        rows: metrics of the epochs so far.
        mean: of the weights after the steps, where the configuration asks for it.
        held: memory for the records of a part, which each part overwrites: new memory is cleared page by page, at three times the
            cost of the copy.
    """

    config: RunConfig
    model: nn.Module
    private: GradSampleModule
    optimizer: MechanismOptimizer
    batches: Batches
    train: Images
    test: Images
    device: torch.device
    steps: int
    _: KW_ONLY
    step: int = 0
    losses: float = 0.0
    seen: float = 0
    seconds: float = 0.0
    spent: bool = False
    rows: list[dict[str, Any]] = field(default_factory=list)
    mean: LastWeights | None = None
    held: torch.Tensor = field(default_factory=lambda: torch.zeros(0))


def stream(seed: int, purpose: int, *places: int) -> int:
    """An independent seed for the weights, the batches, the noise, the masks, or the dropout or the views of a place."""
    return int(np.random.SeedSequence((seed, purpose, *places)).generate_state(1, np.uint32)[0])


def prepare(config: RunConfig, device: torch.device) -> Run:
    """Load the data, build model, mechanism and optimizer.

    Args:
        config: of the run.
        device: where it trains.

    Returns:
        The run before its first step.

    Raises:
        ValueError: a configuration that does not fit together.
        OSError: data files are missing and cannot be fetched.

    Example: two epochs of four steps.
        >>> import torch
        >>> from dptheory.training.runs import from_dict, prepare
        >>> config = from_dict({"data": "excerpt", "model": "linear-probe", "epochs": 2, "batch_size": 500, "max_grad_norm": 1.0,
        ...     "noise_multiplier": 2.0, "mechanism": {"name": "random-sparsification", "drop_rate": 0.5}})
        >>> run = prepare(config, torch.device("cpu"))
        >>> run.steps, run.optimizer.mechanism.title
        (8, 'random sparsification')
    """
    with simulation():  # as report and statement call it: a run that is resumed is bit for bit one that never stopped
        return _prepared(config, device)


def _prepared(config: RunConfig, device: torch.device) -> Run:
    train, test = (images_of(config, train=t) for t in (True, False))
    if config.aside >= len(train):
        raise ArgumentError("aside", f"be less than the {len(train)} training examples", config.aside)
    kept = len(train) - config.aside
    aside = Images(train.name, train.pixels[kept:], train.labels[kept:])
    train = Images(train.name, train.pixels[:kept], train.labels[:kept])
    if config.batch_size > len(train):
        raise ArgumentError(
            "batch_size",
            f"be at most the {len(train)} training examples",
            config.batch_size,
        )
    if config.unjudged >= max(1, len(test)):
        raise ArgumentError("unjudged", f"be less than the {len(test)} test images", config.unjudged)
    sampling_rate = rate_of(config, len(train))
    steps = last_step(config.epochs, sampling_rate)
    auxiliary = _build.Auxiliary(lambda name: _auxiliary(config, test, name), own=config.data)
    model = _network(config, train).to(device).train()
    _check_shape(model, config, train, device)
    if len(test):
        _check_shape(model, config, test, device, kind="test records")
    _check_images(config, train)
    if is_own(config.model) or is_file(config.data):
        _check_own(model, config, train, device)
    if is_file(config.data):
        _warn_of_equal(train)
    apart = _compared(model, config, train, device)
    setting = _build.MechanismSetting(
        run=config,
        model=model,
        steps_per_epoch=last_step(1, sampling_rate),
        steps=steps,
        seed=None if config.secure else stream(config.seed, _MASKS),
        auxiliary=auxiliary,
    )
    mechanism = _build.build_mechanism(setting, config.mechanism)
    module = DifferentiallyPrivateDistributedDataParallel(model) if engine.active() else model
    batches = _batches(config, len(train), sampling_rate)
    private, optimizer = attach(
        module=module,
        optimizer=build_optimizer(model, config.optimizer),
        mechanism=mechanism,
        sampling_rate=None if isinstance(batches, AllocatedBatches) else sampling_rate,
        train_size=len(train),
        noise_multiplier=_noise_multiplier(config, sampling_rate, steps),
        max_grad_norm=config.max_grad_norm,
        grad_sample_mode=config.grad_sample_mode,
        noise_generator=None if config.secure else torch.Generator(device).manual_seed(stream(config.seed, _NOISE)),
        secure=config.secure,
        batches=batches,
        views=config.views,
    )
    if isinstance(batches, PoissonBatches | SecureBatches):
        optimizer.sampler = engine.POISSON
    optimizer.probe(apart)
    _warn_of_another_number(config, len(train), steps, optimizer.noise_multiplier)
    if config.epsilon is not None:
        optimizer.accountant.limit(epsilon=config.epsilon, delta=config.delta, records=len(train))
    out = max(auxiliary.used, config.unjudged)
    test = aside if config.aside else Images(test.name, test.pixels[out:], test.labels[out:])
    averaged = config.average or config.average_decay
    mean = LastWeights(model, decay=config.average_decay or 1.0) if averaged else None
    return Run(config, model, private, optimizer, batches, train, test, device, steps, mean=mean)


def _warn_of_another_number(config: RunConfig, records: int, steps: int, noise: float) -> None:
    """Say what a run on another number of records than planned does otherwise: its noise keeps the budget."""
    if config.num_examples in (None, records):
        return
    rate = min(1.0, rate_of(config, config.num_examples))
    planned = last_step(config.epochs, rate)
    kept = "epsilon is another one too: see the statement"
    if config.epsilon is not None:
        kept = f"epsilon stays at most {config.epsilon:g} at delta {config.delta:g}"
    _log.warning(
        "planned for %s records, and there are %s: %s steps in place of %s, at noise multiplier %s in place of %s; %s. Batch, clip and "
        "learning rate were chosen for the other number: plan again, or go on",
        f"{config.num_examples:,}",
        f"{records:,}",
        f"{steps:,}",
        f"{planned:,}",
        rounded_up(noise, 6),
        rounded_up(_noise_multiplier(config, rate, planned), 6),
        kept,
    )


def rate_of(config: RunConfig, records: int) -> float:
    """With which a record is in a step: batch size over records; of random allocation one over a whole number of steps."""
    rate = config.batch_size / records
    return 1.0 / max(1, round(1 / rate)) if config.sampling == "random allocation" else rate


def _batches(config: RunConfig, records: int, sampling_rate: float) -> Batches:
    seed = stream(config.seed, _BATCHES)
    if config.sampling == "random allocation":
        return AllocatedBatches(
            train_size=records, steps_per_epoch=round(1 / sampling_rate), seed=None if config.secure else seed
        )
    if config.secure:
        return SecureBatches(train_size=records, sampling_rate=sampling_rate)
    if config.sampling == "partition":
        return PartitionBatches(train_size=records, batch_size=config.batch_size, seed=seed)
    return PoissonBatches(train_size=records, sampling_rate=sampling_rate, seed=seed)


def last_step(epoch: float, sampling_rate: float) -> int:
    """Steps made at the end of so many epochs: as many as batches of the expected size hold passes, and at least one."""
    return max(1, math.floor(epoch), round(epoch / sampling_rate))


def _noise_multiplier(config: RunConfig, sampling_rate: float, steps: int) -> float:
    """The configured sigma, or the least that affords all steps; a selection's own cost may stop such a run earlier.

    Rounded up to six decimals: the last digits of the accountant's sums differ from process to process, and a run must not.
    """
    if config.noise_multiplier is not None:
        return config.noise_multiplier
    assert config.epsilon is not None
    law: dict[str, Any] = {"sampling_rate": sampling_rate}
    if config.sampling == "random allocation":
        law = {"sampling": config.sampling, "steps_per_epoch": round(1 / sampling_rate)}
        steps = (
            math.ceil(steps * sampling_rate - 1e-9) * law["steps_per_epoch"]
        )  # a pass cut short counts as a whole one
    least = privacy.least_noise_multiplier(epsilon=config.epsilon, delta=config.delta, steps=steps, **law)
    return math.ceil(least * 1e6) / 1e6


def _network(config: RunConfig, train: Images) -> nn.Module:
    seed = stream(config.seed, _WEIGHTS)
    if is_own(config.model):
        found = own_network(config.model, seed=seed)
    else:
        found = build_model(config.model, features=train.pixels[0].numel(), seed=seed)
    return standardise_weights(found) if config.standardised_weights else found


def _check_own(model: nn.Module, config: RunConfig, train: Images, device: torch.device) -> None:
    """See that labels are classes of the network."""
    with torch.no_grad():
        outputs = model(train.pixels[:2].to(device))
    if not isinstance(outputs, torch.Tensor) or outputs.dim() != 2:
        raise ArgumentError.about(
            "model", config.model, f"model {config.model!r} must give a row of scores for each record"
        )
    low, high = int(train.labels.min()), int(train.labels.max())
    if low < 0 or high >= outputs.shape[1]:
        raise ArgumentError(
            "data",
            f"have labels in 0..{outputs.shape[1] - 1}, the classes of model {config.model!r}",
            low,
            got=f"{low}..{high}",
        )


def _warn_of_equal(train: Images) -> None:
    """Say how many records are there several times: copies of one, or people who look alike, which only the user can tell."""
    rows = Counter(
        pixels.tobytes() + label.tobytes()
        for pixels, label in zip(train.pixels.numpy(), train.labels.numpy(), strict=True)
    )
    equal = sum(count for count in rows.values() if count > 1)
    if equal:
        _log.warning(
            "%s: %d of the %d rows are equal to another one, and epsilon is that of one row: a record that is there several times is "
            "protected less; leave copies out",
            train.name,
            equal,
            len(train),
        )


def _compared(model: nn.Module, config: RunConfig, train: Images, device: torch.device) -> str:
    """See that no record changes another one's gradient, without which epsilon says nothing; what the statement says of it."""
    pixels, labels = train.pixels[:_COMPARED].to(device), train.labels[:_COMPARED].to(device)
    if len(labels) < 2:
        return "not probed: a comparison needs two records"
    engine.check_rows_apart(
        model,
        (pixels.repeat_interleave(config.views, 0), labels.repeat_interleave(config.views)),
        lambda net, batch: cross_entropy(net(batch[0]), batch[1]),
        views=config.views,
    )
    return f"compared in {len(labels)} records before the first step"


def _check_images(config: RunConfig, train: Images) -> None:
    """See that there are images to take views of."""
    if AUGMENTATIONS[config.augmentation] is not None and train.pixels.dim() != 4:
        raise ArgumentError(
            "augmentation",
            "be 'none' where records are no images of shape (channels, height, width)",
            config.augmentation,
            then=f" with {tuple(train.pixels.shape[1:])}",
        )


def _auxiliary(config: RunConfig, test: Images, name: str | None) -> Images:
    """The images that a mechanism may take as not protected: of the run's own set at most half of those that judge it."""
    if is_file(config.data) and name is None:
        raise ArgumentError(
            "mechanism.auxiliary", "be given where data is a file", None, got=f"none with {config.data!r}"
        )
    name = AUXILIARY[config.data] if name is None else name
    if name == config.data:
        return Images(name, test.pixels[: len(test) // 2], test.labels[: len(test) // 2])
    if {name, config.data} == {"excerpt", "fashion-mnist"}:
        raise ArgumentError("mechanism.auxiliary", f"be a set without images of {config.data!r}", name)
    images = _inputs(config, load(name=name, train=False))
    wanted, found = tuple(test.pixels.shape[1:]), tuple(images.pixels.shape[1:])
    if found != wanted:
        raise ArgumentError("mechanism.auxiliary", f"be a set with images of shape {wanted}", name, then=f": {found}")
    return images


def images_of(config: RunConfig, *, train: bool) -> Images:
    """The images, or records of one's own, as the run's network takes them.

    Args:
        config: of the run.
        train: those to train on; else those to judge by.

    Returns:
        The images; of records of one's own, "pixels" are features of any shape.

    Raises:
        ValueError: a file of records that cannot be read, or labels that are no whole numbers.
        OSError: data files are missing and cannot be fetched.

    Example: the test images of the excerpt.
        >>> from dptheory.training.runs import from_dict, images_of
        >>> config = from_dict({"data": "excerpt", "model": "linear-probe", "epochs": 1, "batch_size": 500, "max_grad_norm": 1.0,
        ...     "noise_multiplier": 2.0})
        >>> len(images_of(config, train=False))
        500
    """
    if not is_file(config.data):
        return _inputs(config, load(name=config.data, train=train))
    features, labels = own_records(config.data, test=not train)
    if train and not len(labels):
        raise ArgumentError("data", "have records", config.data, got=f"{config.data!r} with none")
    return Images(config.data, features, labels)


def _inputs(config: RunConfig, images: Images) -> Images:
    """The images as the model takes them: standardised, and scattering coefficients for the networks on them."""
    if config.inputs == "standardised":
        images = standardised(images)
    if config.model not in WITHOUT_PIXELS:
        return images
    wanted, pixels = IMAGE_SHAPE if config.model == "scattering-small-cnn" else SCATTERING_INPUT, images.pixels
    shape = tuple(pixels.shape[1:])
    if shape != wanted:
        raise ArgumentError.about(
            "model", shape, f"model {config.model!r} takes images of shape {wanted}, got {config.data!r}: {shape}"
        )
    if wanted == IMAGE_SHAPE:  # a border of background, as scattering is of 32 x 32 pixels here
        pixels = nn.functional.pad(pixels, (2, 2, 2, 2), value=float(pixels.min()))
    return Images(images.name, kept_features(pixels), images.labels)


def _check_shape(
    model: nn.Module, config: RunConfig, images: Images, device: torch.device, *, kind: str = "records"
) -> None:
    """Two images through the model, so that a mismatch is said before the run."""
    try:
        with torch.no_grad():
            model(
                images.pixels[:2].to(device)
            )  # one alone is too few for what normalises batches, which is refused later
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        shape, dtype = tuple(images.pixels.shape[1:]), str(images.pixels.dtype).removeprefix("torch.")
        hint = "" if images.pixels.is_floating_point() else " (a network that computes with its features takes float32)"
        raise ArgumentError.about(
            "model",
            shape,
            f"model {config.model!r} does not take the {shape} {kind} of {config.data!r}, {dtype}: {error}{hint}",
        ) from None


# --- From the words of a configuration to models and optimizers


_COLOUR = 3 * 32 * 32
_SECOND_MOMENT = 0.999
"""Of Adam, as torch has it."""


def build_model(name: str, *, features: int, seed: int) -> nn.Module:
    """The network called ``name``, at its starting weights.

    Args:
        name: "small-cnn", "tempered-cnn", "mlp", "dp-cnn", "resnet20", "wrn-16-4", "scattering-cnn", "scattering-linear",
            "scattering-small-cnn" or
            "linear-probe".
        features: entries of one input, for the linear probe, 1..1e9; with 3,072 the small CNN is that for 3 x 32 x 32 images.
        seed: of the starting weights, 0 to 2^64 - 1.

    Returns:
        The network, in training mode, on the CPU.

    Raises:
        ValueError: another name; a seed, or for the linear probe a number of features, outside its range.

    Example: a linear layer of 784 inputs and ten outputs.
        >>> from dptheory.training.runs import build_model
        >>> sum(p.numel() for p in build_model("linear-probe", features=784, seed=0).parameters())
        7850
    """
    match _validate.choice("name", name, MODELS, then=OWN):
        case "small-cnn":
            return networks.small_colour_cnn(seed) if features == _COLOUR else small_tanh_cnn(seed)
        case "linear-probe":
            return networks.linear_probe(seed, features=features)
        case _:
            return OF_A_SEED[name](seed)


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """The torch optimizer over all parameters that require gradients.

    Args:
        model: whose parameters are trained.
        config: its name and hyperparameters.

    Returns:
        ``torch.optim.SGD`` or ``torch.optim.Adam``.

    Example: what the table [optimizer] of a configuration names.
        >>> import torch
        >>> from dptheory.training.runs import OptimizerConfig, build_optimizer
        >>> type(build_optimizer(torch.nn.Linear(3, 2), OptimizerConfig(name="adam", learning_rate=1e-3))).__name__
        'Adam'
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    momentum = cast(float, config.momentum)  # where none was given the configuration has put the optimizer's own
    if config.name == "adam":
        return torch.optim.Adam(
            trained,
            lr=config.learning_rate,
            betas=(momentum, _SECOND_MOMENT),
            weight_decay=config.weight_decay,
        )
    return torch.optim.SGD(trained, lr=config.learning_rate, momentum=momentum, weight_decay=config.weight_decay)
