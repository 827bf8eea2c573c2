"""RS: the trade-off between lost signal and saved noise, at a fixed and at the tuned learning rate."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.stats import chi2

from dptheory import sparsification
from dptheory.checks import ExactCheck, Kind, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.rs import _kappa_fields
from dptheory.claims.rs import _large_kappa as large
from dptheory.claims.rs.kappa import calculated, exact_kappa_of, spread_of

Array = NDArray[np.float64]

# --- rs.appG ----------------------------------------------------------------------------------------------------------


def printed_optimal_rate(delta_c: float, delta_sigma: float) -> float:
    """r* of equation 116, with r* = 0 where the noise term is the smaller one."""
    return max(0.0, 1.0 - delta_c / delta_sigma)


def _best_by_search(delta_c: float, gamma: float, delta_sigma: float, exponent: float) -> float:
    """The r that minimises (delta_c + x gamma delta_sigma) / x^a, by a bounded search over log x."""

    def bound(log_x: float) -> float:
        return (delta_c + math.exp(log_x) * gamma * delta_sigma) * math.exp(-exponent * log_x)

    found = minimize_scalar(bound, bounds=(-30.0, 0.0), method="bounded", options={"xatol": 1e-10})
    return 0.0 if bound(0.0) <= found.fun else 1.0 - math.exp(found.x)


_FLAT_DIM = 20


def _flat_bound(keep: int, scale: Fraction, ratio: Fraction) -> float:
    """U at noise term 1 for _FLAT_DIM entries of size 1, c = sqrt(_FLAT_DIM) / scale, P' = P = 1."""
    c = math.sqrt(_FLAT_DIM) / float(scale)

    def part(square: int) -> float:
        return min(square, c * math.sqrt(square))

    return (float(ratio) + keep / _FLAT_DIM) * part(_FLAT_DIM) / part(keep)


def _flat_best(scale: Fraction, ratio: Fraction) -> float:
    """The best of all rates, by trying them."""
    keeps = range(_FLAT_DIM, 0, -1)
    return float(1 - Fraction(min(keeps, key=lambda k: round(_flat_bound(k, scale, ratio), 12)), _FLAT_DIM))


_UNEVEN = np.array([3.0, -2.0, 1.0, 1.0, 0.5, 0.25, -0.1])


def _best_bound(clip: float, delta_c: float, noise_term: float, spread: float) -> float:
    """Smallest U over all rates of seven uneven entries, by enumeration of all masks."""
    dim, c = _UNEVEN.size, clip / 4

    def part(kept: tuple[int, ...]) -> float:
        square = sum(float(_UNEVEN[j]) ** 2 for j in kept)
        below = float(chi2.cdf((0.75 * clip / spread) ** 2, len(kept))) if spread else 1.0
        return below * min(square, c * math.sqrt(square))

    def bound(keep: int) -> float:
        found = [part(kept) for kept in itertools.combinations(range(dim), keep)]
        return (delta_c + keep / dim * noise_term) * part(tuple(range(dim))) * len(found) / sum(found)

    return min(bound(keep) for keep in range(1, dim + 1))


def _bound_at_printed(clip: float, delta_c: float, noise_term: float, spread: float) -> float:
    """U with the exact kappa at the rate of equation 116, with gamma restored and rounded to a rate of seven entries."""
    dim = _UNEVEN.size
    keep = max(1, round((1 - printed_optimal_rate(delta_c, noise_term)) * dim))
    found = sparsification.kappa(_UNEVEN, clip, 1 - keep / dim, spread)
    return sparsification.tradeoff(1 - keep / dim, delta_c, noise_term, found.value)


def _masking_pays(spread: float) -> bool:
    """A gradient of norm far below c: some mask lowers U, by trying them; delta_c = 1, noise term 10, d = 4, C = 1."""
    full = float(chi2.cdf((0.75 / spread) ** 2, 4))
    gains = [float(chi2.cdf((0.75 / spread) ** 2, keep)) / full for keep in range(1, 5)]
    bounds = [(1 + 10 * keep / 4) / (keep / 4 * gain) for keep, gain in enumerate(gains, 1)]
    return min(bounds[:3]) < bounds[3] * (1 - 1e-12)


