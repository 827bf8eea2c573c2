"""Accounting of subsampled Gaussian steps: brackets that hold, over the whole range of the arguments."""

import math
import sys
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dptheory import privacy
from dptheory.papers import PaperSetting, paper_settings
from dptheory.privacy import _budgets, _noise_scale
from dptheory.privacy import epsilon as methods
from dptheory.privacy._bounds import Direction
from dptheory.privacy.methods import _closed_forms, references
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.references import _cross_check, _prv
from tests.refused import refused

DIRECTIONS: tuple[Direction, ...] = ("remove", "add", "replace")


def is_closed_form(found: privacy.EpsilonBounds, mu: float, delta: float) -> bool:
    """Around epsilon of a Gaussian release, and at either end log delta is off by no more than the search steps over.

    Twice the closed form's error, 3e-10, for delta there and delta asked for, doubled with the last step; and the first step,
    1e-12 of epsilon.
    """
    exact = privacy.gaussian_epsilon(mu, delta)
    if exact == 0.0:
        return found.lower == found.upper == 0.0
    step = privacy.gaussian_log_delta(mu, exact * (1 - 1e-12)) - privacy.gaussian_log_delta(mu, exact * (1 + 1e-12))
    off = [
        abs(privacy.gaussian_log_delta(mu, end) - math.log(delta)) for end in (found.lower, found.upper) if end > 0.0
    ]
    return found.lower <= exact <= found.upper and max(off, default=0.0) <= 4 * 3e-10 + step


def test_brackets_hold_exact_gaussian_values() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        sigma, steps, delta = 10 ** rng.uniform(-1, 2), int(10 ** rng.uniform(0, 6)), 10 ** rng.uniform(-15, -1)
        exact = privacy.gaussian_epsilon(math.sqrt(steps) / sigma, delta)
        lower, upper = _prv.prv_bracket(Loss("remove", sigma, 1.0), steps, delta, 0.05)
        assert lower <= exact <= upper
        assert upper - lower <= 0.07 * max(1, exact)
        found = privacy.epsilon_bounds(noise_multiplier=sigma, sampling_rate=1.0, steps=steps, delta=delta)
        assert is_closed_form(found, math.sqrt(steps) / sigma, delta)


def test_one_step_against_mpmath() -> None:
    """delta of one step in closed form: Q(Y > eps) - e^eps P(Y > eps) at the threshold's output."""
    for sigma, rate, delta in ((0.5, 0.3, 1e-12), (2.0, 0.01, 1e-5), (0.3, 1e-3, 1e-6), (20.0, 0.5, 1e-3)):
        found = privacy.epsilon_bounds(
            noise_multiplier=sigma, sampling_rate=rate, steps=1, delta=delta, direction="remove"
        )

        def hockey_stick(epsilon: float, sigma: float = sigma, rate: float = rate) -> mpmath.mpf:
            with mpmath.workdps(40):
                s, q = 1 / mpmath.mpf(sigma), mpmath.mpf(rate)
                z = mpmath.log(mpmath.expm1(epsilon) / q + 1) / s + s / 2
                without, with_it = mpmath.ncdf(-z), mpmath.ncdf(s - z)
                return (1 - q) * without + q * with_it - mpmath.exp(epsilon) * without

        assert found.method == "one step"
        prv = _prv.prv_bracket(Loss("remove", sigma, rate), 1, delta, 0.05)
        assert prv[0] <= found.upper and found.lower <= prv[1]
        assert hockey_stick(found.upper) <= delta * (1 + 1e-9)
        assert found.lower == 0 or hockey_stick(found.lower) >= delta * (1 - 1e-9)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("sigma", [0.1, 0.7, 3.0, 100.0])
