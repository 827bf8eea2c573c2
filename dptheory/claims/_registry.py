"""Look-up in the ledger. The papers' modules load on first use, so that importing the ledger stays cheap."""

import difflib
import fnmatch
import functools
from collections.abc import Iterable

from dptheory import _validate
from dptheory.claims._claim import PAPERS, Claim, Verdict


@functools.cache
def _ledger() -> dict[str, Claim]:
    from dptheory.claims import gep, gip, lf, rf, rs

    ledger: dict[str, Claim] = {}
    for claim in (*rf.CLAIMS, *rs.CLAIMS, *lf.CLAIMS, *gep.CLAIMS, *gip.CLAIMS):
        if claim.id in ledger:
            raise ValueError(f"claim id {claim.id!r} stands twice in the ledger")
        ledger[claim.id] = claim
    return ledger


def all_claims(paper: str | None = None, verdict: Verdict | str | None = None) -> tuple[Claim, ...]:
    """The claims in the order of the ledger, of one paper and one verdict where asked for.

    Args:
        paper: a key of :data:`dptheory.claims.PAPERS`.
        verdict: a :class:`Verdict` or its name, in any case.

    Raises:
        ValueError: unknown paper or verdict.
    """
    if paper is not None:
        _validate.choice("paper", paper, tuple(PAPERS))
    if verdict is not None and not isinstance(verdict, Verdict):
        if not isinstance(verdict, str) or verdict.upper() not in Verdict.__members__:
            raise ValueError(f"verdict must be one of {', '.join(Verdict.__members__)}, got {_validate.shown(verdict)}")
        verdict = Verdict[verdict.upper()]
    return tuple(
        claim
        for claim in _ledger().values()
        if paper in (None, claim.source.paper) and verdict in (None, claim.verdict)
    )


def get(id: str) -> Claim:
    """The claim with this id.

    Raises:
        ValueError: no such claim; the message names the nearest ids.
    """
    ledger = _ledger()
    if not isinstance(id, str) or id not in ledger:
        raise ValueError(f"id must be that of a claim in the ledger, got {_validate.shown(id)}{_nearest(id)}")
    return ledger[id]


def select(patterns: Iterable[str]) -> tuple[Claim, ...]:
    """The claims whose id matches one of the patterns (``gip.*``), in the order of the ledger; all where none is given.

    Raises:
        ValueError: a pattern that matches nothing, or one string in place of several.
    """
    if isinstance(patterns, str | bytes) or not isinstance(patterns, Iterable):
        raise ValueError(f"patterns must be ids or globs, as in ['gip.*'], got {_validate.shown(patterns)}")
    patterns = tuple(patterns)
    for pattern in patterns:
        if not isinstance(pattern, str) or not fnmatch.filter(_ledger(), pattern):
            raise ValueError(f"patterns must each match a claim, got {_validate.shown(pattern)}{_nearest(pattern)}")
    return tuple(c for c in _ledger().values() if not patterns or any(fnmatch.fnmatch(c.id, p) for p in patterns))


def _nearest(id: object) -> str:
    """Near matches as a hint: ids spelt alike, else ids that contain the part behind the dot."""
    if not isinstance(id, str) or not id:
        return ""
    near = difflib.get_close_matches(id, _ledger(), n=3, cutoff=0.5)
    near = near or [known for known in _ledger() if id.split(".")[-1].lower() in known][:3]
    return f"; near: {', '.join(near)}" if near else ""
