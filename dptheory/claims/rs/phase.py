import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import scipy

from dptheory import convergence, gradients, sparsification
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs._runs import clip as clip_rows
from dptheory.claims.rs._runs import four_entries, least, mask_rows, spelled

# --- Moments of a clipped Gaussian gradient as sums over a Poisson number: the noncentral chi-square law as a mixture of central ones
#
# The side of rs.phase's checks that does not use :func:`dptheory.gradients.gaussian_clip_moments`.


_REACH = 7.5  # standard deviations of the Poisson number on both sides of its mean, and as many numbers more


def _mixture(noncentrality: float) -> tuple[Array, Array]:
    """Values j and chances of a Poisson number of mean ``noncentrality`` / 2."""
    mean = noncentrality / 2
    reach = _REACH * math.sqrt(mean) + 5 * _REACH
    j = np.arange(max(0.0, math.floor(mean - reach)), math.ceil(mean + reach) + 1)
    chances = (
        np.exp(j * math.log(mean) - mean - scipy.special.gammaln(j + 1)) if mean > 0 else (j == 0).astype(np.float64)
    )
    return j, chances / chances.sum()


def clip_slope(size: float, entries: int, deviation: float, clip: float) -> float:
    """E min(1, C / (s chi_n)), n = ``entries`` + 2: the a in E clip(g) = a w for g ~ N(w, s^2 I), |w| = ``size``."""
    j, chances = _mixture((size / deviation) ** 2)
    half, cut = entries / 2 + 1 + j, (clip / deviation) ** 2 / 2
    # E chi_n^-1 over chi_n > C / s: a gamma function with one degree of freedom less
    beyond = np.exp(scipy.special.gammaln(half - 0.5) - scipy.special.gammaln(half)) * scipy.special.gammaincc(
        half - 0.5, cut
    )
    return float(chances @ (scipy.special.gammainc(half, cut) + math.sqrt(cut) * beyond))


def clip_square(size: float, entries: int, deviation: float, clip: float) -> float:
    """E min(|g|, C)^2 for g ~ N(w, s^2 I), |w| = ``size``."""
    j, chances = _mixture((size / deviation) ** 2)
    half, cut = entries / 2 + j, (clip / deviation) ** 2 / 2
    inside = 2 * half * scipy.special.gammainc(half + 1, cut)
    return float(deviation**2 * (chances @ (inside + 2 * cut * scipy.special.gammaincc(half, cut))))


def isotropic_kappa(size: float, dim: int, keep: int, deviation: float, clip: float) -> float:
    """Descent of the masked, clipped gradient over that without a mask, entries of one size."""
    share = keep / dim
    masked = clip_slope(math.sqrt(share) * size, keep, deviation, clip)
    return share * masked / clip_slope(size, dim, deviation, clip)


# Gradients, deviations and runs of rs.phase's checks.


def entries(dim: float, keep_share: float) -> tuple[int, int]:
    """d, and k < d on a logarithmic scale."""
    whole = round(dim)
    return whole, min(whole - 1, round(whole**keep_share))


def spread_kappa(second: float, third: float, keep: float, signal: float, clip_share: float) -> float:
    """Exact kappa of four entries, all masks, over that of equal entries of the same norm."""
    w = np.array([1.0, second, third, second * third])
    w *= math.sqrt(4 * signal) / np.linalg.norm(w)
    size, k = math.sqrt(4 * signal), round(keep)
    clip = clip_share * math.sqrt(size**2 + 4)
    lengths = [math.hypot(*one) for one in itertools.combinations(w, k)]
    masked = np.mean([one**2 * clip_slope(one, k, 1.0, clip) for one in lengths])
    return float(masked) / (size**2 * clip_slope(size, 4, 1.0, clip)) / isotropic_kappa(size, 4, k, 1.0, clip)


def step_worth(size: float, entries: int, clip: float, batch: float, noise: float, share: float) -> float:
    """(E<w, g>)^2 / E|g|^2 of a batch of ``batch`` examples, deviation 1, mask average taken for equal entries."""
    slope = clip_slope(size, entries, 1.0, clip)
    square = (1 - 1 / batch) * (slope * size) ** 2 + clip_square(size, entries, 1.0, clip) / batch
    return (slope * size**2) ** 2 / (square + share * noise)


def _descents(w: Array, deviations: Array, clip: float, masks: Array) -> float:
    """Mean over masks and deviations of <w, clip(m * (w + xi))>."""
    return float((clip_rows(masks[:, None, :] * (w + deviations), clip) @ w).mean())


def any_symmetric(second: float, third: float, spread: float, turn: float, clip: float, keep: float) -> float:
    """Item 1's bound with H over the exact kappa of four entries and four deviations with their negatives."""
    w, deviations = four_entries(second, third, spread, turn, 30.0)
    size, x = float(np.linalg.norm(w)), round(keep) / 4
    masked = _descents(w, deviations, clip * size, mask_rows(4, round(keep)))
    return min(x, math.sqrt(x) * clip) / (masked / size**2)


