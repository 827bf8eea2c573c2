"""The proof pages: there is one per claim, with all that its verdict asks for, and what is generated is not stale."""

import ast
import itertools
import json
import math
import os
import re
from pathlib import Path

import pytest

from dptheory import claims
from dptheory.claims import Claim, Verdict, _markdown, _pages, page_markdown
from tests.every import every
from tests.refused import refused

ROOT = Path(__file__).parents[1]
PROOFS = ROOT / "proofs"
ARGUED = [claim for claim in claims.all_claims() if claim.verdict is not Verdict.EMPIRICAL]
STALE = "run `dptheory pages proofs`"
_LONGEST_CELL = 200
_SCREEN = 60
_A_PHRASE = 40


def test_ledger_page_is_fresh() -> None:
    assert (PROOFS / "README.md").read_text(encoding="utf-8") == claims.ledger_markdown(claims.all_claims()), STALE


def test_the_page_of_what_a_kernel_checked_counts_right() -> None:
    assert _markdown.kernel_counts(claims.all_claims()) in (PROOFS / "kernel.md").read_text(encoding="utf-8")
    one = claims.get("rs.lem3.3")
    assert "| all | 1 | 1 | 0 | 0 | 0 | 1 |" in _markdown.kernel_counts([one, claims.get("rs.kappa")])
    shown = _markdown.kernel_statements([one, claims.get("rs.kappa")], PROOFS)
    assert "Theorem printed_is_false : ~ printed." in shown and "rs.kappa" not in shown
    assert one.kernel_says is not None and one.kernel_says[1:] in page_markdown(one)
    assert "ernel-checked" not in page_markdown(claims.get("rs.kappa"))


def test_the_page_of_our_own_results_is_fresh() -> None:
    expected = _pages.own_results_markdown(claims.all_claims(), PROOFS)
    assert (PROOFS / "new.md").read_text(encoding="utf-8") == expected, STALE


def test_every_result_of_ours_stands_on_one_page_with_what_it_changes() -> None:
    text = (PROOFS / "new.md").read_text(encoding="utf-8")
    cells = {
        row[1].split("](")[1].rstrip(") "): [cell.strip() for cell in row[2:5]]
        for line in text.splitlines()
        if line.startswith("| [") and (row := re.split(r"(?<!\\)\|", line))
    }
    assert set(cells) == {claim.page for claim in claims.all_claims() if claim.ours} | METHODS
    assert [page for page, row in cells.items() if not all(row)] == []
    said = [claim for claim in claims.all_claims() if claim.for_users]
    assert [claim.id for claim in said if not claim.ours] == []
    pages = [(PROOFS / claim.page).read_text(encoding="utf-8") for claim in said]
    rest = [page.replace(claim.for_users, "", 1) for claim, page in zip(said, pages, strict=True)]
    beyond = [_numbers(claim.for_users) - _numbers(page) for claim, page in zip(said, rest, strict=True)]
    assert dict(zip([claim.id for claim in said], beyond, strict=True)) == {claim.id: set() for claim in said}


def test_a_page_of_a_method_says_what_it_proves_and_changes(tmp_path: Path) -> None:
    (tmp_path / "privacy").mkdir()
    page = tmp_path / "privacy" / "method.md"
    page.write_text("# A method\n\n**In one sentence.** It works.\n\nThis page has no row in the ledger.\n")
    with refused("page", page):
        _pages.own_results_markdown((), tmp_path)
    page.write_text(f"{page.read_text()}\n**For a user.** Less noise.\n\n**Checked.** proof.\n")
    shown = _pages.own_results_markdown((), tmp_path)
    assert "| [A method](privacy/method.md) | It works. | Less noise. | proof. |" in shown


_CORRECTION = {
    Verdict.HOLDS: "In full",
    Verdict.LOOSE: "Sharper",
    Verdict.CONDITIONAL: "Corrected",
    Verdict.FALSE: "Corrected",
    Verdict.NOT_SHOWN: "Corrected",
}
_MUST_CORRECT = (Verdict.CONDITIONAL, Verdict.FALSE, Verdict.NOT_SHOWN)


