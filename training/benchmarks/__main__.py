"""``python -m dptheory.training.benchmarks``: times of mechanisms and calculators side by side, as a table and as JSON.

``python -m dptheory.training.benchmarks steps``: times and memory of private steps beside plain ones.
``python -m dptheory.training.benchmarks practice``: ways to fine-tune a small BERT, and views of images.
``python -m dptheory.training.benchmarks accountants``: times of accountants, and how far their answers are from the certified ones.
"""

import json
import os
import platform
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

if TYPE_CHECKING:
    from dptheory.training.benchmarks._steps import Part

Threads = Annotated[int, typer.Option(min=1, help="torch threads on the CPU")]
Rounds = Annotated[int, typer.Option(min=1, help="of every comparison")]

app = typer.Typer(add_completion=False, rich_markup_mode="rich")


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="JSON file to write")] = Path("benchmarks.json"),
    repetitions: Annotated[int, typer.Option(min=1, help="rounds of every comparison")] = 15,
    only: Annotated[str, typer.Option(help="cases whose function name contains this")] = "",
    threads: Threads = 1,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
) -> None:
    """Compare mechanisms with what they change, and calculators with a sort, in turns in one process."""
    if context.invoked_subcommand is not None:
        return
    import opacus
    import torch

    from dptheory.files import write_atomically
    from dptheory.training._machine import device_name
    from dptheory.training.benchmarks import _calculators, _mechanisms
    from dptheory.training.benchmarks._timing import compare
    from dptheory.training.runs import pick_device

    torch.set_num_threads(threads)
    warnings.filterwarnings("ignore", "Full backward hook is firing")
    chosen = pick_device(device)
    finish = torch.cuda.synchronize if chosen.type == "cuda" else lambda: None
    table = Table("comparison", "ms", "against ms", "ratio", "target", "met")
    timings = []
    for build in (*_mechanisms.CASES, *_calculators.CASES):
        if only in build.__name__:
            timing = compare(build(chosen), repetitions, finish)
            timings.append(timing)
            table.add_row(
                timing.name,
                f"{1e3 * timing.seconds:.1f}",
                f"{1e3 * timing.against_seconds:.1f}",
                f"{timing.ratio:.3f}",
                f"<= {timing.target:.3g}",
                "yes" if timing.met else "NO",
            )
    Console(width=120).print(table)
    versions = {"python": platform.python_version(), "torch": torch.__version__, "opacus": opacus.__version__}
    found = {"device": device_name(chosen), "threads": threads, "versions": versions}
    plain = [asdict(t) | {"met": t.met} for t in timings]
    write_atomically(out, json.dumps(found | {"comparisons": plain}, indent=2) + "\n")


@app.command()
def accountants(
    out: Annotated[Path, typer.Option(help="JSON file to write")] = Path("accountants.json"),
    count: Annotated[int, typer.Option(min=1, help="number of settings")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="draws the settings")] = 0,
    noise_count: Annotated[int, typer.Option(min=0, help="how many of them are asked for the noise")] = 15,
    limit: Annotated[float, typer.Option(min=0.1, help="seconds of CPU time that an answer may take")] = 10.0,
) -> None:
    """Compare accountants with the certified epsilon of drawn settings; needs dptheory\\[train,certified].

    The file is written after every setting. A run that was stopped goes on where it was; a file of other options, versions or
    machine is begun anew.
    """
    from dptheory.files import write_atomically
    from dptheory.privacy import referee
    from dptheory.training._machine import device_name
    from dptheory.training.benchmarks import _accountants
    from dptheory.training.runs import pick_device

    console = Console(width=120)
    head = {
        "device": device_name(pick_device("cpu")),
        "versions": {"python": platform.python_version(), **referee.versions()},
        "seed": seed,
        "noise_count": noise_count,
        "limit": limit,
    }
    found = _stopped(out, head)
    settings = [
        _accountants.Certified(**one | {"setting": referee.Setting(**one["setting"])})
        for one in found.get("settings", [])[:count]
    ]
    answers = [_accountants.Answer(**one) for one in found.get("answers", []) if one["number"] < count]
    measured = _accountants.measure(count, seed, noise_count, limit, tuple(settings))
    for one, said in track(measured, total=count, completed=len(settings), console=console):
        settings.append(one)
        answers += said
        write_atomically(out, _rows(head, settings=settings, answers=answers))
    table = Table(
        "tool", "asked for", "answered", "refused", "too small", "median s", "median excess", "largest excess"
    )
    for all_of in _accountants.summaries(answers, settings):
        counts = str(all_of.answered), str(all_of.refused), str(all_of.below)
        numbers = f"{all_of.seconds:.3f}", f"{all_of.excess:.1e}", f"{all_of.worst:.1e}"
        table.add_row(all_of.tool, all_of.quantity, *counts, *numbers)
    console.print(table)


