"""Files that people and runs write: lines of JSON, TOML, and the Python files that a user names."""

import fcntl
import importlib.util
import json
import os
import sys
import tomllib
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from dptheory import _validate
from dptheory.errors import ArgumentError

Line = Mapping[str, Any]


class JsonLines:
    """The lines of a file, which need not exist yet, and those to come; several processes may add and read at once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def lines(self) -> list[Line]:
        """All of them. A last line that is being written, or was cut off, is none yet."""
        try:
            *whole, last = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        found = [self._read(number, text) for number, text in enumerate(whole, 1) if text.strip()]
        return [*found, *([self._read(len(whole) + 1, last)] if _is_json(last) else [])]

    def add(self, line: Line, *, allow_nan: bool = True) -> None:
        """Put a line at the end; it is on the disk when this returns. NaN and infinity are no JSON, though Python reads them."""
        text = json.dumps(line, allow_nan=allow_nan).encode() + b"\n"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # freed when the file is closed, also by the end of the process
            file.seek(0)
            last = file.read().rpartition(b"\n")[2]
            if _is_json(last):  # whole, but for its end
                text = b"\n" + text
            elif last:  # cut off: nobody is writing it, as the lock is ours
                file.truncate(file.tell() - len(last))
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def _read(self, number: int, text: bytes) -> Line:
        try:
            found = json.loads(text)
        except ValueError as error:
            raise ArgumentError.about(
                str(self._path), number, f"{self._path}, line {number}, must be a JSON object: {error}"
            ) from None
        if not isinstance(found, dict):
            raise ArgumentError.about(
                str(self._path),
                number,
                f"{self._path}, line {number}, must be a JSON object, got {type(found).__name__}",
            )
        return found


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def read_toml(path: Path) -> dict[str, Any]:
    """The table of a file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ArgumentError.about(path.name, None, f"{path} is not TOML: {error}") from None


def only(table: Mapping[str, Any], known: Sequence[str], *, prefix: str = "", says: str = "there is no key") -> None:
    """Reject unknown keys; the message begins with ``says``, and ``prefix`` stands before each of them."""
    unknown = [prefix + key for key in table if key not in known]
    if unknown:
        within = [one for one in known if one.rpartition(".")[2] == unknown[0]]
        meant = _validate.meant(within[0] if within else unknown[0], [prefix + one for one in known])
        raise ArgumentError.about(
            unknown[0], unknown, f"{says} {', '.join(unknown)}{meant}; there are {', '.join(known) or 'none'}"
        )


def said(table: Mapping[str, Any], key: str) -> str:
    """The words under a key, on one line."""
    value = table.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError(key, "say something", value)
    return " ".join(value.split())


def listed(table: Mapping[str, Any], key: str) -> tuple[Any, ...]:
    """What is listed under a key."""
    value = table.get(key)
    if not isinstance(value, list) or not value:
        raise ArgumentError(key, "say something", value)
    return tuple(value)


NETWORK = "dptheory_own_network"
"""Name of the module of a file that builds a network."""


def is_own(name: object) -> bool:
    """Whether a name is meant for a function in a file, ``mynetwork.py:build``, and not for a shipped network."""
    return isinstance(name, str) and (":" in name or name.endswith(".py"))


def place_of(argument: str, place: str, *, example: str) -> tuple[Path, str]:
    """The file, looked up from the current folder, and the name of ``FILE.py:NAME``; an error calls it ``argument``."""
    file, _, name = place.rpartition(":")
    path = Path(file)
    if path.suffix != ".py" or not name.isidentifier():
        raise ArgumentError(argument, f"be a Python file and a name in it, as {example}", place)
    if not path.is_file():
        raise ArgumentError(argument, "be in a file that exists", place, then=f": there is no file {file}")
    return path, name


def fault(error: Exception, path: Path) -> str:
    """What an error of a user's file says, and its last line in that file."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == path.resolve()]
    return f"{type(error).__name__}: {error}" + (f" ({path}, line {lines[-1]})" if lines else "")


def executed(path: Path, *, module_name: str) -> ModuleType:
    """The file as a module, which may import those beside it; dataclasses and pickle look it up as ``module_name``."""
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None  # of a file that ends in .py
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ArgumentError(str(path), "be Python that can be imported", None, got=fault(error, path)) from error
    finally:
        sys.path.remove(folder)
    return module
