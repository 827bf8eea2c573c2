"""Pruned gradients: their error, the index mechanism, private selection."""

import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import chisquare, norm
from typer.testing import CliRunner

from dptheory import gradients, pruning, sparsification
from dptheory.claims.gip import _finite
from dptheory.cli import app
from dptheory.errors import ArgumentError
from dptheory.pruning import (
    PruningComparison,
    SubsetMallows,
    compare_methods,
    random_k_mse,
    selection_gain_bound,
    top_k_energy,
    top_k_mse,
)
from dptheory.pruning._selection import _most_gain

# --- The calculators of pruned gradients against high precision, brute force and their own laws ---


DIMS = st.integers(2, 10**9)
SHARES = st.floats(0, 1)


def _keep(dim: int, share: float) -> int:
    return min(max(round(dim * share), 1), dim - 1)


def _reference_shares(dim: int, keep: int) -> tuple[float, float]:
    """E[H(U)] and E[1 - H(U)], integrated over the threshold itself by 480 Gauss points.

    The integrand has 40 digits, since the first loses 18 of them to cancellation; the rule is good to 1e-12.
    """
    from scipy.special import gammainccinv
    from scipy.stats import beta

    quantiles = (min(1 - 1e-300, beta.isf(1e-40, keep, dim - keep)), beta.ppf(1e-40, keep, dim - keep))
    low, high = (float(np.sqrt(2 * gammainccinv(0.5, q))) for q in quantiles)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    edges = np.linspace(low, high, 41)[:, None]
    points = (edges[1:] + edges[:-1]) / 2 + np.diff(edges, axis=0) / 2 * nodes
    lengths = np.diff(edges, axis=0) / 2 * weights
    lost = kept = mpmath.mpf(0)
    with mpmath.workdps(40):
        alpha, other = mpmath.mpf(dim - keep), mpmath.mpf(keep)
        log_beta = mpmath.log(mpmath.beta(alpha, other))
        for point, length in zip(points.flat, lengths.flat, strict=True):
            a = mpmath.mpf(float(point))
            u, v, density = mpmath.erf(a / mpmath.sqrt(2)), mpmath.erfc(a / mpmath.sqrt(2)), mpmath.npdf(a)
            law = mpmath.exp((alpha - 1) * mpmath.log(u) + (other - 1) * mpmath.log(v) - log_beta)
            mass = float(length) * law * 2 * density
            lost += mass * (u - 2 * a * density)
            kept += mass * (v + 2 * a * density)
    return float(lost), float(kept)


@pytest.mark.parametrize(
    ("dim", "keep"),
    [(2, 1), (3, 2), (10, 1), (10, 9), (100, 10), (1000, 999), (10**4, 5000), (10**6, 3), (10**6, 10**6 - 2)]
    + [(10**9, keep) for keep in (1, 10**8, 9 * 10**8, 10**9 - 7, 10**9 - 1)],
)
def test_top_k_has_nine_digits(dim: int, keep: int) -> None:
    lost, kept = _reference_shares(dim, keep)
    assert abs(float(pruning.top_k_mse(dim, keep, sigma_g=1.0)) / dim / lost - 1) < 1e-9
    assert abs(float(pruning.top_k_energy(dim, keep, sigma_g=1.0)) / dim / kept - 1) < 1e-9


@given(DIMS, SHARES)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_order_of_the_methods(dim: int, share: float) -> None:
    keep = _keep(dim, share)
    exact, asymptotic = (float(pruning.top_k_mse(dim, keep, sigma_g=1.0, method=m)) for m in ("exact", "asymptotic"))
    assert 0 <= asymptotic <= exact * (1 + 1e-12) <= float(pruning.random_k_mse(dim, keep, sigma_g=1.0)) * (1 + 2e-12)


@given(st.integers(3, 10**6), SHARES)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_more_kept_means_less_lost(dim: int, share: float) -> None:
    keep = min(_keep(dim, share), dim - 2)
    assert float(pruning.top_k_mse(dim, keep + 1, sigma_g=1.0)) < float(pruning.top_k_mse(dim, keep, sigma_g=1.0))