@pytest.mark.parametrize("rate", [1e-6, 0.02, 0.6, 0.999999, 1.0])
def test_loss_and_its_inverse(direction: Direction, sigma: float, rate: float) -> None:
    loss = Loss(direction, sigma, rate)
    z = np.linspace(-8, 8 + 1 / sigma, 101)
    values = loss.at(z)
    assert (np.diff(values) >= 0).all()
    with mpmath.workdps(40):
        s, q = 1 / mpmath.mpf(sigma), mpmath.mpf(rate)

        def log_mixture(x: float) -> mpmath.mpf:
            return mpmath.log(1 - q + q * mpmath.exp(s * x - s * s / 2))

        for x, value in zip(z[::10], values[::10], strict=True):
            exact = {
                "remove": log_mixture(x),
                "add": -log_mixture(-x),
                "replace": log_mixture(x) - log_mixture(-x),
            }[direction]
            assert float(abs(exact - value)) <= 1e-12 * float(abs(exact)) + 1e-15 * (1 + abs(x) / sigma + sigma**-2)
    # Forth and back, where the slope does not magnify the last digit.
    steep = np.gradient(values, z) > 1e-6 * np.maximum(np.abs(values), rate / sigma)
    assert np.allclose(loss.inverse(values)[steep], z[steep], atol=1e-6)
    edges = np.append(values, np.inf)
    total = loss.probability(np.append(-np.inf, values), edges).sum()
    assert total == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_mean_is_the_divergence(direction: Direction) -> None:
    loss = Loss(direction, 0.8, 0.1)
    _, values, log_weights = loss.nodes()
    assert float(np.exp(log_weights).sum()) == pytest.approx(1, rel=1e-14)
    # E[exp(-Y)] = 1: the other measure has mass 1.
    assert float(np.exp(log_weights - values).sum()) == pytest.approx(1, rel=1e-12)
    assert loss.mean_within(-np.inf, np.inf) == pytest.approx(float(np.exp(log_weights) @ values), rel=1e-12)


class TestKnownProblems:
    """What users of the two packages ran into; the thread is named in each test."""

    def test_mean_of_the_discretised_loss(self) -> None:
        """microsoft/prv_accountant#36: "Discrete mean differs from continuous mean significantly"."""
        found = privacy.epsilon_bounds(noise_multiplier=0.8, sampling_rate=0.125, steps=1000, delta=1e-6)
        assert found.method == "saddle line" and found.upper - found.lower < 1e-9 * found.upper

    def test_mean_of_the_discretised_loss_opacus(self) -> None:
        """meta-pytorch/opacus#601 and #604: the same in a search for the noise, and for budgets above 10."""
        for budget in (10.0, 50.0, 300.0):
            sigma = privacy.least_noise_multiplier(epsilon=budget, delta=1e-5, sampling_rate=0.1, steps=500)
            assert (
                privacy.epsilon_bounds(noise_multiplier=sigma, sampling_rate=0.1, steps=500, delta=1e-5).lower <= budget
            )

    def test_large_epsilon(self) -> None:
        """microsoft/prv_accountant#42 and #14: large domains broke the numerical mean."""
        for steps in (10, 500):
            found = privacy.epsilon_bounds(noise_multiplier=1.0, sampling_rate=0.2, steps=steps, delta=1e-5)
            assert found.method == "saddle line" and found.upper - found.lower < 1e-9 * found.upper
            references.cross_check(noise_multiplier=1.0, sampling_rate=0.2, steps=steps, delta=1e-5)

    def test_small_delta(self) -> None:
        """microsoft/prv_accountant#17: epsilon 3.8 or 0.06 at deltas of 1e-18 beside each other, RDP 0.67."""
        near = [
            privacy.epsilon_bounds(noise_multiplier=4, sampling_rate=0.00033, steps=10_000, delta=d)
            for d in (1e-18, 1.1e-18)
        ]
        assert all(0.05 < one.lower < one.upper < 0.6 for one in near)
        assert 0.99 * near[0].lower < near[1].upper < near[0].lower

    def test_small_noise(self) -> None:
        """meta-pytorch/opacus#637: "cannot convert float infinity to integer"; NVIDIA-NeMo/Safe-Synthesizer#351: hangs."""
        found = privacy.epsilon_bounds(noise_multiplier=0.1, sampling_rate=0.01, steps=10_000, delta=1e-5)
        assert found.lower > 1000 and found.upper < privacy.gaussian_epsilon(1000, 1e-5)

    def test_small_budget(self) -> None:
        """google/dpsynth#71: out of memory where the noise is large."""
        sigma = privacy.least_noise_multiplier(epsilon=0.01, delta=1e-9, sampling_rate=0.001, steps=1000)
        assert privacy.epsilon_bounds(noise_multiplier=sigma, sampling_rate=0.001, steps=1000, delta=1e-9).upper <= 0.01

    def test_delta_that_covers_the_distance(self) -> None:
        """A budget of 1e-9 was refused although delta covers all that the steps can show."""
        nothing = privacy.EpsilonBounds(lower=0.0, estimate=0.0, upper=0.0, method="saddle line")
        assert privacy.epsilon_bounds(noise_multiplier=1000.0, sampling_rate=0.001, steps=50, delta=1e-5) == nothing
        assert (
            privacy.epsilon_bounds(
                noise_multiplier=1000.0, sampling_rate=0.001, steps=50, delta=1e-5, adjacency="replace-one"
            )
            == nothing
        )
        sigma = privacy.least_noise_multiplier(epsilon=1e-9, delta=1e-5, sampling_rate=0.001, steps=50)
        assert 282.08 < sigma < 282.09  # delta(0) is about sqrt(50) * .001 / (sigma sqrt(2 pi))
        assert privacy.epsilon_bounds(noise_multiplier=sigma, sampling_rate=0.001, steps=50, delta=1e-5).upper <= 1e-9

    def test_renyi_that_rounds_to_zero(self) -> None:
        """dp-accounting's Renyi divergence of one step is 0 in floating point here, and so would be its epsilon."""
        assert (
            privacy.rdp_epsilon(noise_multiplier=100, sampling_rate=1e-6, steps=10**6, delta=1e-9)
            > privacy.epsilon_bounds(noise_multiplier=100, sampling_rate=1e-6, steps=10**6, delta=1e-9).lower
            > 0
        )

    def test_truncation_of_the_order_of_delta(self) -> None:
        """dp-accounting adds 1e-15 to delta by default: epsilon is infinite at delta = 1e-15."""
        from dp_accounting.pld import privacy_loss_distribution as pld

        assert pld.from_gaussian_mechanism(100.0).self_compose(2).get_epsilon_for_delta(1e-15) == math.inf
        assert privacy.epsilon_bounds(noise_multiplier=100.0, sampling_rate=0.5, steps=2, delta=1e-15).upper < 0.2


