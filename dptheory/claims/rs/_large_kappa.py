"""kappa at the sizes that people use: a few large entries by their hypergeometric law, heavy tails by closed forms and draws."""

import itertools
import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import sparsification

Array = NDArray[np.float64]


def uneven(dim: int, large: int, share: float) -> Array:
    """``large`` entries of sizes 1 : 2 : 3 ... that hold ``share`` of the squared norm 1, the others equal."""
    squares = np.arange(1.0, large + 1) ** 2
    rest = np.full(dim - large, (1 - share) / (dim - large))
    return np.asarray(np.sqrt(np.concatenate([squares / squares.sum() * share, rest])))


def uneven_ratio(dim: int, keep: int, large: int, share: float, scale: float) -> float:
    """R of this gradient, |w| = scale c: h large entries are kept, hypergeometric; the others add up to (keep - h) rest."""
    p = np.square(uneven(dim, large, share))

    def part(kept: Sequence[int]) -> float:
        y = sum(float(p[j]) for j in kept) + (keep - len(kept)) * float(p[-1])
        return min(scale * y, math.sqrt(y))

    total = 0.0
    for hits in range(min(large, keep) + 1):
        subsets = list(itertools.combinations(range(large), hits))
        chance = float(scipy.stats.hypergeom.pmf(hits, dim, large, keep)) / len(subsets)
        total += chance * sum(part(kept) for kept in subsets)
    return total


Uneven = tuple[int, int, int, float, float]
UNEVEN: tuple[Uneven, ...] = (
    (10**4, 1, 1, 0.5, 100.0),
    (10**5, 10, 1, 0.9, 100.0),
    (10**6, 100, 1, 0.5, 100.0),
    (10**4, 2, 2, 0.7, 100.0),
    (10**5, 8, 3, 0.7, 100.0),
    (10**6, 1000, 4, 0.9, 30.0),
    (10**6, 500_000, 5, 0.999, 3.0),
    (10**5, 99_999, 5, 0.9, 1.5),
)


def uneven_found(dim: int, keep: int, large: int, share: float, scale: float) -> sparsification.Kappa:
    return sparsification.kappa(uneven(dim, large, share), clip_norm=4.0 / scale, drop_rate=1 - keep / dim)


def bar_holds(found: sparsification.Kappa, exact: float, width: float) -> bool:
    """The exact value lies in value +- error and the value in its range; the bar is at most ``width`` of the value."""
    slack = 1e-9 * exact
    inside = abs(found.value - exact) <= found.error + slack and found.lower <= found.value <= found.upper
    return inside and found.error <= width * found.value


FIELDS = ("value", "norm_ratio", "probability", "lower", "upper", "error over norm_ratio_error")
LARGE = ((10**4, 4000, 30.0, 0.75), (10**6, 990_000, 3.0, 0.25), (10**5, 99_900, 0.5, 0.75))
"""d, entries kept, |w| / c of heavy-tailed entries, z."""


@cache
def heavy(dim: int) -> Array:
    w = np.random.default_rng(2).standard_t(3, dim)
    return np.asarray(w / np.linalg.norm(w))


def _field(found: sparsification.Kappa, name: str) -> float:
    if name == "error over norm_ratio_error":
        return found.error / found.norm_ratio_error if found.norm_ratio_error else found.error
    return float(getattr(found, name))


def large_field(name: str, dim: int, keep: int, scale: float, z: float) -> float:
    """A field with Gaussian deviation, P = 0.8."""
    clip = 1.0 / ((1 - z) * scale)
    return _field(
        sparsification.kappa(
            heavy(dim),
            clip_norm=clip,
            drop_rate=1 - keep / dim,
            deviation=z * clip / math.sqrt(float(scipy.stats.chi2.ppf(0.8, dim))),
            deviation_share=z,
        ),
        name,
    )


