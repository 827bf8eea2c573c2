"""The demonstration: ledger, one check per verdict, calculators at the paper's setting, and the probe of real gradients."""

import json
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dptheory import claims, papers, pruning
from dptheory.checks import Evidence
from dptheory.claims.gip.budget import PAPER_GROUP, PAPER_GROUPS, PAPER_KEEP, PAPER_STEPS
from dptheory.cli import _tables
from dptheory.files import write_atomically

_SHOWN = {"HOLDS": "gip.fig1", "LOOSE": "rf.lem2", "CONDITIONAL": "gip.thm1", "FALSE": "gip.mse_t0"}
_CHECK_BUDGET = 20.0


def run(console: Console, out: Path) -> bool:
    """Print the tour, write ``demo.json`` and the probe's files into ``out``; True if all checks passed.

    Raises:
        ValueError: the packages of the probe are not installed.
        OSError: ``out`` cannot be written to.
    """
    if find_spec("torch") is None or find_spec("opacus") is None:
        raise ValueError("the demonstration needs the packages of the extra 'train': pip install 'dptheory[train]'")
    out.mkdir(parents=True, exist_ok=True)
    console.rule("1. The ledger")
    console.print(_summary())
    console.rule("2. One check for each verdict")
    rows = _checks()
    console.print(_tables.evidence_table(rows, "Evidence, seed 0"))
    for claim, one in rows:
        console.print(f"{claim}: {one.detail}", markup=False, highlight=False)
    console.print(f"EMPIRICAL rows hold the papers' numbers and what our own runs say: {_answers()}.")
    console.rule(
        "3. What the paper's setting buys (WRN-16-4, 2.7 M parameters, epsilon = 1, k = 0.1, 1 % for the indices)"
    )
    table = setting_rows()
    console.print(_setting_table(table))
    console.print(
        "rho is the share of the top-k gain over random-k that survives; the last column bounds how far the whole run is from "
        "random-k in total variation. See proofs/gip/budget.md and proofs/gip/criterion.md."
    )
    write_atomically(
        out / "demo.json", json.dumps({"evidence": _tables.evidence_json(rows), "setting": table}, indent=2) + "\n"
    )
    console.rule("4. Real gradients: predicted against measured")
    probe = subprocess.run(
        [sys.executable, "-m", "training", "probe", "--data", "excerpt", "--out", str(out)], check=False
    )
    console.rule(f"Files in {out}")
    return probe.returncode == 0 and all(one.passed for _, one in rows)


def setting_rows() -> list[dict[str, float]]:
    """theta, rho and errors in the paper's WRN-16-4 setting, epsilon = 1, 1 % for the indices; sigma is Table 4's."""
    rows = []
    sigma = papers.setting("gip.wrn-16-4.eps1").number("noise_multiplier")
    sigma_g = 0.1  # sigma_g^2 / sigma^2 = 1e-4, Appendix B.1
    for steps in PAPER_STEPS:
        bought = pruning.index_budget(epsilon=0.01, dim=PAPER_GROUP, keep=PAPER_KEEP, steps=steps, groups=PAPER_GROUPS)
        noise = float(pruning.noise_mse(keep=PAPER_KEEP * PAPER_GROUPS, clip_norm=1.0, noise_multiplier=sigma))
        rows.append(
            {
                "steps": steps,
                "theta": bought.theta,
                "rho": bought.retained_gain,
                "rho needed": pruning.least_retained_gain(PAPER_GROUP, PAPER_KEEP, groups=PAPER_GROUPS),
                "MSE DP-SGD": float(
                    pruning.noise_mse(keep=PAPER_GROUP * PAPER_GROUPS, clip_norm=1.0, noise_multiplier=sigma)
                ),
                "MSE GIP": PAPER_GROUPS
                * float(pruning.perturbed_top_k_mse(PAPER_GROUP, PAPER_KEEP, bought.theta, sigma_g=sigma_g))
                + noise,
                "MSE zero update": float(pruning.zero_update_mse(PAPER_GROUP * PAPER_GROUPS, sigma_g)),
                "cosine / DP-SGD": pruning.cosine_ratio(PAPER_GROUP, PAPER_KEEP, bought.theta, groups=PAPER_GROUPS),
                "TV from random-k": bought.total_variation,
            }
        )
    return rows


def _summary() -> Table:
    counts = Counter(claim.verdict for claim in claims.all_claims())
    table = Table("verdict", "meaning", "rows")
    for verdict in claims.Verdict:
        table.add_row(f"[{_tables.COLOURS[verdict]}]{verdict.name}[/]", verdict.value, str(counts[verdict]))
    return table


def _answers() -> str:
    """Such as "2 confirmed, 47 not run"."""
    counts = Counter(claim.state for claim in claims.all_claims(verdict=claims.Verdict.EMPIRICAL))
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))


def _checks() -> list[tuple[str, Evidence]]:
    return [(id, one) for id in _SHOWN.values() for one in claims.get(id).check(_CHECK_BUDGET, seed=0)]


def _setting_table(rows: list[dict[str, float]]) -> Table:
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{value:.4g}" for value in row.values()))
    return table
