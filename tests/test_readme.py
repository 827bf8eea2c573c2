"""The numbers of README and guides, computed; what they say of a claim in words, the checks of the claim compute."""

import dataclasses
import json
import math
import re
import shlex
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dptheory import claims, cli, embedding, gradients, papers, privacy, pruning
from dptheory.claims import STATES
from tests.said import says

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FINDINGS = (ROOT / "proofs" / "guides" / "findings.md").read_text(encoding="utf-8")


def test_at_the_papers_budget_the_selection_cannot_be_told_from_a_random_one() -> None:
    bought = pruning.index_budget(epsilon=0.01, dim=256, keep=26, steps=2500, groups=10_547)
    assert bought.total_variation < 1e-7


def test_masks_can_stop_what_converges() -> None:
    """Clipping bound 4, one of two entries kept: the mean update without a mask is 0 at 0, with one at (3/5, 0)."""
    deviations = np.array([[5.0, 0.0]] * 6 + [[-3.0, 4.0]] * 5 + [[-3.0, -4.0]] * 5)

    def update(w: list[float], masks: np.ndarray) -> np.ndarray:
        return np.mean([gradients.clip(m * (w + xi), clip_norm=4.0) for m in masks for xi in deviations], axis=0)

    assert update([0.0, 0.0], np.ones((1, 2))) == pytest.approx([0, 0], abs=1e-12)
    assert update([0.0, 0.0], np.eye(2)) == pytest.approx([-3 / 16, 0])
    assert update([0.6, 0.0], np.eye(2)) == pytest.approx([0, 0], abs=1e-12)
    assert says(FINDINGS, "3", "5")


def test_no_private_selection_retains_more_than_4_parts_in_10_000_at_that_budget() -> None:
    """GIP's WRN-16-4: 875 steps, 10,547 groups of 256 entries, 26 kept; the sum of the gradients 100 clipping norms long."""
    rho = privacy.zcdp_budget(epsilon=1.0, delta=1e-5) / 875
    bound = pruning.selection_gain_bound(
        zcdp_rho=rho, dim=256, keep=26, groups=10_547, sigma_g=100 / math.sqrt(256 * 10_547), clip_norm=1.0
    )
    assert 3e-4 < bound < 4e-4


def test_the_stated_noise_is_1_1_to_2_2_times_the_least_and_grows_without_bound() -> None:
    delta = 1e-5
    ratios = [embedding.noise_ratio_excess(epsilon=eps, delta=delta) for eps in (0.1, 1.0, 4.0, -2 * math.log(delta))]
    assert 2.2 < ratios[0] < 2.25 and 1.1 < ratios[-1] < 1.15 and sorted(ratios, reverse=True) == ratios
    assert embedding.noise_ratio_excess(epsilon=1e-9, delta=delta) > 100


def test_epsilon_is_bracketed() -> None:
    found = privacy.epsilon_bounds(noise_multiplier=1.0, sampling_rate=0.02, steps=1000, delta=1e-5)
    assert (
        found.lower <= 3.899087994199775 + 1e-12 and found.upper >= 3.899087994199775
    )  # by ball arithmetic, in the review
    assert dataclasses.is_dataclass(found) and Fraction(found.upper) > Fraction(found.lower)
    assert found.upper - found.lower < 1e-9 and f"{found.lower:.7f}" == f"{found.upper:.7f}" == "3.8990880"


def test_the_noise_for_a_budget_is_the_least_to_one_millionth() -> None:
    for schedule in ((1.0,), (2.0, 1.0)):
        run = privacy.Composition([privacy.Step(noise_multiplier=s, sampling_rate=0.02, count=200) for s in schedule])
        factor = run.noise_scale(epsilon=1.0, delta=1e-5)
        assert run.scaled(factor).epsilon(1e-5).upper <= 1.0 < run.scaled(factor * (1 - 1e-6)).epsilon(1e-5).lower


