"""Each sentence of README and guides that states a result, computed: the number or the inequality, not the words."""

import dataclasses
import json
import math
import re
import shlex
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dptheory import claims, cli, convergence, embedding, gradients, papers, privacy, pruning, sparsification
from dptheory.claims import STATES
from tests.said import says

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FINDINGS = (ROOT / "proofs" / "guides" / "findings.md").read_text(encoding="utf-8")

# --- random freeze and random sparsification --------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [450, 4500])
def test_the_convergence_bounds_hold_for_fresh_masks_not_for_one_mask_per_epoch(steps: int) -> None:
    """L = |w|^2 / 2 from (1, 1), half of the entries kept, nothing clipped, no noise."""
    rate = 1 / math.sqrt(18 * steps)
    bound = convergence.dpsgd_bound(
        objective_gap=1.0,
        learning_rate=rate,
        steps=steps,
        smoothness=1.0,
        clip_norm=6.0,
        drop_rate=0.5,
        kappa=0.5,
        second_moment=36.0,
    ).value
    fresh = convergence.fresh_mask_moments(1.0, start=[1.0, 1.0], steps=steps, learning_rate=rate, drop_rate=0.5)
    held = convergence.epoch_mask_moments(
        1.0, start=[1.0, 1.0], epochs=1, steps_per_epoch=steps, learning_rate=rate, drop_rate=0.5
    )
    assert fresh[:-1].sum(axis=1).mean() <= bound
    assert held[:-1].sum(axis=1).mean() > bound


def test_kappa_lies_in_the_closed_range_and_its_upper_end_needs_a_condition() -> None:
    flat, spike = np.full(4, 2.0), np.array([4.0, 0.0, 0.0, 0.0])
    assert sparsification.kappa(spike, clip_norm=4.0, drop_rate=0.75).value == 0.25  # the lower end is attained
    rows = np.array([[2.0] * 4, [-2.0] * 4, [0.0] * 4, [0.0] * 4])  # P = 1/2 = sqrt(1 - r)
    met = sparsification.kappa(flat, clip_norm=4.0, drop_rate=0.75, deviation=rows)
    assert met.condition and met.value == pytest.approx(1.0)  # and so is the upper one
    unmet = sparsification.kappa(flat, clip_norm=4.0, drop_rate=0.75, deviation=np.vstack([rows, rows[:2]]))  # P = 1/3
    assert not unmet.condition and unmet.value > 1


@pytest.mark.parametrize("drop_rate", [0.25, 0.75, 0.99])
def test_at_a_tuned_learning_rate_the_trade_off_pays_only_for_kappa_above_the_root(drop_rate: float) -> None:
    root = math.sqrt(1 - drop_rate)

    def gain(kappa: float, noise: float) -> float:
        tuned = [sparsification.tuned_bound(drop_rate=r, kappa=k, objective_gap=1.0, steps=100, curvature_term=1.0,
        noise_term=noise)
                 for r, k in ((0.0, 1.0), (drop_rate, kappa))]  # fmt: skip
        return tuned[0].bound / tuned[1].bound

    assert all(gain(root, noise) < 1 for noise in (0.0, 1e-3, 1.0, 1e3, 1e6))
    assert gain(1.01 * root, 1e6) > 1  # where the noise is large, any kappa above it pays


