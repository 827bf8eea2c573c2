"""``dptheory audit``: the library's own mechanisms, or with ``--of`` any loop."""

import importlib.util
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dptheory.cli._common import console_for_output, user_errors
from dptheory.errors import ArgumentError


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

    train, records = _named("of", of), _named("data", data)
    if not hasattr(records, "__getitem__") and callable(records):
        records = records()
    settings = None if stated is None else _named("stated", stated)
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


def _named(argument: str, place: str) -> Any:
    """What a Python file calls by this name; a file is run once, and may import its neighbours."""
    file, _, name = place.rpartition(":")
    path = Path(file)
    if path.suffix != ".py" or not name.isidentifier():
        raise ArgumentError(argument, "be a Python file and a name in it, as myloop.py:train", place)
    if not path.is_file():
        raise ArgumentError(argument, "be in a file that exists", place, then=f": there is no file {file}")
    known = f"dptheory_own_{path.resolve().stem}"
    module = sys.modules.get(known)
    if module is None or getattr(module, "__file__", None) != str(path.resolve()):
        spec = importlib.util.spec_from_file_location(known, path.resolve())
        assert spec is not None and spec.loader is not None  # of a file that ends in .py
        module = importlib.util.module_from_spec(spec)
        sys.modules[known] = module
        sys.path.insert(0, str(path.resolve().parent))
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[known]
            raise ValueError(
                f"{path} must be Python that can be imported, got {type(error).__name__}: {error}"
            ) from error
    if not hasattr(module, name):
        raise ArgumentError(argument, f"be a name in {file}", place)
    return getattr(module, name)
