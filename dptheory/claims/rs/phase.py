"""rs.phase: when masking pays."""

import itertools
import math
from fractions import Fraction

import numpy as np
from scipy.optimize import minimize_scalar

from dptheory import convergence, gradients, sparsification
from dptheory.claims._row import Claim, Kind, Range, Row, Sides, Source, Verdict
from dptheory.claims.rs import _phase_cases as cases
from dptheory.claims.rs import _poisson_mixture as mixture

row = Row(
    Claim(
        id="rs.phase",
        title="when masking pays",
        source=Source("rs", "new, on Lemma 3.3 and Theorem 3.5"),
        ours=True,
        for_users=(
            r"Where deviations spread like an isotropic Gaussian no mask lowers the bound on the exact descent at a tuned learning rate unless "
            r"$\sigma>2.1B$; else compare $1-r$ with the square of the share of the gradient that survives clipping."
        ),
        statement=r"""Let $U(w) = E\langle w,\mathrm{clip}_ C(w+\xi)\rangle$, the descent itself and no bound on it,
$U_m(w) = E\langle w,\mathrm{clip}_ C(m\odot(w+\xi))\rangle$ and $\kappa^\ast = E_mU_m/U$. Theorem 3.5 holds with $U(\nabla w_t)$ for $Q_t$ and
$\kappa^\ast$ for $\kappa$, without a bias term, where $\kappa^\ast>0$, and so does [rs.clipped_steps](clipped_steps.md) for symmetric deviations; below, their bounds are these. Let
$k = xd$, $H = U(w)/|w|^2$ the share of the gradient that survives, $A = \frac{GM}2$ and $D = \Delta_\sigma$.

1. For every symmetric $\xi$, $\kappa^\ast\le\min(x,\sqrt x\thinspace C/|w|)/H$. At a learning rate tuned for each $x$ no mask with $x\le H^2$ lowers
   the bound of Theorem 3.5, whatever the noise; at a fixed one none with $x\le H\frac{a+x\gamma D}{a+\gamma D}$, $a = \frac{\Delta_L}{\gamma T}+\gamma A$.
   For every $H<\sqrt x\frac{1+\sqrt x}{1+\sqrt x+x}$ there are, in enough dimensions, a $\xi$ and a noise with a gain at the tuned rate.
2. For $\xi\sim N(0,s^2I)$, every gradient and every $C$: entries of one size have the largest $\kappa^\ast$ of their norm, and
   $$\kappa^{\ast2}\le x\Big(1+\frac r{6k-1}\Big) .$$
   No constant above 6 will do for all $k$. If $|w|^2\le\frac12E|\xi|^2$, $\kappa^\ast\le\sqrt x$. The displayed inequality holds for
   mixtures over $s$ too.
3. So for such $\xi$ no mask lowers the bound of Theorem 3.5
   - at a tuned learning rate, unless $\big(\frac\sigma B\big)^2>6-\frac1k-\frac1d$, which is at least 4.5;
   - at a fixed one, unless $\frac{d\sigma^2}{B^2}>\frac{1-1/(3k)}{\sqrt x}\Big(1+\frac{2\Delta_L}{\gamma^2TGC^2}\Big)$.

   And the largest decrease that $G$-smoothness guarantees for one step grows at most by the factor $1+\frac r{6k-1}$.
4. For the sharper bound of [rs.clipped_steps](clipped_steps.md) as `dpsgd_bound` returns it, let $J_x$ be its least value over $\gamma$ divided by
   $2Gx\Delta_L/\kappa$, to which it tends as $\gamma\to0$. A mask lowers the least value if and only if $\kappa>xJ_x/J_1$, so never for
   $\kappa\le x$. If $4G^2\Delta_L\le T(A+D)$, with $\Lambda = \frac1x\sqrt{\frac{A+xD}{A+D}}\ge\frac1{\sqrt x}$,
   $$\frac{x\Lambda}{1+J_1(\Lambda-1)}\le x\frac{J_x}{J_1}\le x\Lambda ,$$
   so not for $\kappa\le\sqrt x\big/\big(1+J_1(\frac1{\sqrt x}-1)\big)$ either. At a fixed $\gamma\le\frac1{2G}$ with
   $\Delta_L\ge\frac{\gamma(A/x+D)}{2G}$ no mask with $\kappa\le x+rc$ lowers it, $c$ the share that the clipping term $A$ has in it without a mask.""",
        verdict=Verdict.HOLDS,
        summary=r"isotropic Gaussian deviation: the exact $\kappa^2\le x(1+\frac r{6k-1})$, so no mask lowers Theorem 3.5's tuned bound "
        r"unless $\sigma>2.1B$; any symmetric one: none with $x\le H^2$ does.",
        key_points=(
            r"$\kappa$ of the papers compares two lower bounds on the descent, and can be large where both say nothing. $\kappa^\ast$ compares the descents.",
            r"Isotropic Gaussian deviations: what $\kappa^\ast$ gains over $\sqrt x$ is at most $\frac r{12k-2}$ of it. It vanishes in the number $k$ of entries kept, "
            "not in the dimension: where one entry of very many is kept it can be 6.8 %.",
            r"Heavy tails alone do not change that: mixtures of isotropic Gaussians of several sizes have the same bound. Deviations that sit in few entries can, and then only for $x>H^2$.",
            r"Use `isotropic_kappa` and `largest_isotropic_kappa`; for the sharper bound `tuned_learning_rate` with `dpsgd_bound`.",
        ),
        conditions=(
            "Those of Theorem 3.5: a fresh mask, no momentum. Items 1 to 3 are about one gradient; the factor of the theorem is the mean of those of the "
            r"iterates weighted by $U$, so a bound that holds at every iterate holds for it.",
            r"$w\ne0$, $C>0$, $s\ge0$, $\Delta_L>0$, $0<r<1$; in item 1 $H>0$. $E|\xi|^2 = ds^2$ in item 2. $M$ is $C^2$ for batches of fixed size, "
            r"$C^2(1+\frac{1-q}B)$ for Poisson batches, with and without the mask; a finer second moment can be smaller with it ([rs.tuned](tuned.md)).",
            "Item 2 is false for other deviations: rank one ([rs.rem2](rem2.md)), or independent entries of unequal variance (the example at the end of the proof).",
            r"The last sentence of item 3 is about $(E\langle w,g\rangle)^2/(2GE|g|^2)$, for independent examples of the same law ([rf.mse_criterion](../rf/mse_criterion.md)).",
            r"In item 4 $\kappa$ is any number that does not depend on $\gamma$; for $\kappa^\ast$, which may, a bound on it that does not.",
        ),
        calculators=(
            sparsification.isotropic_kappa,
            sparsification.largest_isotropic_kappa,
            convergence.tuned_learning_rate,
        ),
        proved=True,
        figure="masking_phases",
    )
)

