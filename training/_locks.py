"""Which process has a run: a lock of the operating system, freed when the process ends, however it ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = ".run.lock"


@contextmanager
def only_here(folder: Path, name: str = LOCK) -> Iterator[None]:
    """Keep other processes out of the folder, which is made where there is none. The empty file means nothing.

    Args:
        folder: which is this process's own meanwhile.
        name: of the file that is locked.

    Raises:
        BlockingIOError: another process has it.
        OSError: the folder cannot be made or written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    held = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(held)


def taken(folder: Path) -> bool:
    """Whether a process has the folder now."""
    if not (folder / LOCK).exists():
        return False
    try:
        with only_here(folder):
            return False
    except BlockingIOError:
        return True
