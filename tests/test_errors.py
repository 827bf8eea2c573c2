"""Errors, and files that appear whole."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dptheory.errors import ArgumentError, ArgumentTypeError, ConditionError
from dptheory.files import require_writable, write_atomically

# Errors carry what a program asks of them, also from another process; `tests/test_bad_input.py` holds who raises them


ERRORS = [
    ArgumentError("keep", "be in 1..10", 11),
    ArgumentError("first and second", "have one shape", (2, 3), got="shapes (2,) and (3,)", then="; cut one"),
    ArgumentTypeError("inner", "be a mechanism", "dp-sgd"),
    ConditionError("gep.thm3.3", "epsilon", "be below 2", 3.0),
]


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_argument_value_and_message_cross_processes(error: ArgumentError) -> None:
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is type(error) and str(found) == str(error) and vars(found) == vars(error)
    assert error.argument in str(error) and isinstance(error, ValueError)


def test_the_message_names_argument_and_value() -> None:
    plain, told, _, condition = ERRORS
    assert (
        str(plain).startswith("keep ") and str(plain).endswith(" 11") and (plain.argument, plain.value) == ("keep", 11)
    )
    assert str(told).endswith("shapes (2,) and (3,); cut one") and told.value == (2, 3)
    assert isinstance(ERRORS[2], TypeError)
    assert isinstance(condition, ConditionError) and condition.claim == "gep.thm3.3" and "gep.thm3.3" in str(condition)


def test_the_same_error_of_another_name_or_in_other_words() -> None:
    error = ERRORS[0].renamed("--keep")
    assert (error.argument, error.value) == ("--keep", 11) and str(error) == f"--{ERRORS[0]}"
    other = ERRORS[0].retold("too many")
    assert (other.argument, other.value, str(other)) == ("keep", 11, "too many")


# --- Files appear whole or not at all ---


def test_writes_text_and_bytes_into_a_new_folder(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a" / "b.txt", "é")
    write_atomically(tmp_path / "a" / "b.bin", b"\x00")
    assert (tmp_path / "a" / "b.txt").read_bytes() == "é".encode()
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["b.bin", "b.txt"]


def test_links_are_followed_and_pipes_are_written_to(tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink() and target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(pipe.read_text)
        write_atomically(pipe, "through")
        assert reader.result(timeout=600) == "through"
    assert pipe.is_fifo()


def test_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path, "x")


def test_an_interruption_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "result.json"
    write_atomically(target, "old")

    def interrupted(self: Path, other: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(target, "new")
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_a_device_can_be_written_and_keeps_its_place(tmp_path: Path) -> None:
    require_writable(Path(os.devnull))
    assert Path(os.devnull).is_char_device()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    require_writable(pipe)
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]
