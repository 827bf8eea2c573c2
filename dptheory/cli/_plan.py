"""The table of `dptheory plan` without a network: what theory alone can say of batch size, passes and noise at a budget."""

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from dptheory._rounding import rounded_up
from dptheory.cli._common import cell, console_for_output

if TYPE_CHECKING:
    from dptheory.planning import Candidate

NOT_ENOUGH = (
    "This is not enough to train with: clip, learning rate and the best of these rows depend on the network. Pilots of your own "
    "network on public records decide: dptheory plan mynetwork.py:build --public public.npz, or dptheory.training.plan."
)


def show_candidates(*, as_json: bool, **arguments: Any) -> None:
    """Print batch sizes and passes with the least noise for a budget."""
    from dptheory import planning

    found = planning.candidates(**arguments)
    if as_json:
        rows = [dataclasses.asdict(one) | {"noise_per_step": one.noise_per_step} for one in found]
        typer.echo(json.dumps(rows, indent=2, allow_nan=False))
        return
    _show(found)


def _show(found: "tuple[Candidate, ...]") -> None:
    table = Table(
        "batch size",
        "epochs",
        "steps",
        "sampling rate",
        "noise multiplier",
        "noise per step",
        title="Least noise for the budget",
    )
    for one in found:
        table.add_row(
            str(one.batch_size),
            cell(one.epochs),
            str(one.steps),
            cell(one.sampling_rate),
            rounded_up(one.noise_multiplier, 5),  # less noise than the least would break the budget
            f"{one.noise_per_step:.3g}",
        )
    console = console_for_output()
    console.print(table)
    console.print(
        "Noise per step: on the mean gradient of a batch, per entry, in clips.", markup=False, highlight=False
    )
    console.print(NOT_ENOUGH, markup=False, highlight=False)
