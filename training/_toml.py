"""Tables of TOML files: reads them, rejects unknown keys, and asks for words where they are needed."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dptheory.errors import ArgumentError


def read_toml(path: Path) -> dict[str, Any]:
    """The table of a file.

    Raises:
        ValueError: the file is not TOML.
        OSError: no such file.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None


def only(table: Mapping[str, Any], known: Sequence[str], *, prefix: str = "", says: str = "there is no key") -> None:
    """Reject unknown keys.

    Args:
        table: whose keys are looked at.
        known: the allowed keys.
        prefix: of the unknown keys in the message, such as "optimizer.".
        says: the beginning of the message.

    Raises:
        ValueError: a key that is not in ``known``.
    """
    unknown = [prefix + key for key in table if key not in known]
    if unknown:
        raise ValueError(f"{says} {', '.join(unknown)}; there are {', '.join(known)}")


def said(table: Mapping[str, Any], key: str) -> str:
    """The words under a key, on one line.

    Raises:
        ValueError: the key has no words.
    """
    value = table.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError(key, "say something", value)
    return " ".join(value.split())


def listed(table: Mapping[str, Any], key: str) -> tuple[Any, ...]:
    """What is listed under a key.

    Raises:
        ValueError: nothing.
    """
    value = table.get(key)
    if not isinstance(value, list) or not value:
        raise ArgumentError(key, "say something", value)
    return tuple(value)
