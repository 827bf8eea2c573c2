"""The demonstration: ledger, one check per verdict, calculators at the paper's setting, and the probe of real gradients."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dptheory import claims
from dptheory.cli import _tables
from dptheory.files import write_atomically

_COLUMNS = {
    "steps": "steps",
    "theta": "theta",
    "retained_gain": "rho",
    "least_retained_gain": "rho needed",
    "dp_sgd_mse": "MSE DP-SGD",
    "gip_mse": "MSE GIP",
    "zero_update_mse": "MSE zero update",
    "cosine_ratio": "cosine / DP-SGD",
    "total_variation": "TV from random-k",
}
"""Field of a row and what it is called in the table and in ``demo.json``."""


def require_probe() -> None:
    """Make sure that the packages of the probe are installed.

    Raises:
        ValueError: they are not.
    """
    if find_spec("torch") is None or find_spec("opacus") is None:
        raise ValueError("the demonstration needs the packages of the extra 'train': pip install 'dptheory[train]'")


def show(console: Console, found: claims.Demonstration, out: Path) -> None:
    """Print the tour and write ``demo.json`` into ``out``."""
    console.rule("1. The ledger")
    console.print(_summary(found))
    console.rule("2. One check for each verdict")
    rows = found.report.rows
    console.print(_tables.evidence_table(rows, f"Evidence, seed {found.report.seed}"))
    for claim, one in rows:
        console.print(f"{claim}: {one.detail}", markup=False, highlight=False)
    answers = ", ".join(f"{count} {state}" for state, count in sorted(found.answers.items()))
    console.print(f"EMPIRICAL rows hold the papers' numbers and what our own runs say: {answers}.")
    console.rule(
        "3. What the paper's setting buys (WRN-16-4, 2.7 M parameters, epsilon = 1, k = 0.1, 1 % for the indices)"
    )
    table = [{name: getattr(one, field) for field, name in _COLUMNS.items()} for one in found.bought]
    console.print(_setting_table(table))
    console.print(
        "rho is the share of the top-k gain over random-k that survives; the last column bounds how far the whole run is from "
        "random-k in total variation. See proofs/gip/budget.md and proofs/gip/criterion.md."
    )
    text = json.dumps({"evidence": _tables.evidence_json(rows), "setting": table}, indent=2)
    write_atomically(out / "demo.json", text + "\n")


def run_probe(console: Console, out: Path) -> bool:
    """The probe of real gradients, a command of its own; True where it ended well."""
    console.rule("4. Real gradients: predicted against measured")
    probe = subprocess.run(
        [sys.executable, "-m", "dptheory", "probe", "--data", "excerpt", "--out", str(out)], check=False
    )
    console.rule(f"Files in {out}")
    return probe.returncode == 0


def _summary(found: claims.Demonstration) -> Table:
    table = Table("verdict", "meaning", "rows")
    for verdict in claims.Verdict:
        table.add_row(
            f"[{_tables.COLOURS[verdict.name]}]{verdict.name}[/]", verdict.value, str(found.counts.get(verdict, 0))
        )
    return table


def _setting_table(rows: list[dict[str, float]]) -> Table:
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{value:.4g}" for value in row.values()))
    return table
