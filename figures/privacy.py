"""Pictures of accounting: accountants side by side, and what audits found."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dptheory import privacy
from dptheory.privacy.methods import references
from figures._table import Data, Gallery

FIGURES = Gallery()

# --- Epsilon over the number of steps by four accountants, for one setting of DP-SGD


SIGMA, RATE, DELTA = 1.0, 0.02, 1e-5
STEPS = np.unique(np.geomspace(10, 10_000, 13).round()).astype(int)
PLD_STEPS = (10, 100, 1000)  # slow: a few points


def _accountants_data() -> Data:
    """The bracket by the library and by PLD (where asked), Renyi privacy, and the Gaussian mechanism without subsampling."""
    rows = []
    for steps in (int(T) for T in STEPS):
        found = privacy.epsilon_bounds(noise_multiplier=SIGMA, sampling_rate=RATE, steps=steps, delta=DELTA)
        pld = (np.nan, np.nan)
        if steps in PLD_STEPS:
            pld = references.cross_check(
                noise_multiplier=SIGMA, sampling_rate=RATE, steps=steps, delta=DELTA, width=0.02
            ).pld
        rows.append(
            (
                steps,
                found.lower,
                found.upper,
                *pld,
                privacy.rdp_epsilon(noise_multiplier=SIGMA, sampling_rate=RATE, steps=steps, delta=DELTA),
                privacy.gaussian_epsilon(np.sqrt(steps) / SIGMA, DELTA),
            )
        )
    names = ("steps", "lower", "upper", "PLD lower", "PLD upper", "RDP", "not subsampled")
    return dict(zip(names, np.array(rows, dtype=float).T, strict=True))


@FIGURES.picture(
    _accountants_data, "Rényi privacy states 8 to 75 % more epsilon than dptheory, whose bracket is too narrow to see"
)
def _draw_accountants(ax: Axes, data: Data) -> None:
    """All over the upper end of the library's bracket: the brackets agree, Renyi privacy is above by less and less."""
    steps, unit = data["steps"], data["upper"]
    ax.plot(steps, data["RDP"] / unit, color="C1", ls="--", label="Rényi privacy, upper bound")
    ax.plot(steps, data["lower"] / unit, color="C0", lw=2, label="saddle line, bracket (narrower than the line)")
    asked = np.isfinite(data["PLD upper"])
    lower, upper = data["PLD lower"][asked] / unit[asked], data["PLD upper"][asked] / unit[asked]
    ax.vlines(steps[asked], lower, upper, color="k", lw=2, zorder=4, label="PLD, bracket")
    ax.plot(np.tile(steps[asked], 2), np.concatenate([lower, upper]), "k_", ms=9, mew=2, zorder=4, clip_on=False)
    for at in (steps[asked]).astype(int):
        ax.annotate(rf"$\epsilon \leq {unit[steps == at][0]:.2f}$", (at * 1.05, 1.04), fontsize=8.5, color="C0")
    factors = data["not subsampled"] / unit
    ax.set(
        xscale="log",
        xlabel="steps T",
        ylabel=r"$\epsilon$ at $\delta = 10^{-5}$, over the upper bound",
        title=rf"DP-SGD, $\sigma$ = {SIGMA:g}, sampling rate {RATE:g}",
        xlim=(steps[0], steps[-1]),
        ylim=(0.7, 1.85),
    )
    ax.text(
        0.98,
        0.70,
        f"without subsampling: {factors.min():.0f} to {factors.max():.0f} times, off the scale",
        transform=ax.transAxes,
        ha="right",
        color="0.4",
        fontsize=8.5,
    )
    ax.legend(loc="upper right")


# --- Time of an answer and its distance from epsilon, for every accountant


RESULTS = Path(__file__).parents[1] / "proofs" / "results" / "accountants_core.jsonl"
"""Written by ``dptheory privacy compare --search 50 --law core --seed 0 --limit 10 --out proofs/results/accountants_core.jsonl``."""

FLOOR = 1e-15
MARKS = "osDv^P<hp>*d"
ESTIMATE = "Opacus GDP"
"""It promises no bound, and takes no time."""


def _compared() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


def _tools() -> list[str]:
    return [one["tool"] for one in _compared()[0]["answers"] if one["tool"] != ESTIMATE]


def _accountant_benchmark_data() -> Data:
    """Number of the tool, seconds, and the distance of its upper bound from epsilon over max(1, epsilon); NaN where refused."""
    tools, rows = _tools(), []
    for one in _compared():
        truth = (one["lower"] + one["upper"]) / 2
        for answer in one["answers"]:
            if answer["tool"] in tools:
                upper = np.nan if answer["upper"] is None else answer["upper"]
                rows.append((tools.index(answer["tool"]), answer["seconds"], (upper - truth) / max(1.0, truth)))
    return dict(zip(("tool", "seconds", "distance"), np.array(rows, dtype=float).T, strict=True))


