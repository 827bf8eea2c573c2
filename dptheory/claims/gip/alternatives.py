import itertools
import math
from functools import partial

import numpy as np
import scipy

from dptheory import pruning
from dptheory._arrays import Array
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row

_DIM, _KEEP = 1000, 100
_RATIO = 0.75


def _excess_energy(gradient: Array, score: Array, keep: int) -> Array:
    """Energy that the top-k of the score keeps beyond the share k of all."""
    squares = np.square(gradient)
    chosen = np.argpartition(score, -keep, axis=1)[:, -keep:]
    kept = np.take_along_axis(squares, chosen, axis=1).sum(axis=1)
    return np.asarray(kept - keep / gradient.shape[1] * squares.sum(axis=1))


def _relative_gain(rng: np.random.Generator, n: int, dim: int, keep: int, kind: str) -> Array:
    """Excess energy over that of exact top-k in large groups, one draw per gradient."""
    gradient = rng.standard_normal((n, dim))
    noise = rng.standard_normal((n, dim)) if kind == "normal" else rng.gumbel(size=(n, dim))
    excess = _excess_energy(gradient, np.abs(gradient) + _RATIO * noise, keep)
    return excess / (dim * _top_gain(keep / dim))


def _released_excess(rng: np.random.Generator, n: int, dim: int, keep: int, noise_std: float) -> Array:
    gradient = rng.standard_normal((n, dim))
    released = gradient + noise_std * rng.standard_normal((n, dim))
    return _excess_energy(gradient, np.abs(released), keep)


def _released_error(rng: np.random.Generator, n: int, dim: int, keep: int, noise_std: float) -> Array:
    gradient = rng.standard_normal((n, dim))
    released = gradient + noise_std * rng.standard_normal((n, dim))
    kept = pruning.top_k_mask(released, keep=keep)
    return np.asarray(np.square(released * kept - gradient).sum(axis=1))


def _top_gain(share: float) -> float:
    """2 a phi(a): what top-k keeps beyond random-k, a share of |g|^2."""
    a = float(scipy.stats.norm.isf(share / 2))
    return 2 * a * float(scipy.stats.norm.pdf(a))


def _exact_gain(dim: int, keep: int) -> float:
    return float(pruning.random_k_mse(dim, keep, sigma_g=1.0) - pruning.top_k_mse(dim, keep, sigma_g=1.0))


def _peeling_divergence(scores: Array, others: Array, keep: int, rate: float, order: float) -> float:
    """D_order of the ordered top-k under Gumbel noise of scale 1 / rate, by enumeration."""

    def log_chance(u: Array, ordered: tuple[int, ...]) -> float:
        left, result = dict(enumerate(rate * u)), 0.0
        for j in ordered:
            result += left[j] - float(np.logaddexp.reduce(list(left.values())))
            del left[j]
        return result

    terms = []
    for ordered in itertools.permutations(range(scores.size), keep):
        terms.append(order * log_chance(scores, ordered) + (1 - order) * log_chance(others, ordered))
    return float(np.logaddexp.reduce(terms)) / (order - 1)


def _peeling_share(order: float, rho: float, g0: float, g1: float, v0: float, v1: float) -> float:
    """Divergence over order * rho for d = 3, K = 2, C = 1, at the rate that the budget rho allows."""
    g, v = np.array([g0, g1, 0.5]), np.array([v0, v1, 0.1])
    moved = np.abs(g + v / np.linalg.norm(v))
    return _peeling_divergence(np.abs(g), moved, 2, pruning.gumbel_rate(zcdp_rho=rho, keep=2), order) / (order * rho)


def _moved(**entries: float) -> tuple[Array, Array]:
    """By how much the sizes of g move, entry by entry, when v is added; and v."""
    g, v = (np.array([entries[f"{letter}{j}"] for j in range(3)]) for letter in "gv")
    return np.abs(np.abs(g + v) - np.abs(g)), v


def _largest_entry_slack(**entries: float) -> float:
    """Wrong statement: at most the largest entry of v."""
    sizes, v = _moved(**entries)
    return float(np.abs(v).max() - np.linalg.norm(sizes))


