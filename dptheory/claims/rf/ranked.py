"""rf.ranked: what a mask ranked by past noisy gradients keeps of the signal."""

import itertools
import math
from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import ndtr

from dptheory import sparsification
from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict

Array = NDArray[np.float64]


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
    return float(quad(integrand, -12, 12, points=points or None, limit=400, epsabs=1e-12, epsrel=1e-11)[0])


def _share_cases() -> Iterator[tuple[float, float]]:
    yield from itertools.product((0.05, 0.3, 0.5, 0.9), (0.05, 1.0, 4.0))


row = Row(
    Claim(
        id="rf.ranked",
        title="ranked freeze is no better than random",
        source=Source("rf", "section 3.3, Appendix C; RS, Appendix I"),
        statement="Freezing the coordinates with the smallest past perturbed gradients performs like freezing at random; "
        '"the ranking is dominated by Gaussian noise".',
        verdict=Verdict.CONDITIONAL,
        summary=(
            "a mask ranked by magnitude keeps more of the signal than a random one at every noise level; they "
            "agree only if the signal in the ranked sum is far below the noise and spread over all coordinates."
        ),
        conditions=(
            r"Unstated: $t\ll1$ and a dense signal; a sparse one of the same energy is found at a much smaller $t$ "
            "(numbers under Use instead). $t$ is the ratio of the signal's standard deviation to that of the noise "
            r"in the sum that is ranked. It grows like $\sqrt T$ over the $T$ steps summed: where a signal of "
            r"standard deviation $a$ per step stays the same, $t = a\sqrt T/(C\sigma/B)$.",
            "The model (signal and noise Gaussian and independent, the signal constant over the ranked steps) is "
            "ours. The paper's evidence is one network.",
            "The sum that is ranked has noise on all coordinates, frozen ones too, but signal only on those not "
            "frozen in that epoch; the model takes the first ranked epoch, in which nothing was frozen.",
        ),
        correction=r"""Model: the ranked vector is $z = s+n$, with $s_j\sim N(0,t^2)$ and $n_j\sim N(0,1)$ all independent. A mask keeps $K = xd$
entries. A random mask keeps the share $x$ of $E\lVert s\rVert^2$. The mask that keeps the $K$ largest $|z_j|$ keeps the share

$$(1-\rho)x+\rho e_{d,K},\qquad\rho = \frac{t^2}{1+t^2},$$

where $e_{d,K}>x$ is the share of the sum of squares that the $K$ largest of $d$ independent standard normal entries hold on
average (for $K<d$). For fixed $x$ and large $d$ this is

$$x+2\rho y\varphi(y),\qquad y = \Phi^{-1}(1-\tfrac x2) .$$

Sorting the signed values, as RF's Algorithm 2 is printed, it is $x+\rho y'\varphi(y')$ with $y' = \Phi^{-1}(1-x)$ for large $d$:
less than a random mask keeps if $x>\frac12$.

If only a share $q$ of the entries of $s$ is non-zero, each $N(0,t^2/q)$, it is for large $d$

$$p(u)+2\Big(1-\frac1{\varsigma^2}\Big)u\varphi(u),\quad\varsigma^2 = 1+\frac{t^2}q,\quad u = \frac y\varsigma,\quad qp(u)+(1-q)p(y) = x,\quad p(y) = P(|N(0,1)|>y) .$$""",
        calculators=(
            sparsification.captured_energy,
            sparsification.signed_captured_energy,
            sparsification.sparse_captured_energy,
        ),
        proved=True,
        figure="ranked_energy",
    )
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
