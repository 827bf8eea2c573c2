"""Look-up in the ledger. A claim's module is found by its id and loads on first use, so that importing the ledger stays cheap."""

import difflib
import fnmatch
import functools
import re
from collections.abc import Iterable

from dptheory import _validate
from dptheory.claims._claim import PAPERS, Claim, Verdict, places_of_rows
from dptheory.claims._measured import measured_claims
from dptheory.claims._row import argued_claim
from dptheory.errors import ArgumentError

# --- The order of the ledger: a reader comes with a printed label in hand, so the label decides


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


@functools.cache
def _ledger() -> dict[str, Claim]:
    argued = (argued_claim(id) for paper in PAPERS for id in places_of_rows(paper))
    measured = (claim for paper in PAPERS for claim in measured_claims(paper).values())
    ledger: dict[str, Claim] = {}
    for claim in sorted((*argued, *measured), key=ledger_key):
        if claim.id in ledger:
            raise ArgumentError.about("id", claim.id, f"claim id {claim.id!r} stands twice in the ledger")
        ledger[claim.id] = claim
    return ledger


def _alone(id: str) -> Claim | None:
    """The claim with this id, loading no file but its own."""
    paper = id.partition(".")[0]
    if paper not in PAPERS:
        return None
    return argued_claim(id) if id in places_of_rows(paper) else measured_claims(paper).get(id)


def all_claims(paper: str | None = None, verdict: Verdict | str | None = None) -> tuple[Claim, ...]:
    """The claims in the order of the ledger, of one paper and one verdict where asked for.

    Per paper the argued claims come first, then the measured ones, then our own results; within these they follow the label
    that the paper prints.

    Args:
        paper: a key of :data:`dptheory.claims.PAPERS`.
        verdict: a :class:`Verdict` or its name, in any case.

    Returns:
        The claims.

    Raises:
        ValueError: unknown paper or verdict.

    Example: every false claim has a correction.
        >>> from dptheory.claims import all_claims
        >>> all(claim.correction for claim in all_claims(verdict="FALSE"))
        True
    """
    if paper is not None:
        _validate.choice("paper", paper, tuple(PAPERS))
    if verdict is not None and not isinstance(verdict, Verdict):
        if not isinstance(verdict, str) or verdict.upper() not in Verdict.__members__:
            raise ArgumentError("verdict", f"be one of {', '.join(Verdict.__members__)}", verdict)
        verdict = Verdict[verdict.upper()]
    return tuple(
        claim
        for claim in _ledger().values()
        if paper in (None, claim.source.paper) and verdict in (None, claim.verdict)
    )


def get(id: str) -> Claim:
    """The claim with this id; only its own module is loaded.

    Args:
        id: such as "gip.thm1".

    Returns:
        The claim.

    Raises:
        ValueError: no such claim; the message names the nearest ids.

    Example: where the paper prints it.
        >>> from dptheory.claims import get
        >>> str(get("gip.thm1").source)
        'Theorem 1, Definition 4 (eq. 4, 8 to 10)'
    """
    found = _alone(id) if isinstance(id, str) else None
    if found is None:
        raise ArgumentError("id", "be that of a claim in the ledger", id, got=f"{_validate.shown(id)}{_nearest(id)}")
    return found


def select(patterns: Iterable[str]) -> tuple[Claim, ...]:
    """The claims whose id matches one of the patterns (``gip.*``), in the order of the ledger; all where none is given.

    What several ids begin with, up to a dot or a last letter, stands for all of them: a statement may be judged in parts. Plain
    ids load only their own modules.

    Args:
        patterns: ids, with ``*`` for any text, or what several begin with.

    Returns:
        The claims.

    Raises:
        ValueError: a pattern that matches nothing, or one string in place of several.

    Example: all that RS says in section 3.
        >>> from dptheory.claims import select
        >>> [claim.id for claim in select(["rs.lem3.*"])]
        ['rs.lem3.1', 'rs.lem3.2', 'rs.lem3.3', 'rs.lem3.4']
    """
    if isinstance(patterns, str | bytes) or not isinstance(patterns, Iterable):
        raise ArgumentError("patterns", "be ids or globs, as in ['gip.*']", patterns)
    patterns = tuple(patterns)
    if not patterns:
        return all_claims()
    chosen: dict[str, Claim] = {}
    for pattern in patterns:
        one = _alone(pattern) if isinstance(pattern, str) else None
        matching = [one.id] if one else _matching(pattern) if isinstance(pattern, str) else []
        if not matching:
            raise ArgumentError(
                "patterns", "match claims of the ledger", patterns, got=f"{_validate.shown(pattern)}{_nearest(pattern)}"
            )
        chosen.update({id: get(id) for id in matching})
    return tuple(sorted(chosen.values(), key=ledger_key))


def _matching(pattern: str) -> list[str]:
    """Ids that a glob fits, or the parts of what is judged in parts."""
    parts = re.compile(rf"{re.escape(pattern)}(\.|[a-z]$)")
    return fnmatch.filter(_ledger(), pattern) or [id for id in _ledger() if parts.match(id)]


def _nearest(id: object) -> str:
    """Near matches as a hint: ids spelt alike, else ids that contain the part behind the dot."""
    if not isinstance(id, str) or not id:
        return ""
    near = difflib.get_close_matches(id, _ledger(), n=3, cutoff=0.5)
    near = near or [known for known in _ledger() if id.split(".")[-1].lower() in known][:3]
    return f"; near: {', '.join(near)}" if near else ""