def _sizes_divergence(order: float, rho: float, clip: float) -> float:
    """D_order of noisy sizes (|g| = 5 C in one entry) with and without an example that adds C, both ways by quadrature."""
    noise = pruning.magnitude_noise(rho) * clip
    grid = np.linspace(-12.0, 12.0, 4001) * noise * (1 + order) + 5 * clip
    first, second = scipy.stats.norm.logpdf(grid, 6 * clip, noise), scipy.stats.norm.logpdf(grid, 5 * clip, noise)
    logs = (order * p + (1 - order) * q for p, q in ((first, second), (second, first)))
    return max((float(np.logaddexp.reduce(found)) + math.log(grid[1] - grid[0])) / (order - 1) for found in logs)


def _gumbel_worst(order: float, rho: float) -> float:
    """Divergence over the order of the exact worst case: two even entries, one up and one down by C / sqrt 2."""
    scores, move = np.array([1.0, 1.0]), math.sqrt(0.5)
    return (
        _peeling_divergence(
            scores, scores + np.array([move, -move]), 1, pruning.gumbel_rate(zcdp_rho=rho, keep=1), order
        )
        / order
    )


_SMALL = (
    (1e-7, 256, 26, 100, 0.3, 1.0, 1e3),
    (1e-7, 20_000, 2000, 5, 2.0, 0.5, 1e3),
    (1e-8, 10**6, 5, 1, 0.3, 1.0, 50.0),
)
"""rho, dim, keep, groups, sigma_g, clip, noise multiplier."""


def _small_gains(
    name: str, rho: float, dim: int, keep: int, groups: int, sigma_g: float, clip: float, noise: float
) -> float:
    """Leading term of each gain where the budget is small."""
    k = keep / dim
    signal = math.sqrt(2 / math.pi) * sigma_g / clip / _top_gain(k)
    return {
        "mallows": 2 * k * (1 - k) * dim / (dim - 1) * math.sqrt(rho / (2 * keep * groups)),
        "magnitude": float(scipy.stats.norm.pdf(scipy.stats.norm.isf(k))) * math.sqrt(2 * rho) * signal,
        "gumbel": (1 - k) * -math.log1p(-k) * 2 * math.sqrt(rho / keep) * signal,
        "released": (sigma_g / (clip * noise)) ** 2,
    }[name]


def _released_by_parts(dim: int, keep: int, sigma_g: float, noise_std: float) -> float:
    """Error of top-k of r = g + Z from E[Z^2 | r] where it is kept and E[g^2 | r] where not, K = 1 or d - 1.

    The energy kept is that of the largest, or of all but the smallest, of d normal entries: a quadrature.
    """
    size = np.linspace(0.0, 12.0, 40_001)  # of an entry of r over its deviation
    largest = float(np.trapezoid(1 - scipy.special.erf(size / math.sqrt(2)) ** dim, size**2))
    smallest = float(np.trapezoid(scipy.special.erfc(size / math.sqrt(2)) ** dim, size**2))
    kept = largest if keep == 1 else dim - smallest
    total = sigma_g**2 + noise_std**2
    given_r = sigma_g**2 * noise_std**2 / total
    return dim * given_r + kept * noise_std**4 / total + (dim - kept) * sigma_g**4 / total


row = new_row(
    id="gip.alternatives",
    source=Source("gip", "new, on section 4.2, below Theorem 2"),
    verdict=Verdict.HOLDS,
    calculators=(
        pruning.magnitude_noise,
        pruning.gumbel_rate,
        pruning.magnitude_gain,
        pruning.gumbel_gain,
        pruning.released_gain,
        pruning.released_top_k_mse,
        pruning.selection_gains,
    ),
    figure="index_alternatives",
)


@row.inequality({name: Range(-3.0, 3.0) for name in ("g0", "g1", "g2", "v0", "v1", "v2")}, wrong=_largest_entry_slack)
def _sizes_slack(**entries: float) -> float:
    """the sizes move by no more than the gradient

    In Euclidean norm: at most |v|.
    """
    sizes, v = _moved(**entries)
    return float(np.linalg.norm(v) - np.linalg.norm(sizes))


@row.equal((2.0, 0.1, 1.0), (7.0, 1e-3, 3.0), (1.5, 2.0, 0.2), tolerance=1e-9)
def _(order: float, rho: float, clip: float) -> Sides:
    """noise on the magnitudes spends the budget, by quadrature"""
    return _sizes_divergence(order, rho, clip), order * rho, _sizes_divergence(order, rho, 2 * clip) / 2