_THIN = 1e-6
"""A clipping norm so far below the deviations that every gradient is clipped."""


@row.equal(
    (0.7, 3, 1, 0.4, 0.3),
    (3.0, 10, 5, 0.3, 1.0),
    (3.0, 10, 1, 2.0, 4.0),
    (150.0, 10_000, 2_500, 0.5, 30.0),
    (1.0, 1_000_000, 1_000, 0.002, 0.5),
    tolerance=1e-8,
)
def _(size: float, dim: int, keep: int, deviation: float, clip: float) -> Sides:
    """the exact kappa, by a mixture of central laws"""
    found = sparsification.isotropic_kappa(
        grad_norm=size, dim=dim, clip_norm=clip, drop_rate=1 - keep / dim, deviation=deviation
    )
    return found, lambda: mixture.isotropic_kappa(size, dim, keep, deviation, clip), 1.0001 * found


@row.equal((2, 1), (100, 37), (10_000, 1), (1_000_000, 999_999), tolerance=1e-12)
def _(dim: int, keep: int) -> Sides:
    """the bound on it, in fractions"""
    # x (6 - 1/d) / (6 - 1/k), as the proof has it
    square = Fraction(keep, dim) * (6 - Fraction(1, dim)) / (6 - Fraction(1, keep))
    found = sparsification.largest_isotropic_kappa(dim=dim, drop_rate=1 - keep / dim)
    return found**2, float(square), keep / dim


