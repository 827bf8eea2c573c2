"""What instrumented runs measured, beside what the papers' figures show: the pictures of measured claims."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from figures._table import Data, Gallery

FIGURES = Gallery("measured_")

# --- What instrumented runs measured, from the committed results


RESULTS = Path(__file__).parents[1] / "proofs" / "results" / "instruments.jsonl"


@cache
def _results() -> dict[str, Mapping[str, Any]]:
    """The last result of every instrument and seed."""
    lines = map(json.loads, RESULTS.read_text(encoding="utf-8").splitlines())
    return {line["run"]: line for line in lines}


def rows(instrument: str, arm: str, kind: str, seed: int = 0) -> list[Mapping[str, Any]]:
    """The measurements of one kind of one arm, in the order of their steps."""
    return list(_results()[f"{instrument}_seed={seed}"]["arms"][arm]["measured"][kind])


def epoch(instrument: str, arm: str, step: float, seed: int = 0) -> float:
    """Epochs that a number of steps makes."""
    return float(step / _results()[f"{instrument}_seed={seed}"]["arms"][arm]["steps_per_epoch"])


def columns(table: Mapping[str, Sequence[float | None]]) -> Data:
    """Columns of numbers; NaN for null."""
    return {name: np.array([np.nan if x is None else x for x in values], dtype=float) for name, values in table.items()}


# --- LF Fig. 3 on our small network: norm of the clipped mean gradient of the layers that stay, before and after freezing


LAYERS = (2, 3)
FROZEN_AFTER = 120
_LAYER_WORDS = {
    "conv1": "first convolution",
    "conv2": "second convolution",
    "fc1": "first dense layer",
    "fc2": "last dense layer",
}
LOOKS = {"freezing": "as_it_is", "dp-sgd": "as_it_is", "dp-sgd if frozen": "if_frozen"}
"""Runs, and how the same gradients would be with the first layers frozen."""
STYLES: dict[str, dict[str, Any]] = {
    "freezing": {"ls": "-", "marker": "o", "ms": 4},
    "dp-sgd": {"ls": ":"},
    "dp-sgd if frozen": {"ls": "", "marker": "x", "ms": 5},
}


def layer_columns(keys: tuple[str, ...]) -> Data:
    """One column per run, layer and quantity over the steps."""
    found = rows("freezing", "freezing", "signals")
    names = found[0]["layers"]
    table = {"step": [row["step"] for row in found]}
    for arm, where in LOOKS.items():
        for layer in LAYERS:
            for key in keys:
                measured = rows("freezing", arm.split()[0], "signals")
                table[f"{arm}; {names[layer]}; {key}"] = [row[where][key][layer] for row in measured]
    return columns(table)


def _signals_data() -> Data:
    """|s^B| of both layers, with and without freezing."""
    return layer_columns(("signal",))


@FIGURES.picture(_signals_data, "With layers frozen the same gradients have a longer mean, at every step")
def _draw_signals(ax: Axes, data: Data) -> None:
    """Solid with freezing, dotted without; a cross where its gradients would be with the layers frozen."""
    words = {"freezing": "frozen below", "dp-sgd": "nothing frozen", "dp-sgd if frozen": "the same, if frozen"}
    for name in list(data)[1:]:
        arm, layer, _ = name.split("; ")
        colour = "C0" if layer == "fc1" else "C1"
        ax.plot(data["step"], data[name], color=colour, label=f"{_LAYER_WORDS[layer]}, {words[arm]}", **STYLES[arm])
    ax.axvline(FROZEN_AFTER, color="0.3", ls="--", lw=0.8)
    ax.set(
        xlabel="step (two of four layers frozen after step 120)",
        ylabel=r"$|s^B|$",
        ylim=(0, 0.08),
        title="one run each, small CNN on FashionMNIST, 2000 test images as the batch",
    )
    ax.legend(ncols=2)


# --- LF Fig. 7 on our small network: angles of the clipped and of the unclipped gradients to the true one


_CLIPS = ("0.1", "1", "5", "10")


def _alignment_data() -> Data:
    """Both angles over the steps, for every clip; empty where no gradient is of the kind."""
    table = {"step": [row["step"] for row in rows("clips", "clip-1", "alignment")]}
    for clip in _CLIPS:
        for kind in ("clipped", "unclipped"):
            table[f"{kind} at C = {clip}"] = [
                row[f"{kind}_angle"] for row in rows("clips", f"clip-{clip}", "alignment")
            ]
    return columns(table)


@FIGURES.picture(
    _alignment_data, "From step 78 on the unclipped gradients lie further off the true one than the clipped"
)
def _draw_alignment(ax: Axes, data: Data) -> None:
    """A colour per clip: solid for the clipped ones, dashed for the others."""
    for number, clip in enumerate(_CLIPS):
        for kind, style in (("clipped", "o-"), ("unclipped", "s--")):
            ax.plot(
                data["step"],
                data[f"{kind} at C = {clip}"],
                style,
                ms=4,
                color=f"C{number}",
                label=f"{kind} at C = {clip}",
            )
    ax.set(
        xlabel="step",
        ylabel="angle to the true gradient (radians)",
        ylim=(0, 3.4),
        title=r"one run each, small CNN on FashionMNIST, B = 512, $\sigma$ = 1, learning rate 0.15",
    )
    ax.legend(ncols=2, loc="upper left")


# --- LF Figs 4 and 5 on our small network: angles of clipping and of noise of the layers that stay, before and after freezing


_KEYS = {"clipping_angle": r"clipping $\gamma^{UB}$", "noise_angle": r"noise $\gamma^{BP}$"}


def _angles_data() -> Data:
    """Both angles of both layers, with and without freezing."""
    return layer_columns(tuple(_KEYS))


@FIGURES.picture(_angles_data, "With layers frozen the same gradients have smaller angles, at every step")
def _draw_angles(ax: Axes, data: Data) -> None:
    """A colour per layer and angle; dotted without freezing; a cross where its gradients would be with the layers frozen."""
    for name in list(data)[1:]:
        arm, layer, key = name.split("; ")
        number = 2 * (key == "noise_angle") + (layer == "fc2")
        label = f"{_KEYS[key]}, {_LAYER_WORDS[layer]}" if arm == "freezing" else None
        ax.plot(data["step"], data[name], color=f"C{number}", label=label, **STYLES[arm])
    ax.axvline(FROZEN_AFTER, color="0.3", ls="--", lw=0.8)
    ax.set(
        xlabel="step (two of four layers frozen after 120; dotted: nothing frozen;\ncrosses: the same gradients, if frozen)",
        ylabel="angle (radians)",
        ylim=(0, None),
        title="one run each, small CNN on FashionMNIST, 2000 test images as the batch",
    )
    ax.legend(ncols=2)


# --- GIP Fig. 4a on our small network: cosine of the released with the unperturbed gradient over training


_ARMS = {"index-pruning": "GIP (1 to 0.1 kept)", "dp-sgd": "DP-SGD", "random-k": "random-k (1 to 0.5 kept)"}


def _cosines_data() -> Data:
    """Mean cosine of each method over the epochs."""
    table = {"epoch": [epoch("index", "dp-sgd", row["step"]) for row in rows("index", "dp-sgd", "cosines")]}
    return columns(
        table | {label: [row["cosine"] for row in rows("index", arm, "cosines")] for arm, label in _ARMS.items()}
    )


@FIGURES.picture(_cosines_data, "GIP has the best direction of three at epochs 1 and 2, the worst from epoch 6 on")
def _draw_cosines(ax: Axes, data: Data) -> None:
    """A line a method."""
    for label in _ARMS.values():
        ax.plot(data["epoch"], data[label], "o-", label=label)
    ax.set(
        xlabel="epoch (of 10)",
        ylabel="cosine of released and unperturbed gradient",
        ylim=(0, None),
        title=r"one run each, small CNN on FashionMNIST, $\epsilon$ = 1, C = 0.1, B = 1000",
    )
    ax.legend()


# --- RF Fig. 3 and RS Fig. 12 on our small network: how often an entry is frozen


_ARMS_COUNTS = {"freeze": "random", "ranked": "ranked", "ranked-without-noise": "ranked without noise (not private)"}


def _counts_data() -> Data:
    """Share of the entries that were frozen 0, 1, ... times."""
    last = {label: rows("masks", arm, "frozen")[-1]["times"] for arm, label in _ARMS_COUNTS.items()}
    table = {"times": list(range(len(last["random"])))}
    return columns(table | {label: [n / sum(times) for n in times] for label, times in last.items()})


@FIGURES.picture(
    _counts_data, "Ranked freezing spreads over the entries as random freezing does, unless it sees no noise"
)
def _draw_counts(ax: Axes, data: Data) -> None:
    """Three bars a count."""
    for number, label in enumerate(_ARMS_COUNTS.values()):
        ax.bar(data["times"] + 0.27 * (number - 1), data[label], width=0.27, color=f"C{number}", label=label)
    ax.set_xticks(np.arange(len(data["times"])))
    ax.set(
        xlabel="epochs of 6 in which an entry is frozen (rate 0 to 0.9)",
        ylabel="share of the entries",
        title="one run each, small CNN on FashionMNIST, $\\epsilon$ = 7.53",
    )
    ax.legend()


# --- RS Figs 6 to 9 on our small network: deviations of per-sample gradients in a random plane, with and without masks


_PLACES = (("dp-sgd", "DP-SGD"), ("freeze", "random freeze"))
_REACH = 4.0


def _deviations_data() -> Data:
    """The points of every step and method, shifted apart; distance of the law from its mirror image beside them."""
    columns: dict[str, list[float]] = {"method": [], "step": [], "x": [], "y": [], "mirror_distance": []}
    for number, (arm, _) in enumerate(_PLACES):
        for row in rows("masks", arm, "deviations"):
            for x, y in row["points"]:
                for name, value in zip(columns, (number, row["step"], x, y, row["mirror_distance"]), strict=True):
                    columns[name].append(float(value))
    return {name: np.array(values) for name, values in columns.items()}


@FIGURES.picture(
    _deviations_data, "The deviations from the mean gradient are less symmetric in training than at the start"
)
def _draw_deviations(ax: Axes, data: Data) -> None:
    """Six clouds, each in a frame of its own: a column per step, a row per method; points beyond a frame are counted."""
    steps = np.unique(data["step"])
    for column, step in enumerate(steps):
        for number, (_, label) in enumerate(_PLACES):
            chosen = (data["step"] == step) & (data["method"] == number)
            x, y = data["x"][chosen], data["y"][chosen]
            frame = ax.inset_axes((column / len(steps), (1 - number) / 2, 1 / len(steps), 0.37))
            frame.plot(x, y, ".", ms=3, color=f"C{number}")
            frame.set(xticks=[], yticks=[], xlim=(-_REACH, _REACH), ylim=(-_REACH, _REACH))
            outside = int(np.sum((np.abs(x) > _REACH) | (np.abs(y) > _REACH)))
            distance = data["mirror_distance"][chosen][0]
            title = f"{label}, step {step:g}\nmirror distance {distance:.3f}, {outside} of {len(x)} outside"
            frame.set_title(title, fontsize=7)
    ax.set(xticks=[], yticks=[], xlabel="two random directions of 26,010")
    ax.spines[:].set_visible(False)
    ax.set_title("one run each, small CNN on FashionMNIST", pad=4)


# --- Entries of the clipped batch gradient of our small network against GIP's Gaussian law


def _entries_data() -> Data:
    """Density of the entries over their root mean square, at four times."""
    found = rows("index", "dp-sgd", "entries")
    edges = np.linspace(-12.0, 12.0, len(found[0]["histogram"]) + 1)
    table = {"entry": ((edges[1:] + edges[:-1]) / 2).tolist()}
    for row in found:
        counts = np.array(row["histogram"]) / (sum(row["histogram"]) + row["outside"]) / np.diff(edges)
        table[f"after epoch {epoch('index', 'dp-sgd', row['step']):g}"] = counts.tolist()
    return columns(table)


@FIGURES.picture(_entries_data, "The entries have a taller middle and longer tails than a Gaussian law")
def _draw_entries(ax: Axes, data: Data) -> None:
    """A line a time, and the Gaussian law."""
    for name in list(data)[1:]:
        ax.plot(data["entry"], np.where(data[name] > 0, data[name], np.nan), label=name)
    ax.plot(data["entry"], np.exp(-(data["entry"] ** 2) / 2) / np.sqrt(2 * np.pi), "k--", label="N(0, 1)")
    ax.set(
        yscale="log",
        ylim=(1e-5, 5),
        xlabel="entry / root mean square",
        ylabel="density",
        title="clipped batch gradient, one run, small CNN on FashionMNIST",
    )
    ax.legend()


# --- RF Fig. 1 on our small network: what random freeze does to the signal loss and to the MSE, over the rate


def _errors_data() -> Data:
    """(dense - frozen) / dense over the drop rate, after a third, two thirds and all of the run."""
    found = rows("masks", "dp-sgd", "errors")
    table = {"drop_rate": found[0]["drop_rates"]}
    for row in found:
        at = f"epoch {epoch('masks', 'dp-sgd', row['step']):g}"
        for name, key in (("signal loss", "signal_loss"), ("MSE", "mse")):
            table[f"{name} at {at}"] = [(row[key][0] - value) / row[key][0] for value in row[key]]
    return columns(table)


@FIGURES.picture(_errors_data, "Freezing changes signal loss and error by less than 0.2 percent")
def _draw_errors(ax: Axes, data: Data) -> None:
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
        title="one run each, small CNN on FashionMNIST, C = 0.1, $\\epsilon$ = 7.53: below 0 freezing loses",
    )
    ax.legend()


# --- RS Fig. 5 on our small network: error of images that are sought from masked gradients


def _inversion_data() -> Data:
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


@FIGURES.picture(_inversion_data, "With nine of ten entries masked, sought images have five times the error")
def _draw_inversion(ax: Axes, data: Data) -> None:
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


# --- RF Fig. 2 on our small network: laws of the gradient norm with and without random freeze


_CLIP = 0.1


def _norms_data() -> Data:
    """Share of the examples in every tenth of a decade of the norm, after three epochs of both runs."""
    table = {"log10_norm": [round(-5 + 0.1 * (i + 0.5), 2) for i in range(80)]}
    for arm in ("dp-sgd", "freeze"):
        for row in rows("masks", arm, "norms"):
            total = sum(row["histogram"])
            table[f"{arm} at epoch {epoch('masks', arm, row['step']):g}"] = [n / total for n in row["histogram"]]
    return columns(table)


@FIGURES.picture(_norms_data, "From epoch 4 on random freeze leaves fewer gradients that are longer than 10")
def _draw_norms(ax: Axes, data: Data) -> None:
    """Shares below each norm: solid without freezing, dashed with it."""
    norms = 10 ** (data["log10_norm"] + 0.05)
    names = [name for name in data if name.startswith("dp-sgd")]
    for number, name in enumerate(names):
        at = name.removeprefix("dp-sgd at ")
        ax.plot(norms, np.cumsum(data[name]), color=f"C{number}", label=f"no freeze, {at}")
        ax.plot(norms, np.cumsum(data[f"freeze at {at}"]), "--", color=f"C{number}", label=f"random freeze, {at}")
    ax.axvline(_CLIP, color="0.3", ls=":", label="C")
    ax.set(
        xscale="log",
        xlim=(1e-4, 1e2),
        ylim=(0, 1),
        xlabel="norm of an example's gradient (of the kept entries)",
        ylabel="share of the examples below",
        title="one run each, small CNN on FashionMNIST; freeze rate 0, 0.54 and 0.9 at epochs 1, 4 and 6",
    )
    ax.legend(loc="upper left")


# --- GEP Figs 4 and 7 on our small network: what a subspace of k vectors leaves out of the mean gradient


_SOURCES = {
    "same": "test images with their labels",
    "other": "FashionMNIST with random labels",
    "random": "random vectors",
}


def _projections_data() -> Data:
    """Mean relative projection error over the steps, and its least and greatest, by k."""
    found = rows("subspaces", "gep", "projection")
    table = {"k": found[0]["dims"]}
    for source, label in _SOURCES.items():
        each = np.array([row["error"][source] for row in found])
        table |= {
            label: each.mean(0).tolist(),
            f"{label} (least)": each.min(0).tolist(),
            f"{label} (greatest)": each.max(0).tolist(),
        }
    return columns(table)


@FIGURES.picture(_projections_data, "Labelled test images span the mean gradient best, random vectors hardly at all")
def _draw_projections(ax: Axes, data: Data) -> None:
    """A line with its range a source."""
    for number, label in enumerate(_SOURCES.values()):
        ax.plot(data["k"], data[label], "o-", color=f"C{number}", label=label)
        ax.fill_between(data["k"], data[f"{label} (least)"], data[f"{label} (greatest)"], color=f"C{number}", alpha=0.2)
    ax.set(
        xlabel="vectors k",
        ylabel="relative projection error",
        ylim=(0, 1.05),
        title="one run each, small CNN (d = 26,010) on MNIST under GEP; range over two epochs",
    )
    ax.legend(loc=(0.45, 0.7))


# --- GEP Figs 2 and 5 on our small network: stable ranks of gradients and of their residuals over training


def _ranks_data() -> Data:
    """Stable rank of 1000 per-sample gradients by layer, and of their residuals."""
    found = rows("subspaces", "gep", "spectrum")
    table = {"epoch": [epoch("subspaces", "gep", row["step"]) for row in found]}
    table |= {name: [row["rank"][name] for row in found] for name in found[0]["rank"]}
    table["residuals of all"] = [row["residual"] for row in rows("subspaces", "gep", "residuals")]
    return columns(table)


@FIGURES.picture(_ranks_data, "The stable ranks are low, and those of the residuals the highest")
def _draw_ranks(ax: Axes, data: Data) -> None:
    """A line a layer; the residuals dashed."""
    for name in list(data)[1:]:
        style = "s--" if name.startswith("residuals") else "o-"
        ax.plot(data["epoch"], data[name], style, ms=4, label=_LAYER_WORDS.get(name, name))
    ax.set(
        xlabel="epoch",
        ylabel="stable rank (1000 at most)",
        ylim=(0, None),
        title="one run each, small CNN on MNIST under GEP; residuals on 500 vectors of other images",
    )
    ax.legend(ncols=3, loc="upper right")


# --- RS Fig. 1d on our small network: how much larger clipped gradients are on the entries that a mask keeps


def _relaxed_data() -> Data:
    """Ratio of the norms of the clipped mean gradient on the kept entries, with a mask over without."""
    found = rows("masks", "dp-sgd", "relaxed")
    table = {"drop_rate": found[0]["drop_rates"]}
    return columns(table | {f"after epoch {epoch('masks', 'dp-sgd', row['step']):g}": row["ratio"] for row in found})


@FIGURES.picture(_relaxed_data, "A mask before the clipping lengthens what is kept, more at higher rates")
def _draw_relaxed(ax: Axes, data: Data) -> None:
    """A line a step; the ratio of flat gradients as a bound."""
    rates = data["drop_rate"]
    for name in list(data)[1:]:
        ax.plot(rates, data[name], "o-", label=name)
    ax.plot(rates, 1 / np.sqrt(1 - rates), ":", color="0.3", label=r"$1/\sqrt{1-r}$: flat gradients, all clipped")
    ax.axhline(1, color="0.3", lw=0.8)
    ax.set(
        xlabel="sparsification rate r",
        ylabel="norm on the kept entries, with mask / without",
        title="one run each, small CNN on FashionMNIST, C = 0.1",
    )
    ax.legend()


# --- LF Fig. 8 on our small network: clipped and unclipped gradients before and after freezing


def _status_data() -> Data:
    """Numbers of clipped gradients before and after, and the angles between the sums."""
    found = rows("freezing", "dp-sgd", "status")
    keys = ("step", "examples", "clipped_before", "clipped_after", "changed", "clipped_turn", "unclipped_turn")
    return columns({key: [row[key] for row in found] for key in keys})


@FIGURES.picture(
    _status_data, "Freezing unclips few gradients, and turns the unclipped sum far more than the clipped one"
)
def _draw_status(ax: Axes, data: Data) -> None:
    """Two bars a step, and the angles above them."""
    places = range(len(data["step"]))
    for shift, key, colour in ((-0.2, "clipped_before", "C0"), (0.2, "clipped_after", "C1")):
        below = [place + shift for place in places]
        ax.bar(below, data[key], width=0.38, color=colour, label=key.replace("_", " ") + " freezing")
        ax.bar(below, data["examples"] - data[key], bottom=data[key], width=0.38, color=colour, alpha=0.3)
    for place in places:
        turns = (
            f"turned by\n{data['clipped_turn'][place]:.2f} (clipped)\n{data['unclipped_turn'][place]:.2f} (unclipped)"
        )
        ax.text(place, 1.02 * data["examples"][place], turns, ha="center", fontsize=8)
    ax.set_xticks(list(places), [f"step {step:g}" for step in data["step"]])
    ax.set(
        ylabel="gradients (pale: unclipped)",
        ylim=(0, 1.5 * data["examples"].max()),
        title="one run each, small CNN on FashionMNIST, two of four layers frozen; angles in radians",
    )
    ax.legend(loc="upper left", ncols=2)
