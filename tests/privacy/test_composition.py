"""Compositions: as data, from files, scaled by a factor, and beside what was spent."""

import dataclasses
import json
import math
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

import mpmath
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.optimize import brentq
from scipy.stats import norm

from dptheory.privacy import (
    ORDERS,
    Composition,
    FreshMask,
    IndexSteps,
    JointStep,
    MaskedStep,
    ProbabilityBounds,
    Step,
    _parts,
    epsilon_from_rdp,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    least_noise_beside,
    least_noise_multiplier,
    read_composition,
    subsampled_gaussian_rdp,
)
from dptheory.privacy import epsilon as methods
from dptheory.privacy._bounds import Direction
from dptheory.privacy.index_sets import composed, loss_law
from dptheory.privacy.methods.grid import _bounds
from dptheory.privacy.methods.grid._bounds import grid_bounds, grid_upper
from dptheory.privacy.methods.saddle import _brackets as saddle
from dptheory.pruning import SubsetMallows
from tests.refused import refused
from tests.said import says

# --- Compositions as data: against closed forms, products, quadrature and each other ---


INDEX = SubsetMallows(12, 4, theta=0.05)
GAUSSIAN = Composition([Step(noise_multiplier=1.5, sampling_rate=1.0, count=4)])


def step(noise: float, rate: float, count: int) -> Step:
    return Step(noise_multiplier=noise, sampling_rate=rate, count=count)


def joint(noise: float, rate: float, mechanism: SubsetMallows, groups: int) -> JointStep:
    return JointStep(noise_multiplier=noise, sampling_rate=rate, mechanism=mechanism, groups=groups, count=1)


def holds(found: ProbabilityBounds, truth: float, width: float) -> bool:
    """The truth lies between bounds that are no further apart than promised."""
    return (
        found.lower <= truth * (1 + 1e-12) + 1e-15
        and truth <= found.upper * (1 + 1e-12) + 1e-15
        and (found.upper - found.lower <= width)
    )


# --- values alone ---------------------------------------------------------------------------------------------------------
def test_unsampled_steps_are_one_gaussian_release() -> None:
    mixed, mu = Composition([step(2.0, 1.0, 3), step(1.0, 1.0, 1)]), math.sqrt(3 / 4 + 1)
    assert holds(mixed.delta(1.0), gaussian_delta(mu, 1.0), 1e-9)
    found = mixed.epsilon(1e-6)
    assert found.lower <= gaussian_epsilon(mu, 1e-6) <= found.upper < found.lower + 1e-7
    assert found.estimate == (found.lower + found.upper) / 2
    assert {found.method, mixed.delta(1.0).method, mixed.advantage().method, mixed.tradeoff(0.5).method} == {"Gaussian"}
    assert holds(mixed.advantage(), 2 * norm.cdf(mu / 2) - 1, 1e-8)
    replaced = Composition([step(2.0, 1.0, 3), step(1.0, 1.0, 1)], adjacency="replace-one")
    assert holds(replaced.delta(1.0), gaussian_delta(2 * mu, 1.0), 1e-9)


def test_the_same_steps_cut_into_parts_and_in_any_order() -> None:
    whole = Composition([step(1.0, 0.02, 100), step(2.0, 0.01, 50)])
    cut = Composition([step(2.0, 0.01, 20), step(1.0, 0.02, 100), step(2.0, 0.01, 30)])
    assert whole.epsilon(1e-5) == cut.epsilon(1e-5)
    assert whole.delta(0.5) == cut.delta(0.5)


def test_more_steps_less_noise_and_more_records_spend_more() -> None:
    base = Composition([step(1.0, 0.02, 100), step(2.0, 0.01, 50)]).epsilon(1e-5).upper
    for other in (step(2.0, 0.01, 51), step(1.99, 0.01, 50), step(2.0, 0.0101, 50)):
        assert Composition([step(1.0, 0.02, 100), other]).epsilon(1e-5).lower > base


def test_one_sampled_step_by_hand() -> None:
    """The laws of one step: the hockey-stick divergence in closed form."""
    q, t = 0.3, 1 / 0.8
    for epsilon in (0.0, 0.05, 0.2, 1.5):
        gamma = math.exp(epsilon)
        up = _crossing_place((gamma - 1 + q) / q, t)
        remove = (1 - q - gamma) * norm.sf(up) + q * norm.sf(up - t)
        add = 0.0
        if 1 / gamma > 1 - q:
            down = _crossing_place((1 / gamma - 1 + q) / q, t)
            add = (1 - gamma * (1 - q)) * norm.cdf(down) - gamma * q * norm.cdf(down - t)
        assert holds(Composition([step(0.8, q, 1)]).delta(epsilon), max(remove, add), 1e-4)


def _crossing_place(ratio: float, t: float) -> float:
    return math.log(ratio) / t + t / 2


