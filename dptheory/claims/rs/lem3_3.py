import itertools
import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import scipy

from dptheory import sparsification
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _kappa
from dptheory.claims.rs._kappa import CASES, DIM, calculated, exact_kappa_of, printed_kappa, spread_of
from dptheory.claims.rs._runs import least

lem3_3 = new_row(
    id="rs.lem3.3",
    source=Source("rs", "Lemma 3.3", (11, 57, 77)),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=lambda rate: (1.0 - rate, 1.0),
    calculators=(sparsification.kappa,),
    figure="kappa_rate",
)


def _condition_met(name: str) -> bool:
    """P >= sqrt(1 - r) and r > 0, in fractions: the lemma then says that kappa lies in (1 - r, 1)."""
    _, keep, rows = CASES[name]
    below = Fraction(sum(sum(x * x for x in row) < 9 for row in rows), len(rows))
    return keep < DIM and below**2 >= Fraction(keep, DIM)


@lem3_3.equal(lambda: [(name,) for name in CASES], kind=Kind.COUNTEREXAMPLE)
def _(name: str) -> Sides:
    """the open interval is left on both sides"""
    found, x = calculated(name), Fraction(CASES[name][1], DIM)
    return found.lower < found.value < 1, lambda: x < exact_kappa_of(name) < 1, True if _condition_met(name) else None


@lem3_3.equal(lambda: [(name,) for name in CASES], tolerance=1e-14)
def _(name: str) -> Sides:
    """kappa in fractions: x, sqrt x, 1, 2"""
    return calculated(name).value, lambda: exact_kappa_of(name), printed_kappa(1 - CASES[name][1] / DIM)


def _step_57_holds(size: int, scale: int) -> bool:
    """Equation 57 for the gradient (size, 0), d = 2, r = 1/2, c = scale, by enumeration."""
    masked = (size, 0)
    low, high = [a for a in masked if a <= scale], [a for a in masked if a > scale]
    left = Fraction(sum(min(a, scale) * a for a in masked), 2)
    right = Fraction(len(low), 2) * Fraction(1, 2) * size**2 + Fraction(len(high), 2) * scale * Fraction(sum(masked), 2)
    return left >= right


@lem3_3.equal(lambda: [(size, scale) for size in (1, 2, 3, 10) for scale in (1, 2, 5)], kind=Kind.COUNTEREXAMPLE)
def _(size: int, scale: int) -> Sides:
    """step 57 fails for one entry above c"""
    return size <= scale, lambda: _step_57_holds(size, scale), True


def _found(second: float, third: float, fourth: float, keep: int, scale: float, margin: float) -> sparsification.Kappa:
    """Four entries, |w| = scale c, Gaussian deviation with P between sqrt x and 1."""
    u = np.array([1.0, second, third, fourth])
    root = math.sqrt(keep / 4)
    spread = spread_of(root + margin * (1 - root), 4) if margin < 1 and root < 1 else 0.0
    return sparsification.kappa(
        0.25 * scale * u / np.linalg.norm(u), clip_norm=1.0, drop_rate=1 - keep / 4, deviation=spread
    )


def _closed_range_slack(from_the_root: bool = False, **point: Any) -> float:
    """closed range where P >= sqrt(1 - r)"""
    found = _found(**point)
    least = math.sqrt(found.lower) if from_the_root else found.lower
    return min(found.value / least, found.upper / found.value, 1 / found.value) - 1


lem3_3.inequality(
    {
        **dict.fromkeys(("second", "third", "fourth"), Range(0, 1)),
        "keep": Range(1, 4, integer=True),
        "scale": Range(0.01, 100, log=True),
        "margin": Range(0, 1),
    },
    wrong=partial(_closed_range_slack, from_the_root=True),
)(_closed_range_slack)


def _six_equal(probability: float, scale: float, keep: int) -> sparsification.Kappa:
    return sparsification.kappa(
        np.full(6, 0.25 * scale), clip_norm=1.0, drop_rate=1 - keep / 6, deviation=spread_of(probability, 6)
    )


@lem3_3.inequality(
    {
        "probability": Range(1e-6, 0.999),
        "scale": Range(0.01, 100, log=True),
        "keep": Range(1, 6, integer=True),
    },
    # wrong: kappa <= 1 without the condition
    wrong=lambda **point: 1 / _six_equal(**point).value - 1,
)
def _without_condition_slack(probability: float, scale: float, keep: int) -> float:
    """range for every P

    The upper end with P arbitrary: min(x max(1, s), sqrt x) / P.
    """
    found = _six_equal(probability, scale, keep)
    return min(found.value / found.lower, found.upper / found.value) - 1


