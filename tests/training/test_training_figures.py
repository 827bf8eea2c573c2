"""The two pictures: what is drawn, against the numbers it is drawn from."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from dptheory import pruning
from dptheory.training.measure import (
    MeasureSettings,
    Moment,
    ProbeSettings,
    Result,
    ValidateSettings,
    _report,
    measure_gradient,
    write_figure,
)
from dptheory.training.runs import DpSgdSettings
from tests.training.made_rows import row as made_row

SGD = DpSgdSettings(steps=60, batch_size=25, noise_multiplier=1.5, max_grad_norm=0.7, learning_rate=2.0, seed=0)


def probed() -> Result:
    rng = np.random.default_rng(1)
    settings = MeasureSettings((0.5, 0.01, 0.1), draws=4, noise_multiplier=1.5, max_grad_norm=0.7)
    moments = []
    for number, step in enumerate((0, 4, 9, 12)):
        gradient = (rng.standard_normal(2100) * (1 + 20 * (rng.random(2100) < 0.01)) * (number + 1)).astype(np.float32)
        fit, rows = (None, ()) if step == 4 else measure_gradient(gradient, {"all": slice(0, 2100)}, settings, rng)
        moments.append(Moment(name=f"step {step}", step=step, batch_size=25, rows=rows, fit=fit, gradient=gradient))
    return Result(
        data="excerpt",
        train_images=2000,
        test_images=500,
        settings=ProbeSettings(SGD, settings),
        moments=tuple(moments),
        accuracy=0.5,
    )


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


def test_points_of_a_probe_are_the_measured_numbers(tmp_path: Path) -> None:
    result = probed()
    figure = drawn(write_figure, result, tmp_path)
    errors, cosines, entries = figure.axes
    shown = [moment for moment in result.moments if moment.fit]
    dots = [line for line in errors.lines if line.get_marker() == "o"]
    for moment, line in zip(shown, dots, strict=True):
        rows = sorted((r for r in moment.rows if r.quantity == "top_k_mse"), key=lambda r: r.keep)
        energy = np.sum(moment.gradient.astype(float) ** 2)
        np.testing.assert_allclose(line.get_xdata(), [r.keep / 2100 for r in rows])
        np.testing.assert_allclose(line.get_ydata(), [r.measured / energy for r in rows])
    random, top = errors.lines[:2]
    keeps = np.round(2100 * np.asarray(random.get_xdata())).astype(int)
    assert (keeps[0], keeps[-1]) == (2, 2100)
    np.testing.assert_allclose(random.get_ydata(), 1 - keeps / 2100)
    np.testing.assert_allclose(top.get_ydata(), [pruning.top_k_mse(2100, int(k), sigma_g=1.0) / 2100 for k in keeps])
    (whole,) = (r for r in shown[-1].rows if r.quantity == "cosine_dp_sgd")
    assert cosines.lines[-1].get_ydata()[0] == whole.predicted
    solid, dashed = ([line for line in cosines.lines if line.get_linestyle() == style] for style in ("-", "--"))
    for number, quantity in enumerate(("cosine_top_k", "cosine_random_k")):
        found = sorted((r for r in shown[-1].rows if r.quantity == quantity), key=lambda r: r.keep)
        exact, fitted = ([r for r in found if (r.assumption == "none") == plain] for plain in (True, False))
        points, _, (bars,) = cosines.containers[number].lines
        for line, values in (
            (solid[number], [r.predicted for r in exact]),
            (dashed[number], [r.predicted for r in fitted]),
            (points, [r.measured for r in exact]),
        ):
            np.testing.assert_allclose(np.asarray(line.get_xdata(), float), [r.keep / 2100 for r in exact])
            np.testing.assert_allclose(np.asarray(line.get_ydata(), float), values)
        reach = [segment[1, 1] - segment[0, 1] for segment in bars.get_segments()]
        np.testing.assert_allclose(reach, [4 * r.standard_error for r in fitted], atol=1e-12)
    for moment, patch in zip(shown, entries.patches, strict=True):
        scaled = moment.gradient / np.sqrt(np.mean(moment.gradient.astype(float) ** 2))
        assert f"({np.sum(np.abs(scaled) > 12)} beyond" in patch.get_label()
        assert np.nansum(patch.get_data().values) * 0.2 == pytest.approx(np.mean(np.abs(scaled) <= 12))


def bare(gradient: np.ndarray) -> Moment:
    return Moment(name="step 1", step=1, batch_size=2, rows=(), gradient=gradient)


def test_nothing_to_draw(tmp_path: Path) -> None:
    from dataclasses import replace

    empty = replace(probed(), moments=tuple(replace(m, fit=None) for m in probed().moments))
    with pytest.raises(ValueError, match="every recorded batch was empty"):
        write_figure(empty, tmp_path / "new.png")
    small = bare(np.ones(30, np.float32))
    ax = plt.figure().gca()
    _report._draw_errors(ax, [small])
    assert ax.lines[0].get_xdata()[0] == pytest.approx(1 / 30)
    assert _report._rows(small, "top_k_mse", "a") == []
    ax.clear()
    _report._draw_errors(ax, [bare(np.ones(3000, np.float32))])
    assert ax.lines[0].get_xdata()[0] == pytest.approx(1 / 1000)  # a thousandth of the entries is the least share
    ax.clear()
    alone = np.zeros(144, np.float32)
    alone[3] = 5.0  # twelve root mean squares: in the last bar, and not beyond it
    _report._draw_entries(ax, [bare(alone)])
    assert "(0 beyond" in ax.patches[0].get_label() and ax.patches[0].get_data().values[-1] > 0
    plt.close(ax.figure)
