"""RF Fig. 1 on our small network: what random freeze does to the signal loss and to the MSE, over the rate."""

from matplotlib.axes import Axes

from figures._instrument import columns, epoch, rows
from figures._table import Data


def data() -> Data:
    """(dense - frozen) / dense over the drop rate, after a third, two thirds and all of the run."""
    found = rows("masks", "dp-sgd", "errors")
    table = {"drop_rate": found[0]["drop_rates"]}
    for row in found:
        at = f"epoch {epoch('masks', 'dp-sgd', row['step']):g}"
        for name, key in (("signal loss", "signal_loss"), ("MSE", "mse")):
            table[f"{name} at {at}"] = [(row[key][0] - value) / row[key][0] for value in row[key]]
    return columns(table)


def draw(ax: Axes, data: Data) -> None:
    """Solid for the signal loss, dashed for the MSE, a colour a step."""
    names = [name for name in data if name != "drop_rate"]
    for number, name in enumerate(names):
        wide = name.startswith("signal")  # the two may lie on each other
        (line,) = ax.plot(data["drop_rate"], 100 * data[name], color=f"C{number // 2}", label=name)
        line.set(ls="-" if wide else "--", lw=3.5 if wide else 1.4, alpha=0.35 if wide else 1.0)
    ax.axhline(0, color="0.3", lw=0.8)
    ax.set(
        xlabel="freeze rate",
        ylabel="dense minus frozen, percent of dense",
        title="small CNN on FashionMNIST, C = 0.1, $\\epsilon$ = 7.53: below 0 freezing loses",
    )
    ax.legend()
