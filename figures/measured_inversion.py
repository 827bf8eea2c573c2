"""RS Fig. 5 on our small network: error of images that are sought from masked gradients."""

from matplotlib.axes import Axes

from figures._instrument import columns, rows
from figures._table import Data


def data() -> Data:
    """Mean squared error over the drop rate, with its standard error; in the last column without mask and noise."""
    (found,) = rows("inversion", "untrained", "inversion")
    return columns(
        {
            "drop_rate": found["drop_rates"],
            "mse": found["mse"][1:],
            "standard_error": found["standard_error"][1:],
            "mse_without": [found["mse"][0]] * len(found["drop_rates"]),
        }
    )


def draw(ax: Axes, data: Data) -> None:
    """Points with two standard errors."""
    ax.errorbar(
        data["drop_rate"], data["mse"], yerr=2 * data["standard_error"], fmt="o-", capsize=3, label="masked and noisy"
    )
    ax.plot(data["drop_rate"], data["mse_without"], ":", color="0.3", label="without mask and noise")
    ax.set(
        xlabel="sparsification rate",
        ylabel="mean squared error of pixels in [0, 1]",
        ylim=(0, None),
        title="untrained small CNN, 24 images of FashionMNIST; bars of two SE",
    )
    ax.legend(loc="upper left")