def one_entry_gain(dim: int, keep: int, factor: float) -> bool:
    """Does a mask lower the tuned bound, at immense noise, for a deviation +-L e_j, j uniform?

    Equal entries, |w| far below C; L is such that H is ``factor`` times sqrt x (1 + sqrt x) / (1 + sqrt x + x).
    """
    x, root = keep / dim, math.sqrt(keep / dim)
    w, clip = np.full(dim, 1e-5 / math.sqrt(dim)), 1.0
    survives = factor * root * (1 + root) / (1 + root + x)

    def step(entries: int) -> float:
        """<w, clip(w + L e_1)> + <w, clip(w - L e_1)>, halved, with the first ``entries`` entries."""
        kept = (np.arange(dim) < entries).astype(np.float64)[None]
        outlier = np.zeros((1, dim))
        outlier[0, 0] = clip / survives
        return _descents(w, np.concatenate((outlier, -outlier)), clip, kept)

    masked = x * step(keep) + (1 - x) * x * float(w @ w)  # without the entry nothing is clipped
    return masked / step(dim) > sparsification.least_kappa_tuned(drop_rate=1 - x, noise_to_curvature=1e9)


def run(log_steps: float, log_theta: float, noise_ratio: float, dim: int = 10_000) -> dict[str, Any]:
    """A run with theta T = 10^log_theta without a mask: A = 1/2, D / A = ``noise_ratio``, G = 1."""
    steps = round(10**log_steps)
    gap, sigma = (1 + noise_ratio) / 8 * steps / 10**log_theta, 4 * math.sqrt(noise_ratio / dim)
    return spelled(gap=gap, T=steps, G=1.0, C=1.0, sigma=sigma, d=dim, B=4, sampling="fixed")


def _least(run: dict[str, Any], rate: float) -> float:
    """J_x, at the tuned learning rate."""
    gamma = convergence.tuned_learning_rate(**run, drop_rate=rate)
    bound = convergence.dpsgd_bound(**run, drop_rate=rate, learning_rate=gamma)
    return bound.value / (2 * float(run["objective_gap"]))


def threshold(log_steps: float, log_theta: float, noise_ratio: float, x: float) -> tuple[float, float, float]:
    """Item 4: its lower end, x J_x / J_1, its upper end."""
    setting = run(log_steps, log_theta, noise_ratio)
    first = _least(setting, 0.0)
    top = math.sqrt((1 + x * noise_ratio) / (1 + noise_ratio))
    return top / (1 + first * (top / x - 1)), x * _least(setting, 1 - x) / first, top


def fixed_threshold(
    log_steps: float, noise_ratio: float, x: float, rate_share: float, gap_excess: float
) -> tuple[float, float]:
    """x B_x / B_1 at a fixed rate, B the bound for kappa = x, over x + r c and over that of Theorem 3.5's bound. G = C = 1, A = 1/2."""
    gamma = rate_share / 2
    gap = gap_excess * gamma * (0.5 / x + 0.5 * noise_ratio) / 2

    def bound(drop_rate: float, bias: float | None = None) -> convergence.DescentBound:
        run = spelled(gap=gap, gamma=gamma, T=round(10**log_steps), G=1.0, C=1.0, r=drop_rate, bias=bias)
        return convergence.dpsgd_bound(**run, **spelled(sigma=math.sqrt(noise_ratio), d=1, B=1), sampling="fixed")

    plain = bound(0.0)
    exact = x * bound(1 - x).value / plain.value
    printed = x * bound(1 - x, 0.0).value / bound(0.0, 0.0).value
    return exact / (x + (1 - x) * plain.clipping / plain.value), exact / printed


