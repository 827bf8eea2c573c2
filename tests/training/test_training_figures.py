"""The picture of a validation: what is drawn, against the numbers it is drawn from."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

from dptheory.training.measure import (
    Moment,
    Result,
    ValidateSettings,
    write_figure,
)
from dptheory.training.runs import DpSgdSettings
from tests.training.made_rows import row as made_row

SGD = DpSgdSettings(steps=60, batch_size=25, noise_multiplier=1.5, max_grad_norm=0.7, learning_rate=2.0, seed=0)


def validated() -> Result:
    assumed = "rf.eq6: deviations"
    rows = (
        made_row(2.0, 2.1, 0.1, group="a", quantity="one", setting="s"),
        made_row(0.0, 0.0, 0.1, group="a", quantity="none", setting="s"),
        made_row(-1.0, -3.0, 0.01, group="b", quantity="two", setting="s"),
        made_row(4.0, 3.9, 0.0, group="a", quantity="three", setting="t"),
        made_row(1.0, 8.0, 0.5, group="b", quantity="least", setting="s", relation="at least"),
        made_row(1.0, 0.2, 0.05, group="a", quantity="most", setting="s", relation="at most"),
        made_row(1.0, 5.0, 0.1, group="c", quantity="resting", setting="s", assumption=assumed),
        made_row(1.0, 1.1, 0.1, group="c", quantity="resting", setting="t", assumption=assumed),
        made_row(1.0, 0.5, 0.3, group="b", quantity="resting", setting="u", assumption=assumed, relation="at least"),
    )
    moments = [
        Moment(name=name, step=step, batch_size=20, rows=rows[: 9 - at], notes=())
        for at, (name, step) in enumerate((("start", 0), ("middle", 24), ("end", 49)))
    ]
    return Result(
        data="excerpt",
        train_images=2000,
        test_images=500,
        settings=ValidateSettings(SGD),
        moments=tuple(moments),
        accuracy=0.5,
    )


def drawn(write: Callable[[Any, Path], None], result: object, folder: Path) -> Figure:
    """The figure that is written."""
    kept: list[Figure] = []
    plain = Figure.savefig

    def save(self: Figure, target: io.BytesIO, **how: Any) -> None:
        kept.append(self)
        target.write(b"a picture")

    Figure.savefig = save  # type: ignore[method-assign]
    try:
        before = plt.get_fignums()
        write(result, folder / "new.png")
        assert plt.get_fignums() == before  # closed
    finally:
        Figure.savefig = plain  # type: ignore[method-assign]
    assert (folder / "new.png").read_bytes() == b"a picture"
    (figure,) = kept
    return figure


def test_the_axes_of_a_validation_share_their_places(tmp_path: Path) -> None:
    figure = drawn(write_figure, validated(), tmp_path)
    top, bottom = figure.axes[:3], figure.axes[3:]
    for row in (top, bottom):
        assert all(
            ax.get_shared_x_axes().joined(row[0], ax) and ax.get_shared_y_axes().joined(row[0], ax) for ax in row
        )
    assert not top[0].get_shared_x_axes().joined(top[0], bottom[0])


def test_rows_of_a_validation_are_where_they_belong(tmp_path: Path) -> None:
    """Measured over predicted with bars of five standard errors; blue where both agree, open where it rests on a claim."""
    figure = drawn(write_figure, validated(), tmp_path)
    shown = {}
    for ax in (figure.axes[0], figure.axes[3]):
        labels = [label.get_text() for label in ax.get_yticklabels()]
        for bar in ax.containers:
            line, _, (sides,) = bar.lines
            (x,), (y,) = line.get_xdata(), line.get_ydata()
            ends = sides.get_segments()[0][:, 0]
            kind = (line.get_color(), line.get_markerfacecolor(), line.get_marker())
            shown[labels[int(y)]] = (x, (ends[1] - ends[0]) / 2, *kind)
    for row in validated().moments[0].rows:
        said = f"{row.group}: {row.quantity}, {row.setting}" + ("  [rf.eq6]" if row.assumption != "none" else "")
        if row.predicted == 0:
            assert said not in shown
            continue
        x, half, colour, fill, marker = shown.pop(said)
        assert x == pytest.approx(row.measured / row.predicted)
        assert half == pytest.approx(5 * row.standard_error / abs(row.predicted), abs=1e-12)
        assert colour == ("C0" if row.within else "C1")
        assert fill == ("white" if row.assumption != "none" else colour)
        assert marker == {"equal": "o", "at least": ">", "at most": "<"}[row.relation]
    assert shown == {}
