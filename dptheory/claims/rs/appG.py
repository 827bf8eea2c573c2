import itertools
import math
from fractions import Fraction

import numpy as np
import scipy

from dptheory import sparsification
from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _kappa
from dptheory.claims.rs._kappa import printed_kappa


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
    return (
        _kappa.all_fields(_kappa.best(dim, kind, z).bound, _kappa.best(dim, kind, z).kappa),
        lambda: _kappa.asked_alone(dim, kind, z),
        lambda: 1.0 + _kappa.best(dim, kind, z).bound,
    )


def _best_by_search(delta_c: float, gamma: float, delta_sigma: float, exponent: float) -> float:
    """The r that minimises (delta_c + x gamma delta_sigma) / x^a, by a bounded search over log x."""

    def bound(log_x: float) -> float:
        return (delta_c + math.exp(log_x) * gamma * delta_sigma) * math.exp(-exponent * log_x)

    found = scipy.optimize.minimize_scalar(bound, bounds=(-30.0, 0.0), method="bounded", options={"xatol": 1e-10})
    return 0.0 if bound(0.0) <= found.fun else 1.0 - math.exp(found.x)


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
    dim, c = _UNEVEN.size, clip / 4

    def part(kept: tuple[int, ...]) -> float:
        square = sum(float(_UNEVEN[j]) ** 2 for j in kept)
        below = float(scipy.stats.chi2.cdf((0.75 * clip / spread) ** 2, len(kept))) if spread else 1.0
        return below * min(square, c * math.sqrt(square))

    def bound(keep: int) -> float:
        found = [part(kept) for kept in itertools.combinations(range(dim), keep)]
        return (delta_c + keep / dim * noise_term) * part(tuple(range(dim))) * len(found) / sum(found)

    return min(bound(keep) for keep in range(1, dim + 1))


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
    return (
        _kappa.best_found(dim, share, clip, delta_c, noise_term, name),
        lambda: _kappa.best_by_trying(dim, share, clip, delta_c, noise_term, name),
        lambda: 1.006 * _kappa.best_found(dim, share, clip, delta_c, noise_term, name),
    )


@appG.equal(lambda: [(*case, name) for case in _kappa.BEST for name in ("bound", "kappa")], tolerance=1e-9)
def _(dim: int, share: float, clip: float, delta_c: float, noise_term: float, name: str) -> Sides:
    """bound and kappa of the answer over those of the hypergeometric law at its rate"""
    return (
        _kappa.over_law_at_rate(dim, share, clip, delta_c, noise_term, name),
        1.0,
        lambda: 1.001 * _kappa.over_law_at_rate(dim, share, clip, delta_c, noise_term, name),
    )


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


def _enumerated_kappa(keep: int) -> float:
    """By enumeration of masks and deviations, as Lemma 3.3 defines it."""

    def part(kept: tuple[int, ...]) -> float:
        norm = math.sqrt(sum(_GRADIENT[j] ** 2 for j in kept))
        below = sum(sum(row[j] ** 2 for j in kept) < (3 * _CLIP / 4) ** 2 for row in _ROWS) / len(_ROWS)
        return below * min(norm, _CLIP / 4) * norm

    masks = list(itertools.combinations(range(4), keep))
    return sum(map(part, masks)) / len(masks) / part((0, 1, 2, 3))


@appG_kappa.equal((2,), (1,), (3,), tolerance=1e-14, kind=Kind.COUNTEREXAMPLE)
def _(keep: int) -> Sides:
    """kappa of equal entries, deviations of half: by enumeration, not monotone in the rate"""
    rows = [list(row) for row in _ROWS]
    found = sparsification.kappa(list(_GRADIENT), clip_norm=_CLIP, drop_rate=1 - keep / 4, deviation=rows)
    return found.value, lambda: _enumerated_kappa(keep), printed_kappa(1 - keep / 4)
