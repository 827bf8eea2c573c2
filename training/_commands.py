"""The commands of training, which join ``dptheory`` by the entry points of pyproject.toml.

Nothing here imports torch before a command is called: names and options are shown without it.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from dptheory._rounding import rounded_up
from dptheory.cli._common import console_for_output, user_errors
from dptheory.errors import ArgumentError
from dptheory.training._plan_command import plan as plan
from dptheory.training._probe_command import probe as probe

if TYPE_CHECKING:
    from dptheory.training.runs import Run

_OPTIONS = {"wanted": "device", "training.steps": "steps"}  # arguments that have another name as an option

Number = TypeVar("Number", int, float)


def validate(
    data: Annotated[str, typer.Option(help="excerpt, fashion-mnist or mnist")] = "excerpt",
    steps: Annotated[int, typer.Option(help="DP-SGD updates")] = 60,
    batch_size: Annotated[int, typer.Option(help="mean size of the Poisson batches")] = 250,
    noise_multiplier: Annotated[float, typer.Option(help="sigma")] = 1.0,
    max_grad_norm: Annotated[float, typer.Option(help="clip C")] = 1.0,
    learning_rate: Annotated[float, typer.Option(help="of plain SGD")] = 2.0,
    drop_rate: Annotated[float, typer.Option(help="share of entries that random freeze drops")] = 0.5,
    keep_shares: Annotated[str, typer.Option(help="shares of entries that pruning and ranking keep")] = "0.01,0.1,0.5",
    subspace_dims: Annotated[str, typer.Option(help="dimensions of GEP's subspace")] = "10,50,100",
    pool: Annotated[int, typer.Option(help="examples whose gradients are the population of the measurements")] = 300,
    anchors: Annotated[int, typer.Option(help="test images with random labels, for GEP's subspace")] = 256,
    window: Annotated[int, typer.Option(help="steps summed before entries are ranked")] = 10,
    draws: Annotated[int, typer.Option(help="batches, masks and noise vectors per row")] = 50,
    seed: Annotated[int, typer.Option(help="fixes everything on the CPU")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    out: Annotated[Path, typer.Option(help="folder for validate.json and validate.png")] = Path("validate-results"),
) -> None:
    """Predicted against measured: train a small CNN with DP-SGD, and compare at the start, in the middle and at the end.

    Ends with code 1 where a prediction that needs no assumption is more than five standard errors off.

    Example: [bold]dptheory validate --data excerpt --out validate-results[/bold]
    """
    import torch

    from dptheory.training._machine import device_name
    from dptheory.training.runs import DpSgdSettings, pick_device
    from dptheory.training.validate import ValidateSettings, row_table, summary, write_figure, write_json
    from dptheory.training.validate import validate as run_validation

    started = time.perf_counter()
    torch.set_num_threads(1)  # the order of sums, and so the last digits, would depend on the number of threads
    with user_errors(**_OPTIONS):
        chosen = pick_device(device)
        settings = ValidateSettings(
            DpSgdSettings(
                steps=steps,
                batch_size=batch_size,
                noise_multiplier=noise_multiplier,
                max_grad_norm=max_grad_norm,
                learning_rate=learning_rate,
                seed=seed,
            ),
            drop_rate=drop_rate,
            keep_shares=_numbers("keep_shares", keep_shares, float),
            subspace_dims=_numbers("subspace_dims", subspace_dims, int),
            pool=pool,
            anchors=anchors,
            window=window,
            draws=draws,
        )
        result = run_validation(data, settings, chosen)
        write_json(result, chosen, out / "validate.json")
        write_figure(result, out / "validate.png")
        console = console_for_output()
        for moment in result.moments:
            console.print(row_table(moment))
        console.print(
            f"{summary(result)}; {time.perf_counter() - started:.0f} s on {device_name(chosen)}; "
            f"written to {out}: validate.json, validate.png",
            markup=False,
            soft_wrap=True,
        )
    if result.broken:
        raise typer.Exit(1)


def run(
    config: Annotated[Path, typer.Argument(help="TOML file; configs/... of this package are found from anywhere")],
    set: Annotated[list[str] | None, typer.Option(help="change a key, as epochs=1 or mechanism.drop_rate=0.7")] = None,
    out: Annotated[Path, typer.Option(help="folder for metrics, privacy statement and checkpoint.pt")] = Path("run"),
    resume: Annotated[bool, typer.Option("--resume", help="go on from the checkpoint in the folder")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
) -> None:
    """Train one network with one of the papers' algorithms.

    Example: [bold]dptheory run configs/fashion_mnist/random_sparsification.toml --set data=excerpt[/bold]

    With several processes: [bold]torchrun --nproc-per-node 2 -m dptheory run ...[/bold]
    """
    from dptheory.training import engine
    from dptheory.training.runs import pick_device, read_config, train, write_statement

    try:
        with user_errors(**_OPTIONS):
            settings = read_config(config, changes=set or ())
            with engine.process_group(pick_device(device)) as chosen:
                done = train(settings, chosen, out, resume)
                _require_a_step(done)
                if engine.first():
                    write_statement(done, out)
                    _print_end(done, out)
    except KeyboardInterrupt:
        from dptheory.training.runs import STATE

        left = (
            f"the same command with --resume goes on from {out}" if (out / STATE).exists() else "before the first step"
        )
        typer.echo(f"interrupted; {left}", err=True)
        raise typer.Exit(130) from None


def sweep(
    study: Annotated[
        Path, typer.Argument(help="TOML file; configs/studies/... of this package are found from anywhere")
    ],
    workers: Annotated[int, typer.Option(help="runs at a time, each a process of one thread")] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "cpu",
    hours: Annotated[float | None, typer.Option(help="start no run after these, and stop those under way")] = None,
    status: Annotated[
        bool, typer.Option("--status", help="only say how far it is, and what the results so far say")
    ] = False,
    results: Annotated[Path, typer.Option(help="folder for the result files")] = Path("proofs/results"),
    state: Annotated[Path, typer.Option(help="folder for the state of runs under way")] = Path("sweep-state"),
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="also with code that differs from its commit")
    ] = False,
) -> None:
    """Make all runs of a study that have no result yet; stopped or killed at any time, it goes on when it is called again.

    Ends with code 1 where a run failed, and with 75 where runs are left.

    Example: [bold]dptheory sweep configs/studies/masking.toml --workers 2 --hours 8[/bold]
    """
    from rich.console import Console

    from dptheory.training import runs

    try:
        with user_errors():
            wanted, places = runs.read_study(study), runs.Places(results=results, state=state)
            if status:
                runs.show(wanted, places, console_for_output())
                return
            with runs.Lines(Console(stderr=True), runs.standing(wanted, places)) as lines:
                outcome = runs.sweep(
                    wanted,
                    places=places,
                    workers=workers,
                    device=device,
                    hours=hours,
                    allow_dirty=allow_dirty,
                    watcher=lines,
                )
    except KeyboardInterrupt:
        typer.echo("interrupted; the same command goes on", err=True)
        raise typer.Exit(130) from None
    if outcome.failed:
        typer.echo(f"failed: {', '.join(sorted(outcome.failed))}", err=True)
        raise typer.Exit(1)
    if not outcome.complete:
        typer.echo("runs are left; the same command goes on", err=True)
        raise typer.Exit(75)


def instrument(
    names: Annotated[
        list[str], typer.Argument(help="instruments; files configs/instruments/NAME.toml of this package")
    ],
    seed: Annotated[
        int | None, typer.Option(help="one of the instrument's seeds; all of them where none is given")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "cpu",
    results: Annotated[Path, typer.Option(help="folder for the result files")] = Path("proofs/results"),
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="also with code that differs from its commit")
    ] = False,
) -> None:
    """Train small networks and measure their gradients on the way: what the papers' figures show.

    Example: [bold]dptheory instrument masks --seed 0[/bold]
    """
    import torch

    from dptheory.training import runs
    from dptheory.training.instrument import measure

    torch.set_num_threads(1)  # the order of sums, and so the last digits, would depend on the number of threads
    with user_errors(**_OPTIONS):
        chosen = runs.pick_device(device)
        for wanted in [runs.read_instrument(name) for name in names]:
            for one in wanted.seeds if seed is None else (seed,):
                path = measure(wanted, seed=one, folder=results, device=chosen, allow_dirty=allow_dirty)
                typer.echo(str(path))


def rerun(
    path: Annotated[Path, typer.Argument(help="result file, of a study's run or of an instrument")],
) -> None:
    """Make a result file again, by the code of the commit that it names, and say what came out otherwise.

    The same seed and code give the same file on the CPU, but for the times. Ends with code 1 where anything differs.

    Example: [bold]dptheory rerun proofs/results/instruments/inversion_seed=0.json[/bold]
    """
    from rich.console import Console

    from dptheory.training import runs

    try:
        with user_errors():
            about = f"making {path.name} again; it took {runs.seconds_taken(path):.0f} s"
            with Console(stderr=True).status(about):
                found = runs.rerun(path)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    for line in (*found.machine, *found.changed):
        typer.echo(line)
    if not found.same:
        typer.echo(f"{len(found.changed)} entries came out otherwise, by the code of commit {found.commit}", err=True)
        raise typer.Exit(1)
    typer.echo(f"the same but for the times, by the code of commit {found.commit}")


def answers(
    results: Annotated[Path, typer.Option(help="folder of the result files")] = Path("proofs/results"),
    out: Annotated[Path, typer.Option(help="JSON file that the ledger reads")] = Path("dptheory/claims/answers.json"),
    page: Annotated[Path, typer.Option(help="Markdown page of all studies")] = Path("proofs/results.md"),
) -> None:
    """Write what the results so far say of the papers' measured claims, by the rules in configs/answers.

    `dptheory pages proofs --no-evidence` then brings it into the ledger.

    Example: [bold]dptheory answers[/bold]
    """
    from dptheory.training import runs

    with user_errors():
        written = runs.write_answers(results, out, page)
        for state, count in sorted(written.items()):
            typer.echo(f"{count} {state}")


def audit(
    seed: Annotated[int, typer.Option(min=0, help="of the data, the batches and the noise")] = 0,
    long: Annotated[bool, typer.Option("--long", help="ten seeds, long attacks, torchrun: about ten minutes")] = False,
) -> None:
    """Train every mechanism and hold sampling, noise, masks and the reported epsilon against what is stated.

    Ends with code 1 where a statement is refused; a true one is with probability 1e-6 each.

    Example: [bold]dptheory audit[/bold]
    """
    from dptheory.training.audits import report

    if not report(seed, long, typer.echo):
        raise typer.Exit(1)


def _require_a_step(done: "Run") -> None:
    if done.step == 0:
        raise ArgumentError(
            "epsilon",
            "afford a step",
            done.config.epsilon,
            got=f"{done.config.epsilon} at noise multiplier {done.optimizer.noise_multiplier:g}: take a "
            "larger budget, more noise or smaller batches",
        )


def _print_end(done: "Run", out: Path) -> None:
    from rich.table import Table

    from dptheory.training.runs import STATE

    last = done.rows[-1] if done.rows else {}
    table = Table("quantity", "value", title=done.optimizer.mechanism.title)
    for name in ("epoch", "step", "train_loss", "test_accuracy", "epsilon", "nonfinite_samples"):
        value = last.get(name, "none")
        if isinstance(value, float):
            value = rounded_up(value, 4) if name == "epsilon" else f"{value:.4g}"
        table.add_row(name.replace("_", " "), str(value))
    console = console_for_output()
    console.print(table)
    for line in done.optimizer.privacy(done.config.delta).lines():
        console.print(line, markup=False, soft_wrap=True)
    if done.config.secure:
        console.print(f"Only its owner can read {out / STATE}.", markup=False, soft_wrap=True)
    stopped = "stopped: one more step would exceed the budget; " if done.spent else ""
    files = "metrics.csv, metrics.json, statement.md, statement.json, checkpoint.pt"
    console.print(f"{stopped}written to {out}: {files}", markup=False, soft_wrap=True)


def _numbers(name: str, text: str, kind: Callable[[str], Number]) -> tuple[Number, ...]:
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        wanted = "whole numbers" if kind is int else "numbers"
        raise ArgumentError(name, f"be {wanted} separated by commas", text) from None
