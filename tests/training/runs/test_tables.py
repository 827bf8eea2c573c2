"""What the readers of all TOML files share."""

from pathlib import Path

import pytest

from dptheory.training.runs import _tables
from tests.refused import refused


def test_a_file_is_read_or_named(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('a = {b = "ü"}', encoding="utf-8")
    assert _tables.read_toml(path) == {"a": {"b": "ü"}}
    for content in (b"a = ", b"a = '\xff'"):
        path.write_bytes(content)
        with pytest.raises(ValueError) as refused:
            _tables.read_toml(path)
        assert str(refused.value).startswith(f"{path} is not TOML: ")


def test_unknown_keys_are_named_in_their_order() -> None:
    _tables.only({"a": 1}, ("a", "b"))
    with pytest.raises(ValueError, match=r"^there is no key d, c; there are a, b$"):
        _tables.only({"d": 1, "a": 1, "c": 1}, ("a", "b"))
    with pytest.raises(ValueError, match=r"^the run has no key x\.c; there are a$"):
        _tables.only({"c": 1}, ["a"], prefix="x.", says="the run has no key")


def test_words_on_one_line_and_lists() -> None:
    table = {"words": " of\n one  line ", "list": [1, 2], "blank": " \n", "number": 3, "none": []}
    assert _tables.said(table, "words") == "of one line" and _tables.listed(table, "list") == (1, 2)
    for key in ("blank", "number", "none", "list", "gone"):
        with refused(key):
            _tables.said(table, key)
    for key in ("blank", "number", "none", "words", "gone"):
        with refused(key):
            _tables.listed(table, key)
