"""The part of a page that a module writes, between two markers."""

from collections.abc import Iterable
from pathlib import Path

END = "<!-- end -->"


def marked(module: str, lines: Iterable[str]) -> str:
    """What ``python -m module`` writes, with its markers."""
    return "\n".join((f"<!-- begin: written by python -m {module} -->", "", *lines, "", END))


def page(path: Path, new: str) -> str:
    """The page with ``new`` in the place of what its module wrote before."""
    before, rest = path.read_text(encoding="utf-8").split(new.split("\n", 1)[0])
    return before + new + rest.split(END)[1]
