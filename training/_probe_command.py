"""``dptheory probe``: gradients of a short run against the theory."""

import time
from pathlib import Path
from typing import Annotated

import typer

from dptheory.cli._common import console_for_output, numbers, user_errors


def probe(
    data: Annotated[str, typer.Option(help="excerpt, fashion-mnist or mnist")] = "excerpt",
    steps: Annotated[int, typer.Option(help="DP-SGD updates")] = 120,
    record: Annotated[
        str | None, typer.Option(help="steps whose gradient is kept, as 0,50,199; default: five, evenly spread")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="mean size of the Poisson batches")] = 250,
    noise_multiplier: Annotated[float, typer.Option(help="sigma")] = 1.0,
    max_grad_norm: Annotated[float, typer.Option(help="clip C")] = 1.0,
    learning_rate: Annotated[float, typer.Option(help="of plain SGD")] = 2.0,
    keep_shares: Annotated[str, typer.Option(help="shares of entries kept")] = "0.001,0.01,0.05,0.1,0.25,0.5,0.75",
    draws: Annotated[int, typer.Option(help="noise vectors, masks and reference vectors per gradient")] = 100,
    seed: Annotated[int, typer.Option(help="fixes everything on the CPU")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    out: Annotated[Path, typer.Option(help="folder for probe.json, gradients.npz and probe.png")] = Path(
        "probe-results"
    ),
) -> None:
    """Train a small CNN with DP-SGD and compare predicted with measured on its clipped batch gradients.

    Example: [bold]dptheory probe --data excerpt --steps 40 --record 0,20,39 --out probe-results[/bold]
    """
    # torch, Opacus and matplotlib take seconds to import: not for --help
    import torch

    from dptheory.training._machine import device_name
    from dptheory.training.probe import (
        fit_table,
        row_table,
        run_probe,
        spread_steps,
        write_figure,
        write_gradients,
        write_json,
    )
    from dptheory.training.runs import DpSgdSettings, pick_device

    started = time.perf_counter()
    torch.set_num_threads(1)  # the order of sums, and so the last digits, would depend on the number of threads
    with user_errors(wanted="device"):
        chosen = pick_device(device)
        settings = DpSgdSettings(
            steps=steps,
            batch_size=batch_size,
            noise_multiplier=noise_multiplier,
            max_grad_norm=max_grad_norm,
            learning_rate=learning_rate,
            seed=seed,
        )
        recorded = spread_steps(steps) if record is None else numbers("record", record, int)
        result = run_probe(
            data=data,
            training=settings,
            record=recorded,
            keep_shares=numbers("keep_shares", keep_shares, float),
            draws=draws,
            device=chosen,
        )
        write_json(result, chosen, out / "probe.json")
        write_gradients(result, out / "gradients.npz")
        write_figure(result, out / "probe.png")
        console = console_for_output()
        console.print(fit_table(result))
        console.print(row_table([shown for shown in result.records if shown.measurement][-1]))
        console.print(
            f"test accuracy {result.accuracy:.1%} on {result.test_images:,} images; "
            f"{time.perf_counter() - started:.0f} s on {device_name(chosen)}; "
            f"written to {out}: probe.json, gradients.npz, probe.png",
            markup=False,
            soft_wrap=True,
        )
