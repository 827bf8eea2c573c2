"""A plan as Markdown and as JSON."""

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

from dptheory import _validate
from dptheory.planning._advice import advice
from dptheory.planning._records import MethodResult, Plan


def to_json(plan: Plan, *, results: Sequence[MethodResult] = ()) -> str:
    """A plan for programs: its fields, the sentences under "advice", null for what nothing bounds.

    Args:
        plan: of :func:`dptheory.planning.plan`.
        results: of finished runs, by :func:`dptheory.planning.compare_runs`.

    Returns:
        JSON, with a line end.

    Raises:
        ValueError: ``plan`` or ``results`` is something else.

    Source: new, on RF, section 2.2 (rf.mse_criterion).

    Example: the noise of a run on all records at once.
        >>> import json
        >>> from dptheory.planning import TrainingSetup, plan, to_json
        >>> setup = TrainingSetup(num_examples=1000, epsilon=3.0, delta=1e-5, dim=2000, batch_size=1000, epochs=10)
        >>> round(json.loads(to_json(plan(setup)))["noise_multiplier"], 2)
        4.4
    """
    plain = dataclasses.asdict(_validate.instance("plan", plan, Plan))
    plain["advice"] = [dataclasses.asdict(one) for one in advice(plan)]
    plain["results"] = [dataclasses.asdict(one) for one in _checked(results)]
    return json.dumps(_without_infinity(plain), indent=2, allow_nan=False) + "\n"


def _without_infinity(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case tuple() | list():
            return [_without_infinity(one) for one in value]
        case dict():
            return {key: _without_infinity(one) for key, one in value.items()}
        case _:
            return value


def to_markdown(plan: Plan, *, results: Sequence[MethodResult] = ()) -> str:
    """A plan for reading: the advice, the choices, a table of the methods.

    Args:
        plan: of :func:`dptheory.planning.plan`.
        results: of finished runs, by :func:`dptheory.planning.compare_runs`.

    Returns:
        Markdown, with a line end.

    Raises:
        ValueError: ``plan`` or ``results`` is something else.

    Source: new, on RF, section 2.2 (rf.mse_criterion).

    Example: the rows of the table.
        >>> from dptheory.planning import TrainingSetup, plan, to_markdown
        >>> setup = TrainingSetup(num_examples=1000, epsilon=3.0, delta=1e-5, dim=2000, batch_size=1000, epochs=10)
        >>> [line for line in to_markdown(plan(setup)).splitlines() if line.startswith("| random-k")]
        ['| random-k | keep_share 0.5 | 0.0193 | 0.5 | undecided | 1 to 7 | rf.posterior, rf.mse_criterion |']
    """
    _validate.instance("plan", plan, Plan)
    setup = plan.setup
    size = f"{setup.num_examples} records, {setup.entries} parameters"
    source = "no statistics" if plan.statistics is None else f"statistics of {plan.statistics}"
    if plan.moments:
        source += f", moments {', '.join(plan.moments)}"
    elif plan.released is not None:
        source += ", released of the private records at the start"
    elif plan.statistics is not None:
        source += ", at no moment of which DP-SGD is seen to descend"
    if plan.borrowed:
        source += " (borrowed)"
    lines = [
        "# Plan",
        "",
        f"{size}, epsilon = {setup.epsilon:g}, delta = {setup.delta:g}; {source}.",
        "",
        *(f"- {one.text}{_in_brackets(one.claims)}" for one in advice(plan)),
        "",
        *_table(plan.choice_rows()),
        "",
        "| method | setting | noise energy / C^2 | descent over DP-SGD's | verdict | place | rests on |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in plan.methods:
        parts = ", ".join(f"{part.name} {part.value:.3g}" for part in one.parts) or "none"
        place = f"{one.best_rank} to {one.worst_rank}" if one.best_rank != one.worst_rank else f"{one.best_rank}"
        cells = (
            one.method,
            parts,
            str(one.noise_energy),
            str(one.descent),
            one.verdict,
            place,
            ", ".join(one.descent.claims),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, *_runs(_checked(results))]) + "\n"


def _checked(results: Sequence[MethodResult]) -> Sequence[MethodResult]:
    if not isinstance(results, Sequence) or not all(isinstance(one, MethodResult) for one in results):
        raise ValueError(f"results must be a row of MethodResult, got {_validate.shown(results)}")
    return results


def _runs(results: Sequence[MethodResult]) -> list[str]:
    if not results:
        return []
    lines = [
        "",
        "| method | runs | accuracy | over DP-SGD | epsilon | as planned | forecast | outcome |",
        f"|{'---|' * 8}",
    ]
    for one in results:
        reach = "" if one.lower is None else f" ({one.lower:+.4f} to {one.upper:+.4f})"
        cells = (
            one.method,
            str(one.runs),
            f"{one.accuracy:.4f}",
            "" if one.difference is None else f"{one.difference:+.4f}{reach}",
            f"{one.largest_epsilon:.4g}",
            "yes" if one.planned else "no",
            one.forecast,
            one.outcome,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Markdown; the first row is the head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [lines[0], f"|{'---|' * len(rows[0])}", *lines[1:]]


def _in_brackets(claims: tuple[str, ...]) -> str:
    return f" ({', '.join(claims)})" if claims else ""
