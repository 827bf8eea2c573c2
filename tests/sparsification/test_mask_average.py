"""The bracket of E[f(Y)] and the parts that it is made of, against enumeration."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import hypergeom

from dptheory.sparsification import _mask_average

Array = np.ndarray
ROUNDING = 1 + 1e-11


def _population(rng: np.random.Generator, kind: int, dim: int) -> Array:
    p = (
        rng.random(dim),
        rng.random(dim) ** 8,
        rng.integers(0, 3, dim) + np.eye(1, dim)[0],
        np.exp(4 * rng.normal(size=dim)),
        np.where(rng.random(dim) < 0.3, rng.random(dim), 0.0) + np.eye(1, dim)[0] * 1e-3,
        np.r_[1.0, np.full(dim - 1, 1e-6)],
    )[kind]
    return np.sort(p / p.sum())


def _every_sum(p: Array, keep: int) -> Array:
    return np.array([sum(c) for c in itertools.combinations(p.tolist(), keep)])


@pytest.mark.parametrize("kind", range(6))
def test_the_exact_mean_lies_in_the_bracket_for_all_levels_and_cells(
    kind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, widest = np.random.default_rng(kind), 0.0
    for _ in range(60):
        dim = int(rng.integers(2, 12))
        keep, p = int(rng.integers(1, dim + 1)), _population(rng, kind, dim)
        shares, x = _mask_average.Shares(p), keep / dim
        scale = float(rng.choice([1 + 1e-9, 1.5, 10.0, 1e3, 1e20, 1 / math.sqrt(x), 1 + math.exp(2 * rng.normal())]))
        exact = float(_mask_average.descent(_every_sum(p, keep), scale).mean())
        found = _mask_average.mean_descent(shares, keep, scale)
        assert found.low <= exact * ROUNDING and exact <= found.high * ROUNDING
        assert x <= found.low * ROUNDING and found.high <= min(x * scale, math.sqrt(x)) * ROUNDING
        if not 1 < keep < dim:
            continue
        for spread, width in itertools.product((math.inf, 0.3, 0.006), (0.01, 0.3, 5.0)):
            monkeypatch.setattr(_mask_average, "_SINGLE", int(rng.integers(0, 4)))
            one = _mask_average._by_levels(shares, keep, scale, _mask_average._cuts(shares, keep, scale, spread), width)
            assert one.low <= exact * ROUNDING and exact <= one.high * ROUNDING
            widest = max(widest, one.half_width / exact)
    assert widest > 0.01  # the bounds were at work


def test_lower_bound_of_few_points() -> None:
    """Laws on one to four points, all regions: mean below, at and above the kink, least sum 0, between and attained."""
    rng, closest = np.random.default_rng(7), math.inf
    for _ in range(4000):
        y = np.exp(rng.normal(size=int(rng.integers(1, 5))) * rng.choice([0.1, 1, 4]))
        y[0] *= rng.random() < 0.7
        y /= max(float(y.max()), 1e-9)
        law = rng.dirichlet(np.full(y.size, rng.choice([0.2, 1.0])))
        mean = float(law @ y)
        variance, least = float(law @ (y - mean) ** 2), float(y.min() * rng.choice([0, 0.5, 1]))
        scale = rng.choice([1 + math.exp(2 * rng.normal()), 1 / math.sqrt(min(1, max(mean, 1e-9)))])
        bound = float(_mask_average.lower_bound(*(np.array([v]) for v in (mean, variance, least)), scale)[0])
        exact = float(law @ _mask_average.descent(y, scale))
        assert bound <= exact * ROUNDING
        if variance > 1e-3 * mean**2:
            closest = min(closest, exact / bound - 1)
    assert closest < 1e-3  # some law nearly attains it


@pytest.mark.parametrize(("population", "marked"), [(5, 2), (40, 39), (1000, 3), (10**6, 4000), (10**6, 10**6 - 1)])
def test_hypergeometric_chances(population: int, marked: int) -> None:
    draws = np.unique([1, 2, population // 3, population // 2, population - 1])
    first, law = _mask_average._hypergeometric(population, marked, draws)
    hits = first[:, None] + np.arange(law.shape[1])
    exact = hypergeom.pmf(hits, population, marked, draws[:, None])
    assert np.allclose(law, exact, rtol=1e-6, atol=1e-16)
    assert law.sum(axis=1) == pytest.approx(1.0, rel=1e-12)


_LARGE = {
    "Gaussian": lambda rng: rng.standard_normal(50_000),
    "Student": lambda rng: rng.standard_t(3, 50_000),
    "cubed": lambda rng: rng.standard_normal(50_000) ** 3,
    "Cauchy": lambda rng: rng.standard_cauchy(50_000),
    "log-normal": lambda rng: np.exp(2 * rng.standard_normal(50_000)),
    "Zipf": lambda rng: 1 / np.arange(1.0, 50_001),
    "sparse": lambda rng: rng.standard_normal(50_000) * (rng.random(50_000) < 0.01),
}


@pytest.mark.parametrize("law", _LARGE)
@pytest.mark.parametrize("keep", [2, 300])
def test_narrow_at_large_dimension(law: str, keep: int) -> None:
    """The width that the page says was observed: a thousandth, 0.15 per cent for sparse entries."""
    w = _LARGE[law](np.random.default_rng(0))
    p = np.sort(np.square(w / np.linalg.norm(w)))
    for scale in (1600.0, 100.0, 0.95 * math.sqrt(50_000 / keep)):
        found = _mask_average.mean_descent(_mask_average.Shares(p / p.sum()), keep, scale)
        assert found.half_width <= (1.5e-3 if law == "sparse" else 1e-3) * found.low * (1 + 1e-9)


def test_what_is_dropped_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a threshold at which much is dropped the exact mean still lies in the bracket."""
    p = np.sort(np.random.default_rng(0).random(12))
    p /= p.sum()
    exact = float(_mask_average.descent(_every_sum(p, 6), 3.0).mean())
    shares, cuts = _mask_average.Shares(p), np.array([6])
    kept = _mask_average._by_levels(shares, 6, 3.0, cuts, 0.01)
    monkeypatch.setattr(_mask_average, "_NEGLIGIBLE", 0.3)
    dropped = _mask_average._by_levels(shares, 6, 3.0, cuts, 0.01)
    assert dropped.low <= exact <= dropped.high
    assert dropped.low < 0.6 * kept.low and dropped.half_width > 10 * kept.half_width
