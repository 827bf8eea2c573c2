"""The papers' settings planned: the fields again, and the pages against some of their rows and sections made anew."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dptheory import papers, planning, privacy
from dptheory.claims import PAPERS
from dptheory.planning import TrainingSetup, _preset_pages, _preset_settings, _presets
from dptheory.planning._preset_settings import KnownSetting
from dptheory.planning._records import Interval

PROOFS = Path(__file__).parents[2] / "proofs"
THERE, MISSING = _preset_settings.known_settings()
_RUN = f"run `{_preset_pages.COMMAND}`"


def _known(name: str) -> KnownSetting:
    return next(one for one in THERE if one.preset.name == name)


def test_every_setting_of_the_papers_is_planned_or_has_a_reason() -> None:
    names = {one.preset.name for one in THERE} | {name for name, _ in MISSING}
    assert names == {one.name for one in papers.all_presets()} | {
        one.id for paper in ("lf", "gep", "gip") for one in papers.settings(paper)
    }
    assert (len(THERE), len(MISSING)) == (63, 6)
    for one in THERE:
        assert None not in (one.preset.train_size, one.preset.dim, one.preset.epsilon, one.preset.delta), one


def test_assumptions_fill_what_is_not_printed_and_nothing_else() -> None:
    printed = {one.name: one for one in papers.all_presets()}
    for one in THERE:
        before, after = printed.get(one.preset.name), one.preset
        if before is None:
            setting = papers.setting(after.name)
            before = replace(
                after, **{name: getattr(setting, name) for name in ("dim", "train_size", "epsilon", "delta")}
            )
        filled = {name for name in ("dataset", "dim", "train_size") if getattr(before, name) != getattr(after, name)}
        assert all(getattr(before, name) is None for name in filled), one
        texts = [text.text for text in _preset_settings.ASSUMPTIONS if after.name.startswith(text.group)]
        assert bool(filled) == bool(texts) and set(texts) <= set(one.assumed), one
        assert ("The paper prints no delta: here 1e-5." in one.assumed) == (before.delta is None), one


def test_epsilon_of_figure_2_is_what_its_noise_spends() -> None:
    for name, sigma in (("rs.fig2a", 1.0), ("rs.fig2f", 4.0)):
        spent = privacy.epsilon_bounds(noise_multiplier=sigma, sampling_rate=0.02, steps=5000, delta=1e-5).upper
        epsilon = _known(name).preset.epsilon
        assert epsilon is not None and spent <= epsilon < spent + 0.011


def _convolutions(*layers: tuple[int, int, int]) -> int:
    return sum(size * size * inside * outside for size, inside, outside in layers)


def _wide_resnet(depth: int, width: int) -> int:
    """Convolutions, the two numbers that a norm has for each channel, and the last layer."""
    found, inside = _convolutions((3, 3, 16)), 16
    for outside in (16 * width, 32 * width, 64 * width):
        for block in range((depth - 4) // 6):
            first = inside if block == 0 else outside
            found += _convolutions((3, first, outside), (3, outside, outside)) + 2 * (first + outside)
            found += _convolutions((1, first, outside)) if first != outside else 0
        inside = outside
    return found + 2 * inside + 10 * (inside + 1)


def _resnet_18() -> int:
    found, inside = _convolutions((3, 3, 64)) + 128, 64
    for outside in (64, 128, 256, 512):
        for block in range(2):
            first = inside if block == 0 else outside
            found += _convolutions((3, first, outside), (3, outside, outside)) + 4 * outside
            found += _convolutions((1, first, outside)) + 2 * outside if first != outside else 0
        inside = outside
    return found + 10 * (inside + 1)


def _resnet_50() -> int:
    found, inside = _convolutions((7, 3, 64)) + 128, 64
    for inner, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            first = inside if block == 0 else 4 * inner
            found += _convolutions((1, first, inner), (3, inner, inner), (1, inner, 4 * inner)) + 12 * inner
            found += _convolutions((1, first, 4 * inner)) + 8 * inner if block == 0 else 0
        inside = 4 * inner
    return found + 1000 * (inside + 1)


def test_numbers_of_parameters_that_are_assumed_are_those_of_the_networks() -> None:
    """Counted layer by layer; the networks of this project have them in tests/training/networks."""
    counted = {"gip.resnet-18.": _resnet_18(), "gip.wrn-28-10.": _wide_resnet(28, 10), "gip.imagenet.": _resnet_50()}
    counted |= {"lf.wide-resnet.": _wide_resnet(16, 4), "gep.cifar10.": 269_722, "gep.svhn.": 269_722}
    assumed = {one.group: one.dim for one in _preset_settings.ASSUMPTIONS}
    assert {group: float(f"{assumed[group] or 0:.3g}") for group in counted} == {
        group: float(f"{count:.3g}") for group, count in counted.items()
    }
    assert assumed["lf.wide-resnet."] == _wide_resnet(16, 4)


def test_every_field_without_statistics() -> None:
    known = _known("rf.handcrafted-cnn.eps3")
    found = _presets.plan_preset(known)
    setup = TrainingSetup(num_examples=50_000, epsilon=3.0, delta=1e-5, dim=187_000, max_epochs=80)
    assert found.free.plan == planning.plan(setup) and found.known == known and found.borrowed is None
    least = privacy.least_noise_multiplier(epsilon=3.0, delta=1e-5, sampling_rate=0.16, steps=500)
    assert (found.noise_multiplier, found.steps) == (least, 500)
    plan = found.free.plan
    batch = plan.batch_size.value
    assert batch is not None and found.free.worth is not None
    ratios = []
    for mean, square in ((0.0, 0.0), (0.0, 1.0), (1.0, 1.0)):  # |m|^2 and s over C^2
        theirs = mean + (1 - 0.16) * square / 8000 + 187_000 * (least / 8000) ** 2
        ours = mean + (1 - plan.sampling_rate) * square / batch + 187_000 * (plan.noise_multiplier / batch) ** 2
        ratios.append(math.sqrt(theirs / 500 / (ours / plan.steps)))
    assert (found.free.worth.lower, found.free.worth.upper) == pytest.approx((min(ratios), max(ratios)), rel=1e-12)


def test_with_borrowed_statistics_and_with_steps_that_the_noise_affords() -> None:
    """LF prints noise and batch, no epochs; both clips are measured ones. Every moment, without and with curvature."""
    found = _presets.plan_preset(_known("lf.mnist.eps1"))
    afforded = privacy.max_steps(epsilon=1.0, delta=1e-5, noise_multiplier=1.923, sampling_rate=2048 / 60_000)
    assert (found.steps, found.noise_multiplier, found.free.plan.setup.max_epochs) == (afforded, 1.923, 5)
    stats = planning.shipped_statistics("small-cnn/mnist")
    assert found.borrowed is not None and found.borrowed.worth is not None
    plan = found.borrowed.plan
    assert plan == planning.plan(found.free.plan.setup, stats=stats, borrowed=True)
    batch, rate, clip = plan.batch_size.value, plan.sampling_rate, plan.clip_norm.value
    assert batch is not None and clip is not None
    ratios = []
    for moment in stats.moments:
        rows = {one.clip_norm: one for one in moment.methods if one.method == "dp-sgd"}
        low, high, share = rows[0.5], rows[2.0], math.log(2.0) / math.log(4.0)

        def mixed(one: float, other: float, share: float = share) -> float:
            return (1 - share) * one + share * other

        for curved in (False, True):

            def moments(row: planning._statistics.MethodMoments, curved: bool = curved) -> tuple[float, ...]:
                if curved:
                    assert row.curvatures is not None
                    return row.alignments[0], *row.curvatures
                return row.alignments[0], row.mean_squares[0], row.second_moments[0], 26_010.0 * row.clip_norm**2

            theirs = [mixed(*pair) for pair in zip(moments(low), moments(high), strict=True)]
            if not curved:
                theirs[3] = 26_010.0
            ours = moments(rows[clip])
            losses = []
            for (align, mean, square, noise), q, size, sigma, steps in (
                (theirs, 2048 / 60_000, 2048, 1.923, afforded),
                (ours, rate, batch, plan.noise_multiplier, plan.steps),
            ):
                mean = min(max(mean, 0.0), square)
                losses.append(math.sqrt((mean + (1 - q) * square / size + noise * (sigma / size) ** 2) / steps) / align)
            ratios.append(losses[0] / losses[1])
    worth = found.borrowed.worth
    assert worth.lower == pytest.approx(min(ratios), rel=1e-9)
    assert worth.upper == pytest.approx(max(ratios), rel=1e-9)


def test_statistics_are_borrowed_for_the_same_data_and_size_alone() -> None:
    groups = {one.preset.name.rsplit(".eps", 1)[0]: one.preset for one in THERE}
    borrowed = {group: stats.name for group, one in groups.items() if (stats := _presets.shipped_for(one))}
    assert borrowed == {
        "rf.dp-transfer-learning": "linear-probe/cifar-10",
        "rs.h-cnn-s.fmnist": "small-cnn/fashion-mnist",
        "rs.dp-cnn-s.fmnist": "small-cnn/fashion-mnist",
        "lf.mnist": "small-cnn/mnist",
        "lf.fashion-mnist": "small-cnn/fashion-mnist",
        "gep.mnist": "small-cnn/mnist",
    }
    assert _presets.printed_step(_known("rs.dp-cnn-s.fmnist.eps3").preset) is None


def test_a_verdict_needs_an_interval_on_one_side_of_one() -> None:
    ends = {(0.5, 2.0): "undecided", (1.0, 2.0): "undecided", (1.001, 2.0): "plan", (0.5, 0.999): "paper"}
    for (lower, upper), expected in ends.items():
        assert _preset_pages.better(Interval(lower=lower, upper=upper, claims=())) == expected
    assert _preset_pages.better(None) == "not printed"


def test_the_pages_have_every_setting_with_what_was_assumed() -> None:
    """Without a plan: tops, heads of sections, and the table's frame; each row leads to its section."""
    lines = (PROOFS / "plan.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| [`")]
    assert [row.split("`")[1] for row in rows] == [one.preset.name for one in THERE], _RUN
    assert _preset_pages.index_page(rows, MISSING).splitlines() == lines, _RUN
    for paper in PAPERS:
        text = (PROOFS / "plan" / f"{paper}.md").read_text(encoding="utf-8")
        heads = [_preset_pages.preset_head(one) for one in THERE if one.paper == paper]
        assert re.findall(r"^## .*\n\n.*\n", text, re.MULTILINE) == heads, _RUN
        assert text.startswith(_preset_pages.paper_head(paper)), _RUN


def _is_current(known: KnownSetting) -> bool:
    found = _presets.plan_preset(known)
    section = (PROOFS / "plan" / f"{known.paper}.md").read_text(encoding="utf-8")
    row = (PROOFS / "plan.md").read_text(encoding="utf-8")
    return _preset_pages.preset_section(found) in section and f"{_preset_pages.index_row(found)}\n" in row


@pytest.mark.parametrize("name", ["gip.imagenet.eps0.2", "gep.mnist.eps2"])
def test_settings_on_the_pages_are_those_of_today(name: str) -> None:
    assert _is_current(_known(name)), _RUN


@pytest.mark.slow
def test_all_settings_on_the_pages_are_those_of_today() -> None:
    assert [one.preset.name for one in THERE if not _is_current(one)] == [], _RUN
