"""`dptheory privacy compare`: other people's accountants beside our bounds."""

import json
import math
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from dptheory._rounding import rounded_down, rounded_up
from dptheory.cli._common import cell, console_for_output, parse_seed, say, user_errors
from dptheory.cli._privacy_options import of_epochs
from dptheory.files import require_writable, write_atomically

if TYPE_CHECKING:
    from dptheory.privacy.referee import Answer, Comparison


def compare(
    noise_multiplier: Annotated[float | None, typer.Option(help="Noise multiplier of a run.")] = None,
    sampling_rate: Annotated[float | None, typer.Option(help="Its sampling rate, of Poisson samples.")] = None,
    steps: Annotated[int | None, typer.Option(help="Its number of steps.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="In place of the rate: mean size of a batch.")] = None,
    train_size: Annotated[int | None, typer.Option(help="Number of training records, with --batch-size.")] = None,
    epochs: Annotated[float | None, typer.Option(help="In place of the steps: passes over the records.")] = None,
    delta: Annotated[float | None, typer.Option(help="Its delta.")] = None,
    search: Annotated[int | None, typer.Option(help="Draw so many runs in place of one.", min=1)] = None,
    law: Annotated[str, typer.Option(help="What they are drawn from: whole, core or rare.")] = "whole",
    seed: Annotated[str, typer.Option(help="Draws them: a whole number >= 0, or 'random' for a fresh one.")] = "0",
    tool: Annotated[list[str] | None, typer.Option(help="Ask this accountant alone; repeat it.")] = None,
    limit: Annotated[float, typer.Option(help="Seconds of CPU time that one answer may take.")] = 60.0,
    out: Annotated[Path | None, typer.Option(help="Write every answer to this file, a line of JSON a run.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the search whose answers are in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Ask every accountant that is installed, and say which are valid, how loose, and which say too little.

    The exit code is 1 where one that promises an upper bound is below ours from below, or one that promises a lower bound is above
    ours from above.
    """
    from dptheory.privacy import referee

    run = {"sampling_rate": sampling_rate, "steps": steps}
    passes = {"batch_size": batch_size, "train_size": train_size, "epochs": epochs}
    with user_errors(tools="--tool", count="--search", known="--out"):
        setting = {"noise_multiplier": noise_multiplier, "delta": delta, **run} | of_epochs(run | passes)
        for name, value in setting.items():
            if (value is None) == (search is None):
                raise ValueError(
                    f"{name} must be {'given' if search is None else 'left out with --search'}, got {value!r}"
                )
        if out is not None:
            require_writable(out)
        asked = tool or None
        if resume and (search is None or out is None):
            raise ValueError(f"{'search' if search is None else 'out'} must be given with --resume")
        found = _read(out) if resume and out is not None and out.exists() else []
        for one in (
            referee.search(count=search, seed=parse_seed(seed), tools=asked, limit=limit, law=law, known=found[:])
            if search is not None
            else [referee.compare(**setting, tools=asked, limit=limit)]
        ):
            found.append(one)
            if out is not None:  # what is known stays, whatever ends the search
                _write(out, found)
    if as_json:
        typer.echo("\n".join(map(_line, found)))
    elif search is None:
        _show(found[0])
        if batch_size is not None and train_size is not None and train_size % batch_size:
            batches = math.ceil(train_size / batch_size)
            say(
                f"Opacus's engine draws and counts 1/{batches} in place of {batch_size}/{train_size}, one over the batches of its "
                f"loader: --sampling-rate {1 / batches:.10g} with --steps asks what it says."
            )
    else:
        _show_search(found)
    wrong = (referee.Finding.TOO_SMALL, referee.Finding.LOWER_TOO_LARGE)
    if any(answer.finding in wrong for one in found for answer in one.answers):
        raise typer.Exit(1)


def _line(one: "Comparison") -> str:
    return json.dumps(asdict(one)).replace("Infinity", "null")


def _read(out: Path) -> "list[Comparison]":
    """What a search that was stopped has written; a line that was cut off is none."""
    whole = [line for line in out.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]
    try:
        found = [_comparison(json.loads(line)) for line in whole]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"--out must be a file of a search, got {str(out)!r}, which is another one") from None
    write_atomically(out, "".join(whole))
    return found


def _comparison(plain: dict[str, Any]) -> "Comparison":
    from dptheory.privacy import referee

    plain["upper"] = math.inf if plain["upper"] is None else plain["upper"]
    answers = (referee.Answer(**one | {"finding": referee.Finding(one["finding"])}) for one in plain["answers"])
    return referee.Comparison(**plain | {"setting": referee.Setting(**plain["setting"]), "answers": tuple(answers)})


def _write(out: Path, found: "list[Comparison]") -> None:
    """Anew with the first, a line more with each further one."""
    with out.open("w" if len(found) == 1 else "a", encoding="utf-8") as file:
        file.write(_line(found[-1]) + "\n")


def _show(one: "Comparison") -> None:
    from dptheory.privacy.referee import Finding

    table = Table("accountant", "finding", "upper bound", "relative error", "seconds", "why not")
    for answer in one.answers:
        off = "" if answer.off is None else f"{answer.off:+.1e}"
        # an estimate promises nothing, so that it is no finding; who reports it has to know all the same
        low = ", too low" if answer.finding is Finding.ESTIMATE and (answer.off or 0.0) < -1e-9 else ""
        table.add_row(
            answer.tool, f"{answer.finding}{low}", cell(answer.upper), off, f"{answer.seconds:.2f}", answer.refused
        )
    console = console_for_output()
    how = "in ball arithmetic" if one.certified else "in doubles"
    lower, upper = rounded_down(one.lower, 10), rounded_up(one.upper, 10)
    console.print(f"Epsilon is from {lower} to {upper} ({how}).", highlight=False)
    if not any(answer.refused for answer in one.answers):
        table.columns.pop()
    console.print(table)
    run = one.setting
    asked = f"rate {run.sampling_rate:.10g}, {run.steps} steps, noise multiplier {run.noise_multiplier:g}, delta {run.delta:g}"
    say(f"All are asked for Poisson batches at {asked}, neighbours add-remove.")


def _show_search(found: "list[Comparison]") -> None:
    answers: defaultdict[str, list[tuple[Answer, Comparison]]] = defaultdict(list)
    for one in found:
        for answer in one.answers:
            answers[answer.tool].append((answer, one))
    table = Table("accountant", "runs", "failed", "too small", "worst", "where", "median seconds", "most seconds")
    for name, given in answers.items():
        known = [(answer, one) for answer, one in given if answer.off is not None]
        # estimates promise nothing; how often they are too small is said all the same
        below = [(answer.off, one.setting) for answer, one in known if answer.off is not None and answer.off < -1e-9]
        worst = min(below, key=lambda pair: pair[0], default=None)
        seconds = [answer.seconds for answer, _ in given]
        table.add_row(
            name,
            str(len(given)),
            str(len(given) - len(known)),
            str(len(below)),
            "" if worst is None else f"{worst[0]:+.1e}",
            "" if worst is None else ", ".join(f"{value:.6g}" for value in asdict(worst[1]).values()),
            f"{median(seconds):.3f}",
            f"{max(seconds):.2f}",
        )
    console_for_output().print(table)
