"""Docstrings for Sphinx: our one-line sections become headed ones, and a formula in plain text stays as it is written."""

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

_LITERAL = re.compile(r"(``.+?``|:\w+:`.+?`)")
_SPECIAL = re.compile(r"\\[*|_`]|[*|\\_`]")
"""What is escaped in the docstring already stays as it is."""
_NAMES = re.compile(r" +\w+(, \w+)*: ")
_ONE_LINE = re.compile(r"(Source|Example): ?(.*)")


def readable(lines: list[str]) -> list[str]:
    """A docstring as reStructuredText: ``Source:`` and ``Example:`` as sections, markup characters of formulas escaped.

    Args:
        lines: of the docstring, without its common indentation.

    Returns:
        The new lines.
    """
    out: list[str] = []
    example = math = False
    for line in lines:
        found = _ONE_LINE.fullmatch(line)
        math = line.startswith(".. math::") or (math and (not line.strip() or line.startswith(" ")))
        if found and found[1] == "Example":
            example = True
            out += ["", ".. rubric:: Example", "", _escaped(found[2]), ""]
        elif found:
            out += ["", "Source:", f"    {_escaped(found[2])}"]
        else:
            out.append(line.removeprefix("    ") if example else line if math else _escaped(line))
    return out


def _escaped(line: str) -> str:
    """Names of arguments in front of their colon stay: Napoleon reads them."""
    names = _NAMES.match(line)
    start = names.end() if names else 0
    parts = enumerate(_LITERAL.split(line[start:]))
    return line[:start] + "".join(part if i % 2 else _SPECIAL.sub(_with_backslash, part) for i, part in parts)


def _with_backslash(found: re.Match[str]) -> str:
    return found[0] if len(found[0]) == 2 else f"\\{found[0]}"


def _process(_app: Sphinx, _what: str, _name: str, _one: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = readable(lines)


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("autodoc-process-docstring", _process, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
