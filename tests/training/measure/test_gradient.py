"""The measuring: right on Gaussian vectors, alarmed on others, exact where it says so."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from dptheory.training.measure import GAUSSIAN, NONE, Fit, MeasureSettings, Row, measure_gradient
from tests.refused import refused

DIM = 8192
LAYERS = {"first": slice(0, 2000), "second": slice(2000, DIM)}


def settings(**changes: object) -> MeasureSettings:
    values = dict(keep_shares=(0.01, 0.1, 0.5, 0.9), draws=200, noise_multiplier=0.5, max_grad_norm=2.0)
    return MeasureSettings(**(values | changes))  # type: ignore[arg-type]


class Measured(NamedTuple):
    fit: Fit
    rows: tuple[Row, ...]


def measured(g: NDArray[np.float64], seed: int = 0, **changes: object) -> Measured:
    return Measured(*measure_gradient(g, LAYERS, settings(**changes), np.random.default_rng(seed)))


def gaussian(seed: int = 1) -> NDArray[np.float64]:
    return 0.2 * np.random.default_rng(seed).standard_normal(DIM)


def heavy_tailed() -> NDArray[np.float64]:
    return 0.1 * np.random.default_rng(1).standard_t(4, DIM)


def rows(of: Measured, assumption: str) -> list[Row]:
    return [row for row in of.rows if row.assumption == assumption]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_gaussian_vector_agrees(seed: int) -> None:
    result = measured(gaussian(seed), seed)
    off = [row.standard_errors_off for row in result.rows]
    assert None not in off
    assert max(abs(x) for x in off if x is not None) < 5


def test_heavy_tailed_vector_is_told_from_a_gaussian_one() -> None:
    off = {(r.quantity, r.setting): r.standard_errors_off or 0.0 for r in rows(measured(heavy_tailed()), GAUSSIAN)}
    for share in ("keep 0.01", "keep 0.1", "keep 0.5", "keep 0.9"):
        assert off["top_k_mse", share] < -5
        assert off["grouped_top_k_mse", share] < -5
    assert off["cosine_top_k", "keep 0.01"] > 5
    assert off["ks_distance", ""] > 5
    assert off["excess_kurtosis", ""] > 5


def test_exact_rows_hold_for_any_vector() -> None:
    for g in (heavy_tailed(), np.ones(DIM), np.where(np.arange(DIM) < 100, 3.0, 0.0)):
        off = [row.standard_errors_off for row in rows(measured(g), NONE)]
        assert max(abs(x) for x in off if x is not None) < 5
        assert sum(x is not None for x in off) >= 10


def test_every_quantity_once_for_each_keep() -> None:
    found = sorted((r.quantity, r.assumption) for r in measured(gaussian()).rows if r.setting == "keep 0.1")
    assert found == [
        ("cosine_random_k", GAUSSIAN),
        ("cosine_random_k", NONE),
        ("cosine_top_k", GAUSSIAN),
        ("cosine_top_k", NONE),
        ("grouped_top_k_mse", GAUSSIAN),
        ("random_k_mse", NONE),
        ("top_k_mse", GAUSSIAN),
    ]


def test_measured_top_k_mse_is_the_sum_of_the_smallest_squares() -> None:
    g = np.array([3.0, -1.0, 2.0, 0.5])
    result = Measured(
        *measure_gradient(g, {"all": slice(0, 4)}, settings(keep_shares=(0.25, 0.5, 1.0)), np.random.default_rng(0))
    )
    lost = [row.measured for row in result.rows if row.quantity == "top_k_mse"]
    assert lost == pytest.approx([1 + 4 + 0.25, 1 + 0.25, 0.0])
    assert not [row for row in result.rows if row.quantity == "grouped_top_k_mse"]


def test_grouped_top_k_prunes_within_groups_and_leaves_out_the_rest() -> None:
    g = np.ones(600)
    g[:256] = 5.0  # the first group is large throughout: top-k of the whole would keep all of it
    result = Measured(
        *measure_gradient(g, {"all": slice(0, 600)}, settings(keep_shares=(0.5,)), np.random.default_rng(0))
    )
    (row,) = [row for row in result.rows if row.quantity == "grouped_top_k_mse"]
    assert row.measured == pytest.approx(128 * 25 + 128)
    assert row.keep == 256


def test_fit() -> None:
    g = np.zeros(DIM)
    g[:2000], g[2000:4000] = 2.0, -1.0
    fit = measured(g).fit
    assert fit.sigma_g == pytest.approx(np.sqrt(10_000 / DIM))
    assert fit.grad_norm == pytest.approx(100.0)
    assert fit.zero_share == (DIM - 4000) / DIM
    assert fit.layer_sigmas == pytest.approx({"first": 2.0, "second": np.sqrt(2000 / (DIM - 2000))})
    assert fit.layer_sigma_spread == pytest.approx(2.0 / np.sqrt(2000 / (DIM - 2000)))
    assert fit.zero_update_mse == pytest.approx(10_000)
    assert fit.dp_sgd_mse == pytest.approx(DIM)
    assert fit.snr == pytest.approx(10_000 / DIM)


def test_layer_without_gradient_has_no_spread() -> None:
    g = gaussian()
    g[:2000] = 0.0
    assert measured(g).fit.layer_sigma_spread is None


def test_without_noise_the_cosines_are_the_retained_share() -> None:
    result = measured(gaussian(), noise_multiplier=0.0)
    assert result.fit.snr is None
    for row in rows(result, NONE):
        assert row.measured == pytest.approx(row.predicted, rel=0.02, abs=1e-9)
    (whole,) = [row for row in result.rows if row.quantity == "cosine_dp_sgd"]
    assert whole.measured == pytest.approx(1.0, abs=1e-12)


def test_sparse_vector_without_noise_gives_no_nan() -> None:
    g = np.zeros(DIM)
    g[7] = 1.0  # most random masks miss it: the update is zero
    result = measured(g, noise_multiplier=0.0)
    assert all(np.isfinite((r.predicted, r.measured, r.standard_error)).all() for r in result.rows)


def test_same_generator_same_result() -> None:
    assert measured(gaussian(), 3) == measured(gaussian(), 3)
    assert measured(gaussian(), 3) != measured(gaussian(), 4)


@pytest.mark.parametrize(
    ("gradient", "says"),
    [
        (np.zeros(DIM), "gradient 1e-70"),
        (np.ones((2, 3)), "gradient"),
        (np.array([]), "gradient"),
        (np.array([1.0, np.nan]), "gradient"),
        (np.array([1.0, np.inf]), "gradient"),
    ],
)
def test_bad_gradient(gradient: NDArray[np.float64], says: str) -> None:
    with refused(*says.split()):
        measured(gradient)


def test_keep_share_that_keeps_nothing() -> None:
    with refused("keep_shares", "8192", "1e-05"):
        measured(gaussian(), keep_shares=(1e-5,))


def test_no_layers() -> None:
    with refused("layers"):
        measure_gradient(gaussian(), {}, settings(), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"keep_shares": ()}, "keep_shares"),
        ({"keep_shares": (0.1, 0.0)}, "keep_shares 0.1 0.0"),
        ({"keep_shares": (1.1,)}, "keep_shares 1.1"),
        ({"keep_shares": (float("nan"),)}, "keep_shares"),
        ({"draws": 1}, "draws 2..1000000000 1"),
        ({"noise_multiplier": -0.1}, "noise_multiplier -0.1"),
        ({"max_grad_norm": 0.0}, "max_grad_norm 0.0"),
    ],
)
def test_bad_settings(change: dict[str, object], says: str) -> None:
    with refused(*says.split()):
        settings(**change)
