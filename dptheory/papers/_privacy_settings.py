"""The noise multipliers that the five papers print, beside those that their budgets ask for.

Source: RF, Tables 5-9; LF, Appendix D; GIP, Table 4; GEP, section 4 (gip.thm2, rs.thm3.1).
"""

import functools
import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from dptheory.papers import _data
from dptheory.papers._records import Setting, found_in

if TYPE_CHECKING:
    from dptheory.privacy import EpsilonBounds


@dataclass(frozen=True, kw_only=True)
class PaperSetting:
    """One row of a paper: a budget, and as much of the run as it prints.

    Attributes:
        name: "RF, Tables 1, 2 and 5: End-to-end CNN, CIFAR10".
        epsilon, delta: the budget that the Gaussian noise has to keep (of GIP 99% of the printed epsilon).
        batch_size: B, as printed.
        train_size: N as printed (GIP); else the published size of the data set.
        epochs: as printed, or None.
        noise_multiplier: the printed noise multiplier, or None.
        releases: vectors released a step, each clipped; GEP releases two, so that its noise is sqrt 2 times sigma.
    """

    name: str
    epsilon: float
    delta: float
    batch_size: int
    train_size: int
    epochs: float | None = None
    noise_multiplier: float | None = None
    releases: int = 1

    @property
    def sampling_rate(self) -> float:
        """B / N."""
        return self.batch_size / self.train_size

    @property
    def steps(self) -> int | None:
        """Steps of the printed epochs, or None."""
        return None if self.epochs is None else math.ceil(self.epochs / self.sampling_rate)

    def needed_noise_multiplier(self) -> float | None:
        """The least noise multiplier for the budget over the printed epochs; of GEP that of each released vector.

        Returns:
            The noise multiplier; None where no epochs are printed.

        Raises:
            ValueError: a budget, rate or number of steps that :func:`dptheory.privacy.least_noise_multiplier` refuses.

        Example: one step on all records at epsilon 1 needs the 3.73 of the Gaussian mechanism.
            >>> from dptheory.papers import PaperSetting
            >>> setting = PaperSetting(name="one step", epsilon=1.0, delta=1e-5, batch_size=60_000, train_size=60_000, epochs=1)
            >>> round(setting.needed_noise_multiplier(), 2)
            3.73
        """
        if self.steps is None:
            return None
        from dptheory import privacy  # reading what is printed needs no calculator

        sigma = privacy.least_noise_multiplier(
            epsilon=self.epsilon, delta=self.delta, sampling_rate=self.sampling_rate, steps=self.steps
        )
        return sigma * math.sqrt(self.releases)

    def spent(self) -> "EpsilonBounds | None":
        """Epsilon of the printed noise over the printed epochs.

        Returns:
            The bounds of epsilon; None where noise or epochs are not printed.

        Raises:
            ValueError: noise, rate or number of steps that :func:`dptheory.privacy.epsilon_bounds` refuses.

        Example: one step on all records with noise as large as the sensitivity spends 4.38.
            >>> from dptheory.papers import PaperSetting
            >>> setting = PaperSetting(name="one step", epsilon=1.0, delta=1e-5, batch_size=60_000, train_size=60_000, epochs=1,
            ...                        noise_multiplier=1.0)
            >>> round(setting.spent().estimate, 2)
            4.38
        """
        if self.steps is None or self.noise_multiplier is None:
            return None
        from dptheory import privacy

        return privacy.epsilon_bounds(
            noise_multiplier=self.noise_multiplier, sampling_rate=self.sampling_rate, steps=self.steps, delta=self.delta
        )

    def allowed_steps(self) -> int | None:
        """The most steps that the printed noise can run for within the budget.

        Returns:
            The number of steps; None where no noise multiplier is printed.

        Raises:
            ValueError: a budget, noise or rate that :func:`dptheory.privacy.max_steps` refuses.

        Example: by hand: epsilon 1 asks for 3.731 in one step, so that 20 suffice for (20 / 3.731)^2 = 28.7.
            >>> from dptheory.papers import PaperSetting
            >>> PaperSetting(name="full batches", epsilon=1.0, delta=1e-5, batch_size=60_000, train_size=60_000,
            ...              noise_multiplier=20.0).allowed_steps()
            28
        """
        if self.noise_multiplier is None:
            return None
        from dptheory import privacy

        return privacy.max_steps(
            epsilon=self.epsilon,
            delta=self.delta,
            noise_multiplier=self.noise_multiplier,
            sampling_rate=self.sampling_rate,
        )


