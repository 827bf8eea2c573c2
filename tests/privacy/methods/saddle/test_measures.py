"""The law of the losses split in two: runs without an extreme output, and the rest (saddle_line.md, step 11)."""

from dataclasses import replace

import numpy as np
import pytest

from dptheory.privacy.methods.saddle import _delta as _saddle_delta
from dptheory.privacy.methods.saddle import _measures
from dptheory.privacy.methods.saddle._delta import Lines, whole_line
from dptheory.privacy.methods.saddle._measures import Difference, Product, law, output, split
from dptheory.privacy.methods.saddle._moments import StepLoss
from dptheory.privacy.methods.saddle._points import Losses

STEPS: Losses = (
    StepLoss(noise_multiplier=1.0, sampling_rate=0.02, count=600, direction="remove"),
    StepLoss(noise_multiplier=0.9, sampling_rate=0.01, count=400, direction="remove"),
)
EPSILON = 4.0


@pytest.fixture(scope="module")
def exact() -> float:
    low, high = whole_line(STEPS, EPSILON).delta_bracket(EPSILON)
    assert high - low < 1e-9 * high
    return (low + high) / 2


def parts() -> tuple[Product, Difference]:
    return split(STEPS, [0.94 * output(step, EPSILON / 4) for step in STEPS])


def test_every_split_holds_what_the_whole_line_gives(exact: float) -> None:
    found = [_saddle_delta._split_lines(STEPS, EPSILON, *at).delta_bracket(EPSILON) for at in _saddle_delta._SPLITS]
    assert [one for one in found if not one[0] <= exact * (1 + 1e-12) or not one[1] >= exact * (1 - 1e-12)] == []
    assert min(high - low for low, high in found) < 1e-6 * exact


def test_bands_add_up_to_what_the_whole_line_gives(exact: float) -> None:
    lines = _saddle_delta._band_lines(STEPS, EPSILON)
    low, high = lines.delta_bracket(EPSILON)
    assert len(lines.parts) > 2 and low <= exact * (1 + 1e-12) and high >= exact * (1 - 1e-12)
    assert high - low < 1e-6 * exact


def test_without_either_part_it_does_not(exact: float) -> None:
    """Planted: one part of the law is forgotten, or, in bands, any that matters."""
    for lines in (_saddle_delta._split_lines(STEPS, EPSILON, 1, False), _saddle_delta._band_lines(STEPS, EPSILON)):
        for part in lines.parts:
            if part.delta_bracket(EPSILON)[1] > 1e-5 * exact:
                others = tuple(other for other in lines.parts if other is not part)
                low, high = Lines(EPSILON, others).delta_bracket(EPSILON)
                assert not low <= exact <= high


def terms_differ() -> float:
    """Distance of the terms of both parts together from those of the whole law, over the sum of their error bounds."""
    usual, rare = parts()
    c, h, count = 3.0, 0.3, 400
    found = [measure.at(c).terms(h, count) for measure in (usual, rare, law(STEPS))]
    values = [np.exp(terms) for terms, _ in found]
    errors = sum(np.abs(value) * np.expm1(error) for value, (_, error) in zip(values, found, strict=True))
    return float((np.abs(values[0] + values[1] - values[2]) / errors).max())


def test_the_terms_add_up_within_their_errors() -> None:
    assert terms_differ() <= 1.0


def test_runs_with_two_extreme_outputs_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: only the runs with exactly one."""
    monkeypatch.setattr(_measures, "_log_expm1", lambda x: np.log(np.asarray(x, dtype=np.complex128)))
    assert terms_differ() > 1e6


def test_the_bound_of_the_floor_matters() -> None:
    """Planted: the floor counts outputs as extreme whose factor is not 1 - exp(-w), w at this floor."""
    usual, rare = parts()
    moved = replace(rare, rare=tuple(replace(step, floor=step.floor + 1e-6) for step in rare.rare))
    values = [np.exp(measure.at(3.0).terms(0.3, 40)[0]) for measure in (usual, moved, law(STEPS))]
    error = sum(
        np.abs(value) * np.expm1(measure.at(3.0).terms(0.3, 40)[1])
        for value, measure in zip(values, (usual, moved, law(STEPS)), strict=True)
    )
    assert (np.abs(values[0] + values[1] - values[2]) > error).any()


def test_what_is_left_out_covers_the_probability_beyond_the_cut() -> None:
    """exp(log_cut_mass) against the integral of P(1 - chi)."""
    for noise, rate in ((1.0, 0.02), (0.05, 1e-6), (4.0, 1.0)):
        step = StepLoss(noise_multiplier=noise, sampling_rate=rate, count=100, direction="remove").with_cut(-40.0)
        z = np.arange(-10.0, step.cut + 30.0, 1e-3)
        t = step.shift
        density = (1 - rate) * np.exp(-(z**2) / 2) + rate * np.exp(-((z - t) ** 2) / 2)
        gone = -np.expm1(-np.exp(np.minimum(step.sharpness * (z - step.cut), 600.0)))
        mass = float((density * gone).sum()) * 1e-3 / np.sqrt(2 * np.pi)
        assert mass <= np.exp(step.log_cut_mass) <= np.exp(-40.0) / 100 * (1 + 1e-9)
        assert mass > np.exp(step.log_cut_mass) / 1000
