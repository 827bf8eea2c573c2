"""What a run releases besides its steps: Laplace noise, and black boxes of which (epsilon, delta) are known."""

import itertools
import math
import sys
from fractions import Fraction
from pathlib import Path

import dp_accounting.pld.privacy_loss_distribution as pld
import pytest

from dptheory.privacy import (
    BlackBox,
    Composition,
    IndexSteps,
    JointStep,
    LaplaceRelease,
    RandomAllocation,
    Step,
    gaussian_epsilon,
    least_noise_beside,
    privacy_statement,
    read_composition,
)
from dptheory.pruning import SubsetMallows
from tests.refused import refused

DELTA = 1e-5
SMALL = SubsetMallows(10, 5, theta=0.1)
ULPS = 64 * sys.float_info.epsilon


def laplace_delta(noise: float, epsilon: float) -> float:
    """By hand: 1 - exp((epsilon - 1 / b) / 2)."""
    return max(0.0, -math.expm1((epsilon - 1.0 / noise) / 2))


def boxes_delta(kinds: list[tuple[float, float]], epsilon: float) -> float:
    """By enumeration of what every box says: revealed, or a bit that is right or wrong."""
    told = [
        (
            (d, 0.0),
            ((1 - d) * math.exp(e) / (1 + math.exp(e)), (1 - d) / (1 + math.exp(e))),
            ((1 - d) / (1 + math.exp(e)), (1 - d) * math.exp(e) / (1 + math.exp(e))),
        )
        for e, d in kinds
    ]
    pairs = (tuple(map(math.prod, zip(*outcome, strict=True))) for outcome in itertools.product(*told))
    return math.fsum(max(0.0, p - math.exp(epsilon) * q) for p, q in pairs)


@pytest.mark.parametrize("noise", [0.05, 0.5, 3.0, 1e3])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_one_laplace_release_has_its_closed_form(noise: float, share: float) -> None:
    run, epsilon = Composition([LaplaceRelease(noise_multiplier=noise, count=1)]), share / noise
    exact = laplace_delta(noise, epsilon)
    # Bounds differ by the cell that epsilon is in alone, of width w: its probability is at most w / 4, and 1 - e^(epsilon - loss) at
    # most w there. What else is rounded is 1e-9 of delta on both sides, and 2e-13 of epsilon.
    width = (2.0 / 4096 / noise) ** 2 / 4 + 4e-9 * exact + 2e-13
    for direction in ("remove", "add"):
        found = run.delta(epsilon, direction=direction)
        assert found.lower <= exact * (1 + ULPS) and found.upper >= exact * (1 - ULPS)
        assert found.upper - found.lower <= width
    if 0.0 < exact < 0.99:
        epsilons = run.epsilon(exact)
        assert epsilons.lower <= epsilon * (1 + 1e-12) and epsilons.upper >= epsilon * (1 - 1e-12)


@pytest.mark.parametrize(
    "kinds",
    [
        [(1.0, 0.0)],
        [(1.0, 1e-3)],
        [(0.5, 0.0)] * 7,
        [(0.5, 1e-3)] * 7,
        [(0.0, 1e-2)] * 3,
        [(1.0, 1e-3)] * 2 + [(0.2, 0.0)] * 3 + [(2.0, 0.1)],
    ],
)
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0])
def test_black_boxes_are_revealed_or_randomized_response(kinds: list, epsilon: float) -> None:
    parts = [BlackBox(epsilon=e, delta=d, count=kinds.count((e, d))) for e, d in dict.fromkeys(kinds)]
    exact = boxes_delta(kinds, epsilon)
    found = Composition(parts).delta(epsilon)
    assert found.lower <= exact * (1 + ULPS) and found.upper >= exact * (1 - ULPS)
    assert found.upper - found.lower <= 0.05 * exact
    if boxes_delta(kinds, epsilon + 0.1) < exact and epsilon > 0.0:  # above the largest loss any epsilon has that delta
        back = Composition(parts).epsilon(exact)
        assert back.lower <= epsilon * (1 + 1e-9) and back.upper >= epsilon * (1 - 1e-9)


