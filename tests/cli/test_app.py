"""The command line as a user meets it."""

import importlib
import inspect
import io
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tomllib
import webbrowser
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner, Result

from dptheory import claims, cli
from dptheory.checks import Evidence, Kind
from dptheory.claims import _find, _markdown, _prose
from dptheory.cli import _app, _joining, _open, _tables, app
from dptheory.cli._claim_view import show_claim_on
from dptheory.cli._common import TableConsole, cell
from dptheory.cli._joining import GROUP, TRAIN, MissingPackageError, joining
from dptheory.cli._tables import plain_docstring
from dptheory.cli._unicode_math import formula, unicode_text
from tests.calls.command_line import LEAVES

# --- The command line as a user meets it ---


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
        assert (answer["state"], answer["setting"]) == (claim.answer.state, claim.answer.setting)
        assert (answer["setting"] is None) is (claim.state == "not run")


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
    assert "relative tolerance of the coarsest check: 0.002 (gip.norm, mean norm, d = 50)" in result.stdout
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
    assert "0 passed" not in result.stdout
    said = " ".join(result.stdout.split())
    assert f"our own runs say: {claims.get('gip.table1').state}. " in said and "dptheory claim gip.table1" in said
    many = [claim.id for claim in claims.all_claims("gip", "EMPIRICAL")]
    assert "our own runs (dptheory claim ID): " + ", ".join(many) in " ".join(_run("check", *many).stdout.split())


def test_what_is_judged_in_parts_is_shown_and_checked_whole() -> None:
    """The ids begin alike, with a dot or a letter behind; a row of this very id is alone."""
    shown = _run("claim", "lf.prop3.1")
    assert shown.exit_code == 0
    assert re.findall(r"^lf\.\S+", shown.stdout, re.MULTILINE)[1:] == [
        *("lf.prop3.1.1", "lf.prop3.1.2", "lf.prop3.1.3", "lf.prop3.1.3.sum")
    ]
    assert [claim.id for claim in claims.select(["lf.lem3.2"])] == ["lf.lem3.2a", "lf.lem3.2b"]
    assert [claim.id for claim in claims.select(["gep.lem3.2"])] == ["gep.lem3.2"]
    for option in ("--cite", "--open"):
        refused = _run("claim", "lf.prop3.1", option)
        assert refused.exit_code == 2 and "lf.prop3.1.1, " in refused.stderr


def test_outcomes_of_checks_have_names_and_fit_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    number = Evidence(
        "a check with many words in its name " * 3, Kind.EXACT, True, 1.5, 2.5, 0.25, 0.125, 7, 0.5, 0, ""
    )
    monkeypatch.setattr(claims.Claim, "check", lambda *_: (number,))
    shown = _run("check", "gip.eq18").stdout
    assert max(map(len, shown.splitlines())) <= 80
    for named in (
        "expected 1.5",
        "observed 2.5",
        "standard error 0.25",
        "relative tolerance 0.125",
        "samples 7",
        "seconds 0.5",
    ):
        assert named in " ".join(shown.split())


