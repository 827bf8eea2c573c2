"""GIP: the MSE of top-k and of perturbed top-k pruning, and the order of the methods."""

import itertools
import math
from fractions import Fraction
from functools import partial

from scipy.integrate import quad
from scipy.special import betainc, erfc
from scipy.stats import norm

from dptheory import pruning
from dptheory.checks import ExactCheck, Kind, MeanCheck, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.gip import _finite
from dptheory.claims.gip._gaussian import pruned_gaussian
from dptheory.claims.gip._index_at_scale import counted_mean_swaps

# --- gip.mse_t0 -------------------------------------------------------------------------------------------------------


def zeta(keep_ratio: float) -> float:
    """The paper's zeta = k + 2 a phi(a), a = Phi^-1(1 - k/2)."""
    a = float(norm.isf(keep_ratio / 2))
    return keep_ratio + 2 * a * float(norm.pdf(a))


def printed_top_k_mse(dim: int, keep: int, sigma_g: float) -> float:
    """MSE_t0 as printed in equations 7 and 16: the factor 1 - k stands there twice."""
    return (dim - keep) * sigma_g**2 * (1 - zeta(keep / dim))


def ranked_loss(dim: int, keep: int, member: float = 0.0, other: float = 1.0) -> float:
    """d E[x^2; not kept]: a second method for the MSE, entry by entry.

    An entry of size x is not among the largest if at least keep of the other d - 1 are larger. ``member`` and ``other`` are the
    chances to be left out of one that is among them and of one that is not.
    """

    def integrand(x: float) -> float:
        behind = float(betainc(keep, dim - keep, erfc(x / math.sqrt(2))))
        return 2 * x * x * float(norm.pdf(x)) * (other * behind + member * (1 - behind))

    middle = float(norm.isf(keep / dim / 2))
    parts = (0.0, 0.5 * middle, middle, 1.5 * middle, 2 * middle + 2, 12.0)
    pieces = (quad(integrand, a, b, epsabs=0, epsrel=1e-11, limit=200)[0] for a, b in itertools.pairwise(parts))
    return float(dim * sum(pieces))


def _jensen_slack(dim: float, keep_share: float) -> float:
    size, keep = _finite.sizes(dim, keep_share)
    return 1 - float(pruning.top_k_mse(size, keep, 1.0, "asymptotic") / pruning.top_k_mse(size, keep, 1.0))


def _strengthened_jensen_slack(dim: float, keep_share: float) -> float:
    return _jensen_slack(dim, keep_share) - 1e-3


def energy_by_quadrature(dim: int, k: float, kept: bool) -> float:
    """d E[x^2; |x| above (or below) the threshold that a share k exceeds]."""
    low, high = (float(norm.isf(k / 2)), 40.0) if kept else (0.0, float(norm.isf(k / 2)))
    return 2 * dim * float(quad(lambda x: x * x * norm.pdf(x), low, high, epsabs=0, epsrel=1e-12, limit=200)[0])


