"""Runs that are measured on the way: the result of a seed, and the quantities that it has."""

import functools
import hashlib
import inspect
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training import _argument_ranges
from dptheory.training._machine import device_name, versions
from dptheory.training.measure._measurements import MEASUREMENTS, View
from dptheory.training.runs import Run, accuracy, metrics, one_step, prepare
from dptheory.training.studies import Instrument, code_that_counts, write_measured

Arms = Mapping[str, Mapping[str, Any]]


def _rows(arms: Arms, arm: str, kind: str) -> list[Mapping[str, Any]]:
    return list(arms[arm]["measured"][kind])


# --- random freeze and sparsification ---------------------------------------------------------------------------------


def _differences(arms: Arms, key: str) -> Iterator[list[float]]:
    """Dense minus frozen, over the rates, relative to the dense value, at every step."""
    for row in _rows(arms, "dp-sgd", "errors"):
        dense, *others = row[key]
        yield [(dense - other) / dense for other in others]


def signal_loss_rise(arms: Arms) -> float:
    """Greatest step up of (dense minus frozen) / dense signal loss from one rate to the next; the paper's falls."""
    return max(b - a for values in _differences(arms, "signal_loss") for a, b in pairwise(values))


def least_mse_gain(arms: Arms) -> float:
    """Least (dense minus frozen) / dense MSE over rates and steps; the paper's is positive."""
    return min(min(values) for values in _differences(arms, "mse"))


def _quantile_ratio(arms: Arms, place: int) -> list[float]:
    """Decimal logarithm of a quantile of the norms with random freeze over that without, after the first epoch."""
    frozen, dense = (_rows(arms, arm, "norms")[1:] for arm in ("freeze", "dp-sgd"))
    return [
        math.log10(max(a["quantiles"][place], 1e-30) / max(b["quantiles"][place], 1e-30))
        for a, b in zip(frozen, dense, strict=True)
    ]


def large_norms(arms: Arms) -> float:
    """Greatest log10 ratio of the 95 % quantiles, random freeze over dense: negative where large norms are fewer."""
    return max(_quantile_ratio(arms, 5))


def small_norms(arms: Arms) -> float:
    """Least log10 ratio of the 5 % quantiles: positive where small norms are fewer."""
    return min(_quantile_ratio(arms, 1))


def first_epoch_distance(arms: Arms) -> float:
    """Total variation distance of the two histograms of norms after the first epoch."""
    one, other = (_rows(arms, arm, "norms")[0]["histogram"] for arm in ("freeze", "dp-sgd"))
    return float(sum(abs(a - b) for a, b in zip(one, other, strict=True)) / (2 * sum(one)))


def _overlap(arms: Arms, arm: str) -> float:
    """Common area of the histograms of how often an entry was frozen, of an arm and of random freeze."""
    one, other = (_rows(arms, name, "frozen")[-1]["times"] for name in (arm, "freeze"))
    return float(sum(min(a, b) for a, b in zip(one, other, strict=True)) / sum(one))


def ranked_overlap(arms: Arms) -> float:
    """Overlap of ranked with random freeze."""
    return _overlap(arms, "ranked")


def noiseless_gap(arms: Arms) -> float:
    """By how much more ranked freeze overlaps with random freeze than ranking without noise does."""
    return _overlap(arms, "ranked") - _overlap(arms, "ranked-without-noise")


def inversion_rise(arms: Arms) -> float:
    """Least relative rise of the reconstruction error from one rate to the next, the noisy gradient without a mask first."""
    errors = _rows(arms, "untrained", "inversion")[0]["mse"][1:]
    return float(min(b / a - 1 for a, b in pairwise(errors)))


# --- layer freezing ---------------------------------------------------------------------------------------------------


def _trained_changes(arms: Arms, arm: str, key: str, where: str = "as_it_is") -> list[float]:
    """log of the median after the freezing over that before, of every layer that stays trained."""
    rows = _rows(arms, arm, "signals")
    frozen = [value is None for value in _rows(arms, "freezing", "signals")[-1]["as_it_is"][key]]
    when = _when_frozen(arms)
    changes = []
    for number, out in enumerate(frozen):
        if not out:
            before = [row[where][key][number] for row in rows if row["step"] <= when]
            after = [row[where][key][number] for row in rows if row["step"] > when]
            changes.append(math.log(statistics.median(after) / statistics.median(before)))
    return changes


def _when_frozen(arms: Arms) -> int:
    """The last step at which the first layer was measured as trained."""
    rows = _rows(arms, "freezing", "signals")
    return max(int(row["step"]) for row in rows if row["as_it_is"]["signal"][0] is not None)


def _beside_dense(arms: Arms, key: str) -> list[float]:
    """Change over the freezing less that of the run without it at the same steps."""
    pairs = zip(_trained_changes(arms, "freezing", key), _trained_changes(arms, "dp-sgd", key), strict=True)
    return [with_freezing - without for with_freezing, without in pairs]