_APPG = Claim(
    id="rs.appG",
    title="best sparsification rate",
    source=Source("rs", "Appendix G", (114, 116)),
    statement=r"With $\kappa = \sqrt{1-r}$ the bound is $U(r) = \Delta_C/\sqrt{1-r} + \sqrt{1-r}\,\Delta_\sigma$, smallest at "
    r"$r^* = 1 - \Delta_C/\Delta_\sigma$; as $\Delta_C$ falls in training, $r^*$ should rise (gradual cooling).",
    verdict=Verdict.FALSE,
    conditions=("Delta_C and the noise term do not depend on r", "kappa = (1 - r)^a is an assumption"),
    correction=r"Equation 114 drops $\gamma$: $U = (\Delta_C + x\gamma\Delta_\sigma)/\kappa$. For $\kappa = x^a$: "
    r"$r^* = \max(0, 1 - \frac{a}{1-a}\frac{\Delta_C}{\gamma\Delta_\sigma})$. With the exact $\kappa$ of equal entries and $P' = P$: "
    r"$1 - r^* = \min(1, \max((c/\|w\|)^2, \Delta_C/(\gamma\Delta_\sigma)))$, so $r^* = 0$ for small gradients.",
    printed=printed_optimal_rate,
    calculators=(
        sparsification.tradeoff,
        sparsification.optimal_rate,
        sparsification.optimal_rate_flat,
        sparsification.best_rate,
    ),
    checks=(
        *_kappa_fields.BEST,
        ExactCheck(
            name="kappa = x^a, by search over r",
            cases=lambda: [
                (dc, gamma, ds, a)
                for dc in (0.5, 1.0)
                for gamma in (0.25, 1.0, 2.0)
                for ds in (2.0, 8.0)
                for a in (0.5, 0.6, 0.9)
            ],
            truth=_best_by_search,
            statement=lambda dc, gamma, ds, a: sparsification.optimal_rate(dc, gamma * ds, a),
            wrong=lambda dc, gamma, ds, a: printed_optimal_rate(dc, ds),
            tolerance=1e-5,
        ),
        ExactCheck(
            name="worse than no mask: Delta_C = 1, Delta_sigma = 2, gamma = 1/2",
            cases=lambda: [(Fraction(1), Fraction(2), Fraction(1, 2))],
            truth=lambda dc, ds, gamma: (dc + gamma * ds) ** 2,  # U^2 at r = 0
            statement=lambda dc, ds, gamma: (
                sparsification.tradeoff(sparsification.optimal_rate(dc, gamma * ds), dc, gamma * ds, 1.0) ** 2
            ),
            wrong=lambda dc, ds, gamma: (
                (dc + dc / ds * gamma * ds) ** 2 / (dc / ds)
            ),  # U^2 at x = Delta_C / Delta_sigma
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="equal entries, all rates tried",
            cases=lambda: [
                (scale, ratio)
                for scale in (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(100))
                for ratio in (Fraction(1, 10), Fraction(1, 2), Fraction(3))
            ],
            truth=_flat_best,
            statement=lambda scale, ratio: sparsification.optimal_rate_flat(float(ratio), 1.0, float(scale), 4.0),
            wrong=lambda scale, ratio: printed_optimal_rate(float(ratio), 1.0),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="seven uneven entries, all masks",
            cases=lambda: [(c, dc, 1.0, s) for c in (0.5, 6.0) for dc in (0.05, 0.5) for s in (0.0, 0.1, 2.0)],
            truth=_best_bound,
            statement=lambda c, dc, n, s: sparsification.best_rate(_UNEVEN, c, dc, n, s).bound,
            wrong=_bound_at_printed,
            tolerance=1e-11,
        ),
        ExactCheck(
            name="one large entry, d = 2,000 and 1e6: bound, rate and kappa of the best of every rate",
            cases=lambda: [(*case, name) for case in large.BEST for name in ("bound", "rate", "kappa")],
            truth=large.best_by_trying,
            statement=large.best_found,
            wrong=lambda *case: 1.006 * large.best_found(*case),
            tolerance=5e-3,
        ),
        ExactCheck(
            name="bound and kappa of the answer over those of the hypergeometric law at its rate",
            cases=lambda: [(*case, name) for case in large.BEST for name in ("bound", "kappa")],
            truth=lambda *case: 1.0,
            statement=large.over_law_at_rate,
            wrong=lambda *case: 1.001 * large.over_law_at_rate(*case),
            tolerance=1e-9,
        ),
        ExactCheck(
            name="small gradients: masking pays only with P' > P",
            cases=lambda: [(0.05,), (0.1,), (0.35,), (1.0,), (5.0,)],
            truth=_masking_pays,
            statement=lambda s: sparsification.best_rate([1e-3, 2e-3, -1e-3, 1e-3], 1.0, 1.0, 10.0, s).rate > 0,
            wrong=lambda s: printed_optimal_rate(1.0, 10.0) > 0,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="equal entries, another split of C: c = (1 - z) C alone matters",
            cases=lambda: [
                (scale, Fraction(1, 10), clip, z)
                for scale in (Fraction(2), Fraction(100))
                for clip, z in ((2.0, 0.5), (10.0, 0.9))
            ],
            truth=lambda scale, ratio, clip, z: _flat_best(scale, ratio),
            statement=lambda scale, ratio, clip, z: sparsification.optimal_rate_flat(
                float(ratio), 1.0, float(scale), clip, z
            ),
            wrong=lambda scale, ratio, clip, z: sparsification.optimal_rate_flat(float(ratio), 1.0, float(scale), clip),
            tolerance=1e-12,
        ),
    ),
    proved=True,
    figure="tradeoff",
)