def test_no_cost() -> None:
    assert privacy.epsilon_bounds(
        noise_multiplier=100, sampling_rate=1e-6, steps=1, delta=1e-5
    ) == privacy.EpsilonBounds(lower=0.0, estimate=0.0, upper=0.0, method="participations")


COVERED = (
    (1e-5, 1e-6, 1),
    (0.01, 1e-3, 1),
    (0.1, 0.05, 1),
    (0.5, 0.5, 1),
    (0.5, 0.01, 10),
    (0.9, 0.01, 100),
    (1e-5, 1e-6, 5),
)
VARIANTS: tuple[dict[str, str], ...] = (
    {},
    {"direction": "add"},
    {"direction": "remove"},
    {"adjacency": "replace-one"},
    {"adjacency": "replace-one", "sampling": "without replacement"},
)


@pytest.mark.parametrize(("delta", "rate", "count"), COVERED)
def test_where_delta_covers_that_the_record_takes_part_no_noise_is_asked_for(
    delta: float, rate: float, count: int
) -> None:
    """Total variation is at most 1 - (1 - q)^T at any noise; a search for the least noise went down without an end."""
    assert delta >= 1 - (1 - rate) ** count
    run = {"sampling_rate": rate, "steps": count, "delta": delta}
    for variant in VARIANTS:
        assert privacy.least_noise_multiplier(epsilon=1.0, **run, **variant) == 0.05  # type: ignore[arg-type]
        found = privacy.epsilon_bounds(noise_multiplier=0.05, **run, **variant)  # type: ignore[arg-type]
        assert (found.lower, found.upper, found.method) == (0.0, 0.0, "participations")


def test_noise_where_delta_nearly_covers_that_the_record_takes_part() -> None:
    """By hand, one step: q Phi(s / 2 - x / s) - r Phi(-s / 2 - x / s) with r = e^epsilon - 1 + q and x = log(r / q)."""
    rate, delta = 1.1e-5, 1e-5
    sigma = privacy.least_noise_multiplier(epsilon=1.0, delta=delta, sampling_rate=rate, steps=1)
    with mpmath.workdps(30):
        more = mpmath.e - 1 + mpmath.mpf(rate)

        def excess(noise: float) -> float:
            x = noise * mpmath.log(more / rate)
            half = 1 / (2 * mpmath.mpf(noise))
            return float(rate * mpmath.ncdf(half - x) - more * mpmath.ncdf(-half - x) - delta)

        assert excess(sigma) <= 0.0 < excess(sigma * (1 - 1e-6))
    assert privacy.least_noise_multiplier(epsilon=1.0, delta=delta, sampling_rate=0.5, steps=1, direction="add") == 0.05
    assert sigma == pytest.approx(0.1511, rel=1e-4)