_MSE_T0 = Claim(
    id="gip.mse_t0",
    title="top-k pruning MSE",
    source=Source("gip", "Proposition 2", (7, 14, 15, 16)),
    statement=r"$\mathrm{MSE}_{t0} = (1-k)d\sigma_g^2\,[1 - k - 2a\varphi(a)]$, $a = \Phi^{-1}(1-k/2)$.",
    verdict=Verdict.FALSE,
    conditions=("Assumption 1",),
    correction=r"The factor $1-k$ is counted twice. Asymptotically $d\sigma_g^2(1 - k - 2a\varphi(a))$; exactly "
    r"$d\sigma_g^2E[H(U)]$, $U\sim\mathrm{Beta}(d-K,K)$, $H(u) = u - 2a_u\varphi(a_u)$, $a_u=\Phi^{-1}(\frac{1+u}2)$. $H$ is "
    r"convex, so the asymptotic value is the smaller one; the gap tends to $k(1-k)a\sigma_g^2/(2\varphi(a))$.",
    printed=printed_top_k_mse,
    calculators=(pruning.top_k_mse, pruning.top_k_energy),
    checks=(
        ExactCheck(
            name="two entries: 1 - 2/pi",
            cases=lambda: [(2, 1)],
            truth=lambda dim, keep: 1 - 2 / math.pi,
            statement=lambda dim, keep: float(pruning.top_k_mse(dim, keep, 1.0)),
            wrong=lambda dim, keep: printed_top_k_mse(dim, keep, 1.0),
            tolerance=1e-13,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="second method: rank of each entry",
            cases=lambda: [(3, 1), (3, 2), (10, 1), (10, 9), (100, 10), (1000, 5), (10_000, 3000)],
            truth=ranked_loss,
            statement=lambda dim, keep: float(pruning.top_k_mse(dim, keep, 1.0)),
            wrong=lambda dim, keep: float(pruning.top_k_mse(dim, keep, 1.0, "asymptotic")),
            tolerance=1e-9,
        ),
        ExactCheck(
            name="kept and lost energy add up",
            cases=lambda: [(2, 1), (100, 10), (10**6, 3), (10**9, 10**8)],
            truth=lambda dim, keep: float(dim),
            statement=lambda dim, keep: float(pruning.top_k_mse(dim, keep, 1.0) + pruning.top_k_energy(dim, keep, 1.0)),
            wrong=lambda dim, keep: printed_top_k_mse(dim, keep, 1.0) + float(pruning.top_k_energy(dim, keep, 1.0)),
            tolerance=1e-12,
        ),
        MeanCheck(
            name="Gaussian gradient, d = 500",
            sampler=partial(pruned_gaussian, dim=500, keep=50, theta=math.inf),
            claimed=lambda: float(pruning.top_k_mse(500, 50, 1.0)),
            wrong=lambda: printed_top_k_mse(500, 50, 1.0),
            row_bytes=20_000,
        ),
        MeanCheck(
            name="finite dimension counts, d = 20",
            sampler=partial(pruned_gaussian, dim=20, keep=2, theta=math.inf),
            claimed=lambda: float(pruning.top_k_mse(20, 2, 1.0)),
            wrong=lambda: float(pruning.top_k_mse(20, 2, 1.0, "asymptotic")),
            row_bytes=800,
        ),
        ExactCheck(
            name="limit of the gap",
            cases=lambda: [(10**6, 10**5), (10**6, 5 * 10**5), (10**6, 9 * 10**5)],
            truth=lambda dim, keep: float(
                pruning.top_k_mse(dim, keep, 1.0) - pruning.top_k_mse(dim, keep, 1.0, "asymptotic")
            ),
            statement=lambda dim, keep: _gap(keep / dim),
            wrong=lambda dim, keep: 2 * _gap(keep / dim),
            tolerance=1e-4,
        ),
        SearchCheck(
            name="asymptotic <= exact",
            box={"dim": Range(2, 1e9, log=True), "keep_share": Range(0, 1)},
            slack=_jensen_slack,
            wrong=_strengthened_jensen_slack,
        ),
        ExactCheck(
            name="asymptotic forms: energy beyond and below the threshold, by quadrature",
            cases=lambda: [
                (dim, k, kept) for dim in (100, 20_000, 10**6) for k in (0.1, 0.5) for kept in (False, True)
            ],
            truth=energy_by_quadrature,
            statement=lambda dim, k, kept: float(
                (pruning.top_k_energy if kept else pruning.top_k_mse)(dim, round(k * dim), 1.0, "asymptotic")
            ),
            wrong=lambda dim, k, kept: printed_top_k_mse(dim, round(k * dim), 1.0),
            tolerance=1e-9,
        ),
    ),
    proved=True,
    figure="top_k_mse",
)


def _gap(k: float) -> float:
    """Limit of exact minus asymptotic top-k MSE for sigma_g = 1."""
    a = float(norm.isf(k / 2))
    return k * (1 - k) * a / (2 * float(norm.pdf(a)))


# --- gip.mse_t, gip.order ---------------------------------------------------------------------------------------------


def printed_perturbed_mse(dim: int, keep: int, theta: float, sigma_g: float) -> float:
    """MSE_t as printed in equations 7 and 24."""
    k = keep / dim
    swaps = pruning.SubsetMallows(dim, keep, theta).mean_swaps()
    return printed_top_k_mse(dim, keep, sigma_g) + sigma_g**2 * zeta(k) / k * swaps


_DIM, _KEEP, _THETA = 60, 15, 0.5


def _loss_by_rank(dim: int, keep: int, theta: float) -> float:
    """MSE_t by the chance of each entry to be left out: the E[i] swapped ones are uniform on both sides of the threshold."""
    swaps = counted_mean_swaps(dim, keep, theta)
    return ranked_loss(dim, keep, swaps / keep, 1 - swaps / (dim - keep))


