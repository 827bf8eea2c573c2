"""Writing result files so that a reader never meets half of one."""

import errno
import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, content: str | bytes, *, mode: int | None = None) -> None:
    """Write to a temporary name beside ``path``, then rename; an interruption leaves the old file or none.

    A link is followed; a pipe or a device, which cannot be half written, is written to. ``mode``: permission bits;
    None for those that it has, or that a new file gets.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    if mode is None:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def require_writable(path: Path) -> None:
    """Make sure that a file can be written, before the work whose result it is to hold; nothing is left behind."""
    path = path.resolve()
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
        return


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