@row.equal((10_000, 100), (1_000_000, 1_000), tolerance=0.004)
def _(dim: int, keep: int) -> Sides:
    """6 is the best constant: reached by long gradients of d >> k >> 1 entries and a small clip"""
    size = math.sqrt(2 * dim)
    excess = (
        sparsification.isotropic_kappa(
            grad_norm=size, dim=dim, clip_norm=_THIN, drop_rate=1 - keep / dim, deviation=1.0
        )
        ** 2
        / (keep / dim)
        - 1
    )
    return excess * (6 * keep - 1) / (1 - keep / dim), 1.0, 6 / 7


def _used(dim: float, keep_share: float, signal: float, clip_share: float) -> float:
    """Share of the allowed excess r / (6 k - 1) of kappa^2 / x that is used; ``signal`` = w_j^2 / s^2."""
    d, k = cases.entries(dim, keep_share)
    size = math.sqrt(signal * d)
    kappa = mixture.isotropic_kappa(size, d, k, 1.0, clip_share * math.sqrt(size**2 + d))
    return (kappa**2 / (k / d) - 1) * (6 * k - 1) / (1 - k / d)


def _at_six(**point: float) -> float:
    """Wrong statement: 3 % less is enough."""
    return 0.97 - _used(**point)


_BOX = {
    "dim": Range(2, 60),
    "keep_share": Range(0, 1),
    "signal": Range(0.01, 8, log=True),
    "clip_share": Range(1e-4, 2, log=True),
}


@row.inequality(_BOX, wrong=_at_six)
def _six_slack(**point: float) -> float:
    """kappa^2 <= x (1 + r / (6 k - 1))"""
    return 1 - _used(**point)


def _up_to_seven_tenths(signal: float, **point: float) -> float:
    """Wrong statement: the same up to |w|^2 = 0.7 E|xi|^2."""
    return _short_slack(signal=1.4 * signal, **point)


@row.inequality({**_BOX, "signal": Range(0.01, 0.5, log=True)}, wrong=_up_to_seven_tenths)
def _short_slack(**point: float) -> float:
    """kappa <= sqrt x where |w|^2 is at most half of E|xi|^2"""
    return -_used(**point)


def _other_way_round(**point: float) -> float:
    exact, flat = cases.spread_kappa(**point)
    return exact / flat - 1


@row.inequality(
    {
        "second": Range(0, 1),
        "third": Range(0, 1),
        "keep": Range(1, 3),
        "signal": Range(0.01, 30, log=True),
        "clip_share": Range(1e-3, 2, log=True),
    },
    wrong=_other_way_round,
)
def _spread_slack(**point: float) -> float:
    """no gradient of the same norm has a larger kappa than equal entries, all masks of four"""
    exact, flat = cases.spread_kappa(**point)
    return 1 - exact / flat


def _gain_at_tuned(noise_share: float, **point: float) -> float:
    """Tuned bound with a mask over that without, less 1, at this share of the noise that is needed; times k."""
    d, k = cases.entries(point["dim"], point["keep_share"])
    size = math.sqrt(point["signal"] * d)
    kappa = mixture.isotropic_kappa(size, d, k, 1.0, point["clip_share"] * math.sqrt(size**2 + d))
    noise = noise_share * (6 - 1 / k - 1 / d) * d

    def bound(rate: float, kept: float) -> float:
        return sparsification.tuned_bound(
            drop_rate=rate, kappa=kept, objective_gap=1.0, steps=1.0, curvature_term=1.0, noise_term=noise
        ).bound

    return k * (bound(1 - k / d, kappa) / bound(0.0, 1.0) - 1)


def _more_noise(noise_share: float, **point: float) -> float:
    """Wrong statement: up to twice that noise."""
    return _gain_at_tuned(2 * noise_share, **point)