@pytest.mark.parametrize("dim", [2, 3, 10, 1000, 10**6])
def test_alike_in_all_directions_no_mask_pays_unless_the_noise_exceeds_twice_the_batch(dim: int) -> None:
    """At noise_multiplier = 2 batch_size, D = 4 d C^2 beside A = C^2: the largest kappa stays below what a gain asks for."""

    def gain(keep: int, noise: float) -> bool:
        share, ratio = keep / dim, dim * noise**2
        kappa = sparsification.largest_isotropic_kappa(dim=dim, drop_rate=1 - share)
        return kappa > math.sqrt((1 + share * ratio) / (1 + ratio))

    kept = sorted({1, 2, dim // 2, dim - 1} & set(range(1, dim)))
    assert not any(gain(keep, noise) for keep in kept for noise in (0.5, 1.0, 2.0))
    assert gain(1, 1e3)  # where the noise is larger the bound leaves room


def test_with_poisson_batches_the_bound_needs_the_larger_second_moment() -> None:
    """L = w^2 / 2 at w = 10, clip 1, step 1/2, 1000 examples drawn with probability 1/1000: |s| is the number drawn."""
    step, mean, square = 0.5, 1.0, 1.0 + 0.999
    decrease = step * 10 * mean - step**2 * square / 2
    fixed, poisson = (
        convergence.layer_freezing_bound(
            decrease=decrease,
            learning_rate=step,
            steps=1,
            smoothness=1.0,
            clip_norm=1.0,
            noise_multiplier=0.0,
            dim=1,
            batch_size=1,
            sampling=sampling,
            sampling_rate=rate,
        ).value
        for sampling, rate in (("fixed", None), ("poisson", 0.001))
    )
    assert fixed < 10 * mean == pytest.approx(poisson, rel=1e-9)


# --- gradient index pruning -------------------------------------------------------------------------------------------


def test_the_printed_top_k_error_counts_a_factor_twice() -> None:
    from dptheory import claims

    printed = claims.get("gip.mse_t0").printed
    assert printed is not None
    for dim, keep in ((1000, 100), (10**6, 3 * 10**5)):
        asymptotic = float(pruning.top_k_mse(dim, keep, sigma_g=1.0, method="asymptotic"))
        assert printed(dim, keep, 1.0) == pytest.approx((1 - keep / dim) * asymptotic, rel=1e-12)
        assert float(pruning.top_k_mse(dim, keep, sigma_g=1.0)) == pytest.approx(asymptotic, rel=0.01)


def test_the_printed_condition_is_met_where_not_updating_has_a_smaller_error_and_the_direction_is_worse() -> None:
    """The paper's ratio of gradient to noise, sigma_g^2 / sigma^2 = 1e-4, at C = 1."""
    dim, keep, sigma_g, theta = 2700, 270, 0.01, 1e-3
    assert sigma_g**2 <= float(
        pruning.beta(clip_norm=1.0, keep=keep, dim=dim, theta=theta)
    )  # the printed condition at sigma = 1
    error = (
        float(pruning.perturbed_top_k_mse(dim, keep, theta=theta, sigma_g=sigma_g)) + keep
    )  # kept entries carry noise of variance 1
    assert float(pruning.zero_update_mse(dim, sigma_g=sigma_g)) < error < dim  # dim: the error of DP-SGD
    assert pruning.cosine_ratio(dim, keep, theta=theta) < 1


def test_at_the_papers_budget_the_selection_cannot_be_told_from_a_random_one() -> None:
    bought = pruning.index_budget(epsilon=0.01, dim=256, keep=26, steps=2500, groups=10_547)
    assert bought.total_variation < 1e-7


# --- gradient embedding perturbation ----------------------------------------------------------------------------------


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


def test_the_best_split_and_the_projection_are_free() -> None:
    for dim, k, ratio in ((270_000, 1000, 0.2), (1000, 400, 0.5)):
        split = embedding.split_noise(dim=dim, subspace_dim=k, embedding_clip=1.0, residual_clip=ratio, mu=1.0)
        assert math.hypot(1 / split.embedding_std, ratio / split.residual_std) == pytest.approx(1.0)  # the same mu
        assert (
            split.energy
            < embedding.gep_mse(dim=dim, subspace_dim=k, clip_norm=1.0, residual_clip=ratio, mu=1.0).published
        )


def test_clipping_first_never_has_more_noise_than_plain_perturbation_but_can_have_the_larger_error() -> None:
    for share in np.linspace(0, 1, 21):
        assert embedding.joint_clip(
            dim=1000, subspace_dim=100, clip_norm=1.0, residual_share=float(share), mu=1.0
        ).energy <= 1000 * (1 + 1e-12)
    found = embedding.clipped_gep_mse(
        np.zeros((100, 1)), residuals=np.tile(np.eye(9)[0], (100, 1)), clip_norm=1.0, residual_clip=0.1, mu=1.0
    )
    assert found.joint > found.plain


def test_the_printed_excess_risk_keeps_the_root_of_the_dimension() -> None:
    """At T = n beta eps / sqrt p, gradients on one line (k = 1, no residual): the risk falls no faster than sqrt p / n."""
    samples = 10**6
    least = [
        embedding.least_risk(smoothness=1.0, initial_distance=1.0, steps=round(samples / math.sqrt(dim)))
        for dim in (10**4, 10**6, 10**8)
    ]
    assert least[1] / least[0] == pytest.approx(10, rel=0.01) and least[2] / least[1] == pytest.approx(10, rel=0.03)
    free = {
        embedding.excess_risk(
            dim=dim, subspace_dim=1, train_size=samples, smoothness=1.0, initial_distance=1.0, mu=1.0, residual_clip=0.0
        ).value
        for dim in (10**4, 10**8)
    }
    assert len(free) == 1  # at the best T


# --- layer freezing ---------------------------------------------------------------------------------------------------


def test_freezing_can_raise_the_bias_angle_from_3_to_33_degrees() -> None:
    """Three samples, clip 1, two trainable entries and a frozen one."""
    samples = np.array([[72.0, 0.0, 21.0], [0.0, 16.0, 63.0], [-0.01, 0.01, 0.0]])

    def bias_angle(clipped_on: np.ndarray) -> float:
        factors = np.minimum(1.0, 1.0 / np.linalg.norm(clipped_on, axis=1))
        signal, true = (factors[:, None] * samples[:, :2]).sum(axis=0), samples[:, :2].sum(axis=0)
        return math.degrees(math.acos(signal @ true / np.linalg.norm(signal) / np.linalg.norm(true)))

    assert round(bias_angle(samples)) == 3 and round(bias_angle(samples[:, :2])) == 33


@pytest.mark.parametrize(
    ("step", "literal_holds"), [(0.01, False), (0.1, False), (1.0, True), (1.5, False), (1.9, False)]
)
def test_the_printed_freezing_bound_fails_for_small_and_large_steps_and_re_indexed_always(
    step: float, literal_holds: bool
) -> None:
    """f = theta^2 / 2 from 1, one step, no noise, nothing clipped."""
    after = 1 - step
    decrease = (1 - after**2) / 2
    assert (min(1, after**2) <= (decrease - step * after**2) / step) is literal_holds  # inner product after the step
    assert (decrease - step) / step <= 0 < 1  # where the step starts: it cannot bound the square there, 1


def test_freezing_lowers_the_dimension_of_the_noise() -> None:
    full, frozen = (
        convergence.layer_freezing_bound(
            decrease=1.0,
            learning_rate=0.1,
            steps=10,
            smoothness=1.0,
            clip_norm=1.0,
            noise_multiplier=1.0,
            dim=dim,
            batch_size=64,
        ).noise
        for dim in (1000, 400)
    )
    assert full / frozen == pytest.approx(2.5)


# --- what every check does --------------------------------------------------------------------------------------------


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
        f"condition that is not stated, {count[claims.Verdict.FALSE]} are false, and {count[claims.Verdict.NOT_SHOWN]} are not shown; "
        f"our own {sum(one.ours for one in claims.all_claims())} are counted apart."
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
    rows = json.loads((Path(__file__).parents[1] / "proofs" / "results.json").read_text(encoding="utf-8"))[
        "index_pruning"
    ]
    (random,) = [row for row in rows if (row["arm"], row["against"]) == ("random-k", "dp-sgd")]
    assert says(text, f"{-random['mean']:.2f}", f"{-random['high']:.2f}", f"{-random['low']:.2f}")
    page = (Path(__file__).parents[1] / "proofs" / "results" / "index_pruning.md").read_text(encoding="utf-8")
    assert says(page, "+0.05", "-0.20", "+0.31", "0.3", "0")
    freeze, *_ = _answer("rf.table1").findings
    baseline = _answer("rf.table1").baseline
    assert baseline is not None
    assert freeze.outcome == "the opposite" and says(text, _loss(freeze), f"{-baseline.above:.1f}")
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


# --- before you trust an epsilon ------------------------------------------------------------------------------------------


def test_shuffled_batches_that_are_accounted_for_as_poisson_spend_more() -> None:
    run = {"noise_multiplier": 1.0, "delta": 1e-5}
    proved = privacy.samplers.shuffled_epsilon_lower_bound(**run, batches=100, epochs=100)
    reported = privacy.epsilon_bounds(**run, sampling_rate=0.01, steps=10_000).upper
    assert 30.4 <= proved < 30.5 and reported == pytest.approx(6.2, abs=0.05)


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
def test_the_commands_run(page: str, commands: list[list[str]], tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """In their order, in an empty folder; a block with trainings only with --slow."""
    quick = all(words[0] in QUICK and "--open" not in words for words in commands)
    if not quick and not pytestconfig.getoption("slow"):
        pytest.skip("trains: run it with --slow")
    for words in commands:
        if "--open" in words:
            continue
        done = subprocess.run([sys.executable, "-m", "dptheory", *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stderr)
