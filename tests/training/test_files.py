"""Files of runs: lines, locks, and readers of TOML."""

import fcntl
import json
import multiprocessing
import os
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from dptheory.training import _files
from dptheory.training._files import JsonLines
from dptheory.training._machine import LOCK, only_here, taken
from tests.refused import refused

# A file that grows by lines: whole ones are kept, whatever happens while another is written, and by several
# processes at once


LINE = {"words": "two\nlines", "number": 1 / 3}
TEXT = json.dumps(LINE).encode()


def test_what_was_added_is_read_a_line_each(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "file.jsonl"
    held = JsonLines(path)
    assert held.lines() == [] and not path.exists()
    held.add(LINE)
    held.add({"b": [None, True]})
    assert held.lines() == JsonLines(path).lines() == [LINE, {"b": [None, True]}]
    assert path.read_bytes().count(b"\n") == 2 and path.read_bytes().endswith(b"\n")


@pytest.mark.parametrize("cut", range(1, len(TEXT) + 2))
def test_a_line_cut_off_anywhere_costs_that_line_alone(tmp_path: Path, cut: int) -> None:
    """It is left out while it is the last, and gone when another one is added; whole but for its end, it counts."""
    path = tmp_path / "file.jsonl"
    held = JsonLines(path)
    held.add({"a": 1})
    held.add(LINE)
    path.write_bytes(path.read_bytes()[:-cut])
    left = [{"a": 1}, *([LINE] if cut == 1 else [])]
    assert held.lines() == left
    held.add({"b": 2})
    assert held.lines() == [*left, {"b": 2}]
    assert [json.loads(line) for line in path.read_text().splitlines()] == [*left, {"b": 2}]


@pytest.mark.parametrize("bad", [b"{", b"<<<<<<< ours", b"[]", b"3", b"\xff"])
def test_a_whole_line_that_is_none_is_not_left_out(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(TEXT + b"\n" + bad + b"\n" + TEXT + b"\n")
    with refused(str(path), 2):
        JsonLines(path).lines()


def test_a_number_that_json_does_not_have(tmp_path: Path) -> None:
    held = JsonLines(tmp_path / "file.jsonl")
    with pytest.raises(ValueError, match="JSON"):
        held.add({"a": float("nan")}, allow_nan=False)
    assert held.lines() == []
    held.add({"a": float("inf")})
    assert held.lines() == [{"a": float("inf")}]


def test_who_is_in_the_middle_of_a_line_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks cut off before the lock is had may be whole after it."""
    path = tmp_path / "file.jsonl"
    path.write_bytes(TEXT[:9])

    def flock(file: object, how: int) -> None:
        assert how == fcntl.LOCK_EX
        path.write_bytes(TEXT + b"\n")

    monkeypatch.setattr(fcntl, "flock", flock)
    JsonLines(path).add({"b": 2})
    assert JsonLines(path).lines() == [LINE, {"b": 2}]


def _many(path: Path, name: str, start: Event) -> None:
    start.wait()
    for number in range(10):
        JsonLines(path).add({"name": name, "number": number, "long": name * 20_000})


def test_several_processes_add_and_one_reads(tmp_path: Path) -> None:
    """Lines longer than what a disk or a pipe takes in one piece: none is torn, none is lost."""
    path, context = tmp_path / "file.jsonl", multiprocessing.get_context("fork")
    start = context.Event()
    writers = [context.Process(target=_many, args=(path, name, start)) for name in "abc"]
    for one in writers:
        one.start()
    start.set()
    seen = [0]
    while any(one.is_alive() for one in writers):
        seen.append(len(JsonLines(path).lines()))
    for one in writers:
        one.join()
        assert one.exitcode == 0
    found = JsonLines(path).lines()
    assert seen == sorted(seen)
    for name in "abc":
        own = [line for line in found if line["name"] == name]
        assert [line["number"] for line in own] == list(range(10)) and {line["long"] for line in own} == {name * 20_000}


# --- Which process has a run ---


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
    assert list(tmp_path.iterdir()) == [], "nothing is left of it"
    with pytest.raises(KeyError), only_here(tmp_path / "new"):
        raise KeyError
    assert not (tmp_path / "new").exists()
    with pytest.raises(KeyError), only_here(tmp_path / "new"):
        (tmp_path / "new" / "other").touch()
        raise KeyError
    assert {path.name for path in (tmp_path / "new").iterdir()} == {LOCK, "other"}


def test_a_lock_that_its_holder_removes_meanwhile_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opened before it was removed, locked after it: a third process would lock another file."""
    monkeypatch.setattr(fcntl, "flock", lambda held, how: (tmp_path / LOCK).unlink())
    with pytest.raises(BlockingIOError), only_here(tmp_path):
        pass


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


# --- What the readers of all TOML files share ---


def test_a_file_is_read_or_named(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('a = {b = "ü"}', encoding="utf-8")
    assert _files.read_toml(path) == {"a": {"b": "ü"}}
    for content in (b"a = ", b"a = '\xff'"):
        path.write_bytes(content)
        with refused(path.name, path):
            _files.read_toml(path)


def test_unknown_keys_are_named_in_their_order() -> None:
    _files.only({"a": 1}, ("a", "b"))
    with refused("d", "d, c", "a, b"):
        _files.only({"d": 1, "a": 1, "c": 1}, ("a", "b"))
    with refused("x.c", "the run has no key"):
        _files.only({"c": 1}, ["a"], prefix="x.", says="the run has no key")
    with refused("secur", "secure"):
        _files.only({"secur": 1}, ["a", "secure"])


def test_words_on_one_line_and_lists() -> None:
    table = {"words": " of\n one  line ", "list": [1, 2], "blank": " \n", "number": 3, "none": []}
    assert _files.said(table, "words") == "of one line" and _files.listed(table, "list") == (1, 2)
    for key in ("blank", "number", "none", "list", "gone"):
        with refused(key):
            _files.said(table, key)
    for key in ("blank", "number", "none", "words", "gone"):
        with refused(key):
            _files.listed(table, key)
