"""Who comes from 0.2.0 finds each of its public names: where it was, or on the page that says what took its place."""

import importlib.util
import json
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = (HERE.parent / "proofs" / "guides" / "from_0_2.md").read_text(encoding="utf-8")
NAMES: dict[str, list[str]] = json.loads((HERE / "names_of_0_2.json").read_text(encoding="utf-8"))
"""The ``__all__`` of every package of 0.2.0, ``training`` under its new name."""
ROWS = [
    [cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.startswith("| `dptheory.")
]


def _has(package: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(package), name)
    except ModuleNotFoundError:
        return False


def test_every_name_that_is_gone_stands_on_the_page_and_no_other() -> None:
    gone = {(package, name) for package, names in NAMES.items() for name in names if not _has(package, name)}
    listed = {(row[0].strip("`"), name) for row in ROWS for name in re.findall(r"`(\w+)`", row[1])}
    assert listed == gone


def test_what_took_their_place_is_there() -> None:
    for package, names, successor in ROWS:
        for name in re.findall(r"`(\w+)`", names):
            if successor.startswith("the same name in"):
                assert _has(successor.split("`")[1], name), (name, successor)
        for path in re.findall(r"`(dptheory\.[\w.]+\.\w+)`", successor):
            assert _has(*path.rsplit(".", 1)) or importlib.util.find_spec(path), path
        for name in re.findall(r"`(\w+)`", successor):
            assert _has(package.strip("`"), name), name