def test_a_schedule_of_many_kinds_lies_between_its_ends() -> None:
    noises = np.linspace(1.0, 1.4, 20)
    run = Composition([step(float(noise), 0.02, 10) for noise in noises])
    found = run.epsilon(1e-5)
    kinds = saddle.bins(_parts.values_of(run.parts, hidden=False), upper=True)
    assert len(kinds) <= saddle.MOST_KINDS and sum(kind.count for kind in kinds) == 200
    least, most = (Composition([step(noise, 0.02, 200)]).epsilon(1e-5) for noise in (1.4, 1.0))
    more, less = (
        Composition([step(float(noise), 0.02, 40) for noise in noises[first::4]]).epsilon(1e-5) for first in (0, 3)
    )  # of four kinds each the one with the least noise, or the most, for all
    assert least.upper < found.lower < found.upper < most.lower
    assert found.upper < 1.001 * found.lower
    assert less.upper < found.lower < found.upper < more.lower


@pytest.mark.parametrize(
    ("noise", "rate", "count"),
    [(1e-15, 1.0, 1), (1e15, 1.0, 10), (1.0, 1e-12, 10**12), (0.01, 0.5, 3), (2000.0, 0.1, 100)],
)
def test_any_step_has_bounds(noise: float, rate: float, count: int) -> None:
    run = Composition([step(noise, rate, count)])
    spent = run.epsilon(1e-5)
    assert 0.0 <= spent.lower <= spent.upper
    chance = run.delta(1.0)
    assert 0.0 <= chance.lower <= chance.upper <= min(1.0, rate * count)
    least = math.ulp(0.0)  # an upper end is never rounded down to 0
    assert chance.upper <= max(gaussian_delta(min(math.sqrt(count) / noise, 1e100), 1.0) * (1 + 1e-8), least)


@pytest.mark.parametrize(
    ("noise", "count"), [(1e15, 10**6), (1e12, 10**6), (1e8, 1), (1e4, 10**8), (1001.0, 10**8), (1.0, 3)]
)
def test_full_batches_have_the_closed_form_at_both_ends(noise: float, count: int) -> None:
    run, mu = Composition([step(noise, 1.0, count)]), math.sqrt(count) / noise
    assert holds(run.delta(0.0), math.erf(mu / math.sqrt(8)), 1e-8)
    found, truth = run.epsilon(1e-5), gaussian_epsilon(mu, 1e-5)
    assert found.lower <= truth <= found.upper <= truth * (1 + 1e-9)
    tiny = run.epsilon(1e-14)
    assert tiny.lower <= gaussian_epsilon(mu, 1e-14) <= tiny.upper


def test_a_grid_allows_for_the_rounding_of_tiny_losses() -> None:
    """delta of one step at epsilon = 4.881922447914422e-13 is 1.000357e-20, above 1e-20 (mpmath, 60 digits)."""
    with mpmath.workdps(60):
        noise, rate, epsilon = mpmath.mpf(10) ** 9, mpmath.mpf(1e-4), mpmath.mpf(4.881922447914422e-13)
        z = (mpmath.log1p(mpmath.expm1(epsilon) / rate) + 1 / (2 * noise**2)) * noise
        with_record = (1 - rate) * mpmath.ncdf(-z) + rate * mpmath.ncdf(1 / noise - z)
        truth = float(with_record - mpmath.exp(epsilon) * mpmath.ncdf(-z))
    assert truth > 1e-20
    run = Composition([step(1e9, 1e-4, 1)])
    assert run.epsilon(1e-20).upper > 4.881922447914422e-13
    found = run.delta(4.881922447914422e-13)
    assert found.lower <= truth <= found.upper


@pytest.mark.parametrize(
    ("parts", "epsilon", "most"),
    [
        ([joint(1.0, 0.02, SubsetMallows(256, 26, theta=5.0), 10)], 3.0, 0.02),
        ([joint(2.2, 0.9, SubsetMallows(3, 1, theta=4.47), 10)], 1.0, 0.9),
        ([joint(1.0, 1.0, SubsetMallows(10_000, 5000, theta=1.0), 1)], 1.0, 1.0),
        ([joint(1.0, 0.02, SubsetMallows(256, 26, theta=math.inf), 1)], 1.0, 0.02),
        ([IndexSteps(steps=2, mechanism=SubsetMallows(2, 1, theta=0.003936557644458673), groups=3),
          step(2.5135567022435588, 0.1, 1)], 3.0, 1e-40),
    ],
)  # fmt: skip
def test_index_sets_that_no_grid_holds_have_wide_bounds(
    parts: list[Step | JointStep | IndexSteps], epsilon: float, most: float
) -> None:
    found = Composition(parts).delta(epsilon)
    assert 0.0 <= found.lower <= found.upper <= most


