"""The calculators of pruned gradients against high precision, brute force and their own laws."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptheory import pruning
from tests.named import in_order
from tests.refused import refused

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


def test_two_entries() -> None:
    assert float(pruning.top_k_mse(2, 1, sigma_g=1.0)) == pytest.approx(1 - 2 / math.pi, rel=1e-14)


def test_smallest_of_dim_is_known_for_keep_dim_minus_one() -> None:
    # min of two squares again, now as the energy lost by keeping 1 of 2, scaled by sigma_g^2
    assert float(pruning.top_k_mse(2, 1, sigma_g=3.0)) == pytest.approx(9 * (1 - 2 / math.pi), rel=1e-14)


@given(DIMS, SHARES)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_order_of_the_methods(dim: int, share: float) -> None:
    keep = _keep(dim, share)
    exact, asymptotic = (float(pruning.top_k_mse(dim, keep, sigma_g=1.0, method=m)) for m in ("exact", "asymptotic"))
    assert 0 <= asymptotic <= exact * (1 + 1e-12) <= float(pruning.random_k_mse(dim, keep, sigma_g=1.0)) * (1 + 2e-12)


@given(st.integers(2, 10**6), SHARES, st.floats(1e-6, 1e6), st.floats(1e-3, 1e3))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_scaling_laws(dim: int, share: float, sigma_g: float, factor: float) -> None:
    keep = _keep(dim, share)
    for function in (pruning.top_k_mse, pruning.random_k_mse, pruning.top_k_energy):
        assert float(function(dim, keep, sigma_g=factor * sigma_g)) == pytest.approx(
            factor**2 * float(function(dim, keep, sigma_g=sigma_g)), rel=1e-12
        )
    assert float(pruning.expected_norm(dim, sigma_g=factor * sigma_g)) == pytest.approx(
        factor * float(pruning.expected_norm(dim, sigma_g=sigma_g)), rel=1e-12
    )
    assert pruning.beta(clip_norm=factor, keep=1, dim=3, theta=0.5) == pytest.approx(
        factor**2 * pruning.beta(clip_norm=1.0, keep=1, dim=3, theta=0.5), rel=1e-12
    )


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


@pytest.mark.parametrize(("dim", "keep"), [(2, 1), (10, 3), (256, 26)])
def test_limits_in_theta(dim: int, keep: int) -> None:
    none, full = (float(pruning.perturbed_top_k_mse(dim, keep, theta=theta, sigma_g=1.0)) for theta in (0.0, math.inf))
    assert none == pytest.approx(float(pruning.random_k_mse(dim, keep, sigma_g=1.0)), rel=1e-14)
    assert full == pytest.approx(float(pruning.top_k_mse(dim, keep, sigma_g=1.0)), rel=1e-14)
    assert pruning.beta(clip_norm=2.0, keep=keep, dim=dim, theta=0.0) == pytest.approx(4.0, rel=1e-14)


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


def test_cosine_of_given_norms() -> None:
    assert (
        pruning.pruned_cosine(grad_norm=2.0, retained_norm=1.0, keep=5, noise_std=0.0) == 0.5
    )  # no noise: what is left is the retained share
    assert pruning.pruned_cosine(grad_norm=2.0, retained_norm=0.0, keep=5, noise_std=1.0) == 0.0
    everything = pruning.pruned_cosine(grad_norm=3.0, retained_norm=3.0, keep=100, noise_std=1.0)
    assert everything == pytest.approx(3 / math.sqrt(100 + 9), rel=0.01)


@given(st.integers(2, 10**6), SHARES)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_break_even_gain_solves_its_equation(dim: int, share: float) -> None:
    keep = _keep(dim, share)
    needed = pruning.least_retained_gain(dim, keep)
    top, random = (pruning.cosine_ratio(dim, keep, theta=theta) for theta in (math.inf, 0.0))
    assert random + needed * (top - random) == pytest.approx(1.0, rel=1e-8)


def test_the_papers_landmarks() -> None:
    gains = [pruning.least_retained_gain(10**6, keep, method="asymptotic") for keep in range(1000, 10**6, 1000)]
    assert min(gains) == pytest.approx(0.478, abs=5e-4)
    assert (int(np.argmin(gains)) + 1) / 1000 == pytest.approx(0.65, abs=0.01)
    assert pruning.least_retained_gain(10**6, 18_500, method="asymptotic") > 1
    assert pruning.least_retained_gain(10**6, 18_700, method="asymptotic") < 1


def test_numpy_integers_are_as_good_as_python_integers() -> None:
    for kind in (np.int32, np.uint8, np.int64, np.uint64):
        assert pruning.retained_gain(kind(200), kind(20), theta=0.1) == pruning.retained_gain(200, 20, theta=0.1)
        assert pruning.cosine_ratio(kind(200), kind(20), theta=0.1) == pruning.cosine_ratio(200, 20, theta=0.1)
        assert float(pruning.top_k_mse(kind(200), kind(20), sigma_g=1.0)) == float(
            pruning.top_k_mse(200, 20, sigma_g=1.0)
        )
    assert pruning.retained_gain(np.int32(10**6), np.int32(5 * 10**5), theta=1e-7) == pytest.approx(5e-8, rel=1e-5)


def test_groups_count_for_the_noise_and_not_for_the_gain() -> None:
    assert pruning.cosine_ratio(256, 26, theta=0.5, groups=10_547) == pytest.approx(0.4484, abs=1e-4)
    assert pruning.cosine_ratio(256, 26, theta=0.5) == pytest.approx(0.4446, abs=1e-4)
    assert pruning.least_retained_gain(256, 26, groups=10_547) == pytest.approx(0.6402, abs=1e-4)


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


NAN, INF = math.nan, math.inf
BAD = [
    (pruning.top_k_mse, (10, 1, 1e200), "sigma_g"),
    (pruning.top_k_mse, (10, 1, 1e-170), "sigma_g"),
    (pruning.top_k_mse, (10, 1, 10**400), "sigma_g"),
    (pruning.top_k_mse, (10, 1, "2"), "sigma_g"),
    (pruning.top_k_mse, (10, 1, True), "sigma_g"),
    (pruning.top_k_mse, (10, 1, 2 + 1j), "sigma_g"),
    (pruning.top_k_mse, (10, 1, np.complex128(2 + 1j)), "sigma_g"),
    (pruning.top_k_mse, (10, 1, np.datetime64("2020-01-01")), "sigma_g"),
    (pruning.top_k_mse, (10, 1, [[1.0], [1.0, 2.0]]), "sigma_g"),
    (pruning.top_k_mse, (10, 1, np.ma.masked_array([1.0, 2.0], [True, False])), "sigma_g"),
    (pruning.top_k_mse, (10, 1, None), "sigma_g"),
    (pruning.top_k_mse, (10, 1, 1.0, None), "method"),
    (pruning.beta, (10, 1, 1.0, 1e155), "clip_norm"),
    (pruning.retained_gain, (10, 1, "0.5"), "theta"),
    (pruning.retained_gain, (10, 1, [0.5]), "theta"),
    (pruning.top_k_mse, (0, 1, 1.0), "dim"),
    (pruning.top_k_mse, (10, 0, 1.0), "keep"),
    (pruning.top_k_mse, (10, 11, 1.0), "keep"),
    (pruning.top_k_mse, (10, 2.5, 1.0), "keep"),
    (pruning.top_k_mse, (10, True, 1.0), "keep"),
    (pruning.top_k_mse, (10**9 + 1, 1, 1.0), "dim"),
    (pruning.top_k_mse, (10, 1, -1.0), "sigma_g"),
    (pruning.top_k_mse, (10, 1, [1.0, INF]), "sigma_g"),
    (pruning.top_k_mse, (10, 1, "x"), "sigma_g"),
    (pruning.top_k_mse, (10, 1, 1.0, "fast"), "method"),
    (pruning.top_k_mse, (10, 10, 1.0, "fast"), "method"),
    (pruning.top_k_energy, (10, 0, 1.0), "keep"),
    (pruning.random_k_mse, (10, 0, 1.0), "keep"),
    (pruning.noise_mse, (-1, 1.0, 1.0), "keep"),
    (pruning.noise_mse, (1, -1.0, 1.0), "clip_norm"),
    (pruning.zero_update_mse, (0, 1.0), "dim"),
    (pruning.zero_update_mse, (1, -1.0), "sigma_g"),
    (pruning.expected_norm, (0, 1.0), "dim"),
    (pruning.expected_norm, (1, -1.0), "sigma_g"),
    (pruning.retained_gain, (10, 10, 1.0), "keep"),
    (pruning.retained_gain, (1, 1, 1.0), "dim"),
    (pruning.retained_gain, (10**8, 1, 1.0), "dim"),
    (pruning.retained_gain, (10, 1, -0.1), "theta"),
    (pruning.perturbed_top_k_mse, (10, 1, 1.0, -1.0), "sigma_g"),
    (pruning.perturbed_top_k_mse, (10, 1, 1.0, 1.0, "printed"), "method"),
    (pruning.beta, (10, 1, 1.0, 0.0), "clip_norm"),
    (pruning.beta, (10, 10, 1.0, 1.0), "keep"),
    (pruning.pruned_cosine, (0.0, 0.0, 1, 1.0), "grad_norm"),
    (pruning.pruned_cosine, (1.0, 2.0, 1, 1.0), "retained_norm"),
    (pruning.pruned_cosine, (1.0, 1.0, 0, 1.0), "keep"),
    (pruning.pruned_cosine, (1.0, 1.0, 1, -1.0), "noise_std"),
    (pruning.pruned_cosine, (1.0, 1.0, 1, INF), "noise_std"),
    (pruning.cosine_ratio, (10, 10, 1.0), "keep"),
    (pruning.cosine_ratio, (10, 1, 1.0, "fast"), "method"),
    (pruning.cosine_ratio, (10, 1, 1.0, "exact", 0), "groups"),
    (pruning.least_retained_gain, (10, 1, "exact", 10**9), "groups"),
    (pruning.least_retained_gain, (10, 10), "keep"),
    (pruning.least_retained_gain, (1, 1), "dim"),
    (pruning.least_retained_gain, (10, 1, "fast"), "method"),
    (pruning.top_k_mask, ([1.0, NAN], 1), "gradient"),
    (pruning.top_k_mask, ([1.0, 2.0], 3), "keep"),
    (pruning.top_k_mask, (1.0, 1), "gradient"),
]


@pytest.mark.parametrize(("function", "arguments", "name"), BAD, ids=lambda x: getattr(x, "__name__", str(x)))
def test_bad_input_names_the_argument(function, arguments, name) -> None:  # type: ignore[no-untyped-def]
    with refused(name):
        in_order(function, arguments)
