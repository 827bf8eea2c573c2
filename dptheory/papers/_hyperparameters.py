"""The training settings of RF's Tables 5-9 and of RS's Table 2 and Figure 2, digit for digit; None where the paper gives none.

RS has no table of hyperparameters: its Table 2 prints the dimension and epsilon only, its Figure 2 sigma, C, B and the epochs.
"""

import difflib
import functools
from dataclasses import dataclass

from dptheory.errors import ArgumentError
from dptheory.papers import _data
from dptheory.papers._records import Setting


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
    known = _presets()
    if not isinstance(name, str) or name not in known:
        near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
        raise ArgumentError("name", f"be that of a preset{(f', such as {near}' if near else '')}", name)
    return known[name]


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
    return {preset.name: preset for preset in (*_rf(), *_rs_table_2(), *_rs_figure_2())}


def _rf() -> tuple[Preset, ...]:
    return tuple(_preset(one.id, one) for one in _data.settings("rf"))


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


def _rs_figure_2() -> tuple[Preset, ...]:
    """The nine combinations of sigma and C of RS, Figure 2; the data set is not named, d is that of Table 2's DP-CNN."""
    return tuple(_preset(one.id.replace("fig2.", "fig2"), one) for one in _data.settings("rs.fig2"))


def _preset(name: str, one: Setting) -> Preset:
    return Preset(
        name=name,
        source=one.source,
        framework=str(one.model),
        dataset=one.dataset,
        dim=one.dim,
        train_size=one.train_size,
        epsilon=one.epsilon,
        delta=one.delta,
        noise_multiplier=one.noise_multiplier,
        learning_rate=one.learning_rate,
        batch_size=one.batch_size,
        epochs=one.epochs,
        momentum=one.momentum,
        clip_norm=one.clip_norm,
        drop_rate=one.drop_rate,
        ramp_epochs=one.cooling_epochs,
        total_density=one.total_density,
        others=one.others,
    )