@pytest.mark.parametrize("dim", [1, 2, 17, 10**9])
def test_keeping_everything_loses_nothing(dim: int) -> None:
    for method in ("exact", "asymptotic"):
        assert float(pruning.top_k_mse(dim, dim, sigma_g=2.0, method=method)) == 0.0
        assert float(pruning.top_k_energy(dim, dim, sigma_g=2.0, method=method)) == 4.0 * dim
    assert float(pruning.random_k_mse(dim, dim, sigma_g=2.0)) == 0.0


def test_sigma_broadcasts_and_zero_sigma_gives_zero() -> None:
    sigma = np.array([[0.0, 1.0], [2.0, 3.0]])
    for value in (
        pruning.top_k_mse(10, 3, sigma_g=sigma),
        pruning.perturbed_top_k_mse(10, 3, theta=0.1, sigma_g=sigma),
    ):
        assert value.shape == (2, 2)
        assert value[0, 0] == 0.0
        assert value[1, 1] == pytest.approx(9 * value[0, 1])
    assert pruning.noise_mse(keep=3, clip_norm=sigma, noise_multiplier=2.0).tolist() == [[0.0, 12.0], [48.0, 108.0]]


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=9), st.data())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_mask_keeps_exactly_the_largest(values: list[int], data: st.DataObject) -> None:
    keep = data.draw(st.integers(0, len(values)))
    mask = pruning.top_k_mask(values, keep=keep)
    assert mask.sum() == keep
    best = max(sum(values[j] ** 2 for j in chosen) for chosen in itertools.combinations(range(len(values)), keep))
    assert int(np.square(values) @ mask) == best


def test_mask_breaks_ties_by_index_in_every_row() -> None:
    mask = pruning.top_k_mask([[1.0, -1.0, 1.0], [0.0, 2.0, 0.0]], keep=2)
    assert mask.tolist() == [[True, True, False], [True, True, False]]


def test_numpy_integers_are_as_good_as_python_integers() -> None:
    for kind in (np.int32, np.uint8, np.int64, np.uint64):
        assert pruning.retained_gain(kind(200), kind(20), theta=0.1) == pruning.retained_gain(200, 20, theta=0.1)
        assert pruning.cosine_ratio(kind(200), kind(20), theta=0.1) == pruning.cosine_ratio(200, 20, theta=0.1)
        assert float(pruning.top_k_mse(kind(200), kind(20), sigma_g=1.0)) == float(
            pruning.top_k_mse(200, 20, sigma_g=1.0)
        )
    assert pruning.retained_gain(np.int32(10**6), np.int32(5 * 10**5), theta=1e-7) == pytest.approx(5e-8, rel=1e-5)


def test_extremes_of_scale_stay_finite() -> None:
    for sigma_g in (1e-70, 1e70):
        for value in (
            pruning.top_k_mse(10**9, 1, sigma_g=sigma_g),
            pruning.noise_mse(keep=10**9, clip_norm=sigma_g, noise_multiplier=sigma_g),
        ):
            assert np.isfinite(value) and value > 0
    assert float(pruning.noise_mse(keep=0, clip_norm=1e70, noise_multiplier=1e70)) == 0.0


def test_keep_close_to_dim() -> None:
    dim = 10**9
    assert float(pruning.top_k_mse(dim, dim - 1, sigma_g=1.0, method="asymptotic")) <= float(
        pruning.top_k_mse(dim, dim - 1, sigma_g=1.0)
    )
    assert pruning.least_retained_gain(dim, dim - 1, method="asymptotic") == pytest.approx(0.5, rel=1e-9)


# --- The index mechanism against enumeration in fractions, and its sampler against its law ---


