"""What a run is made of, read from TOML: flat keys and the tables [optimizer] and [mechanism]."""

import dataclasses
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from torch import nn

from dptheory import _validate
from dptheory.convergence import SCHEDULES
from dptheory.errors import ArgumentError
from dptheory.training import _argument_ranges, networks
from dptheory.training._files import is_own, only, read_toml
from dptheory.training.data import NAMES, CropsAndFlips
from dptheory.training.engine import GRAD_SAMPLE_MODES
from dptheory.training.runs._own import is_file

OF_A_SEED: Mapping[str, Callable[[int], nn.Module]] = {
    "tempered-cnn": networks.small_tempered_cnn,
    "mlp": networks.mlp,
    "dp-cnn": networks.dp_cnn,
    "resnet20": networks.resnet20,
    "wrn-16-4": networks.wrn_16_4,
    "scattering-cnn": networks.scattering_cnn,
    "scattering-linear": networks.scattering_linear,
    "scattering-small-cnn": networks.scattering_small_cnn,
}
"""Networks that are the same for all images."""
MODELS = ("small-cnn", *OF_A_SEED, "linear-probe")
"""Networks that a configuration can name."""
OWN = "; a network of your own is FILE.py:FUNCTION"
OPTIMIZERS = {"sgd": 0.0, "adam": 0.9}
"""Optimizers, and the momentum of each where none is given."""
INPUTS = ("standardised", "unit")
SAMPLINGS = ("poisson", "partition", "random allocation")
AUGMENTATIONS = {"none": None, "crops": CropsAndFlips(flips=False), "crops-and-flips": CropsAndFlips()}
"""Ways to draw a view of an image: crops of the image with four zeros on every side; mirror images too."""
MOST_VIEWS = 1024
WITHOUT_PIXELS = ("scattering-cnn", "scattering-linear", "scattering-small-cnn")
"""Networks that take features which are worked out once for every image."""
NO_RUNS = ("studies", "answers", "instruments")
"""Folders and files of ``configs`` that hold no runs."""
_HERE = Path(__file__).resolve().parents[1]
_NEAR = 3


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """The torch optimizer behind the mechanism.

    Args:
        name: "sgd" or "adam".
        learning_rate: in [1e-15, 1e6].
        momentum: in [0, 1); of "adam" that of the first moment. Left out it is 0 of "sgd" and 0.9 of "adam".
        weight_decay: in [0, 1000].
        schedule: of the learning rate: "constant"; "linear" or "cosine", which fall from step to step to 0 at the end.
        decay: share of the learning rate that is gone in the last epoch, in [0, 1); it falls by the same amount from epoch to
            epoch, like the kept share of the entries under gradual cooling. The studies of cooled masks have it; otherwise take
            ``schedule``, which goes with no decay.

    Raises:
        ValueError: a value outside its range, or another name.

    Example: SGD with momentum, and what is not said.
        >>> from dptheory.training.runs import OptimizerConfig
        >>> OptimizerConfig(learning_rate=0.5, momentum=0.9)
        OptimizerConfig(name='sgd', learning_rate=0.5, momentum=0.9, weight_decay=0.0, schedule='constant', decay=0.0)
    """

    name: str = "sgd"
    learning_rate: float = 1.0
    momentum: float | None = None
    weight_decay: float = 0.0
    schedule: str = "constant"
    decay: float = 0.0

    def __post_init__(self) -> None:
        _validate.choice("optimizer.name", self.name, tuple(OPTIMIZERS))
        momentum = OPTIMIZERS[self.name] if self.momentum is None else self.momentum
        _validate.store(
            self,
            learning_rate=_argument_ranges.learning_rate("optimizer.learning_rate", self.learning_rate),
            momentum=_validate.real("optimizer.momentum", momentum, 0.0, 1.0, ends="[)"),
            weight_decay=_validate.real("optimizer.weight_decay", self.weight_decay, 0.0, 1e3),
            decay=_validate.real("optimizer.decay", self.decay, 0.0, 1.0, ends="[)"),
        )
        _validate.choice("optimizer.schedule", self.schedule, tuple(SCHEDULES))
        if self.decay and self.schedule != "constant":
            raise ArgumentError(
                "optimizer.decay",
                f"be 0 with optimizer.schedule = {self.schedule!r}",
                self.decay,
                got=f"{self.decay}: both lower the rate",
            )


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training run.

    ``noise_multiplier`` or ``epsilon`` or both: without the first, the noise is the least that affords all epochs; a run
    stops before a step that would exceed ``epsilon``.

    Args:
        data: "excerpt", "fashion-mnist", "mnist" or "cifar-10"; or a file of one's own records, "private.npz", as
            :func:`own_records` reads it, where ``test_features`` and ``test_labels`` judge the run.
        model: "small-cnn", "tempered-cnn", "mlp", "dp-cnn", "resnet20", "wrn-16-4", "scattering-cnn", "scattering-linear",
            "scattering-small-cnn" or
            "linear-probe"; or one's own network, "mynetwork.py:build", as :func:`own_network` reads it.
        epochs: passes over the data, in (0, 1e9]: epochs * N / batch_size steps, rounded, at least 1.
        batch_size: expected size of the Poisson batches, 1 to N.
        max_grad_norm: clip C, in [1e-12, 1e12].
        delta: of the privacy guarantee, in [1e-15, 0.1].
        noise_multiplier: sigma, 0 or in [1e-6, 1e6], or None.
        epsilon: budget, in [1e-3, 1e6], or None for none.
        physical_batch_size: most examples whose gradients are held at once, 1 to 1e9.
        seed: fixes weights, batches, noise and masks; 0 to 2^63 - 1.
        inputs: "standardised" with the published mean and deviation of each channel (:data:`dptheory.training.data.CHANNELS`), which
            costs no privacy; or "unit", pixels in [0, 1]. Left out it is the first of shipped data; one's own records are taken as
            they are, and it must be left out.
        grad_sample_mode: "factors", "hooks" or "functorch".
        sampling: "poisson"; or "partition": every pass cuts the shuffled examples into batches of one size, and the reported
            epsilon then takes every example to be in every batch; or "random allocation": of the N / batch_size steps of a pass,
            rounded, each example is in exactly one, and the epsilon counts passes, each as a whole one from its first step on: a run
            that resumes within a pass begins another one.
        secure: batches, masks and noise from the operating system's cryptographic generator; it cannot be repeated, and its
            checkpoint is secret. Without it a run is a simulation: what it reports is what holds, and masks amplify nothing.
        optimizer: see :class:`OptimizerConfig`.
        mechanism: name, one of :data:`BUILDERS`, and arguments.
        num_examples: training records that it was planned for, 1 to 1e9; a run on another number
            keeps ``epsilon`` and says what changes.
        unjudged: first test images that the accuracy leaves out, 0 to 1e9, and not all there are: for a run that is compared with
            one that takes so many of them as auxiliary images, or that was planned on them.
        aside: last training images, 0 to 1e9, and not all there are, that are not trained on and judge the run instead of the test
            images: for a choice, such as that of a learning rate, that is not to be made by these. The accuracy on images aside, and a
            choice that is made by it, are not protected.
        average: share of the steps, in [0, 1], the last ones, whose weights are averaged; 0 for none. The mean is judged and saved
            beside the last weights. It costs no privacy: all of these weights count as released, and what is made of released
            values without another look at the data (post-processing) has their guarantee.
        average_decay: in [0, 1), the exponential average of the weights after all steps, each of which counts so many times what
            the next one does; 0 for none. Judged, saved and free of cost as that of ``average``, with which it does not go.
        standardised_weights: convolution layers work with standardised weights, see :func:`standardise_weights`; free of cost too.
        views: rows of an image in a step, 1 to 1024, each a view of its own; the gradient of an example is the mean over them, and is
            clipped once. More than one need an ``augmentation``. They cost no privacy, and time as so many examples do.
        augmentation: how views are drawn: "none", "crops" (for digits and letters) or "crops-and-flips".

    Raises:
        ValueError: a value outside its range, or values that do not go together.

    Example: a budget instead of a noise multiplier, and what is not said.
        >>> from dptheory.training.runs import RunConfig
        >>> config = RunConfig(data="excerpt", model="small-cnn", epochs=2, batch_size=250, max_grad_norm=1.0, epsilon=3.0)
        >>> config.delta, config.sampling, config.mechanism
        (1e-05, 'poisson', {'name': 'dp-sgd'})
    """

    data: str
    model: str
    epochs: float
    batch_size: int
    max_grad_norm: float
    delta: float = 1e-5
    noise_multiplier: float | None = None
    epsilon: float | None = None
    physical_batch_size: int = 256
    seed: int = 0
    inputs: str | None = None
    grad_sample_mode: str = "factors"
    sampling: str = "poisson"
    secure: bool = False
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    mechanism: Mapping[str, Any] = field(default_factory=lambda: {"name": "dp-sgd"})
    num_examples: int | None = None
    unjudged: int = 0
    aside: int = 0
    average: float = 0.0
    average_decay: float = 0.0
    standardised_weights: bool = False
    views: int = 1
    augmentation: str = "none"

    def __post_init__(self) -> None:
        self._check_names()
        for name in ("batch_size", "physical_batch_size"):
            _validate.store(self, **{name: _argument_ranges.count(name, getattr(self, name))})
        _validate.store(
            self,
            epochs=_epochs(self.epochs),
            average=_validate.real("average", self.average, 0.0, 1.0),
            average_decay=_validate.real("average_decay", self.average_decay, 0.0, 1.0, ends="[)"),
            max_grad_norm=_argument_ranges.clip("max_grad_norm", self.max_grad_norm),
            delta=_validate.real("delta", self.delta, 1e-15, 0.1),
            seed=_argument_ranges.seed("seed", self.seed),
            unjudged=_validate.integer("unjudged", self.unjudged, 0, 10**9),
            aside=_validate.integer("aside", self.aside, 0, 10**9),
        )
        if self.num_examples is not None:
            _validate.store(self, num_examples=_argument_ranges.count("num_examples", self.num_examples))
        _validate.flag("standardised_weights", self.standardised_weights)
        if self.average and self.average_decay:
            raise ArgumentError(
                "average_decay",
                f"be 0 with average = {self.average}",
                self.average_decay,
                got=f"{self.average_decay}: a run has one average",
            )
        self._check_views()
        _validate.instance("optimizer", self.optimizer, OptimizerConfig)
        if self.optimizer.decay and self.epochs < 2:
            raise ArgumentError("epochs", "be at least 2 with optimizer.decay above 0", self.epochs)
        if self.optimizer.decay and not isinstance(self.epochs, int):
            raise ArgumentError("epochs", "be a whole number with optimizer.decay above 0", self.epochs)
        if not isinstance(self.mechanism, Mapping):
            raise ArgumentError("mechanism", "be a table of name and arguments", self.mechanism)
        _validate.choice("grad_sample_mode", self.grad_sample_mode, GRAD_SAMPLE_MODES)
        if not isinstance(self.secure, bool):
            raise ArgumentError("secure", "be true or false", self.secure)
        if _validate.choice("sampling", self.sampling, SAMPLINGS) == "partition" and self.secure:
            raise ArgumentError("sampling", "be 'poisson' with secure = true", self.sampling, got="'partition'")
        if self.sampling == "partition" and self.noise_multiplier is None:
            raise ArgumentError(
                "noise_multiplier", "be given with sampling = 'partition'", self.noise_multiplier, got="none"
            )
        if self.noise_multiplier is None and self.epsilon is None:
            raise ArgumentError("noise_multiplier or epsilon", "be given", self.noise_multiplier, got="neither")
        if self.noise_multiplier is not None:
            sigma = _argument_ranges.noise_multiplier("noise_multiplier", self.noise_multiplier)
            _validate.store(self, noise_multiplier=sigma)
        if self.epsilon is not None:
            _validate.store(self, epsilon=_argument_ranges.epsilon("epsilon", self.epsilon))

    def _check_views(self) -> None:
        _validate.store(self, views=_validate.integer("views", self.views, 1, MOST_VIEWS))
        _validate.choice("augmentation", self.augmentation, tuple(AUGMENTATIONS))
        if self.augmentation == "none" and self.views > 1:
            raise ArgumentError(
                "augmentation", "draw views where there are several", self.augmentation, then=": all are equal"
            )
        if self.augmentation != "none" and self.model in WITHOUT_PIXELS:
            raise ArgumentError(
                "augmentation",
                f"be 'none' with model {self.model!r}, whose features are worked out once for every image",
                self.augmentation,
            )

    def _check_names(self) -> None:
        if not is_file(self.data):
            _validate.choice("data", self.data, NAMES)
            inputs = "standardised" if self.inputs is None else self.inputs
            _validate.store(self, inputs=_validate.choice("inputs", inputs, INPUTS))
        elif self.inputs is not None:
            raise ArgumentError(
                "inputs", "be left out where data is a file: its records are taken as they are", self.inputs
            )
        if not is_own(self.model):
            _validate.choice("model", self.model, MODELS, then=OWN)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as in TOML; what most runs leave out (views, averages, schedules) only where there is some."""
        plain = dataclasses.asdict(self) | {"mechanism": dict(self.mechanism)}
        for name in ("num_examples", "unjudged", "aside", "average", "average_decay", "standardised_weights", "inputs"):
            if not plain[name]:
                del plain[name]
        if self.views == 1:
            del plain["views"]
        if self.augmentation == "none":
            del plain["augmentation"]
        if self.optimizer.schedule == "constant":
            del plain["optimizer"]["schedule"]
        if not self.optimizer.decay:
            del plain["optimizer"]["decay"]
        return plain


