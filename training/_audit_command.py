"""``dptheory audit``: the library's own mechanisms, or with ``--of`` any loop."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from dptheory.cli._common import console_for_output, user_errors
from dptheory.errors import ArgumentError
from dptheory.training._user_files import executed, place_of


def audit(
    of: Annotated[
        str | None,
        typer.Option(
            help="a loop of your own, FILE.py:FUNCTION: of a Dataset, returns what it releases", show_default=False
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="its records, FILE.py:NAME: a Dataset, or a function that makes one", show_default=False),
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="what the loop claims", show_default=False)] = None,
    delta: Annotated[float | None, typer.Option(help="its delta", show_default=False)] = None,
    canaries: Annotated[int, typer.Option(help="how many are made, of which half are put in")] = 1000,
    confidence: Annotated[float, typer.Option(help="with which the bound holds")] = 0.95,
    access: Annotated[str, typer.Option(help="what the loop returns: model, or gradients")] = "model",
    stated: Annotated[
        str | None,
        typer.Option(
            help="FILE.py:NAME of the settings, a Stated: a sharper bound, and what is wrong", show_default=False
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, help="of all draws; left out, 0, and of a loop of your own one that nobody knows", show_default=False
        ),
    ] = None,
    long: Annotated[bool, typer.Option("--long", help="ten seeds, long attacks, torchrun: about ten minutes")] = False,
) -> None:
    """Train every mechanism and hold what is stated against what happens; or, with --of, refute the epsilon of a loop of your own.

    Ends with code 1 where a statement is refused; a true one is with probability 1e-6 each, a true epsilon of your own loop with
    1 - confidence.

    Example: [bold]dptheory audit --of myloop.py:train --data myloop.py:data --epsilon 4 --delta 1e-5[/bold]
    """
    given = {"data": data, "epsilon": epsilon, "delta": delta}
    with user_errors():
        if of is None:
            for name, value in {**given, "stated": stated}.items():
                if value is not None:
                    raise ArgumentError(name, "come with --of, the loop that is audited", value)
            held = _own_mechanisms(seed or 0, long)
        else:
            for name, value in given.items():
                if value is None:
                    raise ArgumentError(name, "be given with --of", value)
            held = _loop(of, data, epsilon, delta, canaries, confidence, access, stated, seed)
    if not held:
        raise typer.Exit(1)


def _own_mechanisms(seed: int, long: bool) -> bool:
    from dptheory.training.audits import report

    return report(seed, long, typer.echo)


def _loop(
    of: str,
    data: Any,
    epsilon: Any,
    delta: Any,
    canaries: int,
    confidence: float,
    access: str,
    stated: str | None,
    seed: int | None,
) -> bool:
    from rich.console import Console
    from rich.progress import Progress

    from dptheory.training.audits import audit as audit_loop

    # what is in one file shares its module: the file is executed once
    execute = functools.cache(lambda path: executed(path, module_name=f"dptheory_own_{path.stem}"))
    train, records = _named("of", of, execute), _named("data", data, execute)
    if not hasattr(records, "__getitem__") and callable(records):
        records = records()
    settings = None if stated is None else _named("stated", stated, execute)
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        tasks: dict[str, Any] = {}

        def tell(what: str, done: int, of: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=of)
            bar.update(tasks[what], completed=done)

        result = audit_loop(
            train,
            records,
            epsilon=epsilon,
            delta=delta,
            canaries=canaries,
            confidence=confidence,
            access=access,
            stated=settings,
            seed=seed,
            tell=tell,
        )
    console_for_output().print(str(result), markup=False, highlight=False, soft_wrap=True)
    return result.stands


def _named(argument: str, place: str, execute: Callable[[Path], Any]) -> Any:
    path, name = place_of(argument, place, example="myloop.py:train")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # a loop may import its neighbours when it runs
    module = execute(path.resolve())
    if not hasattr(module, name):
        raise ArgumentError(argument, f"be a name in {path}", place)
    return getattr(module, name)
