"""The two pictures: what is drawn, against the numbers it is drawn from, and its looks, as they were committed.

``python tests/training/test_training_figures.py`` writes the looks anew; look at a picture before committing them.
"""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

from dptheory import pruning
from dptheory.training.measure import (
    MeasureSettings,
    Moment,
    ProbeSettings,
    Result,
    Row,
    ValidateSettings,
    _figures,
    measure_gradient,
    write_figure,
)
from dptheory.training.runs import DpSgdSettings

LOOKS = Path(__file__).with_name("figure_looks.json")
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
        Row(group="a", quantity="one", setting="s", claims="c", predicted=2.0, measured=2.1, standard_error=0.1),
        Row(group="a", quantity="none", setting="s", claims="c", predicted=0.0, measured=0.0, standard_error=0.1),
        Row(group="b", quantity="two", setting="s", claims="c", predicted=-1.0, measured=-3.0, standard_error=0.01),
        Row(group="a", quantity="three", setting="t", claims="c", predicted=4.0, measured=3.9, standard_error=0.0),
        Row(
            group="b",
            quantity="least",
            setting="s",
            claims="c",
            predicted=1.0,
            measured=8.0,
            standard_error=0.5,
            relation="at least",
        ),
        Row(
            group="a",
            quantity="most",
            setting="s",
            claims="c",
            predicted=1.0,
            measured=0.2,
            standard_error=0.05,
            relation="at most",
        ),
        Row(
            group="c",
            quantity="resting",
            setting="s",
            claims="c",
            predicted=1.0,
            measured=5.0,
            standard_error=0.1,
            assumption=assumed,
        ),
        Row(
            group="c",
            quantity="resting",
            setting="t",
            claims="c",
            predicted=1.0,
            measured=1.1,
            standard_error=0.1,
            assumption=assumed,
        ),
        Row(
            group="b",
            quantity="resting",
            setting="u",
            claims="c",
            predicted=1.0,
            measured=0.5,
            standard_error=0.3,
            assumption=assumed,
            relation="at least",
        ),
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


def drawn(write: Callable[[Any, Path], None], result: object, folder: Path) -> tuple[Figure, dict[str, Any]]:
    """The figure that is written, and how it is saved."""
    kept: list[Any] = []
    plain = Figure.savefig

    def save(self: Figure, target: io.BytesIO, **how: Any) -> None:
        kept.append((self, how))
        target.write(b"a picture")

    Figure.savefig = save  # type: ignore[method-assign]
    try:
        before = plt.get_fignums()
        write(result, folder / "new.png")
        assert plt.get_fignums() == before  # closed
    finally:
        Figure.savefig = plain  # type: ignore[method-assign]
    assert (folder / "new.png").read_bytes() == b"a picture"
    ((figure, how),) = kept
    return figure, how


def numbers(values: Any) -> list[Any]:
    return [None if not np.isfinite(value) else float(f"{value:.5g}") for value in np.ravel(np.asarray(values, float))]


def looks(figure: Figure, how: dict[str, Any]) -> dict[str, Any]:
    """All that a reader sees, but the pixels."""
    engine = figure.get_layout_engine()
    title = figure._suptitle  # type: ignore[attr-defined]
    return {
        "size": numbers(figure.get_size_inches()),
        "saved": {name: str(value) for name, value in how.items()},
        "layout": type(engine).__name__,
        "title": [title.get_text(), title.get_fontsize()],
        "axes": [_axes(ax) for ax in figure.axes],
    }


