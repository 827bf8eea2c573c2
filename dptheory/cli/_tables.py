"""The ledger and its evidence for terminals and as JSON."""

import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich.table import Column, Table

from dptheory.checks import Evidence
from dptheory.claims import PAPERS, Claim, Verdict

COLOURS = {
    Verdict.HOLDS: "green",
    Verdict.LOOSE: "cyan",
    Verdict.CONDITIONAL: "yellow",
    Verdict.FALSE: "red",
    Verdict.EMPIRICAL: "blue",
}


def claims_table(claims: Iterable[Claim]) -> Table:
    """The ledger for a terminal."""
    table = Table(Column("id", no_wrap=True), title="Ledger of claims")
    for name in ("verdict", "claim", "in the paper", "state"):
        table.add_column(name, overflow="fold")
    for claim in claims:
        verdict = f"[{COLOURS[claim.verdict]}]{claim.verdict.name}[/]"
        table.add_row(claim.id, verdict, claim.title, str(claim.source), claim.state)
    return table


def claim_sections(claim: Claim) -> list[tuple[str, list[str]]]:
    """Everything about one claim as (heading, lines), without empty sections."""
    sections = [
        ("In the paper", [f"{PAPERS[claim.source.paper]}: {claim.source}"]),
        ("In short", [claim.summary] if claim.summary else []),
        ("Key points", list(claim.key_points)),
        ("Statement", [claim.statement]),
        ("Conditions", list(claim.conditions)),
        ("Instead", [claim.correction] if claim.correction else []),
        ("Where the print errs", [claim.printed_error] if claim.printed_error else []),
        ("Calculators", list(claim.calculator_names)),
        ("Checks", [f"{check.name} ({check.kind.value})" for check in claim.checks]),
        ("Reported", [f"{what}: {value}" for what, value in claim.reported]),
        ("State", claim.answer.lines() if claim.answer else [claim.state]),
        ("Files", list(claim.files)),
    ]
    return [(name, lines) for name, lines in sections if lines]


def claims_json(claims: Iterable[Claim]) -> list[dict[str, Any]]:
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
            "conditions": list(claim.conditions),
            "correction": claim.correction,
            "printed_error": claim.printed_error,
            "ours": claim.ours,
            "calculators": list(claim.calculator_names),
            "checks": [{"name": check.name, "kind": check.kind.name} for check in claim.checks],
            "state": claim.state,
            "file": claim.file,
            "page": f"proofs/{claim.page}",
            "figure": f"proofs/figures/{claim.figure}.png" if claim.figure else None,
            "reported": dict(claim.reported),
            "answer": asdict(claim.answer) if claim.answer else None,
        }
        for claim in claims
    ]


def evidence_table(rows: Iterable[tuple[str, Evidence]], title: str) -> Table:
    """Outcomes of checks for a terminal."""
    table = Table(
        "claim", "check", "kind", "", "claimed", "observed", "std. error", "detectable", "samples", "s", title=title
    )
    for claim, one in rows:
        mark = "[green]pass[/]" if one.passed else "[red]FAIL[/]"
        numbers = (_number(one.claimed), _number(one.observed), _number(one.standard_error), _number(one.detectable))
        table.add_row(claim, one.check, one.kind.value, mark, *numbers, str(one.samples), f"{one.seconds:.1f}")
    return table


def evidence_json(rows: Iterable[tuple[str, Evidence]]) -> list[dict[str, Any]]:
    """Outcomes of checks as plain data."""
    return [
        {"claim": claim, **{name: finite_or_none(value) for name, value in asdict(one).items()}, "kind": one.kind.name}
        for claim, one in rows
    ]


def finite_or_none(value: Any) -> Any:
    """JSON has no NaN and no infinity: null stands for them, and the text beside it says why."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
