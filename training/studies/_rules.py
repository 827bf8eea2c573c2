"""How results decide about the papers' measured claims and the theory's forecasts: TOML that is declared before them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dptheory import _validate, claims
from dptheory.claims import PAPERS, Verdict
from dptheory.errors import ArgumentError
from dptheory.training._files import only, read_toml, said
from dptheory.training.studies._instruments import Instrument, read_instruments
from dptheory.training.studies._measured import AskedOfInstrument, Question, read_asked, read_question
from dptheory.training.studies._study import EQUIVALENCE, Comparison, Study, read_study

HOME = Path(__file__).resolve().parents[1] / "configs"
HIGHER, LOWER, NOT_HIGHER, NOT_LOWER, EQUAL = "higher", "lower", "not higher", "not lower", "equal"
RELATIONS = (HIGHER, LOWER, NOT_HIGHER, NOT_LOWER, EQUAL)


@dataclass(frozen=True)
class Condition:
    """What a comparison has to say.

    Attributes:
        relation: "higher" or "lower" than 0; "not higher" or "not lower" by the margin; "equal" within it.
        size: whether it asks how large the effect is, not only which way it goes.
        cannot: why this setting cannot decide about it; "" where it can.
    """

    comparison: Comparison
    relation: str
    size: bool = False
    cannot: str = ""

    @property
    def target(self) -> tuple[float, float]:
        """The open interval, in points, in which the whole interval of the difference has to lie."""
        margin = self.comparison.margin or 0.0
        return {
            HIGHER: (0.0, math.inf),
            LOWER: (-math.inf, 0.0),
            NOT_HIGHER: (-math.inf, margin),
            NOT_LOWER: (-margin, math.inf),
            EQUAL: (-margin, margin),
        }[self.relation]

    def __str__(self) -> str:
        low, high = self.target
        if math.isinf(high):
            return f"above {low:g}"
        return f"below {high:g}" if math.isinf(low) else f"within {high:g} of 0"


@dataclass(frozen=True, kw_only=True)
class Asked(Question):
    """What a claim comes to in a study; all conditions must hold."""

    study: Study
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Rule:
    """How a claim is answered.

    Attributes:
        by: the studies, the nearest to the paper's setting first: the first that has its results decides.
        measured: the instrument and its bounds; None where no instrumented run decides.
        reason: why there is neither; "" where there is one.
        question: what runs would be asked, where there is neither: committed before them; "" without one.
        command: that measures it without either; None where there is none.
    """

    by: tuple[Asked, ...] = ()
    measured: AskedOfInstrument | None = None
    reason: str = ""
    question: str = ""
    command: str | None = None
    cost: str = ""


def read_studies(home: Path = HOME) -> dict[str, Study]:
    """All studies by name."""
    return {path.stem: read_study(path) for path in sorted((home / "studies").glob("*.toml"))}


def read_rules(studies: Mapping[str, Study], home: Path = HOME) -> dict[str, Rule]:
    """The rule of every measured claim, in the order of the ledger."""
    found: dict[str, Rule] = {}
    instruments = read_instruments(home / "instruments.toml")
    for paper in PAPERS:
        path = home / "answers" / f"{paper}.toml"
        for name, table in read_toml(path).items():
            found[f"{paper}.{name}"] = _checked(path, f"{paper}.{name}", lambda t=table: _rule(t, studies, instruments))
    ledger = {claim.id: claim for claim in claims.all_claims(verdict=Verdict.EMPIRICAL)}
    if set(found) != set(ledger):
        raise ArgumentError(
            "answers",
            "have a rule per measured claim",
            sorted(set(found) ^ set(ledger)),
            got=f"{sorted(set(found) ^ set(ledger))} on one side",
        )
    for id, rule in found.items():
        for asked in (*rule.by, *((rule.measured,) if rule.measured else ())):
            known = tuple(what for what, _ in ledger[id].reported)
            for name in asked.reported:
                _validate.choice(f"{id}.reported", name, known)
            if isinstance(asked, Asked) and id not in asked.study.answers:
                raise ArgumentError(f"{id}.study", "be one that answers it", asked.study.name)
    for study in studies.values():
        for id in study.answers:
            if study not in [asked.study for asked in found[id].by] if id in found else True:
                raise ArgumentError(
                    id, f"have a rule for study {study.name!r}, which answers it", study.name, got="none"
                )
    return {id: found[id] for id in ledger}


def read_forecasts(studies: Mapping[str, Study], home: Path = HOME) -> dict[str, tuple[Condition, ...]]:
    """What the theory expects of each study's comparisons."""
    path = home / "answers" / "forecasts.toml"
    tables = read_toml(path)
    if set(tables) != set(studies):
        apart = sorted(set(tables) ^ set(studies))
        raise ArgumentError(path.name, "have a forecast per study", apart, got=f"{apart} on one side")
    return {
        name: _checked(path, name, lambda name=name, study=study: _conditions(tables[name], study))
        for name, study in studies.items()
    }


