"""Which process has a run."""

import fcntl
import os
from pathlib import Path

import pytest

from dptheory.training._locks import LOCK, only_here, taken


def test_a_folder_is_held_by_one(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert taken(folder) is False and not folder.exists()
    with only_here(folder):
        assert taken(folder) is True
        with pytest.raises(BlockingIOError), only_here(folder):
            pass
    assert taken(folder) is False and (folder / LOCK).exists()


def test_it_is_free_again_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), only_here(tmp_path):
        raise KeyError
    assert taken(tmp_path) is False


def test_nobody_waits_and_everybody_may_take_the_lock(tmp_path: Path) -> None:
    """Another user's process too: the lock's file can be written by all whom the umask lets."""
    before = os.umask(0o002)
    try:
        with only_here(tmp_path):
            assert (tmp_path / LOCK).stat().st_mode & 0o777 == 0o664
    finally:
        os.umask(before)
    held = os.open(tmp_path / LOCK, os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert taken(tmp_path) is True
    os.close(held)
    assert taken(tmp_path) is False