@pytest.mark.parametrize(("dim", "keep", "theta"), [(10**7, 10**6, 1e-9), (10**7, 5 * 10**6, 0.3), (10**7, 1, 5.0)])
def test_ten_million_entries(dim: int, keep: int, theta: float) -> None:
    model = SubsetMallows(dim, keep, theta=theta)
    log_pmf = model.swap_log_pmf()
    assert np.isfinite(log_pmf).all()
    assert np.exp(log_pmf).sum() == pytest.approx(1.0, rel=1e-9)
    assert 0 < model.retained_gain() <= 1
    if theta < 1e-6:
        assert model.retained_gain() == pytest.approx(2 * theta * keep * (dim - keep) / dim**2, rel=1e-4)


@pytest.mark.parametrize("theta", [1e-9, 1e-6, 3e-6, 1e-3, 1.0, 3.0])
def test_half_of_a_trillion_entries(theta: float) -> None:
    """In the limit i of K = d / 2 has the mean K / (1 + e^theta), around and beyond where the windows of two laws meet."""
    dim, keep = 10**12, 5 * 10**11
    assert pruning.retained_gain(dim, keep, theta=theta) == pytest.approx(math.tanh(theta / 2), rel=1e-11)
    swaps = pruning.SubsetMallows(dim, keep, theta=theta).mean_swaps()
    assert swaps == pytest.approx(keep / (1 + math.exp(theta)), rel=1e-11)


_SELECTION = {"zcdp_rho": 1.0, "groups": 1, "sigma_g": 1.0, "clip_norm": 1.0}
_QUANTILE = float(norm.isf(0.05))


