"""The saddle line: brackets, their parts, and balls."""

import dataclasses
import math
import random
import sys
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from flint import acb, arb, ctx
from scipy.special import ndtr
from scipy.stats import norm

from dptheory import privacy
from dptheory.privacy import (
    Composition,
    FreshMask,
    MaskedStep,
    ProbabilityBounds,
    _noise_scale,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    least_noise_multiplier,
    privacy_statement,
)
from dptheory.privacy import epsilon as methods
from dptheory.privacy._bounds import Direction, Unresolved
from dptheory.privacy._parts import Step, Steps
from dptheory.privacy.methods import _many_kinds
from dptheory.privacy.methods._sampled_loss import Loss, Reals, StepLoss, log_cut, log_mixture, losses, real_moments
from dptheory.privacy.methods.lattice._method import RareSteps
from dptheory.privacy.methods.references._cross_check import pld_bracket
from dptheory.privacy.methods.saddle import _brackets
from dptheory.privacy.methods.saddle import _line as _saddle_line
from dptheory.privacy.methods.saddle._brackets import (
    Chernoff,
    Lines,
    SaddleLine,
    about_log_delta,
    closed_bounds,
    lines_near,
    whole_line,
    without_lines,
)
from dptheory.privacy.methods.saddle._enclosure import BallLine, _line, worst_delta, worst_epsilon
from dptheory.privacy.methods.saddle._line import (
    Difference,
    Line,
    Losses,
    MomentRule,
    Product,
    cut,
    envelope,
    law,
    line_at,
    line_of,
    moment_rule,
    output,
    saddle_at,
    split,
    step_losses,
    total_of,
    widest_shift,
)
from tests.refused import refused

# --- Brackets of delta, epsilon and the noise: against witnesses, closed forms and each other ---


BOTH: tuple[Direction, ...] = ("remove", "add")


def direction_delta(steps: Steps, *, epsilon: float, direction: Direction) -> tuple[float, float]:
    return SaddleLine().delta(steps, direction, epsilon)[:2]


def direction_epsilon(steps: Steps, *, delta: float, direction: Direction) -> tuple[float, float]:
    found = SaddleLine().epsilon(steps, direction, delta)
    assert found.settled
    return found.lower, found.upper


def delta_bracket(steps: Steps, *, epsilon: float, among: tuple[Direction, ...] = BOTH) -> tuple[float, float]:
    found = [direction_delta(steps, epsilon=epsilon, direction=one) for one in among]
    return max(low for low, _ in found), max(high for _, high in found)


def epsilon_bracket(steps: Steps, *, delta: float) -> tuple[float, float]:
    found = [direction_epsilon(steps, delta=delta, direction=one) for one in BOTH]
    return max(low for low, _ in found), max(high for _, high in found)


def one(noise: float, rate: float, count: int) -> Steps:
    return (Step(noise_multiplier=noise, sampling_rate=rate, count=count),)


@pytest.mark.parametrize(
    ("noise", "rate", "count", "delta", "known"),
    [
        (1.0, 0.02, 1000, 1e-5, 3.8990879942),  # both first found in balls of 96 bits by another program
        (2.0, 0.01, 100_000, 1e-10, 11.78147585296),
    ],
)
def test_known_values(noise: float, rate: float, count: int, delta: float, known: float) -> None:
    low, high = epsilon_bracket(one(noise, rate, count), delta=delta)
    assert low - 1e-10 <= known <= high + 1e-10
    assert high - low < 2e-10


def test_dp_accounting_agrees() -> None:
    low, high = epsilon_bracket(one(1.0, 0.02, 300), delta=1e-6)
    below, above = pld_bracket(Loss("remove", 1.0, 0.02), 300, 1e-6)
    assert below <= high and low <= above
    assert above - below < 0.15 * high  # as wide as it is at its default grid


def test_without_sampling_it_is_the_gaussian() -> None:
    low, high = epsilon_bracket(one(2.0, 1.0, 10), delta=1e-10)
    assert low <= gaussian_epsilon(math.sqrt(10) / 2, 1e-10) <= high < low + 1e-8
    low, high = delta_bracket(one(2.0, 1.0, 10), epsilon=3.0, among=("replace",))
    assert low <= gaussian_delta(math.sqrt(10), 3.0) <= high < low * (1 + 1e-8)


def test_a_rate_near_one_is_near_the_gaussian() -> None:
    """The integral where the closed form does not apply."""
    low, high = delta_bracket(one(3.0, 1 - 1e-12, 100), epsilon=8.0)
    assert high - low < 1e-9 * high
    assert low == pytest.approx(gaussian_delta(10 / 3, 8.0), rel=1e-8)


def test_epsilon_is_the_inverse_of_delta() -> None:
    low, high = direction_epsilon(one(0.9, 0.01, 5000), delta=1e-8, direction="add")
    assert direction_delta(one(0.9, 0.01, 5000), epsilon=low, direction="add")[1] >= 1e-8
    assert direction_delta(one(0.9, 0.01, 5000), epsilon=high, direction="add")[0] <= 1e-8
    assert 0 < high - low < 1e-9 * high


def test_steps_that_differ_lie_between_steps_that_do_not() -> None:
    mixed = one(1.0, 0.02, 500) + one(2.0, 0.01, 500)
    assert (
        epsilon_bracket(one(2.0, 0.01, 1000), delta=1e-6)[1]
        < epsilon_bracket(mixed, delta=1e-6)[0]
        < epsilon_bracket(one(1.0, 0.02, 1000), delta=1e-6)[0]
    )
    split = one(1.0, 0.02, 300) + one(1.0, 0.02, 700)
    assert epsilon_bracket(split, delta=1e-6) == pytest.approx(
        epsilon_bracket(one(1.0, 0.02, 1000), delta=1e-6), rel=1e-10
    )


def test_the_larger_direction_counts() -> None:
    both = epsilon_bracket(one(1.0, 0.3, 100), delta=1e-6)
    each = [direction_epsilon(one(1.0, 0.3, 100), delta=1e-6, direction=d) for d in ("remove", "add")]  # type: ignore[arg-type]
    assert both == max(each) and max(each)[0] > min(each)[1]


def test_epsilon_is_zero_where_delta_covers_the_distance() -> None:
    assert epsilon_bracket(one(10.0, 1e-3, 100), delta=0.05) == (0.0, 0.0)