def _epochs(value: object) -> float:
    """A whole number of them stays one, as configurations and results have it."""
    if isinstance(value, int):
        return _argument_ranges.count("epochs", value)
    found = _validate.real("epochs", value, 0.0, 1e9, ends="(]")
    return int(found) if found.is_integer() else found


def read_config(path: Path, *, changes: Sequence[str] = ()) -> RunConfig:
    """A run from a TOML file, with changes such as ``epochs=1`` or ``mechanism.drop_rate=0.7``.

    Values are written as in TOML or as bare words; ``noise_multiplier=`` without one takes the key out.

    Args:
        path: of the file. A file may hold many runs, a table for each: ``configs/fashion_mnist/dp_sgd`` is the table ``dp_sgd`` of
            ``configs/fashion_mnist.toml``. What does not exist is looked up among the files that come with this package.
        changes: each as ``key=value``, applied in order.

    Returns:
        The configuration.

    Raises:
        ValueError: a folder, not TOML, a file of many runs without the name of one, an unknown key, or a value outside its range.
        OSError: no such file, or no such table in it.

    Example: a shipped configuration, with another data set and another drop rate.
        >>> from pathlib import Path
        >>> from dptheory.training.runs import read_config
        >>> changes = ["data=excerpt", "mechanism.drop_rate=0.7"]
        >>> config = read_config(Path("configs/fashion_mnist/random_sparsification"), changes=changes)
        >>> config.data, config.mechanism["drop_rate"]
        ('excerpt', 0.7)
    """
    table = _table_of(path)
    if table is None and not path.is_absolute():
        table = _table_of(_HERE / path)
    if table is None:
        shipped = [str(run) for run in shipped_runs(_HERE)]
        near = get_close_matches(str(path), shipped, n=_NEAR, cutoff=0.0)
        raise FileNotFoundError(
            f"no file {path}; of the {len(shipped)} runs of the package, in {_HERE / 'configs'}, these are nearest: {', '.join(near)}"
        )
    for change in changes:
        _apply(table, change)
    return from_dict(table)


