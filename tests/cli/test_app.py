"""The command line as a user meets it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dptheory import claims, cli
from dptheory.checks import Evidence, Kind
from dptheory.claims import _markdown
from dptheory.cli import _app

ROOT = Path(__file__).parents[2]


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, arguments)


def test_claims_as_table_markdown_and_json() -> None:
    assert "gip.mse_t0" in _run("claims").stdout
    assert _run("claims", "--format", "md").stdout.startswith("# The ledger")
    rows = json.loads(_run("claims", "--paper", "gip", "--verdict", "false", "--format", "json").stdout)
    assert {row["verdict"] for row in rows} == {"FALSE"}
    assert [row["id"] for row in rows] == [c.id for c in claims.all_claims("gip", "FALSE")]
    assert [row["severity"] for row in rows] == [
        c.severity.name for c in claims.all_claims("gip", "FALSE") if c.severity
    ]


def test_claims_show_verdict_and_severity() -> None:
    lines = {line.split()[0]: line.split() for line in _run("claims", "--paper", "rs").stdout.splitlines()}
    assert lines["rs.lem3.3"][1:3] == ["FALSE", "repairable"] and lines["rs.appF"][1] == "NOT_SHOWN"
    shown = _run("claim", "lf.prop3.1.1").stdout
    assert shown.startswith("FALSE, serious: not true as printed; what the paper builds on it falls (proved)\n")
    assert "The paper's side\n" in shown


def test_json_says_of_a_measured_claim_what_was_seen_and_where() -> None:
    rows = json.loads(_run("claims", "--verdict", "empirical", "--format", "json").stdout)
    answers = {row["id"]: row["answer"] for row in rows}
    assert {one["state"] for one in answers.values()} <= {
        "seen",
        "trend only",
        "not seen",
        "opposite",
        "open",
        "not run",
    }
    assert {row["severity"] for row in rows} == {None}
    for claim in claims.all_claims(verdict="empirical"):
        assert claim.answer is not None
        answer = answers[claim.id]
        assert (answer["state"], answer["setting"]) == (claim.answer.seen, claim.answer.setting)
        assert (answer["setting"] is None) is (claim.state == "not run")
        assert (answer["state"] == "seen") is (claim.state == "confirmed")


def test_claim_shows_everything() -> None:
    shown = _run("claim", "gip.mse_t0").stdout
    for part in ("FALSE", "Proposition 2", "dptheory.pruning.top_k_mse", "asymptotic <= exact", "proofs/gip/mse_t0.md"):
        assert part in shown


def test_claim_shows_reported_numbers_and_state() -> None:
    shown = _run("claim", "gip.table2").stdout
    assert "12.6 s a batch" in shown and "not run: " in shown


def test_check_writes_evidence(tmp_path: Path) -> None:
    file = tmp_path / "new" / "evidence.json"
    result = _run("check", "gip.eq18", "gip.norm", "--budget", "10m", "--seed", "3", "--json", str(file))
    assert result.exit_code == 0, result.output
    assert "4 passed, 0 failed" in result.stdout
    assert "smallest relative error seen by the coarsest check: 0.002 (gip.norm, mean norm, d = 50)" in result.stdout
    rows = json.loads(file.read_text(encoding="utf-8"))
    assert {row["claim"] for row in rows} == {"gip.eq18", "gip.norm"}
    assert all(row["passed"] and row["seed"] == 3 for row in rows)
    assert [path.name for path in file.parent.iterdir()] == ["evidence.json"], "no temporary file is left"


def test_check_fails_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Evidence("x", Kind.EXACT, False, 1.0, 2.0, None, 0.0, 1, 0.0, 0, "fails at (1)")
    monkeypatch.setattr(claims.Claim, "check", lambda *_: (failing,))
    result = _run("check", "gip.eq18")
    assert result.exit_code == 1
    assert "FAIL gip.eq18, x: fails at (1)" in result.stdout


def test_check_says_what_has_no_check() -> None:
    result = _run("check", "gip.table1")
    assert result.exit_code == 0
    assert "without a check, for our own runs to answer: gip.table1" in result.stdout


def test_check_leaves_nothing_behind(tmp_path: Path) -> None:
    code = "from dptheory.cli import app; app()"
    command = [sys.executable, "-c", code, "check", "gip.fig1", "--workers", "2", "--budget", "10m"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert list(tmp_path.iterdir()) == []


def test_check_random_seed_differs() -> None:
    seeds = {re.search(r"seed (\d+)", _run("check", "gip.eq18", "--seed", "random").stdout)[1] for _ in range(2)}  # type: ignore[index]
    assert len(seeds) == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("claim", "gip.mse_to"), "near: gip.mse_t"),
        (("claims", "--paper", "nips"), "paper "),
        (("claims", "--verdict", "perhaps"), "verdict "),
        (("check", "nothing.*"), "patterns "),
        (("check", "gip.eq18", "--budget", "soon"), "budget "),
        (("check", "gip.eq18", "--budget", "0s"), "budget "),
        (("check", "gip.eq18", "--seed", "-1"), "seed "),
        (("check", "gip.eq18", "--seed", "lucky"), "seed "),
        (("check", "gip.eq18", "--seed", "٣"), "seed "),
        (("check", "gip.eq18", "--json", "."), "--json must name a file"),
    ],
)
def test_mistakes_get_one_line_and_code_two(arguments: tuple[str, ...], says: str) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["claims", "claim", "check", "pages", "find", "refute"])
def test_help_shows_an_example(command: str) -> None:
    assert f"Example: dptheory {command}" in " ".join(_run(command, "--help").stdout.split())


@pytest.mark.parametrize("command", ["claims", "claim", "check", "find"])
def test_the_examples_of_the_help_work(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks themselves run in ``test_claims``; here it matters which are asked for."""
    asked: list[tuple[str, float, int]] = []

    def check(claim: claims.Claim, budget: float, seed: int, executor: None) -> tuple[Evidence, ...]:
        asked.append((claim.id, budget, seed))
        return tuple(Evidence(one.name, one.kind, True, 1.0, 1.0, None, 0.0, 1, 0.0, seed, "") for one in claim.checks)

    monkeypatch.setattr(claims.Claim, "check", check)
    text = " ".join(_run(command, "--help").stdout.split())
    words = re.search(r"Example: dptheory (.*?)(?: │| ╰|$)", text)
    assert words is not None
    arguments = words[1].replace("'", "").split()
    assert _run(*arguments).exit_code == 0, arguments
    if command == "check":
        assert {"gip.mse_t0", "gip.thm1", "gip.thm2"} <= {id for id, *_ in asked}
        assert {budget for _, budget, _ in asked} == {30.0} and len({seed for *_, seed in asked}) == 1


