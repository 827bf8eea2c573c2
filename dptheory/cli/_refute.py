"""`dptheory refute`: the engine on a claim of the user's own."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dptheory.cli._common import console_for_output, parse_budget, parse_seed, user_errors
from dptheory.cli._tables import finite_or_none

if TYPE_CHECKING:
    from dptheory.checks import Refutation


def refute(
    file: Annotated[
        Path,
        typer.Argument(
            help="Python file that defines one or more dptheory.checks.Conjecture.", exists=True, dir_okay=False
        ),
    ],
    names: Annotated[list[str] | None, typer.Argument(help="Which of them; all where none is given.")] = None,
    budget: Annotated[str, typer.Option(help="Longest time for one of them: 30s, 10m, 1h.")] = "30s",
    seed: Annotated[str, typer.Option(help="A whole number >= 0, or 'random' for a fresh one.")] = "0",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Try to refute your own claims: a counterexample, or what error would have been seen.

    The file is run as any Python program. The exit code is 1 where a claim is refuted, 0 where none is, and 2 for a file that
    cannot be used. proofs/refute.md shows how such a file is written.
    """
    from dptheory.checks import refute_file

    with user_errors():
        seconds, number = parse_budget(budget), parse_seed(seed)
        outcomes = refute_file(file, names=names or (), budget=seconds, seed=number)
    if as_json:
        typer.echo(json.dumps({name: _plain(one) for name, one in outcomes.items()}, indent=2, allow_nan=False))
    else:
        console = console_for_output()
        for name, one in outcomes.items():
            verdict = "[red]REFUTED[/]" if one.refuted else "[green]not refuted[/]"
            console.print(f"[bold]{name}[/]: {verdict}", highlight=False)
            console.print(f"  {one.summary}", markup=False, highlight=False)
    if any(one.refuted for one in outcomes.values()):
        raise typer.Exit(1)


def _plain(one: "Refutation") -> dict[str, Any]:
    """As JSON: numbers and text stay, any other parameter is written as Python writes it."""
    values = {field.name: finite_or_none(getattr(one, field.name)) for field in dataclasses.fields(one)}
    plain = {name: finite_or_none(value) for name, value in one.parameters.items()}
    parameters = {
        name: value if isinstance(value, int | float | str) else repr(one.parameters[name])
        for name, value in plain.items()
    }
    return values | {"kind": one.kind.name, "parameters": parameters, "summary": one.summary}