def test_directions_and_adjacencies() -> None:
    add, remove, worst = (
        privacy.epsilon_bounds(noise_multiplier=1, sampling_rate=0.02, steps=500, delta=1e-5, direction=d)
        for d in ("add", "remove", "worst")
    )
    assert add.upper < remove.lower and worst.lower == remove.lower
    replaced = privacy.epsilon_bounds(
        noise_multiplier=1, sampling_rate=0.02, steps=500, delta=1e-5, adjacency="replace-one"
    )
    # Replacing is no less than removing, and no more than both in turn at half delta each (weighted by exp).
    assert replaced.lower > remove.upper
    fixed = privacy.epsilon_bounds(
        noise_multiplier=1,
        sampling_rate=0.02,
        steps=500,
        delta=1e-5,
        adjacency="replace-one",
        sampling="without replacement",
    )
    # In a fixed batch the record comes in place of another one, which may be its opposite: twice the change.
    assert fixed.method == "saddle line, divergence" and replaced.upper < fixed.lower < fixed.upper < 1.04 * fixed.lower
    references.cross_check(noise_multiplier=1, sampling_rate=0.02, steps=500, delta=1e-5, adjacency="replace-one")


def test_one_step_where_delta_is_nearly_the_total_variation() -> None:
    """There a rounding error of delta is a large one of epsilon; the values are by mpmath."""
    found = privacy.epsilon_bounds(
        noise_multiplier=174.0874709105694, sampling_rate=1e-6, steps=1, delta=2.291616563964603e-09, direction="remove"
    )
    assert found.lower <= 1.1061e-20 <= found.upper
    found = privacy.epsilon_bounds(
        noise_multiplier=0.2031808715084271,
        sampling_rate=0.003968047413117625,
        steps=1,
        delta=0.00391304875595261,
        direction="remove",
    )
    assert found.lower <= 1.7828649004066442e-11 <= found.upper


@pytest.mark.parametrize(
    ("setting", "direction"),
    [
        ((0.20539, 0.01244, 2, 1.211e-09), "add"),
        ((0.1, 3.6e-4, 315, 2.463e-06), "add"),
        pytest.param((0.26721, 1.4044e-06, 2, 1.3509e-08), "remove", marks=pytest.mark.slow),
        pytest.param((0.28415, 2.3388e-05, 2, 2.7602e-06), "replace", marks=pytest.mark.slow),
    ],
)
def test_width_for_few_steps_with_rare_large_losses(setting: tuple[float, float, int, float], direction: str) -> None:
    """delta at either bound is within 1e-4 of the one asked for."""
    options = {"adjacency": "replace-one"} if direction == "replace" else {"direction": direction}
    run = dict(zip(("noise_multiplier", "sampling_rate", "steps"), setting, strict=False))
    found = privacy.epsilon_bounds(**run, delta=setting[3], **options)  # type: ignore[arg-type]
    largest, least = (privacy.delta_bounds(**run, epsilon=end, **options) for end in (found.lower, found.upper))  # type: ignore[arg-type]
    assert largest.upper <= setting[3] * (1 + 2e-4) and least.lower >= setting[3] * (1 - 2e-4), found


def test_batches_of_a_share_are_never_rounded_down() -> None:
    low, high = (
        references.fixed_size_rdp_epsilon(noise_multiplier=1.0, sampling_rate=1e-6 * share, steps=1000, delta=1e-5)
        for share in (1.0, 1.0004)
    )
    assert low < high


def test_adding_costs_at_most_the_largest_loss() -> None:
    found = privacy.epsilon_bounds(
        noise_multiplier=0.2396, sampling_rate=0.598, steps=6, delta=1.5e-12, direction="add"
    )
    assert found.upper <= -6 * math.log1p(-0.598) * (1 + 1e-9)
    assert (
        privacy.epsilon_bounds(noise_multiplier=0.2396, sampling_rate=0.598, steps=6, delta=1.5e-12).method
        == "saddle line"
    )


def test_replace_without_subsampling_is_a_doubled_shift() -> None:
    exact = privacy.gaussian_epsilon(2 * math.sqrt(50) / 8, 1e-6)
    found = privacy.epsilon_bounds(noise_multiplier=8, sampling_rate=1.0, steps=50, delta=1e-6, adjacency="replace-one")
    assert is_closed_form(found, 2 * math.sqrt(50) / 8, 1e-6)
    lower, upper = _prv.prv_bracket(Loss("replace", 8, 1.0), 50, 1e-6, 0.01)
    assert lower <= exact <= upper


