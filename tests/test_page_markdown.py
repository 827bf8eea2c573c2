"""Pages and README read on a code host as they are written."""

from pathlib import Path

import pytest

from dptheory import claims
from dptheory.claims import Claim
from tests.every import every
from tests.page_markdown import spoilt_formulas

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
