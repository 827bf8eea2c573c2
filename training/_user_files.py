"""Python files of the user's, and what they call by a name: ``mynetwork.py:build``."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from dptheory.errors import ArgumentError

NETWORK = "dptheory_own_network"
"""Name of the module of a file that builds a network."""


def place_of(argument: str, place: str, *, example: str) -> tuple[Path, str]:
    """The file and the name of ``FILE.py:NAME``.

    Args:
        argument: what an error calls it.
        place: as the user gives it; the file is looked up from the current folder.
        example: for the error.

    Raises:
        ValueError: another form, or a file that is not there.
    """
    file, _, name = place.rpartition(":")
    path = Path(file)
    if path.suffix != ".py" or not name.isidentifier():
        raise ArgumentError(argument, f"be a Python file and a name in it, as {example}", place)
    if not path.is_file():
        raise ArgumentError(argument, "be in a file that exists", place, then=f": there is no file {file}")
    return path, name


def executed(path: Path, *, module_name: str) -> ModuleType:
    """The file as a module; it may import the files beside it.

    Args:
        path: of the file, which ends in .py.
        module_name: under which dataclasses and pickle look it up.

    Raises:
        ValueError: code that cannot be executed.
    """
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None  # of a file that ends in .py
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{path} must be Python that can be imported, got {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(folder)
    return module
