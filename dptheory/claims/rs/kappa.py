import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import scipy

from dptheory import sparsification
from dptheory._arrays import Array
from dptheory.claims._draws import drawn_masks
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _kappa
from dptheory.claims.rs._kappa import printed_kappa

kappa_row = new_row(
    id="rs.kappa",
    source=Source("rs", "new, on Lemma 3.3"),
    verdict=Verdict.HOLDS,
    calculators=(sparsification.kappa,),
    figure="kappa_rate",
)


@kappa_row.equal(lambda: [(rows, small) for rows in (4, 7, 10) for small in range(1, rows + 1)])
def _(rows: int, small: int) -> Sides:
    """the condition, as a comparison of whole numbers"""
    # entries of one size, one of four kept, ``small`` of the deviations below the threshold
    deviation = np.array([[0.0] * 4] * small + [[9.0] * 4] * (rows - small))
    found = sparsification.kappa([2.0] * 4, clip_norm=4.0, drop_rate=0.75, deviation=deviation)
    return found.condition, 4 * small**2 >= rows**2, not 4 * small**2 >= rows**2


@kappa_row.equal(
    lambda: [(field, *case) for field in _kappa.FIELDS for case in ((30, 7, 5, 300), (20_000, 100, 5, 300))]
)
def _(field: str, dim: int, keep: int, seed: int, masks: int) -> Sides:
    """seed and number of masks matter to drawn masks alone"""
    return (
        _kappa.kappa_field(field, dim, keep, seed=seed, masks=masks),
        lambda: _kappa.kappa_field(field, dim, keep),
        lambda: 1 + _kappa.kappa_field(field, dim, keep),
    )


@kappa_row.equal(
    lambda: itertools.product(("norm_ratio", "probability", "lower", "upper", "norm_ratio_error"), (3, 10))
)
def _(field: str, keep: int) -> Sides:
    """rows: what no draw enters, under another seed"""
    return (
        _kappa.kappa_of_rows(field, keep, seed=9),
        lambda: _kappa.kappa_of_rows(field, keep),
        lambda: 1 + _kappa.kappa_of_rows(field, keep),
    )


@kappa_row.equal(
    lambda: [
        (what, dim, keep)
        for what in ("value", "error", "standard_error")
        for dim, keep in ((9, 4), (300, 20), (20_000, 50))
    ],
    tolerance=1e-9,
)
def _(what: str, dim: int, keep: int) -> Sides:
    """without deviation the value is the ratio, its error the ratio's, and no mask is drawn"""
    found = functools.partial(_kappa.without_deviation, dim, keep)
    ratio = {"value": "norm_ratio", "error": "norm_ratio_error"}
    return (
        getattr(found(), what),
        lambda: getattr(found(), ratio[what]) if what in ratio else 0.0,
        lambda: 1 + found().norm_ratio,
    )


def _gradient(dim: int) -> Array:
    return np.asarray(np.exp(-0.4 * np.arange(dim)) + 0.02)


@kappa_row.equal(
    lambda: [(d, k, c, s) for d, k in ((3, 1), (6, 4), (9, 3)) for c in (0.5, 2.0, 9.0) for s in (0.1, 1.0)],
    tolerance=1e-11,
)
def _(dim: int, keep: int, clip: float, spread: float) -> Sides:
    """Gaussian deviation, all masks"""
    return (
        sparsification.kappa(_gradient(dim), clip_norm=clip, drop_rate=1 - keep / dim, deviation=spread).value,
        lambda: _kappa.enumerated(_gradient(dim), keep, clip, _kappa.gaussian(clip, spread)),
        printed_kappa(1 - keep / dim),
    )


def _rows(dim: int) -> Array:
    return np.asarray(np.random.default_rng(5).standard_normal((40, dim)) * 0.45)


@kappa_row.equal(lambda: [(d, k, c) for d, k in ((3, 1), (6, 4), (9, 3)) for c in (2.0, 9.0)], tolerance=1e-12)
def _(dim: int, keep: int, clip: float) -> Sides:
    """examples' gradients, all masks"""
    return (
        sparsification.kappa(_gradient(dim), clip_norm=clip, drop_rate=1 - keep / dim, deviation=_rows(dim)).value,
        lambda: _kappa.enumerated(_gradient(dim), keep, clip, _kappa.empirical(clip, _rows(dim))),
        printed_kappa(1 - keep / dim),
    )


