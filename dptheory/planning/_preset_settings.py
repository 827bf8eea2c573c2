"""The settings of the five papers as far as they can be planned: what is printed, and what had to be assumed beside it."""

from dataclasses import dataclass, replace

from dptheory.papers import RESNET20_DIM, Preset, Setting, all_presets, settings
from dptheory.privacy import epsilon_bounds

DELTA = 1e-5
"""RS prints none."""


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """What a group of settings does not print, and what is taken in its place.

    Attributes:
        group: how the names of these settings begin.
        text: a sentence for the reader.
        dim, train_size, dataset: what is taken; None where the paper prints it.
    """

    group: str
    text: str
    dim: int | None = None
    train_size: int | None = None
    dataset: str | None = None


_SIZE = "The paper does not print the number of parameters"
ASSUMPTIONS = (
    Assumption(
        group="rs.h-cnn.svhn.",
        train_size=73_257,
        text="The paper does not say which of SVHN's two training sets it takes: here the smaller.",
    ),
    Assumption(
        group="rs.dp-cnn.svhn.",
        train_size=73_257,
        text="The paper does not say which of SVHN's two training sets it takes: here the smaller.",
    ),
    Assumption(
        group="rs.fig2",
        train_size=50_000,
        dataset="CIFAR10",
        text="The figure names neither data set nor budget: here CIFAR10, and the epsilon that its noise spends over its epochs.",
    ),
    Assumption(group="lf.mnist.", dim=26_010, text=f"{_SIZE}: here that of `small_tanh_cnn` of this project."),
    Assumption(group="lf.fashion-mnist.", dim=26_010, text=f"{_SIZE}: here that of `small_tanh_cnn` of this project."),
    Assumption(group="lf.cifar10.", dim=550_570, text=f"{_SIZE}: here that of `dp_cnn` of this project."),
    Assumption(
        group="lf.wide-resnet.",
        dim=2_748_890,
        text=f"{_SIZE}, nor depth and width: here WRN-16-4 as `wrn_16_4` has it.",
    ),
    Assumption(group="gep.cifar10.", dim=RESNET20_DIM, text=f"{_SIZE}: ResNet20 has it by construction."),
    Assumption(group="gep.svhn.", dim=RESNET20_DIM, text=f"{_SIZE}: ResNet20 has it by construction."),
    Assumption(group="gep.mnist.", dim=26_010, text=f"{_SIZE}: here that of `small_tanh_cnn` of this project."),
    Assumption(group="gip.wrn-16-4.", dim=2_732_000, text="The number of parameters is the 2.732M of section 6.2."),
    Assumption(group="gip.resnet-18.", dim=11_200_000, text=f"{_SIZE}: here 11.2M, a ResNet18 with ten classes."),
    Assumption(group="gip.wrn-28-10.", dim=36_500_000, text=f"{_SIZE}: here 36.5M, a WRN-28-10 with ten classes."),
    Assumption(
        group="gip.imagenet.", dim=25_600_000, text=f"{_SIZE}: here 25.6M, a ResNet-50 with a thousand classes."
    ),
)
NOT_PLANNED = {
    "gip.random-k": 'a schedule for "any" network: no data set, network or budget',
    "gip.rgp": "a baseline that trains a smaller network in the place of the given one; no data set is named",
    "gip.timing": "a measurement of time: neither budget nor noise",
}
"""By how the name begins: what would be missing even after an assumption, as it is the choice itself."""


@dataclass(frozen=True, kw_only=True)
class KnownSetting:
    """A setting that can be planned.

    Attributes:
        preset: with number of records, number of parameters, epsilon and delta.
        method: the paper's own choice beside DP-SGD's, in words.
        assumed: sentences on what the paper does not print.
    """

    preset: Preset
    method: str
    assumed: tuple[str, ...]

    @property
    def paper(self) -> str:
        """The key of its paper."""
        return self.preset.name.partition(".")[0]


def known_settings() -> tuple[tuple[KnownSetting, ...], tuple[tuple[str, str], ...]]:
    """Settings that can be planned; (name, reason) of the others, in the order of the papers."""
    there: list[KnownSetting] = []
    missing: list[tuple[str, str]] = []
    for preset, method in (*((one, _freeze(one)) for one in all_presets()), *_of_settings()):
        reason = next((text for group, text in NOT_PLANNED.items() if preset.name.startswith(group)), None)
        if reason is None:
            there.append(_completed(preset, method))
        else:
            missing.append((preset.name, reason))
    return tuple(there), tuple(missing)


def _completed(preset: Preset, method: str) -> KnownSetting:
    found, assumed = preset, []
    for one in ASSUMPTIONS:
        if preset.name.startswith(one.group):
            found = replace(
                found,
                dim=one.dim or found.dim,
                train_size=one.train_size or found.train_size,
                dataset=one.dataset or found.dataset,
            )
            assumed.append(one.text)
    if found.delta is None:
        found = replace(found, delta=DELTA)
        assumed.append("The paper prints no delta: here 1e-5.")
    if found.epsilon is None:
        found = replace(found, epsilon=_spent(found))
    return KnownSetting(preset=found, method=method, assumed=tuple(assumed))


def _spent(preset: Preset) -> float:
    """Epsilon of the printed noise, batch and epochs, to two digits behind the point and upwards."""
    assert preset.noise_multiplier is not None and preset.batch_size is not None and preset.epochs is not None
    assert preset.train_size is not None and preset.delta is not None
    rate = preset.batch_size / preset.train_size
    spent = epsilon_bounds(
        noise_multiplier=preset.noise_multiplier,
        sampling_rate=rate,
        steps=round(preset.epochs / rate),
        delta=preset.delta,
    )
    return round(spent.upper + 0.005, 2)


def _freeze(preset: Preset) -> str:
    rate = "rate not printed" if preset.drop_rate is None else f"{preset.drop_rate:g} of the entries dropped in the end"
    return f"random {'freeze' if preset.name.startswith('rf.') else 'sparsification'}, {rate}"


def _of_settings() -> list[tuple[Preset, str]]:
    """LF, GEP and GIP have settings without a table of hyperparameters."""
    return [
        (
            Preset(
                name=one.id,
                source=one.source,
                framework=one.model or "",
                dataset=one.dataset,
                dim=one.dim,
                train_size=one.train_size,
                epsilon=one.epsilon,
                delta=one.delta,
                noise_multiplier=one.noise_multiplier,
                learning_rate=one.learning_rate,
                batch_size=one.batch_size,
                epochs=None if one.epochs is None else int(one.epochs),
                clip_norm=one.clip_norm,
            ),
            _method(paper, one),
        )
        for paper in ("lf", "gep", "gip")
        for one in settings(paper)
    ]


def _method(paper: str, one: Setting) -> str:
    match paper:
        case "lf":
            layers = "two groups of convolutions" if one.frozen_layers is None else f"{one.frozen_layers} layers"
            when = f"epoch {one.frozen_after_epoch}" if one.frozen_after_epoch else f"step {one.frozen_after_step}"
            return f"layer freezing, the first {layers} after {when}"
        case "gep":
            dims = ", ".join(map(str, one.subspace_dims))
            return f"GEP, a subspace of one of {dims} dimensions"
        case _:
            kept = "" if one.keep_share is None else f", {one.keep_share:g} of the entries kept in the end"
            return f"index pruning{kept}"
