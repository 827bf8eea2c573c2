"""The order of the ledger: a reader comes with a printed label in hand, so the label decides."""

import re

from dptheory.claims._claim import PAPERS, Claim, Verdict

_RESULTS = (
    "Definition", "Assumption", "Lemma", "Proposition", "Theorem", "Corollary", "Remark", "Algorithm", "equation",
)  # fmt: skip
_PLACES = ("abstract", "section", "Appendix", "Table", "Fig")
_KINDS = tuple(kind.lower() for kind in (*_RESULTS, *_PLACES))


def ledger_key(claim: Claim) -> tuple[object, ...]:
    """Sort key: the papers in turn; in each the argued claims, then the measured ones, then our own results.

    Within these by the kind of the label (definitions to algorithms, then sections, appendices, tables and figures), then by its
    number ("Lemma 3.2" before "Lemma 3.10"), then by the equations; "after Theorem 2" stands behind "Theorem 2".
    """
    part = 2 if claim.ours else 1 if claim.verdict is Verdict.EMPIRICAL else 0
    equations = claim.source.equations or (float("inf"),)
    return list(PAPERS).index(claim.source.paper), part, *_label_key(claim.source.label), equations, natural(claim.id)


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Runs of digits as numbers, the rest as lower-case text; digits before letters."""
    parts = re.findall(r"\d+|[^\W\d_]+", text)
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part.lower()) for part in parts)


def _label_key(label: str) -> tuple[object, ...]:
    """Kind and number of the first numbered result that the label names, or else of the first place."""
    for kinds in (_RESULTS, _PLACES):
        found = re.search(rf"\b({'|'.join(kinds)})\w*\.?\s*((?:[A-Z]|\d+)(?:\.\d+)*\b)?", label, re.IGNORECASE)
        if found:
            return _KINDS.index(found[1].lower()), natural(found[2] or ""), found.start() > 0, natural(label)
    return len(_KINDS), (), False, natural(label)