# --- rs.tuned ---------------------------------------------------------------------------------------------------------


def least_over_rates(slope: float, gap: float, steps: float) -> float:
    """min over the learning rate of gap / (g steps) + g slope, by a bounded search over log g."""

    def bound(log_g: float) -> float:
        return gap / steps * math.exp(-log_g) + slope * math.exp(log_g)

    found = minimize_scalar(bound, bounds=(-30.0, 30.0), method="bounded", options={"xatol": 1e-9})
    return float(found.fun)


def _tuned_ratio(rate: float, kappa: float, noise_ratio: float) -> float:
    """Tuned bound with the mask over that without."""
    masked = sparsification.tuned_bound(rate, kappa, 1.0, 100.0, 1.0, noise_ratio).bound
    return masked / sparsification.tuned_bound(0.0, 1.0, 1.0, 100.0, 1.0, noise_ratio).bound


def _fixed_ratio(rate: float, kappa: float, noise_ratio: float) -> float:
    """The same at a learning rate so large that Delta_L / (g T) is negligible."""
    return sparsification.tradeoff(rate, 1.0, noise_ratio, kappa) / sparsification.tradeoff(0.0, 1.0, noise_ratio, 1.0)


Ratio = Callable[[float, float, float], float]


def _same_probability(ratio: Ratio, second: float, third: float, keep: int, scale: float, noise_ratio: float) -> float:
    w = np.array([1.0, second, third, second, 1.0, third])
    found = sparsification.kappa(0.25 * scale * w / np.linalg.norm(w), 1.0, 1 - keep / 6)
    return ratio(1 - keep / 6, found.value, noise_ratio) - 1


def _no_gain_slack(**point: float) -> float:
    """No deviation, so P' = P: the tuned bound with a mask is never the smaller one."""
    return _same_probability(_tuned_ratio, **point)  # type: ignore[arg-type]


def _no_gain_fixed_slack(**point: float) -> float:
    """Wrong statement: the same at a fixed learning rate."""
    return _same_probability(_fixed_ratio, **point)  # type: ignore[arg-type]


def _small_gradient(probability: float, keep: int, scale: float) -> tuple[float, float]:
    """(rate, kappa) of six entries with |w| = scale c <= c and Gaussian deviation."""
    found = sparsification.kappa(np.full(6, 0.25 * scale / math.sqrt(6)), 1.0, 1 - keep / 6, spread_of(probability, 6))
    return 1 - keep / 6, found.value


def _small_gradient_slack(margin: float, keep: int, scale: float, noise_ratio: float) -> float:
    """|w| <= c and sqrt x <= P <= 1: no gain at the tuned rate although P' > P."""
    root = math.sqrt(keep / 6)
    return _tuned_ratio(*_small_gradient(root + margin * (0.9999 - root), keep, scale), noise_ratio) - 1


def _small_gradient_any_slack(margin: float, keep: int, scale: float, noise_ratio: float) -> float:
    """Wrong statement: the same for every P."""
    return _tuned_ratio(*_small_gradient(1e-3 + margin * 0.998, keep, scale), noise_ratio) - 1


