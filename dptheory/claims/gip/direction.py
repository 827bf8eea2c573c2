"""GIP: when pruning beats DP-SGD, by mean square error and by direction."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import simpson
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln
from scipy.stats import binom, norm

from dptheory import gradients, pruning
from dptheory.checks import ExactCheck, Kind, MeanCheck, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.gip import _finite
from dptheory.claims.gip._gaussian import gaussian_energy, kept_entries, pruned_gaussian
from dptheory.claims.gip._index_at_scale import counted_mean_swaps
from dptheory.claims.gip.sampling import gain
from dptheory.claims.gip.top_k import energy_by_quadrature, ranked_loss, zeta
from dptheory.pruning import _error

Array = NDArray[np.float64]

# --- gip.cor1, gip.beta_values ----------------------------------------------------------------------------------------


def printed_beta(clip: float, keep: int, dim: int, theta: float) -> float:
    """beta as printed in Corollary 1; equals C^2 / (1 - rho zeta)."""
    k = keep / dim
    swaps = pruning.SubsetMallows(dim, keep, theta).mean_swaps()
    top_k_part = (1 - k) * dim * (1 - zeta(k))
    return clip**2 * (1 - k) * dim / (top_k_part + zeta(k) / k * swaps)


def _beta_order_slack(dim: float, keep_share: float, theta: float) -> float:
    """C^2 <= exact beta <= asymptotic beta <= printed beta."""
    size, keep = _finite.sizes(dim, keep_share)
    chain = (
        1.0,
        pruning.beta(1.0, keep, size, theta),
        pruning.beta(1.0, keep, size, theta, "asymptotic"),
        printed_beta(1.0, keep, size, theta),
    )
    return min(above / below - 1 for below, above in itertools.pairwise(chain))


def _printed_is_safe_slack(dim: float, keep_share: float, theta: float) -> float:
    size, keep = _finite.sizes(dim, keep_share)
    return pruning.beta(1.0, keep, size, theta) / printed_beta(1.0, keep, size, theta) - 1


def _pruning_wins(clip: float, dim: int, keep: int, theta: float, ratio: float) -> bool:
    """MSE of pruning + noise below that of DP-SGD at sigma_g^2 / sigma^2 = ratio, by enumeration and rank integrals."""
    rho = 1.0 if math.isinf(theta) else gain(dim, keep, Fraction(math.exp(-theta)))
    pruned = ratio * (rho * ranked_loss(dim, keep) + (1 - rho) * (dim - keep)) + keep * clip**2
    return pruned < dim * clip**2


def _ratio_cases() -> Iterator[tuple[float, int, int, float, float]]:
    for clip, dim, keep, theta in (
        (1.0, 10, 1, 1.0),
        (0.1, 60, 15, 0.5),
        (3.0, 256, 26, 5.0),
        (1.0, 256, 128, 1e-11),
        (1.0, 20_000, 2_000, math.inf),
    ):
        exact, printed = pruning.beta(clip, keep, dim, theta), printed_beta(clip, keep, dim, theta)
        for ratio in (0.999 * exact, 1.001 * exact, 0.5 * (exact + printed)):
            yield clip, dim, keep, theta, ratio


_DIM, _KEEP, _THETA = 40, 10, 1.0

_COR1 = Claim(
    id="gip.cor1",
    title="condition to beat DP-SGD",
    source=Source("gip", "Corollary 1"),
    statement=r"If $\sigma_g^2 \le \beta\sigma^2$ with $\beta = C^2(1-k)d / \{(1-k)d[1-\zeta] + \frac{\zeta}{k}F(\theta)\}$ "
    r"then $\mathrm{MSE}_d > \mathrm{MSE}_t$, $\mathrm{MSE}_t$ read as pruning plus noise.",
    verdict=Verdict.FALSE,
    conditions=("Assumption 1", "k < 1", "theta >= 0", "strict inequality: at equality the two MSEs are equal"),
    correction=r"The printed $\beta = C^2/(1-\rho\zeta)$ is too large. Exact: $\beta = C^2(d-K)\sigma_g^2/\mathrm{MSE}_t$; "
    r"asymptotic $C^2/(1 - 2a\varphi(a)\rho/(1-k))$ lies above the exact one. With $\mathrm{MSE}_t$ read as the pruning "
    r"part alone the printed $\beta$ is asymptotically sufficient for $\rho < 1$, but then noise is left out of the comparison.",
    printed=printed_beta,
    calculators=(pruning.beta,),
    checks=(
        ExactCheck(
            name="pruning wins below the exact beta only",
            cases=_ratio_cases,
            truth=_pruning_wins,
            statement=lambda clip, dim, keep, theta, ratio: ratio < pruning.beta(clip, keep, dim, theta),
            wrong=lambda clip, dim, keep, theta, ratio: ratio <= printed_beta(clip, keep, dim, theta),
            kind=Kind.COUNTEREXAMPLE,
        ),
        MeanCheck(
            name="pruning MSE at beta, d = 40",
            sampler=partial(pruned_gaussian, dim=_DIM, keep=_KEEP, theta=_THETA),
            claimed=lambda: (_DIM - _KEEP) / pruning.beta(1.0, _KEEP, _DIM, _THETA),
            wrong=lambda: (_DIM - _KEEP) / printed_beta(1.0, _KEEP, _DIM, _THETA),
            row_bytes=1600,
        ),
        SearchCheck(
            name="C^2 <= exact <= asymptotic <= printed",
            box={"dim": Range(2, 2000, log=True), "keep_share": Range(0, 1), "theta": Range(1e-9, 20, log=True)},
            slack=_beta_order_slack,
            wrong=_printed_is_safe_slack,
        ),
    ),
    proved=True,
    figure="beta",
)

_PRINTED_BETAS = (*((256, keep, 0.9913) for keep in (26, 128, 230)), (10, 1, 0.78))


def _attainable(dim: int, keep: int, value: float) -> bool:
    """Some theta >= 0 gives this beta, exact, asymptotic or printed, for C = 1 (all rise from 1 in theta)."""
    highest = max(pruning.beta(1.0, keep, dim, math.inf, "asymptotic"), printed_beta(1.0, keep, dim, math.inf))
    return pruning.beta(1.0, keep, dim, 0.0) <= value <= highest


def _least_beta_slack(dim: float, keep_share: float, theta: float) -> float:
    size, keep = _finite.sizes(dim, keep_share)
    return pruning.beta(1.0, keep, size, theta) - 1


def _raised_beta_slack(dim: float, keep_share: float, theta: float) -> float:
    return _least_beta_slack(dim, keep_share, theta) - 1e-3


_BETA_VALUES = Claim(
    id="gip.beta_values",
    title="printed values of beta",
    source=Source("gip", "Corollary 1 and Appendix B.1"),
    statement=r"$\beta = 0.9913$ for WRN-16-4 at $(1, 10^{-5})$-DP; its smallest value over $d \in [10, 200]$, "
    r"$k \in [0.1, 0.9]$ is $0.78$ at $(k, d) = (0.1, 10)$.",
    verdict=Verdict.FALSE,
    conditions=("C = 1 and theta >= 0, as in the paper",),
    correction=r"$\beta \ge C^2 = 1$ for every $k$, $d$ and $\theta \ge 0$, in the printed formula too.",
    printed=printed_beta,
    calculators=(pruning.beta,),
    checks=(
        ExactCheck(
            name="no theta gives the printed values",
            cases=lambda: [*_PRINTED_BETAS, (10, 1, 1.5)],
            truth=lambda dim, keep, value: value >= 1,
            statement=_attainable,
            wrong=lambda dim, keep, value: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        SearchCheck(
            name="beta >= 1",
            box={"dim": Range(2, 2000, log=True), "keep_share": Range(0, 1), "theta": Range(1e-12, 50, log=True)},
            slack=_least_beta_slack,
            wrong=_raised_beta_slack,
        ),
    ),
    proved=True,
    figure="beta",
)

# --- gip.criterion ----------------------------------------------------------------------------------------------------


@cache
def _share_beyond(k: float) -> float:
    """Share of the energy beyond the threshold that a share k of normal entries exceeds, by quadrature."""
    return energy_by_quadrature(1, k, True)


def _asymptotic_ratio(k: float, rho: float) -> float:
    """Energy kept over that of so many entries under large noise: of a share rho the largest, of the others any."""
    return (rho * _share_beyond(k) + (1 - rho) * k) / math.sqrt(k)


def _counted_gain(dim: int, keep: int, theta: float) -> float:
    return 1 - counted_mean_swaps(dim, keep, theta) / counted_mean_swaps(dim, keep, 0.0)


def _break_even_gain(k: float) -> float:
    """rho at which the ratio is 1, by root finding."""
    return float(brentq(lambda rho: _asymptotic_ratio(k, rho) - 1, 0.0, 10.0, xtol=1e-15))


def _landmarks(name: str) -> float:
    """The least break-even rho, where it lies, and the k below which it exceeds 1."""
    least = minimize_scalar(_break_even_gain, bounds=(0.3, 0.9), method="bounded", options={"xatol": 1e-10})
    return {
        "least": float(least.fun),
        "at k": float(least.x),
        "impossible below": float(brentq(lambda k: _break_even_gain(k) - 1, 0.005, 0.1)),
    }[name]


_FINE = 10**6


def _stated_landmarks(name: str) -> float:
    if name == "impossible below":
        possible = (k for k in range(18_000, 19_500) if pruning.least_retained_gain(_FINE, k, "asymptotic") < 1)
        return next(possible, 0) / _FINE
    gains = {keep: pruning.least_retained_gain(_FINE, keep, "asymptotic") for keep in range(600_000, 700_000, 100)}
    best = min(gains, key=gains.__getitem__)
    return gains[best] if name == "least" else best / _FINE


def _best_over_zero(variance_ratio: float, keep: int, theta: float) -> float:
    """Best MSE of DP-SGD, random-k and GIP over that of the zero update, minus 1, at sigma_g^2 / (sigma C)^2 = the ratio."""
    dim, sigma_g = 10_000, math.sqrt(variance_ratio)
    noise = pruning.noise_mse(keep, 1.0, 1.0)
    best = min(
        pruning.noise_mse(dim, 1.0, 1.0),
        pruning.random_k_mse(dim, keep, sigma_g) + noise,
        pruning.perturbed_top_k_mse(dim, keep, theta, sigma_g) + noise,
    )
    return float(best / pruning.zero_update_mse(dim, sigma_g)) - 1


def _zero_update_slack(excess: float, keep_share: float, theta: float) -> float:
    """At sigma^2 C^2 = excess * sigma_g^2 (4 log(1/k) + 2 log 2), excess >= 1."""
    dim, keep = _finite.sizes(10_000, keep_share)
    return _best_over_zero(1 / excess / (4 * math.log(dim / keep) + 2 * math.log(2)), keep, theta)


def _plain_noise_slack(excess: float, keep_share: float, theta: float) -> float:
    """Wrong statement: sigma^2 C^2 >= 2 sigma_g^2 is enough for every k."""
    return _best_over_zero(0.5 / excess, _finite.sizes(10_000, keep_share)[1], theta)


_FIXED = np.linspace(-1.0, 2.0, 60)
_FIXED_MASK = pruning.top_k_mask(_FIXED, 15)
_NOISE_STD = 1.5


def _noisy_cosines(rng: np.random.Generator, n: int) -> Array:
    noisy = (_FIXED + _NOISE_STD * rng.standard_normal((n, _FIXED.size))) * _FIXED_MASK
    return np.asarray(noisy @ _FIXED / np.linalg.norm(_FIXED) / np.linalg.norm(noisy, axis=1))


def _slope_by_gamma(dim: int) -> float:
    """Gamma((d+1)/2) / (sqrt(2) Gamma(d/2+1)); by its expansion in 1/d where the Gamma functions lose digits."""
    if dim > 10_000:
        return (1 - 0.25 / dim + 1 / 32 / dim**2) / math.sqrt(dim)
    return math.exp(gammaln((dim + 1) / 2) - gammaln(dim / 2 + 1)) / math.sqrt(2)


def _direction_shares(rng: np.random.Generator, n: int, dim: int, keep: int, theta: float, groups: int) -> Array:
    """|g*I|^2 / |g|^2 of perturbed top-k in groups, times the ratio of the two directions' loss to noise."""
    gradient = rng.standard_normal((n, groups, dim))
    kept = kept_entries(rng, gradient, keep, theta)
    shares = np.square(gradient * kept).sum(axis=(1, 2)) / np.square(gradient).sum(axis=(1, 2))
    return np.asarray(shares * _slope_by_gamma(keep * groups) / _slope_by_gamma(dim * groups))


