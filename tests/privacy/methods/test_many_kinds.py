"""Schedules: steps of more kinds than the saddle line tells apart."""

import math
import time
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dptheory.privacy import Composition, Step
from dptheory.privacy._bounds import Direction, Unresolved
from dptheory.privacy.methods._many_kinds import ManyKinds, ManyKindsLine
from dptheory.privacy.methods.saddle import _kinds, _line, _schedule
from dptheory.privacy.methods.saddle._brackets import MOST_KINDS, SaddleLine
from dptheory.privacy.methods.saddle._kinds import group_of, rule_of
from dptheory.privacy.methods.saddle._schedule import Schedule, _Cell, _CellsAt, _moved, _points_of, _rules

SCHEDULE = tuple(
    Step(noise_multiplier=2.0 * 0.98**epoch, sampling_rate=0.01, count=100) for epoch in range(60)
)  # Opacus's ExponentialNoise


def test_a_schedule_is_as_narrow_as_others_have_it() -> None:
    """dp-accounting's PLD gives 6.91498 at 2e-4, an upper bound; binned into 16 kinds it was 7.903."""
    found = Composition(SCHEDULE).epsilon(1e-5)
    assert found.method == "saddle line"
    assert found.lower <= 6.91498 and found.upper >= 6.91498 * (1 - 2e-4)
    assert 0.0 < found.upper - found.lower <= 1e-8 * found.upper
    lattice = ManyKinds().epsilon(SCHEDULE, "remove", 1e-5)
    assert lattice.lower <= found.lower and found.upper <= lattice.upper


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("rate", [1e-4, 0.02, 0.6, 1.0])
@pytest.mark.parametrize("c", [-0.5, 0.3, 6.0])
def test_moments_of_a_rule_against_quadrature(direction: Direction, rate: float, c: float) -> None:
    """A fine rule on the real line of outputs; what is said of the error holds, and of the modulus further out."""
    kinds, spacing, z = ((0.6, rate), (1.1, rate), (0.9, rate / 3)), 0.7, np.arange(-28.0, 30.0, 1 / 256)
    u = spacing * np.arange(8)
    for noise, q in kinds:
        # the others share the nodes, and do not occur
        group = group_of([(other, one**-2.0, (one, other) == (noise, q)) for one, other in kinds], direction)
        rule = rule_of(group, c)
        t = 1 / noise
        loss = np.logaddexp(np.log1p(-q) if q < 1 else -np.inf, np.log(q) + t * z - t * t / 2)
        power = 1 + c + 1j * u if direction == "remove" else -c - 1j * u
        exact = np.exp(np.multiply.outer(power, loss) - z**2 / 2).sum(axis=1) / 256 / math.sqrt(2 * math.pi)
        logs, errors = rule.terms(spacing, 7)
        # of the sum's 15,000 terms, and of exponents up to 100, half a unit in the last place each
        most = np.exp(rule.log_moment)
        assert (np.abs(np.exp(logs) - exact) <= np.abs(exact) * np.expm1(errors) + 1e-13 * most).all()
        assert (np.abs(exact) * np.expm1(errors) <= 1e-9 * most).all()
        bounds = np.exp([rule.log_moment + rule.log_decay(float(place)) for place in u])
        assert all((np.abs(exact[k:]) <= bounds[k] * (1 + 1e-12) + 1e-13 * most).all() for k in range(8))


def test_ten_kinds_as_the_line_has_them() -> None:
    """Computed one by one by the saddle line, every kind with its own rule."""
    kinds = tuple(Step(noise_multiplier=2.0 - 0.1 * i, sampling_rate=0.01 + 0.001 * i, count=50) for i in range(12))
    for direction in ("remove", "add"):
        exact, found = SaddleLine().epsilon(kinds, direction, 1e-5), ManyKindsLine().epsilon(kinds, direction, 1e-5)
        assert found.lower <= exact.upper and exact.lower <= found.upper
        assert found.settled and found.upper - found.lower <= 1e-9 * found.upper
        one = ManyKindsLine().delta(kinds, direction, exact.upper)
        assert one.lower <= 1e-5 and one.upper >= 1e-5 * (1 - 1e-7)


