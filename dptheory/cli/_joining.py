"""Commands that are loaded when they are asked for, not before: groups of our own, and those that join by entry points.

An entry point of the group ``dptheory.commands`` names a function, as ``app.command`` takes it. The theory thus has the commands
of training without importing it, and shows them where PyTorch is missing.
"""

import functools
import importlib
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperGroup

from dptheory.cli._common import Commands

GROUP = "dptheory.commands"
TRAIN = ("torch", "opacus", "kymatio", "joblib", "pooch", "matplotlib", "jinja2")
"""What the extra brings; each package has its module's name."""


GROUPS = {
    "bound": ("dptheory.cli._calculators", "What the calculators say for given numbers."),
    "preset": ("dptheory.cli._calculators", "The settings of the papers' tables."),
    "privacy": ("dptheory.cli._privacy", "What training costs in privacy, and how much noise a budget asks for."),
}
"""Where a group of commands is, and what help says of it without loading it."""


class JoinedCommands(Commands):
    """The tree of ``dptheory``: its own commands, then those that join."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order in which help shows them."""
        own = [*super().list_commands(ctx), *GROUPS]
        return [*own, *sorted(joining().keys() - set(own))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by its name; None where there is none."""
        if cmd_name in GROUPS:
            return _Group(cmd_name)
        own = super().get_command(ctx, cmd_name)
        return _loaded(cmd_name) if own is None and cmd_name in joining() else own


class _Group(Commands):
    """A group of commands, made when one of them is asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, help=GROUPS[name][1], no_args_is_help=True)

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order in which help shows them."""
        return list(_commands_of(str(self.name)))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by its name; None where there is none."""
        return _commands_of(str(self.name)).get(cmd_name)


@functools.cache
def _commands_of(group: str) -> Mapping[str, Any]:
    made = typer.main.get_command(getattr(importlib.import_module(GROUPS[group][0]), group))
    assert isinstance(made, TyperGroup)
    return made.commands


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
