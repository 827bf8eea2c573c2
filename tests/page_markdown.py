"""What of a page's mathematics a code host's Markdown would spoil.

Such a host reads a page as CommonMark first and looks for formulas in what is left. So a formula must come out of Markdown as
it went in: a backslash before punctuation loses itself, and ``_`` or ``*`` can turn into emphasis.
"""

import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

_MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_FORMULA = re.compile(r"\$\$.+?\$\$|\$[^$]+\$", re.DOTALL)
_REFUSED = re.compile(r"\\(?:operatorname|mbox|newcommand|def|phantom|label|require)\b")
"""Macros that hosts switch off."""


def spoilt_formulas(page: str) -> list[str]:
    """Each formula that a code host would not show as it is written, with the reason."""
    return [
        found
        for token in _MARKDOWN.parse(page)
        if token.type == "inline" and "$" in token.content
        for found in _spoilt(token)
    ]


def _spoilt(paragraph: Token) -> Iterator[str]:
    source = _CODE.sub(lambda code: "`" * len(code[0]), paragraph.content)
    if "$" in _FORMULA.sub("", source):
        yield f"a $ without its partner: {source}"
    rendered = _plain(paragraph.children or [])
    for found in _FORMULA.finditer(source):
        formula = found[0]
        before, after = source[: found.start()][-1:], source[found.end() :][:1]
        if formula not in rendered:
            yield f"Markdown changes {formula}: write \\thinspace, \\lbrace, \\ast, \\cr, or a space after the first _"
        if "~" in formula:
            yield f"~ strikes through: {formula}"
        if _REFUSED.search(formula):
            yield f"hosts refuse the macro of {formula}"
        if formula.startswith("$$"):
            if before not in ("", "\n") or after not in ("", "\n"):
                yield f"a displayed formula needs lines of its own: {formula}"
            continue
        if formula[1].isspace() or formula[-2].isspace():
            yield f"blank beside the $ of {formula}"
        if "\n" in formula:
            yield f"a formula within a line goes over its end: {formula}"
        if before not in ("", " ", "\n", "(", "*"):
            yield f"{before!r} before {formula}"
        if after.isalnum():
            yield f"{after!r} after {formula}"


def _plain(children: list[Token]) -> str:
    """The text of a paragraph; NUL where anything but text stands."""
    text = {"softbreak": "\n", "code_inline": "`"}
    return "".join(
        child.content if child.type in ("text", "text_special") else text.get(child.type, "\0") for child in children
    )
