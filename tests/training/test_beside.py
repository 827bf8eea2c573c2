"""What is said of results beside the rules, asked after them: every number is that of the files."""

import bisect
import itertools
import json
import math
import re
import statistics
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from dptheory import claims, embedding, papers, privacy
from dptheory.training.studies import Difference, paired_difference
from dptheory.training.studies._rules import HOME, read_contradicted, read_rules, read_studies
from dptheory.training.studies._statistics import rounded
from tests.said import says

RESULTS = HOME.parents[1] / "proofs" / "results"
RULES = read_rules(read_studies())
BESIDE = {
    (id, one.study.name if hasattr(one, "study") else one.instrument.name): " ".join(one.beside.split())
    for id, rule in RULES.items()
    for one in (*rule.by, *((rule.measured,) if rule.measured else ()))
    if one.beside
}
SEEDS = (0, 1, 2)


def differs(claim: str, study: str = "") -> str:
    rule = RULES[claim]
    found = rule.measured or next(one for one in rule.by if study in ("", one.study.name))
    return " ".join(found.differs.split())


def measured(instrument: str, arm: str, kind: str) -> list[list[dict[str, Any]]]:
    """Rows of an arm, by seed."""
    return [arms(instrument, seed)[arm]["measured"][kind] for seed in SEEDS]


def arms(instrument: str, seed: int) -> dict[str, Any]:
    found: dict[str, Any] = lines("instruments")[f"{instrument}_seed={seed}"]["arms"]
    return found


@cache
def lines(study: str) -> dict[str, dict[str, Any]]:
    """By the names of runs."""
    text = (RESULTS / f"{study}.jsonl").read_text(encoding="utf-8")
    return {one["run"]: one for one in map(json.loads, text.splitlines())}


def accuracies(study: str, phase: str, arm: str) -> dict[str, float]:
    """In percent, after the last epoch, by seed."""
    named = sorted(name for name in lines(study) if name.startswith(f"{phase}_{arm}_seed="))
    assert named, (study, phase, arm)
    return {name.rsplit("=", 1)[1]: 100 * lines(study)[name]["epochs"]["test_accuracy"][-1] for name in named}


def paired(study: str, phases: tuple[str, ...], arm: str, against: str) -> tuple[list[float], list[float]]:
    one, other = ([accuracies(study, phase, name) for phase in phases] for name in (arm, against))
    assert [a.keys() for a in one] == [b.keys() for b in other]
    return [x for a in one for x in a.values()], [x for b in other for x in b.values()]


def ratio_of_gains(one: Mapping[str, float], other: Mapping[str, float], kind: str) -> tuple[float, float]:
    """The worth of a step of the one method over that of the other, and its standard error to first order."""
    value, base = one[kind] / other[kind], other[kind]
    return value, math.hypot(one[f"{kind}_error"], value * other[f"{kind}_error"]) / base


def difference(study: str, arm: str, against: str, *phases: str) -> Difference:
    return paired_difference(*paired(study, phases, arm, against))


def test_each_text_has_a_test() -> None:
    assert {claim for claim, _ in BESIDE} == {
        "lf.table1", "lf.asm3.1", "lf.fig3", "lf.fig4", "lf.fig5", "lf.fig6", "lf.fig7", "lf.fig8", "rs.fig2", "rs.fig3",
        "rs.fig5",
        "rf.fig1", "rf.fig2", "rf.fig3", "gip.assumption1", "gip.noise_ratio", "gip.fig4", "gip.table5", "gep.fig5",
        "gep.table1", "gep.fig6", "rf.table1",
    }  # fmt: skip


# --- layer freezing ---------------------------------------------------------------------------------------------------