_CHANGES: Mapping[str, Callable[[list[float]], float]] = {"signal": min, "clipping_angle": max, "noise_angle": max}
"""What the papers say that freezing raises, by its least change over the trained layers; what it lowers, by the greatest."""


def _change(key: str, arms: Arms) -> float:
    """Of log of |s^B|, gamma^UB or gamma^BP of a trained layer, after the freezing against before."""
    return _CHANGES[key](_trained_changes(arms, "freezing", key))


def _change_beside_dense(key: str, arms: Arms) -> float:
    """The same less the change of the run without freezing."""
    return _CHANGES[key](_beside_dense(arms, key))


def noise_over_clipping(arms: Arms) -> float:
    """Least median over the steps of gamma^BP - gamma^UB, over the layers, in radians."""
    rows = [row["as_it_is"] for row in _rows(arms, "freezing", "signals")]
    gaps = []
    for number in range(len(rows[0]["signal"])):
        pairs = [(row["noise_angle"][number], row["clipping_angle"][number]) for row in rows]
        gaps.append(statistics.median(a - b for a, b in pairs if a is not None and b is not None))
    return float(min(gaps))


def alignment_gap(arms: Arms) -> float:
    """Greatest, over the clips, of the mean angle of the clipped sum less that of the unclipped one, in radians.

    Steps at which either is empty are left out, and clips that have no other.
    """
    gaps = []
    for arm in arms:
        rows = [(row["clipped_angle"], row["unclipped_angle"]) for row in _rows(arms, arm, "alignment")]
        both = [a - b for a, b in rows if a is not None and b is not None]
        if both:
            gaps.append(statistics.fmean(both))
    return max(gaps)


def _status(arms: Arms) -> list[Mapping[str, Any]]:
    return _rows(arms, "dp-sgd", "status")


def most_changed(arms: Arms) -> float:
    """Greatest share of the examples whose status freezing changes."""
    return float(max(row["changed"] / row["examples"] for row in _status(arms)))


def greatest_turn(arms: Arms) -> float:
    """Greatest angle by which freezing turns the sum of the clipped or of the unclipped gradients, in radians."""
    turns = ("clipped_turn", "unclipped_turn")
    return float(max(row[key] for row in _status(arms) for key in turns if row[key] is not None))


# --- index pruning ----------------------------------------------------------------------------------------------------


def _cosines(arms: Arms, arm: str) -> list[float]:
    return [row["cosine"] for row in _rows(arms, arm, "cosines")]


def pruned_over_plain(arms: Arms) -> float:
    """Mean cosine over the steps of GIP less DP-SGD's."""
    return statistics.fmean(_cosines(arms, "index-pruning")) - statistics.fmean(_cosines(arms, "dp-sgd"))


def plain_over_random(arms: Arms) -> float:
    """Mean cosine over the steps of DP-SGD less random-k's."""
    return statistics.fmean(_cosines(arms, "dp-sgd")) - statistics.fmean(_cosines(arms, "random-k"))


def cosine_change(arms: Arms) -> float:
    """Greatest change of the cosine from the first to the last step, over the methods."""
    return max(values[-1] - values[0] for values in (_cosines(arms, arm) for arm in arms))


def entries_distance(arms: Arms) -> float:
    """Greatest Kolmogorov distance of the entries of the batch gradient from a Gaussian law of their mean square."""
    return float(max(row["ks_distance"] for row in _rows(arms, "dp-sgd", "entries")))


# --- gradient embedding -----------------------------------------------------------------------------------------------


def greatest_stable_rank(arms: Arms) -> float:
    """Over steps and layers."""
    return float(max(max(row["rank"].values()) for row in _rows(arms, "gep", "spectrum")))


def _errors(arms: Arms, source: str) -> list[list[float]]:
    return [row["error"][source] for row in _rows(arms, "gep", "projection")]


def projection_rise(arms: Arms) -> float:
    """Greatest step up of the relative projection error from one k to the next, over steps and auxiliary data."""
    return max(b - a for source in ("same", "other") for values in _errors(arms, source) for a, b in pairwise(values))


def benefit_rise(arms: Arms) -> float:
    """Greatest growth of the mean benefit per basis vector from one k to the next, over the auxiliary data."""
    dims = _rows(arms, "gep", "projection")[0]["dims"]
    growth = []
    for source in ("same", "other"):
        mean = [statistics.fmean(values) for values in zip(*_errors(arms, source), strict=True)]
        benefit = [(a - b) / (k - j) for (a, b), (j, k) in zip(pairwise(mean), pairwise(dims), strict=True)]
        growth += [b - a for a, b in pairwise(benefit)]
    return float(max(growth))


def other_over_same(arms: Arms) -> float:
    """Mean relative projection error with random labels and other images, over that with test images and their labels."""
    other, same = (statistics.fmean(x for values in _errors(arms, s) for x in values) for s in ("other", "same"))
    return other / same


def _over_noise(arms: Arms, arm: str) -> float:
    row = _rows(arms, arm, "noise")[0]
    return float(row["gradient_norm"] / row["noise_norm"])


_SIZES = ("small-cnn", "resnet20", "wrn-16-4")
"""Arms of the instrument of noise, by rising dimension."""


