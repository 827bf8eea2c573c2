"""The pictures are those of the code as it stands, and drawing them twice gives the same."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dptheory import claims

pytest.importorskip("matplotlib")

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.collections import Collection
from matplotlib.colors import to_rgba, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

from figures.__main__ import DATA, FIGURES, STYLE, render
from figures._table import Data, from_lines

PICTURES = Path(__file__).parents[1] / "proofs" / "figures"
COMMITTED = from_lines((PICTURES / DATA).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FIGURES)
def test_committed_data_is_fresh(name: str) -> None:
    fresh, committed = FIGURES[name].data(), COMMITTED[name]
    assert list(fresh) == list(committed)
    for column, values in fresh.items():
        np.testing.assert_allclose(committed[column], values, rtol=1e-9, err_msg=f"{column}: run python -m figures")


def test_drawing_is_deterministic() -> None:
    (first, data), (second, again) = render(FIGURES["beta"]), render(FIGURES["beta"])
    assert first == second
    np.testing.assert_equal(data, again)
    assert first.startswith(b"\x89PNG")


def _labels_of_red(canvas: Figure) -> list[str]:
    """What the red lines, areas and texts are called."""
    red = to_rgba("tab:red")[:3]
    found = []
    for artist in canvas.findobj(lambda one: isinstance(one, Line2D | Collection | Patch | Text)):
        getters = ("get_color", "get_facecolor", "get_edgecolor")
        colours = np.vstack([to_rgba_array(getattr(artist, name)()) for name in getters if hasattr(artist, name)])
        if any(tuple(colour[:3]) == red and colour[3] > 0 for colour in colours.tolist()):
            found.append(artist.get_text() if isinstance(artist, Text) else str(artist.get_label()))
    return found


@pytest.mark.parametrize("name", FIGURES)
def test_red_is_what_a_paper_prints(name: str) -> None:
    with plt.style.context(STYLE):
        canvas, ax = plt.subplots()
        FIGURES[name].draw(ax, COMMITTED[name])
        labels = _labels_of_red(canvas)
        plt.close(canvas)
    assert [label for label in labels if "printed" not in label] == []


def test_red_of_another_meaning_is_found() -> None:
    canvas, ax = plt.subplots()
    ax.plot([0, 1], color="tab:red", label="bound")
    ax.fill_between([0, 1], 0, 1, color="C3", alpha=0.5, label="range")
    ax.bar([0], [1], color="tab:red")
    ax.text(0, 0, "note", color="tab:red")
    ax.plot([0, 1], color="C0", label="other")
    assert {"bound", "range", "note"} <= set(_labels_of_red(canvas))
    assert "other" not in _labels_of_red(canvas)
    plt.close(canvas)


def _over(larger: str, smaller: str) -> Callable[[Data], bool]:
    return lambda data: bool(np.all(data[larger] >= data[smaller]) and np.any(data[larger] > data[smaller]))


SEEN: dict[str, Callable[[Data], bool]] = {
    "audit_claims": lambda data: bool(np.all((data["audited"] > data["claimed"]) == (data["private"] == 0))),
    "beta": _over("printed", "exact d=200"),
    "bound_recursion": lambda data: (
        data["held mask"][-1] > data["printed"][-1] and _over("printed", "fresh mask")(data)
    ),
    "cosine_ratio": lambda data: data["rho 0.478"].max() < 1.001 and data["rho 0.75"].max() > 1.1,
    "expected_max": lambda data: data["exact"][-1] > 1.5 * data["Welch-Satterthwaite"][-1],
    "freezing_bounds": lambda data: bool(np.all(np.diff(data["printed"]) < 0) and np.all(np.diff(data["mean"]) > 0)),
    "measured_angles": lambda data: all(
        np.all(data[name.replace("dp-sgd", "dp-sgd if frozen")] < data[name])
        for name in data
        if name.startswith("dp-sgd;")
    ),
    "measured_errors": lambda data: all(np.all(np.abs(x) < 0.002) for name, x in data.items() if name != "drop_rate"),
    "measured_signals": lambda data: all(
        np.all(data[name.replace("dp-sgd", "dp-sgd if frozen")] > data[name])
        for name in data
        if name.startswith("dp-sgd;")
    ),
    "audit_power": lambda data: (
        0.35 < np.median(data["proved"][data["epsilon"] == 4] / 4) < 0.45
        and bool(np.mean(data["proved"] < data["epsilon"] / 2) > 0.75)
    ),
    "momentum_noise": lambda data: _over("velocity printed", "velocity")(data) and _over("Adam printed", "Adam")(data),
    "reconstruction_error": lambda data: bool(np.all((data["printed"] > data["sparse given"])[data["r"] > 0.7])),
    "top_k_mse": lambda data: (
        np.allclose(data["printed"], (1 - data["k"]) * data["asymptotic"]) and _over("exact", "printed")(data)
    ),
    "tradeoff": lambda data: bool(np.all(data["U tuned"][1:] > 1) and data["U a = 0.5"].min() < 1),
}
"""Of messages above pictures that are an inequality: that it holds in what the picture shows."""


@pytest.mark.parametrize("name", SEEN)
def test_what_the_message_says_is_in_the_data(name: str) -> None:
    assert SEEN[name](COMMITTED[name])


def test_the_message_of_a_study_counts_its_intervals() -> None:
    data = COMMITTED["study_masking"]
    numbers = [int(word) for word in re.findall(r"\d+", FIGURES["study_masking"].message)]
    below, above = int((data["high"] < 0).sum()), int((data["low"] > 0).sum())
    assert numbers == [len(data["mean"]), below, above, len(data["mean"]) - below - above]


def test_every_picture_is_committed_and_used() -> None:
    assert {path.stem for path in PICTURES.glob("*.png")} == set(FIGURES) == set(COMMITTED)
    pages = "".join(page.read_text(encoding="utf-8") for page in PICTURES.parent.rglob("*.md"))
    pages += "".join(claims.page_markdown(claim) for claim in claims.all_claims())
    assert all(f"figures/{name}.png" in pages for name in FIGURES)