@row.equal((2.0, 1e-8), (9.0, 1e-9), tolerance=1e-4)
def _(order: float, rho: float) -> Sides:
    """Gumbel rate is the largest"""
    return rho, lambda: _gumbel_worst(order, rho), 2 * rho  # wrong: sensitivity C in every entry at once


@row.inequality(
    {
        "order": Range(1.1, 40, log=True),
        "rho": Range(1e-3, 10, log=True),
        **{name: Range(-3, 3) for name in ("g0", "g1")},
        **{name: Range(-1, 1) for name in ("v0", "v1")},
    },
    # wrong: the K rounds cost as much as one
    wrong=lambda order, rho, g0, g1, v0, v1: 0.5 - _peeling_share(order, rho, g0, g1, v0, v1),
    tolerance=1e-6,
)
def _gumbel_slack(order: float, rho: float, g0: float, g1: float, v0: float, v1: float) -> float:
    """one-shot Gumbel, two of three entries"""
    return 1 - _peeling_share(order, rho, g0, g1, v0, v1)


@row.mean(
    partial(_relative_gain, dim=_DIM, keep=_KEEP, kind="normal"),
    wrong=lambda: pruning.gumbel_gain(
        keep_share=_KEEP / _DIM, noise_ratio=_RATIO * math.sqrt(6) / math.pi
    ),  # the same variance
    row_bytes=40_000,
)
def _() -> float:
    """gain of noisy magnitudes"""
    return pruning.magnitude_gain(keep_share=_KEEP / _DIM, noise_ratio=_RATIO)


@row.mean(
    partial(_relative_gain, dim=_DIM, keep=_KEEP, kind="gumbel"),
    wrong=lambda: pruning.magnitude_gain(
        keep_share=_KEEP / _DIM, noise_ratio=_RATIO * math.pi / math.sqrt(6)
    ),  # the same variance
    row_bytes=40_000,
)
def _() -> float:
    """gain of one-shot Gumbel"""
    return pruning.gumbel_gain(keep_share=_KEEP / _DIM, noise_ratio=_RATIO)


@row.mean(
    partial(_released_excess, dim=20, keep=4, noise_std=1.0),
    wrong=lambda: math.sqrt(pruning.released_gain(sigma_g=1.0, noise_std=1.0)) * _exact_gain(20, 4),
    row_bytes=1200,
)
def _() -> float:
    """gain of the released gradient"""
    return pruning.released_gain(sigma_g=1.0, noise_std=1.0) * _exact_gain(20, 4)


@row.mean(
    partial(_released_error, dim=20, keep=4, noise_std=2.0),
    wrong=lambda: 16 + 4 * 4.0,  # random-k's
    row_bytes=1600,
)
def _() -> float:
    """error of the released top-k"""
    return pruning.released_top_k_mse(20, 4, sigma_g=1.0, noise_std=2.0)


@row.equal(
    lambda: [(name, *c) for name in ("mallows", "magnitude", "gumbel", "released") for c in _SMALL], tolerance=2e-3
)
def _(name: str, rho: float, dim: int, keep: int, groups: int, sigma_g: float, clip: float, noise: float) -> Sides:
    """gains at a small budget"""
    small = partial(_small_gains, name, rho, dim, keep, groups, sigma_g, clip, noise)
    return (
        getattr(
            pruning.selection_gains(
                zcdp_rho=rho, dim=dim, keep=keep, groups=groups, sigma_g=sigma_g, clip_norm=clip, noise_multiplier=noise
            ),
            name,
        ),
        small,
        small() ** 2,
    )


@row.equal((6, 1, 1.0, 2.0), (20_000, 1, 1.0, 2.0), (20_000, 1, 2.0, 0.5), (20_000, 19_999, 1.0, 2.0), tolerance=1e-6)
def _(dim: int, keep: int, sigma_g: float, noise_std: float) -> Sides:
    """error of the released top-k at users' sizes, by the conditional energies"""
    return (
        pruning.released_top_k_mse(dim, keep, sigma_g=sigma_g, noise_std=noise_std),
        lambda: _released_by_parts(dim, keep, sigma_g, noise_std),
        (dim - keep) * sigma_g**2 + keep * noise_std**2,  # random-k's
    )
