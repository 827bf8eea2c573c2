"""gip.mse_t0: the MSE of top-k pruning counts one factor twice."""

import math
from functools import partial

from scipy.stats import norm

from dptheory import pruning
from dptheory.claims._row import Claim, Kind, Range, Row, Sides, Source, Verdict
from dptheory.claims.gip import _finite
from dptheory.claims.gip._gaussian import energy_by_quadrature, pruned_gaussian, ranked_loss, zeta


def printed_top_k_mse(dim: int, keep: int, sigma_g: float = 1.0) -> float:
    """MSE_t0 as printed in equations 7 and 16: the factor 1 - k stands there twice."""
    return (dim - keep) * sigma_g**2 * (1 - zeta(keep / dim))


row = Row(
    Claim(
        id="gip.mse_t0",
        title="top-k pruning MSE",
        source=Source("gip", "Proposition 2", (7, 14, 15, 16)),
        statement=r"""Let $I_t$ keep the $K = kd$ entries of largest absolute value. With $a = \Phi^{-1}(1-k/2)$ the paper states

$$\mathrm{MSE}_{t0} = E\lVert g-g\odot I_t\rVert^2 = (1-k)d\sigma_g^2[1-k-2a\varphi(a)] .$$""",
        verdict=Verdict.FALSE,
        summary=(
            "the factor $1-k$ is counted twice: the printed value is $1-k$ times the asymptotic one, which "
            "itself lies below the exact one by an amount that tends to a constant."
        ),
        key_points=(
            "Claimed: a closed form for the error of keeping the $K = kd$ largest of $d$ Gaussian entries.",
            (
                "True: the printed form counts the factor $1-k$ twice. Without it, it is the asymptotic value for "
                r"$d\to\infty$."
            ),
            (
                "The exact error is a mean over one Beta variable, and lies above that value by an amount that tends "
                "to a constant."
            ),
            "Use `top_k_mse`.",
        ),
        conditions=(
            r"Stated: Assumption 1 (independent $N(0,\sigma_g^2)$ entries).",
            r"Unstated: $K = kd$ is an integer and exactly $K$ entries are kept. For $K = d$ the error is 0. Below $1\le K<d$ and "
            r"$\sigma_g>0$.",
        ),
        correction=r"""With $F(x) = P(|N(0,1)|\le x) = 2\Phi(x)-1$, $a_u = F^{-1}(u) = \Phi^{-1}(\frac{1+u}2)$ and $H(u) = u-2a_u\varphi(a_u)$:

$$\mathrm{MSE}_{t0} = d\sigma_g^2E[H(U)],\qquad U\sim\mathrm{Beta}(d-K,K),$$

$$\mathrm{MSE}_ {t0} > d\sigma_g^2H(1-k) = d\sigma_g^2(1-k-2a\varphi(a)),\qquad
\mathrm{MSE}_{t0} - d\sigma_g^2H(1-k) \to \frac{k(1-k)a}{2\varphi(a)}\sigma_g^2$$

for $1\le K<d$, the limit for fixed $k\in(0,1)$ and $d\to\infty$ (along those $d$ for which $kd$ is an integer). $H$ is convex, so
the asymptotic value is the smaller one.""",
        printed_error=r"Equation 16 multiplies the number of pruned entries, $d(1-k)$, by $\int_{-a}^ax^2\varphi(x)dx = H(1-k)$. This "
        r"integral is $E[x^2;|x|\le a]$, which already contains the probability $1-k$ of being pruned. The mean square of a pruned "
        r"entry is $H(1-k)/(1-k)$. So printed $= (1-k)\times$ asymptotic $<$ asymptotic $<$ exact, for every $1\le K<d$.",
        printed=printed_top_k_mse,
        calculators=(pruning.top_k_mse, pruning.top_k_energy),
        proved=True,
        figure="top_k_mse",
    )
)


@row.equal((2, 1), tolerance=1e-13, kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int) -> tuple[float, float]:
    """two entries: 1 - 2/pi"""
    return float(pruning.top_k_mse(dim, keep, sigma_g=1.0)), 1 - 2 / math.pi


@row.equal((3, 1), (3, 2), (10, 1), (10, 9), (100, 10), (1000, 5), (10_000, 3000), tolerance=1e-9)
def _(dim: int, keep: int) -> Sides:
    """second method: rank of each entry"""
    asymptotic = pruning.top_k_mse(dim, keep, sigma_g=1.0, method="asymptotic")
    return pruning.top_k_mse(dim, keep, sigma_g=1.0), lambda: ranked_loss(dim, keep), asymptotic


@row.equal((2, 1), (100, 10), (10**6, 3), (10**9, 10**8), tolerance=1e-12)
def _(dim: int, keep: int) -> Sides:
    """kept and lost energy add up"""
    lost, kept = pruning.top_k_mse(dim, keep, sigma_g=1.0), pruning.top_k_energy(dim, keep, sigma_g=1.0)
    return lost + kept, dim, printed_top_k_mse(dim, keep) + kept


@row.mean(
    partial(pruned_gaussian, dim=500, keep=50, theta=math.inf),
    wrong=lambda: printed_top_k_mse(500, 50),
    row_bytes=20_000,
)
def _() -> float:
    """Gaussian gradient, d = 500"""
    return float(pruning.top_k_mse(500, 50, sigma_g=1.0))


@row.mean(
    partial(pruned_gaussian, dim=20, keep=2, theta=math.inf),
    wrong=lambda: pruning.top_k_mse(20, 2, sigma_g=1.0, method="asymptotic"),
    row_bytes=800,
)
def _() -> float:
    """finite dimension counts, d = 20"""
    return float(pruning.top_k_mse(20, 2, sigma_g=1.0))


@row.equal((10**6, 10**5), (10**6, 5 * 10**5), (10**6, 9 * 10**5), tolerance=1e-4)
def _(dim: int, keep: int) -> Sides:
    """limit of the gap"""
    a = norm.isf(keep / dim / 2)
    limit = keep / dim * (1 - keep / dim) * a / (2 * norm.pdf(a))
    gap = pruning.top_k_mse(dim, keep, sigma_g=1.0) - pruning.top_k_mse(dim, keep, sigma_g=1.0, method="asymptotic")
    return limit, gap, 2 * limit


def _strengthened(dim: float, keep_share: float) -> float:
    return jensen_slack(dim, keep_share) - 1e-3


@row.inequality({"dim": Range(2, 1e9, log=True), "keep_share": Range(0, 1)}, wrong=_strengthened)
def jensen_slack(dim: float, keep_share: float) -> float:
    """asymptotic <= exact"""
    size, keep = _finite.sizes(dim, keep_share)
    return 1 - float(
        pruning.top_k_mse(size, keep, sigma_g=1.0, method="asymptotic") / pruning.top_k_mse(size, keep, sigma_g=1.0)
    )


@row.equal(
    lambda: [(dim, k, kept) for dim in (100, 20_000, 10**6) for k in (0.1, 0.5) for kept in (False, True)],
    tolerance=1e-9,
)
def _(dim: int, k: float, kept: bool) -> Sides:
    """asymptotic forms: energy beyond and below the threshold, by quadrature"""
    keep = round(k * dim)
    stated = pruning.top_k_energy if kept else pruning.top_k_mse
    return (
        stated(dim, keep, sigma_g=1.0, method="asymptotic"),
        energy_by_quadrature(dim, k, kept),
        printed_top_k_mse(dim, keep),
    )