def test_budgets() -> None:
    assert [_app.parse_budget(text) for text in ("30s", "10m", "1h", "2.5")] == [30, 600, 3600, 2.5]


def test_output_is_quiet_and_whole_when_piped() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from dptheory.cli import app; app()", "check", "gip.eq18"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "", "no progress bar off a terminal"
    assert "number of zeros" in done.stdout


def test_pages_refresh_what_is_generated(tmp_path: Path) -> None:
    failed = _run("pages", str(tmp_path))
    assert failed.exit_code == 2 and "directory must be the folder of the proof pages" in failed.stderr
    for paper in claims.PAPERS:
        (tmp_path / paper).mkdir()
    assert _run("pages", str(tmp_path)).exit_code == 0
    assert "gip.eq18" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_a_claim_names_its_files() -> None:
    shown = _run("claim", "gip.mse_t0").stdout
    for file in (
        "dptheory/claims/gip/mse_t0.py",
        "proofs/gip/mse_t0.md",
        "figures/top_k_mse.py",
        "dptheory/pruning/_error.py",
    ):
        assert f"  {file}\n" in shown
        assert (ROOT / file).exists()


def test_number_of_evidence_rows_in_markdown() -> None:
    evidence = claims.get("gip.norm").check(20.0)
    assert len(_markdown.evidence_markdown(evidence).splitlines()) == 2 + len(evidence)


def test_every_claim_can_be_cited() -> None:
    """Two entries, each with a key of its own and balanced braces; the verdict is in the second."""
    entry = re.compile(r"@(?:misc|software)\{([\w-]+),\n((?:  [a-z]+ = \{[^\n]*\},\n)+)\}")
    keys = set()
    for claim in claims.all_claims():
        paper, row = entry.findall(claims.bibtex(claim))
        assert paper[0] == claim.source.paper and "title" in paper[1] and "author" in paper[1]
        keys.add(row[0])
        assert claim.ours or claim.judgement.replace("_", r"\_") in row[1]
        for text in (paper[1], row[1]):
            assert text.count("{") == text.count("}")
    assert len(keys) == len(claims.all_claims())
    shown = _run("claim", "gip.mse_t0", "--cite")
    assert shown.exit_code == 0 and shown.stdout.strip() == claims.bibtex(claims.get("gip.mse_t0"))


def test_a_pipe_that_is_not_utf_8_gets_formulas_as_latex() -> None:
    """As under Windows, whose code page knows no epsilon."""
    found = subprocess.run(
        [sys.executable, "-m", "dptheory", "claim", "gip.mse_t0"],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "cp1252"},
        check=True,
    )
    assert r"\varphi" in found.stdout.decode("cp1252")