def test_how_many_layers_are_frozen() -> None:
    one, two, three = (
        difference("freezing", arm, "dp-sgd", "fashion-1") for arm in ("freezing-1", "freezing-2", "freezing")
    )
    budgets = tuple(f"fashion-{epsilon}" for epsilon in (1, 2, 3))
    half = [str(difference("freezing", "freezing-2", "dp-sgd", phase)) for phase in budgets]
    gains = [
        100
        * (
            _printed(f"FashionMNIST, CNN, epsilon {e}, with freezing")
            - _printed(f"FashionMNIST, CNN, epsilon {e}, without freezing")
        )
        for e in (1, 2, 3)
    ]
    most = difference("freezing", "freezing", "dp-sgd", *budgets)
    for said in (
        "at epsilon = 1, 2 and 3: {}, {} and {} points".format(*half),
        "prints gains of {:.1f}, {:.1f} and {:.1f}; three layers".format(*gains),
        f"all budgets together: {most}; one, at epsilon = 1: {one}. DP-SGD itself",
    ):
        assert says(BESIDE["lf.table1", "freezing"], said), said
    assert says(BESIDE["lf.fig6", "freezing"], f"{one.mean:.2f}", f"{two.mean:.2f}", f"{three.mean:.2f}")
    without, with_freezing = (_printed(f"FashionMNIST, CNN, epsilon 1, {how} freezing") for how in ("without", "with"))
    assert says(BESIDE["lf.fig6", "freezing"], "1", f"{100 * (with_freezing - without):.1f}")
    plain = [statistics.fmean(accuracies("freezing", f"fashion-{epsilon}", "dp-sgd").values()) for epsilon in (1, 2, 3)]
    text = BESIDE["lf.table1", "freezing"]
    assert says(text, f"{plain[0]:.1f}", "1") and says(text, f"{plain[1]:.1f}", f"{plain[2]:.1f}")
    assert says(text, "81.5") and with_freezing == 0.815 < plain[0] / 100
    printed = [_printed(f"FashionMNIST, CNN, epsilon {epsilon}, without freezing") for epsilon in (2, 3)]
    assert says(text, "85.5", "86.2") and printed == [0.855, 0.862]
    assert plain[1] < 85.5 and plain[2] < 86.2
    assert two.high < 0 and three.high < 0
    sigmas = [
        lines("freezing")[f"{phase}_dp-sgd_seed={seed}"]["noise_multiplier"]
        for phase, seed in zip(budgets, (100, 200, 300), strict=True)
    ]
    assert says(differs("lf.table1", "freezing"), *(f"{sigma:.2f}" for sigma in sigmas))


def test_mnist_was_frozen_at_the_wrong_times() -> None:
    """Shares of the epochs that appendix D's noise affords, by both accountants; the times of the runs; what came out."""
    text = differs("lf.table1", "freezing")
    run = {"noise_multiplier": 1.923, "sampling_rate": 2048 / 60_000, "delta": 1e-5}
    afforded = {"exact": [], "renyi": []}  # type: dict[str, list[float]]
    for epsilon, epoch in ((1.0, 3), (2.0, 17), (3.0, 39)):
        steps = privacy.max_steps(**run, epsilon=epsilon)
        afforded["exact"].append(epoch / (steps * run["sampling_rate"]))
        steps = bisect.bisect(range(1, steps + 1), epsilon, key=lambda count: privacy.rdp_epsilon(**run, steps=count))
        afforded["renyi"].append(epoch / (steps * run["sampling_rate"]))
    assert says(text, "3, 17", "39", *(f"{share:.2f}" for share in (*afforded["renyi"], *afforded["exact"])))
    shares = [
        lines("freezing")[f"mnist-{e}_freezing_seed={1000 + 100 * e}"]["config"]["mechanism"]["after"]
        for e in (1, 2, 3)
    ]
    assert says(text, *map(str, shares)) and shares == [
        lines("freezing")[f"fashion-{e}_freezing_seed={100 * e}"]["config"]["mechanism"]["after"] for e in (1, 2, 3)
    ]
    assert "tanh in place of tempered sigmoids" in text
    said = BESIDE["lf.table1", "freezing"]
    changes = [difference("freezing", "freezing", "dp-sgd", f"mnist-{e}").mean for e in (1, 2, 3)]
    assert says(said, *(f"{change:.2f}" for change in changes)) and changes == sorted(changes) and changes[-1] < 0
    for epsilon in (1, 2, 3):
        half = difference("freezing", "freezing-2", "dp-sgd", f"fashion-{epsilon}")
        names = [f"FashionMNIST, CNN, epsilon {epsilon}, {how} freezing" for how in ("without", "with")]
        assert half.high < 100 * (_printed(names[1]) - _printed(names[0]))


def test_baselines_stand_as_the_papers_print_them() -> None:
    """Each baseline of a setting is a number that the claim reports, and so is its gain; but for one of another paper."""
    asked = [(id, one) for id, rule in RULES.items() for one in rule.by if one.setting.baseline is not None]
    others = [one.study.name for _, one in asked if one.setting.baseline and "Tramer" in one.setting.baseline.what]
    assert others == ["handcrafted_linear"] and "67.0 (Tramer and Boneh" in read_studies()[others[0]].cost
    for id, one in asked:
        baseline = one.setting.baseline
        assert baseline is not None
        if one.study.name in others:
            assert baseline.there == 67.0 and baseline.gain is None
            continue
        told = " ".join(value for _, value in claims.get(id).reported)
        assert f"{baseline.there:g}" in told or f"{baseline.there / 100:g}" in told, id
        assert baseline.gain is None or _gain_of(told, baseline.gain) or says(told, f"{baseline.gain:g}"), id
    assert len(asked) == 15


def _gain_of(told: str, gain: float) -> bool:
    """Whether two of the accuracies differ by it."""
    values = [float(one) for one in re.findall(r"\d+\.\d+", told)]
    return any(math.isclose(a - b, gain, abs_tol=1e-9) for a in values for b in values)