def test_how_many_statements_have_which_verdict() -> None:
    rows = [one for one in claims.all_claims() if not one.ours and one.verdict is not claims.Verdict.EMPIRICAL]
    count = {verdict: sum(one.verdict is verdict for one in rows) for verdict in claims.Verdict}
    severe = {severity: sum(one.severity is severity for one in rows) for severity in claims.Severity}
    true = count[claims.Verdict.HOLDS] + count[claims.Verdict.LOOSE]
    said = " ".join(FINDINGS.split())
    assert f"Of {len(rows)} statements that the papers argue, {true} are true as printed" in said
    assert f"(HOLDS, and {count[claims.Verdict.LOOSE]} LOOSE," in said
    assert f"{count[claims.Verdict.CONDITIONAL]} need a condition that is not stated (CONDITIONAL)" in said
    assert f"of {count[claims.Verdict.NOT_SHOWN]} the argument does not carry (NOT_SHOWN)" in said
    assert (
        f"and {count[claims.Verdict.FALSE]} are FALSE: {severe[claims.Severity.SERIOUS]} with what is built on them"
        in said
    )
    assert f"{severe[claims.Severity.REPAIRABLE]} where a corrected statement serves" in said
    assert f"{severe[claims.Severity.SLIP]} slips of the pen" in said
    short = (
        f"Of {len(rows)} statements that the papers argue, {true} are true as printed, {count[claims.Verdict.CONDITIONAL]} need a "
        f"condition that is not stated, {count[claims.Verdict.FALSE]} are false, and {count[claims.Verdict.NOT_SHOWN]} are not shown. "
        f"We add {sum(one.ours for one in claims.all_claims())} results of our own."
    )
    assert short in " ".join(README.split())
    checked = [one for one in claims.all_claims() if one.kernel]
    own = sum(one.ours for one in checked)
    assert f"Of {len(checked)} claims ({own} of them ours), Coq's kernel has checked a proof too" in said


def test_the_readme_is_short() -> None:
    assert len(README.split()) <= 900


# --- measured claims ----------------------------------------------------------------------------------------------------


def test_how_many_measured_claims_have_an_answer() -> None:
    answers = [one.answer for one in claims.all_claims(verdict="empirical") if one.answer is not None]
    answered = [one for one in answers if one.state != "not run"]
    said = f"{len(answered)} of the\npapers' {len(answers)} measured claims have an answer by studies and instruments"
    counts = [sum(one.state == state for one in answered) for state in STATES[:-1]]
    assert says(FINDINGS, said, *counts) and says(FINDINGS, len(answers) - len(answered))
    told = ", ".join(f"{count} {state}" for count, state in zip(counts, STATES, strict=False))
    assert f"one in the paper's setting and the others in small ones: {told}" in " ".join(FINDINGS.split())
    assert sorted({one.setting for one in answered}) == ["paper's setting", "small setting"]
    assert [one.study for one in answered if one.setting != "small setting"] == ["masking_published"]
    measured = [one.measured for one in answers if one.measured]
    assert {len(number.values) for numbers in measured for number in numbers} == {3}
    distinct = {(one.instrument, one.study, one.measured, one.findings) for one in answered}
    shared = f"some share their numbers, so that there are {len(distinct)} of them"
    assert says(FINDINGS, len(measured), shared)


def test_what_was_measured() -> None:
    text = " ".join(FINDINGS.split())
    (choice,) = _answer("gip.table5").findings
    assert choice.outcome == "open" and says(text, f"{choice.low:.2f}", f"{choice.high:.2f}")
    results = json.loads((Path(__file__).parents[1] / "proofs" / "results.json").read_text(encoding="utf-8"))
    (random,) = [row for row in results["index_pruning"] if (row["arm"], row["against"]) == ("random-k", "dp-sgd")]
    assert says(text, f"{-random['mean']:.2f}", f"{-random['high']:.2f}", f"{-random['low']:.2f}")
    page = (Path(__file__).parents[1] / "proofs" / "results" / "index_pruning.md").read_text(encoding="utf-8")
    assert says(page, "+0.05", "-0.20", "+0.31", "0.3", "0")
    freeze, *_ = _answer("rf.table1").findings
    baseline = _answer("rf.table1").baseline
    assert baseline is not None
    assert freeze.outcome == "holds" and says(text, _loss(freeze), f"{-baseline.above:.1f}")
    compared = ("freeze", "dp-sgd", ["final"])
    (network,) = [row for row in results["handcrafted"] if (row["arm"], row["against"], row["phases"]) == compared]
    assert says(text, *(f"{-network[key]:.2f}" for key in ("mean", "high", "low")))
    labels, _ = _answer("gep.table5").findings
    printed = {what: float(value.split()[0]) for what, value in claims.get("gep.table5").reported}
    gain = printed["CIFAR10, random labels: yes"] - printed["CIFAR10, random labels: no"]
    assert labels.outcome == "the opposite" and says(text, f"{gain:.1f}", _loss(labels))
    (source,) = [row for row in results["auxiliary"] if (row["arm"], row["against"]) == ("other", "own")]
    assert says(text, *(f"{-source[key]:.2f}" for key in ("mean", "high", "low")))
    table = papers.table("rf.table1")
    cells = {table.cell(f"Handcrafted CNN, epsilon 3.0, {what}").text for what in ("baseline", "random freeze")}
    assert len(cells) == 1


