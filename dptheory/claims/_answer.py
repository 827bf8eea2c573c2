"""What our own runs answer to a measured claim: ``answers.json`` of this package, written by ``dptheory answers``."""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

SEEN, TREND_ONLY, NOT_SEEN, OPPOSITE, OPEN, NOT_RUN = "seen", "trend only", "not seen", "opposite", "open", "not run"
STATES = (SEEN, TREND_ONLY, NOT_SEEN, OPPOSITE, OPEN, NOT_RUN)
"""What was seen of a claim, in a word or two."""

PAPERS_SETTING, SMALL_SETTING = "paper's setting", "small setting"

HOLDS, THE_OPPOSITE = "holds", "the opposite"
"""Of a comparison, which may also be :data:`OPEN`."""
FAILS = "fails"
"""Of a bound on a number: no seed keeps it, which can be by far less than the opposite."""

POINTS_BELOW = 2.0
"""A baseline that is more points than that below the paper's makes a setting small, whatever else it has in common."""
NOT_PRINTED = "not printed"
"""Of a part of a setting that the paper does not say: it is a choice, and the paper's if its baseline is reached with it."""


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
        outcome: "holds"; "the opposite", where no point of the interval of all comparisons of the study together is as it
            should be; "open" in between.
        size: whether it asks how large an effect is, not only which way it goes.
        cannot: why the setting cannot decide about it, so that it counts as open; "" where it can.
    """

    comparison: str
    mean: float
    low: float
    high: float
    confidence: float
    pairs: int
    relation: str
    outcome: str
    size: bool = False
    cannot: str = ""

    def __str__(self) -> str:
        return f"{self.comparison}: {self.effect} points, {self.relation}: {_outcome(self)}"

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
        size: whether it asks how large an effect is, not only which way it goes.
        cannot: why the setting cannot decide about it, so that it counts as open; "" where it can.

    Example:
        >>> from dptheory.claims import Measured
        >>> str(Measured(quantity="overlap", values=(0.91, 0.93), relation="above 0.8", outcome="holds"))
        'overlap: 0.91, 0.93 (by seed), above 0.8: holds'
    """

    quantity: str
    values: tuple[float | None, ...]
    relation: str
    outcome: str
    size: bool = False
    cannot: str = ""

    def __str__(self) -> str:
        seeds = "one seed" if len(self.values) == 1 else "by seed"
        return f"{self.quantity}: {self.numbers} ({seeds}), {self.relation}: {_outcome(self)}"

    @property
    def numbers(self) -> str:
        """The values, three digits each."""
        return ", ".join("none" if value is None else f"{value:.3g}" for value in self.values)