def _printed(what: str) -> float:
    return float(dict(claims.get("lf.table1").reported)[what].split()[0])


def test_angles_of_clipped_and_unclipped_sums() -> None:
    text = BESIDE["lf.asm3.1", "clips"]
    assert text == BESIDE["lf.fig7", "clips"]
    gaps: dict[str, list[list[float | None]]] = {}
    for seed, arm in itertools.product(SEEDS, ("clip-0.1", "clip-1", "clip-5", "clip-10")):
        rows = arms("clips", seed)[arm]["measured"]["alignment"]
        both = [(row["clipped_angle"], row["unclipped_angle"]) for row in rows]
        gaps.setdefault(arm, []).append([None if None in pair else pair[0] - pair[1] for pair in both])
        assert arm != "clip-0.1" or all(row["unclipped"] == 0 for row in rows)
    assert all(gap is None for row in gaps["clip-0.1"] for gap in row)
    assert all([gap is None for gap in row] == [True] * 3 + [False] * 4 for row in gaps["clip-1"])
    assert all(row[0] is None for row in gaps["clip-10"])
    first, second = [row[0] for row in gaps["clip-5"]], [row[1] for row in gaps["clip-10"]]
    assert says(text, "5", f"{min(first):.2f}", f"{max(first):.2f}")  # type: ignore[type-var]
    assert says(text, "10", f"{min(second):.2f}", f"{max(second):.2f}")  # type: ignore[type-var]
    later = (
        [row[1:] for row in gaps["clip-5"]] + [row[2:] for row in gaps["clip-10"]] + [row[3:] for row in gaps["clip-1"]]
    )
    assert min(first + second) > 0 > max(gap for row in later for gap in row if gap is not None)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("claim", "key", "rises"),
    [("lf.fig3", "signal", True), ("lf.fig4", "clipping_angle", False), ("lf.fig5", "noise_angle", False)],
)  # fmt: skip
def test_what_freezing_does_to_one_and_the_same_gradients(claim: str, key: str, rises: bool) -> None:
    ratios = [
        row["if_frozen"][key][layer] / row["as_it_is"][key][layer]
        for rows in measured("freezing", "dp-sgd", "signals")
        for row in rows
        for layer in (2, 3)
        if row["if_frozen"][key][:2] == [None, None]
    ]
    assert len(ratios) == 3 * 12 * 2 and all((one > 1) == rises for one in ratios)
    assert says(BESIDE[claim, "freezing"], f"{min(ratios):.2f}", f"{max(ratios):.2f}")


def test_how_far_the_sums_turn() -> None:
    rows = [row for rows in measured("freezing", "dp-sgd", "status") for row in rows]
    clipped, unclipped = ([row[key] for row in rows] for key in ("clipped_turn", "unclipped_turn"))
    text = BESIDE["lf.fig8", "freezing"]
    assert says(text, f"{min(clipped):.3f}", f"{max(clipped):.3f}")
    assert says(text, f"{min(unclipped):.2f}", f"{max(unclipped):.2f}")
    values = [value for what, value in claims.get("lf.fig8").reported if what.startswith("change of angle")]
    assert [value.split()[0] for value in values] == ["0.09", "0.10", "0.11", "0.12"]
    assert {row["step"] for row in rows} == {60, 120, 170} and "after 60, 120 and 170" in differs("lf.fig8")


# --- random sparsification and freeze ---------------------------------------------------------------------------------


CELLS = {
    (1, "small"): 0.25,
    (4, "small"): 0.25,
    (4, "middle"): 0.5,
    (1, "large"): 1.0,
    (2, "large"): 1.0,
    (4, "large"): 1.0,
}
"""Of the cause, with noise and clip: noise multiplier and clip in words, and in numbers."""


def test_cells_of_the_cause() -> None:
    losses = []
    phases = {one.name: one for one in read_studies()["cause"].phases}
    for (noise, clip), bound in CELLS.items():
        name = f"noise-{noise}-{clip}-clip"
        assert dict(phases[name].changes) == {"noise_multiplier": float(noise), "max_grad_norm": bound}
        for arm in ("both-50", "both-90"):
            one, other = paired("cause", (name,), arm, "both")
            assert len(one) == 4 and all(masked < plain for masked, plain in zip(one, other, strict=True)), (name, arm)
            losses += [statistics.fmean(other) - statistics.fmean(one)] if arm == "both-50" else []
    said = "{:.2f} and {:.2f} at C = 1/4 with sigma = 1 and 4, {:.2f} at C = 1/2 with 4, {:.2f}, {:.2f}, {:.2f}"
    plain = [
        statistics.fmean(accuracies("cause", phase, arm).values())
        for phase, arm in (("no-noise-small-clip", "clipped"), ("noise-1-small-clip", "both"), ("noise-4-small-clip", "both"))
    ]  # fmt: skip
    text = BESIDE["rs.fig2", "cause"]
    assert says(text, said.format(*map(rounded, losses))) and says(text, 4 * len(CELLS))
    assert says(text, f"{plain[0]:.1f}", f"{plain[1]:.1f}", f"{plain[2]:.1f}")
    assert read_studies()["cause"].base["batch_size"] == 1000 and "batch size 1000" in claims.get("rs.fig2").statement
    dim, paper = 26_010, papers.setting("rf.end-to-end-cnn.eps3").dim
    assert says(differs("rs.fig2"), f"{dim * 16 / 1000**2:.2f}", f"{dim * 4 / 1000**2:.2f}", 4)
    assert says(differs("rs.fig2"), f"{dim:,}", f"{paper:,}")
    assert says(differs("rs.fig2"), f"{paper * 16 / 1000**2:.1f}", f"{paper * 4 / 1000**2:.1f}")  # sigma 4 and 2


