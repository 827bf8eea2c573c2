"""The command line: look into the ledger and run its checks."""

import enum
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from dptheory._progress import lines_on_stderr
from dptheory.cli import _find
from dptheory.cli._cluster import Scheduler
from dptheory.cli._common import console_for_output, line_width, parse_budget, parse_seed, user_errors
from dptheory.cli._joining import JoinedCommands
from dptheory.files import require_writable, write_atomically

if TYPE_CHECKING:
    from dptheory.claims import CheckReport, Claim

# Hypothesis, which the searches use, would otherwise leave its folder wherever the command is run.
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(Path(tempfile.gettempdir()) / "dptheory-hypothesis"))

app = typer.Typer(
    cls=JoinedCommands,
    help="Which claims about DP-SGD with pruned, masked and projected gradients to trust, and why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Format(enum.Enum):
    """How the ledger is printed."""

    TABLE = "table"
    MD = "md"
    JSON = "json"


Workers = Annotated[int, typer.Option(min=1, help="Processes to spread the checks over; the results are the same.")]
Budget = Annotated[str, typer.Option(help="Longest time for one check: 30s, 10m, 1h.")]
Seed = Annotated[str, typer.Option(help="A whole number >= 0, or 'random' for a fresh one.")]


@app.command("claims", epilog="Example: dptheory claims --paper gip --verdict false")
def list_claims(
    paper: Annotated[str | None, typer.Option(help="One of gip, rs, rf, lf, gep.")] = None,
    verdict: Annotated[
        str | None, typer.Option(help="HOLDS, LOOSE, CONDITIONAL, FALSE, NOT_SHOWN or EMPIRICAL.")
    ] = None,
    format: Annotated[
        Format, typer.Option(help="table for reading, md for proofs/README.md, json for programs.")
    ] = Format.TABLE,
) -> None:
    """List the ledger."""
    from dptheory import claims
    from dptheory.cli import _tables

    with user_errors():
        chosen = claims.all_claims(paper, verdict)
    if format is Format.TABLE:
        console = console_for_output()
        for line in _tables.claim_lines(chosen, line_width(console)):
            console.print(line, highlight=False, soft_wrap=True)
    elif format is Format.MD:
        typer.echo(claims.ledger_markdown(chosen), nl=False)
    else:
        typer.echo(json.dumps(_tables.claims_json(chosen), indent=2, ensure_ascii=False))


@app.command("claim", epilog="Example: dptheory claim gip.mse_t0")
def show_claim(
    id: Annotated[list[str], typer.Argument(help="Id of a claim, as listed by `dptheory claims`.")],
    latex: Annotated[bool, typer.Option(help="Formulas as LaTeX source, not as Unicode.")] = False,
    open: Annotated[bool, typer.Option(help="The proof page in the browser (extra docs).")] = False,
    cite: Annotated[bool, typer.Option(help="BibTeX of the paper and of this row, and nothing else.")] = False,
) -> None:
    """Show everything about one claim, its verdict first."""
    from dptheory import claims
    from dptheory.cli._claim_view import show_claim_on

    asked = " ".join(id)
    with user_errors(patterns="ID"), _or_find(asked):
        claim, *others = claims.select([asked])
    if others and (cite or open):
        with user_errors():
            raise ValueError(
                f"ID must be that of one of {', '.join(one.id for one in (claim, *others))}, got {asked!r}"
            )
    if others:
        return _show_parts(asked, [claim, *others])
    if cite:
        typer.echo(claims.bibtex(claim))
        return
    if open:
        from dptheory.cli._open import open_page

        with user_errors():
            open_page(claim)
        return
    with user_errors():  # where its page is missing, before anything is shown
        _ = claim.statement
    show_claim_on(console_for_output(), claim, latex or not _shows_formulas())


def _shows_formulas() -> bool:
    """Whether the output knows the letters of formulas; a pipe on Windows does not, and gets LaTeX."""
    try:
        "∫εℝ₀".encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _show_parts(asked: str, parts: Sequence["Claim"]) -> None:
    """What is judged in several rows: one line each."""
    from dptheory.cli import _tables

    console = console_for_output()
    console.print(f"{asked} stands in {len(parts)} rows of the ledger, each with a verdict:", highlight=False)
    for line in _tables.claim_lines(parts, line_width(console)):
        console.print(line, highlight=False, soft_wrap=True)
    for step in (f"claim {parts[0].id}", f"check {shlex.quote(asked)}"):
        console.print(f"  dptheory {step}", highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _or_find(asked: str) -> Iterator[None]:
    """What is not an id may be a label, or words to look for."""
    try:
        yield
    except ValueError as error:
        meant = _labelled(asked)
        hint = f"; did you mean {', '.join(meant)}?" if meant else ""
        told = str(error).partition("; near:")[0] if meant else error
        raise ValueError(f"{told}{hint}; or try: dptheory find {shlex.quote(asked)}") from None


def _labelled(asked: str) -> list[str]:
    """The first rows that have all of its words; none where there are no words in it."""
    from dptheory import claims

    try:
        found = claims.find(asked, max_matches=4)
    except ValueError:
        return []
    return [one.name for one in found.matches if one.kind == "claim"] if found.whole else []


@app.command("check", epilog="Example: dptheory check gip.mse_t0 'gip.thm*' --budget 30s --seed random")
def check_claims(
    patterns: Annotated[list[str] | None, typer.Argument(help="Ids or globs; all claims by default.")] = None,
    budget: Budget = "30s",
    seed: Seed = "0",
    workers: Workers = 1,
    scheduler: Scheduler = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the evidence to this file.")] = None,
) -> None:
    """Run the checks of claims. Exits with code 1 if one fails."""
    from dptheory import claims
    from dptheory.cli import _tables
    from dptheory.cli._checking import Bar, executor_of

    with user_errors():
        seconds, number = parse_budget(budget), parse_seed(seed)
        if json_file is not None and json_file.is_dir():
            raise ValueError(f"--json must name a file, got the folder {str(json_file)!r}")
        if json_file is not None:
            require_writable(json_file)
        with lines_on_stderr(), executor_of(workers, scheduler) as executor, Bar() as bar:
            report = claims.check_claims(patterns or (), budget=seconds, seed=number, executor=executor, watcher=bar)
    _show_report(report)
    if json_file is not None:
        with user_errors():
            text = json.dumps(_tables.evidence_json(report.rows), indent=2, allow_nan=False)
            write_atomically(json_file, text + "\n")
    if not report.passed:
        raise typer.Exit(1)


def _show_report(report: "CheckReport") -> None:
    from dptheory.cli import _tables
    from dptheory.cli._claim_view import print_wrapped

    console = console_for_output()
    for indent, line in _tables.evidence_lines(report):
        print_wrapped(console, line, indent)
    for id, one in report.failed:
        console.print(f"FAIL {id}, {one.check}: {one.detail}", markup=False, highlight=False, soft_wrap=True)
    unchecked = [one.claim for one in report.checked if not one.claim.checks]
    told = map(_unchecked, unchecked) if len(unchecked) <= _TOLD_ONE_BY_ONE else [_all_unchecked(unchecked)]
    for sentence in told if unchecked else ():
        print_wrapped(console, Text(sentence))
    if not report.rows:
        return
    passed = len(report.rows) - len(report.failed)
    console.print(f"{passed} passed, {len(report.failed)} failed", highlight=False)
    if report.coarsest is not None:
        id, one = report.coarsest
        print_wrapped(
            console, Text(f"relative tolerance of the coarsest check: {one.detectable:.2g} ({id}, {one.check})")
        )


_TOLD_ONE_BY_ONE = 5
"""Measured claims; of more than these only the names are given."""


def _unchecked(claim: "Claim") -> str:
    """Why nothing was checked, and where the answer stands."""
    answer = f"our own runs say: {claim.state}. What they are and what they found: dptheory claim {claim.id}"
    return f"{claim.id} ({claim.source.label}) is what the paper measured, so that no check can decide it; {answer}"


def _all_unchecked(measured: Sequence["Claim"]) -> str:
    names = ", ".join(claim.id for claim in measured)
    return f"measured by the papers, so that no check can decide them but our own runs (dptheory claim ID): {names}"


@app.command("pages", epilog="Example: dptheory pages proofs")
def write_pages(
    directory: Annotated[Path, typer.Argument(help="Folder of the proof pages.", exists=True, file_okay=False)],
) -> None:
    """Regenerate the ledger, the page of our own results and the tables of the errata."""
    from dptheory import claims

    with user_errors():
        claims.write_pages(directory)


app.command("find", epilog="Example: dptheory find GIP Proposition 2")(_find.find)
app.command("refute", epilog="Example: dptheory refute proofs/refute/index_pruning.py printed")(_find.refute)
