"""A file of JSON objects, one a line, that grows: what is interrupted costs at most the line that it was writing."""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Line = Mapping[str, Any]


class JsonLines:
    """The lines of a file, and those to come; several processes may add and read at the same time.

    Args:
        path: of the file, which need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def lines(self) -> list[Line]:
        """All of them. A last line that is being written, or was cut off, is none yet.

        Raises:
            ValueError: another line is no JSON object.
        """
        try:
            *whole, last = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        found = [self._read(number, text) for number, text in enumerate(whole, 1) if text.strip()]
        return [*found, *([self._read(len(whole) + 1, last)] if _is_json(last) else [])]

    def add(self, line: Line, *, allow_nan: bool = True) -> None:
        """Put a line at the end; it is on the disk when this returns.

        Args:
            line: what it holds.
            allow_nan: also NaN and infinity, which Python reads and JSON does not have.

        Raises:
            ValueError: it holds one of these where they are not allowed.
            OSError: the file cannot be written.
        """
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
            raise ValueError(f"{self._path}, line {number}, must be a JSON object: {error}") from None
        if not isinstance(found, dict):
            raise ValueError(f"{self._path}, line {number}, must be a JSON object, got {type(found).__name__}")
        return found


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
