"""``python -m dptheory.training.benchmarks steps``: times and memory of private steps beside plain ones, as JSON.

``python -m dptheory.training.benchmarks practice``: ways to fine-tune a small BERT, and views of images.
``python -m dptheory.training.benchmarks calculators``: times of calculators at users' sizes.
``python -m dptheory.training.benchmarks independent``: bounds of epsilon beside values that share nothing with them.
"""

import json
import os
import platform
import warnings
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import track

if TYPE_CHECKING:
    from dptheory.training.benchmarks._steps import Part

Threads = Annotated[int, typer.Option(min=1, help="torch threads on the CPU")]
Rounds = Annotated[int, typer.Option(min=1, help="of every comparison")]

app = typer.Typer(add_completion=False, rich_markup_mode="rich")


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
    device: Annotated[str, typer.Option(help="of the steps: cpu or cuda")] = "cpu",
) -> None:
    """Compare private steps with plain ones, with Opacus's and JAX-Privacy's: time, memory, draws and an epoch.

    The file is written after every part. A run that was stopped goes on where it was; a file of other options, versions or machine
    is begun anew.
    """
    import torch

    from dptheory.training.benchmarks import _steps

    torch.set_num_threads(threads)
    options = _steps.Options(rounds=rounds, threads=threads, data=data, device=device)
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


@app.command()
def calculators(
    out: Annotated[Path, typer.Option(help="JSON file to write")] = Path("calculators.json"),
    rounds: Rounds = 15,
    only: Annotated[str, typer.Option(help="parts whose name contains this")] = "",
) -> None:
    """Compare calculators at users' sizes with a sort of a million numbers; files and interruptions are as for steps."""
    from dptheory.training.benchmarks import _calculators

    _measure(out, {"rounds": rounds}, _calculators.parts(rounds), only)


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
        **options,
        "device": device_name(torch.device(options.get("device", "cpu"))),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "versions": versions() | (more or {}),
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


if __name__ == "__main__":
    app()