def test_two_steps_of_little_noise_have_bounds() -> None:
    """By hand, rate q, t = 25: one step drawn, with the loss log q (1 - q) + t^2 / 2 + t g, or both, with chance q^2."""
    run = Composition([step(0.04, 1e-5, 2)])
    usual, found = run.epsilon(1e-5), run.epsilon(1e-5, rtol=1e-9)
    with mpmath.workdps(40):
        q, t = mpmath.mpf(1e-5), mpmath.mpf(25)

        def excess(epsilon: mpmath.mpf) -> mpmath.mpf:
            a = mpmath.log(q * (1 - q)) + t * t / 2 - epsilon
            drawn = mpmath.ncdf(a / t) - mpmath.exp(t * t / 2 - a) * mpmath.ncdf(a / t - t)
            return 2 * q * (1 - q) * drawn + q * q - q  # delta is q

        truth = mpmath.findroot(excess, (299, 301), solver="anderson", tol=1e-30)
    assert found.lower <= truth <= found.upper < found.lower * (1 + 1e-10)
    assert usual.lower <= truth <= usual.upper < usual.lower * (1 + 1e-4)  # no more than what was asked for


def test_a_record_in_no_sample_shows_nothing_in_its_index_sets_either() -> None:
    for theta in (0.1, math.inf):
        rare = Composition([joint(1.0, 1e-6, SubsetMallows(256, 26, theta=theta), 10)])
        assert rare.epsilon(1e-3).upper == 0.0 and rare.delta(0.0).upper <= 1e-6
    batches_given = [IndexSteps(steps=1, mechanism=SubsetMallows(256, 26, theta=0.1), groups=1), step(1.0, 1e-6, 1)]
    assert Composition(batches_given).delta(0.0).upper > 1e-3


# --- the trade-off curve --------------------------------------------------------------------------------------------------
def test_tradeoff_of_a_gaussian_is_that_of_neyman_and_pearson() -> None:
    for alpha in (0.0, 1e-6, 0.01, 0.3, 0.9, 1.0):
        exact = float(norm.cdf(norm.ppf(1 - alpha) - 2 / 1.5)) if 0 < alpha < 1 else 1 - alpha
        assert holds(GAUSSIAN.tradeoff(alpha), exact, 1e-7)


def test_tradeoff_of_one_sampled_step_is_that_of_neyman_and_pearson() -> None:
    """Reject where the output is large, or, for the other test, where it is small; both are monotone in the ratio."""
    q, t = 0.3, 1 / 0.8
    run = Composition([step(0.8, q, 1)])
    for alpha in (0.001, 0.01, 0.2, 0.7):
        up = norm.isf(alpha)
        member = (1 - q) * norm.cdf(up) + q * norm.cdf(up - t)
        down = brentq(lambda z, a=alpha: (1 - q) * norm.cdf(z) + q * norm.cdf(z - t) - a, -20, 20)
        assert holds(run.tradeoff(alpha), min(member, norm.sf(down)), 1e-6)


def test_tradeoff_of_a_mixed_run_lies_above_every_line_and_below_tests_that_were_drawn() -> None:
    """Likelihood ratio tests of both hypotheses on a million drawn runs."""
    parts = [step(1.0, 0.1, 5), step(2.0, 0.2, 5)]
    run, alpha = Composition(parts), 0.05
    rng, n = np.random.default_rng(0), 200_000
    without, with_record = np.zeros(n), np.zeros(n)
    for part in parts:
        t, q = 1 / part.noise_multiplier, part.sampling_rate
        for _ in range(part.count):
            y = rng.standard_normal(n)
            without += np.log1p(q * np.expm1(t * y - t * t / 2))
            y = rng.standard_normal(n) + t * (rng.random(n) < q)
            with_record += np.log1p(q * np.expm1(t * y - t * t / 2))
    missed = [
        np.mean(with_record <= np.quantile(without, 1 - alpha)),
        np.mean(without >= np.quantile(with_record, alpha)),
    ]
    found = run.tradeoff(alpha)
    assert found.upper - found.lower < 1e-6
    assert found.lower == pytest.approx(min(missed), abs=5 * 2 * math.sqrt(0.25 / n))
    delta = run.delta(1.0)
    assert found.lower >= 1 - delta.upper - math.e * alpha - 1e-12


def test_the_guaranteed_curve_is_below_the_exact_one_and_close() -> None:
    rates = np.array([1e-4, 0.01, 0.5])
    exact = np.array([GAUSSIAN.tradeoff(float(rate)).lower for rate in rates])
    drawn = GAUSSIAN.guaranteed(rates)
    assert (drawn <= exact + 1e-12).all() and (drawn >= exact - 2e-3).all()


def test_no_grid_is_asked_for_what_it_cannot_resolve(monkeypatch: pytest.MonkeyPatch) -> None:
    """At false positive rate 0 the search goes out to epsilon 60, where delta of noise alone is below the least number."""

    def refuse(*_: object) -> None:
        raise AssertionError("a grid was asked")

    monkeypatch.setattr(_bounds, "grid_bounds", refuse)
    assert holds(GAUSSIAN.tradeoff(0.0), 1.0, 1e-13)