@FIGURES.picture(
    _accountant_benchmark_data, "dptheory answers every setting within 1e-9; the medians of the others lie above 1e-4"
)
def _draw_accountant_benchmark(ax: Axes, data: Data) -> None:
    """A cloud per tool, its medians as a large mark; what is below the truth stands as a cross."""
    count = int((data["tool"] == 0).sum())
    for number, name in enumerate(_tools()):
        mine = data["tool"] == number
        given = mine & np.isfinite(data["distance"])
        if not given.any():
            ax.plot([], [], " ", label=f"{name}: no answer to any of {mine.sum()}")
            continue
        seconds, distance = data["seconds"][given], data["distance"][given]
        height = np.maximum(np.abs(distance), FLOOR)
        colour, below = f"C{number}", distance < -1e-9
        refused = int(mine.sum() - given.sum())
        label = name if refused == 0 else f"{name} ({refused} unanswered)"
        ax.scatter(seconds[~below], height[~below], s=9, color=colour, alpha=0.45, lw=0)
        ax.scatter(seconds[below], height[below], s=26, color=colour, marker="x", lw=1)
        middle = float(np.median(seconds)), float(np.median(height))
        ax.plot(*middle, MARKS[number], color=colour, ms=9, mec="white", mew=1.2, label=label, zorder=5)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="seconds of CPU time per answer",
        ylabel=r"distance from $\epsilon$, over max(1, $\epsilon$)",
        title=f"{count} settings over the core; large marks: medians, crosses: below the truth",
    )
    ax.legend(loc="upper left", bbox_to_anchor=(0.0, -0.22), ncols=2)


# --- What audits of one step prove about epsilon, against what is claimed, for every mechanism of the package ``training``


AUDIT_RESULTS = Path(__file__).parents[1] / "proofs" / "figures" / "audit_claims.json"
"""Written by ``python -m dptheory.training.audits proofs/figures/audit_claims.json``."""


def _audit_claims_data() -> Data:
    """Claimed and audited epsilon of every audit of the results, in their order; private: 1 where the claim should stand."""
    rows = json.loads(AUDIT_RESULTS.read_text())
    return {key: np.array([float(row[key]) for row in rows]) for key in ("claimed", "audited", "private")}


@FIGURES.picture(_audit_claims_data, "Audits refute every claim that should fall, and none that should stand")
def _draw_audit_claims(ax: Axes, data: Data) -> None:
    """One row a mechanism: a bar up to what the audit proves, a mark at what is claimed."""
    names = [row["name"] for row in json.loads(AUDIT_RESULTS.read_text())]
    places = -np.arange(len(names))
    private = data["private"] == 1
    for chosen, colour, label in ((private, "C0", "audited, claim stands"), (~private, "C1", "audited, claim refuted")):
        ax.barh(places[chosen], data["audited"][chosen], height=0.6, color=colour, alpha=0.75, label=label)
    ax.plot(data["claimed"], places, "|", color="0.1", ms=12, mew=2, label="claimed")
    ax.set_yticks(places, names, fontsize="small")
    ax.grid(False, axis="y")
    ax.set(
        xlabel=r"$\epsilon$ at $\delta = 10^{-5}$",
        title=r"$\sigma = 2$, whole data in a step, confidence 99 %",
        xlim=(0, 6.2),
    )
    ax.legend(loc="upper right")


# --- How much of a true epsilon an audit of one run proves, where every gradient is seen


POWER_RESULTS = Path(__file__).parents[1] / "proofs" / "results" / "audits.jsonl"
"""Written by ``python -m dptheory.training.audits._power``."""
PUBLISHED = (4.0, 1.8)
"""Steinke, Nasr and Jagielski (2023): epsilon, and what their audit of one run proves of it with gradients, on CIFAR-10."""


def _audit_power_data() -> Data:
    """One entry a run whose claim is true, in the order of the file."""
    rows = [json.loads(line) for line in POWER_RESULTS.read_text(encoding="utf-8").splitlines()]
    true = [row for row in rows if row["claim"] == row["epsilon"]]
    return {key: np.array([float(row[key]) for row in true]) for key in ("epsilon", "proved", "rate", "canaries")}


@FIGURES.picture(
    _audit_power_data, "One run proves two fifths of epsilon 4 in the median of seeds, and seldom more than half"
)
def _draw_audit_power(ax: Axes, data: Data) -> None:
    """Proved against true epsilon, the two sampling rates side by side; half of it, and all, as lines."""
    most = data["canaries"].max()
    for place, rate in enumerate(sorted(set(data["rate"]))):
        chosen = (data["rate"] == rate) & (data["canaries"] == most)
        label = "whole data in a step" if rate == 1.0 else f"sampling rate {rate:g}"
        # side by side: the repetitions of one rate would cover those of the other
        beside = data["epsilon"][chosen] + (-0.1, 0.1)[place % 2]
        ax.plot(beside, data["proved"][chosen], "os"[place % 2], color=f"C{place}", label=label, alpha=0.5, mew=0, ms=5)
    ax.plot(*PUBLISHED, "x", color="0.2", ms=8, mew=2, label="Steinke et al. (2023)")
    ends = np.array([0.0, 8.5])
    ax.plot(ends, ends, color="0.6", lw=1, label="all of it")
    ax.plot(ends, ends / 2, color="0.6", lw=1, ls="--", label="half of it")
    ax.set(
        xlabel=r"true $\epsilon$ at $\delta = 10^{-5}$",
        ylabel=r"proved $\epsilon$, confidence 95 %",
        title=f"{most:g} canaries, every gradient seen",
        xlim=(0, 8.5),
        ylim=(0, 8.5),
    )
    ax.legend(loc="upper left")
