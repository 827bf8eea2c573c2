"""What our own runs answer to a measured claim: ``answers.json`` of this package, written by ``dptheory answers``."""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

CONFIRMED, NOT_CONFIRMED, NOT_RUN = "confirmed", "not confirmed", "not run"
HOLDS, OPPOSITE, OPEN = "holds", "the opposite", "open"
FAILS = "fails"
"""Of a bound on a number: no seed keeps it, which can be by far less than the opposite."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A comparison that decides about a claim, in points (percent of accuracy).

    Attributes:
        comparison: "sparsification-50 - dp-sgd": the arms whose accuracies are subtracted, and where.
        mean: of the paired differences.
        low, high: ends of the interval.
        confidence: of the interval.
        pairs: how many.
        relation: what the interval has to be for the claim to hold: "above 0", "within 0.3 of 0".
        outcome: "holds"; "the opposite", where no point of the interval is as it should be; "open" in between.
    """

    comparison: str
    mean: float
    low: float
    high: float
    confidence: float
    pairs: int
    relation: str
    outcome: str

    def __str__(self) -> str:
        return f"{self.comparison}: {self.effect} points, {self.relation}: {self.outcome}"

    @property
    def effect(self) -> str:
        """The mean with its interval."""
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A number of instrumented runs that decides about a claim.

    Attributes:
        quantity: what was measured, in words.
        values: one per seed; None where it could not be had.
        relation: what every value has to be for the claim to hold: "above 0".
        outcome: "holds"; "fails", where no value is as it should be; "open" in between.

    Example:
        >>> from dptheory.claims import Measured
        >>> str(Measured(quantity="overlap", values=(0.91, 0.93), relation="above 0.8", outcome="holds"))
        'overlap: 0.91, 0.93 (by seed), above 0.8: holds'
    """

    quantity: str
    values: tuple[float | None, ...]
    relation: str
    outcome: str

    def __str__(self) -> str:
        seeds = "one seed" if len(self.values) == 1 else "by seed"
        return f"{self.quantity}: {self.numbers} ({seeds}), {self.relation}: {self.outcome}"

    @property
    def numbers(self) -> str:
        """The values, three digits each."""
        return ", ".join("none" if value is None else f"{value:.3g}" for value in self.values)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a study or instrumented runs say of a measured claim.

    Attributes:
        state: "confirmed", where everything that was asked holds; "not confirmed"; "not run", while a run is missing.
        study: that decides; None where no study is about the claim.
        instrument: whose runs decide; None where none is about the claim.
        question: what the claim comes to in that study, or would in runs that nobody has made; "" without one.
        corrected: why the question, or what decides, was changed when results were known; "" where it was not.
        differs: in what the runs differ from the paper's.
        beside: what else their results say, asked after them; it decides nothing.
        findings: the comparisons that decide; empty where it was not run.
        measured: the numbers of instrumented runs that decide; empty where there are none.
        reported: the paper's numbers beside it, as (what, value).
        files: result files, one pattern per phase and arm.
        command: that makes the runs; None where there is none.
        cost: of the command.
        reason: why there is no answer; "" where there is one.
        others: what other studies say of the same claim, in the same order: the nearest to the paper's setting first.
    """

    state: str
    study: str | None = None
    instrument: str | None = None
    question: str = ""
    corrected: str = ""
    differs: str = ""
    beside: str = ""
    findings: tuple[Finding, ...] = ()
    measured: tuple[Measured, ...] = ()
    reported: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()
    command: str | None = None
    cost: str = ""
    reason: str = ""
    others: tuple["Answer", ...] = ()

    @property
    def seen(self) -> str:
        """What was seen, in a word or two, by all that decides: "seen", "trend only", "not seen", "opposite", "open", "not run".

        "trend only": a part holds and the rest is open or too small. "opposite": all that decides is opposite to the claim.

        Example:
            >>> from dptheory.claims import Answer, Measured
            >>> one = Measured(quantity="overlap", values=(0.91,), relation="above 0.8", outcome="holds")
            >>> two = Measured(quantity="gap", values=(0.05,), relation="above 0.1", outcome="fails")
            >>> Answer(state="confirmed", measured=(one,)).seen, Answer(state="not confirmed", measured=(one, two)).seen
            ('seen', 'trend only')
        """
        if self.state == NOT_RUN:
            return NOT_RUN
        outcomes = {one.outcome for one in self.findings} | {one.outcome for one in self.measured}
        if outcomes == {HOLDS}:
            return "seen"
        if outcomes == {OPPOSITE}:
            return "opposite"
        if outcomes == {OPEN}:
            return OPEN
        return "trend only" if HOLDS in outcomes and OPPOSITE not in outcomes else "not seen"

    @property
    def setting(self) -> str | None:
        """Where it was looked for: "paper's setting" or "small setting"; None where nothing was run."""
        if self.state == NOT_RUN:
            return None
        return "small setting" if self.differs else "paper's setting"

    @property
    def summary(self) -> str:
        """The state and, where there are any, the effects with intervals, in points, or a number, of all seeds.

        Of several numbers the first that does not hold, and how many of the others do; what does not hold is said to be "open",
        "the opposite" or, of a number, to fail.

        Example:
            >>> from dptheory.claims import Answer, Measured
            >>> one = Measured(quantity="overlap", values=(0.91,), relation="above 0.8", outcome="holds")
            >>> two = Measured(quantity="gap", values=(0.05,), relation="above 0.1", outcome="fails")
            >>> Answer(state="not confirmed", measured=(one, two)).summary
            'not confirmed: gap 0.05 (fails); 1 of 1 others holds'
            >>> from dptheory.claims import Finding
            >>> found = dict(comparison="a - b (final)", mean=0.5, low=0.25, high=0.75, confidence=0.95, pairs=8)
            >>> ends = (("above -0.5", "holds"), ("below 0.5", "open"))
            >>> within = tuple(Finding(**found, relation=relation, outcome=outcome) for relation, outcome in ends)
            >>> Answer(state="not confirmed", findings=within).summary
            'not confirmed: +0.50 [+0.25, +0.75] (open) points'
        """
        if self.measured:
            first = next((one for one in self.measured if one.outcome != HOLDS), self.measured[0])
            return (
                f"{self.state}: {first.quantity} {first.numbers}{_unless_it_holds(first.outcome)}{self._others(first)}"
            )
        effects = (f"{one.effect}{_unless_it_holds(one.outcome)}" for one in self._decisive())
        return f"{self.state}: {'; '.join(effects)} points" if self.findings else self.state

    def _whom(self) -> str:
        if self.study is None and self.instrument is None:
            return " before any run"
        return f" of study {self.study}" if self.study else f" of instrument {self.instrument}"

    def _decisive(self) -> list[Finding]:
        """Each comparison once, by what does not hold: it may have to lie above one end and below another."""
        found: dict[tuple[str, str], Finding] = {}
        for one in self.findings:
            if found.setdefault((one.comparison, one.effect), one).outcome == HOLDS:
                found[one.comparison, one.effect] = one
        return list(found.values())

    def _others(self, first: Measured) -> str:
        others = [one for one in self.measured if one is not first]
        held = sum(one.outcome == HOLDS for one in others)
        return f"; {held} of {len(others)} others hold{'s' if held == 1 else ''}" if others else ""

    def lines(self) -> list[str]:
        """Everything about the answer, a sentence each.

        Returns:
            The state first, then what was asked, found and printed, the files, the command and its cost.

        Example: a claim whose runs need a GPU says how they are made.
            >>> from dptheory.claims import Answer
            >>> Answer(state="not run", reason="needs a GPU", command="dptheory sweep x.toml").lines()
            ['not run: needs a GPU', 'command: dptheory sweep x.toml']
        """
        found = [f"{self.state}{f': {self.reason}' if self.reason else ''}"]
        if self.question:
            found.append(f"asked{self._whom()}: {self.question}")
        if self.corrected:
            found.append(f"corrected when results were known: {self.corrected}")
        found += [str(one) for one in self.measured]
        found += [f"{one}, {one.pairs} pairs, {one.confidence:.0%} interval" for one in self.findings]
        if self.reported:
            found.append("the paper: " + "; ".join(f"{what}: {value}" for what, value in self.reported))
        if self.differs:
            found.append(f"not the paper's setting: {self.differs}")
        if self.beside:
            found.append(f"asked after the results: {self.beside}")
        found += [f"results: {file}" for file in self.files]
        if self.command:
            found.append(f"command: {self.command}")
        if self.cost:
            found.append(f"cost: {self.cost}")
        for other in self.others:
            first, *rest = other.lines()
            found += [f"beside it, {other.study or other.instrument}: {first}", *rest]
        return found


def _unless_it_holds(outcome: str) -> str:
    return "" if outcome == HOLDS else f" ({outcome})"


def from_dict(table: Mapping[str, Any]) -> Answer:
    """An answer from plain values, as JSON has them."""
    return Answer(
        **{
            **table,
            "findings": tuple(Finding(**one) for one in table.get("findings", ())),
            "measured": tuple(Measured(**{**one, "values": tuple(one["values"])}) for one in table.get("measured", ())),
            "reported": tuple((what, value) for what, value in table.get("reported", ())),
            "files": tuple(table.get("files", ())),
            "others": tuple(from_dict(one) for one in table.get("others", ())),
        }
    )


def answer_to(claim: str) -> Answer | None:
    """The answer to the claim of this id; None where the file has none."""
    return _answers().get(claim)


@functools.cache
def _answers() -> dict[str, Answer]:
    text = resources.files("dptheory.claims").joinpath("answers.json").read_text(encoding="utf-8")
    return {claim: from_dict(table) for claim, table in json.loads(text).items()}
