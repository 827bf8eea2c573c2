"""``dptheory probe``: gradients of a short run against the theory, and statistics for a plan."""

import time
from pathlib import Path
from typing import Annotated

import typer

from dptheory.cli._common import console_for_output, numbers, user_errors
from dptheory.files import require_writable, write_atomically

_OF_TRAINING = (
    "steps", "record", "batch_size", "noise_multiplier", "max_grad_norm", "learning_rate", "keep_shares", "draws", "out",
    "examples",
)  # fmt: skip
_OF_PRIVATE, _OF_STATS = ("epsilon", "delta", "share"), ("private", "model")


def probe(
    context: typer.Context,
    data: Annotated[str, typer.Option(help="excerpt, fashion-mnist or mnist; with --stats also cifar-10")] = "excerpt",
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
    seed: Annotated[
        int | None,
        typer.Option(
            help="fixes everything on the CPU, 0 if left out; with --private also the noise, which then is a simulation and "
            "protects nothing from who knows the seed: left out, it is cryptographic"
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    out: Annotated[Path, typer.Option(help="folder for probe.json, gradients.npz and probe.png")] = Path(
        "probe-results"
    ),
    stats: Annotated[
        Path | None,
        typer.Option(
            help="measure what dptheory plan takes instead, on the images, which are public, into this file; one that holds "
            "private statistics is not overwritten"
        ),
    ] = None,
    examples: Annotated[int, typer.Option(help="of --stats: images whose gradients are measured")] = 200,
    model: Annotated[
        str, typer.Option(help="of --stats: small-cnn or linear-probe, on cifar-10 also dp-cnn")
    ] = "small-cnn",
    private: Annotated[
        bool,
        typer.Option(
            "--private",
            help="with --stats: the images are private. Releases with noise how many gradients have which norm, and the share of "
            "each layer, at the starting weights; nothing else is measured. It spends --share of --epsilon",
        ),
    ] = False,
    epsilon: Annotated[
        float | None, typer.Option(help="of --private: the budget of training and statistics together")
    ] = None,
    delta: Annotated[float, typer.Option(help="of --private: of the budget")] = 1e-5,
    share: Annotated[float, typer.Option(help="of --private: share of epsilon that the statistics may spend")] = 0.1,
) -> None:
    """Train a small CNN with DP-SGD and compare predicted with measured on its clipped batch gradients.

    Example: [bold]dptheory probe --data excerpt --steps 40 --record 0,20,39 --out probe-results[/bold]

    Statistics for a plan: [bold]dptheory probe --data fashion-mnist --stats stats.json[/bold]

    Of private images: [bold]dptheory probe --data fashion-mnist --stats stats.json --private --epsilon 3[/bold]
    """
    # torch, Opacus and matplotlib take seconds to import: not for --help
    import torch

    from dptheory.planning import statistics_text
    from dptheory.training._machine import device_name
    from dptheory.training.probe import (
        fit_table,
        private_lines,
        row_table,
        run_private_statistics,
        run_probe,
        run_statistics,
        spread_steps,
        write_figure,
        write_gradients,
        write_json,
    )
    from dptheory.training.runs import DpSgdSettings, pick_device

    started = time.perf_counter()
    torch.set_num_threads(1)  # the order of sums, and so the last digits, would depend on the number of threads
    with user_errors(wanted="device"):
        _only_together(context, stats=stats, private=private, epsilon=epsilon)
        chosen = pick_device(device)
        if private and stats is not None:
            assert epsilon is not None
            _keep_private_statistics(stats)
            require_writable(stats)
            released = run_private_statistics(
                data=data, model=model, epsilon=epsilon, delta=delta, share=share, seed=seed, device=chosen
            )
            write_atomically(stats, statistics_text(released))
            typer.echo("\n".join([*private_lines(released, delta=delta), f"written to {stats}"]))
            return
        settings = DpSgdSettings(
            steps=steps,
            batch_size=batch_size,
            noise_multiplier=noise_multiplier,
            max_grad_norm=max_grad_norm,
            learning_rate=learning_rate,
            seed=0 if seed is None else seed,
        )
        if stats is not None:
            _keep_private_statistics(stats)
            require_writable(stats)
            measured = run_statistics(data=data, model=model, training=settings, examples=examples, device=chosen)
            write_atomically(stats, statistics_text(measured))
            typer.echo(f"{measured.name}, three moments, {time.perf_counter() - started:.0f} s; written to {stats}")
            return
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


def _keep_private_statistics(path: Path) -> None:
    """Refuse a file that holds a release of private records: what it has spent must be counted, and stands nowhere else.

    Raises:
        ValueError: there is such a file.
        OSError: it cannot be read.
    """
    from dptheory.planning import PrivateStats, read_statistics

    if not path.is_file():
        return
    try:
        held = read_statistics(path)
    except ValueError:  # another file
        return
    if isinstance(held, PrivateStats):
        raise ValueError(
            f"--stats must be a file without private statistics, got {path}: they have spent part of the budget of their "
            "records, and a plan must count them; go on with that file, or name another and count both releases"
        )


def _only_together(context: typer.Context, *, stats: Path | None, private: bool, epsilon: float | None) -> None:
    """Refuse options of the probe that would be passed over, and ``--private`` without a budget.

    Args:
        context: of the command, which knows what the user wrote.
        stats, private, epsilon: the options.

    Raises:
        ValueError: an option that was given says nothing here, or one is missing.
    """
    given = [name for name in context.params if (s := context.get_parameter_source(name)) and s.name == "COMMANDLINE"]
    for name in given:
        option = f"--{name.replace('_', '-')}"
        if private and name in _OF_TRAINING:
            raise ValueError(
                f"{option} must be left out with --private: all private images are measured, once, before any training"
            )
        if name in _OF_PRIVATE and not private:
            raise ValueError(f"{option} must come with --private")
        if name in _OF_STATS and stats is None:
            raise ValueError(f"{option} must come with --stats")
    if private and epsilon is None:
        raise ValueError("--private must come with --epsilon, the budget of training and statistics together")