def test_beyond_the_largest_loss_delta_is_zero() -> None:
    assert direction_delta(one(0.5, 0.01, 10), epsilon=0.2, direction="add") == (0.0, 0.0)


def least_noise(rate: float, count: int, epsilon: float, delta: float) -> float:
    return least_noise_multiplier(sampling_rate=rate, steps=count, epsilon=epsilon, delta=delta)


def test_the_least_noise() -> None:
    found = least_noise(0.02, 2000, 3.0, 1e-5)
    assert 1.4514858 - 5e-8 < found < 1.4514858 + 1.5e-6
    for noise, fits in ((found, True), (found * (1 - 1e-6), False)):
        assert (epsilon_bracket(one(noise, 0.02, 2000), delta=1e-5)[1] <= 3.0) is fits


def test_unsampled_noise_is_that_of_the_closed_form() -> None:
    assert 1.0 <= least_noise(1.0, 1, 1.0, 1e-6) * gaussian_mu(1.0, 1e-6) <= 1 + 1e-6


def test_what_it_cannot_do_is_not_settled() -> None:
    assert SaddleLine(1e-16).delta(one(1.0, 0.02, 100), "remove", 1.0).settled is False


@pytest.mark.parametrize(
    ("setting", "delta", "direction"),
    [
        ((1.0, 1e-6, 1), 1e-5, "remove"),  # delta covers the whole step
        ((1.0, 0.5, 1), 1e-5, "add"),  # no loss is above log 2
    ],
)
def test_a_search_for_the_noise_ends_where_any_will_do(
    setting: tuple[float, float, int], delta: float, direction: Direction
) -> None:
    assert _noise_scale.least_scale(one(*setting), (direction,), epsilon=1.0, delta=delta) < 0.0251


def test_of_lines_as_wide_the_lower_one_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two brackets from 0 on are equally wide, relative to their ends."""
    found = {"whole": Chernoff(1.0, 5.0), "long": Chernoff(1.0, -100.0)}
    monkeypatch.setattr(_brackets, "maker_of", lambda way: lambda steps, epsilon: Lines(epsilon, (found[way],)))
    low, high = lines_near(step_losses(one(1.0, 1e-3, 10), "add"), 1.0).delta_bracket(1.0)
    assert low == 0.0 and high == pytest.approx(math.exp(-101), rel=1e-9, abs=0.0)


def test_bounds_of_delta_that_need_no_line() -> None:
    run = one(1.0, 1e-3, 10**6)
    steps = step_losses(run, "remove")
    assert 0.0 < without_lines(steps, 500.0) < 1e-200  # mu is about 1.3: epsilon is some 380 standard deviations off
    for epsilon in (0.5, 3.0, 6.0):
        assert without_lines(steps, epsilon) >= SaddleLine().delta(run, "remove", epsilon).lower
    assert closed_bounds(step_losses(one(1.0, 1e-4, 100), "add"), 1000.0) == (0.0, 0.0)


def drawn(rng: random.Random) -> tuple[Steps, float, Direction]:
    """A setting of the core: noise .4 to 20, rate 1e-4 to 1, 100 to 10^6 steps, delta 1e-15 to .1."""
    setting = one(
        math.exp(rng.uniform(math.log(0.4), math.log(20))), 10 ** rng.uniform(-4, 0), int(10 ** rng.uniform(2, 6))
    )
    return setting, 10 ** rng.uniform(-15, -1), rng.choice(["remove", "add", "replace"])


def test_rare_extreme_outputs_deep_in_the_tail() -> None:
    """Settings whose brackets were wide, or took a minute."""
    known = [  # (noise, rate, steps, delta, direction), and epsilon as another split of the law gives it
        ((1.0, 1e-8, 1000, 1e-30, "remove"), 0.00043758720073),
        ((1.043, 0.000121, 944, 1e-14, "replace"), 0.157806489534686),  # in ball arithmetic
    ]
    for (noise, rate, count, delta, direction), epsilon in known:
        low, high = direction_epsilon(one(noise, rate, count), delta=delta, direction=direction)  # type: ignore[arg-type]
        assert low * (1 - 1e-10) <= epsilon <= high * (1 + 1e-10) and high - low < 1e-7 * high


def test_a_search_for_the_noise_that_starts_at_an_atom_asks_for_few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the loss is nearly an atom |M| hardly decays, and lower lines took 2 million nodes each, dozens of times."""
    sizes = []

    def counted(*arguments: object, **named: object) -> object:
        rule = moment_rule(*arguments, **named)  # type: ignore[arg-type]
        sizes.append(rule.losses.size)
        return rule

    monkeypatch.setattr(_saddle_line, "moment_rule", counted)
    assert least_noise(0.02, 1000, 1.0, 0.5) == pytest.approx(0.594002, abs=1e-6)
    assert max(sizes) < 60_000 and sum(sizes) < 1_000_000


@pytest.mark.parametrize(
    ("setting", "direction", "known"),
    [
        pytest.param(  # known by convolution on a grid
            (0.5586231058759423, 3.7870455e-08, 6070, 1.3e-4), "replace", 1.00722e-8, marks=pytest.mark.slow
        ),
        # by the number of hits, whose losses are normal
        ((0.06210987181262595, 2.2466361437395362e-4, 240_331, 13_450.0), "remove", 6.483607e-12),
    ],
)
def test_corners_where_delta_was_not_known_are_narrow(
    setting: tuple[float, float, int, float], direction: Direction, known: float
) -> None:
    """Losses of many sizes (bands), and hits far apart whose moments decay slowly (more nodes)."""
    *step, epsilon = setting
    low, high = direction_delta(one(*step), epsilon=epsilon, direction=direction)  # type: ignore[arg-type]
    assert low * (1 - 3e-4) <= known <= high * (1 + 3e-4) and high - low <= 1e-4 * high


