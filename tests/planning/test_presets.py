"""The papers' settings planned: the fields again, and the page against some of its rows made anew."""

import math
from pathlib import Path

import pytest

from dptheory import papers, planning, privacy
from dptheory.planning import TrainingSetup, _presets

PAGE = Path(__file__).parents[2] / "proofs" / "plan.md"


def test_every_field() -> None:
    preset = papers.preset("rf.dp-transfer-learning.eps2")
    found = _presets.plan_preset(preset)
    setup = TrainingSetup(num_examples=50_000, epsilon=2.0, delta=1e-5, dim=41_000, max_epochs=50)
    assert found.plan == planning.plan(setup) and found.preset == preset
    least = privacy.least_noise_multiplier(epsilon=2.0, delta=1e-5, sampling_rate=0.02, steps=2500)
    assert found.noise_multiplier == least
    batch, rate = found.plan.batch_size.value, found.plan.sampling_rate
    assert batch is not None
    ratios = []
    for mean, square in ((0.0, 0.0), (0.0, 1.0), (1.0, 1.0)):  # |m|^2 and s over C^2
        theirs = mean + (1 - 0.02) * square / 1000 + 41_000 * (least / 1000) ** 2
        ours = mean + (1 - rate) * square / batch + 41_000 * (found.plan.noise_multiplier / batch) ** 2
        ratios.append(math.sqrt(theirs / 2500 / (ours / found.plan.steps)))
    assert (found.lower, found.upper) == pytest.approx((min(ratios), max(ratios)), rel=1e-12)


def test_what_is_not_printed_is_not_planned() -> None:
    with pytest.raises(ValueError, match=r"preset must have train_size, dim and epsilon, got rs.fig2a"):
        _presets.plan_preset(papers.preset("rs.fig2a"))
    open_one = _presets.plan_preset(papers.preset("rs.dp-cnn-s.fmnist.eps3"))
    assert (open_one.noise_multiplier, open_one.lower, open_one.upper) == (None, None, None)


def test_the_page_is_current() -> None:
    """Every setting stands on it; the last row is made anew."""
    there, missing = _presets.known_presets()
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [one.name for one in there], (
        "run `python -m dptheory.planning._presets proofs/plan.md`"
    )
    assert _presets.preset_page(rows, missing).splitlines() == lines
    assert _presets.preset_row(_presets.plan_preset(there[-1])) == rows[-1]
