"""From the words of a configuration to mechanisms."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.pruning import theta_for_budget
from dptheory.training import _argument_ranges, mechanisms
from dptheory.training._files import only
from dptheory.training._streams import LABELS, derived
from dptheory.training.data import NAMES, Images
from dptheory.training.mechanisms import AnchorGradients, Clipping, Mechanism, Schedule, layers
from dptheory.training.runs._config import RunConfig

_MOST_ITERATIONS = 1000
"""Of the power method in every step; GEP takes one."""


@dataclass
class Auxiliary:
    """Images that nothing protects, loaded when a mechanism first asks for them.

    Args:
        load: gives those of the data set of a name, and for None those that go with the run's own.
        own: name of the run's own data set, of whose test images they may be.

    Attributes:
        used: how many of the run's own test images a mechanism has taken, the first ones; a run must not be judged by these.

    Example: a mechanism takes seven images of the set that the run is judged by.
        >>> from dptheory.training.data import load
        >>> from dptheory.training.runs import Auxiliary
        >>> auxiliary = Auxiliary(lambda name: load(name="excerpt", train=False), own="excerpt")
        >>> len(auxiliary.take(7)), auxiliary.used
        (7, 7)
    """

    load: Callable[[str | None], Images]
    own: str
    used: int = field(default=0, init=False)

    def take(self, count: int, *, name: str | None = None) -> Images:
        """The first images, counted as used where they are the run's own.

        Args:
            count: how many, at least 1.
            name: of the data set; None for the one that goes with the run's own.

        Returns:
            The images and their labels.

        Raises:
            ValueError: there are not so many.
        """
        images = self.load(name)
        _validate.integer("mechanism.anchors", count, 1, len(images))
        if images.name == self.own:
            self.used = max(self.used, count)
        return Images(images.name, images.pixels[:count], images.labels[:count])


@dataclass(frozen=True, kw_only=True)
class MechanismSetting:
    """What the builders of mechanisms need to know beside the table [mechanism].

    Args:
        run: configuration of the run.
        model: whose gradients the mechanism gets.
        steps_per_epoch: of the run, at least 1, rounded; what cools or decays goes by ``steps`` and the run's epochs instead.
        steps: of the whole run, at least 1.
        seed: of masks; None draws them from the operating system's cryptographic generator.
        auxiliary: images of which GEP takes its anchors.
    """

    run: RunConfig
    model: nn.Module
    steps_per_epoch: int
    steps: int
    seed: int | None
    auxiliary: Auxiliary


def build_mechanism(setting: MechanismSetting, table: Mapping[str, Any]) -> Mechanism:
    """The mechanism that the table [mechanism] names.

    Args:
        setting: the run that it is for.
        table: "name", one of :data:`BUILDERS`, and the arguments of that builder.

    Returns:
        The mechanism, not yet attached to a model.

    Raises:
        ValueError: an unknown name or argument, or a value outside its range.

    Example: what the table of a configuration names.
        >>> from dptheory.training.data import load
        >>> from dptheory.training.runs import Auxiliary, MechanismSetting, build_mechanism, build_model, from_dict
        >>> config = from_dict({"data": "excerpt", "model": "linear-probe", "epochs": 2, "batch_size": 500, "max_grad_norm": 1.0,
        ...     "noise_multiplier": 2.0})
        >>> setting = MechanismSetting(run=config, model=build_model("linear-probe", features=784, seed=0), steps_per_epoch=4,
        ...     steps=8, seed=0, auxiliary=Auxiliary(lambda name: load(name="excerpt", train=False), own="excerpt"))
        >>> build_mechanism(setting, {"name": "random-sparsification", "drop_rate": 0.5}).title
        'random sparsification'
    """
    arguments = dict(table)
    name = _validate.choice("mechanism.name", arguments.pop("name", "dp-sgd"), tuple(BUILDERS))
    builder = BUILDERS[name]
    wanted = list(inspect.signature(builder).parameters)[1:]
    unknown = [key for key in arguments if key not in wanted]
    if unknown:
        there = f"there are {', '.join(wanted)}" if wanted else "it takes none"
        told = f"be an argument of {name!r}; {there}"
        of_run = unknown[0] in vars(setting.run)
        near = f"; did you mean {unknown[0]}, above the tables?" if of_run else _validate.meant(unknown[0], wanted)
        raise ArgumentError(f"mechanism.{unknown[0]}", told, arguments[unknown[0]], then=near)
    try:
        inspect.signature(builder).bind(setting, **arguments)  # whose error names no function
        built = builder(setting, **arguments)
        built.check_clip(setting.run.max_grad_norm)
    except TypeError as error:
        raise ArgumentError.about(
            "mechanism", table, f"mechanism {name!r}: {error}; its arguments are {', '.join(wanted)}"
        ) from None
    except ArgumentError as error:
        if error.argument in arguments:  # as a mechanism calls its own argument
            raise error.renamed(f"mechanism.{error.argument}") from None
        raise
    return built


CLIPPINGS: Mapping[str, tuple[str, ...]] = {
    "flat": (),
    "by-layer": ("shares",),
    "automatic": ("gamma",),
    "adaptive": ("by_layer", "quantile", "clip_rate", "count_share"),
}
"""Rules that the argument ``clipping`` of a mechanism can name, with their arguments."""


def _clipping(clipping: Mapping[str, Any]) -> tuple[Clipping, dict[str, Any]]:
    """The rule that a table names, and the arguments that are left."""
    arguments = dict(clipping)
    name = _validate.choice("mechanism.clipping.name", arguments.pop("name", "flat"), tuple(CLIPPINGS))
    only(arguments, CLIPPINGS[name], prefix="mechanism.clipping.", says=f"the rule {name!r} has no argument")
    if name == "by-layer":
        return mechanisms.LayerClipping(arguments.pop("shares", None)), arguments
    if name == "automatic":
        return mechanisms.AutomaticClipping(
            **{key: arguments.pop(key) for key in ("gamma",) if key in arguments}
        ), arguments
    return mechanisms.FlatClipping(), arguments


def _clipped(
    setting: MechanismSetting, clipping: Mapping[str, Any] | None, build: Callable[[Clipping], Mechanism]
) -> Mechanism:
    """A mechanism with the rule of the table ``clipping``, whose "name" is one of :data:`CLIPPINGS`: flat where there is none.

    With "adaptive" the mechanism stands within adaptive clipping; its argument ``by_layer`` has the clip that moves shared by layers.
    """
    if not isinstance(clipping, Mapping | None):
        raise ArgumentError("clipping", "be a table with a name and arguments", clipping)
    table = dict(clipping or {})
    rule, left = _clipping(table)
    if table.get("name") != "adaptive":
        return build(rule)
    inner = (
        mechanisms.LayerClipping()
        if _validate.flag("mechanism.clipping.by_layer", left.pop("by_layer", False))
        else rule
    )
    return mechanisms.AdaptiveClipping(build(inner), expected_batch_size=setting.run.batch_size, **left)


def _sparsification_rate(setting: MechanismSetting, drop_rate: float, cooling_epochs: int) -> Schedule:
    _validate.real("mechanism.drop_rate", drop_rate, 0.0, 1.0, ends="[)")
    _validate.integer("mechanism.cooling_epochs", cooling_epochs, 0)
    if cooling_epochs == 0:
        return mechanisms.Constant(drop_rate)
    return mechanisms.GradualCooling(
        final_drop_rate=drop_rate, cooling_epochs=cooling_epochs, steps_per_epoch=setting.steps / setting.run.epochs
    )


def _refresh_steps(setting: MechanismSetting, refreshes_per_epoch: int) -> int:
    """Steps between two masks; 0 asks for a fresh mask at every step."""
    times = _validate.integer("mechanism.refreshes_per_epoch", refreshes_per_epoch, 0, setting.steps_per_epoch)
    return 1 if times == 0 else setting.steps_per_epoch // times


def _dp_sgd(setting: MechanismSetting, clipping: Mapping[str, Any] | None = None) -> Mechanism:
    return _clipped(setting, clipping, lambda rule: mechanisms.DpSgd(clipping=rule))


def _alone(kind: Callable[[], Mechanism]) -> Callable[..., Mechanism]:
    def build(setting: MechanismSetting) -> Mechanism:
        return kind()

    return build


def _masked(kind: Callable[..., Mechanism]) -> Callable[..., Mechanism]:
    def build(
        setting: MechanismSetting,
        drop_rate: float,
        cooling_epochs: int = 0,
        refreshes_per_epoch: int = 0,
        clipping: Mapping[str, Any] | None = None,
    ) -> Mechanism:
        schedule = _sparsification_rate(setting, drop_rate, cooling_epochs)
        steps = _refresh_steps(setting, refreshes_per_epoch)
        return _clipped(
            setting, clipping, lambda rule: kind(schedule, setting.seed, refresh_steps=steps, clipping=rule)
        )

    return build


def _noisy_sparsification(
    setting: MechanismSetting, drop_rate: float, cooling_epochs: int = 0, refreshes_per_epoch: int = 0
) -> Mechanism:
    schedule = _sparsification_rate(setting, drop_rate, cooling_epochs)
    steps = _refresh_steps(setting, refreshes_per_epoch)
    return mechanisms.NoisySparsification(schedule, setting.seed, refresh_steps=steps)


def _ranked_by_true_gradients(setting: MechanismSetting, drop_rate: float, cooling_epochs: int = 0) -> Mechanism:
    schedule = _sparsification_rate(setting, drop_rate, cooling_epochs)
    return mechanisms.RankedByTrueGradients(schedule, steps_per_epoch=setting.steps_per_epoch, seed=setting.seed)


def _random_k(
    setting: MechanismSetting,
    keep_share: float,
    start: float = 1.0,
    schedule: str = "constant",
    clipping: Mapping[str, Any] | None = None,
) -> Mechanism:
    kept = _validate.real("mechanism.keep_share", keep_share, 1e-9, 1.0)
    share = _share(setting, kept, start, schedule)
    return _clipped(
        setting,
        clipping,
        lambda rule: mechanisms.PosteriorFreeze(lambda step: 1.0 - share(step), setting.seed, clipping=rule),
    )


def _ranked_sparsification(
    setting: MechanismSetting, drop_rate: float, cooling_epochs: int = 0, clipping: Mapping[str, Any] | None = None
) -> Mechanism:
    schedule = _sparsification_rate(setting, drop_rate, cooling_epochs)
    return _clipped(
        setting,
        clipping,
        lambda rule: mechanisms.RankedSparsification(
            schedule, steps_per_epoch=setting.steps_per_epoch, seed=setting.seed, clipping=rule
        ),
    )


def _layer_freezing(
    setting: MechanismSetting,
    after: float,
    frozen_layers: int | list[int] = 0,
    clipping: Mapping[str, Any] | None = None,
) -> Mechanism:
    """``after``: share of the run; ``frozen_layers``: number of layers, 0 for the lower half, or the numbers themselves."""
    chosen = (
        _numbered(setting, frozen_layers) if isinstance(frozen_layers, list | tuple) else _lower(setting, frozen_layers)
    )
    step = _first_step(setting, after)
    return _clipped(
        setting,
        clipping,
        lambda rule: mechanisms.LayerFreezing(mechanisms.DpSgd(clipping=rule), frozen_layers=chosen, from_step=step),
    )


def _quiet_layers(setting: MechanismSetting, after: float, frozen_layers: int = 0) -> Mechanism:
    """The arguments of layer freezing, to be compared with it."""
    return mechanisms.QuietLayers(quiet=_lower(setting, frozen_layers), from_step=_first_step(setting, after))


def _first_step(setting: MechanismSetting, after: float) -> int:
    return round(_validate.real("mechanism.after", after, 0.0, 1.0) * setting.steps)


def _lower(setting: MechanismSetting, count: int) -> int:
    found = len(layers(setting.model))
    if found < 2:
        raise ArgumentError("model", "have two layers or more, some of which train on", found, got=f"one with {found}")
    return _validate.integer("mechanism.frozen_layers", count, 0, found - 1) or found // 2


def _numbered(setting: MechanismSetting, numbers: list[int]) -> tuple[int, ...]:
    found = len(layers(setting.model))
    return tuple(_validate.integer("mechanism.frozen_layers", number, 1, found) for number in numbers)


def _keep(setting: MechanismSetting, keep_share: float, start: float, schedule: str) -> Schedule:
    """Of a group: 1 is all but one of it, which leaves something to choose."""
    _validate.real("mechanism.keep_share", keep_share, 0.0, 1.0, ends="()")
    return _share(setting, keep_share, start, schedule)


def _share(setting: MechanismSetting, keep_share: float, start: float, schedule: str) -> Schedule:
    """``start`` counts only where the share moves."""
    _validate.real("mechanism.start", start, 0.0, 1.0, ends="(]")
    _validate.choice("mechanism.schedule", schedule, ("constant", "linear", "exponential"))
    if schedule == "constant" or setting.steps < 2:
        return mechanisms.Constant(keep_share)
    return (mechanisms.Linear if schedule == "linear" else mechanisms.Exponential)(
        start=start, end=keep_share, steps=setting.steps
    )


def _index_pruning(
    setting: MechanismSetting,
    keep_share: float,
    index_epsilon: float,
    start: float = 1.0,
    schedule: str = "constant",
    group_size: int = 256,
    clipping: Mapping[str, Any] | None = None,
) -> Mechanism:
    """``index_epsilon``: pure epsilon of all indices of the run by basic composition, the same share for every step."""
    budget = _validate.real("mechanism.index_epsilon", index_epsilon, 0.0, 1e6, ends="(]")

    def theta(dim: int, keep: int, groups: int) -> float:
        return theta_for_budget(epsilon=budget, dim=dim, keep=keep, steps=setting.steps, groups=groups)

    keep = _keep(setting, keep_share, start, schedule)
    return _clipped(
        setting, clipping, lambda rule: mechanisms.IndexPruning(theta, keep, group_size=group_size, clipping=rule)
    )


def _top_k_of_released(
    setting: MechanismSetting,
    keep_share: float,
    start: float = 1.0,
    schedule: str = "constant",
    group_size: int = 256,
    clipping: Mapping[str, Any] | None = None,
) -> Mechanism:
    keep = _keep(setting, keep_share, start, schedule)
    return _clipped(setting, clipping, lambda rule: mechanisms.TopKOfReleased(keep, group_size, clipping=rule))


def _noisy_magnitudes(
    setting: MechanismSetting,
    keep_share: float,
    selection_multiplier: float,
    start: float = 1.0,
    schedule: str = "constant",
    group_size: int = 256,
    clipping: Mapping[str, Any] | None = None,
) -> Mechanism:
    _validate.real("mechanism.selection_multiplier", selection_multiplier, 1e-6, 1e6)
    keep = _keep(setting, keep_share, start, schedule)
    return _clipped(
        setting,
        clipping,
        lambda rule: mechanisms.NoisyMagnitudeTopK(selection_multiplier, keep, group_size=group_size, clipping=rule),
    )


def _embedding(kind: Callable[..., Mechanism]) -> Callable[..., Mechanism]:
    def build(
        setting: MechanismSetting,
        subspace_dim: int,
        residual_clip: float,
        anchors: int = 250,
        grouping: str = "blocks",
        iterations: int = 1,
        auxiliary: str | None = None,
        labels: str = "random",
    ) -> Mechanism:
        if auxiliary is not None:
            _validate.choice("mechanism.auxiliary", auxiliary, NAMES)
        _validate.choice("mechanism.labels", labels, ("random", "true"))
        images = setting.auxiliary.take(anchors, name=auxiliary)
        seed = setting.run.seed if setting.seed is None else setting.seed
        labels_seed = derived(seed, LABELS)  # which are public; the power iteration has the seed itself
        true = images.labels if labels == "true" else None
        source = AnchorGradients(setting.model, images.pixels, classes=10, seed=labels_seed, labels=true)
        members = parameter_groups(setting.model, grouping)
        _validate.integer("mechanism.subspace_dim", subspace_dim, 1, anchors * len(members))
        _validate.integer("mechanism.iterations", iterations, 1, _MOST_ITERATIONS)
        _argument_ranges.clip("mechanism.residual_clip", residual_clip)
        return kind(
            source,
            subspace_dim=subspace_dim,
            residual_clip=residual_clip,
            groups=members,
            seed=setting.seed,
            iterations=iterations,
        )

    return build


def parameter_groups(model: nn.Module, grouping: str) -> list[list[int]]:
    """Places of the trainable parameters that share a basis.

    For ResNet20 the blocks are GEP's five groups: input layer, three stages, output layer.

    Args:
        model: whose parameters are grouped.
        grouping: "none" for one group of all of them, "blocks" for a group per top block.

    Returns:
        Numbers 0, 1, ... of the trainable parameters, group by group.

    Raises:
        ValueError: another word.

    Source: GEP, section 4 (gep.groups).

    Example: two layers of a weight and a bias each.
        >>> import torch
        >>> from dptheory.training.runs import parameter_groups
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
        >>> parameter_groups(model, "blocks"), parameter_groups(model, "none")
        ([[0, 1], [2, 3]], [[0, 1, 2, 3]])
    """
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    if _validate.choice("mechanism.grouping", grouping, ("none", "blocks")) == "none":
        return [list(range(len(names)))]
    members: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        members.setdefault(name.split(".")[0], []).append(place)
    return list(members.values())


BUILDERS: dict[str, Callable[..., Mechanism]] = {
    "dp-sgd": _dp_sgd,
    "noisy-sgd": _alone(mechanisms.NoisySgd),
    "clipped-sgd": _alone(mechanisms.ClippedSgd),
    "random-sparsification": _masked(mechanisms.RandomSparsification),
    "noisy-sparsification": _noisy_sparsification,
    "posterior-freeze": _masked(mechanisms.PosteriorFreeze),
    "random-k": _random_k,
    "ranked-sparsification": _ranked_sparsification,
    "ranked-by-true-gradients": _ranked_by_true_gradients,
    "layer-freezing": _layer_freezing,
    "quiet-layers": _quiet_layers,
    "index-pruning": _index_pruning,
    "top-k-of-released": _top_k_of_released,
    "noisy-magnitudes": _noisy_magnitudes,
    "gep": _embedding(mechanisms.Gep),
    "gep-optimal": _embedding(mechanisms.GepOptimal),
    "gep-joint": _embedding(mechanisms.GepJoint),
    "biased-gep": _embedding(mechanisms.BiasedGep),
}
"""Names of the algorithms, and what builds them from their arguments."""