def test_guards_hold() -> None:
    """Each bound is above the exact epsilon, and the participations are never worse than no subsampling."""
    for sigma, rate, steps, delta in ((0.3, 1e-3, 100, 1e-6), (1.0, 0.1, 100, 1e-5), (5.0, 0.5, 1000, 1e-9)):
        exact = privacy.epsilon_bounds(noise_multiplier=sigma, sampling_rate=rate, steps=steps, delta=delta)
        revealed = _closed_forms.participation_epsilon(1 / sigma, rate, steps, delta)
        assert exact.lower <= revealed <= _closed_forms.unsampled_epsilon(1 / sigma, steps, delta)
    # Nearly nothing is hidden where a step gives itself away.
    assert (
        _closed_forms.participation_epsilon(10.0, 1e-3, 100, 1e-6)
        < 1.3 * privacy.epsilon_bounds(noise_multiplier=0.1, sampling_rate=1e-3, steps=100, delta=1e-6).lower
    )


def test_falls_back_where_the_line_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each method that serves holds the others in its bounds, and the answer is named after those that gave its ends."""
    run = (privacy.Step(noise_multiplier=1.1, sampling_rate=0.01, count=200),)
    right = methods.epsilon_in(run, "remove", 1e-5)
    serving = [one for one in methods.value_methods(1e-4, schedule=True, rare=False) if one.serves(run, "remove")]
    assert [one.name for one in serving] == ["Gaussian", "saddle line", "participations", "lattice", "RDP", "grid"]
    for one in serving:
        monkeypatch.setattr(methods, "value_methods", lambda rtol, schedule, rare, one=one: (one,))
        found = methods.epsilon_in(run, "remove", 1e-5)
        assert found.lower <= right.lower and right.upper <= found.upper < math.inf
        assert found.above == one.name and found.below in (one.name, "nothing")
        below, above = (methods.delta_in(run, "remove", end) for end in (right.upper, right.lower))
        assert below.lower <= 1e-5 <= above.upper
    others = tuple(one for one in serving if one.name != "saddle line")
    monkeypatch.setattr(methods, "value_methods", lambda rtol, schedule, rare: others)
    found = methods.epsilon_in(run, "remove", 1e-5)
    assert 0.99 * right.upper < found.lower <= right.lower and right.upper <= found.upper < 1.001 * right.upper


@pytest.mark.parametrize(
    ("setting", "lower", "upper"),
    [
        pytest.param((0.7648, 4.544e-08, 6, 1.036e-25, "replace"), 0.0065, 0.027, marks=pytest.mark.slow),
        pytest.param((0.9415, 3.15e-08, 5, 3.787e-24, "replace"), 2.5e-4, 9.4e-4, marks=pytest.mark.slow),
        ((1.119, 4.279e-06, 2, 6.594e-14, "remove"), 7.26e-4, 7.27e-4),
        ((0.4231, 1.896e-08, 8, 2.25e-10, "remove"), 3.2e-5, 2.2e-4),
    ],
)
def test_few_and_rare_steps_without_another_accountant(
    setting: tuple[float, float, int, float, Direction], lower: float, upper: float
) -> None:
    """Where the line alone is wide, and PRV was asked before: no wider than it was."""
    noise, rate, count, delta, direction = setting
    found = methods.epsilon_in(
        (privacy.Step(noise_multiplier=noise, sampling_rate=rate, count=count),), direction, delta
    )
    assert lower <= found.lower <= found.upper <= upper
    witness = _prv.prv_or_none(Loss(direction, noise, rate), count, delta, 0.005)
    assert witness is not None and witness[0] <= found.upper and found.lower <= witness[1]


def test_the_estimate_lies_in_the_bracket() -> None:
    """Whatever gave its ends: one method, or two."""
    run = {"noise_multiplier": 1.0, "sampling_rate": 0.02, "steps": 50, "delta": 1e-5}
    fixed = {"adjacency": "replace-one", "sampling": "without replacement"}
    asked: list[dict[str, object]] = [{}, {"steps": 1}, {"sampling_rate": 1.0}, {"delta": 0.9}, fixed]
    found = [privacy.epsilon_bounds(**{**run, **more}) for more in asked]  # type: ignore[arg-type]
    step = privacy.Step(noise_multiplier=1.0, sampling_rate=0.02, count=50)
    found += [privacy.Composition([step, replace(step, sampling_rate=0.5)]).epsilon(1e-5)]
    assert len({one.method for one in found}) >= 4 and any("," in one.method for one in found)
    assert [one for one in found if not one.lower <= one.estimate <= one.upper] == []


def test_without_flint_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flint", None)
    monkeypatch.delitem(sys.modules, "dptheory.privacy.methods.saddle._enclosure", raising=False)
    monkeypatch.delattr(privacy.methods.saddle, "_enclosure", raising=False)
    with refused("certified"):
        privacy.epsilon_bounds(noise_multiplier=1.1, sampling_rate=0.01, steps=201, delta=1e-5, certified=True)


def test_contradiction_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cross_check, "pld_bracket", lambda *_: (0.0, 1.0))
    with pytest.raises(ArithmeticError, match="PRV"):
        references.cross_check(noise_multiplier=1, sampling_rate=0.02, steps=1000, delta=1e-5)


SIGMA = st.floats(0.5, 10)
RATE = st.floats(1e-4, 0.5)
COUNT = st.integers(1, 2000)
DELTA = st.floats(-9, -2).map(lambda x: 10**x)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(SIGMA, RATE, COUNT, DELTA, st.floats(1.01, 3))
def test_monotone(sigma: float, rate: float, steps: int, delta: float, factor: float) -> None:
    here = privacy.epsilon_bounds(noise_multiplier=sigma, sampling_rate=rate, steps=steps, delta=delta)
    more_noise = privacy.epsilon_bounds(noise_multiplier=sigma * factor, sampling_rate=rate, steps=steps, delta=delta)
    more_delta = privacy.epsilon_bounds(
        noise_multiplier=sigma, sampling_rate=rate, steps=steps, delta=min(0.1, delta * factor)
    )
    more_data = privacy.epsilon_bounds(
        noise_multiplier=sigma, sampling_rate=min(1.0, rate * factor), steps=steps, delta=delta
    )
    more_steps = privacy.epsilon_bounds(
        noise_multiplier=sigma, sampling_rate=rate, steps=math.ceil(steps * factor), delta=delta
    )
    slack = 1 + 1e-9
    assert more_noise.lower <= here.upper * slack
    assert more_delta.lower <= here.upper * slack
    assert here.lower <= more_data.upper * slack
    assert here.lower <= more_steps.upper * slack


@pytest.mark.parametrize(
    ("budget", "delta", "rate", "count"), [(1.0, 1e-5, 0.01, 500), (8.0, 1e-6, 0.1, 100), (0.05, 1e-7, 0.001, 300)]
)
def test_noise_multiplier_is_the_inverse(budget: float, delta: float, rate: float, count: int) -> None:
    sigma = privacy.least_noise_multiplier(epsilon=budget, delta=delta, sampling_rate=rate, steps=count)
    run = {"sampling_rate": rate, "steps": count, "delta": delta}
    assert privacy.epsilon_bounds(noise_multiplier=sigma, **run).upper <= budget  # type: ignore[arg-type]
    assert privacy.epsilon_bounds(noise_multiplier=sigma * (1 - 1e-6), **run).lower > budget  # type: ignore[arg-type]


def test_budgets_are_kept_in_ball_arithmetic() -> None:
    run = {"sampling_rate": 0.02, "delta": 1e-5, "certified": True}
    sigma = privacy.least_noise_multiplier(epsilon=3.0, steps=200, **run)  # type: ignore[arg-type]
    assert privacy.epsilon_bounds(noise_multiplier=sigma, steps=200, **run).upper <= 3.0  # type: ignore[arg-type]
    assert sigma == privacy.least_noise_multiplier(epsilon=3.0, steps=200, **{**run, "certified": False})  # type: ignore[arg-type]
    steps = privacy.max_steps(epsilon=3.0, noise_multiplier=sigma, **run)  # type: ignore[arg-type]
    assert steps == 200


def test_noise_multiplier_without_subsampling() -> None:
    sigma = privacy.least_noise_multiplier(epsilon=2.0, delta=1e-6, sampling_rate=1.0, steps=100)
    exact = 10 / privacy.gaussian_mu(2.0, 1e-6)
    assert exact <= sigma <= (1 + 1e-6) * exact


def test_noise_for_what_an_attacker_can_do() -> None:
    """Of Gaussian releases by hand, of sampled steps by what the attack is bounded by; noise less by 1e-3 does not keep it."""
    plain = {"sampling_rate": 1.0, "steps": 4}
    found = privacy.least_noise_multiplier(advantage=0.2, **plain)  # type: ignore[arg-type]
    assert found == pytest.approx(2 / (2 * norm.ppf(0.6)), rel=2e-6)
    # rounding of the bounds is more than what is left below 1
    found = privacy.least_noise_multiplier(advantage=math.nextafter(1.0, 0.0), **plain)  # type: ignore[arg-type]
    least = 2 / (2 * norm.isf(2.0**-54))
    assert least < found < 1.4 * least
    rates = {"true_positive_rate": 0.05, "false_positive_rate": 0.01}
    found = privacy.least_noise_multiplier(**rates, **plain)  # type: ignore[arg-type]
    assert found == pytest.approx(2 / (norm.ppf(0.05) - norm.ppf(0.01)), rel=2e-4)
    sampled = {"sampling_rate": 0.02, "count": 500}
    found = privacy.least_noise_multiplier(advantage=0.1, sampling_rate=0.02, steps=500)
    kept, broken = (
        privacy.Composition([privacy.Step(noise_multiplier=noise, **sampled)]).advantage()  # type: ignore[arg-type]
        for noise in (found, found * 0.999)
    )
    assert kept.upper <= 0.1 < broken.lower


@pytest.mark.parametrize(
    ("asked", "argument"),
    [
        ({}, "epsilon"),
        ({"epsilon": 1.0}, "delta"),
        ({"advantage": 0.1, "epsilon": 1.0}, "epsilon"),
        ({"advantage": 0.1, "false_positive_rate": 0.01}, "false_positive_rate"),
        ({"true_positive_rate": 0.1}, "false_positive_rate"),
        ({"true_positive_rate": 0.01, "false_positive_rate": 0.01}, "true_positive_rate"),
        ({"advantage": 0.0}, "advantage"),
        ({"advantage": 0.1, "direction": "add"}, "direction"),
        ({"advantage": 1e-9}, "advantage"),
    ],
)
def test_budgets_of_an_attacker_that_make_no_sense(asked: dict[str, Any], argument: str) -> None:
    with refused(argument, ""):
        privacy.least_noise_multiplier(**asked, sampling_rate=0.02, steps=1000)


def test_bounds_are_plain_floats_and_the_integral_knows_no_end_of_steps_or_noise() -> None:
    """Beyond 10^6 steps it was [1.300, 1.392] at 10^8, and nothing at 10^10; a NumPy number stood where float is annotated."""
    run = privacy.Composition([privacy.Step(noise_multiplier=5000.0, sampling_rate=0.01, count=10**10)])
    found = run.epsilon(1e-6)
    # nearly a Gaussian mechanism: mu^2 = T q^2 (e^(1 / sigma^2) - 1), by the central limit theorem, whose error falls with sqrt(T)
    mu = 0.01 * math.sqrt(10**10 * math.expm1(5000.0**-2))
    assert found.upper - found.lower < 1e-6 * found.upper
    assert found.upper == pytest.approx(privacy.gaussian_epsilon(mu, 1e-6), rel=1e-3)
    small = privacy.Composition([privacy.Step(noise_multiplier=1.0, sampling_rate=0.1, count=3)])
    numbers = [small.epsilon(1e-5), small.delta(1.0), small.advantage(), small.tradeoff(0.01)]
    assert {type(value) for one in numbers for value in (one.lower, one.upper)} == {float}


def test_noise_multiplier_at_the_ends() -> None:
    assert privacy.least_noise_multiplier(epsilon=1e6, delta=1e-5, sampling_rate=0.01, steps=1) == 0.05
    with refused("epsilon", "1000", "1e-08"):
        privacy.least_noise_multiplier(epsilon=1e-8, delta=1e-15, sampling_rate=1.0, steps=10**6)


def test_steps_at_the_ends() -> None:
    assert privacy.max_steps(epsilon=0.1, delta=1e-9, noise_multiplier=0.3, sampling_rate=0.5) == 0
    assert privacy.max_steps(epsilon=100.0, delta=1e-5, noise_multiplier=100.0, sampling_rate=1e-6) == 10**6
    assert (
        privacy.max_steps(epsilon=1e-310, delta=0.1, noise_multiplier=1000.0, sampling_rate=1e-6) == 10**6
    )  # epsilon is 0
    assert privacy.least_noise_multiplier(epsilon=1e308, delta=1e-5, sampling_rate=1.0, steps=10) == 0.05


@pytest.mark.parametrize("most", [1, 17, 10**6])
@pytest.mark.parametrize("wrong", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("last", [0, 1, 17, 12_345])
def test_the_most_that_fit_are_found_whatever_the_guess(most: int, wrong: float, last: int) -> None:
    """Few of them are looked at, and the largest first where it seems to fit."""
    asked = []

    def excess(x: int) -> float:
        asked.append(x)
        return math.log(x / (last + 0.5))

    found = _budgets._most(lambda x: math.log(x / wrong / (last + 0.5)), excess, most)
    assert found == min(last, most) and len(asked) <= 40
    assert asked[0] == most or most > wrong * (last + 0.5)


@pytest.mark.parametrize(
    ("budget", "sigma", "rate"),
    [(1000.0, 1.0, 1e-4), (800.0, 1.0, 1e-5), (2000.0, 2.0, 1e-3), (1e5, 20.0, 0.01), (500.0, 1.0, 1e-3)],
)
def test_steps_for_a_large_budget(budget: float, sigma: float, rate: float) -> None:
    """They overflowed, or walked up to the most steps one by one."""
    run = {"noise_multiplier": sigma, "sampling_rate": rate, "delta": 1e-5}
    assert privacy.max_steps(epsilon=budget, **run) == 10**6
    assert privacy.epsilon_bounds(steps=10**6, **run).upper <= budget  # type: ignore[arg-type]
    assert privacy.max_steps(epsilon=1000.0, direction="add", **run) == 10**6  # type: ignore[arg-type]


def test_the_least_noise_for_a_large_budget_asks_for_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million rare steps at epsilon = 1000 took minutes, to find that the smallest noise will do."""
    run = {"sampling_rate": 1e-6, "steps": 10**6, "delta": 0.1}

    def refused(*given: object, **named: object) -> None:
        raise AssertionError(given, named)

    monkeypatch.setattr(_noise_scale, "_by_delta", refused)
    assert privacy.least_noise_multiplier(epsilon=1000.0, **run) == 0.05  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        privacy.least_noise_multiplier(epsilon=1.0, **run)  # type: ignore[arg-type]


