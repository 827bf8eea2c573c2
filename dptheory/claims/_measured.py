"""What the papers measured: a row for each table of ``dptheory/claims/<paper>/measured.toml``, words and all."""

import functools
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

from dptheory.claims._answer import answer_to
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims._prose import Prose
from dptheory.errors import ArgumentError

if TYPE_CHECKING:
    from dptheory.papers import Table

_KEYS = {"title", "label", "statement", "questions", "table", "reported", "figure"}

Reported = Iterator[tuple[str, str]]


@functools.cache
def measured_claims(paper: str) -> dict[str, Claim]:
    """The measured claims of a paper by their ids, in the order of its file."""
    text = resources.files("dptheory.claims").joinpath(paper, "measured.toml").read_text(encoding="utf-8")
    rows = {f"{paper}.{name}": row for name, row in tomllib.loads(text).items()}
    return {id: _claim(paper, id, row) for id, row in rows.items()}


def _claim(paper: str, id: str, row: Mapping[str, Any]) -> Claim:
    unknown = sorted(row.keys() - _KEYS)
    if unknown:
        raise ArgumentError(f"{id} of {paper}/measured.toml", f"have keys among {', '.join(sorted(_KEYS))}", unknown)
    return Claim(
        id=id,
        source=Source(paper, row["label"]),
        verdict=Verdict.EMPIRICAL,
        prose=Prose(title=row["title"], statement=row["statement"], questions=row.get("questions", "")),
        reported=(*_printed(id, row.get("table")), *((what, value) for what, value in row.get("reported", ()))),
        figure=row.get("figure"),
        answer=answer_to(id),
    )


def _printed(id: str, table: str | None) -> Reported:
    """The paper's own table, cell by cell; some are told otherwise."""
    if id in _TOLD:
        yield from _TOLD[id]()
    elif table is not None:
        yield from _table(table).quoted()


def _table(name: str) -> "Table":
    from dptheory import papers  # with its calculators no part of looking up another claim

    return papers.table(name)


def _on_par() -> Reported:
    cells = _table("gep.table3")
    return ((name, cells.cell(name).quoted) for name in (f"{one}, epsilon 0.1" for one in ("GP", "B-GEP", "GEP")))


def _with_changes() -> Reported:
    """Accuracies with the printed differences to GP."""
    changes = _table("gep.table1-change")
    return ((cell.name, f"{cell.quoted} ({changes.cell(cell.name).text})") for cell in _table("gep.table1").cells)


def _hours_and_seconds() -> Reported:
    """Of each method the whole run, then a batch."""
    cells = _table("gip.table2").cells
    for hours, batch in zip(cells[::2], cells[1::2], strict=True):
        yield hours.key("method"), f"{hours.quoted} {hours.key('column')}, {batch.quoted} a batch"


def _with_freeze_rates() -> Reported:
    """The accuracies of each row, then the freeze rate, which is a setting."""
    from dptheory import papers

    rates = {(one.model, one.epsilon): one.number("drop_rate") for one in papers.settings("rf")}
    for cell in _table("rf.table1").cells:
        yield cell.name, cell.quoted
        if cell.key("column") == "random freeze":
            approach, epsilon = cell.key("approach"), cell.key("epsilon")
            yield f"{approach}, epsilon {epsilon}, final freeze rate", f"{rates[approach, float(epsilon)]:g}"


_TOLD: dict[str, Callable[[], Reported]] = {
    "gep.appA.par": _on_par,
    "gep.table1": _with_changes,
    "gip.table2": _hours_and_seconds,
    "rf.table1": _with_freeze_rates,
}
