"""Files of conjectures: what they define, and one line for what is wrong with them."""

from pathlib import Path
from typing import Any

import pytest

from dptheory.checks import ConjectureError, read_conjectures, refute_file
from tests.refused import refused

GOOD = """
from dataclasses import dataclass
from dptheory.checks import Conjecture

@dataclass
class Row:
    size: "int"

def truth(n):
    return Row(n).size

second = Conjecture(claimed=lambda n: n, truth=truth, ranges={"n": range(3)})
first = Conjecture(claimed=lambda n: n, truth=truth, ranges={"n": range(3)})
_hidden = first
number = 3
"""


def test_conjectures_in_their_order_and_nothing_left_behind(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(GOOD)
    for path in (file, str(file)):
        assert list(read_conjectures(path)) == ["second", "first"]
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\n", r"mine.py.*Conjecture\("),
        ("", "mine.py.*Conjecture"),
        ("x = 1\ny = (\n", r"mine.py, line 2: .*'\('"),
        ("x = 1\n  y = 2\n", "mine.py, line 2: "),
        ("x = 1\nx / 0\n", "mine.py, line 2: ZeroDivisionError"),
        ("def f():\n    return 1 / 0\n\nf()\n", "mine.py, line 2: ZeroDivisionError"),
        ("import nothing_of_this_name\n", "mine.py, line 1: ModuleNotFoundError"),
        ("import sys\nsys.exit(0)\n", "mine.py, line 2: SystemExit: 0"),
        ("from dptheory.checks import Conjecture\n\nc = Conjecture(claimed=3, ranges={})\n", "line 3: ArgumentError: claimed"),
        ("raise ValueError('two\\nlines')\n", "mine.py, line 1: ValueError: two lines$"),
        (b"x = '\xff'\n", "mine.py.*: .*(utf-8|UTF-8)"),
        (b"x = 1\0\n", "mine.py.*: source code (string )?cannot contain null bytes"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_one_line(tmp_path: Path, text: str | bytes, says: str) -> None:
    file = tmp_path / "mine.py"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ConjectureError, match=says) as error:
        read_conjectures(file)
    assert "\n" not in str(error.value)


def test_outcomes_by_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(GOOD)
    assert list(refute_file(file)) == ["second", "first"] and list(refute_file(file, names=["first"])) == ["first"]
    assert not any(one.refuted for one in refute_file(file, seed=3).values())
    bad: list[tuple[str, Any]] = [("names", value) for value in ("first", [3], ["_hidden"], ["number"])]
    bad += [("budget", 0.0), ("budget", "1s"), ("seed", -1), ("path", None)]
    for name, value in bad:
        with refused(name):
            refute_file(**{"path": file} | {name: value})


def test_paths() -> None:
    bad: tuple[Any, ...] = (None, 3, "")
    for path in bad:
        with refused("path"):
            read_conjectures(path)
    with pytest.raises(OSError):
        read_conjectures("no-such-file.py")
