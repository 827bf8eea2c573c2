"""LF Figs 4 and 5 on our small network: angles of clipping and of noise of the layers that stay, before and after freezing."""

from matplotlib.axes import Axes

from figures._table import Data
from figures.measured_signals import FROZEN_AFTER, STYLES, layer_columns

_KEYS = {"clipping_angle": r"$\gamma^{UB}$", "noise_angle": r"$\gamma^{BP}$"}


def data() -> Data:
    """Both angles of both layers, with and without freezing."""
    return layer_columns(tuple(_KEYS))


def draw(ax: Axes, data: Data) -> None:
    """A colour per layer and angle; dotted without freezing; a cross where its gradients would be with the layers frozen."""
    for name in list(data)[1:]:
        arm, layer, key = name.split("; ")
        number = 2 * (key == "noise_angle") + (layer == "fc2")
        label = f"{_KEYS[key]}, {layer}" if arm == "freezing" else None
        ax.plot(data["step"], data[name], color=f"C{number}", label=label, **STYLES[arm])
    ax.axvline(FROZEN_AFTER, color="0.3", ls="--", lw=0.8)
    ax.set(
        xlabel="step (two of four layers frozen after 120; dotted: nothing frozen;\ncrosses: the same gradients, if frozen)",
        ylabel="angle (radians)",
        ylim=(0, None),
        title="small CNN on FashionMNIST, 2000 test images as the batch",
    )
    ax.legend(ncols=2)