@pytest.mark.parametrize("epochs", [5, 16])
def test_a_question_after_every_epoch(epochs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise and rate change: no kind has nodes of its own, and the bracket is that of lines which have them."""
    steps = tuple(
        Step(noise_multiplier=2.0 * 0.98**epoch, sampling_rate=0.005 * 1.02**epoch, count=100)
        for epoch in range(epochs)
    )
    for direction in ("remove", "add"):
        exact = SaddleLine().epsilon(steps, direction, 1e-5)
        with monkeypatch.context() as patched:
            patched.setattr(_line, "moment_rule", None)
            found = ManyKindsLine().epsilon(steps, direction, 1e-5)
        assert exact.lower <= found.upper and found.lower <= exact.upper
        assert found.upper - found.lower <= 1e-9 * found.upper


@pytest.mark.parametrize(("number", "width"), [(100, 1e-8), (10_000, 1e-6)])
def test_the_reach_in_kinds(number: int, width: float) -> None:
    steps = [Step(noise_multiplier=2.0 - 1.2 * i / number, sampling_rate=0.01, count=1) for i in range(number)]
    start = time.process_time()
    found = Composition(steps).epsilon(1e-5)
    assert found.upper - found.lower <= width * found.upper
    assert time.process_time() - start < 10.0  # five on a core of its own


def test_the_reach_in_rates() -> None:
    """A rate for every kind, within what the lattice says, which bins them."""
    steps = tuple(Step(noise_multiplier=1.2 + i % 3 / 10, sampling_rate=0.005 + 4e-5 * i, count=6) for i in range(300))
    found, lattice = Composition(steps).epsilon(1e-5), ManyKinds().epsilon(steps, "remove", 1e-5)
    assert found.method == "saddle line" and found.upper - found.lower <= 1e-8 * found.upper
    assert lattice.lower <= found.lower and found.upper <= lattice.upper


@pytest.mark.parametrize("direction", ["remove", "add", "replace"])
def test_kinds_that_are_nearly_alike_cost_what_alike_ones_do(direction: Direction) -> None:
    """Steps of noise 1 to 1 + 1e-9 in 20 kinds, against the saddle line of one kind."""
    kinds = tuple(Step(noise_multiplier=1.0 + 1e-10 * i, sampling_rate=0.02, count=10) for i in range(20))
    assert len(kinds) > MOST_KINDS
    alike = (Step(noise_multiplier=1.0, sampling_rate=0.02, count=200),)
    exact = SaddleLine().epsilon(alike, direction, 1e-6)
    found = ManyKinds().epsilon(kinds, direction, 1e-6)
    assert found.settled and found.lower <= exact.upper * (1 + 1e-8) and exact.lower * (1 - 1e-8) <= found.upper
    assert found.upper - found.lower <= 1e-3 * found.upper
    at = exact.upper
    bracket = ManyKinds().delta(kinds, direction, at)
    assert bracket.lower <= 1e-6 * (1 + 1e-6) and bracket.upper >= 1e-6 * (1 - 1e-6)


def test_a_line_that_says_nothing_leaves_the_answer_to_the_next_method() -> None:
    """Rare and few steps: an end that is infinite was taken for settled, as infinity is not above infinity."""
    steps = tuple(Step(noise_multiplier=1 + 0.25 * k, sampling_rate=6e-5, count=1) for k in range(20))
    found = ManyKindsLine().epsilon(steps, "remove", 3.5e-4)
    assert not found.settled or found.upper < math.inf
    assert Composition(steps).epsilon(3.5e-4, direction="remove").upper == 0.0


def test_a_rule_whose_error_is_no_small_share_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kinds, "NATS", 4.0)
    with pytest.raises(Unresolved):
        rule_of(group_of([(0.02, 1.0, 5), (0.02, 1.5, 5)], "remove"), 0.3)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("c", [-0.4, 0.5, 3.0])
@pytest.mark.parametrize(
    ("low", "high", "noises"), [(1e-4, 2e-4, 1), (0.02, 0.05, 3), (0.5, 0.9, 1), (0.01, 0.011, 900)]
)
def test_interpolated_kinds_against_each_kind_by_its_own_rule(
    low: float, high: float, noises: int, c: float, direction: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said of the remainder holds, at so few points that it is seen, too."""
    k = np.arange(900)
    noise, rates = 1.1 + (k * 7 % noises) / noises / 100, low * (high / low) ** (k / 899)
    kinds = tuple(zip(rates.tolist(), (noise**-2.0).tolist(), (1.0 + k % 3).tolist(), strict=True))
    law = Schedule((kinds,), (group_of(kinds, direction),), direction)
    reach, count = 5 / math.sqrt(law.total(c).curvature), 20
    h = reach / count
    with monkeypatch.context() as patched:
        patched.setattr(_Cell, "pays", False)
        exact = _rules.__wrapped__(law, c, reach)
    own, own_errors = exact.terms(h, count)
    for points in (4, 16):
        monkeypatch.setattr(_schedule, "_POINTS", points)
        at = Schedule(law.octaves, law.guide, direction).at(c)
        assert any(isinstance(rule, _CellsAt) for rule in _rules(at.schedule, c, reach).rules)
        logs, errors = at.terms(h, count)
        assert (np.abs(np.expm1(logs - own)) <= np.expm1(errors + own_errors)).all()
        assert at.log_moment >= own[0].real - own_errors[0]
        for place in (2, 9, count):
            assert at.log_decay(place * h) + at.log_moment >= (own.real - own_errors)[place:].max()
    assert errors.max() <= 1e-7 and at.log_moment <= exact.log_moment + 1e-7
    assert at.log_decay(reach) <= 0.5 * exact.log_decay(reach)


@pytest.mark.parametrize(("low", "high", "most"), [(1e-6, 0.1, 1.0), (0.005, 0.006, 1.1), (0.01, 0.9, 1.0)])
def test_the_reach_in_rates_that_all_differ(low: float, high: float, most: float) -> None:
    """Ten thousand, over five decades, too; and within what the lattice says, which bins them."""
    k = np.arange(10_000)
    noise = (1.0 + (most - 1.0) * k / 9_999).tolist()
    rates = (low * (high / low) ** (k * 7919 % 10_000 / 9_999)).tolist()
    steps = tuple(Step(noise_multiplier=s, sampling_rate=q, count=1) for s, q in zip(noise, rates, strict=True))
    start = time.process_time()
    found = ManyKindsLine().epsilon(steps, "remove", 1e-6)
    assert time.process_time() - start < 10.0  # five on a core of its own
    assert found.upper - found.lower <= 1e-6 * found.upper
    lattice = ManyKinds().epsilon(steps, "remove", 1e-6)
    assert lattice.lower <= found.lower and found.upper <= lattice.upper


@pytest.mark.parametrize("c", [-0.4, 0.5, 3.0])
@pytest.mark.parametrize(("low", "high", "noises"), [(1e-4, 1.2e-4, 1), (0.02, 0.025, 900), (0.7, 0.75, 1)])
def test_how_far_moments_move_in_the_discs(low: float, high: float, noises: int, c: float) -> None:
    """At complex rates and precisions on the discs' rims, from which the remainder follows; near where steps are strong."""
    k = np.arange(900)
    rates, precisions = low + (high - low) * k / 899, 1.2 + 0.05 * (k * 7 % noises) / noises
    cell = _Cell(tuple(zip(rates.tolist(), (1 / precisions).tolist(), [1.0] * 900, strict=True)))
    points = _points_of([cell], "remove")
    rule, u = rule_of(points.group, c), np.array([0.0, 3.0, 30.0])
    rate, variance, _ = cell.middle
    assert cell.radius >= 2.99 * (high - rate) and cell.spread / variance >= 2.99 * (precisions.max() - 1 / variance)
    spacing = rule.places[1] - rule.places[0]
    for rung in (0.5, 2.0):
        v = rule.places + 1j * rule.height_of(rung)

        def sums(q: complex, p: complex, v: NDArray[np.complex128] = v) -> NDArray[np.complex128]:
            density = np.sqrt(p / (2 * np.pi)) * np.exp(-p * (v + 1 / (2 * p)) ** 2 / 2)
            power = np.exp(np.multiply.outer(1 + c + 1j * u, np.log1p(q * np.expm1(v))))
            return np.asarray((spacing * density * power).sum(axis=1))

        rims = np.exp(1j * np.pi * np.arange(12) / 6)
        corners = [(rate + cell.radius * x, (1 + cell.spread * y) / variance) for x in rims for y in rims]
        middle = sums(rate, 1 / variance)
        moved = np.max([np.abs(sums(*corner) - middle) for corner in corners], axis=0) / abs(
            sums(rate, 1 / variance)[0]
        )
        bound = _moved(points, rule, np.array([rung]), u)[0]
        assert (moved <= bound * (1 + 1e-9)).all()
        assert (low, c, rung) != (0.7, 3.0, 0.5) or bound[0] <= 1.5 * moved[0]


def test_kinds_that_differ_by_rounding_alone() -> None:
    """Chebyshev points would fall on one another; counted several times, twenty rates gave 2.777 for 2.584."""
    rates = [0.01]
    for _ in range(39):
        rates.append(math.nextafter(rates[-1], 1.0))
    steps = tuple(Step(noise_multiplier=1.0, sampling_rate=rate, count=50) for rate in rates)
    alike = (Step(noise_multiplier=1.0, sampling_rate=0.01, count=2000),)
    for direction in ("remove", "add"):
        found, exact = ManyKindsLine().epsilon(steps, direction, 1e-5), SaddleLine().epsilon(alike, direction, 1e-5)
        assert found.lower <= exact.upper * (1 + 1e-12) and exact.lower <= found.upper * (1 + 1e-12)
        assert found.upper - found.lower <= 1e-9 * found.upper


def test_a_cell_of_kinds_whose_moments_pass_near_0_is_taken_apart() -> None:
    """Little noise and rates next to 1: two lumps of losses, whose characteristic functions all but cancel somewhere."""
    steps = tuple(Step(noise_multiplier=0.1, sampling_rate=0.9 + 0.0005 * k, count=1) for k in range(100))
    found = ManyKindsLine().epsilon(steps, "remove", 1e-5)
    assert found.upper - found.lower <= 1e-9 * found.upper
    least = SaddleLine().epsilon((Step(noise_multiplier=0.1, sampling_rate=0.9, count=100),), "remove", 1e-5)
    most = SaddleLine().epsilon((Step(noise_multiplier=0.1, sampling_rate=0.95, count=100),), "remove", 1e-5)
    assert least.lower <= found.lower and found.upper <= most.upper


@pytest.mark.parametrize("wide", [1.0001e-6, 1e-4, 0.3])
def test_weights_of_rounded_points(wide: float) -> None:
    """In fractions: how far the formula is from the polynomial through the rounded points, whatever values it is through."""
    generator, worst = np.random.default_rng(0), 0.0
    for low in generator.uniform(1e-6, 0.5, 6).tolist():
        high = low * (1 + wide)
        places = generator.uniform(low, high, 3).tolist()
        cell = _schedule._Cell(tuple((rate, 1.0, 1.0) for rate in (low, *places, high)))
        of_points, of_sums = _schedule._points_of([cell], "remove").roundings[:, 0]
        points, shares = _schedule._interpolation(low, high, places)
        exact = [Fraction(point) for point in points.tolist()]
        for place, row in zip(places, shares.tolist(), strict=True):
            moved = Fraction(0)
            for k, share in enumerate(row):
                others = [x for i, x in enumerate(exact) if i != k]
                moved += abs(Fraction(share) - math.prod((Fraction(place) - x) / (exact[k] - x) for x in others))
            assert moved / 3 <= of_points + of_sums
            worst = max(worst, float(moved) / 3 / float(of_points + of_sums))
    assert worst > 1e-3