def _top_share(dim: int, keep: int) -> float:
    """S of ``dim`` normal entries: d E[x^2; fewer than K of the others are larger], by quadrature over x."""
    x = np.linspace(0.0, 12.0, 200_001)
    kept = 2 * norm.pdf(x) * x * x * binom.cdf(keep - 1, dim - 1, 2 * norm.sf(x))
    return float(simpson(kept, x=x))


def _gain_by_order_statistics(dim: int, keep: int, method: _error.Method, groups: int) -> float:
    """rho at which (k + rho (S - k)) c_K / c_d is 1."""
    if method == "asymptotic":
        return _break_even_gain(keep / dim)
    k = keep / dim
    return (_slope_by_gamma(dim * groups) / _slope_by_gamma(keep * groups) - k) / (_top_share(dim, keep) - k)


_CRITERION = Claim(
    id="gip.criterion",
    title="is a small MSE a reason to prune?",
    source=Source("gip", "Corollary 1 and the text below it"),
    statement=r"The condition of Corollary 1 is easy to meet because $\sigma_g \ll \sigma$, so pruning improves on DP-SGD.",
    verdict=Verdict.FALSE,
    conditions=("Assumption 1", "noise much larger than the gradient"),
    correction=r"Once $\sigma^2C^2 \ge \sigma_g^2(4\log\frac1k + 2\log 2)$ the zero update has a smaller MSE than DP-SGD, "
    r"random-$k$ and GIP. Against large noise the cosine with the true gradient scales by at most "
    r"$(k + 2a\varphi(a)\rho)/\sqrt k$ (its limit for large $d$ at fixed $\rho$), so GIP beats DP-SGD only for "
    r"$\rho > \sqrt k(1-\sqrt k)/(2a\varphi(a))$: at least $0.478$ (near $k = 0.65$), and more than 1 (even exact top-$k$ "
    r"loses) for $k < 0.0186$. Both are necessary at every $d$, in the limit of large noise.",
    calculators=(
        pruning.zero_update_mse,
        pruning.pruned_cosine,
        pruning.cosine_ratio,
        pruning.least_retained_gain,
        gradients.small_snr_slope,
    ),
    checks=(
        MeanCheck(
            name="MSE of the zero update, d = 40",
            sampler=partial(gaussian_energy, dim=_DIM),
            claimed=lambda: float(pruning.zero_update_mse(_DIM, 1.0)),
            row_bytes=1600,
        ),
        ExactCheck(
            name="direction left by large noise, in closed form",
            cases=lambda: [(1,), (2,), (3,), (100,), (10_000,), (10**6,), (10**9,)],
            truth=_slope_by_gamma,
            statement=lambda dim: gradients.small_snr_slope(dim),
            wrong=lambda dim: 1 / math.sqrt(dim),
            tolerance=1e-10,
        ),
        SearchCheck(
            name="the zero update has the smallest MSE once the noise is large",
            box={"excess": Range(1, 1e4, log=True), "keep_share": Range(0, 1), "theta": Range(1e-9, 50, log=True)},
            slack=_zero_update_slack,
            wrong=_plain_noise_slack,
        ),
        MeanCheck(
            name="cosine of a fixed pruned gradient",
            sampler=_noisy_cosines,
            claimed=lambda: pruning.pruned_cosine(
                float(np.linalg.norm(_FIXED)), float(np.linalg.norm(_FIXED * _FIXED_MASK)), 15, _NOISE_STD
            ),
            row_bytes=1500,
        ),
        MeanCheck(
            name="ratio to DP-SGD under large noise, d = 100",
            sampler=partial(_direction_shares, dim=100, keep=20, theta=math.inf, groups=1),
            claimed=lambda: pruning.cosine_ratio(100, 20, math.inf),
            row_bytes=4000,
        ),
        MeanCheck(
            name="ratio to DP-SGD under large noise, 5 groups of 20, theta = 0.7",
            sampler=partial(_direction_shares, dim=20, keep=4, theta=0.7, groups=5),
            claimed=lambda: pruning.cosine_ratio(20, 4, 0.7, groups=5),
            wrong=lambda: pruning.cosine_ratio(20, 4, 0.7),
            row_bytes=4000,
        ),
        ExactCheck(
            name="asymptotic ratio, by quadrature and counted swaps",
            cases=lambda: [(10_000, 2000, theta) for theta in (0.0, 0.5, 5.0)],
            truth=lambda dim, keep, theta: _asymptotic_ratio(keep / dim, _counted_gain(dim, keep, theta)),
            statement=lambda dim, keep, theta: pruning.cosine_ratio(dim, keep, theta, "asymptotic"),
            wrong=lambda dim, keep, theta: pruning.cosine_ratio(dim, keep, theta),
            tolerance=1e-9,
        ),
        ExactCheck(
            name="the least gain is where the ratio is 1, by order statistics",
            cases=lambda: [
                (dim, keep, method, groups)
                for dim, keep, groups in ((2, 1, 1), (10, 3, 1), (256, 26, 1), (256, 26, 10_547), (256, 26, 3))
                for method in ("exact", "asymptotic")
            ],
            truth=_gain_by_order_statistics,
            statement=lambda dim, keep, method, groups: pruning.least_retained_gain(dim, keep, method, groups),
            wrong=lambda dim, keep, method, groups: 1.01 * pruning.least_retained_gain(dim, keep, method, groups),
            tolerance=1e-7,
        ),
        ExactCheck(
            name="cosine without noise",
            cases=lambda: [(1.0, 0.5, 3), (2.0, 2.0, 1)],
            truth=lambda norm, kept, keep: kept / norm,
            statement=lambda norm, kept, keep: pruning.pruned_cosine(norm, kept, keep, 0.0),
            wrong=lambda norm, kept, keep: pruning.pruned_cosine(norm, kept, keep, norm),
        ),
        ExactCheck(
            name="0.478 near k = 0.65, none below k = 0.0186",
            cases=lambda: [("least",), ("at k",), ("impossible below",)],
            truth=_landmarks,
            statement=_stated_landmarks,
            wrong=lambda name: {"least": 0.5, "at k": 0.5, "impossible below": 0.01}[name],
            tolerance=1e-3,
        ),
        ExactCheck(
            name="Corollary 1 met, direction worse",
            cases=lambda: [(_FINE, 10_000), (_FINE, 1000), (_FINE, 100_000)],
            truth=lambda dim, keep: _asymptotic_ratio(keep / dim, 1.0) > 1,
            statement=lambda dim, keep: pruning.cosine_ratio(dim, keep, math.inf) > 1,
            wrong=lambda dim, keep: pruning.beta(1.0, keep, dim, math.inf) > 1e-4,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="MSE of the zero update at users' sizes, entry by entry",
            cases=lambda: [(20_000,), (2_700_000,)],
            truth=lambda dim: Fraction(1, 100) * sum(1 for _ in range(dim)),
            statement=lambda dim: float(pruning.zero_update_mse(dim, 0.1)),
            wrong=lambda dim: 0.1 * dim,
            tolerance=1e-12,
        ),
    ),
    proved=True,
    figure="cosine_ratio",
)

CLAIMS = (_COR1, _BETA_VALUES, _CRITERION)
