"""A file of JSON objects, one a line, that grows: what was interrupted costs at most its last line."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Line = Mapping[str, Any]


class JsonLines:
    """The lines of a file, and those to come.

    Args:
        path: of the file, which need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def lines(self) -> list[Line]:
        """All of them, but one that was cut off."""
        if not self._path.exists():
            return []
        return [line for line in map(_read, self._path.read_text("utf-8").splitlines()) if line is not None]

    def add(self, line: Line) -> None:
        """In one write, as several processes may add; behind a line that was cut off on a new one."""
        with self._path.open("ab+") as file:
            cut = False
            if file.tell():
                file.seek(-1, os.SEEK_END)
                cut = file.read(1) != b"\n"
            file.write(("\n" * cut + json.dumps(line) + "\n").encode())


def _read(text: str) -> Line | None:
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None