def sections_of(claim: Claim, headings: list[str]) -> list[str]:
    """The sections that the verdict asks for, in their order; those that a page may leave out only where it has them."""
    correction = _CORRECTION[claim.verdict]
    may = [
        "Key points",
        "Where the print errs",
        "The paper's side",
        *([] if claim.verdict in _MUST_CORRECT else [correction]),
    ]
    shown = ["Figure"] if claim.figure else []
    proof = ["Proof", *(["Counterexample"] if claim.verdict in _MUST_CORRECT else []), "Use instead", *shown]
    order = ["Key points", "Statement", correction, "Conditions", "Where the print errs", "The paper's side", *proof]
    return [one for one in order if one in headings or one not in may]


_KNOWN = {
    *_CORRECTION.values(),
    "Key points",
    "Statement",
    "Conditions",
    "Where the print errs",
    "The paper's side",
    "Proof",
    "Use instead",
}


@every(ARGUED)
def test_a_page_has_what_its_verdict_asks_for(claim: Claim) -> None:
    text = (PROOFS / claim.page).read_text(encoding="utf-8")
    assert text.startswith(_markdown.opening(claim) + "\n\n"), "the title, and where the paper says it"
    top = text.split("\n## ")[0]
    assert next(line for line in top.splitlines() if line.startswith("**")) == (
        f"{_markdown.verdict_in_bold(claim)}{claim.summary}"
    )
    assert claim.kernel is None or (PROOFS / "kernel" / claim.kernel).is_file()
    assert claim.part_of is None or f"The mistake is that of [`{claim.part_of}`](" in top
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    wanted = sections_of(claim, headings)
    assert [one for one in headings if one in {*wanted, *_KNOWN}] == wanted, f"{claim.page}: sections in this order"
    assert len(headings) == len(set(headings))
    assert "```python" in text and "Evidence" not in headings


@every(ARGUED)
def test_what_a_page_says_is_read_back_and_stands_once(claim: Claim) -> None:
    """Every line before the proof belongs to one text of the row: no line is lost, and none is a second copy."""
    text = (PROOFS / claim.page).read_text(encoding="utf-8").split("\n## Proof")[0]
    body = "\n".join(text.removeprefix(_markdown.opening(claim)).splitlines())
    said = [
        claim.summary,
        claim.for_users,
        claim.questions,
        claim.statement,
        claim.correction,
        claim.printed_error,
        claim.paper_side,
    ]
    texts = [one for one in (*said, *claim.key_points, *claim.conditions) if one]
    for one in sorted(texts, key=len, reverse=True):
        assert one in body, one
        body = body.replace(one, "", 1)
    left = {line.strip("- ") for line in body.splitlines() if not line.startswith("## ")}
    frame = {"", _markdown.verdict_in_bold(claim).strip(), "**For a user.**", "**Answers.**", "None."}
    assert {line for line in left - frame if not line.startswith("The mistake is that of [")} == set()
    within = [one for one, other in itertools.permutations(texts, 2) if len(one) > _A_PHRASE and one in other]
    assert within == [], "stands in another text of the page, too"


_QUOTE = re.compile(r'> "(?P<words>.+)" \((?P<place>.+)\)\n\n(?P<answer>.+)', re.DOTALL)
_TEXTS = {
    "rf": "random_freeze",
    "rs": "random_sparsification",
    "lf": "layer_freezing",
    "gep": "gradient_embedding_perturbation",
    "gip": "gradient_index_pruning",
}
_PAPERS = Path(os.environ.get("DPTHEORY_PAPERS", ROOT.parent / "shared" / "papers"))
JUDGED = [claim for claim in ARGUED if claim.verdict is not Verdict.HOLDS and not claim.ours]


@every(JUDGED)
def test_the_papers_strongest_words_for_the_other_side_are_quoted_and_met(claim: Claim) -> None:
    assert _QUOTE.fullmatch(claim.paper_side), claim.paper_side


def _letters(text: str) -> str:
    """Without white space and the marks of mathematics and emphasis, which the copies of the papers set differently."""
    return re.sub(r"[\s*$\\]", "", text)