def _table_of(path: Path) -> dict[str, Any] | None:
    """The table of one run: a file, or one of the tables of ``<folder>.toml``; None where there is neither."""
    if path.is_dir():
        raise ArgumentError("config", "be a TOML file", path, got=f"the folder {path}")
    if path.exists():
        table = read_toml(path)
        if _holds_many(table):
            raise ArgumentError(
                "config", f"name one of its runs, such as {path.with_suffix('') / next(iter(table))}", path
            )
        return table
    many = path.parent.with_name(f"{path.parent.name}.toml") if path.parent.name else path
    found = read_toml(many).get(path.name.removesuffix(".toml")) if many.is_file() else None
    return found if isinstance(found, dict) else None


def _holds_many(table: Mapping[str, Any]) -> bool:
    return bool(table) and all(isinstance(one, dict) for one in table.values())


def shipped_runs(folder: Path) -> list[Path]:
    """The runs below ``folder / "configs"``, as :func:`read_config` takes them, in order."""
    found = []
    for path in sorted((folder / "configs").rglob("*.toml")):
        name = path.relative_to(folder)
        if not {path.parent.name, path.stem} & set(NO_RUNS):
            table = read_toml(path)
            found += [name.with_suffix("") / one for one in table] if _holds_many(table) else [name]
    return found