def _asymptotic_rise(dim: int, keep: int, theta: float) -> float:
    """MSE_t - MSE_t0 with every entry on its side of the limiting threshold, by quadrature."""
    swaps, k = counted_mean_swaps(dim, keep, theta), keep / dim
    return swaps * (energy_by_quadrature(dim, k, True) / keep - energy_by_quadrature(dim, k, False) / (dim - keep))


def _gain_ratio(dim: int, keep: int, weight: Fraction) -> float:
    """(MSE_r - MSE_t) / (MSE_r - MSE_t0) of a fixed gradient, by enumeration."""
    gradient = _finite.VECTORS[dim]
    random = _finite.perturbed_loss(gradient, keep, Fraction(1))
    top = _finite.lost_energy(gradient, _finite.top_subset(gradient, keep))
    return float((random - _finite.perturbed_loss(gradient, keep, weight)) / (random - top))


_MSE_T = Claim(
    id="gip.mse_t",
    title="perturbed top-k pruning MSE",
    source=Source("gip", "Proposition 2", (7, 17, 19, 20, 22, 23, 24)),
    statement=r"$\mathrm{MSE}_t = \mathrm{MSE}_{t0} + \sigma_g^2\frac{\zeta}{k}F(\theta)$, $\zeta = k + 2a\varphi(a)$, "
    r"$F(\theta) = E[i]$.",
    verdict=Verdict.FALSE,
    conditions=("Assumption 1",),
    correction=r"$\mathrm{MSE}_t = B + E[i](A/K - B/(d-K)) = \rho B + (1-\rho)\mathrm{MSE}_r$ with $B = \mathrm{MSE}_{t0}$, "
    r"$A = d\sigma_g^2 - B$; asymptotic coefficient of $E[i]$: $2a\varphi(a)\sigma_g^2/(k(1-k))$.",
    printed=printed_perturbed_mse,
    calculators=(pruning.perturbed_top_k_mse, pruning.SubsetMallows.mean_swaps),
    checks=(
        MeanCheck(
            name="Gaussian gradient, d = 60",
            sampler=partial(pruned_gaussian, dim=_DIM, keep=_KEEP, theta=_THETA),
            claimed=lambda: float(pruning.perturbed_top_k_mse(_DIM, _KEEP, _THETA, 1.0)),
            wrong=lambda: printed_perturbed_mse(_DIM, _KEEP, _THETA, 1.0),
            row_bytes=2400,
        ),
        ExactCheck(
            name="expected number of swaps, by counting index sets",
            cases=lambda: [
                (*size, theta) for size in ((10, 3), (8, 6), (20_000, 3000), (10**6, 50)) for theta in (0.0, 0.3, 3.0)
            ],
            truth=counted_mean_swaps,
            statement=lambda dim, keep, theta: pruning.SubsetMallows(dim, keep, theta).mean_swaps(),
            wrong=lambda dim, keep, theta: keep * (dim - keep) / dim,  # random-k's
            tolerance=1e-8,
        ),
        ExactCheck(
            name="coefficient of the expected swaps: chance of each entry to be left out, by its rank",
            cases=lambda: [
                (*size, theta)
                for size in ((10, 3), (100, 10), (1000, 500), (20_000, 3000))
                for theta in (1e-9, 0.3, 3.0)
            ],
            truth=_loss_by_rank,
            statement=lambda dim, keep, theta: float(pruning.perturbed_top_k_mse(dim, keep, theta, 1.0)),
            wrong=lambda dim, keep, theta: printed_perturbed_mse(dim, keep, theta, 1.0),
            tolerance=1e-9,
        ),
        ExactCheck(
            name="asymptotic coefficient: energy on both sides of the threshold, by quadrature",
            cases=lambda: [(1000, 100, 0.3), (1000, 500, 1.0), (20_000, 2000, 0.01), (10**6, 10**5, 1.0)],
            truth=_asymptotic_rise,
            statement=lambda dim, keep, theta: float(
                pruning.perturbed_top_k_mse(dim, keep, theta, 1.0, "asymptotic")
                - pruning.top_k_mse(dim, keep, 1.0, "asymptotic")
            ),
            wrong=lambda dim, keep, theta: counted_mean_swaps(dim, keep, theta) * zeta(keep / dim) / (keep / dim),
            tolerance=1e-8,
        ),
        ExactCheck(
            name="asymptotic coefficient in closed form",
            cases=lambda: [(1000, 100), (1000, 500), (10**6, 1000)],
            truth=lambda dim, keep: (
                energy_by_quadrature(dim, keep / dim, True) / keep
                - energy_by_quadrature(dim, keep / dim, False) / (dim - keep)
            ),
            statement=lambda dim, keep: (zeta(keep / dim) - keep / dim) / (keep / dim * (1 - keep / dim)),
            wrong=lambda dim, keep: zeta(keep / dim) / (keep / dim),
            tolerance=1e-8,
        ),
    ),
    proved=True,
    figure="retained_gain",
)


