"""Files appear whole or not at all."""

from pathlib import Path

import pytest

from dptheory.files import write_atomically


def test_writes_text_and_bytes_into_a_new_folder(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a" / "b.txt", "é")
    write_atomically(tmp_path / "a" / "b.bin", b"\x00")
    assert (tmp_path / "a" / "b.txt").read_bytes() == "é".encode()
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["b.bin", "b.txt"]


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