def test_one_black_box_has_the_epsilon_that_it_says() -> None:
    found = Composition([BlackBox(epsilon=1.5, delta=DELTA, count=1)]).epsilon(DELTA)
    assert found.lower <= 1.5 <= found.upper and found.upper - found.lower < 1e-11


def test_a_delta_that_boxes_use_up_has_no_epsilon() -> None:
    two = Composition([BlackBox(epsilon=1.0, delta=DELTA, count=2)])
    assert two.epsilon(DELTA).lower == math.inf
    revealed = -math.expm1(2 * math.log1p(-DELTA))  # rounded: it may be too little
    assert two.epsilon(revealed).upper == math.inf and two.epsilon(revealed * (1 + 1e-9)).upper <= 2.0 * (1 + 1e-11)
    beside = Composition(
        [BlackBox(epsilon=1.0, delta=DELTA, count=1), Step(noise_multiplier=1.0, sampling_rate=1.0, count=1)]
    )
    assert beside.epsilon(DELTA).upper == math.inf
    assert beside.epsilon(2 * DELTA).upper < 10 and two.delta(100.0).lower >= 2 * DELTA * (1 - DELTA)


@pytest.mark.parametrize("gap", [1e-9, 1e-6])
def test_a_share_of_delta_that_rounding_leaves_open_is_open(gap: float) -> None:
    """Two boxes reveal D = 2 d - d^2; delta = (1 + gap) D leaves gap D / (1 - D) to a Gaussian step, exactly computed."""
    box = Fraction(1e-3)
    revealed = 2 * box - box**2
    delta = float(revealed) * (1 + gap)
    left = float((Fraction(delta) - revealed) / (1 - revealed))
    parts = [BlackBox(epsilon=0.0, delta=1e-3, count=2), Step(noise_multiplier=1.0, sampling_rate=1.0, count=1)]
    found, exact = Composition(parts).epsilon(delta), gaussian_epsilon(mu=1.0, delta=left)
    assert found.lower <= exact <= found.upper


def test_a_loss_that_no_double_is_is_not_rounded_down() -> None:
    """At the largest double below 1 / b delta is 1 - exp((epsilon - 1 / b) / 2), about 1e-16 and not 0."""
    noises = [k / 97 for k in range(1, 200) if Fraction(97 / k) < 1 / Fraction(k / 97) and 1 / (k / 97) == 97 / k]
    assert len(noises) > 10
    for noise in noises:
        missing = 1 / Fraction(noise) - Fraction(1 / noise)
        found = Composition([LaplaceRelease(noise_multiplier=noise, count=1)]).delta(1 / noise)
        assert found.lower <= missing / 2 and found.upper >= float(missing) / 2 * (1 - 1e-12)


def test_many_laplace_releases_and_gaussian_noise_agree_with_dp_accounting() -> None:
    """Their PLD rounds losses up, so that it is an upper bound; at 1e-4 a release it is less than 1e-3 off."""
    parts = [LaplaceRelease(noise_multiplier=5.0, count=10), Step(noise_multiplier=2.0, sampling_rate=1.0, count=3)]
    options = {"value_discretization_interval": 1e-4}
    theirs = pld.from_laplace_mechanism(5.0, **options).self_compose(10)
    theirs = theirs.compose(pld.from_gaussian_mechanism(2.0, **options).self_compose(3))
    found = Composition(parts).epsilon(DELTA)
    assert found.lower <= theirs.get_epsilon_for_delta(DELTA) <= found.upper + 13 * 1e-4
    assert found.upper - found.lower < 1e-3 * found.upper


