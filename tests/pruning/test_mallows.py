"""The index mechanism against enumeration in fractions, and its sampler against its law."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, nchypergeom_fisher

from dptheory import pruning
from dptheory.claims.gip import _finite
from dptheory.pruning import SubsetMallows
from tests.refused import refused


def _fraction_law(dim: int, keep: int, weight: Fraction) -> list[Fraction]:
    terms = [
        math.comb(keep, i) * math.comb(dim - keep, i) * weight ** (2 * i) for i in range(min(keep, dim - keep) + 1)
    ]
    return [t / sum(terms) for t in terms]


@given(st.integers(2, 40), st.floats(0, 1), st.integers(1, 10**6))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_law_and_gain_against_fractions(dim: int, share: float, thousandths: int) -> None:
    keep = min(max(round(dim * share), 1), dim - 1)
    weight = Fraction(thousandths, 10**6)
    theta = -math.log(weight)
    law = _fraction_law(dim, keep, weight)
    model = SubsetMallows(dim, keep, theta=theta)
    assert model.swap_pmf() == pytest.approx([float(p) for p in law], rel=1e-11)
    mean = sum(i * p for i, p in enumerate(law))
    assert model.mean_swaps() == pytest.approx(float(mean), rel=1e-11)
    assert model.retained_gain() == pytest.approx(float(1 - mean * dim / (keep * (dim - keep))), rel=1e-11, abs=1e-15)


@pytest.mark.parametrize("theta", [1e-15, 1e-11, 1e-6, 1e-2])
@pytest.mark.parametrize(("dim", "keep"), [(2, 1), (256, 26), (256, 128), (300, 299)])
def test_small_theta_keeps_all_digits(dim: int, keep: int, theta: float) -> None:
    import mpmath

    with mpmath.workdps(60):
        weights = [
            mpmath.mpf(math.comb(keep, i) * math.comb(dim - keep, i)) * mpmath.exp(-2 * i * mpmath.mpf(theta))
            for i in range(min(keep, dim - keep) + 1)
        ]
        mean = sum(i * w for i, w in enumerate(weights)) / sum(weights)
        expected = 1 - mean * dim / mpmath.mpf(keep * (dim - keep))
        assert abs(SubsetMallows(dim, keep, theta=theta).retained_gain() / expected - 1) < 1e-12


@pytest.mark.parametrize(("dim", "keep", "theta"), [(10**7, 10**6, 1e-9), (10**7, 5 * 10**6, 0.3), (10**7, 1, 5.0)])
def test_ten_million_entries(dim: int, keep: int, theta: float) -> None:
    model = SubsetMallows(dim, keep, theta=theta)
    log_pmf = model.swap_log_pmf()
    assert np.isfinite(log_pmf).all()
    assert np.exp(log_pmf).sum() == pytest.approx(1.0, rel=1e-9)
    assert 0 < model.retained_gain() <= 1
    if theta < 1e-6:
        assert model.retained_gain() == pytest.approx(2 * theta * keep * (dim - keep) / dim**2, rel=1e-4)


def test_agrees_with_scipy_where_scipy_can() -> None:
    for dim, keep, theta in [(256, 26, 0.3), (1000, 500, 0.01), (50, 49, 1.0)]:
        ours = SubsetMallows(dim, keep, theta=theta)
        assert ours.mean_swaps() == pytest.approx(
            nchypergeom_fisher(dim, dim - keep, keep, math.exp(-2 * theta)).mean(), rel=1e-9
        )


def test_where_the_law_degenerates() -> None:
    for theta in (800.0, 1e6, 1e300, math.inf):
        model = SubsetMallows(256, 26, theta=theta)
        assert model.retained_gain() == 1.0
        assert model.swap_pmf()[0] == 1.0
        assert model.mean_swaps() == pytest.approx(0.0, abs=1e-300)
    uniform = SubsetMallows(256, 26, theta=0.0)
    assert uniform.retained_gain() == 0.0
    assert uniform.mean_swaps() == pytest.approx(26 * 230 / 256, rel=1e-12)


@pytest.mark.parametrize(("dim", "keep"), [(4, 2), (6, 2), (7, 5), (8, 4)])
@pytest.mark.parametrize("weight", [Fraction(1), Fraction(1, 2), Fraction(1, 10)])
def test_sampler_follows_the_enumerated_law(dim: int, keep: int, weight: Fraction) -> None:
    law = _finite.mallows(_finite.subsets(dim, keep)[0], weight)
    draws = 60_000
    reference = np.tile(np.arange(dim) < keep, (draws, 1))
    theta = -math.log(weight)
    drawn = SubsetMallows(dim, keep, theta=theta).sample(reference, np.random.default_rng(7))
    codes = drawn @ (1 << np.arange(dim))
    counts = [np.count_nonzero(codes == int(np.asarray(s) @ (1 << np.arange(dim)))) for s in law]
    assert sum(counts) == draws
    expected = np.array([float(p) for p in law.values()]) * draws
    common = expected >= 5
    pooled = [*np.asarray(counts)[common], np.asarray(counts)[~common].sum()]
    pooled_expected = [*expected[common], expected[~common].sum()]
    if pooled_expected[-1] == 0:
        pooled, pooled_expected = pooled[:-1], pooled_expected[:-1]
    assert chisquare(pooled, pooled_expected).pvalue > 6e-7
    wrong = np.array([float(p) for p in _finite.mallows(_finite.subsets(dim, keep)[0], weight / 2).values()]) * draws
    assert chisquare(counts, wrong).pvalue < 6e-7, "the test can fail"


def test_sampler_is_reproducible_and_keeps_the_size() -> None:
    reference = np.tile(np.arange(64) < 9, (3, 5, 1))
    model = SubsetMallows(64, 9, theta=0.1)
    first, second = (model.sample(reference, np.random.default_rng(3)) for _ in range(2))
    assert (first == second).all()
    assert first.shape == reference.shape
    assert (first.sum(axis=-1) == 9).all()
    assert (model.sample(reference, np.random.default_rng(4)) != first).any()
    assert (SubsetMallows(64, 9, theta=math.inf).sample(reference, np.random.default_rng(0)) == reference).all()


def test_budget_is_spent_exactly() -> None:
    theta = pruning.theta_for_budget(epsilon=0.01, dim=256, keep=26, steps=2500, groups=10_547)
    assert theta * pruning.index_sensitivity(256, 26) * 2500 * 10_547 == pytest.approx(0.01, rel=1e-14)


def test_budget_at_the_papers_setting() -> None:
    bought = pruning.index_budget(epsilon=0.01, dim=256, keep=26, steps=2500, groups=10_547)
    narrow = {"dim": np.int16(256), "keep": np.int8(26), "steps": np.int16(2500), "groups": np.int32(10_547)}
    assert pruning.index_budget(epsilon=0.01, **narrow) == bought  # type: ignore[arg-type]
    assert 1e-12 < bought.theta < 1e-11
    assert bought.retained_gain < 1e-11
    assert bought.total_variation < 1e-7


def test_tiny_budgets_keep_a_positive_bound() -> None:
    for epsilon in (1e-300, 1e-200, 1e-100):
        assert pruning.index_budget(epsilon=epsilon, dim=256, keep=26).total_variation > 0


def test_budget_bound_never_exceeds_its_pure_form() -> None:
    for epsilon in (1e-6, 0.1, 1.0, 10.0, 100.0):
        bound = pruning.index_budget(epsilon=epsilon, dim=4, keep=2).total_variation
        assert 0 < bound <= math.tanh(epsilon / 4)


def test_epsilon_of_a_pair() -> None:
    model = SubsetMallows(10, 3, theta=0.25)
    assert [model.epsilon(m) for m in (0, 2, 6)] == [0.0, 0.5, 1.5]
    assert SubsetMallows(10, 3, theta=math.inf).epsilon(0) == 0.0
    assert SubsetMallows(10, 3, theta=math.inf).epsilon(2) == math.inf


@pytest.mark.parametrize(
    ("epsilon", "distance"), [(40.0, 1), (700.0, 10**18), (1e-10, 52), (1.0, 52), (36.0, 1), (1e6, 7)]
)
def test_the_chance_of_a_budget_keeps_it(epsilon: float, distance: int) -> None:
    found = pruning.randomized_response_probability(epsilon=epsilon, distance=distance)
    assert pruning.randomized_response_epsilon(probability=found, distance=distance) <= epsilon
    larger = math.nextafter(found, 2.0)  # and hardly one above it does
    assert pruning.randomized_response_epsilon(probability=math.nextafter(larger, 1.0), distance=distance) > epsilon


def test_randomized_response_is_mallows_in_budget() -> None:
    theta = pruning.mallows_theta(0.7)
    assert pruning.randomized_response_epsilon(probability=0.7, distance=6) == pytest.approx(
        SubsetMallows(10, 3, theta=theta).epsilon(6), rel=1e-14
    )
    assert pruning.mallows_theta(0.5) == 0.0
    assert pruning.mallows_theta(1.0) == math.inf
    assert pruning.randomized_response_epsilon(probability=0.0, distance=1) == math.inf
    assert pruning.randomized_response_epsilon(probability=0.0, distance=0) == 0.0
    assert pruning.randomized_response_probability(epsilon=0.0, distance=3) == 0.5


_ROWS = np.tile(np.arange(4) < 2, (3, 1))
BAD = [
    (lambda: SubsetMallows(1, 1, theta=0.1), "dim"),
    (lambda: SubsetMallows(10**7 + 1, 1, theta=0.1), "dim"),
    (lambda: SubsetMallows(4, 0, theta=0.1), "keep"),
    (lambda: SubsetMallows(4, 4, theta=0.1), "keep"),
    (lambda: SubsetMallows(4, 2, theta=-1.0), "theta"),
    (lambda: SubsetMallows(4, 2, theta="a"), "theta"),  # type: ignore[arg-type]
    (lambda: SubsetMallows(4, 2, theta=0.1).epsilon(3), "distance"),
    (lambda: SubsetMallows(4, 2, theta=0.1).epsilon(6), "distance"),
    (lambda: SubsetMallows(4, 2, theta=0.1).epsilon(-2), "distance"),
    (lambda: SubsetMallows(4, 2, theta=0.1).sample(_ROWS[:, :3], np.random.default_rng()), "reference"),
    (lambda: SubsetMallows(4, 1, theta=0.1).sample(_ROWS, np.random.default_rng()), "reference"),
    (lambda: SubsetMallows(4, 2, theta=0.1).sample(_ROWS.astype(int), np.random.default_rng()), "reference"),
    (lambda: pruning.theta_for_budget(epsilon=0.0, dim=4, keep=2), "epsilon"),
    (lambda: pruning.theta_for_budget(epsilon=math.inf, dim=4, keep=2), "epsilon"),
    (lambda: pruning.theta_for_budget(epsilon=1.0, dim=4, keep=4), "keep"),
    (lambda: pruning.theta_for_budget(epsilon=1.0, dim=4, keep=2, steps=0), "steps"),
    (lambda: pruning.theta_for_budget(epsilon=1.0, dim=4, keep=2, steps=10**400), "steps"),
    (lambda: pruning.theta_for_budget(epsilon="1", dim=4, keep=2), "epsilon"),  # type: ignore[arg-type]
    (lambda: pruning.index_budget(epsilon="1", dim=4, keep=2), "epsilon"),  # type: ignore[arg-type]
    (lambda: SubsetMallows(4, 2, theta=0.1).sample(_ROWS, np.random), "rng"),  # type: ignore[arg-type]
    (lambda: pruning.theta_for_budget(epsilon=1.0, dim=4, keep=2, groups=0), "groups"),
    (lambda: pruning.index_budget(epsilon=-1.0, dim=4, keep=2), "epsilon"),
    (lambda: pruning.index_sensitivity(4, 5), "keep"),
    (lambda: pruning.index_sensitivity(0, 0), "dim"),
    (lambda: pruning.groups_of(dim=10, group_size=0), "group_size"),
    (lambda: pruning.groups_of(dim=10, group_size=3), "group_size"),
    (lambda: pruning.groups_of(dim=0, group_size=3), "dim"),
    (lambda: pruning.randomized_response_epsilon(probability=1.5, distance=1), "probability"),
    (lambda: pruning.randomized_response_epsilon(probability=0.5, distance=-1), "distance"),
    (lambda: pruning.randomized_response_probability(epsilon=-1.0, distance=1), "epsilon"),
    (lambda: pruning.randomized_response_probability(epsilon=1.0, distance=0), "distance"),
    (lambda: pruning.mallows_theta(0.4), "probability"),
]


@pytest.mark.parametrize(("call", "name"), BAD)
def test_bad_input_names_the_argument(call, name) -> None:  # type: ignore[no-untyped-def]
    with refused(name):
        call()


def test_groups_of_a_gradient() -> None:
    assert pruning.groups_of(dim=2_700_032, group_size=256) == 10_547
