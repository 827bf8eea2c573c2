"""`dptheory find` and `refute`: the search by words, and the engine on a claim of the user's own."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dptheory._rounding import for_json
from dptheory.cli._common import console_for_output, line_width, parse_budget, parse_seed, user_errors
from dptheory.cli._tables import match_lines

if TYPE_CHECKING:
    from dptheory.claims import SearchResult


def find(
    query: Annotated[list[str], typer.Argument(help="Words: a label of a paper, a symbol, a part of a name.")],
    max_matches: Annotated[int, typer.Option(help="The most to show.")] = 12,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Find claims, functions and arguments by words, with what to type next; exit with 1 where nothing fits."""
    from dptheory import claims

    with user_errors():
        found = claims.find(" ".join(query), max_matches=max_matches)
    if as_json:
        typer.echo(json.dumps(_plain(found), indent=2, ensure_ascii=False))
    else:
        _show(found)
    if not found.matches:
        raise typer.Exit(1)


def _show(found: "SearchResult") -> None:
    console = console_for_output()
    if not found.whole:
        near = f"; near: {', '.join(found.near)}" if found.near else ""
        but = "; with some of its words:" if found.matches else ""
        typer.echo(f"nothing fits {found.query!r}{near}{but}", err=True)
    for line in match_lines(found, line_width(console)):
        console.print(line, highlight=False, soft_wrap=True)
    if found.matches:
        console.print("Next, for the first:", highlight=False)
        for step in found.matches[0].next_steps:
            console.print(f"  {step}", highlight=False, markup=False, soft_wrap=True)
    if found.found > len(found.matches):
        console.print(f"{found.found} found; --max-matches {found.found} shows all", highlight=False)
    if not found.glossary:
        typer.echo("the glossary was not searched: it is part of the repository", err=True)


def _plain(found: "SearchResult") -> dict[str, Any]:
    matches = [
        dataclasses.asdict(one) | {"verdict": one.verdict.name if one.verdict else None} for one in found.matches
    ]
    return dataclasses.asdict(found) | {"matches": matches}


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
        typer.echo(json.dumps({name: _plain_case(one) for name, one in outcomes.items()}, indent=2, allow_nan=False))
    else:
        console = console_for_output()
        for name, one in outcomes.items():
            verdict = "[red]REFUTED[/]" if one.refuted else "[green]not refuted[/]"
            console.print(f"[bold]{name}[/]: {verdict}", highlight=False)
            console.print(f"  {one.summary}", markup=False, highlight=False, soft_wrap=True)
    if any(one.refuted for one in outcomes.values()):
        raise typer.Exit(1)


def _plain_case(one: "Refutation") -> dict[str, Any]:
    """As JSON: numbers and text stay, any other parameter is written as Python writes it."""
    values = {field.name: for_json(getattr(one, field.name)) for field in dataclasses.fields(one)}
    plain = {name: for_json(value) for name, value in one.parameters.items()}
    parameters = {
        name: value if isinstance(value, int | float | str) else repr(one.parameters[name])
        for name, value in plain.items()
    }
    return values | {"kind": one.kind.name, "parameters": parameters, "summary": one.summary}
