"""``dptheory validate`` and ``instrument``: what is measured on gradients."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dptheory._progress import lines_on_stderr
from dptheory.cli._common import console_for_output, numbers, user_errors

if TYPE_CHECKING:
    import torch

OPTIONS = {"wanted": "device", "training.steps": "steps"}  # arguments that have another name as an option

Data = Annotated[str, typer.Option(help="excerpt, fashion-mnist or mnist")]
Steps = Annotated[int, typer.Option(help="DP-SGD updates")]
BatchSize = Annotated[int, typer.Option(help="mean size of the Poisson batches")]
NoiseMultiplier = Annotated[float, typer.Option(help="sigma")]
MaxGradNorm = Annotated[float, typer.Option(help="clip C")]
LearningRate = Annotated[float, typer.Option(help="of plain SGD")]
Seed = Annotated[int, typer.Option(help="fixes everything on the CPU")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda")]


def validate(
    data: Data = "excerpt",
    steps: Steps = 60,
    batch_size: BatchSize = 250,
    noise_multiplier: NoiseMultiplier = 1.0,
    max_grad_norm: MaxGradNorm = 1.0,
    learning_rate: LearningRate = 2.0,
    drop_rate: Annotated[float, typer.Option(help="share of entries that random freeze drops")] = 0.5,
    keep_shares: Annotated[str, typer.Option(help="shares of entries that pruning and ranking keep")] = "0.01,0.1,0.5",
    subspace_dims: Annotated[str, typer.Option(help="dimensions of GEP's subspace")] = "10,50,100",
    pool: Annotated[int, typer.Option(help="examples whose gradients are the population of the measurements")] = 300,
    anchors: Annotated[int, typer.Option(help="test images with random labels, for GEP's subspace")] = 256,
    window: Annotated[int, typer.Option(help="steps summed before entries are ranked")] = 10,
    draws: Annotated[int, typer.Option(help="batches, masks and noise vectors per row")] = 50,
    seed: Seed = 0,
    device: Device = "auto",
    out: Annotated[Path, typer.Option(help="folder for validate.json and validate.png")] = Path("validate-results"),
) -> None:
    """Train a small CNN with DP-SGD, and compare predictions with measurements at the start, in the middle and at the end.

    Exits with code 1 if a prediction that needs no assumption is off by more than five standard errors.

    Example: [bold]dptheory validate --data excerpt --out validate-results[/bold]
    """
    from dptheory.training import measure
    from dptheory.training._machine import device_name
    from dptheory.training.runs import DpSgdSettings

    started = time.perf_counter()
    with user_errors(**OPTIONS), lines_on_stderr():
        chosen = _one_thread(device)
        settings = measure.ValidateSettings(
            DpSgdSettings(
                steps=steps,
                batch_size=batch_size,
                noise_multiplier=noise_multiplier,
                max_grad_norm=max_grad_norm,
                learning_rate=learning_rate,
                seed=seed,
            ),
            drop_rate=drop_rate,
            keep_shares=numbers("keep_shares", keep_shares, float),
            subspace_dims=numbers("subspace_dims", subspace_dims, int),
            pool=pool,
            anchors=anchors,
            window=window,
            draws=draws,
        )
        result = measure.validate(data, settings, chosen)
        for moment in result.moments:
            console_for_output().print(measure.row_table(moment))
        measure.write_json(result, chosen, out / "validate.json")
        measure.write_figure(result, out / "validate.png")
        seconds = f"{time.perf_counter() - started:.0f} s on {device_name(chosen)}"
        line = f"{measure.summary(result)}; {seconds}; written to {out}: validate.json, validate.png"
        console_for_output().print(line, markup=False, soft_wrap=True)
    if result.broken:
        raise typer.Exit(1)


def instrument(
    names: Annotated[
        list[str], typer.Argument(help="names of instruments: the tables of configs/instruments.toml in this package")
    ],
    seed: Annotated[int | None, typer.Option(help="one of the instrument's seeds; all of them by default")] = None,
    device: Device = "cpu",
    results: Annotated[Path, typer.Option(help="folder for the results")] = Path("proofs/results"),
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="also if the code differs from its commit")
    ] = False,
) -> None:
    """Train small networks and measure on the way what the papers' figures show.

    Example: [bold]dptheory instrument masks --seed 0[/bold]
    """
    from dptheory.training import measure, studies

    with user_errors(**OPTIONS):
        chosen = _one_thread(device)
        for wanted in [studies.read_instrument(name) for name in names]:
            for one in wanted.seeds if seed is None else (seed,):
                path = measure.measure_instrument(
                    wanted, seed=one, folder=results, device=chosen, allow_dirty=allow_dirty
                )
                typer.echo(f"{path}: {wanted.name}, seed {one}")


def _one_thread(device: str) -> "torch.device":
    """The device; the order of sums, and so the last digits, would depend on the number of threads."""
    import torch

    from dptheory.training.runs import pick_device

    torch.set_num_threads(1)
    return pick_device(device)