def test_releases_stand_beside_steps_and_epochs() -> None:
    count = LaplaceRelease(noise_multiplier=2.0, count=1)
    for steps in (
        Step(noise_multiplier=1.0, sampling_rate=0.01, count=1000),
        RandomAllocation(noise_multiplier=1.0, steps_per_epoch=50, count=20),
    ):
        alone, both = Composition([steps]).epsilon(DELTA), Composition([steps, count]).epsilon(DELTA)
        assert alone.lower < both.lower <= both.upper < alone.upper + 0.5
        assert both.upper - both.lower < 1e-3 * both.upper
        nearly = Composition([steps, LaplaceRelease(noise_multiplier=1e9, count=1)]).epsilon(DELTA)
        assert nearly.lower <= alone.upper and nearly.upper >= alone.lower


@pytest.mark.parametrize(
    ("part", "least", "most"),
    [
        (LaplaceRelease(noise_multiplier=1e15, count=1), 0.0, 1e-15),
        (LaplaceRelease(noise_multiplier=0.01, count=10**9), 0.0, 1e11),
        (BlackBox(epsilon=0.0, delta=0.0, count=10**12), 0.0, 0.0),
        (BlackBox(epsilon=100.0, delta=0.0, count=3), 290.0, 300.0),
    ],
)
def test_at_the_ends_of_the_ranges_bounds_hold(part, least: float, most: float) -> None:
    found = Composition([part]).epsilon(DELTA)
    assert least <= found.lower <= found.upper <= most * (1 + 1e-9)


def test_budgets_leave_them_as_they_are() -> None:
    count = LaplaceRelease(noise_multiplier=2.0, count=1)
    run = Composition([Step(noise_multiplier=1.0, sampling_rate=0.01, count=100), count])
    noise = run.noise_scale(epsilon=3.0, delta=DELTA)
    assert run.scaled(noise).parts[1] == count and 2.99 < run.scaled(noise).epsilon(DELTA).upper <= 3.0
    beside = least_noise_beside(spent=Composition([count]), epsilon=3.0, delta=DELTA, sampling_rate=0.01, steps=100)
    assert beside == pytest.approx(noise, rel=2e-3)  # what either search is precise to
    with refused("parts"):
        Composition([count]).noise_scale(epsilon=1.0, delta=DELTA)


@pytest.mark.parametrize(
    "kind", [LaplaceRelease(noise_multiplier=1.0, count=1), BlackBox(epsilon=1.0, delta=0.0, count=1)]
)
@pytest.mark.parametrize(
    "other",
    [
        IndexSteps(steps=1, mechanism=SMALL),
        JointStep(noise_multiplier=1.0, sampling_rate=0.1, mechanism=SMALL, count=1),
    ],
)
def test_what_is_not_composed_is_refused(kind, other) -> None:
    with refused("parts", type(other).__name__):
        Composition([kind, other])
    with refused("adjacency", type(kind).__name__):
        Composition([kind], adjacency="replace-one")
    with refused("certified"):
        Composition([kind]).epsilon(DELTA, certified=True)


@pytest.mark.parametrize(
    ("argument", "kind", "changes"),
    [
        ("noise_multiplier", LaplaceRelease, {"noise_multiplier": 0.001}),
        ("count", LaplaceRelease, {"count": 0}),
        ("epsilon", BlackBox, {"epsilon": -1.0}),
        ("delta", BlackBox, {"delta": 1.0}),
        ("count", BlackBox, {"count": 0}),
    ],
)
def test_bad_releases(argument: str, kind: type, changes: dict) -> None:
    right = (
        {"noise_multiplier": 1.0, "count": 1} if kind is LaplaceRelease else {"epsilon": 1.0, "delta": 0.0, "count": 1}
    )
    with refused(argument):
        kind(**right | changes)


def test_files_and_statements_know_them(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        "[[laplace_release]]\nnoise_multiplier = 2.0\ncount = 1\n[[black_box]]\nepsilon = 0.5\ndelta = 1e-6\ncount = 2\n"
    )
    run = read_composition(file)
    assert run == Composition(
        [LaplaceRelease(noise_multiplier=2.0, count=1), BlackBox(epsilon=0.5, delta=1e-6, count=2)]
    )
    statement = privacy_statement(composition=run, delta=DELTA)
    assert statement.steps == 3 and "Laplace" in statement.composition[0]
    assert statement.epsilon == run.epsilon(DELTA).upper
