"""`dptheory plan`: what theory alone can say of batch size, passes and noise at a budget."""

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from dptheory._rounding import rounded_up
from dptheory.cli._common import cell, console_for_output, user_errors

if TYPE_CHECKING:
    from dptheory.planning import Candidate

EXAMPLE = "Example: dptheory plan --num-examples 60000 --epsilon 3 --delta 1e-5 --max-epochs 20"
NOT_ENOUGH = (
    "This is not enough to train with: clip, learning rate and the best of these rows depend on the network. Pilots of your own "
    "network on public records decide: dptheory.training.plan."
)
_MOST_EPOCHS = 20.0


def make_plan(
    num_examples: Annotated[int, typer.Option(help="Number of training records; taken as public.")],
    epsilon: Annotated[float, typer.Option(help="The budget epsilon.")],
    delta: Annotated[float, typer.Option(help="The budget delta.")],
    max_epochs: Annotated[
        float | None,
        typer.Option(help=f"Most passes that can be afforded; {_MOST_EPOCHS:g}, or --epochs, if left out."),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Expected size of the Poisson batches, if it is fixed.")
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="Passes over the data, if they are fixed.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List batch sizes and passes with the least noise for a budget: what theory alone can say."""
    from dptheory import planning

    with user_errors():
        if max_epochs is None:
            max_epochs = _MOST_EPOCHS if epochs is None else epochs
        found = planning.candidates(
            num_examples=num_examples,
            epsilon=epsilon,
            delta=delta,
            max_epochs=max_epochs,
            batch_size=batch_size,
            epochs=epochs,
        )
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