@row.inequality({**_BOX, "noise_share": Range(0, 1)}, wrong=_more_noise)
def _tuned_slack(**point: float) -> float:
    """no gain at the tuned rate for (sigma / B)^2 <= 6 - 1/k - 1/d"""
    return _gain_at_tuned(**point)


def _gain_at_fixed(noise_share: float, dim: float, keep_share: float) -> float:
    """U(r) / U(0) - 1 for the largest kappa that the bound allows, at this share of the noise that is needed; times k / r."""
    d, k = cases.entries(dim, keep_share)
    x = k / d
    noise = noise_share * (1 - 1 / (3 * k)) / math.sqrt(x)
    kappa = sparsification.largest_isotropic_kappa(dim=d, drop_rate=1 - x)
    return sparsification.least_kappa(drop_rate=1 - x, delta_c=1.0, step_noise=noise) / kappa - 1


def _fixed_wrong(noise_share: float, dim: float, keep_share: float) -> float:
    """Wrong statement: up to half as much noise again."""
    return _gain_at_fixed(1.5 * noise_share, dim, keep_share)


@row.inequality(
    {"noise_share": Range(0, 1), "dim": Range(2, 1e6, log=True), "keep_share": Range(0, 1)}, wrong=_fixed_wrong
)
def _fixed_slack(**point: float) -> float:
    """no gain at a fixed rate below the noise that is stated"""
    return _gain_at_fixed(**point)


def _worth_ratio(batch: float, noise_ratio: float, **point: float) -> float:
    """What one step is worth with a mask over that without, less 1, over r / (6 k - 1)."""
    d, k = cases.entries(point["dim"], point["keep_share"])
    size = math.sqrt(point["signal"] * d)
    clip = point["clip_share"] * math.sqrt(size**2 + d)
    noise = noise_ratio * clip**2
    masked = cases.step_worth(math.sqrt(k / d) * size, k, clip, batch, noise, k / d)
    return (masked / cases.step_worth(size, d, clip, batch, noise, 1.0) - 1) * (6 * k - 1) / (1 - k / d)


def _worth_wrong(**point: float) -> float:
    return 0.9 - _worth_ratio(**point)


@row.inequality(
    {**_BOX, "batch": Range(1, 1e4, log=True), "noise_ratio": Range(1e-4, 1e8, log=True)}, wrong=_worth_wrong
)
def _worth_slack(**point: float) -> float:
    """what one step is worth grows at most by 1 + r / (6 k - 1), any batch size and noise"""
    return 1 - _worth_ratio(**point)


@row.equal((1e3, 200, 50, 4), (1e5, 1_000, 10, 1_000), tolerance=1e-4)
def _(noise: float, dim: int, keep: int, batch: int) -> Sides:
    """what one step is worth, by the calculator"""
    x, size, clip = keep / dim, math.sqrt(3.0 * dim), 2.0
    found = gradients.clipped_gradient_mse(
        grad_norm=size,
        dim=dim,
        deviation=1.0,
        clip_norm=clip,
        noise_multiplier=batch * math.sqrt(noise / dim),
        batch_size=batch,
        drop_rate=1 - x,
    )
    full = cases.step_worth(size, dim, clip, batch, noise * clip**2, 1.0)
    masked = cases.step_worth(math.sqrt(x) * size, keep, clip, batch, noise * clip**2, x)
    return found.masked.descent_ratio / found.full.descent_ratio, masked / full, 1.01 * masked / full


def _symmetric_wrong(**point: float) -> float:
    exact, bound = cases.any_symmetric(**point)
    return 0.95 * bound / exact - 1


@row.inequality(
    {
        "second": Range(0, 3),
        "third": Range(0, 3),
        "spread": Range(0.01, 3, log=True),
        "turn": Range(0, 1),
        "clip": Range(0.02, 5, log=True),
        "keep": Range(1, 4),
    },
    wrong=_symmetric_wrong,
)
def _symmetric_slack(**point: float) -> float:
    """any symmetric deviation: kappa <= min(x, sqrt x C / |w|) / H, all masks of four entries"""
    exact, bound = cases.any_symmetric(**point)
    return bound / exact - 1


