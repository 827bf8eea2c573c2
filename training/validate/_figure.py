"""The picture of a validation: measured over predicted, row by row, at the three moments."""

import io
import itertools
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from dptheory.files import write_atomically
from dptheory.training.validate._rows import NONE, Row
from dptheory.training.validate._run import Validation

_MARKERS = {"equal": "o", "at least": ">", "at most": "<"}
_TICKS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0, 1000.0)
_Key = tuple[str, str, str, str]


def write_figure(result: Validation, path: Path) -> None:
    """Draw a PNG file: above, equations that need no assumption; below, bounds and what rests on an assumption.

    Rows whose prediction is 0 have no ratio and are left out.

    Args:
        result: of :func:`validate`.
        path: of the file, replaced if it is there.

    Raises:
        OSError: the file cannot be written.
    """
    rows = [row for moment in result.moments for row in moment.rows]
    exact, other = _keys([r for r in rows if _exact(r)]), _keys([r for r in rows if not _exact(r)])
    height = 0.17 * (len(exact) + len(other)) + 2.4
    figure, axes = plt.subplots(
        2,
        3,
        figsize=(13.5, height),
        sharex="row",
        sharey="row",
        layout="constrained",
        height_ratios=(len(exact), len(other)),
    )
    for column, moment in enumerate(result.moments):
        top, bottom = axes[0][column], axes[1][column]
        _draw(top, exact, [r for r in moment.rows if _exact(r)])
        _draw(bottom, other, [r for r in moment.rows if not _exact(r)])
        top.set_title(f"{moment.name} (step {moment.step}): equations without assumption", fontsize=8)
        bottom.set_title("bounds, and what rests on an assumption", fontsize=8)
        bottom.set_xscale("log")
        bottom.xaxis.set_major_locator(FixedLocator(_TICKS))
        bottom.xaxis.set_minor_locator(NullLocator())
        bottom.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        bottom.set_xlabel("measured / predicted")
    s = result.settings.training
    figure.suptitle(
        f"Predicted against measured on {result.data}: small tanh CNN, $\\sigma$ = {s.noise_multiplier:g}, "
        f"C = {s.max_grad_norm:g}, mean batch {s.batch_size}\n"
        "blue: agrees within 5 SE and the prediction's error (bars); orange: does not; open: rests on the claim in brackets; "
        "triangles: predicted is the least (pointing right) or the most (left)",
        fontsize=10,
    )
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110, metadata={"Software": None})
    plt.close(figure)
    write_atomically(path, drawn.getvalue())


def _exact(row: Row) -> bool:
    return row.assumption == NONE and row.relation == "equal"


def _key(row: Row) -> _Key:
    return row.group, row.quantity, row.setting, "" if row.assumption == NONE else row.assumption.split(":")[0]


def _keys(rows: list[Row]) -> list[_Key]:
    """The lines of a panel, group by group, in the order in which they first come."""
    keys = list(dict.fromkeys(_key(row) for row in rows if row.ratio is not None))
    groups = list(dict.fromkeys(key[0] for key in keys))
    return sorted(keys, key=lambda key: groups.index(key[0]))


def _draw(ax: Axes, keys: list[_Key], rows: list[Row]) -> None:
    places = {key: place for place, key in enumerate(keys)}
    for row in rows:
        if row.ratio is None:
            continue
        colour = "C0" if row.within else "C1"
        ax.errorbar(
            row.ratio,
            places[_key(row)],
            xerr=row.reach / abs(row.predicted),
            fmt=_MARKERS[row.relation],
            color=colour,
            mfc=colour if row.assumption == NONE else "white",
            ms=4.5,
            lw=1,
        )
    ax.axvline(1.0, color="0.3", lw=0.8, zorder=0)
    for place, (key, after) in enumerate(itertools.pairwise(keys)):
        if key[0] != after[0]:
            ax.axhline(place + 0.5, color="0.85", lw=0.8, zorder=0)
    ax.set_yticks(range(len(keys)), [_label(key) for key in keys], fontsize=7)
    ax.tick_params(axis="x", labelsize=8)
    ax.set_ylim(len(keys) - 0.4, -0.6)
    ax.grid(axis="x", color="0.92")
    ax.set_axisbelow(True)


def _label(key: _Key) -> str:
    group, quantity, setting, assumption = key
    return f"{group}: {quantity}, {setting}" + (f"  [{assumption}]" if assumption else "")