def paper_settings() -> tuple[PaperSetting, ...]:
    """Every setting from which a noise multiplier or a number of steps follows.

    Returns:
        The settings.

    Example: RF's CNN at epsilon 3 is the first.
        >>> from dptheory.papers import paper_settings
        >>> paper_settings()[0].name, paper_settings()[0].noise_multiplier
        ('RF, Tables 1, 2 and 5: End-to-end CNN, CIFAR10', 1.54)
    """
    return tuple(
        PaperSetting(
            name=f"{one.source}: {one.model}, {one.dataset}",
            epsilon=(1 - (one.index_share or 0)) * one.number("epsilon"),
            delta=one.number("delta"),
            batch_size=one.whole("batch_size"),
            train_size=one.whole("train_size"),
            epochs=one.epochs,
            noise_multiplier=one.noise_multiplier,
            releases=one.releases or 1,
        )
        for paper in ("rf", "lf", "gip", "gep")
        for one in _data.settings(paper)
        if None not in (one.epsilon, one.delta, one.batch_size, one.train_size)
        and (one.noise_multiplier or one.epochs) is not None
    )


# --- GEP's settings for ResNet20 (its section 4), and those of the authors' released example


if TYPE_CHECKING:
    from dptheory.embedding import GepMse

RESNET20_DIM = 269_722
"""Counted from the architecture (He et al. for CIFAR-10, identity shortcuts, normalisation with scale and shift); GEP prints
no number. RF, Table 2, says 268K, which is the count without scale and shift."""

