"""Writing the few pages that are generated and kept: the ledger, our own results, the errata's tables."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dptheory.claims._answer import PAPERS_SETTING, STATES
from dptheory.claims._claim import PAPERS, Claim, Severity, Verdict
from dptheory.claims._markdown import ledger_markdown, one_row, table_head
from dptheory.claims._registry import all_claims
from dptheory.errors import ArgumentError
from dptheory.files import write_atomically

# --- The generated part of an erratum: every verdict on a paper that its hand-written part has not given


_BEGIN, _END = "<!-- verdicts:begin -->", "<!-- verdicts:end -->"
_NOT_AS_PRINTED = (Verdict.FALSE, Verdict.NOT_SHOWN, Verdict.CONDITIONAL, Verdict.LOOSE)


def write_erratum(page: Path, paper: str) -> None:
    """Renew the table of verdicts in the erratum of a paper; what stands outside its markers stays."""
    text = page.read_text(encoding="utf-8")
    if (text.count(_BEGIN), text.count(_END)) != (1, 1):
        raise ArgumentError.about("page", page, f"{page} must hold the markers {_BEGIN} and {_END} once each")
    before, rest = text.split(_BEGIN)
    _, after = rest.split(_END)
    block = verdicts_markdown(paper, all_claims(), written=before + after)
    write_atomically(page, f"{before}{_BEGIN}\n{block}\n{_END}{after}")


def verdicts_markdown(paper: str, claims: Sequence[Claim], *, written: str) -> str:
    """How many statements have which verdict, what the hand-written part corrects, and a table of all others.

    Args:
        claims: the ledger; of the others' rows those whose label names this paper belong to it.
        written: the hand-written part; a claim whose page it links to is corrected there.
    """
    rows = [claim for claim in claims if concerns(claim, paper)]
    holding = [claim for claim in rows if claim.verdict is Verdict.HOLDS]
    failing = [claim for verdict in _NOT_AS_PRINTED for claim in rows if claim.verdict is verdict]
    failing.sort(key=lambda claim: -_gravity(claim))
    treated = [claim for claim in failing if f"]({_path(claim, paper)})" in written]
    rest = [claim for claim in failing if claim not in treated]
    lines = [
        "## All verdicts",
        "",
        f"From the ledger, whose head says what the words mean: {head_count(rows)}.{_measured(paper, claims)}",
        "",
        "HOLDS: " + "; ".join(f"{_link(claim, paper)}, {claim.title}" for claim in holding) + ".",
    ]
    if treated:
        lines += ["", "Above: " + "; ".join(f"{_link(claim, paper)} {claim.judgement}" for claim in treated) + "."]
    if rest:
        lines += ["", *table_head("the others", "verdict", "correction")]
    for claim in rest:
        cells = f"{_link(claim, paper)}, {claim.title}", claim.judgement, f"{claim.summary}{_part(claim)}"
        lines.append(one_row(cells))
    return "\n".join(lines)


def head_count(rows: Sequence[Claim]) -> str:
    """How many rows have which verdict, by the ledger's own definitions: LOOSE is true as printed, as HOLDS is."""
    counts = {verdict: sum(claim.verdict is verdict for claim in rows) for verdict in Verdict}
    true = counts[Verdict.HOLDS] + counts[Verdict.LOOSE]
    loose = f" ({counts[Verdict.LOOSE]} of them LOOSE)" if counts[Verdict.LOOSE] else ""
    by_severity = {one: sum(claim.severity is one for claim in rows) for one in reversed(Severity)}
    false = ", ".join(f"{count} {_plural(one, count)}" for one, count in by_severity.items() if count)
    return (
        f"of {len(rows)} statements {true} are true as printed{loose}, {counts[Verdict.CONDITIONAL]} CONDITIONAL, "
        f"{counts[Verdict.NOT_SHOWN]} NOT_SHOWN and {counts[Verdict.FALSE]} FALSE" + (f" ({false})" if false else "")
    )


def _measured(paper: str, claims: Sequence[Claim]) -> str:
    """What our runs saw of the paper's measured claims, and where."""
    answers = [claim.answer for claim in claims if claim.source.paper == paper and claim.answer is not None]
    counts = Counter(answer.state for answer in answers)
    told = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    small = all(answer.setting != PAPERS_SETTING for answer in answers)
    return f" [Measured](../results/claims.md){', in small settings' if small else ''}: {told}." if answers else ""


def _plural(severity: Severity, count: int) -> str:
    return "slips" if severity is Severity.SLIP and count > 1 else severity.name.lower()


def _gravity(claim: Claim) -> int:
    """The severity as a number, so that the worst comes first; 0 without one."""
    return list(Severity).index(claim.severity) + 1 if claim.severity else 0


def concerns(claim: Claim, paper: str) -> bool:
    """Argued in the paper, or in the other one with a label that names this one (they share lemmas)."""
    if claim.ours or claim.verdict is Verdict.EMPIRICAL:
        return False
    return claim.source.paper == paper or re.search(rf"\b{paper.upper()}\b", claim.source.label) is not None


def _path(claim: Claim, paper: str) -> str:
    """The claim's page, relative to the erratum."""
    return Path(claim.page).name if claim.source.paper == paper else f"../{claim.page}"


def _link(claim: Claim, paper: str) -> str:
    other = "" if claim.source.paper == paper else f"{claim.source.paper.upper()}, "
    return f"[{other}{claim.source}]({_path(claim, paper)})"


def _part(claim: Claim) -> str:
    return f" (The mistake of `{claim.part_of}`.)" if claim.part_of else ""


# --- The library's own results on one page, proofs/new.md: from the rows, and from the pages that prove a method of ours