rem2 = new_row(
    id="rs.rem2",
    source=Source("rs", "Remark 2"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
    printed=printed_kappa,
    calculators=(sparsification.kappa,),
)


@rem2.equal(("equal entries, P = 1/2",), ("equal entries, P = 1/4",), tolerance=1e-14, kind=Kind.COUNTEREXAMPLE)
def _(name: str) -> Sides:
    """1 / kappa = 1 under the condition, 1/2 without"""
    return 1 / calculated(name).value, lambda: 1 / exact_kappa_of(name), 1 / printed_kappa(0.75)


eq63 = new_row(
    id="rs.eq63",
    source=Source("rs", "Appendix B.3", (63,)),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
)


def _condition_at_minimum(spread: Fraction, clip: Fraction, rate: Fraction) -> bool:
    """L(w) = E (w - x)^2 / 2 for x = +-spread: deviations at its minimum against equation 63, by enumeration."""
    minimum = Fraction(0)
    gradients = [minimum - x for x in (spread, -spread)]
    mean = sum(gradients, Fraction(0)) / 2
    below = Fraction(sum(abs(g - mean) < Fraction(3, 4) * clip for g in gradients), 2)
    return below**2 >= 1 - rate


@eq63.equal(
    lambda: [(Fraction(a, 4), Fraction(1), Fraction(r, 10)) for a in (1, 2, 3, 4, 40) for r in (1, 5, 9)],
    kind=Kind.COUNTEREXAMPLE,
)
def _(spread: Fraction, clip: Fraction, rate: Fraction) -> Sides:
    """the minimum of E (w - x)^2 / 2, x = +-a"""
    return spread < Fraction(3, 4) * clip, lambda: _condition_at_minimum(spread, clip, rate), True


def _bias(weight: Fraction, proxy: Fraction, spread: Fraction) -> Fraction:
    """b = E <w, clip(w + xi)> of xi = +-spread less that of the proxy law +-proxy, one dimension, C = 1."""

    def mean(size: Fraction) -> Fraction:
        clipped = [max(Fraction(-1), min(Fraction(1), weight + xi)) for xi in (size, -size)]
        return weight * sum(clipped, Fraction(0)) / 2

    return mean(spread) - mean(proxy)


@eq63.equal(
    lambda: [(Fraction(w, 16), Fraction(a, 8), Fraction(1)) for w in (-4, -1, 2, 4) for a in (0, 3, 5)],
    kind=Kind.COUNTEREXAMPLE,
)
def _(weight: Fraction, proxy: Fraction, spread: Fraction) -> Sides:
    """the bias where all deviations have norm C, proxy law +-a: half of what is bounded"""
    # wrong: no bias
    return -abs(weight) * min(abs(weight), Fraction(1, 4)) / 2, lambda: _bias(weight, proxy, spread), Fraction(0)


def _markov_slack(share: float, size: float, keep_share: float) -> float:
    """second moment that is enough

    Two-point deviations 0 and size (C = 1) with E|xi|^2 at the stated limit: P against sqrt x.
    """
    root = math.sqrt(keep_share)
    limit = 9 / 16 * (1 - root)
    probability = min(1.0, share * limit / size**2)
    below = 1.0 if size < 0.75 else 1.0 - probability
    return below / root - 1


eq63.inequality(
    {"share": Range(0, 1), "size": Range(0.75, 10, log=True), "keep_share": Range(0.01, 0.99)},
    # wrong: twice that second moment is enough
    wrong=lambda share, size, keep_share: _markov_slack(2 * share, size, keep_share),
)(_markov_slack)


def printed_optimal_rate(delta_c: float, delta_sigma: float) -> float:
    """r* of equation 116, with r* = 0 where the noise term is the smaller one."""
    return max(0.0, 1.0 - delta_c / delta_sigma)


appG = new_row(
    id="rs.appG",
    source=Source("rs", "Appendix G", (114, 116)),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_optimal_rate,
    calculators=(
        sparsification.relative_bound,
        sparsification.optimal_rate,
        sparsification.optimal_rate_flat,
        sparsification.best_rate,
    ),
    figure="tradeoff",
)


@appG.equal(
    lambda: [
        (what, *setting)
        for what in ("drop_rate", "first_rate", "last_rate", "bound")
        for setting in _kappa.SETTINGS[:3]
    ],
    tolerance=1e-12,
)
def _(what: str, dim: int, kind: str, z: float) -> Sides:
    """best rate and its bound: every rate tried"""
    return (
        getattr(_kappa.best(dim, kind, z), what),
        lambda: _kappa.every_rate(what, dim, kind, z),
        lambda: 1.001 * _kappa.every_rate(what, dim, kind, z) + 1e-9,
    )


@appG.equal(lambda: _kappa.SETTINGS, tolerance=1e-12)
def _(dim: int, kind: str, z: float) -> Sides:
    """bound and every field of kappa are those of the rate"""
    best = _kappa.best(dim, kind, z)
    return _kappa.all_fields(best.bound, best.kappa), lambda: _kappa.asked_alone(dim, kind, z), 1.0 + best.bound


def _best_by_search(delta_c: float, gamma: float, delta_sigma: float, exponent: float) -> float:
    """The r that minimises (delta_c + x gamma delta_sigma) / x^a, by a bounded search over log x."""

    def bound(log_x: float) -> float:
        return (delta_c + math.exp(log_x) * gamma * delta_sigma) * math.exp(-exponent * log_x)

    return max(0.0, 1.0 - math.exp(least(bound, -30.0, 0.0)[0]))


@appG.equal(
    lambda: itertools.product((0.5, 1.0), (0.25, 1.0, 2.0), (2.0, 8.0), (0.5, 0.6, 0.9)),
    tolerance=1e-5,
)
def _(dc: float, gamma: float, ds: float, a: float) -> Sides:
    """kappa = x^a, by search over r"""
    return (
        sparsification.optimal_rate(delta_c=dc, step_noise=gamma * ds, exponent=a),
        lambda: _best_by_search(dc, gamma, ds, a),
        printed_optimal_rate(dc, ds),
    )


@appG.equal((Fraction(1), Fraction(2), Fraction(1, 2)), kind=Kind.COUNTEREXAMPLE)
def _(dc: Fraction, ds: Fraction, gamma: Fraction) -> Sides:
    """worse than no mask: Delta_C = 1, Delta_sigma = 2, gamma = 1/2"""
    noise = float(gamma * ds)
    # U^2: at r = 0, and wrong at x = Delta_C / Delta_sigma
    return (
        sparsification.relative_bound(
            drop_rate=sparsification.optimal_rate(delta_c=float(dc), step_noise=noise),
            delta_c=float(dc),
            step_noise=noise,
            kappa=1.0,
        )
        ** 2,
        (dc + gamma * ds) ** 2,
        (dc + dc / ds * gamma * ds) ** 2 / (dc / ds),
    )


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


@appG.equal(
    lambda: itertools.product(
        (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(100)), (Fraction(1, 10), Fraction(1, 2), Fraction(3))
    ),
    tolerance=1e-12,
)
def _(scale: Fraction, ratio: Fraction) -> Sides:
    """equal entries, all rates tried"""
    return (
        sparsification.optimal_rate_flat(delta_c=float(ratio), step_noise=1.0, grad_norm=float(scale), clip_norm=4.0),
        lambda: _flat_best(scale, ratio),
        printed_optimal_rate(float(ratio), 1.0),
    )


_UNEVEN = np.array([3.0, -2.0, 1.0, 1.0, 0.5, 0.25, -0.1])


def _best_bound(clip: float, delta_c: float, noise_term: float, spread: float) -> float:
    """Smallest U over all rates of seven uneven entries, by enumeration of all masks."""
    below = _kappa.gaussian(clip, spread)
    return min(
        (delta_c + keep / _UNEVEN.size * noise_term) / _kappa.enumerated(_UNEVEN, keep, clip, below)
        for keep in range(1, _UNEVEN.size + 1)
    )


def _bound_at_printed(clip: float, delta_c: float, noise_term: float, spread: float) -> float:
    """U with the exact kappa at the rate of equation 116, with gamma restored and rounded to a rate of seven entries."""
    dim = _UNEVEN.size
    keep = max(1, round((1 - printed_optimal_rate(delta_c, noise_term)) * dim))
    found = sparsification.kappa(_UNEVEN, clip_norm=clip, drop_rate=1 - keep / dim, deviation=spread)
    return sparsification.relative_bound(
        drop_rate=1 - keep / dim, delta_c=delta_c, step_noise=noise_term, kappa=found.value
    )


@appG.equal(
    lambda: [(c, dc, 1.0, s) for c in (0.5, 6.0) for dc in (0.05, 0.5) for s in (0.0, 0.1, 2.0)], tolerance=1e-11
)
def _(c: float, dc: float, n: float, s: float) -> Sides:
    """seven uneven entries, all masks"""
    return (
        sparsification.best_rate(_UNEVEN, clip_norm=c, delta_c=dc, step_noise=n, deviation=s).bound,
        lambda: _best_bound(c, dc, n, s),
        lambda: _bound_at_printed(c, dc, n, s),
    )


@appG.equal(lambda: [(*case, name) for case in _kappa.BEST for name in ("bound", "rate", "kappa")], tolerance=5e-3)
def _(dim: int, share: float, clip: float, delta_c: float, noise_term: float, name: str) -> Sides:
    """one large entry, d = 2,000 and 1e6: bound, rate and kappa of the best of every rate"""
    found = _kappa.best_found(dim, share, clip, delta_c, noise_term, name)
    return found, lambda: _kappa.best_by_trying(dim, share, clip, delta_c, noise_term, name), 1.006 * found


@appG.equal(lambda: [(*case, name) for case in _kappa.BEST for name in ("bound", "kappa")], tolerance=1e-9)
def _(dim: int, share: float, clip: float, delta_c: float, noise_term: float, name: str) -> Sides:
    """bound and kappa of the answer over those of the hypergeometric law at its rate"""
    ratio = _kappa.over_law_at_rate(dim, share, clip, delta_c, noise_term, name)
    return ratio, 1.0, 1.001 * ratio


def _masking_pays(spread: float) -> bool:
    """A gradient of norm far below c: some mask lowers U, by trying them; delta_c = 1, noise term 10, d = 4, C = 1."""
    full = float(scipy.stats.chi2.cdf((0.75 / spread) ** 2, 4))
    gains = [float(scipy.stats.chi2.cdf((0.75 / spread) ** 2, keep)) / full for keep in range(1, 5)]
    bounds = [(1 + 10 * keep / 4) / (keep / 4 * gain) for keep, gain in enumerate(gains, 1)]
    return min(bounds[:3]) < bounds[3] * (1 - 1e-12)


@appG.equal((0.05,), (0.1,), (0.35,), (1.0,), (5.0,), kind=Kind.COUNTEREXAMPLE)
def _(spread: float) -> Sides:
    """small gradients: masking pays only with P' > P"""
    return (
        sparsification.best_rate(
            [1e-3, 2e-3, -1e-3, 1e-3], clip_norm=1.0, delta_c=1.0, step_noise=10.0, deviation=spread
        ).drop_rate
        > 0,
        lambda: _masking_pays(spread),
        printed_optimal_rate(1.0, 10.0) > 0,
    )


@appG.equal(
    lambda: [
        (scale, Fraction(1, 10), clip, z)
        for scale in (Fraction(2), Fraction(100))
        for clip, z in ((2.0, 0.5), (10.0, 0.9))
    ],
    tolerance=1e-12,
)
def _(scale: Fraction, ratio: Fraction, clip: float, z: float) -> Sides:
    """equal entries, another split of C: c = (1 - z) C alone matters"""
    return (
        sparsification.optimal_rate_flat(
            delta_c=float(ratio), step_noise=1.0, grad_norm=float(scale), clip_norm=clip, deviation_share=z
        ),
        lambda: _flat_best(scale, ratio),
        lambda: sparsification.optimal_rate_flat(
            delta_c=float(ratio), step_noise=1.0, grad_norm=float(scale), clip_norm=clip
        ),
    )


appG_kappa = new_row(
    id="rs.appG.kappa",
    source=Source("rs", "Appendix G, text before equation 114"),
    verdict=Verdict.CONDITIONAL,
    calculators=(sparsification.kappa,),
)


_GRADIENT, _CLIP = (2.0, 2.0, 2.0, 2.0), 4.0
_ROWS = (_GRADIENT, tuple(-one for one in _GRADIENT), (0.0,) * 4, (0.0,) * 4)


@appG_kappa.equal((2,), (1,), (3,), tolerance=1e-14, kind=Kind.COUNTEREXAMPLE)
def _(keep: int) -> Sides:
    """kappa of equal entries, deviations of half: by enumeration, not monotone in the rate"""
    rows = [list(row) for row in _ROWS]
    found = sparsification.kappa(list(_GRADIENT), clip_norm=_CLIP, drop_rate=1 - keep / 4, deviation=rows)
    exact = _kappa.enumerated(_GRADIENT, keep, _CLIP, _kappa.empirical(_CLIP, _ROWS))
    return found.value, exact, printed_kappa(1 - keep / 4)
