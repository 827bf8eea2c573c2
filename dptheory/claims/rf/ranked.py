import itertools
import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import scipy
from scipy.special import ndtr

from dptheory import sparsification
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row


def _kept_energy(rng: np.random.Generator, n: int, dim: int, keep: int, snr: float, density: float) -> Array:
    """Share of the expected signal energy on the keep largest |signal + noise|; a share ``density`` of the signal is non-zero."""
    signal = rng.standard_normal((n, dim)) * (rng.random((n, dim)) < density)
    seen = signal * (snr / math.sqrt(density)) + rng.standard_normal((n, dim))
    kept = np.argpartition(-np.abs(seen), keep - 1, axis=1)[:, :keep]
    return np.asarray(np.square(np.take_along_axis(signal, kept, axis=1)).sum(axis=1) / (dim * density))


def _share_by_integral(keep_share: float, snr: float, density: float, signed: bool) -> float:
    """Second method: integrate s^2 P(the entry is kept | s) over the signal, the threshold found by bisection."""
    spread = math.sqrt(1 + snr**2 / density)

    def passes(y: float, scale: float) -> float:
        return float(ndtr(-y / scale) + (0.0 if signed else ndtr(-y / scale)))

    low, high = -40.0 * spread, 40.0 * spread
    for _ in range(200):
        y = (low + high) / 2
        if density * passes(y, spread) + (1 - density) * passes(y, 1.0) > keep_share:
            low = y
        else:
            high = y

    def integrand(z: float) -> float:
        s = z * snr / math.sqrt(density)
        kept = ndtr(s - y) + (0.0 if signed else ndtr(-s - y))
        return float(z * z * kept * math.exp(-z * z / 2) / math.sqrt(2 * math.pi))

    corner = y * math.sqrt(density) / snr
    points = sorted(p for p in (-corner, corner) if abs(p) < 12)
    return float(
        scipy.integrate.quad(integrand, -12, 12, points=points or None, limit=400, epsabs=1e-12, epsrel=1e-11)[0]
    )


def _share_cases() -> Iterator[tuple[float, float]]:
    yield from itertools.product((0.05, 0.3, 0.5, 0.9), (0.05, 1.0, 4.0))


row = new_row(
    id="rf.ranked",
    source=Source("rf", "section 3.3, Appendix C; RS, Appendix I"),
    verdict=Verdict.CONDITIONAL,
    calculators=(
        sparsification.captured_energy,
        sparsification.signed_captured_energy,
        sparsification.sparse_captured_energy,
    ),
    figure="ranked_energy",
)


@row.mean(partial(_kept_energy, dim=40, keep=10, snr=1.0, density=1.0), wrong=lambda: 0.25, row_bytes=2000)
def _() -> float:
    """ranked by magnitude, d = 40, t = 1"""
    return sparsification.captured_energy(40, 10, snr=1.0)


@row.mean(
    partial(_kept_energy, dim=2000, keep=200, snr=0.5, density=0.05),
    wrong=lambda: sparsification.captured_energy(2000, 200, snr=0.5),
    row_bytes=100_000,
)
def _() -> float:
    """one signal in twenty, d = 2000, t = 1/2"""
    return sparsification.sparse_captured_energy(keep_share=0.1, snr=0.5, nonzero_share=0.05)


@row.equal(_share_cases, tolerance=1e-7)
def _(keep_share: float, snr: float) -> Sides:
    """large d, second method: integral over the signal"""
    return (
        sparsification.captured_energy(10**9, round(keep_share * 10**9), snr=snr),
        lambda: _share_by_integral(keep_share, snr, 1.0, signed=False),
        keep_share,
    )


@row.equal(_share_cases, tolerance=1e-8)
def _(keep_share: float, snr: float) -> Sides:
    """signed values as printed, second method"""
    return (
        sparsification.signed_captured_energy(keep_share=keep_share, snr=snr),
        lambda: _share_by_integral(keep_share, snr, 1.0, signed=True),
        keep_share,
    )


@row.equal(
    lambda: itertools.product((0.02, 0.1, 0.6), (0.1, 0.5), (0.01, 0.3)), tolerance=1e-8, kind=Kind.COUNTEREXAMPLE
)
def _(keep_share: float, snr: float, density: float) -> Sides:
    """sparse signal, second method"""
    return (
        sparsification.sparse_captured_energy(keep_share=keep_share, snr=snr, nonzero_share=density),
        lambda: _share_by_integral(keep_share, snr, density, signed=False),
        sparsification.sparse_captured_energy(keep_share=keep_share, snr=snr, nonzero_share=1.0),
    )


@row.equal(
    lambda: [
        *itertools.product((0.02, 0.6, 0.99), (0.05, 0.5), (1e-3, 1e-5)),
        (1e-6, 0.5, 1e-3),
        (1 - 1e-6, 0.5, 1e-3),
    ],
    tolerance=1e-7,
)
def _(keep_share: float, snr: float, density: float) -> Sides:
    """very sparse signal, and masks of nearly all or nearly none"""
    return (
        sparsification.sparse_captured_energy(keep_share=keep_share, snr=snr, nonzero_share=density),
        lambda: _share_by_integral(keep_share, snr, density, signed=False),
        sparsification.sparse_captured_energy(keep_share=keep_share, snr=snr, nonzero_share=1.1 * density),
    )