def test_noise_alone_by_its_level() -> None:
    """Four pairs each, fewer than a comparison may have: the t interval with three degrees of freedom."""

    def said(level: str) -> str:
        one, other = paired("cause", (f"noise-{level}-no-clip",), "noisy-50", "noisy")
        differences = [a - b for a, b in zip(one, other, strict=True)]
        assert len(differences) == 4
        mean, half = statistics.fmean(differences), 3.182446305 * statistics.stdev(differences) / 2
        return f"{mean:+.2f} [{mean - half:+.2f}, {mean + half:+.2f}]"

    assert says(BESIDE["rs.fig3", "cause"], said("1"), "1", said("4"), "4")


def test_rises_of_the_inversion() -> None:
    rises, ratios = [], []
    for (row,) in measured("inversion", "untrained", "inversion"):
        errors, spread = row["mse"][1:], row["standard_error"][1:]
        pairs = zip(itertools.pairwise(errors), itertools.pairwise(spread), strict=True)
        rises.append([(b - a) / math.hypot(s, t) for (a, b), (s, t) in pairs])
        ratios.append(errors[-1] / errors[0])
        assert row["drop_rates"] == [0.0, 0.3, 0.5, 0.7, 0.9]
    assert says(BESIDE["rs.fig5", "inversion"], f"{min(ratios):.1f}", f"{max(ratios):.1f}", "0")
    assert all(row[2] > 0 and row[3] > 2 > max(row[:3]) for row in rises)
    falls = [[one for one in row if one < 0] for row in rises]
    assert sorted(map(len, falls)) == [0, 0, 2] and min(one for row in falls for one in row) > -0.5


def test_errors_under_random_freeze() -> None:
    text, lower, cases, first = BESIDE["rf.fig1", "masks"], 0, 0, 0
    dim, paper = 26_010, papers.setting("rf.end-to-end-cnn.eps3").dim
    assert f"(d = {dim:,})" in differs("rf.fig1") and f"(d = {paper:,})" in differs("rf.fig1")
    for seed, rows in zip(SEEDS, measured("masks", "dp-sgd", "errors"), strict=True):
        run = arms("masks", seed)["dp-sgd"]
        config = run["config"]
        noise = dim * (run["noise_multiplier"] * config["max_grad_norm"] / config["batch_size"]) ** 2
        for number, row in enumerate(rows):
            dense, *masked = row["mse"]
            share = noise / dense
            assert share < 1e-4
            gains = [(dense - one) / dense for one in masked]
            lower, cases = lower + sum(gain > 0 for gain in gains), cases + len(gains)
            first += sum(gain > 0 for gain in gains) if number == 0 else 0
            for rate, gain in zip(row["drop_rates"][1:], gains, strict=True):
                assert gain + (paper / dim - 1) * share * rate > 0
    assert says(text, lower, cases) and says(text, first)
    assert first == 15 and says(text, f"{paper / dim:.0f}")


def test_law_of_the_norms() -> None:
    higher = 0
    for frozen, dense in zip(measured("masks", "freeze", "norms"), measured("masks", "dp-sgd", "norms"), strict=True):
        assert all(a["log10_std"] < b["log10_std"] for a, b in zip(frozen[1:], dense[1:], strict=True))
        higher += frozen[1]["quantiles"][1] > dense[1]["quantiles"][1]
    assert higher == 2


def test_entries_that_are_never_frozen() -> None:
    ranked, random = (
        [rows[-1]["times"][0] for rows in measured("masks", arm, "frozen")] for arm in ("ranked", "freeze")
    )
    assert says(BESIDE["rf.fig3", "masks"], ranked[0], ranked[1], ranked[2], random[0], random[1], random[2])


# --- index pruning and embedding --------------------------------------------------------------------------------------


