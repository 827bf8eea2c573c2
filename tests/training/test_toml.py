"""What the readers of all TOML files share."""

from pathlib import Path

import pytest

from dptheory.training import _toml
from tests.refused import refused


def test_a_file_is_read_or_named(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('a = {b = "ü"}', encoding="utf-8")
    assert _toml.read_toml(path) == {"a": {"b": "ü"}}
    for content in (b"a = ", b"a = '\xff'"):
        path.write_bytes(content)
        with pytest.raises(ValueError) as refused:
            _toml.read_toml(path)
        assert str(refused.value).startswith(f"{path} is not TOML: ")


def test_unknown_keys_are_named_in_their_order() -> None:
    _toml.only({"a": 1}, ("a", "b"))
    with pytest.raises(ValueError, match=r"^there is no key d, c; there are a, b$"):
        _toml.only({"d": 1, "a": 1, "c": 1}, ("a", "b"))
    with pytest.raises(ValueError, match=r"^the run has no key x\.c; there are a$"):
        _toml.only({"c": 1}, ["a"], prefix="x.", says="the run has no key")


def test_words_on_one_line_and_lists() -> None:
    table = {"words": " of\n one  line ", "list": [1, 2], "blank": " \n", "number": 3, "none": []}
    assert _toml.said(table, "words") == "of one line" and _toml.listed(table, "list") == (1, 2)
    for key in ("blank", "number", "none", "list", "gone"):
        with refused(key):
            _toml.said(table, key)
    for key in ("blank", "number", "none", "words", "gone"):
        with refused(key):
            _toml.listed(table, key)