@app.command()
def independent(
    out: Annotated[Path, typer.Option(help="file to write, a line of JSON a setting")] = Path("independent.jsonl"),
    count: Annotated[int, typer.Option(min=1, help="settings of each law")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="draws them")] = 11,
) -> None:
    """Hold bounds of epsilon against delta by a code that shares nothing with them; a run that was stopped goes on."""
    from dptheory.training._files import JsonLines
    from dptheory.training.benchmarks import _independent

    lines = JsonLines(out)
    missed = 0
    for one in _independent.checks(count, seed, len(lines.lines())):
        lines.add(json.loads(json.dumps(asdict(one)), parse_constant=lambda _: None), allow_nan=False)
        missed += one.finding == "missed"
    Console().print(f"{len(lines.lines())} settings, {missed} of the new ones missed")
    raise typer.Exit(missed > 0)


@app.command()
def steps(
    out: Annotated[Path, typer.Option(help="JSON file to write")] = Path("steps.json"),
    rounds: Rounds = 15,
    only: Annotated[
        str, typer.Option(help="parts whose name contains this, such as step/MLP, memory, draw or epoch")
    ] = "",
    threads: Threads = 2,
    data: Annotated[str, typer.Option(help="data set of the epochs")] = "fashion-mnist",
) -> None:
    """Compare private steps with plain ones, with Opacus's and JAX-Privacy's: time, memory, draws and an epoch.

    The file is written after every part. A run that was stopped goes on where it was; a file of other options, versions or machine
    is begun anew.
    """
    import torch

    from dptheory.training.benchmarks import _steps

    torch.set_num_threads(threads)
    options = _steps.Options(rounds=rounds, threads=threads, data=data)
    _measure(out, asdict(options), _steps.parts(options), only)


@app.command()
def practice(
    out: Annotated[Path, typer.Option(help="JSON file to write")] = Path("practice.json"),
    rounds: Rounds = 9,
    only: Annotated[str, typer.Option(help="parts whose name contains this, such as time/, memory/ or views")] = "",
    threads: Threads = 1,
) -> None:
    """Compare ways to fine-tune a small BERT, and views of images with further images: time and memory of a step.

    Needs dptheory\\[architectures] for BERT. Files and interruptions are as for steps.
    """
    import torch

    from dptheory.training.benchmarks import _practice

    torch.set_num_threads(threads)
    options = {"rounds": rounds, "threads": threads}
    _measure(out, options, _practice.parts(rounds, threads), only, more=_practice.versions())


def _measure(
    out: Path,
    options: dict[str, Any],
    parts: Iterable[tuple[str, "Part"]],
    only: str,
    more: dict[str, str] | None = None,
) -> None:
    """Write a file anew after every part that is not there; of other options, versions or another machine nothing stays."""
    import torch

    from dptheory.files import write_atomically
    from dptheory.training._machine import device_name, versions

    warnings.simplefilter("ignore")
    head = {
        "device": device_name(torch.device("cpu")),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "versions": versions() | (more or {}),
        **options,
    }
    head = json.loads(json.dumps(head))
    measured = _stopped(out, head).get("parts", {})
    wanted = [(name, work) for name, work in parts if only in name and name not in measured]
    for name, work in track(wanted, console=Console(stderr=True)):
        measured[name] = work()
        write_atomically(out, json.dumps(head | {"parts": measured}, indent=1) + "\n")


def _stopped(out: Path, head: dict[str, Any]) -> dict[str, Any]:
    """What a run with the same head has written, as far as it came."""
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    return found if {name: found.get(name) for name in head} == head else {}


def _rows(head: dict[str, Any], **lists: Sequence[Any]) -> str:
    """JSON with one line per item of the lists, which hold dataclasses."""
    lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    for name, items in lists.items():
        rows = ",\n".join(f"  {json.dumps(asdict(item))}" for item in items)
        lines.append(f" {json.dumps(name)}: [\n{rows}\n ]")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    app()
