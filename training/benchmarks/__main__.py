"""``python -m training.benchmarks``: times of mechanisms and calculators side by side, as a table and as JSON."""

import json
import platform
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(add_completion=False, rich_markup_mode="rich")


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="JSON file to write")] = Path("benchmarks.json"),
    repetitions: Annotated[int, typer.Option(min=1, help="rounds of every comparison")] = 15,
    only: Annotated[str, typer.Option(help="cases whose function name contains this")] = "",
    threads: Annotated[int, typer.Option(min=1, help="torch threads on the CPU")] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
) -> None:
    """Compare mechanisms with what they change, and calculators with a sort, in turns in one process."""
    import opacus
    import torch

    from dptheory.files import write_atomically
    from training._machine import device_name
    from training.benchmarks import _calculators, _mechanisms
    from training.benchmarks._timing import compare
    from training.runs import pick_device

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


if __name__ == "__main__":
    app()