@pytest.mark.parametrize(
    ("found", "limit"),
    [
        (lambda dim: pruning.expected_norm(dim, sigma_g=1.0), 1e6),
        (lambda dim: pruning.top_k_mse(dim, dim // 10, sigma_g=1.0) / dim, 0.9 - 2 * _QUANTILE * norm.pdf(_QUANTILE)),
        (lambda dim: pruning.cosine_ratio(dim, dim // 10, theta=0.0), math.sqrt(0.1)),
        (lambda dim: pruning.selection_gains(dim=dim, keep=1, noise_multiplier=1.0, **_SELECTION).released, 0.5),
        (lambda dim: pruning.selection_gain_bound(dim=dim, keep=1, **_SELECTION), 1.0),
        (lambda dim: sparsification.captured_energy(dim, dim // 10, snr=0.0), 0.1),
        (lambda dim: sparsification.largest_isotropic_kappa(dim=dim, drop_rate=0.75), 0.5),
        (
            lambda dim: sparsification.isotropic_kappa(
                grad_norm=1.0, dim=dim, clip_norm=0.1, drop_rate=0.75, deviation=1e-6
            ),
            0.5,
        ),
        (lambda dim: gradients.DistortionAngle(dim, snr=1e6).mean(), math.pi / 4),
        (lambda dim: gradients.DistortionAngle(dim, snr=1e6).expected_cos(), math.sqrt(0.5)),
        (lambda dim: gradients.angle_variance(dim, snr=1e6), 3.75e-13),
        (lambda dim: gradients.small_snr_slope(dim), 1e-6),
        (lambda dim: gradients.noise_norm_ratio(dim, dim // 4), 0.5),
        (lambda dim: gradients.mse_lower_bound(trace=1.0, dim=dim, noise_multiplier=1.0), 1e12),
        (lambda dim: gradients.kept_entries(dim=dim, drop_rate=0.9), 1e11),
        (
            lambda dim: gradients.gaussian_clip_moments(grad_norm=1.0, dim=dim, deviation=1e-6, clip_norm=1.0).slope,
            math.sqrt(0.5),
        ),
    ],
)
def test_a_trillion_entries(found: Callable[[int], float], limit: float) -> None:
    """Within 1e-10 of the limit of many entries, from which they are off by some 1 / dim."""
    assert float(found(10**12)) == pytest.approx(limit, rel=1e-10)


def test_a_trillion_entries_of_a_budget() -> None:
    found = pruning.index_budget(epsilon=1.0, dim=10**12, keep=3)
    assert found.theta == 1 / 6
    # three of a trillion: the odds to be kept are e^(2 theta) for each of three against all others together
    assert found.retained_gain == pytest.approx(3 * math.expm1(1 / 3) / 1e12, rel=1e-9)
    with pytest.raises(ArgumentError) as error:
        pruning.SubsetMallows(10**12, 10**9, theta=1.0).swap_pmf()
    assert (error.value.argument, error.value.value) == ("dim", 10**12)


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


# --- Private selections: limits, order, quadrature and the command line ---


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("ratio", [0.01, 0.4, 2.0, 30.0])
def test_noisy_magnitudes_by_quadrature(share: float, ratio: float) -> None:
    from scipy.optimize import brentq

    def part(t: float, weight: float) -> float:
        def integrand(x: float) -> float:
            return float(2 * norm.pdf(x) * (x * x - 1 if weight else 1) * norm.sf((t - x) / ratio))

        cuts = sorted({min(max(t + c * ratio, 0.0), 12.0) for c in (-4, -1, 0, 1, 4)})
        return float(quad(integrand, 0, 12, points=cuts, limit=300, epsabs=1e-13)[0])

    t = brentq(lambda t: part(t, 0) - share, -12 * ratio - 1, 12 + 12 * ratio, xtol=1e-13)
    a = norm.isf(share / 2)
    assert pruning.magnitude_gain(keep_share=share, noise_ratio=ratio) == pytest.approx(
        part(t, 1) / (2 * a * norm.pdf(a)), rel=1e-6
    )


@pytest.mark.parametrize("gain", [pruning.magnitude_gain, pruning.gumbel_gain])
def test_gain_falls_with_the_noise(gain) -> None:  # type: ignore[no-untyped-def]
    assert gain(keep_share=0.1, noise_ratio=0.0) == 1
    values = [gain(keep_share=0.1, noise_ratio=float(s)) for s in np.logspace(-4, 6, 30)]
    assert (np.diff(values) <= 1e-12).all() and 0 < values[-1] < 1e-5 and values[0] > 0.999


def test_noise_of_next_to_nothing_costs_no_gain() -> None:
    """Ratios below 1e-70 were refused by the name of an argument that the function does not have."""
    gains = pruning.selection_gains(
        zcdp_rho=1e-70, dim=256, keep=26, groups=10, sigma_g=1e70, clip_norm=1e-70, noise_multiplier=0.0
    )
    assert (gains.magnitude, gains.gumbel, gains.released) == (1.0, 1.0, 1.0) and 0.0 < gains.mallows < 1e-30


def test_command() -> None:
    run = CliRunner().invoke
    sizes = ["--dim", "64", "--keep", "6", "--steps", "10", "--groups", "3"]
    common = ["privacy", "index", *sizes, "--epsilon", "1", "--json"]
    plain = json.loads(run(app, common).output)
    assert plain["theta, basic composition"] < plain["theta, exact composition"]
    joint = json.loads(run(app, [*common, "--sampling-rate", "0.1", "--noise-multiplier", "4"]).output)
    assert joint["theta, values and indices of one sample (RDP)"] > joint["theta, exact composition"]
    assert run(app, [*common, "--sampling-rate", "0.1"]).exit_code == 2


@pytest.mark.parametrize("share", [0.5, 0.999, 0.99999])
def test_next_to_no_noise_costs_no_gain(share: float) -> None:
    for gain in (pruning.magnitude_gain, pruning.gumbel_gain):
        assert gain(keep_share=share, noise_ratio=1e-70) == pytest.approx(1.0, abs=1e-15 / (1 - share))


def test_one_entry_of_a_billion_keeps_the_largest_noise() -> None:
    """(noise^2 - 1) (E max x^2 - 1) on top of random-k; the difference of two errors of 1e9 lost seven digits of it."""
    dim = 10**9
    found = pruning.released_top_k_mse(dim, 1, sigma_g=1.0, noise_std=1e6) - (dim - 1 + 1e12)
    largest = 1.0 + found / (1e12 - 1.0)  # E max x^2
    assert largest == pytest.approx(float(pruning.top_k_energy(dim, 1, sigma_g=1.0)), rel=1e-12)


# --- What any private selection can retain: limits, order, scale
def _bound(rho: float, *, dim: int = 256, keep: int = 26, ratio: float = 0.3, clip_norm: float = 1.0) -> float:
    return selection_gain_bound(
        zcdp_rho=rho, dim=dim, keep=keep, groups=7, sigma_g=ratio * clip_norm, clip_norm=clip_norm
    )


def test_bound_rises_from_nothing_to_all() -> None:
    for dim, keep in ((2, 1), (256, 1), (256, 26), (256, 255), (10**9, 1), (10**9, 10**9 - 1)):
        bounds = [_bound(float(rho), dim=dim, keep=keep) for rho in np.logspace(-70, 70, 29)]
        assert (np.diff(bounds) >= 0).all() and bounds[-1] == 1, (dim, keep)
        assert 0 < bounds[0] < 1e-20, (dim, keep)


def test_bound_is_at_most_the_root_of_the_information() -> None:
    for dim, keep in ((256, 1), (256, 26), (256, 128), (256, 240)):
        gain = float(random_k_mse(dim, keep, sigma_g=1.0) - top_k_mse(dim, keep, sigma_g=1.0)) / dim
        for rho in (1e-20, 1e-3, 0.1, 1.0):
            nats = rho * (0.3 * math.sqrt(1 - 2 / math.pi) + 1 / math.sqrt(7 * dim)) ** 2
            assert _bound(rho, dim=dim, keep=keep) <= math.sqrt(nats) / gain * (1 + 1e-9), (dim, keep, rho)


def test_bound_depends_on_the_ratio_alone() -> None:
    assert _bound(0.1) == pytest.approx(_bound(0.1, clip_norm=1e-60), rel=1e-12)


def test_one_entry_kept_of_many() -> None:
    """What top-k gains is not the difference of two mean squared errors of the size of the group."""
    dim = 10**9
    for nats in (1e-20, 1e-9):
        rho = nats / (math.sqrt(1 - 2 / math.pi) * 0.3 + 1 / math.sqrt(7 * dim)) ** 2
        gain = float(top_k_energy(dim, 1, sigma_g=1.0) - 1) / dim
        assert _bound(rho, dim=dim, keep=1) == pytest.approx(_most_gain(1 / dim, nats) / gain, rel=1e-11, abs=0)


# --- Methods side by side: each number against the formula that the ledger checks ---


@pytest.mark.parametrize(("dim", "keep"), [(10, 3), (2_700_000, 270_000)])
@pytest.mark.parametrize(("sigma_g", "noise_std"), [(1.0, 1.0), (0.5, 2.0), (3.0, 0.25)])
def test_every_field(dim: int, keep: int, sigma_g: float, noise_std: float) -> None:
    pruned = float(pruning.top_k_mse(dim, keep, sigma_g=sigma_g))
    assert compare_methods(dim, keep, sigma_g=sigma_g, noise_std=noise_std) == PruningComparison(
        dp_sgd_mse=dim * noise_std**2,
        zero_update_mse=dim * sigma_g**2,
        random_k_mse=(dim - keep) * sigma_g**2 + keep * noise_std**2,
        top_k_mse=pruned + keep * noise_std**2,
        top_k_pruning_mse=pruned,
        least_retained_gain=pruning.least_retained_gain(dim, keep),
    )


def test_without_noise_only_pruning_is_left() -> None:
    found = compare_methods(100, 10, noise_std=0.0)
    assert found.dp_sgd_mse == 0.0 and found.top_k_mse == found.top_k_pruning_mse
    assert compare_methods(100, 10) == compare_methods(100, 10, sigma_g=1.0, noise_std=1.0)