@row.equal(
    (400, 100, 0.97, True),
    (400, 300, 0.97, True),
    (10_000, 1_000, 0.99, True),
    (10_000, 1_000, 1.01, False),
    kind=Kind.COUNTEREXAMPLE,
)
def _(dim: int, keep: int, factor: float, pays: bool) -> Sides:
    """deviations in one entry: masks that pay, just below the stated H"""
    return pays, lambda: cases.one_entry_gain(dim, keep, factor), not pays


def _without_j(**point: float) -> float:
    """Wrong statement: it asks for as much as the bound of Theorem 3.5."""
    _, exact, top = cases.threshold(**point)
    return exact / top - 1


_RUNS = {
    "log_steps": Range(0.4, 6),
    "log_theta": Range(0, 8),
    "noise_ratio": Range(1e-2, 1e8, log=True),
    "x": Range(0.001, 0.999),
}


@row.inequality(_RUNS, wrong=_without_j)
def _sharper_slack(**point: float) -> float:
    """the sharper bound asks for no less kappa than stated"""
    low, exact, _ = cases.threshold(**point)
    return exact / low - 1


def _halfway(**point: float) -> float:
    """Wrong statement: for no more than the mean of both ends."""
    low, exact, top = cases.threshold(**point)
    return math.sqrt(low * top) / exact - 1


@row.inequality(_RUNS, wrong=_halfway)
def _looser_slack(**point: float) -> float:
    """nor for more than the bound of Theorem 3.5"""
    _, exact, top = cases.threshold(**point)
    return top / exact - 1


def _printed_threshold(**point: float) -> float:
    """Wrong statement: it asks for as much as the bound of Theorem 3.5."""
    exact, _, printed = cases.fixed_threshold(**point)
    return exact / printed - 1


@row.inequality(
    {
        "log_steps": Range(0, 6),
        "noise_ratio": Range(1e-2, 1e6, log=True),
        "x": Range(0.001, 0.999),
        "rate_share": Range(1e-4, 1, log=True),
        "gap_excess": Range(1, 1e4, log=True),
    },
    wrong=_printed_threshold,
)
def _fixed_sharper_slack(**point: float) -> float:
    """at a fixed rate the sharper bound asks for at least x + r c"""
    exact, least, _ = cases.fixed_threshold(**point)
    return exact / least - 1


@row.equal(
    *itertools.product((2, 50, 20_000), (0.5, 3.0), (0.01, 100.0), (0.0, 0.75), (None,), (10_000,)),
    (100, -1.5, 3.0, 0.5, None, 3),
    *itertools.product((50,), (0.5, 3.0), (1.0,), (0.75,), (0.01, 0.5), (3,)),
    tolerance=1e-5,
)
def _(steps: int, log_theta: float, noise_ratio: float, rate: float, sampling_rate: float | None, dim: int) -> Sides:
    """the learning rate of the least bound, by golden section on dpsgd_bound"""
    run = cases.run(math.log10(steps), log_theta, noise_ratio, dim)
    if sampling_rate is not None:
        run |= {"sampling": "poisson", "sampling_rate": sampling_rate}

    def least() -> float:
        def bound(log_rate: float) -> float:
            gamma = math.exp(log_rate)
            return convergence.dpsgd_bound(**run, drop_rate=rate, learning_rate=gamma).value  # type: ignore[arg-type]

        grid = np.linspace(-25.0, 5.0, 121)
        best = float(grid[np.argmin([bound(float(one)) for one in grid])])
        found = minimize_scalar(bound, bounds=(best - 0.3, best + 0.3), method="bounded", options={"xatol": 1e-10})
        return math.exp(float(found.x))

    found = convergence.tuned_learning_rate(**run, drop_rate=rate)  # type: ignore[arg-type]
    return found, least, 1.01 * found
