"""Docstrings for Sphinx: our one-line sections become headed ones, and a formula in plain text stays as it is written."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

_LITERAL = re.compile(r"(``.+?``|:\w+:`.+?`)")
_SPECIAL = re.compile(r"\\[*|_`]|[*|\\_`]")
"""What is escaped in the docstring already stays as it is."""
_NAMES = re.compile(r" +\w+(, \w+)*: ")
_SHARED = re.compile(r" {4}(\w+(?:, \w+)+)(: .*)")
"""Attributes that are described together."""
_ONE_LINE = re.compile(r"(Source|Example): ?(.*)")


def readable(lines: list[str]) -> list[str]:
    """A docstring as reStructuredText: ``Source:`` and ``Example:`` as sections, an entry per attribute, formulas escaped."""
    out: list[str] = []
    example = math = typed = False
    for line in _one_name_each(lines):
        prompt = line.lstrip().startswith(">>>")
        if example and prompt and not typed:
            out.append("")  # else it would go on with the text above it
        typed = bool(line.strip()) and (typed or prompt)
        found = _ONE_LINE.fullmatch(line)
        math = line.startswith(".. math::") or (math and (not line.strip() or line.startswith(" ")))
        if found and found[1] == "Example":
            example = True
            out += ["", ".. rubric:: Example", "", _escaped(found[2]), ""]
        elif found:
            out += ["", "Source:", f"    {_escaped(found[2])}"]
        else:
            line = line.removeprefix("    ") if example else line
            out.append(line if math or typed else _escaped(line))
    return out


def _one_name_each(lines: list[str]) -> Iterator[str]:
    """Attributes that are described together, each with the description: Napoleon does so for arguments alone."""
    attributes = False
    names, shared = list[str](), list[str]()
    for line in [*lines, ""]:
        if shared and not line.startswith(" " * 5):
            for name in names:
                yield f"    {name}{shared[0]}"
                yield from shared[1:]
            shared = []
        attributes = line == "Attributes:" or (attributes and (line.startswith(" ") or not line))
        found = _SHARED.fullmatch(line) if attributes else None
        if found:
            names, shared = found[1].split(", "), [found[2]]
        elif shared:
            shared.append(line)
        else:
            yield line


def _escaped(line: str) -> str:
    """Names of arguments in front of their colon stay: Napoleon reads them."""
    names = _NAMES.match(line)
    start = names.end() if names else 0
    parts = enumerate(_LITERAL.split(line[start:]))
    return line[:start] + "".join(part if i % 2 else _SPECIAL.sub(_with_backslash, part) for i, part in parts)


def _with_backslash(found: re.Match[str]) -> str:
    return found[0] if len(found[0]) == 2 else f"\\{found[0]}"


def _process(_app: "Sphinx", _what: str, _name: str, _one: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = readable(lines)


def setup(app: "Sphinx") -> "ExtensionMetadata":
    app.connect("autodoc-process-docstring", _process, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
