"""The commands of training, which join ``dptheory`` by the entry points of pyproject.toml.

Nothing here imports torch before a command is called: names and options are shown without it.
"""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dptheory._progress import lines_on_stderr
from dptheory._rounding import rounded_up
from dptheory.cli._cluster import Scheduler, cluster
from dptheory.cli._common import console_for_output, user_errors
from dptheory.errors import ArgumentError
from dptheory.training._audit_command import audit as audit
from dptheory.training._measure_commands import OPTIONS
from dptheory.training._measure_commands import instrument as instrument
from dptheory.training._measure_commands import validate as validate
from dptheory.training._plan_command import plan as plan

if TYPE_CHECKING:
    from dptheory.training.runs import Run


def run(
    config: Annotated[Path, typer.Argument(help="TOML file, or a run of this package: configs/fashion_mnist/dp_sgd")],
    set: Annotated[list[str] | None, typer.Option(help="change a key: epochs=1 or mechanism.drop_rate=0.7")] = None,
    out: Annotated[
        Path, typer.Option(help="folder for metrics, privacy statement, model.pt (the weights) and checkpoint.pt")
    ] = Path("run"),
    resume: Annotated[bool, typer.Option("--resume", help="continue from the checkpoint in the folder")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
) -> None:
    """Train one network with one of the papers' algorithms.

    Example: [bold]dptheory run configs/fashion_mnist/random_sparsification --set data=excerpt[/bold]

    With several processes: [bold]torchrun --nproc-per-node 2 -m dptheory run ...[/bold]
    """
    from dptheory.training import engine
    from dptheory.training.runs import pick_device, read_config, train, write_statement, write_weights

    try:
        with user_errors(**OPTIONS, module="model"), lines_on_stderr():
            settings = read_config(config, changes=set or ())
            with engine.process_group(pick_device(device)) as chosen:
                done = train(settings, chosen, out, resume)
                _require_a_step(done)
                if engine.first():
                    write_statement(done, out)
                    write_weights(done, out)
                    _print_end(done, out)
    except KeyboardInterrupt:
        from dptheory.training.runs import STATE

        left = (
            f"the same command with --resume continues from {out}"
            if (out / STATE).exists()
            else "before the first step"
        )
        typer.echo(f"interrupted; {left}", err=True)
        raise typer.Exit(130) from None


def sweep(
    study: Annotated[Path, typer.Argument(help="TOML file, or a study of this package: configs/studies/masking.toml")],
    workers: Annotated[
        int | None,
        typer.Option(
            help="how many runs at a time, each a process of one thread; by default 1, or as many as a scheduler's workers have threads"
        ),
    ] = None,
    scheduler: Scheduler = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "cpu",
    hours: Annotated[
        float | None, typer.Option(help="after so many hours, start no run and stop those under way")
    ] = None,
    status: Annotated[
        bool, typer.Option("--status", help="only show the progress and what the results say so far")
    ] = False,
    results: Annotated[Path, typer.Option(help="folder for the results")] = Path("proofs/results"),
    state: Annotated[Path, typer.Option(help="folder for the state of runs under way")] = Path("sweep-state"),
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="also if the code differs from its commit")
    ] = False,
) -> None:
    """Make all runs of a study that have no result yet. If it is stopped or killed, call it again to continue.

    Exits with code 1 if a run failed, and with 75 if runs are left.

    Example: [bold]dptheory sweep configs/studies/masking.toml --workers 2 --hours 8[/bold]
    """
    from rich.console import Console

    from dptheory.training import studies

    try:
        with user_errors():
            wanted, places = studies.read_study(study), studies.Places(results=results, state=state)
            if status:
                studies.show(wanted, places, console_for_output())
                return
            with (
                nullcontext() if scheduler is None else cluster(scheduler) as executor,
                studies.Lines(Console(stderr=True), studies.standing(wanted, places)) as lines,
            ):
                outcome = studies.sweep(
                    wanted,
                    places=places,
                    workers=workers if workers is not None else executor.threads if executor else 1,
                    executor=executor,
                    device=device,
                    hours=hours,
                    allow_dirty=allow_dirty,
                    watcher=lines,
                )
    except KeyboardInterrupt:
        typer.echo("interrupted; run the same command again to continue", err=True)
        raise typer.Exit(130) from None
    if outcome.failed:
        typer.echo(f"failed: {', '.join(sorted(outcome.failed))}", err=True)
        raise typer.Exit(1)
    if not outcome.complete:
        typer.echo("runs are left; run the same command again to continue", err=True)
        raise typer.Exit(75)


def rerun(
    path: Annotated[Path, typer.Argument(help="file of results, of a study's runs or of instruments")],
    run: Annotated[str, typer.Argument(help="name of one of them, the entry 'run' of its line")],
) -> None:
    """Repeat a result with the code of the commit that it names, and list what differs.

    On the CPU the same seed and code give the same result, except for times. Exits with code 1 if anything differs.

    Example: [bold]dptheory rerun proofs/results/instruments.jsonl inversion_seed=0[/bold]
    """
    from rich.console import Console

    from dptheory.training import studies

    try:
        with user_errors():
            about = f"making {run} again; it took {studies.seconds_taken(path, run):.0f} s"
            with Console(stderr=True).status(about):
                found = studies.rerun(path, run)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    for line in (*found.machine, *found.changed):
        typer.echo(line)
    if not found.same:
        typer.echo(f"{len(found.changed)} entries came out otherwise, by the code of commit {found.commit}", err=True)
        raise typer.Exit(1)
    typer.echo(f"the same but for the times, by the code of commit {found.commit}")


def answers(
    results: Annotated[Path, typer.Option(help="folder of the results")] = Path("proofs/results"),
    out: Annotated[Path, typer.Option(help="JSON file that the ledger reads")] = Path("dptheory/claims/answers.json"),
    page: Annotated[Path, typer.Option(help="Markdown page of all studies; theirs go below it")] = Path(
        "proofs/results.md"
    ),
) -> None:
    """Write what the results so far say about the papers' measured claims, by the rules in configs/answers.

    Then `dptheory pages proofs` adds it to the ledger.

    Example: [bold]dptheory answers[/bold]
    """
    from dptheory.training import studies

    with user_errors():
        written = studies.write_answers(results, out, page)
        for state, count in sorted(written.items()):
            typer.echo(f"{count} {state}")


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

    from dptheory.training.runs import CSV, JSON, STATE

    last = done.rows[-1] if done.rows else {}
    table = Table("quantity", "value", title=done.optimizer.mechanism.title)
    for name in ("epoch", "step", "train_loss", "test_accuracy", "epsilon", "nonfinite_samples"):
        value = last.get(name, "none")
        if isinstance(value, float):
            value = rounded_up(value, 6) if name == "epsilon" else f"{value:.4g}"
        if name == "test_accuracy" and value == "nan":
            value = "no test records"
        table.add_row(name.replace("_", " "), str(value))
    console = console_for_output()
    console.print(table)
    for line in done.optimizer.privacy(done.config.delta).lines():
        console.print(line, markup=False, highlight=False)
    stopped = "stopped: one more step would exceed the budget; " if done.spent else ""
    console.print(f"{stopped}written to {out}:", markup=False, soft_wrap=True)
    use = "to be released" if done.config.secure else "of a simulation, not to be released"
    console.print(f"  {use}: model.pt, statement.md, statement.json", highlight=False)
    console.print(f"  secret, for its owner alone: {CSV}, {JSON}, {STATE}", highlight=False)
