"""The ledger and its evidence for terminals and as JSON."""

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from dptheory._rounding import for_json

if TYPE_CHECKING:
    from dptheory.checks import Evidence
    from dptheory.claims import Answer, CheckReport, Claim, SearchResult

COLOURS = {
    "HOLDS": "green",
    "LOOSE": "cyan",
    "CONDITIONAL": "yellow",
    "FALSE": "red",
    "NOT_SHOWN": "magenta",
    "EMPIRICAL": "blue",
}
"""By the name of a verdict."""

_NARROW = 60
_SHORT = {
    "CONDITIONAL": "COND.",
    "EMPIRICAL": "EMP.",
    "NOT_SHOWN": "NOT_S",
    "function": "func",
    "argument": "arg",
    "letter": "sign",
}


def claim_lines(claims: Sequence["Claim"], width: int) -> Iterator[Text]:
    """The ledger for a terminal: one line per claim, cut to the width; ids are whole."""
    ids = max((len(claim.id) for claim in claims), default=0)
    for claim in claims:
        what = claim.title if width < _NARROW else f"{claim.source.label}: {claim.title}"
        mark = _mark(claim.verdict.name, width)
        severity = f" {claim.severity.name.lower():<10}" if claim.severity else f" {'':<10}"
        if width < _NARROW:
            severity = ""
        yield _cut(Text.assemble(f"{claim.id:<{ids}} ", mark, severity, f" {what}"), width)


def match_lines(result: "SearchResult", width: int) -> Iterator[Text]:
    """What was found: one line each, cut to the width, that begins with the verdict and with what to type next."""
    from dptheory.cli._unicode_math import unicode_text  # its library is no part of starting up

    narrow = width < _NARROW
    for one in result.matches:
        mark = _mark(one.verdict.name if one.verdict else one.kind, width)
        step = one.name.removeprefix("dptheory.") if narrow else one.next_steps[0] if one.kind == "claim" else one.name
        what = " ".join(unicode_text(plain_docstring(one.title)).split())
        label = "" if narrow or not one.label else f"{one.label}: "
        yield _cut(Text.assemble(mark, " ", (step, "bold"), f"  {label}{what}"), width)


def _mark(word: str, width: int) -> tuple[str, str]:
    """A verdict, or a kind, in a column of its own; the text and its style."""
    style = COLOURS.get(word, "dim")
    return (f"{_SHORT.get(word, word):<5}" if width < _NARROW else f"{word:<11}"), style


def _cut(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    return line


def plain_docstring(text: str) -> str:
    """A line of a docstring without its markup: roles become formulas or names."""
    text = re.sub(r":math:`([^`]+)`|(\w+(?:[_^]\{[^{}]*\})+)", lambda found: f"${found[1] or found[2]}$", text)
    text = re.sub(r":\w+:`[~.]*([^`]+)`", r"\1", text)
    return text.replace("``", "").replace("`", "").replace(r"\|", "|")


def claim_sections(claim: "Claim") -> list[tuple[str, list[str]]]:
    """Everything about one claim as (heading, paragraphs in Markdown), without empty sections."""
    sections = [
        ("Key points", [f"- {point}" for point in claim.key_points]),
        ("Statement", [claim.statement]),
        ("Conditions", [f"- {condition}" for condition in claim.conditions]),
        ("Instead", [claim.correction] if claim.correction else []),
        ("Where the print errs", [claim.printed_error] if claim.printed_error else []),
        ("The paper's side", [claim.paper_side] if claim.paper_side else []),
        ("For a user", [claim.for_users] if claim.for_users else []),
        ("Checks", [f"{check.name} ({check.kind.value})" for check in claim.checks]),
        ("Reported", [f"{what}: {value}" for what, value in claim.reported]),
        ("State", claim.answer.lines() if claim.answer else [claim.state]),
        ("Coq", [f"{claim.kernel_says} (proofs/kernel/{claim.kernel})"] if claim.kernel else []),
    ]
    return [(name, lines) for name, lines in sections if lines]


def claim_code(claim: "Claim") -> list[tuple[str, list[str]]]:
    """What is no prose, as (heading, lines to print as they are): calculators, a call to copy, files."""
    sections = [
        ("Calculators", list(claim.calculator_names)),
        ("A call", example_of(claim.calculators[0]) if claim.calculators else []),
        ("Files", list(claim.files)),
    ]
    return [(name, lines) for name, lines in sections if lines]


def example_of(calculator: Any) -> list[str]:
    """The lines of the example in a calculator's docstring."""
    _, _, example = (inspect.getdoc(calculator) or "").partition("Example:")
    return [line.strip() for line in example.splitlines()[1:] if line.strip()]


def claims_json(claims: Iterable["Claim"]) -> list[dict[str, Any]]:
    """The ledger as plain data."""
    return [
        {
            "id": claim.id,
            "title": claim.title,
            "paper": claim.source.paper,
            "source": {"label": claim.source.label, "equations": list(claim.source.equations)},
            "summary": claim.summary,
            "key_points": list(claim.key_points),
            "statement": claim.statement,
            "verdict": claim.verdict.name,
            "severity": claim.severity.name if claim.severity else None,
            "conditions": list(claim.conditions),
            "correction": claim.correction,
            "printed_error": claim.printed_error,
            "paper_side": claim.paper_side,
            "ours": claim.ours,
            "for_users": claim.for_users,
            "questions": claim.questions,
            "calculators": list(claim.calculator_names),
            "checks": [{"name": check.name, "kind": check.kind.name} for check in claim.checks],
            "state": claim.state,
            "kernel": claim.kernel,
            "kernel_theorems": list(claim.kernel_theorems),
            "file": claim.file,
            "page": f"proofs/{claim.page}",
            "figure": f"proofs/figures/{claim.figure}.png" if claim.figure else None,
            "reported": dict(claim.reported),
            "answer": _answer_json(claim.answer) if claim.answer else None,
        }
        for claim in claims
    ]


def _answer_json(answer: "Answer") -> dict[str, Any]:
    """The answer as plain data, with the two words that say what was seen, and where."""
    return {**asdict(answer), "state": answer.state, "setting": answer.setting}


def evidence_lines(report: "CheckReport") -> Iterator[tuple[str, Text]]:
    """Indent and line of the outcomes of checks: under each claim a line for a check, and below it one of named numbers."""
    for checked in report.checked:
        if checked.evidence:
            yield "", Text.assemble((checked.claim.id, "bold"), f" (seed {report.seed})")
        for one in checked.evidence:
            mark = ("pass", "green") if one.passed else ("FAIL", "red")
            yield "  ", Text.assemble(mark, f"  {one.check} ({one.kind.value})")
            numbers = {
                "expected": one.claimed,
                "observed": one.observed,
                "standard error": one.standard_error,
                "relative tolerance": one.detectable,
            }
            known = [f"{name} {value:.6g}" for name, value in numbers.items() if value is not None]
            yield "        ", Text(", ".join([*known, f"samples {one.samples}", f"seconds {one.seconds:.1f}"]))


def evidence_json(rows: Iterable[tuple[str, "Evidence"]]) -> list[dict[str, Any]]:
    """Outcomes of checks as plain data."""
    return [{"claim": claim, **for_json(asdict(one)), "kind": one.kind.name} for claim, one in rows]