def large_field_by_hand(name: str, dim: int, keep: int, scale: float, z: float) -> float:
    """The same from SciPy's chi-square law and step 5 of the proof, which for these sizes leaves no more than 1e-4 open."""
    x, w = keep / dim, heavy(dim)
    gain = float(scipy.stats.chi2.cdf(scipy.stats.chi2.ppf(0.8, dim), keep)) / 0.8
    fourth = float(np.sum(w**4))
    ratio = x
    if scale > 1:  # every mask keeps more than c^2 of |w|^2
        ratio = math.sqrt(x) * (1 - (1 - x) / x * (dim * fourth - 1) / (dim - 1) / 8)
    return {
        "value": ratio * gain,
        "norm_ratio": ratio,
        "probability": 0.8,
        "lower": x,
        "upper": min(x * max(1.0, scale), math.sqrt(x)) / 0.8,
        "error over norm_ratio_error": gain if scale > 1 else 0.0,
    }[name]


DRAWN_DIM, DRAWN_KEEP, DRAWN_SCALE = 10**5, 50, 40.0


def large_draws(rng: np.random.Generator, n: int) -> Array:
    """f(Y) / f(1) for 50 of 100,000 heavy-tailed entries, drawn; rows with an entry drawn twice are drawn again."""
    p = np.square(heavy(DRAWN_DIM))
    chosen = rng.integers(0, DRAWN_DIM, (n, DRAWN_KEEP))
    while True:
        ordered = np.sort(chosen, axis=1)
        twice = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if not twice.size:
            break
        chosen[twice] = rng.integers(0, DRAWN_DIM, (twice.size, DRAWN_KEEP))
    kept = p[chosen].sum(axis=1)
    return np.asarray(np.minimum(DRAWN_SCALE * kept, np.sqrt(kept)))


# --- best rate of one large entry -------------------------------------------------------------------------------------

BEST = ((2000, 0.5, 0.4, 1.0, 1e3), (2000, 0.9, 0.4, 1.0, 1e3), (10**6, 0.5, 0.4, 1.0, 30.0))
"""d, share of the large entry, clip, delta_c, noise term; |w| = 1."""


def _bounds_of_all(dim: int, share: float, clip: float, delta_c: float, noise_term: float) -> Array:
    """U for every number of entries kept: the large entry is kept with chance x."""
    keep, rest = np.arange(1.0, dim + 1), (1 - share) / (dim - 1)

    def part(y: Array) -> Array:
        return np.minimum(y * 4 / clip, np.sqrt(y))

    x = keep / dim
    return (delta_c + x * noise_term) / (x * part(share + (keep - 1) * rest) + (1 - x) * part(keep * rest))


def _best(dim: int, share: float, clip: float, delta_c: float, noise_term: float) -> sparsification.BestRate:
    return sparsification.best_rate(uneven(dim, 1, share), clip_norm=clip, delta_c=delta_c, step_noise=noise_term)


def best_by_trying(*case: float | str) -> float:
    """The least bound over every rate, the rate where it is reached, or kappa there."""
    *setting, name = case
    bounds = _bounds_of_all(*setting)  # type: ignore[arg-type]
    dim, _, _, delta_c, noise_term = (float(one) for one in setting)
    x = (int(bounds.argmin()) + 1) / dim
    return {"bound": float(bounds.min()), "rate": 1 - x, "kappa": (delta_c + x * noise_term) / float(bounds.min())}[
        str(name)
    ]


def best_found(*case: float | str) -> float:
    *setting, name = case
    found = _best(*setting)  # type: ignore[arg-type]
    return {"bound": found.bound, "rate": found.drop_rate, "kappa": found.kappa.value}[str(name)]


def over_law_at_rate(*case: float | str) -> float:
    """Bound or kappa of the answer over its value by the hypergeometric law at the answered rate."""
    *setting, name = case
    dim, share, clip, delta_c, noise_term = (float(one) for one in setting)
    found = _best(*setting)  # type: ignore[arg-type]
    keep = round((1 - found.drop_rate) * dim)
    ratio = uneven_ratio(int(dim), keep, 1, share, 4 / clip)
    return found.kappa.value / ratio if name == "kappa" else found.bound * ratio / (delta_c + keep / dim * noise_term)