def read_contradicted(studies: Mapping[str, Study], home: Path = HOME) -> dict[str, str]:
    """What of the theory a study's results contradict, beyond the conditions of its forecast; written after them."""
    path = home / "answers" / "contradicted.toml"
    found: dict[str, str] = {}
    for name, table in read_toml(path).items():
        _validate.choice(f"{path.name}: study", name, tuple(studies))
        found[name] = _checked(path, name, lambda table=table: _words(table))
    return found


def _checked(path: Path, name: str, make: Any) -> Any:
    try:
        return make()
    except ArgumentError as error:
        raise error.retold(f"{path.name}, {name}: {error}") from None


def _words(table: Mapping[str, Any]) -> str:
    only(table, ("text",))
    return said(table, "text")


def _rule(table: Mapping[str, Any], studies: Mapping[str, Study], instruments: Mapping[str, Instrument]) -> Rule:
    only(table, ("by", "measured", "reason", "question", "command", "cost"))
    if sum(key in table for key in ("by", "measured", "reason")) != 1:
        raise ArgumentError("by, measured or reason", "be given, one of them", list(table))
    if "question" in table and "reason" not in table:
        raise ArgumentError(
            "question", "stand with reason, or with the study or the instrument that answers it", table["question"]
        )
    by = tuple(_asked(one, studies) for one in table.get("by", ()))
    measured = read_asked(table["measured"], instruments) if "measured" in table else None
    question = said(table, "question") if "question" in table else ""
    return Rule(by, measured, table.get("reason", ""), question, table.get("command"), table.get("cost", ""))


def _asked(table: Mapping[str, Any], studies: Mapping[str, Study]) -> Asked:
    study = studies[_validate.choice("study", table.get("study", ""), tuple(studies))]
    phases = [phase.name for phase in study.phases]
    return Asked(
        study=study,
        conditions=_conditions(table, study),
        **read_question(table, others=("study", "conditions"), arms=tuple(study.arms), phases=phases),
    )


def _conditions(table: Mapping[str, Any], study: Study) -> tuple[Condition, ...]:
    found = tuple(_condition(one, study) for one in table.get("conditions", ()))
    if not found:
        raise ArgumentError("conditions", "be comparisons with their relations", None, got="none")
    return found


def _condition(table: Mapping[str, Any], study: Study) -> Condition:
    only(table, ("phases", "arm", "against", "relation", "size", "cannot"))
    relation = _validate.choice("relation", table.get("relation", ""), RELATIONS)
    wanted = (tuple(table.get("phases", ())), table.get("arm"), table.get("against"))
    made = {(one.phases, one.arm, one.against): one for one in study.comparisons}
    if wanted not in made:
        raise ArgumentError("conditions", f"name comparisons of study {study.name!r}", wanted)
    found = made[wanted]
    if relation in (NOT_HIGHER, NOT_LOWER) and found.margin is None:
        raise ArgumentError("relation", "be 'higher' or 'lower' where the comparison has no margin", relation)
    if (relation == EQUAL) and found.kind != EQUIVALENCE:
        raise ArgumentError("relation", "not be 'equal' where the comparison is a difference", found.arm)
    size = _validate.instance("size", table.get("size", False), bool)
    return Condition(found, relation, size, said(table, "cannot") if "cannot" in table else "")