def test_what_the_attacker_can_do() -> None:
    risk = GAUSSIAN.attack(false_positive_rate=0.01)
    exact = float(norm.sf(norm.isf(0.01) - 2 / 1.5))
    assert risk.true_positive_rate_lower == pytest.approx(exact, abs=1e-7)
    assert risk.true_positive_rate_upper == pytest.approx(exact, abs=1e-7)
    assert risk.true_positive_rate_lower <= exact <= risk.true_positive_rate_upper
    assert risk.advantage_lower <= 2 * norm.cdf(1 / 1.5) - 1 <= risk.advantage_upper <= risk.advantage_lower + 1e-8
    assert risk.false_positive_rate == 0.01 and not risk.replaced
    assert says(str(risk), 1, 16.1, 74.8)
    seldom = GAUSSIAN.attack(false_positive_rate=0.05)
    exact = float(norm.sf(norm.isf(0.05) - 2 / 1.5))
    assert seldom.false_positive_rate == 0.05 and seldom.true_positive_rate_upper == pytest.approx(exact, abs=1e-7)
    assert seldom.true_positive_rate_lower == pytest.approx(exact, abs=1e-7) and not seldom.replaced
    assert (seldom.advantage_lower, seldom.advantage_upper) == (risk.advantage_lower, risk.advantage_upper)
    other = Composition([step(3.0, 1.0, 1)], adjacency="replace-one").attack()
    assert other.replaced and str(other) != str(dataclasses.replace(other, replaced=False))


def test_the_picture() -> None:
    axes = Figure().add_subplot()
    GAUSSIAN.plot(ax=axes)
    rates, found = axes.lines[0].get_data()
    assert found[100] == pytest.approx(float(norm.sf(norm.isf(rates[100]) - 2 / 1.5)), rel=0.02)  # type: ignore[index]


# --- index sets -----------------------------------------------------------------------------------------------------------
def _index_losses(count: int) -> tuple[np.ndarray, np.ndarray]:
    law = loss_law(mechanism=INDEX)
    low, log_pmf = composed(loss=law, count=count)
    return law.spacing * (low + np.arange(log_pmf.size)), np.exp(log_pmf)


def _released(epsilon: float, mu: float, count: int) -> float:
    """delta of ``count`` index sets and a Gaussian release: the mean of its own over the losses of the index sets."""
    losses, masses = _index_losses(count)
    places = losses - epsilon
    return float(masses @ (norm.cdf(mu / 2 + places / mu) - np.exp(-places) * norm.cdf(places / mu - mu / 2)))


@pytest.mark.parametrize(
    "parts",
    [
        [JointStep(noise_multiplier=2.0, sampling_rate=1.0, mechanism=INDEX, groups=3, count=7)],
        [Step(noise_multiplier=2.0, sampling_rate=1.0, count=7), IndexSteps(steps=7, mechanism=INDEX, groups=3)],
    ],
    ids=["jointly", "one by one"],
)
def test_index_sets_with_values_without_sampling(parts: list[JointStep | Step | IndexSteps]) -> None:
    run = Composition(parts)
    for epsilon in (0.0, 1.0, 4.0):
        exact = _released(epsilon, math.sqrt(7) / 2, 21)
        found = run.delta(epsilon)
        assert holds(found, exact, 6e-3 * exact)
        assert found.upper <= exact * (1 + 1e-6)
    spent = run.epsilon(1e-6)
    assert _released(spent.upper, math.sqrt(7) / 2, 21) <= 1e-6 <= _released(spent.lower, math.sqrt(7) / 2, 21)
    assert spent.upper - spent.lower < 5e-3 * spent.upper


def _one_joint_step(side: str, epsilon: float, rate: float, t: float, groups: int) -> float:
    losses, with_record = _index_losses(groups)
    gamma, total = math.exp(epsilon), 0.0
    for loss, mass in zip(losses, with_record * np.exp(-losses), strict=True):
        ratio = (gamma if side == "remove" else 1 / gamma) - 1 + rate
        if ratio <= 0:
            continue
        z = (math.log(ratio / rate) - loss) / t + t / 2
        if side == "remove":
            total += mass * ((1 - rate - gamma) * norm.sf(z) + rate * math.exp(loss) * norm.sf(z - t))
        else:
            inside = (1 - gamma * (1 - rate)) * norm.cdf(z) - gamma * rate * math.exp(loss) * norm.cdf(z - t)
            total += mass * inside
    return total


def test_one_step_of_index_sets_and_values_from_one_sample() -> None:
    run = (JointStep(noise_multiplier=0.8, sampling_rate=0.3, mechanism=INDEX, groups=2, count=1),)
    sides: tuple[Direction, ...] = ("remove", "add")
    for side in sides:
        for epsilon in (0.0, 0.1, 1.0):
            exact = _one_joint_step(side, epsilon, 0.3, 1 / 0.8, 2)
            low, high = grid_bounds(run, side, epsilon)
            assert exact * (1 - 5e-3) - 1e-15 <= low <= exact <= high <= exact * (1 + 1e-6) + 1e-12


def test_many_joint_steps_lie_between_values_alone_and_values_with_unsampled_index_sets() -> None:
    """gip.thm2, items 1 and 4; and sampling both at once reveals more than sampling the index sets apart."""
    weak = SubsetMallows(64, 8, theta=0.02)
    joint = Composition([JointStep(noise_multiplier=1.0, sampling_rate=0.1, mechanism=weak, groups=4, count=20)])
    values, apart = step(1.0, 0.1, 20), IndexSteps(steps=20, mechanism=weak, groups=4)
    found = joint.epsilon(1e-6)
    assert Composition([values]).epsilon(1e-6).upper < found.lower
    assert found.upper < Composition([values, apart]).epsilon(1e-6).lower
    assert found.upper < found.lower * 1.01


