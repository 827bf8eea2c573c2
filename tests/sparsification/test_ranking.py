"""Energy captured by ranked masks against closed forms, high precision and simulation."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptheory import pruning, sparsification
from tests.named import in_order
from tests.refused import refused

RATES = st.floats(1e-6, 1)
SNRS = st.floats(0, 1e3)


def test_two_entries() -> None:
    assert sparsification.captured_energy(2, 1, snr=1.0) == pytest.approx(0.5 + 1 / (2 * math.pi), rel=1e-13)
    assert sparsification.captured_energy(2, 1, snr=math.inf) == pytest.approx(0.5 + 1 / math.pi, rel=1e-13)


def test_without_signal_every_mask_is_random() -> None:
    assert sparsification.captured_energy(100, 30, snr=0.0) == 0.3
    assert sparsification.signed_captured_energy(keep_share=0.3, snr=0.0) == 0.3
    assert sparsification.sparse_captured_energy(keep_share=0.3, snr=0.0, nonzero_share=0.1) == pytest.approx(
        0.3, rel=1e-12
    )


def test_without_noise_it_is_top_k() -> None:
    assert sparsification.captured_energy(50, 7, snr=math.inf) == float(pruning.top_k_energy(50, 7, sigma_g=1.0)) / 50


@given(st.integers(1, 10**6), st.floats(0, 1), SNRS, SNRS)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_between_random_and_top_k(dim: int, share: float, one: float, other: float) -> None:
    keep = min(max(round(dim * share), 1), dim)
    low, high = sorted((one, other))
    values = [sparsification.captured_energy(dim, keep, snr=snr) for snr in (low, high, math.inf)]
    assert keep / dim - 1e-12 <= values[0] <= values[1] + 1e-12 <= values[2] + 2e-12 <= 1 + 3e-12


@given(st.floats(0.001, 0.999), SNRS)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_signed_sort_mirrors_at_one_half(rate: float, snr: float) -> None:
    # y phi(y) is odd in y: what the sort gains at x it loses at 1 - x
    gain = sparsification.signed_captured_energy(keep_share=rate, snr=snr) - rate
    loss = sparsification.signed_captured_energy(keep_share=1 - rate, snr=snr) - (1 - rate)
    assert gain == pytest.approx(-loss, abs=1e-12)
    assert gain * (0.5 - rate) >= -1e-15
    two_sided = sparsification.sparse_captured_energy(keep_share=rate, snr=min(snr, 1e6), nonzero_share=1.0)
    assert sparsification.signed_captured_energy(keep_share=rate, snr=snr) <= two_sided + 1e-12


@pytest.mark.parametrize("rate", [1e-12, 1e-3, 0.1, 0.5, 0.9, 1 - 1e-9])
@pytest.mark.parametrize("snr", [1e-3, 0.3, 10.0, 1e6])
@pytest.mark.parametrize("density", [1e-9, 0.01, 0.5, 1.0])
def test_sparse_signal_has_nine_digits(rate: float, snr: float, density: float) -> None:
    with mpmath.workdps(60):
        q = mpmath.mpf(density)
        spread = mpmath.sqrt(1 + mpmath.mpf(snr) ** 2 / q)
        tail = lambda y: mpmath.erfc(y / mpmath.sqrt(2))  # noqa: E731
        low, high = mpmath.mpf(0), mpmath.mpf(50) * spread
        for _ in range(300):
            y = (low + high) / 2
            low, high = (y, high) if q * tail(y / spread) + (1 - q) * tail(y) > rate else (low, y)
        u = y / spread
        exact = tail(u) + 2 * (1 - spread**-2) * u * mpmath.npdf(u)
    assert (
        abs(sparsification.sparse_captured_energy(keep_share=rate, snr=snr, nonzero_share=density) / exact - 1) < 1e-9
    )


@given(RATES, st.floats(0, 1e3), st.floats(1e-6, 1))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_sparse_signal_is_found_at_least_as_well_as_at_random(rate: float, snr: float, density: float) -> None:
    assert (
        rate * (1 - 1e-12)
        <= sparsification.sparse_captured_energy(keep_share=rate, snr=snr, nonzero_share=density)
        <= 1 + 1e-12
    )


def test_one_non_zero_share_is_the_dense_formula() -> None:
    dense = sparsification.captured_energy(10**9, 10**8, snr=0.7)
    assert sparsification.sparse_captured_energy(keep_share=0.1, snr=0.7, nonzero_share=1.0) == pytest.approx(
        dense, rel=1e-7
    )


def test_keeping_everything_keeps_everything() -> None:
    assert sparsification.captured_energy(5, 5, snr=1.0) == pytest.approx(1.0, rel=1e-15)
    assert (
        sparsification.signed_captured_energy(keep_share=1.0, snr=1.0)
        == sparsification.sparse_captured_energy(keep_share=1.0, snr=1.0, nonzero_share=0.1)
        == 1.0
    )


def test_signed_sort_of_finite_vectors_comes_near_the_limit() -> None:
    rng = np.random.default_rng(0)
    signal, noise = rng.standard_normal((2, 400, 2000))
    order = np.argsort(signal + noise, axis=1)[:, -1400:]
    kept = np.square(np.take_along_axis(signal, order, axis=1)).sum(axis=1) / 2000
    error = kept.std(ddof=1) / math.sqrt(kept.size)
    assert abs(kept.mean() - sparsification.signed_captured_energy(keep_share=0.7, snr=1.0)) < 5 * error
    assert abs(kept.mean() - 0.7) > 20 * error


BAD = [
    (sparsification.captured_energy, (0, 1, 1.0), "dim"),
    (sparsification.captured_energy, (10, 0, 1.0), "keep"),
    (sparsification.captured_energy, (10, 11, 1.0), "keep"),
    (sparsification.captured_energy, (10, 1, -1.0), "snr"),
    (sparsification.signed_captured_energy, (0.0, 1.0), "keep_share"),
    (sparsification.signed_captured_energy, (0.5, -1.0), "snr"),
    (sparsification.sparse_captured_energy, (1.1, 1.0, 0.5), "keep_share"),
    (sparsification.sparse_captured_energy, (0.5, math.inf, 0.5), "snr"),
    (sparsification.sparse_captured_energy, (0.5, 1.0, 0.0), "nonzero_share"),
]


@pytest.mark.parametrize(("function", "arguments", "name"), BAD, ids=lambda x: getattr(x, "__name__", str(x)))
def test_bad_input_names_the_argument(function, arguments, name) -> None:  # type: ignore[no-untyped-def]
    with refused(name):
        in_order(function, arguments)
