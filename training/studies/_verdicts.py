"""What the results say of the measured claims and of the forecasts, by the rules that were declared before."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from scipy import stats

from dptheory.claims import Answer, Finding
from dptheory.training.studies import _comparisons, _measured, _results
from dptheory.training.studies import _plan as plans
from dptheory.training.studies._measured import FindMeasured, nothing_measured
from dptheory.training.studies._plan import Find, PlannedRun
from dptheory.training.studies._results import Result
from dptheory.training.studies._rules import Asked, Condition, Rule
from dptheory.training.studies._statistics import Difference, rounded
from dptheory.training.studies._study import Study
from dptheory.training.studies._sweep import Places

COMMITTED = Path("proofs/results")
"""Where the results are, as the pages name them."""


@dataclass(frozen=True)
class Progress:
    """How far a study is; ``runs_in_all`` has those that an earlier phase has yet to decide, and ``versions`` are commits."""

    runs: int
    runs_in_all: int
    epochs_in_all: float
    versions: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.runs} of {self.runs_in_all} runs{' so far' if self.runs < self.runs_in_all else ''}"


def committed(study: Study, folder: Path) -> Find:
    """The results of a study that count: a result of code that differs from its commit does not."""
    find, seen = Places(results=folder).find(study), dict[str, Result | None]()

    def found(run: PlannedRun) -> Result | None:
        if run.name not in seen:  # comparing configurations takes a while
            result = find(run)
            seen[run.name] = None if result is None or result["code"].get("dirty") else result
        return seen[run.name]

    return found


def progress(study: Study, find: Find) -> Progress:
    """How far the study is, by its results alone."""
    plan = plans.plan(study, find)
    results = [result for result in map(find, plan.runs) if result is not None]
    versions = {_results.version(result) for result in results}
    return Progress(
        len(results),
        len(plan.runs) + sum(plan.waiting.values()),
        sum(run.config.epochs for run in plan.runs) + plan.waiting_epochs,
        tuple(sorted(versions)),
    )


def finding(study: Study, condition: Condition, find: Find, *, together: bool = False) -> Finding | None:
    """What the comparison says; None while a run of it has no result.

    Args:
        together: "the opposite" is said only where the interval of all comparisons of the study together (Bonferroni's) says so,
            as against a paper; by default where its own interval does, as against our own forecasts.
    """
    found = _comparisons.compare(study, condition.comparison, find)
    if found is None:
        return None
    low, high, confidence = found.last.low, found.last.high, found.last.confidence
    if found.equivalence is not None and condition.relation == "equal":  # the interval of the two one-sided tests
        low, high, confidence = found.equivalence.low, found.equivalence.high, 1 - 2 * found.equivalence.level
    least, most = condition.target
    where = ", ".join(condition.comparison.phases)
    outcome = "holds" if least < low and high < most else "open"
    lower, upper = _of_all_comparisons(found.last, low, high, confidence, found.comparisons if together else 1)
    if upper <= least or most <= lower:
        outcome = "the opposite"
    return Finding(
        comparison=f"{found.arm} - {found.against} ({where})",
        mean=rounded(found.last.mean),
        low=rounded(low),
        high=rounded(high),
        confidence=rounded(confidence),
        pairs=found.last.pairs,
        relation=str(condition),
        outcome=outcome,
        size=condition.size,
        cannot=condition.cannot,
    )


def _of_all_comparisons(
    found: Difference, low: float, high: float, confidence: float, comparisons: int
) -> tuple[float, float]:
    """Ends of the t interval at 1 - (1 - confidence) / comparisons, from those at ``confidence``."""
    beyond = (1 - confidence) / 2
    own, wide = (stats.t.isf(one, found.pairs - 1) for one in (beyond, beyond / comparisons))
    return found.mean - (found.mean - low) * wide / own, found.mean + (high - found.mean) * wide / own


def claim_answer(
    claim: str, rule: Rule, finds: Mapping[str, Find], measured: FindMeasured = nothing_measured
) -> Answer:
    """The answer to a claim: that of the first study that has its results, the others beside it; or that of instrumented runs."""
    if rule.measured:
        return _measured.answer(claim, rule.measured, measured, COMMITTED)
    if not rule.by:
        return Answer(question=rule.question, reason=rule.reason, command=rule.command, cost=rule.cost)
    found = [_study_answer(claim, asked, finds[asked.study.name]) for asked in rule.by]
    deciding = next((one for one in found if one.state != "not run"), found[0])
    return replace(deciding, others=tuple(one for one in found if one is not deciding))


def all_answers(
    rules: Mapping[str, Rule], finds: Mapping[str, Find], measured: FindMeasured = nothing_measured
) -> dict[str, Answer]:
    """The answer to every measured claim."""
    return {claim: claim_answer(claim, rule, finds, measured) for claim, rule in rules.items()}


def to_json(answers: Mapping[str, Answer]) -> str:
    """Content of ``dptheory/claims/answers.json``."""
    return json.dumps({claim: asdict(one) for claim, one in answers.items()}, indent=1, ensure_ascii=False) + "\n"


def command(study: Study) -> str:
    """What makes the runs of a study."""
    device = " --device cuda" if study.device == "cuda" else ""
    return f"dptheory sweep configs/studies/{study.name}.toml{device}"


def _study_answer(claim: str, asked: Asked, find: Find) -> Answer:
    study = asked.study
    findings = [finding(study, condition, find, together=True) for condition in asked.conditions]
    known = tuple(one for one in findings if one is not None)
    done, far = len(known) == len(findings), progress(study, find)
    return asked.answer(
        claim,
        done=done,
        study=study.name,
        baseline=asked.setting.of_study(study, find) if done else None,
        findings=known if done else (),
        files=tuple(_files(asked, find)) if done else (),
        command=command(study),
        cost=f"{far.runs_in_all} runs, {far.epochs_in_all:.10g} epochs. {study.cost}",
        reason="" if done else f"study {study.name} has runs to go",
    )


def _files(asked: Asked, find: Find) -> Iterator[str]:
    """File and names of the results of all arms compared."""
    study = asked.study
    path = _results.path_of(COMMITTED, study.name).as_posix()
    seen: dict[str, int] = {}
    for comparison in dict.fromkeys(condition.comparison for condition in asked.conditions):
        found = _comparisons.compare(study, comparison, find)
        if found is None:
            continue
        for phase in map(study.phase, comparison.phases):
            for arm in (found.arm, found.against):
                seen[f"{phase.name}_{arm}_seed=*"] = len(phase.seeds)
    yield from (f"{path}: {pattern} ({count} runs)" for pattern, count in seen.items())
