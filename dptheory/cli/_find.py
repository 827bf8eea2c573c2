"""`dptheory find`: claims, functions and arguments by words."""

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dptheory.cli._common import console_for_output, user_errors
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
    for line in match_lines(found, console.width):
        console.print(line, highlight=False, no_wrap=True)
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