def test_what_was_measured_with_what_the_papers_print() -> None:
    text = " ".join(FINDINGS.split())
    masked, relaxed = _answer("rs.table2").findings
    assert (masked.outcome, relaxed.outcome) == ("the opposite", "holds")
    table = papers.table("rs.table2")
    gains = [
        table.cell(f"FMNIST, DP-CNN/S (d = 26K), epsilon {e}, difference").text.lstrip("+") for e in ("1.0", "3.0")
    ]
    baseline = _answer("rs.table2").baseline
    assert baseline is not None and says(text, f"{baseline.above:.1f}", _loss(masked), 1, _gain(relaxed), 3, *gains)
    fashion, mnist = _answer("lf.table1").findings
    assert fashion.pairs == mnist.pairs == 24 and fashion.outcome == "holds" and mnist.high < 0
    printed = {what: float(value.split()[0]) for what, value in claims.get("lf.table1").reported}
    more, less = (
        [
            round(
                100
                * (
                    printed[f"{data}, CNN, epsilon {e}, with freezing"]
                    - printed[f"{data}, CNN, epsilon {e}, without freezing"]
                ),
                1,
            )
            for e in (1, 2, 3)
        ]
        for data in ("FashionMNIST", "MNIST")
    )
    assert says(text, _gain(fashion), min(more), max(more), _loss(mnist), max(less))
    results = json.loads((Path(__file__).parents[1] / "proofs" / "results.json").read_text(encoding="utf-8"))
    same, better = (
        row for row in results["freezing_published"] if (row["arm"], row["against"]) == ("tuned", "freezing")
    )
    assert same["low"] < 0 < same["high"] < 1
    assert says(
        text,
        *(f"{same[key]:.2f}" for key in ("low", "high")),
        *(f"{better[key]:.2f}" for key in ("mean", "low", "high")),
    )
    low, high, *_ = _answer("gep.table1").findings
    change = papers.table("gep.table1-change")
    quoted = [change.cell(f"MNIST, GEP, epsilon {epsilon}").text.lstrip("+") for epsilon in (2, 5)]
    baseline = _answer("gep.table1").baseline
    assert low.high < 0 and high.high < 0 and baseline is not None
    assert says(text, _loss(low), 2, _loss(high), 5, *quoted, 3, f"{baseline.above:.1f}")


def _answer(claim: str) -> claims.Answer:
    found = claims.get(claim).answer
    assert found is not None
    return found


def _gain(found: claims.Finding) -> str:
    return f"{found.mean:.2f} ({found.low:.2f} to {found.high:.2f})"


def _loss(found: claims.Finding) -> str:
    return f"{-found.mean:.2f} ({-found.high:.2f} to {-found.low:.2f})"


# --- the commands of README and guides --------------------------------------------------------------------------------


PAGES = [ROOT / "README.md", *sorted((ROOT / "proofs" / "guides").glob("*.md"))]
QUICK = {"find", "claim", "claims", "check", "bound", "preset", "privacy"}
"""Commands that end in seconds and train nothing."""


def _blocks() -> list[tuple[str, list[list[str]]]]:
    """For each block its page, and its ``dptheory`` commands as words."""
    found = []
    for page in PAGES:
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
            lines = [
                shlex.split(part.strip(), comments=True) for line in block.splitlines() for part in line.split("&&")
            ]
            commands = [words[1:] for words in lines if words[:1] == ["dptheory"]]
            if commands:
                found.append((page.stem, commands))
    return found


BLOCKS = _blocks()


@pytest.mark.parametrize(("page", "commands"), BLOCKS, ids=[page for page, _ in BLOCKS])
def test_every_option_exists(page: str, commands: list[list[str]]) -> None:
    for words in commands:
        path = words[:2] if words[0] in ("privacy", "bound", "preset") else words[:1]
        shown = CliRunner().invoke(cli.app, [*path, "--help"])
        assert shown.exit_code == 0, words
        for option in (word.split("=")[0] for word in words if word.startswith("--")):
            assert option in shown.stdout, (words, option)


@pytest.mark.parametrize(("page", "commands"), BLOCKS, ids=[page for page, _ in BLOCKS])
def test_the_commands_run(
    page: str, commands: list[list[str]], tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In their order, in an empty folder; a block with trainings only with --slow."""
    quick = all(words[0] in QUICK and "--open" not in words for words in commands)
    if not quick and not pytestconfig.getoption("slow"):
        pytest.skip("trains: run it with --slow")
    monkeypatch.chdir(tmp_path)
    for words in commands:
        if "--open" in words:
            continue
        done = CliRunner().invoke(cli.app, words)
        assert done.exit_code == 0, (words, done.output)