_NO_ROW = "This page has no row in the ledger"
_PARTS = ("In one sentence", "For a user", "Checked")
_QUESTION = ("The question.", "What a journal's referee would still ask.")


def own_results_markdown(claims: Iterable[Claim], directory: Path) -> str:
    """The page: from the ledger's rows, and from the pages of methods in the folder of the proof pages."""
    own = [claim for claim in claims if claim.ours]
    methods = _methods(directory)
    lines = [
        "# Our own results",
        "",
        "[Ledger](README.md) · errata: " + " · ".join(f"[{paper}]({paper}/erratum.md)" for paper in PAPERS),
        "",
        "Generated by `dptheory pages proofs`; do not edit. What no paper prints: theorems for the algorithms of the five",
        "papers, and the methods of the accountant. Corrected and sharper forms of printed statements stand in the errata.",
        "",
        'How a result was checked: "proof" where its page holds one, else "observed"; then its checks by kind, all listed on',
        "the page. Exact: against another way to the same number (enumeration, fractions, quadrature). Symbolic: by computer",
        "algebra. Certificate: the worst case over a class of functions, from both sides. Search: a maximiser that looks for a",
        "violation. Monte Carlo: draws that would have shown an error. Counterexample: a case in which a wrong form fails.",
    ]
    for paper, name in PAPERS.items():
        rows = [_row(claim.title, claim.page, *_of_claim(claim)) for claim in own if claim.source.paper == paper]
        lines += _table(f"On {name[0].lower()}{name[1:]} (`{paper}`)", rows)
    lines += _table("On privacy accounting", methods)
    lines += ["", "## Questions that the papers leave open, and how they ended"]
    for claim in own:
        text = claim.page_file.read_text(encoding="utf-8")
        said = [found for part in _QUESTION if (found := re.search(rf"^\*\*{part}\*\* .+$", text, re.MULTILINE))]
        if len(said) == len(_QUESTION):
            answer = said[0][0].removeprefix(f"**{_QUESTION[0]}** ")
            lines += ["", f"[{claim.title[:1].upper()}{claim.title[1:]}]({claim.page}): {answer}", "", said[1][0]]
    return "\n".join(lines) + "\n"


def _table(heading: str, rows: list[str]) -> list[str]:
    head = table_head("result", "in one sentence", "what it changes for a user", "checked")
    return ["", f"## {heading}", "", *head, *rows] if rows else []


def _row(title: str, path: str, *cells: str) -> str:
    return one_row((f"[{title}]({path})", *cells))


def _of_claim(claim: Claim) -> tuple[str, str, str]:
    """Summary; what it changes, or else what to call; how it was checked."""
    use = [point for point in claim.key_points if point.startswith("Use ")]
    calls = ", ".join(f"`{name.rsplit('.', 1)[-1]}`" for name in claim.calculator_names)
    for_users = claim.for_users or (use[-1] if use else f"Use {calls}." if calls else "")
    kinds = Counter(check.kind.value for check in claim.checks)
    checked = ["proof" if claim.proved else "observed", *(f"{kind} {count}" for kind, count in kinds.items())]
    return (
        claim.summary[:1].upper() + claim.summary[1:],
        for_users,
        ", ".join(checked).replace("monte carlo", "Monte Carlo"),
    )


def _methods(directory: Path) -> list[str]:
    """A row for each page that proves a method, in the order of their names."""
    pages = {page: page.read_text(encoding="utf-8") for page in sorted(directory.glob("*/*.md"))}
    return [_method(page, text) for page, text in pages.items() if _NO_ROW in text]


def _method(page: Path, text: str) -> str:
    found = [re.search(rf"^\*\*{part}\.\*\* (.+)$", text, re.MULTILINE) for part in _PARTS]
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    if title is None or not all(found):
        lines = ", ".join(f"**{part}.**" for part in _PARTS)
        raise ArgumentError.about(
            "page", page, f"{page} has no row in the ledger, so it must have a title and the lines {lines}"
        )
    return _row(title[1], f"{page.parent.name}/{page.name}", *(one[1] for one in found if one))


@dataclass(frozen=True, kw_only=True)
class WrittenPages:
    """What was written.

    Attributes:
        ledger: the page of all claims, ``README.md``.
        own_results: the page of what no paper prints, ``new.md``.
        errata: the errata whose table was renewed.
    """

    ledger: Path
    own_results: Path
    errata: tuple[Path, ...]


def write_pages(directory: Path) -> WrittenPages:
    """Renew what is generated in the folder of the proof pages; what is written by hand stays.

    The ledger and the page of our own results are written whole; of the errata that are there the table of verdicts, between its
    markers.

    Args:
        directory: folder of the proof pages, with a folder per paper.

    Returns:
        Which files were written.

    Raises:
        ValueError: a folder that is not that of the pages, or an erratum without its markers.
        OSError: a page cannot be written.
    """
    directory = _folder(directory)
    claims = all_claims()
    errata = {paper: page for paper in PAPERS if (page := directory / paper / "erratum.md").is_file()}
    for paper, page in errata.items():
        write_erratum(page, paper)
    own_results, ledger = directory / "new.md", directory / "README.md"
    write_atomically(own_results, own_results_markdown(claims, directory))
    write_atomically(ledger, ledger_markdown(claims))
    return WrittenPages(ledger=ledger, own_results=own_results, errata=tuple(errata.values()))


def _folder(directory: object) -> Path:
    """The folder, if it is that of the pages: in any other a README.md may be somebody's own."""
    if not isinstance(directory, str | os.PathLike) or not all((Path(directory) / paper).is_dir() for paper in PAPERS):
        raise ArgumentError("directory", f"be the folder of the proof pages, with {', '.join(PAPERS)} in it", directory)
    return Path(directory)