def test_many_groups_are_put_together_from_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    run = (
        JointStep(
            noise_multiplier=0.5, sampling_rate=0.2, mechanism=SubsetMallows(64, 8, theta=0.05), groups=200, count=2
        ),
    )
    fine = grid_bounds(run, "remove", 1.0)
    monkeypatch.setattr("dptheory.privacy.methods.grid._law._MOST_ATOMS", 24)
    grid_bounds.__globals__["_atoms"].cache_clear()
    rough = grid_bounds(run, "remove", 1.0)
    grid_bounds.__globals__["_atoms"].cache_clear()
    assert rough[0] < fine[0] < fine[1] < rough[1] < 1.2 * rough[0]


def test_index_sets_of_many_groups_that_say_little_cost_their_pure_epsilon_at_most() -> None:
    weak = SubsetMallows(256, 26, theta=1e-12)
    joint = Composition([JointStep(noise_multiplier=1.0, sampling_rate=0.02, mechanism=weak, groups=10_000, count=100)])
    values, pure = Composition([step(1.0, 0.02, 100)]).epsilon(1e-5), 100 * 10_000 * 1e-12 * 52
    found = joint.epsilon(1e-5)
    assert values.lower <= found.lower and found.upper <= math.nextafter(values.upper + pure, math.inf)
    parts = (*joint.parts, IndexSteps(steps=3, mechanism=INDEX, groups=2))
    assert _parts.index_epsilon(parts) == pytest.approx(pure + 6 * INDEX.epsilon(8), rel=1e-12)
    rho = 100 * 10_000 * weak.zcdp(52) + 6 * INDEX.zcdp(8)
    assert _parts.index_zcdp_rho(parts) == pytest.approx(rho, rel=1e-12)


def test_pure_epsilon_of_the_index_sets_of_a_step() -> None:
    one = JointStep(
        noise_multiplier=1.0, sampling_rate=0.02, mechanism=SubsetMallows(256, 26, theta=1e-3), groups=10, count=5
    )
    assert one.index_epsilon == pytest.approx(10 * 1e-3 * 52)


# --- masks ----------------------------------------------------------------------------------------------------------------
def test_a_secret_mask_costs_less_and_its_bounds_hold_for_one_entry() -> None:
    """Lower bound: with one entry each step reveals it with chance k; a single step in closed form."""
    mask = FreshMask(dim=100, keep=25)
    one = Composition([MaskedStep(noise_multiplier=0.8, sampling_rate=0.3, mask=mask, count=1)]).delta(0.1)
    alone = Composition([step(0.8, 0.3, 1)]).delta(0.1)
    assert one.lower == pytest.approx(0.25 * alone.lower, rel=5e-3)
    assert one.lower <= 0.25 * alone.upper <= one.upper <= alone.upper
    many = Composition(
        [
            MaskedStep(noise_multiplier=1.0, sampling_rate=0.02, mask=FreshMask(dim=100, keep=5), count=100),
            step(1.0, 0.02, 5),
        ]
    )
    found, plain = many.epsilon(1e-5), Composition([step(1.0, 0.02, 105)]).epsilon(1e-5)
    assert 0 < found.lower < found.upper < plain.lower


def test_masks_and_index_sets_that_hide_or_say_nothing_are_not_there() -> None:
    values = Composition([step(1.0, 0.02, 50)])
    whole = MaskedStep(noise_multiplier=1.0, sampling_rate=0.02, mask=FreshMask(dim=10, keep=10), count=50)
    nothing = MaskedStep(noise_multiplier=1.0, sampling_rate=0.02, mask=FreshMask(dim=10, keep=0), count=50)
    uniform = JointStep(noise_multiplier=1.0, sampling_rate=0.02, mechanism=SubsetMallows(12, 4, theta=0.0), count=50)
    for parts in ([whole], [step(1.0, 0.02, 50), nothing], [uniform]):
        assert Composition(parts).epsilon(1e-5) == values.epsilon(1e-5)
    assert Composition([nothing]).epsilon(1e-5).upper == 0.0
    assert Composition([nothing]).tradeoff(0.1).lower == pytest.approx(0.9)


# --- what is refused ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Composition([]), "parts"),
        (lambda: Composition(step(1.0, 0.1, 1)), "parts"),  # type: ignore[arg-type]
        (lambda: Composition([step(1.0, 0.1, 1)], adjacency="zero-out"), "adjacency"),  # type: ignore[arg-type]
        (
            lambda: Composition([IndexSteps(steps=1, mechanism=INDEX)], adjacency="replace-one"),
            "adjacency 'replace-one'",
        ),
        (lambda: step(0.0, 0.1, 1), "noise_multiplier"),
        (lambda: step(1.0, 0.0, 1), "sampling_rate"),
        (lambda: step(1.0, 0.1, 0), "count"),
        (lambda: GAUSSIAN.epsilon(0.0), "delta"),
        (lambda: GAUSSIAN.delta(-1.0), "epsilon"),
        (lambda: GAUSSIAN.tradeoff(1.5), "false_positive_rate"),
        (lambda: GAUSSIAN.guaranteed([0.5, 2.0]), "false_positive_rates"),
        (lambda: GAUSSIAN.plot(ax=3), "ax"),  # type: ignore[arg-type]
    ],
)
def test_what_it_refuses(make: Callable[[], object], message: str) -> None:
    with refused(*message.split()):
        make()


