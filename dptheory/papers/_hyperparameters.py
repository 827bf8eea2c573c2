"""The training settings of RF's Tables 5-9 and of RS's Table 2 and Figure 2, digit for digit; None where the paper gives none.

RS has no table of hyperparameters: its Table 2 prints the dimension and epsilon only, its Figure 2 sigma, C, B and the epochs.
"""

import difflib
import functools
from dataclasses import dataclass

from dptheory import _validate
from dptheory.sparsification import optimal_rate


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
        return None if self.noise_share is None else optimal_rate(delta_c=1.0, step_noise=self.noise_share)


def preset(name: str) -> Preset:
    """The preset with this name.

    Raises:
        ValueError: no such preset; the message names the nearest ones.
    """
    known = _presets()
    if not isinstance(name, str) or name not in known:
        near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
        raise ValueError(
            f"name must be that of a preset{f', such as {near}' if near else ''}, got {_validate.shown(name)}"
        )
    return known[name]


def all_presets() -> tuple[Preset, ...]:
    """All presets: RF in the order of its tables, then RS."""
    return tuple(_presets().values())


@functools.cache
def _presets() -> dict[str, Preset]:
    return {preset.name: preset for preset in (*_RF, *_rs_table_2(), *_rs_figure_2())}


_CIFAR10 = 50_000

_RF = (
    Preset(
        name="rf.end-to-end-cnn.eps3",
        source="RF, Tables 1, 2 and 5",
        framework="End-to-end CNN",
        dataset="CIFAR10",
        dim=550_000,
        train_size=_CIFAR10,
        epsilon=3,
        delta=1e-5,
        noise_multiplier=1.54,
        learning_rate=1,
        batch_size=1000,
        epochs=40,
        momentum=0.9,
        clip_norm=0.1,
        drop_rate=0.7,
        ramp_epochs=40,
        total_density=0.65,
    ),
    Preset(
        name="rf.end-to-end-cnn.eps7.53",
        source="RF, Tables 1, 2 and 5",
        framework="End-to-end CNN",
        dataset="CIFAR10",
        dim=550_000,
        train_size=_CIFAR10,
        epsilon=7.53,
        delta=1e-5,
        noise_multiplier=1.10,
        learning_rate=1,
        batch_size=1000,
        epochs=80,
        momentum=0.9,
        clip_norm=0.1,
        drop_rate=0.7,
        ramp_epochs=80,
        total_density=0.65,
    ),
    Preset(
        name="rf.dp-transfer-learning.eps2",
        source="RF, Tables 1, 2 and 6",
        framework="DP-Transfer Learning",
        dataset="CIFAR10",
        dim=41_000,
        train_size=_CIFAR10,
        epsilon=2,
        delta=1e-5,
        noise_multiplier=2.30,
        learning_rate=4,
        batch_size=1000,
        epochs=50,
        momentum=0.9,
        clip_norm=0.1,
        drop_rate=0.7,
        ramp_epochs=50,
        total_density=0.65,
        others=(("Source model", "SIMCLR v2"), ("Aux. dataset", "ImageNet")),
    ),
    Preset(
        name="rf.handcrafted-cnn.eps3",
        source="RF, Tables 1, 2 and 7",
        framework="Handcrafted CNN",
        dataset="CIFAR10",
        dim=187_000,
        train_size=_CIFAR10,
        epsilon=3,
        delta=1e-5,
        noise_multiplier=5.65,
        learning_rate=4,
        batch_size=8000,
        epochs=80,
        momentum=0.9,
        clip_norm=0.1,
        drop_rate=0.6,
        ramp_epochs=80,
        total_density=0.7,
        others=(("Input norm", "BN"), ("BN norm", "8"), ("Architecture", "ScatterNet + CNN")),
    ),
    Preset(
        name="rf.gep.eps8",
        source="RF, Tables 1, 2 and 8",
        framework="GEP",
        dataset="CIFAR10",
        dim=268_000,
        train_size=_CIFAR10,
        epsilon=8,
        delta=1e-5,
        learning_rate=0.1,
        batch_size=1000,
        epochs=200,
        momentum=0.9,
        drop_rate=0.4,
        ramp_epochs=200,
        total_density=0.8,
        others=(
            ("Clip0", "5"),
            ("Clip1", "2"),
            ("Subspace", "1000"),
            ("Sample gradients", "2000"),
            ("Aux. dataset", "ImageNet"),
        ),
    ),
    Preset(
        name="rf.adjusted-end-to-end-cnn.eps3",
        source="RF, Tables 1 (d) and 9",
        framework="Adjusted End-to-end CNN",
        dataset="CIFAR10",
        dim=550_000,
        train_size=_CIFAR10,
        epsilon=3,
        delta=1e-5,
        noise_multiplier=1.81,
        learning_rate=1,
        batch_size=1000,
        epochs=60,
        momentum=0,
        clip_norm=1,
        drop_rate=0.9,
        ramp_epochs=40,
        total_density=0.6,
    ),
    Preset(
        name="rf.adjusted-end-to-end-cnn.eps7.53",
        source="RF, Tables 1 (d) and 9",
        framework="Adjusted End-to-end CNN",
        dataset="CIFAR10",
        dim=550_000,
        train_size=_CIFAR10,
        epsilon=7.53,
        delta=1e-5,
        noise_multiplier=1.18,
        learning_rate=1,
        batch_size=1000,
        epochs=100,
        momentum=0,
        clip_norm=1,
        drop_rate=0.9,
        ramp_epochs=80,
        total_density=0.58,
    ),
)


def _rs_table_2() -> tuple[Preset, ...]:
    """The twelve settings of RS, Table 2; clip, epochs and r* were searched and the chosen ones are not printed."""
    rows = (
        ("CIFAR10", "H-CNN", 187_000, _CIFAR10),
        ("CIFAR10", "DP-CNN", 550_000, _CIFAR10),
        ("SVHN", "H-CNN", 187_000, None),
        ("SVHN", "DP-CNN", 550_000, None),
        ("FMNIST", "H-CNN/S", 33_000, 60_000),
        ("FMNIST", "DP-CNN/S", 26_000, 60_000),
    )
    return tuple(
        Preset(
            name=f"rs.{framework.lower().replace('/', '-')}.{dataset.lower()}.eps{epsilon}",
            source="RS, Table 2",
            framework=framework,
            dataset=dataset,
            dim=dim,
            train_size=train_size,
            epsilon=epsilon,
        )
        for dataset, framework, dim, train_size in rows
        for epsilon in (3, 1)
    )


def _rs_figure_2() -> tuple[Preset, ...]:
    """The nine combinations of sigma and C of RS, Figure 2; the data set is not named, d is that of Table 2's DP-CNN."""
    return tuple(
        Preset(
            name=f"rs.fig2{'abcdefghi'[3 * row + column]}",
            source="RS, Figure 2 and Table 2 (d)",
            framework="DP-CNN",
            dim=550_000,
            noise_multiplier=2.0**column,
            batch_size=1000,
            epochs=100,
            clip_norm=2.0 ** (row - 2),
        )
        for row in range(3)
        for column in range(3)
    )
