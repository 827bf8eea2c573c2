"""This machine, as results name it, and locks between its processes."""

import errno
import fcntl
import importlib.metadata
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

_PACKAGES = ("dptheory", "numpy", "scipy", "torch", "opacus")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that the numbers depend on; of torch the build too, such as 2.13.0+cu130."""
    installed = {p: importlib.metadata.version(p) for p in _PACKAGES}
    return {"python": platform.python_version()} | installed | {"torch": str(torch.__version__)}  # names the build


def device_name(device: torch.device) -> str:
    """The device in words, such as "cuda: NVIDIA A100"."""
    return f"cuda: {torch.cuda.get_device_name(device)}" if device.type == "cuda" else "cpu"


LOCK = ".run.lock"


@contextmanager
def only_here(folder: Path, name: str = LOCK) -> Iterator[None]:
    """Keep other processes out of a folder, made where there is none, by an empty file; BlockingIOError where another has it.

    After an error the file goes if nothing came beside it, and with it a folder that was made for it.
    """
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    held = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # its last holder removed the file after it was opened here: others lock another one
        if os.fstat(held).st_nlink == 0:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(folder / name))
        try:
            yield
        except BaseException:
            if [one.name for one in folder.iterdir()] == [name]:
                (folder / name).unlink()
                if made:
                    folder.rmdir()
            raise
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