def test_index_sets_of_many_sizes_are_added_up_where_a_grid_would_take_long() -> None:
    """A schedule that changes K at every step: as many laws as steps, each too small to matter."""
    laws = [SubsetMallows(64, 8 + kept, theta=1e-9) for kept in range(40)]
    parts = [JointStep(noise_multiplier=1.3, sampling_rate=0.05, mechanism=law, groups=10, count=1) for law in laws]
    found, values = Composition(parts).epsilon(1e-5), Composition([step(1.3, 0.05, 40)]).epsilon(1e-5)
    assert "grid" not in found.method and values.lower <= found.lower <= values.upper
    assert values.upper <= found.upper <= values.upper + 2 * 40 * 10 * 32 * 1e-9
    rough = [
        JointStep(
            noise_multiplier=1.3,
            sampling_rate=0.05,
            mechanism=SubsetMallows(64, 8 + kept, theta=0.01),
            groups=10,
            count=1,
        )
        for kept in range(40)
    ]
    assert "grid" not in Composition(rough).delta(0.5).method


def test_a_grid_made_for_another_delta_still_bounds_from_above() -> None:
    parts = (JointStep(noise_multiplier=1.3, sampling_rate=0.05, mechanism=INDEX, groups=1, count=23),)
    for direction, epsilon in (("remove", 1.1), ("add", 0.8)):
        exact = methods.delta_in(parts, direction, epsilon)
        for delta in (1e-2, 1e-5, 1e-9):
            bound = grid_upper(parts, direction, epsilon, delta)
            assert exact.lower <= bound < 1
            if exact.lower > delta / 10:
                assert bound <= 1.05 * exact.upper


# --- Compositions from files, against the same ones written in Python ---


TEXT = """
adjacency = "add-remove"
[[step]]
noise_multiplier = 2.0
sampling_rate = 0.04
count = 500
[[step]]
noise_multiplier = 1.0
sampling_rate = 0.02
count = 400
[[joint_step]]
noise_multiplier = 3.0
sampling_rate = 0.5
count = 2
dim = 12
keep = 4
theta = 0.05
groups = 3
[[masked_step]]
noise_multiplier = 4.0
sampling_rate = 0.25
count = 7
dim = 10
keep = 3
[[index_steps]]
steps = 6
dim = 9
keep = 5
theta = 0.5
"""


@pytest.mark.parametrize(("epochs", "steps"), [(1, 4), (2.5, 10), (0.1, 1), (30 * 0.1, 12)])
def test_steps_of_passes(epochs: float, steps: int) -> None:
    one = Step.of_epochs(noise_multiplier=2.0, train_size=1000, batch_size=300, epochs=epochs)
    assert one == Step(noise_multiplier=2.0, sampling_rate=0.3, count=steps)


def test_steps_of_passes_bound_those_of_a_loader_that_draws_with_one_over_its_length() -> None:
    """Opacus's: its rate is smaller, its steps are as many."""
    ours = Composition((Step.of_epochs(noise_multiplier=1.0, train_size=1000, batch_size=300, epochs=3),))
    theirs = Composition((Step(noise_multiplier=1.0, sampling_rate=1 / 4, count=12),))
    assert ours.epsilon(1e-5).lower > theirs.epsilon(1e-5).upper


@pytest.mark.parametrize(
    "change",
    [
        {"train_size": 0},
        {"batch_size": 0},
        {"batch_size": 1001},
        {"epochs": 0.0},
        {"epochs": math.nan},
        {"noise_multiplier": 0.0},
    ],
)
def test_steps_of_passes_refuse(change: dict[str, float]) -> None:
    good = {"noise_multiplier": 2.0, "train_size": 1000, "batch_size": 300, "epochs": 2.0}
    with refused(next(iter(change))):
        Step.of_epochs(**(good | change))  # type: ignore[arg-type]