RESNET20_GROUPS = (464, 14_016, 51_072, 203_520, 650)
"""Parameters of the five groups of section 4: input layer, three stages, output layer; counted likewise."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingPreset:
    """One setting.

    Attributes:
        name: "gep.cifar10.k1000".
        source: where it is printed.
        dim: p.
        subspace_dim: k.
        clip_norm: threshold of the gradients, and so, as GEP prints no other, of the embeddings.
        residual_clip: threshold of the residuals.
        batch_size: n.
        delta: of the privacy budget; None where the source gives none.
        budgets: (epsilon, epochs) pairs; empty where the source gives none.
    """

    name: str
    source: str
    dim: int
    subspace_dim: int
    clip_norm: float
    residual_clip: float
    batch_size: int = 1000
    delta: float | None = None
    budgets: tuple[tuple[float, int], ...] = ()

    def noise(self, *, mu: float = 1.0) -> "GepMse":
        r"""Mean squared norm of the noise on the sum of gradients, for each way of releasing it; biases are left out.

        Args:
            mu: privacy of one step before subsampling, add-remove. GEP releases the concatenation of both parts, each divided by
                its clip, with sensitivity sqrt(2): noise multiplier sigma is mu = 1/sigma, noise sqrt(2) sigma S_i on part i.

        Returns:
            The mean squared norm for each way of releasing.

        Source: new, on GEP, section 4 (gep.versus).

        Example: GEP on CIFAR-10 with its smallest subspace: published noise over that of plain perturbation.
            >>> from dptheory.papers import embedding_presets
            >>> preset = embedding_presets()[0]
            >>> noise = preset.noise(mu=1.0)
            >>> preset.name, round(noise.published / noise.plain, 3)
            ('gep.cifar10.k500', 0.084)
        """
        from dptheory.embedding import gep_mse  # reading what is printed needs no calculator

        return gep_mse(
            dim=self.dim,
            subspace_dim=self.subspace_dim,
            clip_norm=self.clip_norm,
            residual_clip=self.residual_clip,
            mu=mu,
        )


def embedding_presets() -> tuple[EmbeddingPreset, ...]:
    """Both data sets with every k of section 4, then the released example.

    Returns:
        The presets.

    Example: the last is the authors' released example.
        >>> from dptheory.papers import embedding_presets
        >>> [preset.name for preset in embedding_presets()][-1]
        'gep.code.k1000'
    """
    return (*_of_section_4("gep.cifar10"), *_of_section_4("gep.svhn"), _released_example())


@dataclass(frozen=True, kw_only=True)
class EmbeddingNoise:
    """A setting and the squared norm of the noise that each way of releasing the sum puts on it.

    Attributes:
        preset: the setting.
        noise: as of :meth:`EmbeddingPreset.noise`.
    """

    preset: EmbeddingPreset
    noise: "GepMse"


def embedding_noise(*, mu: float = 1.0) -> tuple[EmbeddingNoise, ...]:
    r"""All settings of :func:`embedding_presets` and their noise at one privacy, by :func:`dptheory.embedding.gep_mse`.

    Args:
        mu: privacy of one step before subsampling, in [1e-70, 1e70]; add-remove; 1 / noise multiplier.

    Returns:
        One result per setting, in the order of :func:`embedding_presets`.

    Source: GEP, section 4 (gep.versus).

    Example: the first setting of GEP's table.
        >>> from dptheory.papers import embedding_noise
        >>> found = embedding_noise(mu=0.5)[0]
        >>> found.preset.name, found.noise == found.preset.noise(mu=0.5)
        ('gep.cifar10.k500', True)
    """
    return tuple(EmbeddingNoise(preset=one, noise=one.noise(mu=mu)) for one in embedding_presets())


def _of_section_4(group: str) -> tuple[EmbeddingPreset, ...]:
    runs = _data.settings(group)
    one = runs[0]
    return tuple(
        EmbeddingPreset(
            name=f"{group}.k{subspace_dim}",
            source=one.source,
            dim=RESNET20_DIM,
            subspace_dim=subspace_dim,
            clip_norm=one.number("clip_norm"),
            residual_clip=one.number("residual_clip"),
            batch_size=one.whole("batch_size"),
            delta=one.delta,
            budgets=tuple((run.number("epsilon"), run.whole("epochs")) for run in runs),
        )
        for subspace_dim in one.subspace_dims
    )


def _released_example() -> EmbeddingPreset:
    one = _data.setting("rf.gep.eps8")
    columns = dict(one.others)
    return EmbeddingPreset(
        name=f"gep.code.k{columns['Subspace']}",
        source="GEP, released example; RF, Table 8",
        dim=RESNET20_DIM,
        subspace_dim=int(columns["Subspace"]),
        clip_norm=float(columns["Clip0"]),
        residual_clip=float(columns["Clip1"]),
        batch_size=one.whole("batch_size"),
    )


# --- The training settings of RF's Tables 5-9 and of RS's Table 2 and Figure 2, digit for digit; None where the paper gives none


@dataclass(frozen=True, kw_only=True)
class Preset:
    """One setting as a paper prints it.

    Attributes:
        name: "rf.end-to-end-cnn.eps3".
        source: the tables that it is taken from.
        framework: the paper's name of network and method.
        dataset: as the paper names it.
        dim: number of parameters d, as rounded by the paper (550K).
        train_size: number N of training examples of the data set. The papers do not print it; it is the published size of
            CIFAR10 (50,000) and FMNIST (60,000), and None for SVHN, of which there are two training sets.
        epsilon, delta: the privacy budget.
        noise_multiplier: sigma.
        learning_rate, batch_size, epochs, momentum, clip_norm: as usual.
        drop_rate: the final sparsification (freeze) rate r* with which it was run.
        ramp_epochs: epochs over which the rate rises linearly from 0 to r*.
        total_density: the mean of 1 - r that the paper prints.
        others: what else the table prints, as (column, value).
    """

    name: str
    source: str
    framework: str
    dataset: str | None = None
    dim: int | None = None
    train_size: int | None = None
    epsilon: float | None = None
    delta: float | None = None
    noise_multiplier: float | None = None
    learning_rate: float | None = None
    batch_size: int | None = None
    epochs: int | None = None
    momentum: float | None = None
    clip_norm: float | None = None
    drop_rate: float | None = None
    ramp_epochs: int | None = None
    total_density: float | None = None
    others: tuple[tuple[str, str], ...] = ()

    @property
    def noise_share(self) -> float | None:
        """d sigma^2 / B^2: squared norm of the noise over the largest squared norm of the averaged clipped gradient.

        None where the paper does not print all three.

        Source: RS, Remark 3 (rs.fixed_rate).
        """
        if self.dim is None or self.noise_multiplier is None or self.batch_size is None:
            return None
        return self.dim * self.noise_multiplier**2 / self.batch_size**2

    @property
    def largest_drop_rate(self) -> float | None:
        """The most that Appendix G gives: r* under kappa = sqrt(1 - r), Delta_L = 0, no bias: max(0, 1 - 1 / noise_share).

        0 says that no gain was to be expected at the learning rate used, unless kappa exceeds sqrt(1 - r). None where
        ``noise_share`` is None.

        Source: RS, Appendix G, equation 116 (rs.appG, rs.fixed_rate).
        """
        from dptheory.sparsification import optimal_rate  # reading what is printed needs no calculator

        return None if self.noise_share is None else optimal_rate(delta_c=1.0, step_noise=self.noise_share)


def preset(name: str) -> Preset:
    """The preset with this name.

    Args:
        name: such as "rf.end-to-end-cnn.eps3".

    Returns:
        The preset.

    Raises:
        ValueError: no such preset; the message names the nearest ones.

    Example: RF's CNN: the noise has 1.3 times the energy of the largest signal, so that at most a quarter should be dropped.
        >>> from dptheory.papers import preset
        >>> found = preset("rf.end-to-end-cnn.eps3")
        >>> round(found.noise_share, 2), round(found.largest_drop_rate, 2)
        (1.3, 0.23)
    """
    return found_in("name", name, "a preset", _presets())


def all_presets() -> tuple[Preset, ...]:
    """All presets: RF in the order of its tables, then RS.

    Returns:
        The presets.

    Example: RF's CNN at its smaller budget comes first.
        >>> from dptheory.papers import all_presets
        >>> all_presets()[0].name
        'rf.end-to-end-cnn.eps3'
    """
    return tuple(_presets().values())


@functools.cache
def _presets() -> dict[str, Preset]:
    rf = (_preset(one.id, one) for one in _data.settings("rf"))
    # the nine combinations of sigma and C; the data set is not named, d is that of Table 2's DP-CNN
    rs_figure_2 = (_preset(one.id.replace("fig2.", "fig2"), one) for one in _data.settings("rs.fig2"))
    return {preset.name: preset for preset in (*rf, *_rs_table_2(), *rs_figure_2)}


_IN_SETTINGS = {"framework": "model", "ramp_epochs": "cooling_epochs"}
"""Fields that a setting has under another name."""


def _preset(name: str, one: Setting) -> Preset:
    names = (field.name for field in fields(Preset) if field.name != "name")
    return Preset(name=name, **{field: getattr(one, _IN_SETTINGS.get(field, field)) for field in names})


def _rs_table_2() -> tuple[Preset, ...]:
    """The twelve settings of RS, Table 2; clip, epochs and r* were searched and the chosen ones are not printed."""
    table = _data.table("rs.table2")
    found = []
    for cell in table.cells:
        if cell.key("column") != "baseline":
            continue
        model, dataset, epsilon = cell.key("approach"), cell.key("dataset"), float(cell.key("epsilon"))
        found.append(
            Preset(
                name=f"rs.{model.lower().replace('/', '-')}.{dataset.lower()}.eps{epsilon:g}",
                source=table.label,
                framework=model,
                dataset=dataset,
                dim=1000 * int(cell.key("dim").removesuffix("K")),
                train_size=_data.published_train_size(dataset),
                epsilon=epsilon,
            )
        )
    return tuple(found)