def _order_holds(gradient: tuple[int, ...], keep: int, weight: Fraction) -> bool:
    """MSE_t0 < MSE_t <= MSE_r by enumeration."""
    top = _finite.lost_energy(gradient, _finite.top_subset(gradient, keep))
    perturbed = _finite.perturbed_loss(gradient, keep, weight)
    return top < perturbed <= _finite.perturbed_loss(gradient, keep, Fraction(1))


def _rise_slack(dim: float, keep_share: float, theta: float, growth: float) -> float:
    size, keep = _finite.sizes(dim, keep_share)
    below, above = (pruning.retained_gain(size, keep, t) for t in (theta, theta * growth))
    return min(below, above / below - 1, 1 - above)


def _linear_slack(dim: float, keep_share: float, theta: float, growth: float) -> float:
    """Wrong statement: rho stays below its leading term 2 theta k (1 - k)."""
    size, keep = _finite.sizes(dim, keep_share)
    return 2 * theta * keep * (size - keep) / size**2 - pruning.retained_gain(size, keep, theta)


_ORDER = Claim(
    id="gip.order",
    title="order of the pruning MSEs",
    source=Source("gip", "Proposition 2 and the text below it"),
    statement=r"$\mathrm{MSE}_{t0} < \mathrm{MSE}_t \le \mathrm{MSE}_r$.",
    verdict=Verdict.CONDITIONAL,
    conditions=("theta >= 0", "strict part: theta finite, k < 1, and not all |g_j| equal (sure under Assumption 1)"),
    correction=r"For $\theta \ge 0$ and any fixed $g$ with $\mathrm{MSE}_r \ne \mathrm{MSE}_{t0}$: "
    r"$(\mathrm{MSE}_r - \mathrm{MSE}_t)/(\mathrm{MSE}_r - \mathrm{MSE}_{t0}) = \rho \in [0, 1]$, rising in $\theta$.",
    calculators=(pruning.retained_gain, pruning.perturbed_top_k_mse),
    checks=(
        ExactCheck(
            name="share of the gain, any fixed gradient",
            cases=lambda: [(*size, w) for size in _finite.SIZES for w in (Fraction(1, 3), Fraction(9, 10))],
            truth=_gain_ratio,
            statement=lambda dim, keep, weight: pruning.retained_gain(dim, keep, -math.log(weight)),
            wrong=lambda dim, keep, weight: pruning.retained_gain(dim, keep, -math.log(weight)) ** 2,
            tolerance=1e-12,
        ),
        ExactCheck(
            name="conditions are needed",
            cases=lambda: [
                ((2, 1), 1, Fraction(2), False),  # theta = -log 2
                ((1, 1), 1, Fraction(1, 2), False),  # all entries equal
                ((2, 1, 1), 2, Fraction(1, 2), True),  # a tie across the threshold does no harm
                ((2, 1), 1, Fraction(0), False),  # theta = inf
                ((2, 1), 1, Fraction(1, 2), True),
            ],
            truth=lambda gradient, keep, weight, conditions: _order_holds(gradient, keep, weight),
            statement=lambda gradient, keep, weight, conditions: conditions,
            wrong=lambda gradient, keep, weight, conditions: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        SearchCheck(
            name="rho in [0, 1] and rising in theta",
            box={
                "dim": Range(2, 500, log=True),
                "keep_share": Range(0, 1),
                "theta": Range(1e-12, 50, log=True),
                "growth": Range(1.001, 10),
            },
            slack=_rise_slack,
            wrong=_linear_slack,
        ),
    ),
    proved=True,
    figure="retained_gain",
)

CLAIMS = (_MSE_T0, _MSE_T, _ORDER)
