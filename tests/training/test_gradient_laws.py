"""Every row of a measurement, against a direct computation on a small vector."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from dptheory import pruning
from dptheory.training.measure import GAUSSIAN, NONE, Fit, MeasureSettings, Row, measure_gradient
from tests.refused import refused

DIM, DRAWS, SIGMA, CLIP = 700, 9, 1.5, 0.4
RATIOS = (0.1, 0.003, 1.0, 0.5)
KEEPS = (70, 2, 700, 350)
G = np.random.default_rng(8).standard_t(4, DIM) * 0.3
ENERGY = float(np.sum(G**2))
SETTINGS = MeasureSettings(RATIOS, draws=DRAWS, noise_multiplier=SIGMA, max_grad_norm=CLIP)
STD = SIGMA * CLIP
WHOLE = ("ks_distance", "excess_kurtosis", "noise_mse", "cosine_dp_sgd")
"""Of all entries."""
Expected = tuple[str, float, int, float, float, float, str]


def spread(values: np.ndarray) -> float:
    return float(np.sqrt(np.sum((values - values.mean()) ** 2) / (len(values) - 1)))


def smallest(v: np.ndarray, keep: int) -> float:
    """Energy of all but the ``keep`` largest."""
    return float(np.sum(np.sort(v**2)[: len(v) - keep]))


def smallest_of_groups(v: np.ndarray, keep: int) -> float:
    return sum(smallest(v[start : start + 256], keep) for start in (0, 256))


def distance(v: np.ndarray, sigma: float) -> float:
    return float(stats.kstest(v / sigma, "norm").statistic)


def kurtosis(v: np.ndarray, sigma: float) -> float:
    return float(np.mean((v / sigma) ** 4) - 3)


def cosine(retained: float, keep: int) -> float:
    """Expected cosine of g with the noisy kept part, from the energy that is kept."""
    norm = math.sqrt(ENERGY)
    return pruning.pruned_cosine(
        grad_norm=norm, retained_norm=min(math.sqrt(max(retained, 0.0)), norm), keep=keep, noise_std=STD
    )


def expected() -> list[Expected]:
    rng = np.random.default_rng(4)
    sigma = math.sqrt(ENERGY / DIM)
    sphere = []
    for _ in range(DRAWS):
        v = rng.standard_normal(DIM)
        sphere.append(v / np.linalg.norm(v) * math.sqrt(ENERGY))
    rows: list[Expected] = []
    spreads = []
    for ratio, keep in zip(RATIOS, KEEPS, strict=True):
        spreads.append(spread(np.array([smallest(v, keep) for v in sphere])))
        predicted = float(pruning.top_k_mse(DIM, keep, sigma_g=sigma))
        rows.append(("top_k_mse", ratio, keep, predicted, smallest(G, keep), spreads[-1], GAUSSIAN))
    for ratio, keep in ((0.1, 26), (0.003, 1), (1.0, 256), (0.5, 128)):
        under = spread(np.array([smallest_of_groups(v, keep) for v in sphere]))
        predicted = 2 * float(pruning.top_k_mse(256, keep, sigma_g=sigma))
        rows.append(("grouped_top_k_mse", ratio, 2 * keep, predicted, smallest_of_groups(G, keep), under, GAUSSIAN))
    for name, statistic in (("ks_distance", distance), ("excess_kurtosis", kurtosis)):
        under = np.array([statistic(v, sigma) for v in sphere])
        rows.append((name, 1.0, DIM, under.mean(), statistic(G, sigma), spread(under), GAUSSIAN))

    top = np.argsort(-np.abs(G), kind="stable")
    noises, orders = [], []
    for _ in range(DRAWS):
        noises.append(STD * rng.standard_normal(DIM))
        orders.append(rng.permutation(G))

    def angle(g: np.ndarray, noise: np.ndarray, keep: int) -> float:
        released = (g + noise) * (np.arange(DIM) < keep)
        return float(released @ g / (np.linalg.norm(released) * np.linalg.norm(g)))

    def row(name: str, ratio: float, keep: int, predicted: float, draws: np.ndarray, said: str = NONE) -> Expected:
        return name, ratio, keep, predicted, float(draws.mean()), spread(draws) / 3.0, said

    squares = np.array([np.sum(noise**2) for noise in noises])
    rows.append(row("noise_mse", 1.0, DIM, DIM * STD**2, squares))
    whole = np.array([angle(G[top], noise, DIM) for noise in noises])
    rows.append(row("cosine_dp_sgd", 1.0, DIM, cosine(ENERGY, DIM), whole))
    for place, (ratio, keep) in enumerate(zip(RATIOS, KEEPS, strict=True)):
        lost = np.array([np.sum(order[keep:] ** 2) for order in orders])
        largest = np.array([angle(G[top], noise, keep) for noise in noises])
        random = np.array([angle(order, noise, keep) for order, noise in zip(orders, noises, strict=True)])
        given = np.array([cosine(ENERGY - part, keep) for part in lost])
        fitted = float(pruning.top_k_energy(DIM, keep, sigma_g=sigma))
        swing = cosine(fitted + spreads[place], keep) - cosine(fitted - spreads[place], keep)
        both = math.hypot(spread(largest) / 3.0, swing / 2)
        random_mse = (1 - keep / DIM) * ENERGY
        rows += [
            row("random_k_mse", ratio, keep, random_mse, lost),
            row("cosine_top_k", ratio, keep, cosine(ENERGY - smallest(G, keep), keep), largest),
            ("cosine_top_k", ratio, keep, cosine(fitted, keep), float(largest.mean()), both, GAUSSIAN),
            ("cosine_random_k", ratio, keep, float(given.mean()), float(random.mean()), spread(random - given) / 3.0, NONE),
            row("cosine_random_k", ratio, keep, cosine(ENERGY - random_mse, keep), random, GAUSSIAN),
        ]  # fmt: skip
    return rows


def test_every_row() -> None:
    fit, rows = measure_gradient(G, {"a": slice(0, 300), "b": slice(300, DIM)}, SETTINGS, np.random.default_rng(4))
    wanted = expected()
    settings = [f"keep {one[1]:g}" if one[0] not in WHOLE else "" for one in wanted]
    assert [(row.quantity, row.setting, row.keep, row.assumption) for row in rows] == [
        (one[0], setting, one[2], one[6]) for one, setting in zip(wanted, settings, strict=True)
    ]
    for row, one in zip(rows, wanted, strict=True):
        np.testing.assert_allclose(
            [row.predicted, row.measured, row.standard_error], one[3:6], rtol=1e-9, atol=1e-9, err_msg=str(one)
        )
    assert (fit.dim, fit.zero_share) == (DIM, 0.0)
    np.testing.assert_allclose(
        [fit.grad_norm, fit.sigma_g, fit.zero_update_mse, fit.dp_sgd_mse, fit.snr],
        [math.sqrt(ENERGY), math.sqrt(ENERGY / DIM), ENERGY, DIM * STD**2, ENERGY / DIM / STD**2],
    )
    sizes = [float(np.sqrt(np.mean(part**2))) for part in (G[:300], G[300:])]
    assert list(fit.layer_sigmas.values()) == pytest.approx(sizes)
    assert fit.layer_sigma_spread == pytest.approx(max(sizes) / min(sizes))


def test_fewer_entries_than_a_group_and_ratios_that_keep_none_of_one() -> None:
    def kept(dim: int, ratios: tuple[float, ...]) -> list[int]:
        settings = MeasureSettings(ratios, draws=2, noise_multiplier=SIGMA, max_grad_norm=CLIP)
        _, found = measure_gradient(np.arange(1.0, dim + 1), {"a": slice(0, dim)}, settings, np.random.default_rng(0))
        return [row.keep for row in found if row.quantity == "grouped_top_k_mse"]

    assert kept(255, (0.5,)) == [] and kept(256, (0.5,)) == [128] and kept(511, (0.5,)) == [128]
    assert kept(700, (0.0015, 0.0025)) == [2]  # .38 and .64 of 256


def test_without_noise() -> None:
    fit, _ = measure_gradient(
        G,
        {"a": slice(0, DIM)},
        MeasureSettings((0.5,), draws=3, noise_multiplier=0.0, max_grad_norm=CLIP),
        np.random.default_rng(0),
    )
    assert fit.dp_sgd_mse == 0.0 and fit.snr is None
    sparse = np.zeros(300)
    sparse[0] = 1.0
    _, rows = measure_gradient(
        sparse,
        {"a": slice(0, 300)},
        MeasureSettings((0.3,), draws=40, noise_multiplier=0.0, max_grad_norm=CLIP),
        np.random.default_rng(0),
    )
    random = [row for row in rows if row.quantity == "cosine_random_k" and row.assumption == NONE]
    assert 0.1 < random[0].measured < 0.6 and random[0].measured == pytest.approx(random[0].predicted, abs=1e-6)


def test_a_gradient_that_can_be_measured() -> None:
    def take(value: float) -> None:
        g = np.zeros(16)
        g[3] = value
        measure_gradient(
            g,
            {"a": slice(0, 16)},
            MeasureSettings((1.0,), draws=2, noise_multiplier=0.0, max_grad_norm=CLIP),
            np.random.default_rng(0),
        )

    take(4.001e-70), take(-1e70)  # a quarter of it is the root mean square
    for bad in (3.999e-70, 0.0, 1.01e70):
        with refused("gradient"):
            take(bad)
    measure_gradient(
        np.full(16, 1e-70),
        {"a": slice(0, 16)},
        MeasureSettings((1.0,), draws=2, noise_multiplier=0.0, max_grad_norm=CLIP),
        np.random.default_rng(0),
    )
    with refused("gradient"):
        measure_gradient(np.ones((2, 5)), {"a": slice(0, 10)}, SETTINGS, np.random.default_rng(0))
    with refused("gradient"):
        measure_gradient([], {"a": slice(0, 10)}, SETTINGS, np.random.default_rng(0))
    for layers in ({}, {"a": 3}, {"a": slice(0, 3), "b": 3}, [slice(0, 3)]):
        with refused("layers"):
            measure_gradient(G, layers, SETTINGS, np.random.default_rng(0))
    assert SETTINGS.sum_noise_std == STD


def test_ratios_of_rows() -> None:
    row = Row(group="g", quantity="q", claims="c", keep=3, predicted=2.0, measured=3.0, standard_error=0.25)
    assert (row.ratio, row.standard_errors_off) == (1.5, 4.0)
    for predicted, ratio in ((0.25, None), (-0.25, None), (0.251, 3 / 0.251), (-0.251, -3 / 0.251)):
        assert dataclasses.replace(row, predicted=predicted).ratio == ratio
    for error, off in ((3e-12, None), (3.1e-12, 1 / 3.1e-12), (0.0, None)):
        found = dataclasses.replace(row, standard_error=error).standard_errors_off
        assert found is None if off is None else found == pytest.approx(off)
    assert dataclasses.replace(row, standard_error=3.2e-12, measured=-3.0).standard_errors_off is not None


def test_the_spread_of_layers() -> None:
    fit = Fit(
        dim=3,
        grad_norm=1.0,
        sigma_g=1.0,
        layer_sigmas={"a": 0.5, "b": 4.0, "c": 1.0},
        zero_share=0.0,
        zero_update_mse=1.0,
        dp_sgd_mse=1.0,
        snr=None,
    )
    assert fit.layer_sigma_spread == 8.0
    assert dataclasses.replace(fit, layer_sigmas={"a": 0.0, "b": 1.0}).layer_sigma_spread is None