def _axes(ax: Axes) -> dict[str, Any]:
    legend = ax.get_legend()
    lines = [
        {
            "x": numbers(line.get_xdata()), "y": numbers(line.get_ydata()), "style": line.get_linestyle(),
            "width": line.get_linewidth(), "marker": str(line.get_marker()), "size": line.get_markersize(),
            "colours": [to_hex(c) for c in (line.get_color(), line.get_markerfacecolor(), line.get_markeredgecolor())],
            "order": line.get_zorder(), "label": str(line.get_label()),
        }
        for line in ax.lines
    ]  # fmt: skip
    bars = [
        {
            "segments": [numbers(segment) for segment in bar.get_segments()], "width": numbers(bar.get_linewidths()),
            "colours": [to_hex(c) for c in bar.get_colors()],
        }
        for bar in ax.collections if isinstance(bar, LineCollection)
    ]  # fmt: skip
    steps = [
        {
            "values": numbers(patch.get_data().values), "edges": numbers(patch.get_data().edges),
            "colour": to_hex(patch.get_edgecolor()), "label": patch.get_label(),
        }
        for patch in ax.patches if isinstance(patch, StepPatch)
    ]  # fmt: skip
    words, grids = legend.get_texts() if legend else [], (ax.get_xgridlines(), ax.get_ygridlines())
    bounds = ax.get_subplotspec().get_gridspec().get_height_ratios()  # type: ignore[union-attr]
    return {
        "titles": [[t.get_text(), t.get_fontsize()] for t in (ax.title, ax._left_title)],  # type: ignore[attr-defined]
        "labels": [ax.get_xlabel(), ax.get_ylabel()],
        "scales": [ax.get_xscale(), ax.get_yscale()],
        "limits": [numbers(ax.get_xlim()), numbers(ax.get_ylim())],
        "ticks": [[t.get_text() for t in axis.get_ticklabels()] for axis in (ax.xaxis, ax.yaxis)],
        "tick places": numbers(ax.get_yticks()) if ax.get_yscale() == "linear" else [],
        "tick sizes": [sorted({t.label1.get_fontsize() for t in axis.get_major_ticks()}) for axis in (ax.xaxis, ax.yaxis)],
        "minor ticks": len(ax.xaxis.get_minorticklocs()),
        "grid": [[line.get_visible() and to_hex(line.get_color()) for line in lines[:1]] for lines in grids],
        "below": ax.get_axisbelow(),
        "heights": numbers(bounds),
        "lines": lines,
        "bars": bars,
        "steps": steps,
        "legend": legend and [[t.get_text() for t in words], words[0].get_fontsize(), legend._loc, legend._ncols],  # type: ignore[attr-defined]
    }  # fmt: skip


def alike(found: Any, wanted: Any, place: str = "") -> None:
    """The same words, and the same numbers to four digits."""
    if isinstance(wanted, dict):
        assert set(found) == set(wanted), place
        for name in wanted:
            alike(found[name], wanted[name], f"{place}.{name}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), place
        for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
            alike(one, other, f"{place}[{number}]")
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-4, abs=1e-9), place
    else:
        assert found == wanted, place


def both(folder: Path) -> dict[str, Any]:
    return {
        "probe": looks(*drawn(write_figure, probed(), folder)),
        "validation": looks(*drawn(write_figure, validated(), folder)),
    }


@pytest.mark.parametrize("name", ["probe", "validation"])
def test_looks_are_those_committed(name: str, tmp_path: Path) -> None:
    alike(json.loads(json.dumps(both(tmp_path)[name])), json.loads(LOOKS.read_text())[name], name)


def test_the_axes_of_a_validation_share_their_places(tmp_path: Path) -> None:
    figure, _ = drawn(write_figure, validated(), tmp_path)
    top, bottom = figure.axes[:3], figure.axes[3:]
    for row in (top, bottom):
        assert all(
            ax.get_shared_x_axes().joined(row[0], ax) and ax.get_shared_y_axes().joined(row[0], ax) for ax in row
        )
    assert not top[0].get_shared_x_axes().joined(top[0], bottom[0])


def test_rows_of_a_validation_are_where_they_belong(tmp_path: Path) -> None:
    """Measured over predicted with bars of five standard errors; blue where both agree, open where it rests on a claim."""
    figure, _ = drawn(write_figure, validated(), tmp_path)
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
    figure, _ = drawn(write_figure, result, tmp_path)
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
    _figures._draw_errors(ax, [small])
    assert ax.lines[0].get_xdata()[0] == pytest.approx(1 / 30)
    assert _figures._rows(small, "top_k_mse", "a") == []
    ax.clear()
    _figures._draw_errors(ax, [bare(np.ones(3000, np.float32))])
    assert ax.lines[0].get_xdata()[0] == pytest.approx(1 / 1000)  # a thousandth of the entries is the least share
    ax.clear()
    alone = np.zeros(144, np.float32)
    alone[3] = 5.0  # twelve root mean squares: in the last bar, and not beyond it
    _figures._draw_entries(ax, [bare(alone)])
    assert "(0 beyond" in ax.patches[0].get_label() and ax.patches[0].get_data().values[-1] > 0
    plt.close(ax.figure)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        LOOKS.write_text(
            json.dumps(both(Path(scratch)), indent=None, separators=(",", ":")).replace('},{"x"', '},\n{"x"') + "\n"
        )
