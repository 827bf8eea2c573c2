"""Runs that are measured on the way, and the result of a seed."""

import functools
import hashlib
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training import _argument_ranges
from dptheory.training._machine import device_name, versions
from dptheory.training.measure._measurements import MEASUREMENTS, View
from dptheory.training.measure._quantities import QUANTITIES
from dptheory.training.runs import Run, accuracy, metrics, one_step, prepare
from dptheory.training.studies import Instrument, code_that_counts, write_measured


def watched(run: Run, steps: int, look: Callable[[Run], None]) -> Run:
    """Train, and look before the first step and after every one; what looks must leave the run as it is.

    Args:
        run: prepared.
        steps: to make, >= 0; the budget may stop it earlier.
        look: is handed the run.

    Returns:
        The run.
    """
    look(run)
    while run.step < steps and not run.spent:
        one_step(run)
        if not run.spent:
            look(run)
    return run


def measured_arm(instrument: Instrument, arm: str, *, seed: int, device: torch.device) -> dict[str, Any]:
    """Train one arm up to its last measurement.

    Args:
        instrument: whose arm it is.
        arm: its name.
        seed: of weights, batches, masks and noise.
        device: where to train.

    Returns:
        A list of measurements per kind, each with its step; configuration, noise multiplier, and test accuracy at the end.

    Raises:
        ValueError: an arm, a seed or a configuration that is none; a measurement with options that it does not take.
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
    plain: dict[str, Any] = _plain(dict(result))
    for arm, table in plain["arms"].items():  # as it was given
        table.update({key: result["arms"][arm][key] for key in ("config", "noise_multiplier") if key in table})
    return plain


@functools.singledispatch
def _plain(value: Any) -> Any:
    return value


@_plain.register
def _(value: float) -> Any:
    return float(f"{value:.6g}") if math.isfinite(value) else None


@_plain.register(dict)
def _(value: dict[str, Any]) -> Any:
    return {key: _plain(one) for key, one in value.items()}


@_plain.register(list)
@_plain.register(tuple)
def _(value: Any) -> Any:
    return [_plain(one) for one in value]
