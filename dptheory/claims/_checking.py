"""Running the checks of several claims, and what came of them."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from dptheory import _validate
from dptheory.checks import Evidence
from dptheory.claims._claim import MOST_SEEDS, Claim
from dptheory.claims._registry import select


@dataclass(frozen=True, kw_only=True)
class CheckedClaim:
    """A claim and the outcome of each of its checks; no outcome where it has no check.

    Attributes:
        claim: the row.
        evidence: the outcomes, in the order of the checks.
    """

    claim: Claim
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """What came of the checks of several claims.

    Attributes:
        seed: of the random draws.
        checked: the claims in the order of the ledger.
    """

    seed: int
    checked: tuple[CheckedClaim, ...]

    @property
    def rows(self) -> tuple[tuple[str, Evidence], ...]:
        """Every outcome with the id of its claim."""
        return tuple((one.claim.id, found) for one in self.checked for found in one.evidence)

    @property
    def failed(self) -> tuple[tuple[str, Evidence], ...]:
        """The rows that did not pass."""
        return tuple(row for row in self.rows if not row[1].passed)

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return not self.failed

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Ids of the claims without a check."""
        return tuple(one.claim.id for one in self.checked if not one.claim.checks)

    @property
    def coarsest(self) -> tuple[str, Evidence] | None:
        """The row with the largest ``detectable`` error, the later one where two are alike; None where no check has one."""
        known = [(found.detectable, id, found.check, found) for id, found in self.rows if found.detectable is not None]
        if not known:
            return None
        _, id, _, found = max(known, key=lambda one: one[:3])
        return id, found


class Watcher:
    """Told how far a run of checks is; the default says nothing."""

    def started(self, claims: Sequence[Claim]) -> None:
        """Before the first check."""

    def checking(self, claim: Claim) -> None:
        """Before the checks of a claim."""

    def checked(self, one: CheckedClaim) -> None:
        """After the checks of a claim."""


def check_claims(
    patterns: Iterable[str] = (),
    *,
    budget: float = 30.0,
    seed: int = 0,
    executor: Executor | None = None,
    watcher: Watcher | None = None,
) -> CheckReport:
    """Run the checks of the claims whose ids match; a check that breaks or runs out of time is one that did not pass.

    Args:
        patterns: ids or globs as in ``["gip.*"]``; all claims where none is given.
        budget: seconds for one check, > 0; inf sets no limit.
        seed: of the random draws, 0..10^18.
        executor: where the work is spread; None runs it here. The outcomes are the same.
        watcher: told of the progress.

    Returns:
        The claims and the outcomes of their checks.

    Raises:
        ValueError: a pattern that matches nothing, or an argument outside its range.

    Example: the two checks of one row.
        >>> from dptheory.claims import check_claims
        >>> report = check_claims(["gip.eq18"], budget=20.0)
        >>> report.passed, [id for id, _ in report.rows] == ["gip.eq18"] * len(report.rows)
        (True, True)
    """
    chosen = select(patterns)
    budget = _validate.real("budget", budget, 0.0, ends="(]")
    seed = _validate.integer("seed", seed, 0, MOST_SEEDS)
    if executor is not None:
        _validate.instance("executor", executor, Executor)
    watcher = Watcher() if watcher is None else _validate.instance("watcher", watcher, Watcher)
    watcher.started(chosen)
    checked = []
    for claim in chosen:
        watcher.checking(claim)
        checked.append(CheckedClaim(claim=claim, evidence=claim.check(budget, seed, executor)))
        watcher.checked(checked[-1])
    return CheckReport(seed=seed, checked=tuple(checked))
