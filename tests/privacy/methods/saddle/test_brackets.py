"""Brackets of delta, epsilon and the noise: against witnesses, closed forms and each other."""

import math
import random

import mpmath
import pytest

from dptheory import privacy
from dptheory.privacy import gaussian_delta, gaussian_epsilon, gaussian_mu
from dptheory.privacy._bounds import Direction, Unresolved
from dptheory.privacy._parts import Step, Steps
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.references._cross_check import pld_bracket
from dptheory.privacy.methods.saddle import _delta as _saddle_delta
from dptheory.privacy.methods.saddle import _measures, _noise
from dptheory.privacy.methods.saddle._brackets import direction_delta, direction_epsilon
from dptheory.privacy.methods.saddle._delta import (
    Chernoff,
    Lines,
    closed_bounds,
    delta_bounds_at,
    lines_near,
    without_lines,
)
from dptheory.privacy.methods.saddle._line import Line, line_at
from dptheory.privacy.methods.saddle._moment_rule import moment_rule
from dptheory.privacy.methods.saddle._noise import about_log_delta, noise_bracket
from dptheory.privacy.methods.saddle._points import step_losses

BOTH: tuple[Direction, ...] = ("remove", "add")


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


def test_the_least_noise() -> None:
    low, high = noise_bracket(one(1.0, 0.02, 2000), epsilon=3.0, delta=1e-5, among=BOTH)
    assert low < 1.4514858 + 5e-8 and 1.4514858 - 5e-8 < high < low * (1 + 1.01e-6)
    assert (
        epsilon_bracket(one(high, 0.02, 2000), delta=1e-5)[1]
        <= 3.0
        < epsilon_bracket(one(low, 0.02, 2000), delta=1e-5)[0]
    )


def test_unsampled_noise_is_that_of_the_closed_form() -> None:
    low, high = noise_bracket(one(1.0, 1.0, 1), epsilon=1.0, delta=1e-6, among=BOTH)
    assert low <= 1 / gaussian_mu(1.0, 1e-6) <= high


def test_what_it_cannot_do_it_refuses_with_what_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    low, high = direction_delta(one(1.0, 0.02, 100), epsilon=1.0, direction="remove")
    monkeypatch.setattr(_saddle_delta, "WIDEST", 1e-16)
    monkeypatch.setattr(_saddle_delta, "_SPLITS", ())
    with pytest.raises(Unresolved, match="only") as refused:
        direction_delta(one(1.0, 0.02, 100), epsilon=1.0, direction="remove")
    assert (refused.value.lower, refused.value.upper) == (low, high)


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
    with pytest.raises(Unresolved, match="only") as refused:
        noise_bracket(one(*setting), epsilon=1.0, delta=delta, among=(direction,))
    assert refused.value.lower == 0.0 and refused.value.upper == pytest.approx(0.02)


def test_of_lines_as_wide_the_lower_one_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two brackets from 0 on are equally wide, relative to their ends."""
    found = {"whole": Chernoff(1.0, 5.0), "long": Chernoff(1.0, -100.0)}
    monkeypatch.setattr(_saddle_delta, "_lines", lambda steps, epsilon, at: Lines(epsilon, (found[at],)))
    low, high = lines_near(step_losses(one(1.0, 1e-3, 10), "add"), 1.0).delta_bracket(1.0)
    assert low == 0.0 and high == pytest.approx(math.exp(-101), rel=1e-9, abs=0.0)


def test_bounds_of_delta_that_need_no_line() -> None:
    steps = step_losses(one(1.0, 1e-3, 10**6), "remove")
    assert 0.0 < without_lines(steps, 500.0) < 1e-200  # mu is about 1.3: epsilon is some 380 standard deviations off
    for epsilon in (0.5, 3.0, 6.0):
        assert without_lines(steps, epsilon) >= delta_bounds_at(steps, epsilon)[0]
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

    monkeypatch.setattr(_measures, "moment_rule", counted)
    low, high = noise_bracket(one(1.0, 0.02, 1000), epsilon=1.0, delta=0.5, among=BOTH)
    assert high <= low * (1 + 1.01e-6)
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

    def counted(*arguments: object) -> tuple[float, float]:
        asked.append(arguments)
        return delta_bounds_at(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(_noise, "delta_bounds_at", counted)
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
        low, high = noise_bracket(one(1.0, rate, count), epsilon=epsilon, delta=delta, among=BOTH)
        many += [(epsilon, rate, len(asked))] * (len(asked) > 12 or not low < high < low * (1 + 1.01e-6))
    assert not many


def test_what_is_about_delta_falls_with_the_noise() -> None:
    found = [about_log_delta(one(sigma, 0.004, 9000), 8.0, "remove") for sigma in (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)]
    assert sorted(found, reverse=True) == found and found[0] > -1e-6


def test_few_steps_with_rare_large_losses_take_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that stopped where delta hardly changes made the widest lines twice: 19 and 18 of them."""
    made = []

    def counted(*arguments: object) -> Line:
        made.append(arguments)
        return line_at(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(_saddle_delta, "line_at", counted)
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
    pytest.importorskip("flint")
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