def test_every_kind_of_steps() -> None:
    expected = Composition(
        (
            Step(noise_multiplier=2.0, sampling_rate=0.04, count=500),
            Step(noise_multiplier=1.0, sampling_rate=0.02, count=400),
            JointStep(
                noise_multiplier=3.0, sampling_rate=0.5, mechanism=SubsetMallows(12, 4, theta=0.05), groups=3, count=2
            ),
            MaskedStep(noise_multiplier=4.0, sampling_rate=0.25, mask=FreshMask(dim=10, keep=3), count=7),
            IndexSteps(steps=6, mechanism=SubsetMallows(9, 5, theta=0.5)),
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        toml, plain, other = (Path(folder, name) for name in ("run.toml", "run.json", "other.json"))
        toml.write_text(TEXT)
        plain.write_text(json.dumps(tomllib.loads(TEXT)))
        other.write_text(json.dumps({"adjacency": "replace-one", "step": tomllib.loads(TEXT)["step"]}))
        assert read_composition(toml) == read_composition(str(plain)) == expected
        assert read_composition(other) == Composition(expected.parts[:2], adjacency="replace-one")


def test_what_is_no_composition_is_refused(tmp_path: Path) -> None:
    file, step = tmp_path / "run.json", {"noise_multiplier": 1.0, "sampling_rate": 0.5, "count": 1}
    for plain, *shown in (
        (3,),
        ({}, "masked_step", "none"),
        ({"steps": [step]}, "steps"),
        ({"step": step}, "[[step]]"),
        ({"step": [step | {"rate": 1}]}, "rate", "noise_multiplier"),
        ({"step": [{"count": 1}]}, "noise_multiplier", "sampling_rate"),
        ({"step": [step | {"count": 0}]}, "count", "1..10"),
        ({"adjacency": "replace-one", "masked_step": [step | {"dim": 3, "keep": 1}]}, "adjacency", "'add-remove'"),
        ({"joint_step": [step | {"dim": 3, "keep": 1, "theta": -1}]}, "theta", "-1"),
    ):
        file.write_text(json.dumps(plain))
        with refused("path", file, *shown):
            read_composition(file)
    for text in ("{", "[" * 10**5):
        file.write_text(text)
        with refused("path", file):
            read_composition(file)
    (tmp_path / "run.toml").write_text("step = ")
    with refused("path", "run.toml"):
        read_composition(tmp_path / "run.toml")


# --- The factor on the noise of a schedule that keeps a budget, in closed form and by the bounds themselves ---


MASK = FreshMask(dim=10, keep=3)
FAINT, LOUD = SubsetMallows(12, 4, theta=1e-9), SubsetMallows(12, 4, theta=5.0)


def test_unsampled_schedules_by_the_closed_form() -> None:
    """Releases of noise sigma_i are one of mu = sqrt(sum 1 / sigma_i^2); a record that is replaced changes twice as much."""
    mixed, mu = [step(2.0, 1.0, 3), step(1.0, 1.0, 1)], math.sqrt(3 / 4 + 1)
    for epsilon, delta in ((1.0, 1e-5), (0.01, 1e-10), (20.0, 0.3)):
        factor = Composition(mixed).noise_scale(epsilon=epsilon, delta=delta)
        least = mu / gaussian_mu(epsilon, delta)
        assert least <= factor <= least * (1 + 1e-6)
    replaced = Composition(mixed, adjacency="replace-one").noise_scale(epsilon=20.0, delta=0.3)
    assert replaced == pytest.approx(2 * factor, rel=2e-6)


@pytest.mark.parametrize(
    "run",
    [
        Composition([step(2.0, 0.04, 50), step(1.0, 0.02, 50)]),
        Composition([step(2.0, 0.04, 50), step(1.0, 0.02, 50)], adjacency="replace-one"),
        Composition([JointStep(noise_multiplier=1.0, sampling_rate=0.2, mechanism=FAINT, count=20)]),
    ],
    ids=["values", "replaced", "index sets"],
)
def test_the_budget_is_kept_and_with_less_noise_it_is_not(run: Composition) -> None:
    factor = run.noise_scale(epsilon=1.0, delta=1e-5)
    assert run.scaled(factor).epsilon(1e-5).upper <= 1.0
    assert run.scaled(factor * (1 - 1e-6)).epsilon(1e-5).upper > 1.0


def test_masks_ask_for_the_noise_of_their_renyi_curve() -> None:
    mask = FreshMask(dim=10, keep=1)
    masked = MaskedStep(noise_multiplier=1.0, sampling_rate=0.02, mask=mask, count=100)
    factor = Composition([masked, step(1.0, 0.02, 5)]).noise_scale(epsilon=1.0, delta=1e-5)

    def spent(sigma: float) -> float:
        run = {"orders": ORDERS, "sampling_rate": 0.02, "noise_multiplier": sigma}
        curve = mask.rdp(**run, steps=100) + 5 * subsampled_gaussian_rdp(**run)  # type: ignore[arg-type]
        return epsilon_from_rdp(orders=ORDERS, rdp=curve, delta=1e-5)

    assert spent(factor) <= 1.0 < spent(factor * (1 - 1e-6))


def test_more_kinds_of_steps_than_the_integral_takes() -> None:
    """They are binned: the budget is kept, by a little more noise than needed."""
    kinds = [step(1 + 1e-5 * k, 0.02, 5) for k in range(20)]
    factor = Composition(kinds).noise_scale(epsilon=1.0, delta=1e-5)
    alike = Composition([step(1.0, 0.02, 100)]).noise_scale(epsilon=1.0, delta=1e-5)
    assert Composition(kinds).scaled(factor).epsilon(1e-5).upper <= 1.0
    assert alike * (1 - 3e-4) <= factor <= alike * (1 + 1e-5)


def test_where_delta_covers_the_chance_to_take_part_any_noise_will_do() -> None:
    run = Composition([step(0.5, 1e-3, 5), step(2.0, 1e-3, 1)])
    assert run.noise_scale(epsilon=1e-3, delta=0.01) == pytest.approx(2e-15)
    assert run.scaled(2e-15).epsilon(0.01).upper == 0.0


def test_every_field_of_a_scaled_run() -> None:
    law = SubsetMallows(9, 5, theta=0.5)
    run = Composition(
        [
            step(2.0, 0.5, 3), MaskedStep(noise_multiplier=3.0, sampling_rate=0.25, mask=MASK, count=4),
            JointStep(noise_multiplier=5.0, sampling_rate=0.125, mechanism=FAINT, groups=2, count=6),
            IndexSteps(steps=7, mechanism=law, groups=8),
        ]
    )  # fmt: skip
    assert run.scaled(0.5) == Composition(
        [
            step(1.0, 0.5, 3), MaskedStep(noise_multiplier=1.5, sampling_rate=0.25, mask=MASK, count=4),
            JointStep(noise_multiplier=2.5, sampling_rate=0.125, mechanism=FAINT, groups=2, count=6),
            IndexSteps(steps=7, mechanism=law, groups=8),
        ]
    )  # fmt: skip
    assert Composition([step(2.0, 0.5, 3)], adjacency="replace-one").scaled(2.0).adjacency == "replace-one"


def test_budgets_that_no_noise_keeps() -> None:
    index = IndexSteps(steps=3, mechanism=LOUD)
    with refused("parts"):
        Composition([index]).noise_scale(epsilon=1.0, delta=1e-5)
    with refused("epsilon", 1.0):
        Composition([index, step(1.0, 1.0, 1)]).noise_scale(epsilon=1.0, delta=1e-5)


# --- The noise of a training beside what the same records spent: in closed form, and against the composition itself
# ---


def made(noise: float, rate: float, count: int, **more: str) -> Composition:
    return Composition((Step(noise_multiplier=noise, sampling_rate=rate, count=count),), **more)  # type: ignore[arg-type]


def test_unsampled_by_the_closed_form() -> None:
    """mu^2 adds up: what is left of the budget's is that of the training."""
    for epsilon, delta, spent, steps in ((1.0, 1e-5, 20.0, 3), (3.0, 1e-6, 2.3, 1), (8.0, 1e-3, 100.0, 50)):
        left = gaussian_mu(epsilon, delta) ** 2 - 2 / spent**2
        found = least_noise_beside(
            spent=made(spent, 1.0, 2), epsilon=epsilon, delta=delta, sampling_rate=1.0, steps=steps
        )
        least = math.sqrt(steps / left)
        assert least * (1 - 1e-9) <= found <= least * (1 + 2e-6)
    replaced = least_noise_beside(
        spent=made(200.0, 1.0, 2, adjacency="replace-one"), epsilon=8.0, delta=1e-3, sampling_rate=1.0, steps=50
    )
    assert replaced == pytest.approx(2 * found, rel=3e-6)


def test_the_budget_is_kept_and_with_less_noise_it_is_not_of_budgets() -> None:
    spent, run = made(10.0, 1.0, 2), {"sampling_rate": 0.05, "steps": 200}
    found = least_noise_beside(spent=spent, epsilon=2.0, delta=1e-5, sampling_rate=0.05, steps=200)

    def epsilon(sigma: float) -> float:
        more = Step(noise_multiplier=sigma, sampling_rate=0.05, count=200)
        return Composition((*spent.parts, more)).epsilon(1e-5).upper

    assert epsilon(found) <= 2.0 < epsilon(found * (1 - 2e-6))
    assert found > 1.01 * least_noise_multiplier(epsilon=2.0, delta=1e-5, **run)  # type: ignore[arg-type]


def test_what_nothing_was_spent_of_costs_nothing() -> None:
    found = least_noise_beside(spent=made(1e9, 1.0, 1), epsilon=2.0, delta=1e-5, sampling_rate=1.0, steps=4)
    assert found == pytest.approx(least_noise_multiplier(epsilon=2.0, delta=1e-5, sampling_rate=1.0, steps=4), rel=2e-6)


def test_what_delta_covers_asks_for_the_least_noise() -> None:
    spent = made(1.0, 1e-6, 3)
    assert least_noise_beside(spent=spent, epsilon=1.0, delta=1e-5, sampling_rate=1e-6, steps=1) == 0.05


def test_a_budget_that_is_spent_is_refused() -> None:
    spent = made(4.0, 1.0, 2)
    whole = gaussian_epsilon(math.sqrt(2) / 4, 1e-5)
    with refused("epsilon"):
        least_noise_beside(spent=spent, epsilon=1.3, delta=1e-5, sampling_rate=0.1, steps=10)
    with refused("epsilon", "1000"):
        least_noise_beside(spent=spent, epsilon=whole + 1e-7, delta=1e-5, sampling_rate=1.0, steps=10)