row = new_row(
    id="rs.phase",
    source=Source("rs", "new, on Lemma 3.3 and Theorem 3.5"),
    verdict=Verdict.HOLDS,
    calculators=(
        sparsification.isotropic_kappa,
        sparsification.largest_isotropic_kappa,
        convergence.tuned_learning_rate,
    ),
    figure="masking_phases",
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
    return found, lambda: isotropic_kappa(size, dim, keep, deviation, clip), 1.0001 * found


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
    x, size = keep / dim, math.sqrt(2 * dim)
    kappa = sparsification.isotropic_kappa(grad_norm=size, dim=dim, clip_norm=_THIN, drop_rate=1 - x, deviation=1.0)
    return (kappa**2 / x - 1) * (6 * keep - 1) / (1 - x), 1.0, 6 / 7


def _used(dim: float, keep_share: float, signal: float, clip_share: float) -> float:
    """Share of the allowed excess r / (6 k - 1) of kappa^2 / x that is used; ``signal`` = w_j^2 / s^2."""
    d, k = entries(dim, keep_share)
    size = math.sqrt(signal * d)
    kappa = isotropic_kappa(size, d, k, 1.0, clip_share * math.sqrt(size**2 + d))
    return (kappa**2 / (k / d) - 1) * (6 * k - 1) / (1 - k / d)


_BOX = {
    "dim": Range(2, 60),
    "keep_share": Range(0, 1),
    "signal": Range(0.01, 8, log=True),
    "clip_share": Range(1e-4, 2, log=True),
}


# wrong: 3 % less is enough
@row.inequality(_BOX, wrong=lambda **point: 0.97 - _used(**point))
def _six_slack(**point: float) -> float:
    """kappa^2 <= x (1 + r / (6 k - 1))"""
    return 1 - _used(**point)


def _short_slack(**point: float) -> float:
    """kappa <= sqrt x where |w|^2 is at most half of E|xi|^2"""
    return -_used(**point)


row.inequality(
    {**_BOX, "signal": Range(0.01, 0.5, log=True)},
    # wrong: up to |w|^2 = 0.7 E|xi|^2
    wrong=lambda signal, **point: _short_slack(signal=1.4 * signal, **point),
)(_short_slack)


@row.inequality(
    {
        "second": Range(0, 1),
        "third": Range(0, 1),
        "keep": Range(1, 3),
        "signal": Range(0.01, 30, log=True),
        "clip_share": Range(1e-3, 2, log=True),
    },
    wrong=lambda **point: spread_kappa(**point) - 1,  # the other way round
)
def _spread_slack(**point: float) -> float:
    """no gradient of the same norm has a larger kappa than equal entries, all masks of four"""
    return 1 - spread_kappa(**point)


def _gain_at_tuned(noise_share: float, **point: float) -> float:
    """Tuned bound with a mask over that without, less 1, at this share of the noise that is needed; times k."""
    d, k = entries(point["dim"], point["keep_share"])
    size = math.sqrt(point["signal"] * d)
    kappa = isotropic_kappa(size, d, k, 1.0, point["clip_share"] * math.sqrt(size**2 + d))
    noise = noise_share * (6 - 1 / k - 1 / d) * d

    def bound(rate: float, kept: float) -> float:
        return sparsification.tuned_bound(
            drop_rate=rate, kappa=kept, objective_gap=1.0, steps=1.0, curvature_term=1.0, noise_term=noise
        ).bound

    return k * (bound(1 - k / d, kappa) / bound(0.0, 1.0) - 1)


@row.inequality(
    {**_BOX, "noise_share": Range(0, 1)},
    # wrong: up to twice that noise
    wrong=lambda noise_share, **point: _gain_at_tuned(2 * noise_share, **point),
)
def _tuned_slack(**point: float) -> float:
    """no gain at the tuned rate for (sigma / B)^2 <= 6 - 1/k - 1/d"""
    return _gain_at_tuned(**point)


def _gain_at_fixed(noise_share: float, dim: float, keep_share: float) -> float:
    """U(r) / U(0) - 1 for the largest kappa that the bound allows, at this share of the noise that is needed; times k / r."""
    d, k = entries(dim, keep_share)
    x = k / d
    noise = noise_share * (1 - 1 / (3 * k)) / math.sqrt(x)
    kappa = sparsification.largest_isotropic_kappa(dim=d, drop_rate=1 - x)
    return sparsification.least_kappa(drop_rate=1 - x, delta_c=1.0, step_noise=noise) / kappa - 1


@row.inequality(
    {"noise_share": Range(0, 1), "dim": Range(2, 1e6, log=True), "keep_share": Range(0, 1)},
    # wrong: up to half as much noise again
    wrong=lambda noise_share, dim, keep_share: _gain_at_fixed(1.5 * noise_share, dim, keep_share),
)
def _fixed_slack(**point: float) -> float:
    """no gain at a fixed rate below the noise that is stated"""
    return _gain_at_fixed(**point)


def _worth_ratio(batch: float, noise_ratio: float, **point: float) -> float:
    """What one step is worth with a mask over that without, less 1, over r / (6 k - 1)."""
    d, k = entries(point["dim"], point["keep_share"])
    size = math.sqrt(point["signal"] * d)
    clip = point["clip_share"] * math.sqrt(size**2 + d)
    noise = noise_ratio * clip**2
    masked = step_worth(math.sqrt(k / d) * size, k, clip, batch, noise, k / d)
    return (masked / step_worth(size, d, clip, batch, noise, 1.0) - 1) * (6 * k - 1) / (1 - k / d)


@row.inequality(
    {**_BOX, "batch": Range(1, 1e4, log=True), "noise_ratio": Range(1e-4, 1e8, log=True)},
    wrong=lambda **point: 0.9 - _worth_ratio(**point),
)
def _worth_slack(**point: float) -> float:
    """what one step is worth grows at most by 1 + r / (6 k - 1), any batch size and noise"""
    return 1 - _worth_ratio(**point)


@row.equal((1e3, 200, 50, 4), (1e5, 1_000, 10, 1_000), tolerance=1e-4)
def _(noise: float, dim: int, keep: int, batch: int) -> Sides:
    """what one step is worth, by the calculator"""
    x, size, clip = keep / dim, math.sqrt(3.0 * dim), 2.0
    step = spelled(C=clip, sigma=batch * math.sqrt(noise / dim), B=batch, d=dim, r=1 - x)
    found = gradients.clipped_gradient_mse(grad_norm=size, deviation=1.0, **step)
    full = step_worth(size, dim, clip, batch, noise * clip**2, 1.0)
    masked = step_worth(math.sqrt(x) * size, keep, clip, batch, noise * clip**2, x)
    return found.masked.descent_ratio / found.full.descent_ratio, masked / full, 1.01 * masked / full


@row.inequality(
    {
        "second": Range(0, 3),
        "third": Range(0, 3),
        "spread": Range(0.01, 3, log=True),
        "turn": Range(0, 1),
        "clip": Range(0.02, 5, log=True),
        "keep": Range(1, 4),
    },
    wrong=lambda **point: 0.95 * any_symmetric(**point) - 1,
)
def _symmetric_slack(**point: float) -> float:
    """any symmetric deviation: kappa <= min(x, sqrt x C / |w|) / H, all masks of four entries"""
    return any_symmetric(**point) - 1


@row.equal(
    (400, 100, 0.97, True),
    (400, 300, 0.97, True),
    (10_000, 1_000, 0.99, True),
    (10_000, 1_000, 1.01, False),
    kind=Kind.COUNTEREXAMPLE,
)
def _(dim: int, keep: int, factor: float, pays: bool) -> Sides:
    """deviations in one entry: masks that pay, just below the stated H"""
    return pays, lambda: one_entry_gain(dim, keep, factor), not pays


_RUNS = {
    "log_steps": Range(0.4, 6),
    "log_theta": Range(0, 8),
    "noise_ratio": Range(1e-2, 1e8, log=True),
    "x": Range(0.001, 0.999),
}


# wrong: for as much as the bound of Theorem 3.5
@row.inequality(_RUNS, wrong=lambda **point: 1 / (_looser_slack(**point) + 1) - 1)
def _sharper_slack(**point: float) -> float:
    """the sharper bound asks for no less kappa than stated"""
    low, exact, _ = threshold(**point)
    return exact / low - 1


def _halfway(**point: float) -> float:
    """Wrong statement: for no more than the mean of both ends."""
    low, exact, top = threshold(**point)
    return math.sqrt(low * top) / exact - 1


def _looser_slack(**point: float) -> float:
    """nor for more than the bound of Theorem 3.5"""
    _, exact, top = threshold(**point)
    return top / exact - 1


row.inequality(_RUNS, wrong=_halfway)(_looser_slack)


@row.inequality(
    {
        "log_steps": Range(0, 6),
        "noise_ratio": Range(1e-2, 1e6, log=True),
        "x": Range(0.001, 0.999),
        "rate_share": Range(1e-4, 1, log=True),
        "gap_excess": Range(1, 1e4, log=True),
    },
    wrong=lambda **point: fixed_threshold(**point)[1] - 1,
)
def _fixed_sharper_slack(**point: float) -> float:
    """at a fixed rate the sharper bound asks for at least x + r c"""
    return fixed_threshold(**point)[0] - 1


@row.equal(
    *itertools.product((2, 50, 20_000), (0.5, 3.0), (0.01, 100.0), (0.0, 0.75), (None,), (10_000,)),
    (100, -1.5, 3.0, 0.5, None, 3),
    *itertools.product((50,), (0.5, 3.0), (1.0,), (0.75,), (0.01, 0.5), (3,)),
    tolerance=1e-5,
)
def _(steps: int, log_theta: float, noise_ratio: float, rate: float, sampling_rate: float | None, dim: int) -> Sides:
    """the learning rate of the least bound, by golden section on dpsgd_bound"""
    setting = run(math.log10(steps), log_theta, noise_ratio, dim)
    if sampling_rate is not None:
        setting |= {"sampling": "poisson", "sampling_rate": sampling_rate}

    def bound(log_rate: float) -> float:
        return convergence.dpsgd_bound(**setting, drop_rate=rate, learning_rate=math.exp(log_rate)).value

    found = convergence.tuned_learning_rate(**setting, drop_rate=rate)
    return found, lambda: math.exp(least(bound, -25.0, 5.0)[0]), 1.01 * found
