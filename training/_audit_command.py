"""``dptheory audit``: the library's own mechanisms, or with ``--of`` any loop."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from dptheory._progress import lines_on_stderr, spoken_bar
from dptheory.cli._common import console_for_output, user_errors
from dptheory.errors import ArgumentError
from dptheory.training._files import executed, place_of


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
    canaries: Annotated[
        int | None,
        typer.Option(help="how many are made, of which half are put in; left out, 1000", show_default=False),
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="with which the bound holds; left out, .95", show_default=False)
    ] = None,
    access: Annotated[
        str | None,
        typer.Option(help="what the loop returns: model, or gradients; left out, model", show_default=False),
    ] = None,
    stated: Annotated[
        str | None,
        typer.Option(
            help="FILE.py:NAME of the settings, a Stated: a sharper bound, and what is wrong", show_default=False
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="file that keeps the seed until the end: killed, the audit goes on with it", show_default=False
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, help="of all draws; left out, 0, and of a loop of your own one that nobody knows", show_default=False
        ),
    ] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="of the library's own this alone, as DP-SGD", show_default=False)
    ] = None,
    long: Annotated[bool, typer.Option("--long", help="ten seeds, long attacks, torchrun: about ten minutes")] = False,
) -> None:
    """Train every mechanism and hold what is stated against what happens; or, with --of, refute the epsilon of a loop of your own.

    Ends with code 1 where a statement is refused; a true one is with probability 1e-6 each, a true epsilon of your own loop with
    1 - confidence.

    Example: [bold]dptheory audit --of myloop.py:train --data myloop.py:data --epsilon 4 --delta 1e-5[/bold]
    """
    claim = {"data": data, "epsilon": epsilon, "delta": delta}
    how = {"canaries": canaries, "confidence": confidence, "access": access, "stated": stated, "checkpoint": checkpoint}
    with user_errors(), lines_on_stderr():
        if of is None:
            _require_absent(claim | how, "come with --of, the loop that is audited")
            held = _own_mechanisms(seed or 0, long, mechanism)
        else:
            for name, value in claim.items():
                if value is None:
                    raise ArgumentError(name, "be given with --of", value)
            own = {"long": long or None, "mechanism": mechanism}
            _require_absent(own, "come without --of: it is for the library's own mechanisms")
            asked = {name: value for name, value in (claim | how).items() if value is not None}
            held = _loop(of, asked, seed)
    if not held:
        raise typer.Exit(1)


def _require_absent(options: dict[str, Any], requirement: str) -> None:
    for name, value in options.items():
        if value is not None:
            raise ArgumentError(name, requirement, value)


def _own_mechanisms(seed: int, long: bool, mechanism: str | None) -> bool:
    from dptheory.training.audits import report

    return report(seed, long, typer.echo, mechanism)


def _loop(of: str, asked: dict[str, Any], seed: int | None) -> bool:
    from dptheory.training.audits import audit as audit_loop

    # what is in one file shares its module: the file is executed once
    execute = functools.cache(lambda path: executed(path, module_name=f"dptheory_own_{path.stem}"))
    train, records = _named("of", of, execute), _named("data", asked.pop("data"), execute)
    if not hasattr(records, "__getitem__") and callable(records):
        records = records()
    if "stated" in asked:
        asked["stated"] = _named("stated", asked["stated"], execute)
    with spoken_bar() as bar:
        tasks: dict[str, Any] = {}

        def tell(what: str, done: int, of: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(
                    what, total=None if of == 1 else of
                )  # of one piece nobody knows how far it is
            bar.update(tasks[what], completed=done, total=of if done == of else None)

        result = audit_loop(train, records, **asked, seed=seed, tell=tell)
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