def test_law_of_the_entries_at_the_start() -> None:
    start = [rows[0]["ks_distance"] for rows in measured("index", "dp-sgd", "entries")]
    assert (
        says(BESIDE["gip.assumption1", "index"], f"{start[0]:.3f}", f"{start[1]:.3f}", f"{start[2]:.3f}")
        and max(start) < 0.05
    )


def test_seeds_of_the_wide_network() -> None:
    ratios = [row["gradient_norm"] / row["noise_norm"] for (row,) in measured("noise", "wrn-16-4-of-gip", "noise")]
    text = BESIDE["gip.noise_ratio", "noise"]
    assert says(text, f"{max(ratios) / min(ratios):.1f}")
    assert says(text, *(f"{ratio**2 / 1e-4:.2g}" for ratio in ratios), 0.0001)


def test_cosines_at_the_end() -> None:
    runs = [arms("index", seed) for seed in SEEDS]
    pruned, dense, random = (
        [run[arm]["measured"]["cosines"][-1]["cosine"] for run in runs] for arm in ("index-pruning", "dp-sgd", "random-k")
    )  # fmt: skip
    assert {run[arm]["measured"]["cosines"][-1]["step"] for run in runs for arm in run} == {599}
    one, other = ([f"{a / b:.2f}" for a, b in zip(cosines, dense, strict=True)] for cosines in (pruned, random))
    text = BESIDE["gip.fig4", "index"]
    assert says(text, *one, *other)
    assert says(text, f"{math.sqrt(0.1):.2f}", f"{math.sqrt(0.5):.2f}")
    for run in runs:
        chosen = {arm: run[arm]["config"]["mechanism"] for arm in ("index-pruning", "random-k")}
        assert [chosen["index-pruning"][key] for key in ("start", "schedule", "keep_share")] == [1.0, "linear", 0.1]
        assert [chosen["random-k"][key] for key in ("start", "schedule", "keep_share")] == [1.0, "exponential", 0.5]


def test_seeds_that_are_the_same_run() -> None:
    def epochs(arm: str, seed: int) -> Any:
        return lines("index_pruning")[f"final_{arm}_seed={seed}"]["epochs"]["test_accuracy"]

    same = sum(epochs("index-pruning", seed) == epochs("index-pruning-1000", seed) for seed in range(16))
    assert says(BESIDE["gip.table5", "index_pruning"], same, "16") and same >= 8  # often, as the study says


def test_rank_of_the_residuals() -> None:
    ratios = [row["residual"] / row["original"] for rows in measured("subspaces", "gep", "residuals") for row in rows]
    assert says(BESIDE["gep.fig5", "subspaces"], f"{min(ratios):.1f}", f"{max(ratios):.1f}") and min(ratios) > 1