@pytest.mark.skipif(not _PAPERS.is_dir(), reason="the papers' texts are not here")
def test_every_quote_stands_word_for_word_in_the_paper() -> None:
    texts = {key: _letters((_PAPERS / f"{name}.txt").read_text(encoding="utf-8")) for key, name in _TEXTS.items()}
    quoted = [(c, found["words"]) for c in JUDGED if (found := _QUOTE.fullmatch(c.paper_side))]
    assert [c.id for c, words in quoted if _letters(words) not in texts[c.source.paper]] == []
    assert [c.id for c, words in quoted if len(words.split()) < 4 and c.id != "rs.fig1"] == []


def test_the_words_of_the_ledger_stand_in_no_module() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in Path(claims.__file__).parent.glob("*/*.py")]
    strings = [node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    code = "\n".join(" ".join(one.split()) for one in strings if isinstance(one, str))
    twice = []
    for claim in claims.all_claims():
        texts = (claim.summary, claim.statement, claim.correction or "", claim.printed_error or "", *claim.conditions)
        lines = {" ".join(line.split()) for text in texts for line in text.splitlines()}
        twice += [(claim.id, line) for line in lines if len(line) > _A_PHRASE and line in code]
    assert twice == []


@every(ARGUED)
def test_every_claim_has_a_summary_in_one_line(claim: Claim) -> None:
    assert claim.summary and "\n" not in claim.summary


def test_cells_of_the_ledger_can_be_scanned() -> None:
    rows = [line for line in (PROOFS / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [cell for row in rows for cell in re.split(r"(?<!\\)\|", row)]
    assert [cell for cell in cells if len(cell.strip()) > _LONGEST_CELL] == []


def _lines_of_proof(page: str) -> int:
    """Lines of 120 characters from the proof on, code apart."""
    below = page.split("\n## Proof")[1]
    prose = re.sub(r"^```.*?^```", "", below, flags=re.DOTALL | re.MULTILINE)
    return sum(max(1, math.ceil(len(line) / 120)) for line in prose.splitlines())


@every(ARGUED)
def test_a_page_longer_than_a_screen_begins_with_its_key_points(claim: Claim) -> None:
    text = (PROOFS / claim.page).read_text(encoding="utf-8")
    assert claim.key_points or _lines_of_proof(text) <= _SCREEN
    if claim.key_points:
        assert 3 <= len(claim.key_points) <= 6
        assert text.index("\n## Key points\n") < text.index("\n## Statement\n")


@every([one for one in ARGUED if one.key_points])
def test_key_points_say_nothing_that_the_page_does_not(claim: Claim) -> None:
    page = (PROOFS / claim.page).read_text(encoding="utf-8")
    before, after = page.split("## Key points\n")
    rest = before + after.split("## Statement")[1]
    points = " ".join(claim.key_points)
    assert _numbers(points) - _numbers(rest) == set()
    calculators = {one.__qualname__.split(".")[0] for one in claim.calculators} | set(re.findall(r"\w+", rest))
    assert set(re.findall(r"`(\w+)`", points)) <= calculators
    assert [point for point in claim.key_points if not _stands_there(point, rest)] == []


def test_lines_of_proof_leave_out_code() -> None:
    page = "\n".join(["head", "## Proof", "a" * 121, "```python\na = 1\n```", "b"])
    assert _lines_of_proof(page) == 1 + 2 + 1 + 1


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


def _numbers(text: str) -> set[str]:
    """Decimal numbers, with or without their leading zero, and whole ones of two digits or more."""
    text = re.sub(r"\\thinspace|(?<=\d),(?=\d{3})|(?<=\d)\{,\}(?=\d)", "", text)
    text = re.sub(r"\\(?!frac)[a-zA-Z]+", " ", text)  # of \approx2.7 the number is 2.7
    found = re.findall(r"(?<![\w.])\d*\.\d+|(?<![\w.])\d{2,}(?![\w.]*\d)", text)
    return {number if number[0] != "." else f"0{number}" for number in found}


def _anchors(page: Path) -> set[str]:
    """What a code host makes of the headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _dead_links(text: str, page: Path) -> list[str]:
    """Links and pictures of the text, as it would stand in the page, whose file or heading is not there."""
    found = re.findall(r"\]\(([^)\s]*)\)", text)
    relative = [target for target in found if not target.startswith(("http:", "https:"))]
    dead = []
    for target in relative:
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.is_relative_to(ROOT) or not file.exists() or (anchor and anchor not in _anchors(file)):
            dead.append(target)
    return dead


@every([ROOT / "README.md", *sorted(PROOFS.rglob("*.md"))])
def test_links_and_pictures_exist(page: Path) -> None:
    assert _dead_links(page.read_text(encoding="utf-8"), page) == []


def test_a_dead_link_is_found() -> None:
    alive = ["lem2.1.md", "../README.md#random-freeze-rf", "#proof", "../../README.md", "https://example.org/x"]
    dead = ["lem2.2.md", "../README.md#nowhere", "#prof", "/etc/hosts", "../../../README.md", "../../dptheory/lf.py"]
    text = " ".join(f"[x]({target})" for target in (*alive, *dead))
    assert _dead_links(text, PROOFS / "lf" / "lem3.1.md") == dead


@every(ARGUED)
def test_the_whole_page_links_to_all_that_belongs_to_its_claim(claim: Claim) -> None:
    text = page_markdown(claim)
    files = [file for file in claim.files if not file.startswith(("proofs/", "figures/"))]
    linked = [f"](../../{file})" for file in files] + ([f"](../figures/{claim.figure}.png)"] if claim.figure else [])
    assert [link for link in (*linked, "](../README.md#") if link not in text] == []
    assert [one.name for one in claim.checks if _markdown.one_row((one.name, one.kind.value)) not in text] == []
    assert _dead_links(text, PROOFS / claim.page) == []


@pytest.mark.parametrize("paper", claims.PAPERS)
def test_whole_pages_of_a_paper_form_a_chain(paper: str) -> None:
    pages = [claim for claim in ARGUED if claim.source.paper == paper]
    for one, after in itertools.pairwise(pages):
        assert f"next: [`{after.id}`](" in page_markdown(one)
        assert f"previous: [`{one.id}`](" in page_markdown(after)


def test_the_whole_page_of_measured_claims_has_them_all() -> None:
    measured = claims.all_claims(verdict=Verdict.EMPIRICAL)
    text = page_markdown(measured[0])
    assert re.findall(r"^## (\S+): ", text, re.MULTILINE) == [claim.id for claim in measured]
    assert all(line in text for claim in measured if claim.answer for line in claim.answer.lines())
    assert _dead_links(text, PROOFS / measured[0].page) == []


METHODS = {f"privacy/{page.name}" for page in (PROOFS / "privacy").glob("*.md")}
"""Pages that prove a method of ours and no claim of a paper: without a row, named by the module that they prove."""


def _studies() -> list[str]:
    """Those that have a comparison."""
    return list(json.loads((PROOFS / "results.json").read_text(encoding="utf-8")))


def test_no_page_without_a_claim() -> None:
    own = {
        "README.md",
        *(f"guides/{page.name}" for page in (PROOFS / "guides").glob("*.md")),
        "glossary.md",
        "kernel.md",
        "new.md",
        "opacus.md",
        "practice.md",
        "refute.md",
        "results.md",
        "results/accountants.md",
        "results/audits.md",
        "results/baselines.md",
        "results/plan.md",
        *(f"results/{page}.md" for page in ("claims", "instruments", *_studies())),
        "planning.md",
        "speed.md",
    }
    own |= {f"{paper}/erratum.md" for paper in claims.PAPERS}
    known = {claim.page for claim in claims.all_claims()} | own | METHODS
    found = {str(page.relative_to(PROOFS)) for page in PROOFS.rglob("*.md")}
    assert {page for page in found if not page.startswith("website/")} == known  # the site's own pages prove nothing


@pytest.mark.parametrize("page", sorted(METHODS))
def test_a_method_page_is_named_by_code(page: str) -> None:
    room = PROOFS.parent / "dptheory" / Path(page).parent
    assert any(f"proofs/{page}" in module.read_text(encoding="utf-8") for module in room.rglob("*.py"))
    assert "## Proof" in (PROOFS / page).read_text(encoding="utf-8")