def _two_sizes(dim: int, present: int, keep: int) -> Fraction:
    """R for ``present`` entries 1 and zeros, c = 1: squares of whole numbers never fall below c^2."""
    law = [
        Fraction(math.comb(present, h) * math.comb(dim - present, keep - h), math.comb(dim, keep))
        for h in range(keep + 1)
    ]
    return sum((p * Fraction(math.sqrt(h)) for h, p in enumerate(law)), Fraction(0)) / Fraction(math.sqrt(present))


@kappa_row.equal((30, 1, 6), (30, 4, 6), (30, 17, 6), (30, 30, 6), (30, 4, 29), tolerance=1e-12)
def _(dim: int, present: int, keep: int) -> Sides:
    """entries 0 and 1: hypergeometric"""
    return (
        sparsification.kappa((np.arange(dim) < present).astype(float), clip_norm=4.0, drop_rate=1 - keep / dim).value,
        lambda: _two_sizes(dim, present, keep),
        printed_kappa(1 - keep / dim),
    )


_MC_DIM, _MC_KEEP, _MC_CLIP, _MC_SPREAD = 40, 16, 2.0, 0.25


def _descent_draws(rng: np.random.Generator, n: int) -> Array:
    """1(|m*xi| < 3C/4) h(m*w) |m*w|, mask and Gaussian deviation drawn."""
    w = _gradient(_MC_DIM)
    masks = drawn_masks(rng, n, _MC_DIM, _MC_KEEP)
    size = np.linalg.norm(masks * w, axis=1)
    xi = masks * rng.normal(scale=_MC_SPREAD, size=(n, _MC_DIM))
    return np.asarray((np.linalg.norm(xi, axis=1) < 0.75 * _MC_CLIP) * np.minimum(size, _MC_CLIP / 4) * size)


def _descent(kappa: float) -> float:
    """kappa P h(w) |w|, with P from scipy's chi-square law."""
    size = float(np.linalg.norm(_gradient(_MC_DIM)))
    below = float(scipy.stats.chi2.cdf((0.75 * _MC_CLIP / _MC_SPREAD) ** 2, _MC_DIM))
    return kappa * below * min(size, _MC_CLIP / 4) * size


@kappa_row.mean(_descent_draws, wrong=lambda: _descent(printed_kappa(1 - _MC_KEEP / _MC_DIM)), row_bytes=1600)
def _() -> float:
    """mask and deviation drawn, d = 40"""
    return _descent(
        sparsification.kappa(
            _gradient(_MC_DIM), clip_norm=_MC_CLIP, drop_rate=1 - _MC_KEEP / _MC_DIM, deviation=_MC_SPREAD, masks=20_000
        ).value
    )


@kappa_row.equal(lambda: _kappa.UNEVEN, tolerance=1.1e-3)
def _(dim: int, keep: int, present: int, share: float, scale: float) -> Sides:
    """one to five large entries, d = 1e4 to 1e6: which are kept is hypergeometric"""
    return (
        _kappa.uneven_found(dim, keep, present, share, scale).value,
        lambda: _kappa.uneven_ratio(dim, keep, present, share, scale),
        printed_kappa(1 - keep / dim),
    )


@kappa_row.equal(lambda: [(name, *case) for case in _kappa.LARGE for name in _kappa.LARGE_FIELDS], tolerance=1e-3)
def _(name: str, dim: int, keep: int, scale: float, z: float) -> Sides:
    """every field, heavy tails and Gaussian deviation, d = 1e4 to 1e6"""
    found = _kappa.large_field(name, dim, keep, scale, z)
    return found, lambda: _kappa.large_field_by_hand(name, dim, keep, scale, z), 1.005 * found