def test_the_least_noise_takes_few_brackets_of_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where delta is near 1 at little noise the search began there, and fell back on halving: 43 brackets."""
    asked = []

    def counted(self: SaddleLine, *arguments: object) -> object:
        asked.append(arguments)
        return unchanged(self, *arguments)  # type: ignore[arg-type]

    unchanged = SaddleLine.delta
    monkeypatch.setattr(SaddleLine, "delta", counted)
    many = []
    for epsilon, delta, rate, count in (
        (8.0, 1e-5, 256 / 60_000, 9375),
        (7.98, 2e-5, 0.001, 86_844),
        (0.05, 1e-7, 0.001, 300),
        (3.0, 1e-5, 0.02, 2000),
        (50.0, 1e-10, 0.3, 1000),
        (1.0, 0.01, 1e-4, 10**6),
    ):
        asked.clear()
        _noise_scale._by_delta(one(1.0, rate, count), BOTH, epsilon, delta, (0.05, 1000.0))
        many += [(epsilon, rate, len(asked))] * (len(asked) > 12)
    assert not many


def test_what_is_about_delta_falls_with_the_noise() -> None:
    found = [about_log_delta(one(sigma, 0.004, 9000), 8.0, "remove") for sigma in (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)]
    assert sorted(found, reverse=True) == found and found[0] > -1e-6


def test_few_steps_with_rare_large_losses_take_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that stopped where delta hardly changes made the widest lines twice: 19 and 18 of them."""
    made = []

    def counted(*arguments: object) -> Line:
        made.append(arguments)
        return line_of(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(_brackets, "line_of", counted)
    monkeypatch.setattr(_saddle_line, "line_of", counted)
    many = []
    for (noise, rate, count, delta), direction in (
        ((0.28415, 2.3388e-05, 2, 2.7602e-06), "replace"),
        ((0.26721, 1.4044e-06, 2, 1.3509e-08), "remove"),
        ((0.1, 3.6e-4, 315, 2.463e-06), "add"),
    ):
        made.clear()
        direction_epsilon(one(noise, rate, count), delta=delta, direction=direction)  # type: ignore[arg-type]
        many += [(noise, direction, len(made))] * (len(made) > 9)
    assert not many


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_brackets_meet_the_certified_ones(seed: int) -> None:
    from dptheory.privacy.methods.saddle import _enclosure

    setting, delta, direction = drawn(random.Random(seed))
    try:
        low, high = direction_epsilon(setting, delta=delta, direction=direction)
        certain = _enclosure._epsilon(setting, delta, direction)
    except Unresolved:
        return
    assert max(low, certain[0]) <= min(high, certain[1])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_one_step_over_the_whole_range(seed: int) -> None:
    rng = random.Random(seed)
    noise, rate = 10 ** rng.uniform(math.log10(0.05), 3), 10 ** rng.uniform(-8, 0)
    direction = rng.choice(["remove", "add", "replace"])
    loss = Loss(direction, noise, rate)
    epsilon = max(float(loss.at(loss.nodes()[0][[rng.randrange(500, 900)]])[0]), 0.0)
    exact = loss.delta(epsilon)
    if exact < 1e-30:
        return
    try:
        low, high = direction_delta(one(noise, rate, 1), epsilon=epsilon, direction=direction)
    except Unresolved as refused:
        low, high = refused.lower, refused.upper
    assert low <= exact * (1 + 1e-9) and exact * (1 - 1e-9) <= high


@pytest.mark.parametrize(
    ("noise", "rate", "epsilon"),
    [
        (0.05, 1 - 1e-12, 27.631042237893357), (0.5, 0.9, 2.3025840929940458), (0.1, 1 - 1e-13, 29.9327405271),
        (1.0, 1 - 1e-9, 20.7), (1.0, 0.01, 0.010050335), (3.0, 0.3, 0.2),
    ],
)  # fmt: skip
def test_one_step_near_the_largest_loss(noise: float, rate: float, epsilon: float) -> None:
    """Of "add" no loss exceeds log 1 / (1 - q); next to it the output at which it is reached cancels."""
    with mpmath.workdps(60):
        s, q, e = 1 / mpmath.mpf(noise), mpmath.mpf(rate), mpmath.mpf(epsilon)
        z = mpmath.log((mpmath.exp(-e) - (1 - q)) / q) / s + s / 2
        truth = mpmath.ncdf(z) - mpmath.exp(e) * ((1 - q) * mpmath.ncdf(z) + q * mpmath.ncdf(z - s))
    asked = {"noise_multiplier": noise, "sampling_rate": rate, "steps": 1, "direction": "add"}
    found = privacy.delta_bounds(epsilon=epsilon, **asked)
    assert found.lower <= float(truth) <= found.upper <= float(truth) * (1 + 1e-5)
    if truth >= 1e-30:
        spent = privacy.epsilon_bounds(delta=float(truth), **asked)
        assert spent.lower <= epsilon <= spent.upper <= epsilon * (1 + 1e-9)


# One line of the integral: the bracket holds the exact value, however coarse the line, and fails without any of its
# bounds


def steps(noise: float, rate: float, count: int, direction: Direction) -> Losses:
    return (StepLoss(noise_multiplier=noise, sampling_rate=rate, count=count, direction=direction),)


def line(noise: float, rate: float, count: int, direction: Direction, epsilon: float) -> Line:
    kept = cut(steps(noise, rate, count, direction), -20.0)
    return line_at(law(kept), saddle_at(total_of(kept), epsilon))


def two_steps(noise: float, rate: float, epsilon: float) -> float:
    """delta of two steps of "remove": E[delta of one step at epsilon - L] over the first step's loss."""
    t = 1 / noise
    z = np.arange(-24000, 28000) * 5e-4
    loss = np.log1p(rate * np.expm1(t * z - t * t / 2))
    weights = np.exp(loss - z**2 / 2) * (5e-4 / math.sqrt(2 * math.pi))
    rest = epsilon - loss
    last = rest <= math.log1p(-rate)  # below the least loss delta is 1 - exp(epsilon)
    output = (np.log(np.expm1(np.where(last, 0.0, rest)) / rate + 1) + t * t / 2) / t
    delta = (1 - rate) * ndtr(-output) + rate * ndtr(t - output) - np.exp(rest) * ndtr(-output)
    return math.fsum(weights * np.where(last, -np.expm1(rest), delta))


@pytest.mark.parametrize(("direction", "epsilon"), [("remove", 0.5), ("add", 0.1), ("replace", 1.0)])
def test_one_step_is_that_of_the_integral_over_outputs(direction: Direction, epsilon: float) -> None:
    low, high = line(1.0, 0.2, 1, direction, epsilon).delta_bracket(epsilon)
    exact = Loss(direction, 1.0, 0.2).delta(epsilon)
    assert low <= exact * (1 + 1e-12) and exact * (1 - 1e-12) <= high
    assert high - low < 1e-6 * high


def test_two_steps() -> None:
    low, high = line(0.7, 0.2, 2, "remove", 2.0).delta_bracket(2.0)
    exact = two_steps(0.7, 0.2, 2.0)
    assert low <= exact * (1 + 1e-10) and exact * (1 - 1e-10) <= high
    assert high - low < 1e-6 * high


def test_most_of_the_mass_is_told_from_one() -> None:
    """c < 0: 1 - delta is the small number. At epsilon = 0 the two directions agree."""
    found = {d: line(0.6, 0.5, 200, d, 0.0) for d in ("remove", "add")}  # type: ignore[arg-type]
    assert all(one.c < 0 for one in found.values())
    brackets = [one.delta_bracket(0.0) for one in found.values()]
    assert max(low for low, _ in brackets) <= min(high for _, high in brackets)
    assert all(high - low < 1e-12 for low, high in brackets)


EXACT = (1.0, 0.02, 1000, "remove", 2.0)


@pytest.fixture(scope="module")
def exact() -> float:
    low, high = line(*EXACT).delta_bracket(2.0)  # type: ignore[arg-type]
    assert high - low < 1e-10 * high
    return (low + high) / 2


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> Line:
    monkeypatch.setattr(_saddle_line, "_LOG_WANTED", math.log(0.02))
    return line(*EXACT)  # type: ignore[arg-type]


def test_a_coarse_line_holds_it_too(coarse: Line, exact: float) -> None:
    low, high = coarse.delta_bracket(2.0)
    assert low < exact < high
    assert 1e-4 * exact < high - low < 0.5 * exact


def test_without_aliases_it_does_not(coarse: Line, exact: float) -> None:
    tight = dataclasses.replace(coarse, aliases=(), log_tail=-800.0)
    sparse = dataclasses.replace(tight, log_errors=0 * tight.log_errors)
    value = sparse.delta_bracket(2.0)
    assert not value[0] <= exact <= value[1]


def test_without_the_tail_it_does_not(exact: float) -> None:
    """Planted: half the nodes, and the tail of all."""
    full = line(*EXACT)  # type: ignore[arg-type]
    half = full.log_terms.size // 6
    short = dataclasses.replace(full, log_terms=full.log_terms[:half], log_errors=full.log_errors[:half])
    low, high = short.delta_bracket(2.0)
    assert not low <= exact <= high


def test_the_other_direction_is_another_number(exact: float) -> None:
    low, high = line(1.0, 0.02, 1000, "add", 2.0).delta_bracket(2.0)
    assert high < 0.9 * exact and high - low < 1e-9 * high


def test_smoothing_is_bracketed(exact: float) -> None:
    """With few nodes the line is smoothed: the bracket is wider, holds the value, and needs its width."""
    kept = cut(steps(1.0, 0.02, 1000, "remove"), -20.0)
    smooth = line_at(law(kept), saddle_at(total_of(kept), 2.0), 23)
    assert smooth.smoothing > 0
    low, high = smooth.delta_bracket(2.0)
    assert low < exact < high < 2 * exact
    without = dataclasses.replace(smooth, smoothing=0.0)  # planted: the nodes are smoothed, the bracket does not know
    assert not without.delta_bracket(2.0)[0] <= exact


def test_mixed_steps_are_the_product() -> None:
    parts = steps(1.0, 0.02, 500, "remove") + steps(1.0, 0.02, 500, "remove")
    kept = cut(parts, -20.0)
    low, high = line_at(law(kept), saddle_at(total_of(kept), 2.0)).delta_bracket(2.0)
    other = line(*EXACT).delta_bracket(2.0)  # type: ignore[arg-type]
    assert max(low, other[0]) <= min(high, other[1]) and high - low < 1e-9 * high


def test_far_from_its_saddle_a_line_says_nothing_wrong() -> None:
    found = line(*EXACT)  # type: ignore[arg-type]
    assert found.delta_bracket(2000.0)[0] <= 1e-300 or found.delta_bracket(2000.0) == (0.0, 1.0)
    low, high = found.delta_bracket(0.0)
    assert low <= line(1.0, 0.02, 1000, "remove", 0.0).delta_bracket(0.0)[1] <= high * (1 + 1e-6)


# --- The law of the losses split in two: runs without an extreme output, and the rest (saddle_line.md, step 11) ---


STEPS: Losses = (
    StepLoss(noise_multiplier=1.0, sampling_rate=0.02, count=600, direction="remove"),
    StepLoss(noise_multiplier=0.9, sampling_rate=0.01, count=400, direction="remove"),
)

EPSILON = 4.0


@pytest.fixture(scope="module")
def exact_of_measures() -> float:
    low, high = whole_line(STEPS, EPSILON).delta_bracket(EPSILON)
    assert high - low < 1e-9 * high
    return (low + high) / 2


def parts() -> tuple[Product, Difference]:
    return split(STEPS, [0.94 * output(step, EPSILON / 4) for step in STEPS])


def test_every_split_holds_what_the_whole_line_gives(exact_of_measures: float) -> None:
    found = [_brackets._split_lines(STEPS, EPSILON, *at).delta_bracket(EPSILON) for at in _brackets._SPLITS]
    assert [
        one
        for one in found
        if not one[0] <= exact_of_measures * (1 + 1e-12) or not one[1] >= exact_of_measures * (1 - 1e-12)
    ] == []
    assert min(high - low for low, high in found) < 1e-6 * exact_of_measures


def test_bands_add_up_to_what_the_whole_line_gives(exact_of_measures: float) -> None:
    lines = _brackets._band_lines(STEPS, EPSILON)
    low, high = lines.delta_bracket(EPSILON)
    assert len(lines.parts) > 2 and low <= exact_of_measures * (1 + 1e-12) and high >= exact_of_measures * (1 - 1e-12)
    assert high - low < 1e-6 * exact_of_measures


def test_without_either_part_it_does_not(exact_of_measures: float) -> None:
    """Planted: one part of the law is forgotten, or, in bands, any that matters."""
    for lines in (_brackets._split_lines(STEPS, EPSILON, 1, False), _brackets._band_lines(STEPS, EPSILON)):
        for part in lines.parts:
            if part.delta_bracket(EPSILON)[1] > 1e-5 * exact_of_measures:
                others = tuple(other for other in lines.parts if other is not part)
                low, high = Lines(EPSILON, others).delta_bracket(EPSILON)
                assert not low <= exact_of_measures <= high


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
    monkeypatch.setattr(_saddle_line, "_log_expm1", lambda x: np.log(np.asarray(x, dtype=np.complex128)))
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


# --- The step's loss at complex outputs, against mpmath ---


SETTINGS = [(1.0, 0.02), (0.4, 1e-4), (20.0, 0.9), (3.0, 1.0)]


def step(noise: float, rate: float, direction: Direction = "remove", count: int = 1) -> StepLoss:
    return StepLoss(noise_multiplier=noise, sampling_rate=rate, count=count, direction=direction)


@pytest.mark.parametrize(("noise", "rate"), SETTINGS)
def test_log_mixture_is_accurate_up_to_the_wall(noise: float, rate: float) -> None:
    y = math.pi / 2 * noise
    z = np.array(
        [complex(x, height) for x in (-30.0, -2.0, 0.01, 1.0, 9.0, 40.0) for height in (0.0, 0.3 * y, 0.999 * y)]
    )
    with mpmath.workdps(40):
        t = 1 / mpmath.mpf(noise)
        exact = [
            complex(mpmath.log(1 - mpmath.mpf(rate) + mpmath.mpf(rate) * mpmath.exp(t * mpmath.mpc(w) - t * t / 2)))
            for w in z
        ]
    np.testing.assert_allclose(log_mixture(step(noise, rate), z), exact, rtol=3e-14, atol=1e-16)


def reference(noise: float, rate: float, direction: Direction, s: complex) -> complex:
    """M(s) on the real line, so finely that the branch points at noise_multiplier pi add less than exp(-100)."""
    t = 1 / noise
    edge = 12 + (2 + abs(s)) * 2 * t
    z = np.arange(-round(edge / noise * 200), round(edge / noise * 200) + 1) * (noise / 200)

    def log_ratio(z: Reals) -> Reals:
        return np.asarray(np.logaddexp(math.log1p(-rate), math.log(rate) + t * z - t * t / 2))

    up, down = log_ratio(z), log_ratio(-z)
    loss, log_density = {"remove": (up, up), "add": (-down, 0 * up), "replace": (up - down, up)}[direction]
    return complex(np.exp(s * loss + log_density - z**2 / 2).sum() * (noise / 200) / math.sqrt(2 * math.pi))


@pytest.mark.parametrize("direction", ["remove", "add", "replace"])
def test_real_moments(direction: Direction) -> None:
    found = real_moments((step(0.8, 0.1, direction),), 1.7)
    assert found.value == pytest.approx(math.log(reference(0.8, 0.1, direction, 1.7).real), rel=1e-10)
    gap = [real_moments((step(0.8, 0.1, direction),), 1.7 + h).value for h in (-1e-4, 0.0, 1e-4)]
    assert found.slope == pytest.approx((gap[2] - gap[0]) / 2e-4, rel=1e-6)
    assert found.curvature == pytest.approx((gap[2] - 2 * gap[1] + gap[0]) / 1e-8, rel=1e-4)


def test_one_direction_mirrors_the_other() -> None:
    """M_add(s) = E[Lambda^-s] = M_remove(-1 - s)."""
    assert real_moments((step(1.0, 0.1, "add"),), 3.0).value != pytest.approx(
        real_moments((step(1.0, 0.1),), 3.0).value, rel=0.01
    )
    for s in (-0.3, -0.7):
        add, remove = real_moments((step(1.0, 0.1, "add"),), s), real_moments((step(1.0, 0.1),), -1 - s)
        assert add.value == pytest.approx(remove.value, rel=1e-9)


@pytest.mark.parametrize("direction", ["remove", "replace"])
def test_the_cut_takes_no_more_than_it_says(direction: Direction) -> None:
    whole = step(2.0, 0.3, direction, count=100)
    kept = whole.with_cut(math.log(1e-6))
    assert kept.count * math.exp(kept.log_cut_mass) == pytest.approx(1e-6, rel=1e-9)
    z = np.linspace(-12, 14, 4001)
    _, log_density = losses(whole, z.astype(complex))
    taken = (
        np.exp(log_density.real - z**2 / 2) / math.sqrt(2 * math.pi) * -np.expm1(log_cut(kept, z.astype(complex)).real)
    )
    lost = 100 * float(taken.sum()) * (z[1] - z[0])
    assert 1e-7 < lost < 1e-6  # the bound holds, and is not vacuous


def test_add_is_never_cut() -> None:
    assert step(1.0, 0.1, "add").with_cut(-30.0).cut == math.inf


# --- M(c + iu) by one rule: its error is within the bound, and the bound fails where the proof's conditions do ---


CASES = [(1.0, 0.02, "remove", 4.0), (0.4, 0.3, "add", 2.0), (2.0, 0.5, "replace", -0.4)]


@pytest.mark.parametrize(("noise", "rate", "direction", "c"), CASES)
@pytest.mark.parametrize("digits", [5.0, 30.0])
def test_the_error_is_within_its_bound(
    noise: float, rate: float, direction: Direction, c: float, digits: float
) -> None:
    one = step(noise, rate, direction)
    rule = moment_rule(one, c, widest_shift(one, c), digits=digits)
    moment = reference(noise, rate, direction, c).real
    assert abs(rule.log_moment - math.log(moment)) <= rule.moment_error < 3 * math.exp(-digits) + 1e-12
    for u in (0.7, 5.0, 80.0):
        found = complex(rule.weights @ np.exp(1j * u * rule.losses))
        assert abs(found - reference(noise, rate, direction, complex(c, u)) / moment) <= 2 * rule.error + 1e-13


def test_a_line_beyond_the_branch_points_breaks_the_bound() -> None:
    """Planted: the strip reaches |Im z| = 3.8 noise_multiplier, beyond the branch points at pi."""
    one = step(0.4, 0.3, "add")
    rule = moment_rule(one, 2.0, 1.9 * 0.4, digits=30.0)
    moment = reference(0.4, 0.3, "add", 2.0).real
    assert abs(rule.log_moment - math.log(moment)) > 2 * rule.moment_error


@pytest.mark.parametrize(("noise", "rate", "direction", "c"), CASES)
def test_the_modulus_never_exceeds_the_envelope(noise: float, rate: float, direction: Direction, c: float) -> None:
    one = step(noise, rate, direction)
    y = widest_shift(one, c)
    bound = envelope(one, c, 2 * y)
    rng = np.random.default_rng(0)
    for k in rng.integers(0, bound.edges.size - 1, 200):
        x = rng.uniform(bound.edges[k], bound.edges[k + 1])
        z = np.array([complex(x, 2 * y)])
        loss, log_density = losses(one, z)
        modulus = (log_density - z * z / 2 + c * loss).real[0] - 0.5 * math.log(2 * math.pi)
        assert modulus + math.log(bound.edges[k + 1] - bound.edges[k]) <= bound.log_cells[k] + 1e-9
        assert modulus + math.log(bound.edges[k + 1] - bound.edges[k]) >= bound.log_cells[k] - 60


@pytest.mark.parametrize(("noise", "rate", "direction", "c"), CASES)
def test_the_modulus_stays_below_the_decay(noise: float, rate: float, direction: Direction, c: float) -> None:
    one = step(noise, rate, direction)
    rule = moment_rule(one, c, widest_shift(one, c))
    lower = moment_rule(one, c, 0.3 * widest_shift(one, c))
    for u in (0.5, 3.0, 20.0):
        bound = min(rule.log_decay(u), lower.log_decay(u))
        largest = max(abs(complex(rule.weights @ np.exp(1j * v * rule.losses))) for v in np.linspace(u, 4 * u, 60))
        assert largest <= math.exp(bound) * (1 + 1e-12)
        assert u < 20.0 or bound < -0.01  # it says something


def test_the_decay_counts_the_rounding_of_the_terms_that_are_left() -> None:
    """Of two terms the one with all of the rounding does not fall."""
    none = np.zeros(2)
    terms, rounding = np.array([0.999, 0.001 + 0j]), np.array([0.0, 1e-3])
    rule = MomentRule(np.array([100j, 0j]), terms, 0.0, 0.0, 0.0, rounding, none)
    assert rule.log_decay(1.0) >= math.log(0.001 * 1.001)


# --- The enclosure in ball arithmetic ---


RUN = (Step(noise_multiplier=1.0, sampling_rate=0.02, count=1000),)


def test_it_lies_within_the_bracket_in_doubles() -> None:
    certain, bracket = worst_epsilon(RUN, delta=1e-5, among=BOTH), methods.epsilon_of(RUN, BOTH, 1e-5)
    assert bracket.lower <= certain[0] < certain[1] <= bracket.upper
    assert certain[1] - certain[0] < 1e-12
    # the interval of another program, in balls of 96 bits
    assert max(certain[0], 3.899087994199775) <= min(certain[1], 3.899087994200032)


@pytest.mark.parametrize("among", [BOTH, ("replace",)], ids=["add-remove", "replace-one"])
def test_mixed_steps(among: tuple[Direction, ...]) -> None:
    mixed = (*RUN, Step(noise_multiplier=2.0, sampling_rate=0.3, count=50))
    certain = worst_delta(mixed, epsilon=6.0, among=among)
    bracket = methods.delta_of(mixed, among, 6.0)
    assert bracket.lower <= certain[0] < certain[1] <= bracket.upper


def test_below_the_pole() -> None:
    """c < 0: nearly all the mass."""
    run = (Step(noise_multiplier=0.6, sampling_rate=0.5, count=200),)
    low, high = worst_delta(run, epsilon=20.0, among=BOTH)
    found = methods.delta_of(run, BOTH, 20.0)
    assert max(low, found.lower) <= min(high, found.upper) and high - low < 1e-11
    assert found.upper - found.lower < 1e-11


def test_the_moments_contain_what_arb_integrates() -> None:
    """M(c + iu) of "add" by Arb's own integration, which shares nothing with the rule."""
    line = _line(RUN, 2.0, "add")
    with ctx.workprec(100):
        t, q, k = arb(1), arb(0.02), 3
        s = line.points[k]

        def integrand(z: acb, _: bool) -> acb:
            return (-s * (1 - q + q * (-t * z - t * t / 2).exp()).log() - z * z / 2).exp()

        moment = acb.integral(integrand, -30, 30) / (2 * arb.pi()).sqrt()
        term = arb(line.plan.h) / arb.pi() * moment**1000
        assert line.terms[k].overlaps(term) or abs(line.terms[k] - term) < 1e-12 * abs(term)


@pytest.mark.parametrize("left_out", ["tail", "aliases"])
def test_each_bound_matters(left_out: str) -> None:
    """Planted: fewer nodes, or a coarser spacing, with the bound of the error left out."""
    whole = _line(RUN, 2.0, "remove")
    truth = whole.delta_bracket(2.0)
    if left_out == "tail":
        few = len(whole.terms) // 6
        broken = dataclasses.replace(whole, points=whole.points[:few], terms=whole.terms[:few])
    else:
        plan = dataclasses.replace(whole.plan, h=3 * whole.plan.h)
        terms = [3 * term for term in whole.terms[::3]]
        broken = BallLine(plan, whole.points[::3], terms, [], whole.tail, whole.density_tail, whole.left_out)
    low, high = broken.delta_bracket(2.0)
    assert high < truth[0] or truth[1] < low


@pytest.mark.parametrize(
    ("noise", "rate", "count"), [(0.3, 0.02, 1000), (1.0, 1e-5, 1000), (1.0, 0.02, 99), (1.0, 0.02, 2_000_000)]
)
def test_it_refuses_what_lies_outside(noise: float, rate: float, count: int) -> None:
    run = (Step(noise_multiplier=noise, sampling_rate=rate, count=count),)
    with pytest.raises(Unresolved, match="doubles holds"):
        worst_epsilon(run, delta=1e-5, among=BOTH)


# --- Compositions in ball arithmetic: against closed forms, and what is refused ---


UNSAMPLED = Composition([Step(noise_multiplier=15.0, sampling_rate=1.0, count=100)])
MU = math.sqrt(100) / 15


def _encloses(found: ProbabilityBounds, truth: float, width: float) -> bool:
    return (
        found.method == "certified"
        and found.lower <= truth * (1 + 1e-12)
        and truth * (1 - 1e-12) <= found.upper <= found.lower + width
    )


def test_unsampled_steps_enclosed() -> None:
    assert _encloses(UNSAMPLED.delta(1.0, certified=True), gaussian_delta(MU, 1.0), 1e-10)
    assert _encloses(UNSAMPLED.advantage(certified=True), 2 * norm.cdf(MU / 2) - 1, 1e-10)
    assert _encloses(UNSAMPLED.tradeoff(0.05, certified=True), norm.cdf(norm.ppf(0.95) - MU), 1e-7)
    found, truth = UNSAMPLED.epsilon(1e-5, certified=True), gaussian_epsilon(MU, 1e-5)
    assert found.lower <= truth * (1 + 1e-12) and truth * (1 - 1e-12) <= found.upper <= found.lower + 1e-9
    assert found.estimate == (found.lower + found.upper) / 2 and found.method == "certified"


def test_sampled_steps_agree_with_the_bounds_in_doubles() -> None:
    for adjacency in ("add-remove", "replace-one"):
        run = Composition(
            [Step(noise_multiplier=s, sampling_rate=0.2, count=50) for s in (2.0, 3.0)],
            adjacency=adjacency,  # type: ignore[arg-type]
        )
        known, found = run.epsilon(1e-5), run.epsilon(1e-5, certified=True)
        assert known.lower <= found.upper and found.lower <= known.upper and found.upper - found.lower <= 1e-9
        assert run.delta(found.upper, certified=True).lower <= 1e-5 <= run.delta(found.lower, certified=True).upper


def test_what_the_attacker_can_do_enclosed() -> None:
    found, known = UNSAMPLED.attack(certified=True), UNSAMPLED.attack()
    missed, advantage = UNSAMPLED.tradeoff(0.01, certified=True), UNSAMPLED.advantage(certified=True)
    assert (found.true_positive_rate_lower, found.true_positive_rate_upper) == (1 - missed.upper, 1 - missed.lower)
    assert (found.advantage_lower, found.advantage_upper) == (advantage.lower, advantage.upper)
    assert (found.false_positive_rate, found.replaced) == (known.false_positive_rate, known.replaced) == (0.01, False)


def test_the_factor_on_the_noise_keeps_the_budget_in_ball_arithmetic_too() -> None:
    factor, least = UNSAMPLED.noise_scale(epsilon=6.0, delta=1e-5, certified=True), MU / gaussian_mu(6.0, 1e-5)
    assert least <= factor <= least * (1 + 1e-6)
    assert UNSAMPLED.scaled(factor).epsilon(1e-5, certified=True).upper <= 6.0
    assert UNSAMPLED.scaled(factor).epsilon(1e-5).upper <= 6.0


def test_a_statement_of_enclosures() -> None:
    found, spent = (
        privacy_statement(composition=UNSAMPLED, delta=1e-5, public=("N",), software=("a 1",), certified=True),
        UNSAMPLED.epsilon(1e-5, certified=True),
    )
    assert (found.epsilon_lower, found.epsilon, found.epsilon_if_secure) == (spent.lower, spent.upper, spent.upper)
    assert found.accountant == "dptheory, certified; bounds of all steps together"
    assert found.attack == UNSAMPLED.attack(certified=True)
    known = privacy_statement(composition=UNSAMPLED, delta=1e-5, public=("N",), software=("a 1",))
    assert found.public == ("N",) and found.software == ("a 1",)
    same = ("mechanism", "unit", "adjacency", "output", "covered", "public", "sampler", "composition", "steps", "delta",
            "randomness", "secure", "tuning", "software")  # fmt: skip
    assert [getattr(found, name) for name in same] == [getattr(known, name) for name in same]


def test_what_has_no_enclosure_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    masked = MaskedStep(noise_multiplier=1.0, sampling_rate=0.02, mask=FreshMask(dim=10, keep=3), count=100)
    with refused("certified"):
        Composition([masked]).epsilon(1e-5, certified=True)
    few = Composition([Step(noise_multiplier=1.0, sampling_rate=0.02, count=3)])
    with refused("certified"):
        few.epsilon(1e-5, certified=True)
    monkeypatch.setitem(sys.modules, "flint", None)
    monkeypatch.delitem(sys.modules, "dptheory.privacy.methods.saddle._enclosure", raising=False)
    monkeypatch.delattr("dptheory.privacy.methods.saddle._enclosure", raising=False)
    with refused("certified"):
        few.delta(1.0, certified=True)


@pytest.mark.parametrize(
    ("noise", "rate", "count", "delta", "most"),
    [
        (0.05410577032621901, 0.0006953359215246208, 115_650, 6.937920898176334e-14, 2.5e9),
        (0.0778597, 1.9119e-07, 2019, 5.2250161e-30, 8e8),
        (2.4681450894936874, 9.778750270880004e-08, 2368, 1.5245485167673874e-30, 3e8),
    ],
)
def test_slow_settings_of_the_whole_law_need_few_products(
    monkeypatch: pytest.MonkeyPatch, noise: float, rate: float, count: int, delta: float, most: float
) -> None:
    """Which lines are tried, and in what order, is what such an answer costs: products are what takes the time."""
    spent = 0

    def counted(*at: object) -> Line:
        nonlocal spent
        found = line_of(*at)  # type: ignore[arg-type]
        spent += found.products
        return found

    monkeypatch.setattr(_brackets, "line_of", counted)
    monkeypatch.setattr(_saddle_line, "line_of", counted)
    _brackets.whole_line.cache_clear()
    low, high = direction_epsilon(one(noise, rate, count), delta=delta, direction="remove")
    assert 0 < spent <= most
    assert high - low <= 1e-9 * high


# --- Rare steps: one extreme output apart (step 14) ---


def delta_of_two(noise: float, rate: float, epsilon: float, direction: Direction) -> float:
    """Of two steps, by a Gauss-Legendre rule over the first output; the second one is integrated in closed form."""
    t, more = 1 / noise, math.expm1(epsilon)
    remove = direction == "remove"

    def given(z: Reals) -> Reals:
        one = rate * np.expm1(t * z - t * t / 2)  # the first ratio, less 1
        needed = more - one + rate * (1 + one) if remove else rate - (1 - rate) * (more + one + more * one)
        size = rate * (1 + one) * (1 if remove else 1 + more)
        place = np.log(np.where(needed > 0, needed, 1.0) / size) / t + t / 2
        if remove:
            return np.where(needed > 0, size * ndtr(t - place) - needed * ndtr(-place), one - more)
        return np.where(needed > 0, needed * ndtr(place) - size * ndtr(place - t), 0.0)

    bend = ((more + rate) if remove else (rate - more + rate * more) / (1 + more)) / (1 - rate)  # where needed is 0
    kink = math.log(bend / rate + 1) / t + t / 2
    nodes, weights = np.polynomial.legendre.leggauss(40)
    total = 0.0
    for low, high in ((-38.0, kink), (kink, 38.0 + t)):
        edges = np.linspace(low, high, 241)
        half = np.diff(edges)[:, None] / 2
        z = (edges[:-1, None] + half * (1 + nodes)).ravel()
        total += float((half * weights).ravel() @ (given(z) * np.exp(-z * z / 2))) / math.sqrt(2 * math.pi)
    return total


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(
    ("noise", "rate", "delta"), [(1.09, 1.19e-8, 4e-16), (0.448, 1.58e-5, 5e-7), (2.0, 1e-3, 1e-5)]
)
def test_two_rare_steps_against_a_quadrature(noise: float, rate: float, delta: float, direction: Direction) -> None:
    steps = one(noise, rate, 2)
    found = RareSteps().epsilon(steps, direction, delta)
    assert 0.0 < found.upper - found.lower <= 1e-4 * found.upper
    assert (
        delta_of_two(noise, rate, found.upper, direction) <= delta <= delta_of_two(noise, rate, found.lower, direction)
    )
    for epsilon in (found.upper / 3, 0.9 * found.upper):
        bracket, right = RareSteps().delta(steps, direction, epsilon), delta_of_two(noise, rate, epsilon, direction)
        assert bracket.lower <= right * (1 + 1e-12) and right * (1 - 1e-12) <= bracket.upper


def test_quadrature_of_two_steps_sees_a_hundred_thousandth() -> None:
    """So does the test above: what it holds brackets against falls by more where epsilon rises by so little."""
    found = RareSteps().epsilon(one(0.448, 1.58e-5, 2), "remove", 5e-7)
    assert delta_of_two(0.448, 1.58e-5, found.lower * (1 + 1e-5), "remove") < 5e-7
    assert delta_of_two(0.448, 1.58e-5, found.upper * (1 - 1e-5), "remove") > 5e-7


@pytest.mark.parametrize(
    ("noise", "rate", "count", "delta", "width"),
    [
        (0.892, 1.4e-6, 4, 1e-7, 1e-6),  # was 5e-2, after seconds
        (0.31803, 3.0769e-8, 4, 2.7747e-8, 1e-6),  # 1, after seconds
        (0.401, 1.13e-8, 111, 1.66e-9, 1e-5),  # 6e-2
        (0.205, 1.52e-8, 531_476, 3.04e-3, 5e-4),  # 1e-3
    ],
)
def test_rare_steps_are_narrow(noise: float, rate: float, count: int, delta: float, width: float) -> None:
    found = RareSteps().epsilon(one(noise, rate, count), "remove", delta)
    assert found.settled and 0.0 < found.upper - found.lower <= width * found.upper


def test_rare_steps_need_no_line_that_takes_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    def quick(way: object) -> object:
        assert way != "long"
        return maker_of(way)  # type: ignore[arg-type]

    maker_of = _brackets.maker_of
    monkeypatch.setattr(_brackets, "maker_of", quick)
    found = privacy.epsilon_bounds(noise_multiplier=0.892, sampling_rate=1.4e-6, steps=4, delta=1e-7)
    assert 0.0 < found.upper - found.lower <= 1e-6 * found.upper


def test_where_rare_steps_have_no_lattice_lines_are_asked() -> None:
    """No double holds the probability of an output of so large a loss."""
    parts = one(2.4681450894936874, 9.778750270880004e-8, 2368)
    rare = RareSteps().epsilon(parts, "remove", 1.5245485167673874e-30)
    found = methods.epsilon_in(parts, "remove", 1.5245485167673874e-30)
    assert 0.0 < found.upper - found.lower <= 1e-9 * found.upper
    assert rare.lower == 0.0 and found.upper <= rare.upper and not rare.settled


@pytest.mark.parametrize(
    ("noise", "rate", "count", "direction", "epsilon"),
    [
        (2.9, 5e-6, 150_000, "remove", 0.0033387787467305317),  # the lower end was 4,600 times the truth
        (2.9, 1e-6, 300_000, "remove", 0.00037773969483114903),
        (2.0, 1e-6, 300_000, "add", 0.0013693063937629153),
    ],
)
def test_where_the_lattice_is_wider_than_the_losses_rare_steps_stay_below(
    noise: float, rate: float, count: int, direction: Direction, epsilon: float
) -> None:
    """A chord to 0 stood above the divergence, which a tangent below 0 shows."""
    steps = one(noise, rate, count)
    line = _brackets.SaddleLine().delta(steps, direction, epsilon)
    found = RareSteps().delta(steps, direction, epsilon)
    assert line.upper - line.lower <= 1e-6 * line.upper
    assert found.lower <= line.upper and line.lower <= found.upper


def test_rare_steps_of_epsilons_without_an_exponential() -> None:
    assert RareSteps().epsilon(one(0.05, 0.4, 2), "remove", 1e-30) == (0.0, math.inf, False)


def test_many_kinds_of_rare_steps_need_no_smoothed_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took half a minute of the line, for nothing, and seconds of a wide lattice."""
    monkeypatch.delattr(_many_kinds.ManyKinds, "epsilon")
    steps = tuple(Step(noise_multiplier=0.9 + 0.02 * k, sampling_rate=1e-5 * (1 + k), count=1) for k in range(17))
    found = methods.epsilon_in(steps, "remove", 1e-8)
    assert 0.0 < found.upper - found.lower <= 1e-4 * found.upper


def test_a_trade_off_makes_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line serves many epsilons; each had lines of its own."""
    made = []

    def counted(plan: _saddle_line.Plan) -> Line:
        made.append(plan)
        return line_of(plan)

    monkeypatch.setattr(_brackets, "line_of", counted)
    monkeypatch.setattr(_saddle_line, "line_of", counted)
    run = [Step(noise_multiplier=noise, sampling_rate=0.01, count=100) for noise in (2.0, 1.25, 0.8)]
    found = privacy.Composition(run).tradeoff(0.01)
    assert 0.0 < found.upper - found.lower <= 2e-8
    assert 0 < len(made) <= 20


def test_an_enclosure_takes_every_kind_of_step_as_it_is() -> None:
    """More kinds than the bracket of doubles takes one by one, which joins those that are near."""
    parts = [Step(noise_multiplier=1 + 0.05 * j, sampling_rate=0.01, count=100) for j in range(17)]
    found = Composition(parts).epsilon(1e-5, certified=True)
    assert 1.523292426148 < found.lower <= found.upper < 1.523292426149
