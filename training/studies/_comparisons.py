"""What the results of a study say: every comparison, at the last epoch and, beside it, at the best one."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from dptheory.training.studies import _plan as plans
from dptheory.training.studies import _results
from dptheory.training.studies._plan import Find
from dptheory.training.studies._results import Result
from dptheory.training.studies._statistics import Difference, Equivalence, equivalence, paired_difference
from dptheory.training.studies._study import EQUIVALENCE, WINNER, Comparison, Study


@dataclass(frozen=True)
class ComparisonResult:
    """A comparison, in points (percent of accuracy).

    Attributes:
        comparison: that was made.
        arm, against: the arms, a winner by its own name.
        last: at the last epoch.
        best: at the best epoch of each run, which is what the papers average; chosen by the test images, too high for both.
        equivalence: at the last epoch; None where it is not asked.
        diverged: runs of the one and of the other arm that diverged; they count with the accuracy that they have.
        comparisons: number that the study makes.
    """

    comparison: Comparison
    _: KW_ONLY
    arm: str
    against: str
    last: Difference
    best: Difference
    equivalence: Equivalence | None
    diverged: tuple[int, int]
    comparisons: int

    @property
    def adjusted_p(self) -> float:
        """P-value of the sign-flip test at the last epoch, times the number of comparisons (Bonferroni)."""
        return min(1.0, self.comparisons * self.last.sign_flip_p)


def compare(study: Study, comparison: Comparison, find: Find) -> ComparisonResult | None:
    """One comparison of a study: the paired difference of accuracies, seed by seed.

    Args:
        study: whose comparison it is.
        comparison: one of ``study.comparisons``.
        find: gives the result of a planned run, or None where there is none; ``Places().find(study)`` reads them from files.

    Returns:
        The result; None while a run of it has no result.

    Raises:
        ValueError: by ``find``, a result file that is none.

    Example: without results there is none; accuracies of 81 and 80 % differ by one point.
        >>> from pathlib import Path
        >>> from dptheory.training.studies import Places, compare, read_study
        >>> study = read_study(Path("configs/studies/masking.toml"))
        >>> (main,) = (comparison for comparison in study.comparisons if comparison.main)
        >>> compare(study, main, lambda run: None) is None
        True
        >>> found = compare(study, main, lambda run: {
        ...     "epochs": {"test_accuracy": [0.8 if run.arm == "dp-sgd" else 0.81]}, "diverged": False})
        >>> round(found.last.mean, 6), found.diverged
        (1.0, (0, 0))
    """
    arm, against = (_arm(study, comparison, name, find) for name in (comparison.arm, comparison.against))
    if arm is None or against is None:
        return None
    one, other = _of_seeds(study, comparison, arm, find), _of_seeds(study, comparison, against, find)
    if one is None or other is None:
        return None
    last, best = (
        (_points(one, accuracy), _points(other, accuracy))
        for accuracy in (_results.last_accuracy, _results.best_accuracy)
    )
    within = None
    if comparison.kind == EQUIVALENCE and comparison.margin is not None:
        within = equivalence(*last, margin=comparison.margin)
    return ComparisonResult(
        comparison=comparison,
        arm=arm,
        against=against,
        last=paired_difference(*last),
        best=paired_difference(*best),
        equivalence=within,
        diverged=(sum(r["diverged"] for r in one), sum(r["diverged"] for r in other)),
        comparisons=len(study.comparisons),
    )


def _points(rows: list[Result], accuracy: Callable[[Result], float]) -> list[float]:
    return [100 * accuracy(row) for row in rows]


def _arm(study: Study, comparison: Comparison, name: str, find: Find) -> str | None:
    """The arm's own name; None for a winner that is not known yet."""
    return plans.winner(study, study.phase(comparison.phases[0]), find) if name == WINNER else name


def _of_seeds(study: Study, comparison: Comparison, arm: str, find: Find) -> list[Result] | None:
    """Of all seeds, in order; None while one is missing."""
    found: list[Result] = []
    for name in comparison.phases:
        runs = plans.runs_of(study, study.phase(name), arm, find)
        rows = [find(run) for run in runs or ()]
        if not rows or None in rows:
            return None
        found.extend(row for row in rows if row is not None)
    return found