def test_freezing_on_handcrafted_features() -> None:
    linear = difference("handcrafted", "freeze", "dp-sgd", "linear")
    cnn, plain = (statistics.mean(accuracies("handcrafted", phase, "dp-sgd").values()) for phase in ("final", "linear"))
    text = BESIDE["rf.table1", "handcrafted"]
    assert says(text, str(linear))
    assert says(text, f"{cnn:.1f}") and says(text, f"{plain:.1f}")
    printed = papers.table("rf.table1").cell("Handcrafted CNN, epsilon 3.0, baseline").text
    assert says(text, printed.split()[0])
    sigma = lines("handcrafted")["final_dp-sgd_seed=0"]["noise_multiplier"]
    assert says(differs("rf.table1", "handcrafted"), 75, 2000, 500, 8000, f"{sigma:.2f}", 5.65)
    own = read_studies()["handcrafted"].base
    assert (own["epochs"] * 50_000 // own["batch_size"], 80 * 50_000 // 8000) == (75, 500)


BUDGETS = (("final-2", 2, 50), ("final-8", 8, 200))
"""Phases of the study of embedding, their epsilon, and the epochs that the paper has at it."""


def test_accuracies_of_embedding_beside_the_papers() -> None:
    text, table = BESIDE["gep.table1", "embedding"], papers.table("gep.table1")
    plain = [f"{statistics.mean(accuracies('embedding', phase, 'gp').values()):.1f}" for phase, *_ in BUDGETS]
    paper = {
        (arm, epsilon): table.cell(f"MNIST, {arm}, epsilon {epsilon}").text
        for arm in ("GP", "GEP", "B-GEP")
        for _, epsilon, _ in BUDGETS
    }
    assert says(text, plain[0], 2, paper["GEP", 2], 8)
    assert says(text, plain[1], paper["GP", 8], paper["GEP", 8])
    apart = " and ".join(f"{float(paper['GEP', e]) - float(paper['B-GEP', e]):.1f}" for _, e, _ in BUDGETS)
    assert says(BESIDE["gep.fig6", "embedding"], "1", apart)


def test_noise_of_embedding_beside_the_papers() -> None:
    config = read_studies()["embedding"].base
    rate = config["batch_size"] / 60_000
    ours, theirs = (
        [
            f"{privacy.least_noise_multiplier(epsilon=e, delta=1e-5, sampling_rate=rate, steps=round(epochs / rate)):.2f}"
            for e, epochs in cells
        ]
        for cells in (((2, 3), (8, 3)), ((2, 50), (8, 200)))
    )
    beside = {one.study.name: " ".join(one.differs.split()) for one in RULES["gep.table1"].by}
    assert says(beside["embedding"], *ours, *theirs)
    assert config["epochs"] == 3


def test_joint_clipping() -> None:
    text = BESIDE["gep.table1", "embedding"]
    above, below = (
        [difference("embedding", *names, phase) for phase, *_ in BUDGETS]
        for names in (("gep-joint", "gep"), ("gp", "gep-joint"))
    )
    for first, second in (above, below):
        assert says(text, *(f"{one.mean:.2f} ({one.low:.2f} to {one.high:.2f})" for one in (first, second)))


def test_one_run_without_a_subspace_that_fits() -> None:
    text = BESIDE["gep.table1", "embedding"]
    tuning = {
        rate: accuracies("embedding", "tuning-8", f"biased-gep_learning_rate={rate}")["1001"]
        for rate in ("0.4", "0.8", "1.6", "3.2")
    }
    assert max(tuning, key=lambda rate: tuning[rate]) == "3.2"
    assert says(text, "1.6", f"{tuning['3.2'] - tuning['1.6']:.2f}")
    found = accuracies("embedding", "final-8", "biased-gep")
    worst = min(found, key=lambda seed: found[seed])
    assert says(text, f"{found[worst]:.1f}") and says(BESIDE["gep.fig6", "embedding"], f"{found[worst]:.1f}")
    others = found.keys() - {worst}
    plain, published = (accuracies("embedding", "final-8", arm) for arm in ("gp", "gep"))
    below = [plain[seed] - found[seed] for seed in others]
    assert len(below) == 7 and says(text, f"{min(below):.1f}", f"{max(below):.1f}")
    mean = statistics.mean(published[seed] - found[seed] for seed in others)
    assert says(BESIDE["gep.fig6", "embedding"], f"{mean:.1f}")


# --- on other pages ---------------------------------------------------------------------------------------------------


def test_what_the_sharp_edges_say_of_a_step_and_a_run() -> None:
    page = (RESULTS.parent / "website" / "sharp_edges.md").read_text(encoding="utf-8")
    text = " ".join(page.split("**A forecast of one step is none of a run.**")[1].split("\n\n")[0].split())
    dense = lines("forecasts")["forecast-freezing_seed=0"]["arms"]["dp-sgd"]
    middle, end = (row["methods"] for row in dense["measured"]["forecast"][1:])
    last = dense["steps_per_epoch"] * dense["config"]["epochs"] - 1
    assert [row["step"] for row in dense["measured"]["forecast"][1:]] == [120, last]

    def worth(arm: str, against: str, kind: str) -> list[str]:
        return [f"{ratio_of_gains(one[arm], one[against], kind)[0]:.2g}" for one in (middle, end)]

    assert says(text, *worth("freezing", "dp-sgd", "curved"))
    assert says(text, *worth("quiet-layers", "freezing", "isotropic"))
    assert says(text, *worth("quiet-layers", "freezing", "curved"))
    frozen, quiet = (
        difference("freezing", *names, "fashion-1") for names in (("freezing", "dp-sgd"), ("quiet-layers", "freezing"))
    )
    assert says(text, f"{-frozen.mean:.1f}") and says(text, f"{quiet.mean:.1f}")
    isotropic, curved, _ = _worth_of_embedding()
    published = difference("embedding", "gep", "gp", "final-2")
    assert says(text, isotropic, curved)
    assert says(text, f"{-published.mean:.1f}")


def _worth_of_embedding() -> tuple[str, str, str]:
    """Of a step of GEP in steps of GP at start, middle and end of the study's run: isotropic, curved, that with errors."""
    gp = lines("forecasts")["forecast-embedding_seed=0"]["arms"]["dp-sgd"]
    rows = gp["measured"]["forecast"]
    last = gp["steps_per_epoch"] * gp["config"]["epochs"] - 1
    assert [row["step"] for row in rows] == [0, 90, last]
    flat, bent = (
        [ratio_of_gains(row["methods"]["gep"], row["methods"]["dp-sgd"], kind) for row in rows]
        for kind in ("isotropic", "curved")
    )
    isotropic = "{:.2g}, {:.2g} and {:.2g}".format(*(value for value, _ in flat))
    (first, error), *later = bent
    curved = "{:.2g}, {:.2g} and {:.2g}".format(*(value for value, _ in bent))
    rest = "{:.2g} ({:.2g}) and {:.2g} ({:.2g})".format(*(number for pair in later for number in pair))
    return isotropic, curved, f"{first:.2g} (with a standard error of {error:.2g}), {rest}"


def test_what_contradicts_the_forecast_of_masking() -> None:
    text = " ".join(read_contradicted(read_studies())["masking"].split())
    rates, plain, held = (
        difference("masking", *names, "final")
        for names in (
            ("sparsification-90", "sparsification-50"),
            ("sparsification-90", "dp-sgd"),
            ("dp-sgd", "freeze-50"),
        )
    )
    p, count = plain.sign_flip_p, len(read_studies()["masking"].comparisons)
    assert says(text, "90", f"{rates.mean:.2f}", "50", f"{rates.low:.2f}", f"{rates.high:.2f}")
    interval = f"{plain.low:.2f} to {plain.high:.2f}; p = {p:.3f} by signs, {count * p:.2f} corrected"
    assert says(text, f"{plain.mean:.2f}", interval) and plain.high < 1
    assert says(text, f"{held.mean:.2f}", f"{held.low:.2f}", f"{held.high:.2f}") and held.low > 0
    _, *moments = lines("forecasts")["forecast-masking_seed=0"]["arms"]["dp-sgd"]["measured"]["forecast"]
    masks = ("freeze-50", "freeze-90", "sparsification-50", "sparsification-90")
    flat, bent = (
        [ratio_of_gains(row["methods"][mask], row["methods"]["dp-sgd"], kind)[0] for row in moments for mask in masks]
        for kind in ("isotropic", "curved")
    )
    assert [row["step"] for row in moments] == [300, 599] and min(*flat, *bent) > 1
    assert says(text, f"{min(flat):.2g}", f"{max(flat):.2g}")


def test_what_the_findings_say_of_masking() -> None:
    page = " ".join((RESULTS.parent / "guides" / "findings.md").read_text(encoding="utf-8").split())
    masks = ("freeze-50", "freeze-90", "sparsification-50", "sparsification-90")
    gains = [difference("masking", mask, "dp-sgd", "final") for mask in masks]
    assert max(gain.high for gain in gains) < 1 and {len(accuracies("masking", "final", mask)) for mask in masks} == {
        16
    }
    means = [gain.mean for gain in gains]
    assert says(page, "16", f"{min(means):+.2f}", f"{max(means):+.2f}")
    fresh = difference("masking", "sparsification-90", "freeze-90", "final")
    assert says(page, "90", f"{fresh.mean:.2f}", f"{fresh.low:.2f}", f"{fresh.high:.2f}")


def test_what_contradicts_the_forecast_of_scaling() -> None:
    text = " ".join(read_contradicted(read_studies())["scaling"].split())
    gains = [difference("scaling", "plain", "given", f"epsilon-{e}") for e in (3, 7)]
    first, second = (f"{gain.mean:.2f} points ({gain.low:.2f} to {gain.high:.2f})" for gain in gains)
    assert says(text, first, "0.1")
    assert says(text, "3", second.replace(" points", ""), "7.53")
    alone = [
        difference("scaling", arm, against, phase)
        for phase, arm, against in (
            *(("epsilon-3", arm, other) for arm in ("large-clip", "no-momentum") for other in ("given", "plain")),
            *(("epsilon-7", arm, "given") for arm in ("large-clip", "no-momentum")),
        )
    ]
    assert max(one.high for one in alone) < 0
    losses = [-one.mean for one in alone]
    assert says(text, f"{min(losses):.2f}", f"{max(losses):.2f}")


def test_what_the_findings_say_of_the_study_that_is_not_finished() -> None:
    page = " ".join((RESULTS.parent / "guides" / "findings.md").read_text(encoding="utf-8").split())
    ends: dict[str, list[float]] = {}
    for line in lines("cuda_sparsification").values():
        if line["phase"] == "final":
            ends.setdefault(line["arm"], []).append(100 * line["epochs"]["test_accuracy"][-1])
    plain, masked = ends["dp-sgd"], ends["sparsification-70"]
    baseline = next(one.setting.baseline for one in RULES["rs.table2"].by if one.study.name == "cuda_sparsification")
    below = baseline.there - sum(plain) / len(plain)
    assert (len(plain), len(masked)) == (8, 1)
    assert says(page, f"{sum(plain) / 8:.1f}", f"{below:.1f}", f"{masked[0]:.1f}") and "eight runs" in page


def test_what_the_findings_say_of_scaling() -> None:
    page = " ".join((RESULTS.parent / "guides" / "findings.md").read_text(encoding="utf-8").split())
    three, seven = (difference("scaling", "plain", "given", f"epsilon-{e}") for e in (3, 7))
    assert says(page, "0", f"{three.mean:.2f}", f"{three.low:.2f}", f"{three.high:.2f}", "3")
    assert says(page, f"{seven.mean:.2f}", f"{seven.low:.2f}", f"{seven.high:.2f}", "7.53")
    alone = [difference("scaling", arm, "given", "epsilon-3") for arm in ("large-clip", "no-momentum")]
    assert says(page, *(f"{-one.mean:.2f}" for one in alone))


def test_what_contradicts_the_worth_of_a_frozen_step() -> None:
    text = " ".join(read_contradicted(read_studies())["freezing"].split())
    _, *moments = lines("forecasts")["forecast-freezing_seed=0"]["arms"]["dp-sgd"]["measured"]["forecast"]
    (one, at_one), (two, at_two) = (
        ratio_of_gains(row["methods"]["freezing"], row["methods"]["dp-sgd"], "curved") for row in moments
    )
    said = f"is worth {one:.2g} and {two:.2g} steps of DP-SGD in the middle and at the end of a run"
    assert says(text, said, f"{at_one:.2g}", f"{at_two:.2g}")
    (one, at_one), (two, at_two) = (
        ratio_of_gains(row["methods"]["quiet-layers"], row["methods"]["freezing"], "curved") for row in moments
    )
    assert says(text, f"{one:.2g}", f"{at_one:.2g}", f"{two:.2g}", f"{at_two:.2g}")
    lost, quiet = (
        difference("freezing", *names, "fashion-1") for names in (("dp-sgd", "freezing"), ("quiet-layers", "freezing"))
    )
    assert says(text, f"{lost.mean:.2f}", f"{lost.low:.2f}", f"{lost.high:.2f}")
    above, below = paired("freezing", ("fashion-1",), "dp-sgd", "freezing")
    assert len(above) == 8 and all(a > b for a, b in zip(above, below, strict=True))
    assert says(text, f"{quiet.mean:.2f}", f"{quiet.low:.2f}", f"{quiet.high:.2f}")


def test_what_contradicts_the_forecast_of_embedding() -> None:
    text = " ".join(read_contradicted(read_studies())["embedding"].split())
    split, published = (difference("embedding", *names, "final-2") for names in (("gep", "gep-optimal"), ("gp", "gep")))
    p, count = split.sign_flip_p, len(read_studies()["embedding"].comparisons)
    interval = f"{split.low:.2f} to {split.high:.2f}; p = {p:.3f} by signs, {count * p:.2f} corrected"
    assert (
        says(text, f"{split.mean:.2f}", interval)
        and 0 < split.low < split.mean < 0.3 < split.high
        and says(text, "0.3")
    )
    assert says(text, f"{published.mean:.2f}", f"{published.low:.2f}", f"{published.high:.2f}")
    isotropic, _, curved = _worth_of_embedding()
    assert says(text, isotropic) and says(text, curved)
    assert read_studies()["embedding"].base["max_grad_norm"] == 1.0
    best = embedding.split_noise(dim=26_010, subspace_dim=100, embedding_clip=1.0, residual_clip=0.2, mu=1.0)
    # as published the noise of both is sqrt(2) times clip over mu
    assert says(text, f"{best.embedding_std**2 / 2:.1f}")
    assert best.residual_std**2 < 2 * 0.2**2


def test_what_contradicts_the_forecast_of_handcrafted_features() -> None:
    text = " ".join(read_contradicted(read_studies())["handcrafted"].split())

    def said(phase: str, arm: str, against: str) -> str:
        found = difference("handcrafted", arm, against, phase)
        mean, low, high = (f"{rounded(value):.2f}" for value in (found.mean, found.low, found.high))
        return f"{mean} ({low} to {high})"

    for places in (("final", "dp-sgd", "freeze"), ("final", "ranked-freeze", "freeze"), ("final", "dp-sgd", "ranked-freeze"),
                   ("linear", "ranked-freeze", "freeze")):  # fmt: skip
        assert says(text, said(*places))
    for prefix in ("", "linear-"):
        rows = arms("ranking", 0)[f"{prefix}ranked"]["measured"]["captured"]
        assert [row["step"] for row in rows] == [24, 26, 49, 51]
        assert [row["kept_share"] for row in rows] == [
            1.0,
            pytest.approx(0.7, abs=1e-4),
            pytest.approx(0.7, abs=1e-4),
            pytest.approx(0.4, abs=1e-4),
        ]
        noise, energy = ([rows[at][key] for at in places] for key, places in (("snr", (0, 2)), ("energy", (1, 3))))
        values = (*(f"{one:.2f}" for one in noise), *(f"{100 * one:.0f}" for one in energy))
        assert says(text, *values)
    random = [arms("ranking", 0)[f"{prefix}freeze"]["measured"]["captured"] for prefix in ("", "linear-")]
    kept = [[f"{100 * rows[at]['energy']:.0f}" for rows in random] for at in (1, 3)]
    assert kept == [["70", "70"], ["40", "39"]] and says(text, "70", "39", "40")