def test_steps_that_delta_covers() -> None:
    """By hand: 1 - 0.999^T is at most 0.01 up to T = 10, and with so little noise more is seen."""
    assert privacy.max_steps(epsilon=1.0, delta=0.01, noise_multiplier=0.05, sampling_rate=1e-3) == 10


def test_renyi_knows_every_adjacency() -> None:
    run = {"noise_multiplier": 1, "sampling_rate": 0.02, "steps": 10, "delta": 1e-5}
    add_remove, replace = (privacy.rdp_epsilon(**run, adjacency=one) for one in ("add-remove", "replace-one"))
    share = references.fixed_size_rdp_epsilon(**run)
    assert 0 < add_remove < replace < share


def test_paper_settings() -> None:
    rows = paper_settings()
    assert len({row.name + str(row.epsilon) for row in rows}) == len(rows) == 36
    row = next(row for row in rows if row.name.startswith("RF") and row.epochs == 40)
    spent = row.spent()
    assert spent is not None and 2.7 < spent.lower < spent.upper < 2.8
    bare = PaperSetting(name="x", epsilon=3.0, delta=1e-5, batch_size=1000, train_size=50_000)
    assert bare.needed_noise_multiplier() is bare.spent() is bare.allowed_steps() is None


def test_no_lower_bound_where_the_error_covers_everything() -> None:
    grid = np.linspace(-1.0, 1.0, 9)
    composed = _prv._Composed(grid, np.full(9, 1 / 9), 1.0, 0.0, wrong=1e9, missed=0.0, mean_error=0.0)
    assert composed.lower(1e-5, 0.5) == 0.0


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_delta_outside_the_range_hears_which_bound_holds_there(adjacency: str) -> None:
    run = {"noise_multiplier": 2.0, "sampling_rate": 0.3, "steps": 40, "adjacency": adjacency}
    step = privacy.Step(noise_multiplier=2.0, sampling_rate=0.3, count=40)
    for asked in (lambda delta: privacy.epsilon_bounds(delta=delta, **run), privacy.Composition([step]).epsilon):
        with refused("delta", "0.995", "0.99"):
            asked(0.995)
        with refused("delta", "1e-40", "1", "2"):
            asked(1e-40)
        with refused("delta", "1.5"):
            asked(1.5)
    shift = 2.0 if adjacency == "replace-one" else 1.0
    for delta in (1e-30, 1e-5):  # what the sentence says, where both are known
        named = privacy.zcdp_epsilon(zcdp_rho=40 * shift**2 / (2 * 2.0**2), delta=delta)
        assert named >= privacy.epsilon_bounds(delta=delta, **run).upper