def noise_over_gradient(arms: Arms) -> float:
    """Least norm of the noise over that of the gradient, over networks of growing size."""
    return min(1 / _over_noise(arms, arm) for arm in _SIZES)


def noise_growth(arms: Arms) -> float:
    """Least factor by which that ratio grows from a network to the next larger."""
    return min(_over_noise(arms, a) / _over_noise(arms, b) for a, b in pairwise(_SIZES))


def wide_gradient_over_noise(arms: Arms) -> float:
    """Norm of the gradient over that of the noise in GIP's setting of WRN-16-4."""
    return _over_noise(arms, "wrn-16-4-of-gip")


def random_projection(arms: Arms) -> float:
    """Least relative projection error of a Gaussian basis."""
    return min(min(values) for values in _errors(arms, "random"))


def residual_rank(arms: Arms) -> float:
    """Least stable rank of the residuals over that of the gradients."""
    return float(min(row["residual"] / row["original"] for row in _rows(arms, "gep", "residuals")))


QUANTITIES: dict[str, Callable[[Arms], float]] = {
    name: one
    for name, one in inspect.getmembers(sys.modules[__name__], inspect.isfunction)
    if not name.startswith("_") and one.__module__ == __name__
} | {
    f"{key}_change{kind}": functools.partial(change, key)
    for kind, change in (("", _change), ("_beside_dense", _change_beside_dense))
    for key in _CHANGES
}
"""The functions above by name; an instrument says which of them it measures."""


def watched(run: Run, steps: int, look: Callable[[Run], None]) -> Run:
    """Train, and look before the first step and after every one; what looks must leave the run as it is."""
    look(run)
    while run.step < steps and not run.spent:
        one_step(run)
        if not run.spent:
            look(run)
    return run


def measured_arm(instrument: Instrument, arm: str, *, seed: int, device: torch.device) -> dict[str, Any]:
    """Train one arm up to its last measurement.

    Returns:
        A list of measurements per kind, each with its step; configuration, noise multiplier, and test accuracy at the end.
    """
    _validate.choice("arm", arm, tuple(instrument.arms))
    run = prepare(instrument.config(arm, seed=_argument_ranges.seed("seed", seed)), device)
    found: dict[str, list[dict[str, Any]]] = {one.kind: [] for one in instrument.measurings if arm in one.arms}
    masks: list[torch.Tensor] = []

    def look(run: Run) -> None:
        due = [one for one in instrument.measurings if arm in one.arms and run.step in one.steps]
        if due:
            view = View(run, instrument.examples, _generator(seed, arm, run.step), masks=masks)
            for one in due:
                found[one.kind].append({"step": run.step, **MEASUREMENTS[one.kind](view, **one.options)})

    watched(run, instrument.last_step(arm), look)
    told = metrics(run)
    return {
        "config": told["config"],
        "noise_multiplier": told["noise_multiplier"],
        "epsilon": told["privacy"]["epsilon"],
        "steps_per_epoch": len(run.train) / run.config.batch_size,
        "test_accuracy": accuracy(run.model, run.test, device),
        "measured": found,
    }


def _generator(seed: int, arm: str, step: int) -> torch.Generator:
    digest = hashlib.sha256(f"{seed} {arm} {step}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big"))


def measure_instrument(
    instrument: Instrument, *, seed: int, folder: Path, device: torch.device, allow_dirty: bool = False
) -> Path:
    """Train all arms of an instrument with one seed, and write what was measured.

    Args:
        instrument: of :func:`dptheory.training.studies.read_instrument`.
        seed: one of its seeds.
        folder: of the results.
        device: where to train.
        allow_dirty: also with code that differs from its commit; such a result decides nothing.

    Returns:
        Path of the results, which have this one at the end; it stands for an earlier one of this seed.

    Raises:
        ValueError: another seed, code that differs from its commit, or a configuration that does not fit together.
        OSError: data files are missing, or the file cannot be written.
    """
    if seed not in instrument.seeds:
        raise ArgumentError("seed", f"be one of {instrument.seeds}", seed)
    began, code = time.process_time(), code_that_counts(allow_dirty=allow_dirty)
    arms = {arm: measured_arm(instrument, arm, seed=seed, device=device) for arm in instrument.arms}
    result = {
        "instrument": instrument.name,
        "seed": seed,
        "examples": instrument.examples,
        "code": code,
        "versions": versions(),
        "device": device_name(device),
        "quantities": {name: QUANTITIES[name](arms) for name in instrument.quantities},
        "arms": arms,
    }
    return write_measured(folder, rounded(result | {"cpu_seconds": round(time.process_time() - began)}))


def rounded(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result with six digits but for its configurations, and None for what is no number."""
    plain: dict[str, Any] = json.loads(
        json.dumps(result), parse_float=lambda text: float(f"{float(text):.6g}"), parse_constant=lambda _: None
    )
    for arm, table in plain["arms"].items():  # as it was given
        table.update({key: result["arms"][arm][key] for key in ("config", "noise_multiplier") if key in table})
    return plain
