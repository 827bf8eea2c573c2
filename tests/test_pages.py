"""The proof pages: there is one a claim, it says what the ledger says, and what is generated is not stale."""

import re
from pathlib import Path

import pytest

from dptheory import claims
from dptheory.claims import Claim, Verdict
from dptheory.cli import _page_head, _tables

PROOFS = Path(__file__).parents[1] / "proofs"
ARGUED = [claim for claim in claims.all_claims() if claim.verdict is not Verdict.EMPIRICAL]
STALE = "run `dptheory pages proofs`"


def test_ledger_page_is_fresh() -> None:
    assert (PROOFS / "README.md").read_text(encoding="utf-8") == _tables.claims_markdown(claims.all_claims()), STALE


def test_measured_pages_are_fresh() -> None:
    for paper in {claim.source.paper for claim in claims.all_claims()}:
        expected = _tables.empirical_markdown(claims.all_claims(paper, Verdict.EMPIRICAL))
        assert (PROOFS / paper / "empirical.md").read_text(encoding="utf-8") == expected, STALE


@pytest.mark.parametrize("claim", ARGUED, ids=lambda claim: claim.id)
def test_page_agrees_with_the_ledger(claim: Claim) -> None:
    text = (PROOFS / claim.page).read_text(encoding="utf-8")
    assert text.startswith(_page_head.page_head(claim) + "\n"), STALE
    assert re.search(rf"^\*\*{claim.verdict.name}\*\*", text, re.MULTILINE)
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    required = ["Statement", "Conditions", "Proof", "Counterexample", "Use instead", "Evidence"]
    if claim.verdict in (Verdict.HOLDS, Verdict.LOOSE):
        required.remove("Counterexample")
    assert [heading for heading in headings if heading in required] == required
    assert "```python" in text
    assert len(headings) == len(set(headings))
    assert claim.figure is None or f"](../figures/{claim.figure}.png)" in text


@pytest.mark.parametrize("claim", ARGUED, ids=lambda claim: claim.id)
def test_every_claim_has_a_summary_in_one_line(claim: Claim) -> None:
    assert claim.summary and "\n" not in claim.summary


def test_cells_of_the_ledger_can_be_scanned() -> None:
    assert [c.id for c in claims.all_claims() if len(c.summary) > 300 or len(c.title) > 70] == []


_PLAIN = {
    "the", "and", "for", "with", "that", "this", "are", "not", "its", "from", "has", "have", "which", "each", "where", "any",
    "all", "one", "may", "only", "they", "than", "when", "into", "does", "same", "both", "over", "under", "must", "every",
    "given", "also", "there", "then", "those", "such", "more", "most", "these", "were",
}  # fmt: skip


def _words(text: str) -> set[str]:
    """Content words and numbers without their endings; of LaTeX the names."""
    text = re.sub(r"\\(?:texttt|text|mathrm|operatorname|mathbb|mathcal)\b", " ", text.lower())
    found = re.findall(r"[a-z]{4,}|\d+(?:\.\d+)?", re.sub(r"\\", " ", text))
    return {re.sub(r"(ing|ed|es|s|ly)$", "", word)[:6] for word in found if word not in _PLAIN}


def _stands_there(condition: str, text: str) -> bool:
    """At least half of its words do: a paraphrase passes, another condition does not."""
    words = _words(condition)
    return 2 * len(words & _words(text)) >= len(words)


@pytest.mark.parametrize("claim", ARGUED, ids=lambda claim: claim.id)
def test_conditions_of_the_row_stand_on_the_page(claim: Claim) -> None:
    before_the_proof = (PROOFS / claim.page).read_text().split("## Proof")[0]
    assert [c for c in claim.conditions if not _stands_there(c, before_the_proof)] == []


def _numbers(text: str) -> set[str]:
    """Decimal numbers, with or without their leading zero, and whole ones of two digits or more."""
    text = re.sub(r"\\thinspace|(?<=\d),(?=\d{3})|(?<=\d)\{,\}(?=\d)", "", text)
    text = re.sub(r"\\(?!frac)[a-zA-Z]+", " ", text)  # of \approx2.7 the number is 2.7
    found = re.findall(r"(?<![\w.])\d*\.\d+|(?<![\w.])\d{2,}(?![\w.]*\d)", text)
    return {number if number[0] != "." else f"0{number}" for number in found}


@pytest.mark.parametrize("claim", ARGUED, ids=lambda claim: claim.id)
def test_numbers_of_the_row_stand_on_the_page(claim: Claim) -> None:
    page = (PROOFS / claim.page).read_text().split("<!-- evidence:begin")[0]
    assert _numbers(f"{claim.statement} {claim.correction or ''}") - _numbers(page) == set()


@pytest.mark.parametrize("claim", ARGUED, ids=lambda claim: claim.id)
def test_page_holds_the_evidence_of_every_check(claim: Claim) -> None:
    text = (PROOFS / claim.page).read_text(encoding="utf-8")
    block = text.split("<!-- evidence:begin -->")[1].split("<!-- evidence:end -->")[0]
    rows = [line.split(" | ") for line in block.splitlines() if line.startswith("| ")][1:]
    assert [row[0].removeprefix("| ").replace(r"\|", "|") for row in rows] == [c.name for c in claim.checks], STALE
    assert all(row[2] == "yes" for row in rows)


@pytest.mark.parametrize("page", sorted(PROOFS.rglob("*.md")), ids=lambda page: page.stem)
def test_links_and_pictures_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).resolve().exists(), target


METHODS = {"privacy/saddle_line.md"}
"""Pages that prove a method of ours and no claim of a paper: without a row, named by the module that they prove."""


def test_no_page_without_a_claim() -> None:
    known = {claim.page for claim in claims.all_claims()} | {"README.md"} | METHODS
    assert {str(page.relative_to(PROOFS)) for page in PROOFS.rglob("*.md")} == known


@pytest.mark.parametrize("page", sorted(METHODS))
def test_a_method_page_is_named_by_code(page: str) -> None:
    room = PROOFS.parent / "dptheory" / Path(page).parent
    assert any(f"proofs/{page}" in module.read_text(encoding="utf-8") for module in room.glob("*.py"))
    assert "## Proof" in (PROOFS / page).read_text(encoding="utf-8")
