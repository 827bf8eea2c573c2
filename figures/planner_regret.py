"""How far a planned run stays below the best of a tuned grid."""

from matplotlib.axes import Axes

from figures._planner import SETTINGS, columns, rows
from figures._table import Data

TABLE = "regrets"
"""Of the planner's tables; without rows there is no picture."""

_DATA = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST", "excerpt": "excerpt"}
_LABELS = {name: rf"{_DATA[name[:-2]]}, $\epsilon$ = {name[-1]}" for name in SETTINGS}


def data() -> Data:
    """Mean difference in points and its 95 % interval, by setting."""
    found = sorted(rows(TABLE), key=lambda row: SETTINGS.index(row["setting"]))
    return columns(found, "mean", "low", "high")


def draw(ax: Axes, data: Data) -> None:
    """An interval a setting."""
    places = range(len(data["mean"]))
    reach = [data["mean"] - data["low"], data["high"] - data["mean"]]
    ax.errorbar(data["mean"], places, xerr=reach, fmt="o", color="C0", capsize=4)
    ax.axvline(0, color="0.3", lw=1)
    ax.set_yticks(list(places), [_LABELS[SETTINGS[int(place)]] for place in data["setting"]])
    ax.invert_yaxis()
    ax.set(
        xlabel="test accuracy, best of a tuned grid of 16 less planned, points",
        title="eight pairs of seeds each, 95 % intervals",
    )
