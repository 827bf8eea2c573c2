"""gip.cor1: condition to beat DP-SGD."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

from dptheory import pruning
from dptheory.claims._row import Claim, Kind, Range, Row, Sides, Source, Verdict
from dptheory.claims.gip import _finite
from dptheory.claims.gip._gaussian import pruned_gaussian, ranked_loss, zeta
from dptheory.claims.gip.retained_gain import gain


def printed_beta(clip: float, keep: int, dim: int, theta: float) -> float:
    """beta as printed in Corollary 1; equals C^2 / (1 - rho zeta)."""
    k = keep / dim
    swaps = pruning.SubsetMallows(dim, keep, theta=theta).mean_swaps()
    top_k_part = (1 - k) * dim * (1 - zeta(k))
    return clip**2 * (1 - k) * dim / (top_k_part + zeta(k) / k * swaps)


def _printed_is_safe_slack(dim: float, keep_share: float, theta: float) -> float:
    size, keep = _finite.sizes(dim, keep_share)
    return pruning.beta(clip_norm=1.0, keep=keep, dim=size, theta=theta) / printed_beta(1.0, keep, size, theta) - 1


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
        exact, printed = (
            pruning.beta(clip_norm=clip, keep=keep, dim=dim, theta=theta),
            printed_beta(clip, keep, dim, theta),
        )
        for ratio in (0.999 * exact, 1.001 * exact, 0.5 * (exact + printed)):
            yield clip, dim, keep, theta, ratio


_DIM, _KEEP, _THETA = 40, 10, 1.0


row = Row(
    Claim(
        id="gip.cor1",
        title="condition to beat DP-SGD",
        source=Source("gip", "Corollary 1"),
        statement=r"""Under Assumption 1, if $\sigma_g^2\le\beta\sigma^2$ with

$$\beta = \frac{C^2(1-k)d}{(1-k)d[1-\zeta]+\frac\zeta kF(\theta)},\qquad\zeta = k+2a\varphi(a),\quad F(\theta) = E[i],$$

then $\mathrm{MSE}_d>\mathrm{MSE}_t$, where $\mathrm{MSE}_d = \sigma^2C^2d$ is the error of DP-SGD. The comparison that
matters is that with the whole error of the pruned method, pruning plus noise (equation 5); this is the reading that is
judged.""",
        verdict=Verdict.FALSE,
        summary=(
            r"with $\mathrm{MSE}_ t$ read as pruning plus noise the printed $\beta$ is too large for every $\theta>0$, and at "
            r"$\theta = 0$ the case of equality fails; the page has the exact $\beta$."
        ),
        key_points=(
            r"Claimed: if $\sigma_g^2\le\beta\sigma^2$, GIP has a smaller error than DP-SGD.",
            (
                r"True with the exact $\beta = C^2(d-K)/p$ and a strict inequality; the printed $\beta$ is too large "
                r"for every $\theta>0$."
            ),
            r"At $\theta = 0$ the exact and the printed $\beta$ are both $C^2$, and the case of equality fails.",
            "Use `beta`; but a smaller error is no reason to prune ([gip.criterion](criterion.md)).",
        ),
        conditions=(
            r"Stated: Assumption 1; $\theta\ge0$ (section 3).",
            (
                "Unstated: $kd$ is an integer, $0<k<1$ (for $k = 1$ the formula is $0/0$ and both errors are equal), "
                r"$\sigma>0$, $C>0$, $\sigma_g>0$."
            ),
            r"The inequality on $\sigma_g^2$ must be strict: at equality the two errors are equal.",
        ),
        correction=r"""Let $p = \mathrm{MSE}_t/\sigma_g^2$ be the exact pruning error for $\sigma_g = 1$ ([gip.mse_t](mse_t.md)) and $\rho$ the
retained gain ([gip.order](order.md)). For $K = kd<d$

$$\mathrm{MSE}_ t+\sigma^2C^2K<\mathrm{MSE}_ d\iff\frac{\sigma_g^2}{\sigma^2}<\beta_{\mathrm{exact}},\qquad\beta_{\mathrm{exact}} = \frac{C^2(d-K)}p ,$$

$$C^2\le\beta_{\mathrm{exact}}\le\beta_{\mathrm{asym}} = \frac{C^2}{1-2a\varphi(a)\rho/(1-k)}\le\beta_{\mathrm{printed}} = \frac{C^2}{1-\rho\zeta} ,$$

with equality throughout for $\theta = 0$ and strict inequalities for $\theta>0$.

With $\mathrm{MSE}_ t$ read as the pruning part alone the printed $\beta$ is asymptotically sufficient for $\rho<1$, but then
the noise of the pruned method is left out of the comparison.""",
        printed=printed_beta,
        calculators=(pruning.beta,),
        proved=True,
        figure="beta",
    )
)


@row.equal(_ratio_cases, kind=Kind.COUNTEREXAMPLE)
def _(clip: float, dim: int, keep: int, theta: float, ratio: float) -> Sides:
    """pruning wins below the exact beta only"""
    return (
        ratio < pruning.beta(clip_norm=clip, keep=keep, dim=dim, theta=theta),
        lambda: _pruning_wins(clip, dim, keep, theta, ratio),
        ratio <= printed_beta(clip, keep, dim, theta),
    )


@row.mean(
    partial(pruned_gaussian, dim=_DIM, keep=_KEEP, theta=_THETA),
    wrong=lambda: (_DIM - _KEEP) / printed_beta(1.0, _KEEP, _DIM, _THETA),
    row_bytes=1600,
)
def _() -> float:
    """pruning MSE at beta, d = 40"""
    return (_DIM - _KEEP) / pruning.beta(clip_norm=1.0, keep=_KEEP, dim=_DIM, theta=_THETA)


@row.inequality(
    {"dim": Range(2, 2000, log=True), "keep_share": Range(0, 1), "theta": Range(1e-9, 20, log=True)},
    wrong=_printed_is_safe_slack,
)
def _beta_order_slack(dim: float, keep_share: float, theta: float) -> float:
    """C^2 <= exact <= asymptotic <= printed"""
    size, keep = _finite.sizes(dim, keep_share)
    chain = (
        1.0,
        pruning.beta(clip_norm=1.0, keep=keep, dim=size, theta=theta),
        pruning.beta(clip_norm=1.0, keep=keep, dim=size, theta=theta, method="asymptotic"),
        printed_beta(1.0, keep, size, theta),
    )
    return min(above / below - 1 for below, above in itertools.pairwise(chain))