def test_check_leaves_nothing_behind(tmp_path: Path) -> None:
    code = "from dptheory.cli import app; app()"
    command = [sys.executable, "-c", code, "check", "gip.fig1", "--workers", "2", "--budget", "10m"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert list(tmp_path.iterdir()) == []


def test_check_random_seed_differs() -> None:
    seeds = {re.search(r"seed (\d+)", _run("check", "gip.eq18", "--seed", "random").stdout)[1] for _ in range(2)}  # type: ignore[index]
    assert len(seeds) == 2


@pytest.mark.parametrize(("option", "value"), [("budget", "0s"), ("seed", "٣")])
def test_times_and_seeds_that_would_be_numbers_elsewhere(option: str, value: str) -> None:
    result = _run("check", "gip.eq18", f"--{option}", value)
    assert result.exit_code == 2 and result.stderr.startswith(f"Error: --{option} ") and result.stderr.count("\n") == 1


_LONG = {"pages", "refute", "privacy compare"}
"""They write pages or take their time."""


@pytest.mark.parametrize("command", sorted(LEAVES.keys() - _LONG))
def test_the_examples_of_the_help_work(command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The checks themselves run in ``test_claims``; here it matters which are asked for."""
    asked: list[tuple[str, float, int]] = []

    def check(claim: claims.Claim, budget: float, seed: int, executor: None) -> tuple[Evidence, ...]:
        asked.append((claim.id, budget, seed))
        return tuple(Evidence(one.name, one.kind, True, 1.0, 1.0, None, 0.0, 1, 0.0, seed, "") for one in claim.checks)

    monkeypatch.setattr(claims.Claim, "check", check)
    monkeypatch.chdir(tmp_path)
    for line in LEAVES[command].epilog.removeprefix("Example: ").split("; or "):
        program, *words = shlex.split(line)
        assert program == "dptheory" and " ".join(words).startswith(command)
        if words != ["privacy", "statement", "runs/mine"]:
            result = _run(*words)
            assert result.exit_code == 0 and result.stdout, result.output
    if command == "check":
        assert {"gip.mse_t0", "gip.thm1", "gip.thm2"} <= {id for id, *_ in asked}
        assert {budget for _, budget, _ in asked} == {30.0} and len({seed for *_, seed in asked}) == 1


@pytest.mark.parametrize("command", sorted(_LONG))
def test_the_help_of_the_others_shows_an_example(command: str) -> None:
    assert f"Example: dptheory {command}" in " ".join(_run(*command.split(), "--help").stdout.split())


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
    assert failed.exit_code == 2 and "DIRECTORY must be the folder of the proof pages" in failed.stderr
    for paper in claims.PAPERS:
        (tmp_path / paper).mkdir()
    assert _run("pages", str(tmp_path)).exit_code == 0
    assert "gip.eq18" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_a_claim_names_its_files() -> None:
    shown = _run("claim", "gip.mse_t0").stdout
    for file in (
        "dptheory/claims/gip/prop2.py",
        "proofs/gip/mse_t0.md",
        "figures/pruning.py",
        "dptheory/pruning/_error.py",
    ):
        assert f"  {file}\n" in shown
        assert (ROOT / file).exists()


def test_a_claim_whose_page_is_missing_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_prose, "page_folders", lambda: (tmp_path,))
    vars(claims.get("gip.norm")).pop("_words", None)  # read once
    found = _run("claim", "gip.norm")
    assert found.exit_code == 2 and "proofs/gip/norm.md" in found.stderr


def test_number_of_evidence_rows_in_markdown() -> None:
    evidence = claims.get("gip.norm").check(20.0)
    assert len(_markdown.evidence_markdown(evidence).splitlines()) == 2 + len(evidence)


def test_every_claim_can_be_cited() -> None:
    """Two entries, each with a key that nobody else has and balanced braces; the second has verdict, version and commit."""
    commit = subprocess.check_output(["git", "-C", str(ROOT), "rev-parse", "HEAD"], text=True).strip()
    entry = re.compile(r"@(?:misc|software)\{([\w-]+),\n((?:  [a-z]+ = \{[^\n]*\},\n)+)\}")
    keys = set()
    for claim in claims.all_claims():
        paper, row = entry.findall(claims.bibtex(claim))
        assert paper[0] == f"dptheory_paper_{claim.source.paper}" and "title" in paper[1] and "author" in paper[1]
        assert ("https://arxiv.org/abs/" in paper[1]) is ("eprint" in paper[1]) is (claim.source.paper in ("rs", "gep"))
        assert f"version = {{{PROJECT['version']}}}" in row[1] and f"proofs/{claim.page} at commit {commit}" in row[
            1
        ].replace("\\", "")
        keys.add(row[0])
        assert (claim.ours and "own result, on " in row[1]) or claim.judgement.replace("_", r"\_") in row[1]
        for text in (paper[1], row[1]):
            assert text.count("{") == text.count("}")
            assert not re.search(r"(?<!\\)[_&%$#]", text), text  # LaTeX would stop at it
    assert len(keys) == len(claims.all_claims())
    shown = _run("claim", "gip.mse_t0", "--cite")
    assert shown.exit_code == 0 and shown.stdout.strip() == claims.bibtex(claims.get("gip.mse_t0"))


def test_a_false_claim_has_its_printed_number_beside_the_right_one() -> None:
    """By hand: E |x| of one normal entry is sqrt(2 / pi); of two, the smaller square has mean 1 - 2 / pi."""
    printed = claims.get("gip.norm").printed
    assert printed is not None
    right = math.sqrt(2 / math.pi)
    assert f"printed {printed(1, 1.0):.6g}, right {right:.6g} (" in _run("claim", "gip.norm").stdout
    assert f", right {1 - 2 / math.pi:.6g} (" in _run("claim", "gip.mse_t0").stdout
    for id in ("gip.cor1", "gip.mse_r"):  # a yes or no; a claim that holds
        assert "In numbers" not in _run("claim", id).stdout


def test_a_pipe_that_is_not_utf_8_gets_formulas_as_latex() -> None:
    """As under Windows, whose code page knows no epsilon."""
    found = subprocess.run(
        [sys.executable, "-m", "dptheory", "claim", "gip.mse_t0"],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "cp1252"},
        check=True,
    )
    assert r"\varphi" in found.stdout.decode("cp1252")


# The commands of training in the one program: always shown, loaded when they are called, and clear about what they
# lack


PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

CALLS = {
    "answers": [],
    "audit": [],
    "demo": [],
    "instrument": ["masks"],
    "plan": ["x.py:build", "--public", "x.npz", "--num-examples", "50", "--epsilon", "1", "--delta", "1e-5"],
    "rerun": ["x.jsonl", "run"],
    "run": ["x.toml"],
    "sweep": ["x.toml"],
    "validate": [],
}
"""The least that each takes."""

WITHOUT_TRAIN = f"""
import json, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {TRAIN}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from typer.testing import CliRunner
from dptheory.cli import app

def said(*arguments):
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.stdout, result.stderr

calls = json.loads(sys.argv[1])
print(json.dumps([said("--help"), [[said(name, "--help"), said(name, *given)] for name, given in calls.items()]]))
"""


def test_the_commands_are_those_that_pyproject_names() -> None:
    """Fails where the installed metadata are older than pyproject.toml: install again."""
    found = {name: entry.value for name, entry in joining().items() if entry.value.startswith("dptheory.")}
    assert found == PROJECT["entry-points"][GROUP] and found.keys() == CALLS.keys()


def test_without_torch_commands_are_shown_and_say_which_extra_they_need(tmp_path: Path) -> None:
    done = subprocess.check_output([sys.executable, "-c", WITHOUT_TRAIN, json.dumps(CALLS)], cwd=tmp_path, text=True)
    (code, shown, _), each = json.loads(done)
    assert code == 0 and all(f" {name} " in shown for name in CALLS)
    for name, ((helped, page, _), (ended, out, error)) in zip(CALLS, each, strict=True):
        assert helped == 0 and f"dptheory {name}" in page, "its help shows an example"
        assert (ended, out) == (2, "") and error.count("\n") == 1, error
        assert f"dptheory {name} needs the package " in error and "dptheory[train]" in error
    assert list(tmp_path.iterdir()) == []


def test_what_the_extra_brings() -> None:
    first, *packages = PROJECT["optional-dependencies"]["train"]
    assert first == "dptheory[accountants]"
    assert tuple(one.partition(">")[0] for one in packages) == TRAIN


def test_as_a_module() -> None:
    shown = subprocess.check_output([sys.executable, "-m", "dptheory", "run", "--help"], text=True)
    assert "Usage: dptheory run " in shown


def _lacking(package: str) -> Callable[[], None]:
    def command() -> None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    return command


def test_another_missing_module_is_no_matter_of_the_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named 'mine'"):
        _joining._or_what_it_lacks("run", _lacking("mine"))()
    with pytest.raises(MissingPackageError) as refused:
        _joining._or_what_it_lacks("run", _lacking("torch.nn"))()
    assert refused.value.args == ("run", "torch")


def test_no_other_package_takes_the_place_of_a_command_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_joining, "joining", lambda: {"claims": EntryPoint("claims", "no.such:thing", GROUP)})
    assert "gip.mse_t0" in CliRunner().invoke(app, ["claims"]).stdout
    tree = typer.main.get_command(app)
    assert isinstance(tree, _joining.JoinedCommands)
    assert tree.list_commands(None).count("claims") == 1


# --- Tables in a narrow terminal: no number and no name is cut, and no line is too wide ---


_SETUP = ["--num-examples", "2000", "--epsilon", "3", "--delta", "1e-5", "--batch-size", "2000", "--epochs", "1"]


def shown(width: int, *words: str) -> str:
    """What a terminal of this width shows, without its colours."""
    result = CliRunner().invoke(app, words, env={"FORCE_COLOR": "1", "COLUMNS": str(width)})
    assert result.exit_code == 0, result.output[:300]
    return re.sub(r"\x1b\[[0-9;]*m", "", result.stdout)


def numbers_and_names(*words: str) -> list[str]:
    rows = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    return [part for row in rows for value in row.values() for part in cell(value).split()]


def test_in_a_pipe_tables_fit_80_columns_and_lines_of_a_list_are_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    for words in (("preset", "embedding"), ("plan", *_SETUP[:6], "--max-epochs", "1", *_SETUP[6:])):
        assert max(map(cell_len, _run(*words).stdout.splitlines())) <= 80
    assert max(map(cell_len, _run("claims").stdout.splitlines())) > 80


@pytest.mark.parametrize("width", [80, 40])
@pytest.mark.parametrize("words", [("preset", "list"), ("preset", "embedding")], ids=" ".join)
def test_presets_are_whole(width: int, words: tuple[str, ...]) -> None:
    text = shown(width, *words)
    assert "…" not in text and max(map(cell_len, text.splitlines())) <= width
    found = text.split()
    assert all(found.count(one) >= numbers_and_names(*words).count(one) for one in set(numbers_and_names(*words)))


@pytest.mark.parametrize("width", [80, 60])
def test_a_plan_is_whole(width: int) -> None:
    plan = ["plan", *_SETUP]
    text = shown(width, *plan)
    (row,) = json.loads(CliRunner().invoke(app, [*plan, "--json"]).stdout)
    assert "…" not in text
    assert {"2000", "1", f"{row['noise_per_step']:.3g}", "batch", "noise"} <= set(text.split())
    assert max(map(cell_len, text.partition("Noise per step:")[0].splitlines())) <= width


def printed(width: int, *rows: tuple[str, ...]) -> list[str]:
    table = Table("name", "said of it", "number")
    for row in rows:
        table.add_row(*row)
    file = io.StringIO()
    TableConsole(width=width, file=file).print(table)
    return file.getvalue().splitlines()


def test_words_are_wrapped_and_the_widest_words_get_their_room() -> None:
    rows = (("random-sparsification", "a b c d e f g h i j k l m n o p", "1234567890"),)
    lines = printed(50, *rows)
    assert lines[0].startswith("┏") and {cell_len(line) for line in lines} == {50}
    (first,) = [line for line in lines if "random-sparsification" in line]
    assert "1234567890" in first
    assert printed(90, *rows)[3].split() == ["│", rows[0][0], "│", *rows[0][1].split(), "│", rows[0][2], "│"]


def test_what_does_not_fit_is_a_block_per_row() -> None:
    rows = (("random-sparsification", "one [bold]two[/] three", "1234567890"), ("x", "", "2"))
    expected = [
        "name: random-sparsification",
        "said of it: one two three",
        "number: 1234567890",
        "",
        "name: x",
        "number: 2",
        "",
    ]
    assert printed(30, *rows) == expected


# Formulas in the terminal: nothing raw is left in any row of the ledger, and no formula says something else on one
# line


RAW = re.compile(r"[\\$]|[\^_]\{|:math:")


def _texts(claim: claims.Claim) -> list[str]:
    answer = claim.answer.lines() if claim.answer else []
    reported = [f"{what}: {value}" for what, value in claim.reported]
    checks = [check.name for check in claim.checks]
    more = (
        claim.title,
        str(claim.source),
        claim.summary,
        claim.statement,
        claim.correction,
        claim.printed_error,
        claim.for_users,
    )
    return [text for text in (*more, *claim.conditions, *claim.key_points, *reported, *answer, *checks) if text]


def test_nothing_raw_is_left_in_any_row() -> None:
    """Code between backticks stays as it is; there is no exception among the formulas."""
    shown = {
        claim.id: re.sub(r"`[^`]*`", "", unicode_text("\n\n".join(_texts(claim)))) for claim in claims.all_claims()
    }
    assert {id: found[0] for id, text in shown.items() if (found := RAW.search(text))} == {}


def test_nothing_raw_is_left_in_what_is_found() -> None:
    titles = {one.match.name: unicode_text(plain_docstring(one.match.title)) for one in _find._index()}
    assert {name: text for name, text in titles.items() if RAW.search(text)} == {}


def test_a_sign_that_the_library_does_not_know_stays_to_be_seen() -> None:
    assert formula(r"a\unheardof b") == r"a\unheardof b"


def test_something_raw_would_be_seen() -> None:
    for text in (r"\sigma", "$x$", "x_{ab}", "x^{2}", ":math:`x`"):
        assert RAW.search(text)


FORMULAS = [
    (r"\frac{a+b}{c}", "(a+b)/c"),
    (r"\frac a{b+c}", "a/(b+c)"),
    (r"\frac{ab}{2T}", "ab/(2T)"),
    (r"\frac ab c", "(a/b) c"),
    (r"\frac abc", "(a/b)c"),
    (r"\frac ab+c", "a/b+c"),
    (r"\frac ab^2", "(a/b)²"),
    (r"1/\frac ab", "1/(a/b)"),
    (r"\log\frac ab", "log(a/b)"),
    (r"\frac1{\frac ab}", "1/(a/b)"),
    (r"\frac{\frac ab}c", "(a/b)/c"),
    (r"\tfrac12", "1/2"),
    (r"\frac{\sigma_g^2}{B^2}", "σ_g²/B²"),
    (r"\sqrt x", "√x"),
    (r"\sqrt{x+1}", "√(x+1)"),
    (r"\sqrt kS", "√k·S"),
    (r"\sqrt{kS}", "√(kS)"),
    (r"\sqrt[3]x", "³√x"),
    (r"z^{e-1}", "zᵉ⁻¹"),
    (r"z^e-1", "zᵉ-1"),
    (r"x^{1/2}", "x^(1/2)"),
    (r"x_{a,b}", "x_(a,b)"),
    (r"\sigma_g x", "σ_g x"),
    (r"\sigma_gx", "σ_g x"),
    (r"\mathrm{MSE}_ {t0}", "MSEₜ₀"),
    (r"E\lVert g\odot I\rVert^2", "E‖g⊙I‖²"),
    (r"\hat\Sigma", "Σ̂"),
    (r"\tilde p_t", "p̃ₜ"),
    (r"r^\ast", "r*"),
    (r"K^\top K", "KᵀK"),
    (r"\epsilon\le\varepsilon", "ε ≤ ε"),
    (r"a<b\ne c", "a < b ≠ c"),
    (r"s:=2", "s := 2"),
    (r"\cos\theta", "cos θ"),
    (r"\log(1/\delta)", "log(1/δ)"),
    (r"\max_{i\le n}Q_i", "max_(i ≤ n) Qᵢ"),
    (r"\sum_{i=0}^a", "∑ᵢ₌₀ᵃ"),
    (r"\binom Ki\binom{d-K}i", "(K choose i)(d-K choose i)"),
    (r"\Big[\big(x\big)\Big]", "[(x)]"),
    (r"\left(x\right)", "(x)"),
    (r"a\thinspace b\qquad c", "a b c"),
    (r"x\text{ for every }i", "x for every i"),
    (r"\lbrace 0,1\rbrace", "{0,1}"),
    (r"x = 1 .", "x = 1."),
    (r"x.\tag{11}", "x. (11)"),
    (r"\begin{cases}a&b\cr c&d\end{cases}", "{ a b; c d"),
    ("", ""),
    ("x_", "x"),
    (r"\frac a", r"\frac a"),
    (r"A\implies B\iff C", "A ⇒ B ⇔ C"),
]


def test_formulas() -> None:
    found = [(latex, formula(latex)) for latex, _ in FORMULAS]
    assert [one for one, other in zip(found, FORMULAS, strict=True) if one != other] == []


def test_text_keeps_its_words_and_shown_formulas_their_own_lines() -> None:
    assert (
        unicode_text("with $x\n= 1$ so\n\n$$y = \\frac12 .$$\n\nthen")
        == "with x = 1 so\n\n\n\n    y = 1/2.\n\n\n\nthen"
    )
    assert unicode_text("no formula, 5 % of `code`") == "no formula, 5 % of `code`"


def test_docstrings_lose_their_markup() -> None:
    assert plain_docstring(r"wj of :math:`w_j^2`, :func:`~dptheory.pruning.beta`, ``steps``, \|w\|, v_{t+1}") == (
        "wj of $w_j^2$, dptheory.pruning.beta, steps, |w|, $v_{t+1}$"
    )
    assert inspect.getdoc(formula)


# --- `dptheory find`, and the ledger in a narrow window, as a user meets them ---


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
        assert not (claim.ours and "printed" in lines[0]), claim.id


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
    for words in (["GIP Proposition 2"], ["GIP", "Proposition", "2"]):
        said = _run("claim", *words).stderr
        assert "did you mean gip.mse_t0, gip.mse_t, " in said and "dptheory find 'GIP Proposition 2'" in said
    assert "near: gip.mse_t0" in _run("claim", "gip.mset0").stderr and _run("claim", "...").exit_code == 2


@pytest.mark.parametrize(
    ("query", "command"),
    [
        ("own network", "dptheory plan"),
        ("shuffle", "dptheory privacy epsilon"),
        ("compare accountants", "dptheory privacy compare"),
        ("is my accountant right", "dptheory privacy compare"),
        ("how much noise do I need", "dptheory privacy sigma"),
        ("how many epochs can I train", "dptheory privacy steps"),
        ("what can an attacker learn", "dptheory privacy tradeoff"),
        ("write a privacy statement", "dptheory privacy statement"),
        ("cite", "dptheory claim --cite"),
        ("counterexample own formula", "dptheory refute"),
    ],
)
def test_what_people_come_for_leads_to_a_command(query: str, command: str) -> None:
    first = claims.find(query).matches[0]
    assert (first.kind, first.name) == ("command", command)


def test_commands_and_pages_that_are_named_exist() -> None:
    for command, _, page, _ in _find._TASKS:
        assert (ROOT / "proofs" / page).is_file()
        if command.startswith("dptheory."):
            module, _, function = command.rpartition(".")
            assert hasattr(importlib.import_module(module), function)
            continue
        words = command.removeprefix("dptheory ").split()
        shown = _run(*[word for word in words if not word.startswith("--")], "--help")
        assert shown.exit_code == 0 and all(word in shown.stdout for word in words if word.startswith("--"))


# --- `dptheory claim ID --open`: what the browser is given ---


_UNSEEN = re.compile(r"<(style|math|pre|code)\b.*?</\1>", re.DOTALL)


def test_the_page_is_written_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("math_core", reason="needs the extra docs")
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    done = CliRunner().invoke(cli.app, ["claim", "gip.mse_t0", "--open"])
    assert done.exit_code == 0 and done.stdout.startswith("opened ")
    text = Path(url2pathname(urlsplit(opened[0]).path)).read_text(encoding="utf-8")
    assert "<h1>gip.mse_t0: top-k pruning MSE</h1>" in text and "<strong>FALSE, repairable</strong>" in text
    assert text.count("<math") > 50


def test_without_a_browser_the_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("math_core", reason="needs the extra docs")
    monkeypatch.setattr(webbrowser, "open", lambda _address: False)
    done = CliRunner().invoke(cli.app, ["claim", "gip.thm1", "--open"])
    assert done.exit_code == 0
    assert Path(done.stdout.removeprefix("no browser was found; the page is ").strip()).is_file()


def test_without_pages_or_library_one_line_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "math_core", None)
    _open._converter.cache_clear()
    done = CliRunner().invoke(cli.app, ["claim", "gip.thm1", "--open"])
    assert (done.exit_code, done.stderr) == (2, "Error: --open needs the extra docs: pip install 'dptheory[docs]'\n")
    monkeypatch.setattr(_prose, "page_folders", lambda: (tmp_path,))
    done = CliRunner().invoke(cli.app, ["claim", "gip.thm1", "--open"])
    assert done.exit_code == 2 and "proofs/gip/thm1.md did not come with this installation" in done.stderr


def test_no_page_is_left_with_a_raw_formula() -> None:
    pytest.importorskip("math_core", reason="needs the extra docs")
    left = {}
    for page in {claim.page: claim for claim in claims.all_claims()}.values():
        text = _UNSEEN.sub("", _open.page_html(page.id, claims.page_markdown(page), page.page_file.parent))
        if "$" in text or "\\frac" in text or "\ue000" in text:
            left[page.id] = text
    assert list(left) == []


def test_a_large_closing_bracket_with_an_exponent_is_drawn_as_closing() -> None:
    pytest.importorskip("math_core", reason="needs the extra docs")
    found = _open.mathml(r"\big(a+b\big)^2", display=False)
    assert '<msup><mrow><mo form="postfix" minsize="1.2em" maxsize="1.2em">)</mo></mrow><mn>2</mn></msup>' in found
    assert _open.mathml(r"(a)^2", display=False).count("postfix") == 0


def test_displayed_formulas_keep_the_layout_of_mathematics(tmp_path: Path) -> None:
    """With display: block a browser sets each sign of a formula on a line of its own."""
    pytest.importorskip("math_core", reason="needs the extra docs")
    text = _open.page_html("x", "$$a+b$$", tmp_path)
    assert 'math[display="block"] { display: block math;' in text and '<math display="block">' in text
