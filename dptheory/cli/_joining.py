"""Commands of other rooms and packages join ``dptheory`` by entry points; each is loaded when it is asked for, not before.

An entry point of the group ``dptheory.commands`` names a function, as ``app.command`` takes it. The theory thus has the commands
of training without importing it, and shows them where PyTorch is missing.
"""

import functools
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer

from dptheory.cli._common import Commands

GROUP = "dptheory.commands"
TRAIN = ("torch", "opacus", "kymatio", "joblib", "pooch", "matplotlib")
"""What the extra brings; each package has its module's name."""


class JoinedCommands(Commands):
    """The tree of ``dptheory``: its own commands, then those that join."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order in which help shows them."""
        own = super().list_commands(ctx)
        return [*own, *sorted(joining().keys() - set(own))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by its name; None where there is none."""
        own = super().get_command(ctx, cmd_name)
        return _loaded(cmd_name) if own is None and cmd_name in joining() else own


@functools.cache
def joining() -> dict[str, EntryPoint]:
    """The entry points by name."""
    return {one.name: one for one in entry_points(group=GROUP)}


@functools.cache
def _loaded(name: str) -> Any:
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    alone.command(name)(_or_what_it_lacks(name, joining()[name].load()))
    return typer.main.get_command(alone)


def _or_what_it_lacks(name: str, command: Callable[..., Any]) -> Callable[..., Any]:
    """The command's function; where a package of the extra ``train`` is missing, it says so."""

    @functools.wraps(command)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package not in TRAIN:
                raise
            raise MissingPackageError(name, package) from error

    return call


class MissingPackageError(Exception):
    """A command needs a package that is not installed; shown in one line."""

    def format_message(self) -> str:
        """The line."""
        command, package = self.args
        return f"dptheory {command} needs the package {package}: pip install 'dptheory[train]'"