def from_dict(table: Mapping[str, Any]) -> RunConfig:
    """A run from plain values.

    Args:
        table: keys and values of :class:`RunConfig`; "optimizer" and "mechanism" are tables.

    Returns:
        The configuration.

    Raises:
        ValueError: a missing or unknown key, or a value outside its range.

    Example: a configuration as TOML has it; noise or budget must be given.
        >>> from dptheory.training.runs import from_dict
        >>> table = {"data": "excerpt", "model": "small-cnn", "epochs": 2, "batch_size": 250, "max_grad_norm": 1.0}
        >>> from_dict(table | {"noise_multiplier": 1.5, "optimizer": {"learning_rate": 0.5}}).optimizer.learning_rate
        0.5
        >>> from_dict(table)
        Traceback (most recent call last):
            ...
        dptheory.errors.ArgumentError: noise_multiplier or epsilon must be given, got neither
    """
    for name in ("optimizer", "mechanism"):
        if not isinstance(table.get(name, {}), Mapping):
            raise ArgumentError(name, f"be a table such as [{name}]", table[name], then=f"; did you mean {name}.name?")
    runs, optimizers = ({f.name for f in dataclasses.fields(kind)} for kind in (RunConfig, OptimizerConfig))
    own = table.get("optimizer", {})
    for path, meant in (
        *((key, f"optimizer.{key}") for key in table.keys() & (optimizers - runs)),
        *((f"optimizer.{key}", f"{key}, above the tables") for key in own.keys() & (runs - optimizers)),
    ):
        raise ArgumentError.about(path, table, f"the configuration has no key {path}; did you mean {meant}?")
    optimizer = OptimizerConfig(**_known("optimizer.", OptimizerConfig, own))
    plain = _known("", RunConfig, table)
    missing = [
        f.name
        for f in dataclasses.fields(RunConfig)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING and f.name not in plain
    ]
    if missing:
        raise ArgumentError.about(missing[0], missing, f"the configuration lacks {', '.join(missing)}")
    return RunConfig(**{**plain, "optimizer": optimizer})


def _known(prefix: str, kind: type, table: Mapping[str, Any]) -> dict[str, Any]:
    names = [f.name for f in dataclasses.fields(kind)]
    only(table, names, prefix=prefix, says="the configuration has no key")
    return dict(table)


def _apply(table: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    if not equals:
        raise ArgumentError.about("--set", change, f"--set wants key=value, got {change!r}")
    *path, last = key.strip().split(".")
    for name in path:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise ArgumentError.about(name, change, f"--set {change}: {name} is not a table")
    if not text.strip():
        table.pop(last, None)
        return
    try:
        table[last] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        table[last] = text.strip()