@kappa_row.mean(
    _kappa.large_draws,
    wrong=lambda: printed_kappa(1 - _kappa.DRAWN_KEEP / _kappa.DRAWN_DIM),
    row_bytes=2000,
)
def _() -> float:
    """50 of 100,000 heavy-tailed entries drawn"""
    return sparsification.kappa(
        _kappa.heavy(_kappa.DRAWN_DIM),
        clip_norm=4 / _kappa.DRAWN_SCALE,
        drop_rate=1 - _kappa.DRAWN_KEEP / _kappa.DRAWN_DIM,
    ).norm_ratio


@kappa_row.equal(lambda: [(k, z, n) for k in (6, 8) for z in (0.75, 0.25) for n in (5000, 20_000)], tolerance=6e-3)
def _(keep: int, z: float, n: int) -> Sides:
    """rows of deviations, 16 entries, z = 3/4 and 1/4: all masks, and 5,000 drawn"""
    return (
        _kappa.rows_found(keep, z, n).value,
        lambda: _kappa.rows_exact(keep, z),
        printed_kappa(1 - keep / _kappa.ROWS_DIM),
    )


@kappa_row.equal(
    lambda: itertools.chain.from_iterable(
        ((name, 8, 0.75), (name, 6, 0.25)) for name in ("norm_ratio", "probability", "lower", "upper")
    ),
    tolerance=2e-3,
)
def _(name: str, keep: int, z: float) -> Sides:
    """rows: the other fields"""
    found = getattr(_kappa.rows_found(keep, z, 500), name)
    return found, lambda: _kappa.rows_field_exact(name, keep, z), 1.005 * found


def _large_flat_slack(
    dim: float, keep_share: float, scale: float, stated: Callable[[float], float] = math.sqrt
) -> float:
    """equal entries, large: R = sqrt x"""
    size = round(dim)
    keep = min(max(round(keep_share * size), 1), size)
    clip = 4 * math.sqrt(size) / scale / 2 * math.sqrt(keep / size)
    found = sparsification.kappa(np.ones(size), clip_norm=clip, drop_rate=1 - keep / size)
    return 1e-9 - abs(found.norm_ratio / stated(keep / size) - 1)


kappa_row.inequality(
    {"dim": Range(2, 1000, log=True), "keep_share": Range(0, 0.95), "scale": Range(1, 1e6, log=True)},
    # wrong: x in place of sqrt x
    wrong=lambda dim, keep_share, scale: _large_flat_slack(dim, keep_share, scale, lambda x: x),
)(_large_flat_slack)


kappa_error = new_row(
    id="rs.kappa_error",
    source=Source("rs", "new, on Lemma 3.3"),
    verdict=Verdict.HOLDS,
    calculators=(sparsification.kappa,),
)


@kappa_error.equal(lambda: _kappa.UNEVEN)
def _(dim: int, keep: int, present: int, share: float, scale: float) -> Sides:
    """one to five large entries: the error bars hold and are at most a thousandth"""
    found = _kappa.uneven_found(dim, keep, present, share, scale)
    exact = _kappa.uneven_ratio(dim, keep, present, share, scale)
    return _kappa.bar_holds(found, exact, 1.1e-3), True, _kappa.bar_holds(replace(found, error=0.0), exact, 1.1e-3)


@kappa_error.equal((8, 0.75), (6, 0.25))
def _(keep: int, z: float) -> Sides:
    """rows: the error bars of 100 draws hold"""
    return _kappa.rows_bars_hold(keep, z), True, lambda: _kappa.rows_bars_hold(keep, z, 0.1)


@kappa_error.equal(("standard_error", 8, 0.75), ("standard_error", 6, 0.25), ("error", 8, 0.75), tolerance=6e-3)
def _(what: str, keep: int, z: float) -> Sides:
    """rows: mean standard error and error of 300 draws, by the spread over all masks and Bernstein's inequality"""
    found = _kappa.rows_bar(what, keep, z)
    return found, lambda: _kappa.rows_bar_exact(what, keep, z), 1.01 * found


@kappa_error.equal((8, 0.75), tolerance=0.12)
def _(keep: int, z: float) -> Sides:
    """rows: mean square of (value - exact) / standard error over 300 draws"""
    return _kappa.rows_z_score(keep, z), 1.0, lambda: 1.2 * _kappa.rows_z_score(keep, z)
