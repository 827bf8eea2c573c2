"""Pages and README read on a code host as they are written: what of a page's mathematics its Markdown would spoil.

Such a host reads a page as CommonMark first and looks for formulas in what is left. So a formula must come out of Markdown as
it went in: a backslash before punctuation loses itself, and ``_`` or ``*`` can turn into emphasis.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from dptheory import claims
from dptheory.claims import Claim
from tests.every import every

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


ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "proofs").rglob("*.md"))]


@every(PAGES)
def test_no_formula_is_spoilt(page: Path) -> None:
    assert spoilt_formulas(page.read_text(encoding="utf-8")) == []


@every(claims.all_claims())
def test_no_formula_of_a_row_is_spoilt(claim: Claim) -> None:
    texts = (
        claim.statement,
        claim.summary,
        *claim.key_points,
        claim.correction or "",
        claim.printed_error or "",
        claim.for_users,
        *claim.conditions,
    )
    assert [found for text in texts for found in spoilt_formulas(text)] == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (r"the norm $a\,b$ of it", "Markdown changes"),
        (r"the set $\{1, 2\}$", "Markdown changes"),
        (r"the rows $\begin{matrix}a\\b\end{matrix}$", "Markdown changes"),
        (r"the rates $r^*$ and $s^*$", "Markdown changes"),
        (r"the errors $\mathrm{MSE}_t$ and $\mathrm{MSE}_{t0}$", "Markdown changes"),
        ("a cell of a table\n\n| a | b |\n|---|---|\n| $|x|$ | 1 |", "without its partner"),
        ("the sum\n\n$$a\n+ b$$", "without its partner"),
        ("the comparison $a<b>c$", "Markdown changes"),
        (r"the inverse $\operatorname{arccot}x$", "hosts refuse"),
        ("the product $a~b$", "strikes through"),
        ("the text $$x$$ beside it", "lines of its own"),
        ("the blank $x $ in it", "blank beside"),
        ("the sum $a\n+b$ over two lines", "over its end"),
        ("the top-$k$ entries", "before"),
        ('the "$k$ entries"', "before"),
        ("the $k$th entry", "after"),
    ],
)
def test_what_markdown_spoils_is_found(text: str, reason: str) -> None:
    assert any(reason in found for found in spoilt_formulas(text))


@pytest.mark.parametrize(
    "text",
    [
        r"the norm $a\thinspace b$ of $\lbrace1, 2\rbrace$ at $r^\ast$, $s^\ast$ ($k$), $k$-th",
        r"the errors $\mathrm{MSE}_ t$ and $\mathrm{MSE}_{t0}$; `$x$, *` is code, **$y$** is bold",
        "the sum\n\n$$a\n+b\\qquad c_{i}$$\n\nends",
        "| a | b |\n|---|---|\n| $\\lvert x\\rvert$ | $\\|x\\|$ |",
        "```python\nprice = '$1, $2 and $'\n```",
    ],
)
def test_what_markdown_keeps_is_not_found(text: str) -> None:
    assert spoilt_formulas(text) == []