def _outcome(part: Finding | Measured) -> str:
    return f"{part.outcome}{' (a size)' if part.size else ''}{f'; it cannot decide here: {part.cannot}' if part.cannot else ''}"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A part of a setting, here and in the paper.

    Attributes:
        what: "network", "epochs", "data".
        here, there: in words; equal where the setting is the paper's, or "not printed" there.
    """

    what: str
    here: str
    there: str

    def __str__(self) -> str:
        return f"{self.what} {self.here}" + (f" (the paper: {self.there})" if self.here != self.there else "")


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The accuracy of the method that the paper improves on, in percent.

    Attributes:
        what: which of the paper's baselines.
        here, there: the accuracies.
        gain: of the paper's method over it, in points, as printed; None where none is asked for.
    """

    what: str
    here: float
    there: float
    gain: float | None = None

    @property
    def above(self) -> float:
        """By how many points it is above the paper's, as both are shown."""
        return round(round(self.here, 1) - self.there, 1)

    def __str__(self) -> str:
        side = "above" if self.above > 0 else "below" if self.above < 0 else "off"
        return f"{self.what}: {self.here:.1f} % here, {self.there:g} in the paper, {abs(self.above):.1f} points {side}"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a study or instrumented runs say of a measured claim.

    Attributes:
        study: that decides; None where no study is about the claim.
        instrument: whose runs decide; None where none is about the claim.
        question: what the claim comes to in that study, or would in runs that nobody has made; "" without one.
        corrected: why the question, or what decides, was changed when results were known; "" where it was not.
        unasked: what of the claim these runs do not ask, so that it is not seen by them; "" where they ask all of it.
        differs: in what else the runs differ from the paper's.
        compared: network, epochs and data, here and in the paper.
        baseline: its accuracy here and there; None where the two have none in common.
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

    study: str | None = None
    instrument: str | None = None
    question: str = ""
    corrected: str = ""
    unasked: str = ""
    differs: str = ""
    compared: tuple[Compared, ...] = ()
    baseline: Baseline | None = None
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
    def state(self) -> str:
        """What was seen, by all that decides: one of :data:`STATES`.

        "seen": all of it. "trend only": which way it goes, but a size is missed, or something of the claim is not asked.
        "opposite": all of it goes the other way. "open": our runs allow both, or their setting cannot decide. "not seen": the
        rest, such as a difference that allows both but excludes the gain that the paper prints.

        Example:
            >>> from dptheory.claims import Answer, Measured
            >>> one = Measured(quantity="gap", values=(0.05,), relation="above 0", outcome="holds")
            >>> two = Measured(quantity="the same", values=(0.05,), relation="above 0.1", outcome="fails", size=True)
            >>> Answer(measured=(one,)).state, Answer(measured=(one, two)).state, Answer().state
            ('seen', 'trend only', 'not run')
        """
        parts: list[Finding | Measured] = [*self.findings, *self.measured]
        if not parts:
            return NOT_RUN
        which_way = [one for one in parts if not one.size] or parts
        trend = {OPEN if one.cannot else one.outcome for one in which_way}
        if trend == {HOLDS}:
            missed = self.unasked or any(one.outcome != HOLDS or one.cannot for one in parts)
            return TREND_ONLY if missed else SEEN
        if trend == {THE_OPPOSITE}:
            return OPPOSITE
        return NOT_SEEN if trend & {THE_OPPOSITE, FAILS} or self._excludes_the_gain() else OPEN

    def _excludes_the_gain(self) -> bool:
        gain = self.baseline.gain if self.baseline is not None else None
        return gain is not None and any(one.high < gain for one in self.findings[:1])

    @property
    def setting(self) -> str | None:
        """Where it was looked for: "paper's setting" or "small setting"; None where nothing was run.

        It is the paper's where network, epochs and data are, and the baseline is no more than two points below the paper's. Where
        the paper does not print one of them, there has to be a baseline, and it must not be below the paper's.

        Example: epochs that the paper does not print are its own if they reach its baseline.
            >>> from dptheory.claims import Answer, Baseline, Compared, Measured
            >>> parts = (("data", "MNIST", "MNIST"), ("epochs", "15", "not printed"))
            >>> compared = tuple(Compared(what=what, here=here, there=there) for what, here, there in parts)
            >>> one = Measured(quantity="gap", values=(0.05,), relation="above 0", outcome="holds")
            >>> reached, missed = (Baseline(what="DP-SGD", here=here, there=83.2) for here in (83.2, 83.1))
            >>> [Answer(measured=(one,), compared=compared, baseline=b).setting for b in (reached, missed, None)]
            ["paper's setting", 'small setting', 'small setting']
        """
        if self.state == NOT_RUN:
            return None
        printed = [one for one in self.compared if one.there != NOT_PRINTED]
        chosen = len(printed) < len(self.compared)
        reached = not chosen if self.baseline is None else self.baseline.above >= (0.0 if chosen else -POINTS_BELOW)
        same = bool(printed) and all(one.here == one.there for one in printed)
        return PAPERS_SETTING if same and reached else SMALL_SETTING

    @property
    def in_words(self) -> str:
        """State and setting: "seen, small setting"; "not run" alone."""
        return f"{self.state}, {self.setting}" if self.setting else self.state

    @property
    def summary(self) -> str:
        """State and setting and, where there are any, the effects with intervals, in points, or a number, of all seeds.

        Of several numbers the first that does not hold, and how many of the others do; what does not hold is said to be "open",
        "the opposite" or, of a number, to fail.

        Example:
            >>> from dptheory.claims import Answer, Measured
            >>> one = Measured(quantity="overlap", values=(0.91,), relation="above 0.8", outcome="holds")
            >>> two = Measured(quantity="gap", values=(0.05,), relation="above 0.1", outcome="fails")
            >>> Answer(measured=(one, two)).summary
            'not seen, small setting: gap 0.05 (fails); 1 of 1 others holds'
            >>> from dptheory.claims import Finding
            >>> found = dict(comparison="a - b (final)", mean=0.5, low=0.25, high=0.75, confidence=0.95, pairs=8)
            >>> ends = (("above -0.5", "holds"), ("below 0.5", "open"))
            >>> within = tuple(Finding(**found, relation=relation, outcome=outcome) for relation, outcome in ends)
            >>> Answer(findings=within).summary
            'open, small setting: +0.50 [+0.25, +0.75] (open) points'
        """
        if self.measured:
            first = next((one for one in self.measured if one.outcome != HOLDS), self.measured[0])
            return f"{self.in_words}: {first.quantity} {first.numbers}{_unless_it_holds(first.outcome)}{self._others(first)}"
        effects = (f"{one.effect}{_unless_it_holds(one.outcome)}" for one in self._decisive())
        return f"{self.in_words}: {'; '.join(effects)} points" if self.findings else self.state

    def far(self) -> list[str]:
        """How far the setting is from the paper's.

        Returns:
            A sentence each: data, network and epochs; the baseline; what else differs.

        Example: three epochs where the paper has eighty.
            >>> from dptheory.claims import Answer, Compared
            >>> Answer(compared=(Compared(what="epochs", here="3", there="80"),)).far()
            ['setting: epochs 3 (the paper: 80)']
        """
        found = [f"setting: {'; '.join(map(str, self.compared))}"] if self.compared else []
        if self.baseline is not None:
            found.append(f"baseline, {self.baseline}{self._left()}")
        return found + ([f"differs in: {self.differs}"] if self.differs else [])

    def _left(self) -> str:
        """What is left of the paper's gain over a baseline that is stronger than the paper's."""
        if self.baseline is None or self.baseline.gain is None or self.baseline.above <= 0 or not self.findings:
            return ""
        return f"; of the paper's gain of {self.baseline.gain:g} points {self.findings[0].effect} is left over it"

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
            >>> Answer(reason="needs a GPU", command="dptheory sweep x.toml").lines()
            ['not run: needs a GPU', 'command: dptheory sweep x.toml']
        """
        found = [f"{self.in_words}{f': {self.reason}' if self.reason else ''}"]
        if self.question:
            found.append(f"asked{self._whom()}: {self.question}")
        if self.corrected:
            found.append(f"corrected when results were known: {self.corrected}")
        found += [str(one) for one in self.measured]
        found += [f"{one}, {one.pairs} pairs, {one.confidence:.0%} interval" for one in self.findings]
        if self.reported:
            found.append("the paper: " + "; ".join(f"{what}: {value}" for what, value in self.reported))
        if self.unasked:
            found.append(f"not asked by these runs: {self.unasked}")
        found += self.far()
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
            "compared": tuple(Compared(**one) for one in table.get("compared", ())),
            "baseline": Baseline(**table["baseline"]) if table.get("baseline") else None,
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
