"""`dptheory find`, and the ledger in a narrow window, as a user meets them."""

import json
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner, Result

from dptheory import claims, cli
from dptheory.claims import _find
from dptheory.cli import _tables
from dptheory.cli._claim_view import show_claim_on

ROOT = Path(__file__).parents[2]


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, arguments)


def test_from_the_readme_to_a_verdict_and_a_call() -> None:
    """Three steps: find the label, show the row, run the call that it prints."""
    found = _run("find", "GIP", "Proposition", "2").stdout
    assert "FALSE       dptheory claim gip.mse_t0  Proposition 2: top-k pruning MSE\n" in found
    shown = _run("claim", "gip.mse_t0").stdout
    assert shown.startswith(
        "FALSE, repairable: not true as printed; a corrected statement serves the paper's use (proved)\n"
    )
    assert shown.splitlines()[1] == "gip.mse_t0: top-k pruning MSE"
    lines = [line.strip() for line in shown.split("A call\n")[1].split("Files\n")[0].splitlines()]
    names: dict[str, object] = {}
    exec(lines[0].removeprefix(">>> "), names)
    assert eval(lines[1].removeprefix(">>> "), names) == float(lines[2])


def test_one_query_whether_quoted_or_not() -> None:
    assert _run("find", "GIP Proposition 2").stdout == _run("find", "GIP", "Proposition", "2").stdout


def test_next_steps_and_how_many_there_are() -> None:
    shown = _run("find", "gip.mse_t0", "--max-matches", "1").stdout.splitlines()
    assert shown[1:5] == [
        "Next, for the first:",
        "  dptheory claim gip.mse_t0",
        "  from dptheory.pruning import top_k_mse",
        "  proofs/gip/mse_t0.md",
    ]
    count = claims.find("kappa").found
    assert _run("find", "kappa").stdout.endswith(f"{count} found; --max-matches {count} shows all\n")
    assert "shows all" not in _run("find", "kappa", "--max-matches", "1000").stdout


def test_nothing_found_is_one_line_and_code_one() -> None:
    result = _run("find", "kapa")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "nothing fits 'kapa'; near: kappa\n")


def test_as_json() -> None:
    found = json.loads(_run("find", "kappa", "--json").stdout)
    assert found["query"] == "kappa" and found["glossary"] is True
    assert found["matches"][0]["next_steps"][0] == "from dptheory.sparsification import kappa"
    assert {"CONDITIONAL", None} <= {one["verdict"] for one in found["matches"]}
    assert _run("find", "kapa", "--json").exit_code == 1


def test_an_installed_package_says_that_it_has_no_glossary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("dptheory.claims._find._GLOSSARY", tmp_path / "none.md")
    assert "the glossary was not searched" in _run("find", "kappa").stderr


@pytest.mark.parametrize("width", [80, 40])
def test_lines_fit_the_window_and_name_all_that_matters(width: int) -> None:
    rows = claims.all_claims()
    lines = [line.plain for line in _tables.claim_lines(rows, width)]
    assert len(lines) == len(rows) and max(map(cell_len, lines)) <= width
    for claim, line in zip(rows, lines, strict=True):
        id, verdict, *_ = line.split()
        assert id == claim.id and (verdict == claim.verdict.name or verdict[:3] == claim.verdict.name[:3])
        assert claim.title[:8] in line or (width == 80 and claim.source.label[:20] in line)
    for query in ("GIP Proposition 2", "kappa", "top-k", "clip_norm"):
        found = claims.find(query)
        shown = [line.plain for line in _tables.match_lines(found, width)]
        assert len(shown) == len(found.matches) and max(map(cell_len, shown)) <= width
        if width == 80:
            steps = [one.next_steps[0] if one.kind == "claim" else one.name for one in found.matches]
            assert [step for step, line in zip(steps, shown, strict=True) if step not in line] == []


@pytest.mark.parametrize("width", [80, 40])
def test_a_claim_fits_the_window(width: int) -> None:
    """All but calls and paths, which are to be copied whole."""
    for claim in claims.all_claims():
        console = Console(width=width)
        with console.capture() as capture:
            show_claim_on(console, claim, latex=False)
        lines = capture.get().split("\nCalculators\n")[0].split("\nFiles\n")[0].splitlines()
        wide = [line for line in lines if cell_len(line) > width or line != line.rstrip()]
        assert lines[0].startswith(claim.verdict.name) and wide == [], claim.id


def test_latex_on_demand() -> None:
    plain, source = _run("claim", "gip.mse_t0").stdout, _run("claim", "gip.mse_t0", "--latex").stdout
    assert "MSEₜ₀ = E‖g-g⊙Iₜ‖² = (1-k)dσ_g²[1-k-2aφ(a)]." in plain and "\\" not in plain
    statement = claims.get("gip.mse_t0").statement
    assert [line for line in statement.splitlines() if f"  {line}" not in source.splitlines()] == []


def test_links_to_other_pages_become_ids() -> None:
    shown = _run("claim", "lf.appA.moment").stdout
    assert "one of the two mistakes of lf.lem3.1, alone" in shown and ".md)" not in shown


def test_a_wrong_id_leads_to_find() -> None:
    result = _run("claim", "gip.prop2")
    assert result.exit_code == 2 and result.stderr.endswith("; or try: dptheory find gip.prop2\n")
    assert "dptheory find 'GIP Proposition 2'" in _run("claim", "GIP Proposition 2").stderr


@pytest.mark.parametrize(
    ("query", "command"),
    [
        ("own network", "dptheory plan"),
        ("shuffle", "dptheory privacy epsilon"),
        ("cite", "dptheory claim --cite"),
        ("counterexample own formula", "dptheory refute"),
    ],
)
def test_what_people_come_for_leads_to_a_command(query: str, command: str) -> None:
    first = claims.find(query).matches[0]
    assert (first.kind, first.name) == ("command", command)


def test_commands_and_pages_that_are_named_exist() -> None:
    for command, _, page, _ in _find._TASKS:
        words = command.removeprefix("dptheory ").split()
        shown = _run(*[word for word in words if not word.startswith("--")], "--help")
        assert shown.exit_code == 0 and all(word in shown.stdout for word in words if word.startswith("--"))
        assert (ROOT / "proofs" / page).is_file()