_GAIN_CASES = tuple(
    (Fraction(1, n * n), Fraction(k, 20), Fraction(ratio))
    for n in (2, 3)
    for k in range(2, 21)
    for ratio in (0, 1, 10, 1000)
)
"""x, kappa, D / A."""


def _tuned_gain(x: Fraction, kappa: Fraction, ratio: Fraction) -> bool:
    """Squares of the tuned bounds compared in fractions."""
    return (1 + x * ratio) / kappa**2 < 1 + ratio


def _best_learning_rate(slope: float, gap: float, steps: float) -> float:
    """argmin of gap / (g T) + g slope over log g."""
    found = minimize_scalar(
        lambda log: gap / steps * math.exp(-log) + slope * math.exp(log),
        bounds=(-20, 20),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return math.exp(float(found.x))


_TUNED = Claim(
    id="rs.tuned",
    title="gain at the tuned learning rate",
    source=Source("rs", "new, on Theorem 3.5"),
    statement=r"With $\Delta_L, T, C, \sigma, B$ fixed, zero bias and $\kappa$ free of $\gamma$: "
    r"$\min_\gamma\frac1\kappa(\frac{\Delta_L}{\gamma T} + \gamma A + x\gamma D) = \frac2\kappa\sqrt{\Delta_L(A + xD)/T}$, $A = GC^2/2$, "
    r"$D = \Delta_\sigma$. Masking lowers it iff $\kappa > \sqrt{(A+xD)/(A+D)}$, hence only if $\kappa > \sqrt x$, which needs $P'_m > P$ "
    r"for some mask; if $\|w\| \le c$ and $P \ge \sqrt x$ it never does.",
    verdict=Verdict.HOLDS,
    conditions=(
        "Delta_L > 0, A > 0, zero bias",
        "kappa does not depend on the learning rate",
        "A = G C^2 / 2 with and without the mask: a finer second moment (rs.lem3.1) can change it for B > 1",
    ),
    calculators=(sparsification.tuned_bound, sparsification.least_kappa_tuned),
    checks=(
        ExactCheck(
            name="least bound, by search over the learning rate",
            cases=lambda: [
                (r, k, gap, t, d)
                for r in (0.0, 0.75)
                for k in (0.4, 1.0)
                for gap in (0.1, 3.0)
                for t, d in ((10.0, 0.0), (1e4, 50.0))
            ],
            truth=lambda r, k, gap, t, d: least_over_rates(2.0 + (1 - r) * d, gap, t) / k,
            statement=lambda r, k, gap, t, d: sparsification.tuned_bound(r, k, gap, t, 2.0, d).bound,
            wrong=lambda r, k, gap, t, d: (gap / t + 2.0 + (1 - r) * d) / k,
            tolerance=1e-10,
        ),
        ExactCheck(
            name="who gains, in fractions",
            cases=lambda: _GAIN_CASES,
            truth=_tuned_gain,
            statement=lambda x, k, ratio: (
                k > sparsification.least_kappa_tuned(float(1 - x), float(ratio)) * (1 + 1e-12)
            ),
            wrong=lambda x, k, ratio: (1 + x * ratio) / k < 1 + ratio,  # the fixed rate's comparison
        ),
        SearchCheck(
            name="no gain where P' = P",
            box={
                "second": Range(0, 1),
                "third": Range(0, 1),
                "keep": Range(1, 6, integer=True),
                "scale": Range(0.01, 100, log=True),
                "noise_ratio": Range(1e-3, 1e9, log=True),
            },
            slack=_no_gain_slack,
            wrong=_no_gain_fixed_slack,
        ),
        SearchCheck(
            name="no gain where |w| <= c and P >= sqrt x",
            box={
                "margin": Range(0, 1),
                "keep": Range(1, 6, integer=True),
                "scale": Range(0.01, 1, log=True),
                "noise_ratio": Range(1e-3, 1e9, log=True),
            },
            slack=_small_gradient_slack,
            wrong=_small_gradient_any_slack,
        ),
        ExactCheck(
            name="learning rate of the least bound, by golden section",
            cases=lambda: [
                (r, k, gap, t, d)
                for r in (0.0, 0.75)
                for k in (0.4, 1.0)
                for gap, t in ((0.5, 1.0), (3.0, 400.0), (0.3, 1e4))
                for d in (0.0, 30.0, 1e6)
                if r > 0 or k == 1.0
            ],
            truth=lambda r, k, gap, t, d: _best_learning_rate(2.0 + (1 - r) * d, gap, t),
            statement=lambda r, k, gap, t, d: sparsification.tuned_bound(r, k, gap, t, 2.0, d).learning_rate,
            wrong=lambda r, k, gap, t, d: sparsification.tuned_bound(0.0, 1.0, gap, t, 2.0, d + 0.1).learning_rate,
            tolerance=1e-5,
        ),
    ),
    proved=True,
    figure="tradeoff",
)

# --- rs.fixed_rate ----------------------------------------------------------------------------------------------------


def _needed_noise(x: float, share: float) -> float:
    """(1 + Delta_L / (g^2 T A)) / sqrt x, ``share`` = Delta_L / (g^2 T A): what D / A has to exceed where kappa <= sqrt x."""
    return (1 + share) / math.sqrt(x)


def _needed_noise_slack(x: float, share: float, excess: float, kappa_share: float) -> float:
    """Below the needed noise no kappa in [x, sqrt x] gives a gain; A = g = 1."""
    noise = excess * _needed_noise(x, share)
    kappa = x + kappa_share * (math.sqrt(x) - x)
    return sparsification.least_kappa(1 - x, 1 + share, noise) / kappa - 1


def _raised_noise_slack(x: float, share: float, excess: float, kappa_share: float) -> float:
    """Wrong statement: the same up to 1.01 times the needed noise."""
    return _needed_noise_slack(x, share, 1.01 * excess, kappa_share)


_FIXED = Claim(
    id="rs.fixed_rate",
    title="gain at a fixed learning rate",
    source=Source("rs", "new, on Theorem 3.5"),
    statement=r"At fixed $\gamma$ and zero bias, with $a = \Delta_L/(\gamma T) + \gamma A$, masking lowers the bound iff "
    r"$\kappa > (a + x\gamma D)/(a + \gamma D)$. If $\kappa \le \sqrt x$ this needs "
    r"$d\sigma^2/B^2 > \frac1{\sqrt x}(1 + 2\Delta_L/(\gamma^2TGC^2)) > 1$; without $\kappa \le \sqrt x$, $d\sigma^2/B^2 > 1$ is not necessary.",
    verdict=Verdict.HOLDS,
    conditions=("zero bias with and without the mask", "r > 0"),
    calculators=(sparsification.least_kappa,),
    checks=(
        ExactCheck(
            name="who gains, in fractions",
            cases=lambda: [
                (Fraction(j, 4), Fraction(k, 20), Fraction(1), Fraction(n))
                for j in (1, 2, 3)
                for k in range(1, 21)
                for n in (0, 1, 7)
            ],
            truth=lambda x, k, dc, n: (dc + x * n) / k < dc + n,
            statement=lambda x, k, dc, n: (
                k > sparsification.least_kappa(float(1 - x), float(dc), float(n)) * (1 + 1e-12)
            ),
            wrong=lambda x, k, dc, n: k > x,
        ),
        ExactCheck(
            name="gain with d sigma^2 / B^2 = 1/4, kappa = 1",
            cases=lambda: [("equal entries, P = 1/2",)],
            truth=lambda name: (1 + Fraction(1, 4) * Fraction(1, 4)) / exact_kappa_of(name) < 1 + Fraction(1, 4),
            statement=lambda name: sparsification.least_kappa(0.75, 1.0, 0.25) < calculated(name).value,
            wrong=lambda name: Fraction(1, 4) > 1,
            kind=Kind.COUNTEREXAMPLE,
        ),
        SearchCheck(
            name="noise that is needed where kappa <= sqrt x",
            box={
                "x": Range(1e-4, 0.999, log=True),
                "share": Range(1e-6, 1e6, log=True),
                "excess": Range(0, 1),
                "kappa_share": Range(0, 1),
            },
            slack=_needed_noise_slack,
            wrong=_raised_noise_slack,
        ),
    ),
    proved=True,
    figure="tradeoff",
)

CLAIMS = (_APPG, _TUNED, _FIXED)
