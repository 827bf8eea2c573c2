"""The generated part of an erratum: every verdict on a paper that its hand-written part has not given."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dptheory.claims._answer import PAPERS_SETTING, STATES
from dptheory.claims._claim import Claim, Severity, Verdict
from dptheory.claims._markdown import one_row
from dptheory.claims._registry import all_claims
from dptheory.files import write_atomically

_BEGIN, _END = "<!-- verdicts:begin -->", "<!-- verdicts:end -->"
_NOT_AS_PRINTED = (Verdict.FALSE, Verdict.NOT_SHOWN, Verdict.CONDITIONAL, Verdict.LOOSE)


def write_erratum(page: Path, paper: str) -> None:
    """Renew the table of verdicts in the erratum of a paper; what stands outside its markers stays.

    Raises:
        OSError: no such page.
        ValueError: not one pair of markers.
    """
    text = page.read_text(encoding="utf-8")
    if (text.count(_BEGIN), text.count(_END)) != (1, 1):
        raise ValueError(f"{page} must hold the markers {_BEGIN} and {_END} once each")
    before, rest = text.split(_BEGIN)
    _, after = rest.split(_END)
    block = verdicts_markdown(paper, all_claims(), written=before + after)
    write_atomically(page, f"{before}{_BEGIN}\n{block}\n{_END}{after}")


def verdicts_markdown(paper: str, claims: Sequence[Claim], *, written: str) -> str:
    """How many statements have which verdict, what the hand-written part corrects, and a table of all others.

    Args:
        paper: a key of ``PAPERS``.
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
        lines += ["", "| the others | verdict | correction |", "|---|---|---|"]
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
