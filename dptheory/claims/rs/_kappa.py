"""kappa against other methods: known in fractions, field by field, for rows of deviations, and at the sizes that people use."""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import sparsification
from dptheory._arrays import Array
from dptheory.claims._draws import all_masks

# --- kappa and the best rate field by field: what must agree, whatever the gradient, and every rate tried in a loop


FIELDS = ("value", "standard_error", "norm_ratio", "probability", "lower", "upper", "error", "norm_ratio_error")


@cache
def _gradient(dim: int) -> Array:
    """Entries 1, 1/2, 1/3, ... in a random order."""
    return np.random.default_rng(dim).permutation(1.0 / np.arange(1, dim + 1))


@cache
def _rows(dim: int) -> Array:
    return 0.3 * np.random.default_rng([dim, 1]).standard_normal((40, dim)) / math.sqrt(dim)


def kappa_field(field: str, dim: int, keep: int, **how: Any) -> float:
    found = sparsification.kappa(
        _gradient(dim), clip_norm=0.5, drop_rate=1 - keep / dim, deviation=0.1 / math.sqrt(dim), **how
    )
    return float(getattr(found, field))


def kappa_of_rows(field: str, keep: int, **how: Any) -> float:
    found = sparsification.kappa(_gradient(20), clip_norm=0.5, drop_rate=1 - keep / 20, deviation=_rows(20), **how)
    return float(getattr(found, field))


def without_deviation(dim: int, keep: int) -> sparsification.Kappa:
    return sparsification.kappa(_gradient(dim), clip_norm=0.5, drop_rate=1 - keep / dim)


SETTINGS: tuple[tuple[int, str, float], ...] = (
    (12, "none", 0.75),
    (12, "spread", 0.25),
    (12, "rows", 0.75),
    (300, "spread", 0.75),
    (20_000, "spread", 0.4),
)
"""d, deviation, z."""


def _deviation(kind: str, dim: int) -> Any:
    return {"none": 0.0, "spread": 0.02 / math.sqrt(dim), "rows": _rows(dim)}[kind]


def best(dim: int, kind: str, z: float) -> sparsification.BestRate:
    given: dict[str, Any] = {} if kind == "none" else {"deviation": _deviation(kind, dim)}
    if z != 0.75:
        given["deviation_share"] = z
    return sparsification.best_rate(_gradient(dim), clip_norm=0.4, delta_c=1.0, step_noise=40.0, **given)


def _bound_at(dim: int, kind: str, z: float, keep: int, largest: bool = False) -> float:
    """U(r) with the least kappa that is proved, or the largest."""
    rate = 1.0 - keep / dim
    found = sparsification.kappa(
        _gradient(dim), clip_norm=0.4, drop_rate=rate, deviation=_deviation(kind, dim), deviation_share=z
    )
    least, most = max(found.lower, found.value - found.error), min(found.upper, found.value + found.error)
    return sparsification.relative_bound(drop_rate=rate, delta_c=1.0, step_noise=40.0, kappa=most if largest else least)


def every_rate(what: str, dim: int, kind: str, z: float) -> float:
    """Best of all rates that keep a whole number of entries."""
    bounds = {keep: _bound_at(dim, kind, z, keep) for keep in range(dim, 0, -1)}
    best = min(bounds, key=bounds.__getitem__)
    if what in ("first_rate", "last_rate"):
        alike = [
            keep
            for keep in range(dim, 0, -1)
            if _bound_at(dim, kind, z, keep, largest=True) <= bounds[best] * (1 + 1e-11)
        ]
        runs = [keep for keep in alike if {*range(min(keep, best), max(keep, best))} <= {*alike}]
        return 1.0 - (max(runs) if what == "first_rate" else min(runs)) / dim
    return 1.0 - best / dim if what == "drop_rate" else bounds[best]


def all_fields(bound: float, found: sparsification.Kappa) -> float:
    """Bound and fields in one number: a change of 1 % in any of them shows, as they are far above rounding."""
    return math.fsum([bound, *(math.sqrt(2 + i) * getattr(found, field) for i, field in enumerate(FIELDS))])


def asked_alone(dim: int, kind: str, z: float) -> float:
    """The same from kappa and the trade-off, asked for at the rate that was chosen."""
    rate = best(dim, kind, z).drop_rate
    found = sparsification.kappa(
        _gradient(dim), clip_norm=0.4, drop_rate=rate, deviation=_deviation(kind, dim), deviation_share=z
    )
    return all_fields(
        sparsification.relative_bound(
            drop_rate=rate, delta_c=1.0, step_noise=40.0, kappa=max(found.lower, found.value - found.error)
        ),
        found,
    )


# --- kappa for rows of deviations: all masks of 16 entries against the drawn ones and their error bars


ROWS_DIM = 16


def _some_rows(z: float) -> tuple[Array, Array]:
    """A gradient and rows of deviations in 16 entries, most of them shorter than z C, C = 2."""
    rng = np.random.default_rng(11)
    return rng.standard_normal(ROWS_DIM) ** 3, rng.standard_normal((50, ROWS_DIM)) * 0.38 * z / 0.75


@cache
def _under_masks(keep: int, z: float) -> tuple[Array, NDArray[np.bool_]]:
    """f under each mask of 16 entries over f without one; and which rows are below z C, without a mask and under each."""
    w, rows = _some_rows(z)
    every = np.array([(1,) * ROWS_DIM, *all_masks(ROWS_DIM, keep)], dtype=float)
    length, c = np.sqrt(every @ w**2), (1 - z) * 2.0
    descent = np.minimum(length, c) * length
    return descent[1:] / descent[0], every @ (rows**2).T < (2.0 * z) ** 2


def rows_exact(keep: int, z: float) -> float:
    """kappa over all masks of 16 entries."""
    descent, below = _under_masks(keep, z)
    return float(np.mean(descent * below[1:].mean(axis=1)) / below[0].mean())


def rows_found(keep: int, z: float, masks: int, seed: int = 0) -> sparsification.Kappa:
    w, rows = _some_rows(z)
    return sparsification.kappa(
        w, clip_norm=2.0, drop_rate=1 - keep / ROWS_DIM, deviation=rows, deviation_share=z, masks=masks, seed=seed
    )


@cache
def _draws(keep: int, z: float) -> tuple[sparsification.Kappa, ...]:
    """500 masks under each of 300 seeds."""
    return tuple(rows_found(keep, z, 500, seed) for seed in range(300))


def rows_z_score(keep: int, z: float) -> float:
    """Root mean square of (value - exact) / standard_error over 300 draws."""
    exact, found = rows_exact(keep, z), _draws(keep, z)
    return math.sqrt(sum(((one.value - exact) / one.standard_error) ** 2 for one in found) / len(found))


def rows_bars_hold(keep: int, z: float, share: float = 1.0) -> bool:
    exact = rows_exact(keep, z)
    return all(abs(one.value - exact) <= share * one.error for one in _draws(keep, z)[:100])


def rows_bar_exact(what: str, keep: int, z: float) -> float:
    """Standard error and stated error (rs.kappa_error, step 7) of 500 draws, by the spread and the largest f over all masks of 16 entries.

    Only rows longer than z C are drawn. What f's own bracket adds for the others, a quarter of a percent, is left out.
    """
    descent, below = _under_masks(keep, z)
    found = descent * below[1:, ~below[0]].mean(axis=1)
    over_p = float((~below[0]).sum() / below[0].sum())
    if what == "standard_error":
        return over_p * float(found.std()) / math.sqrt(500)
    doubt = math.log(4e4)
    return over_p * (float(found.std()) * math.sqrt(2 * doubt / 500) + 7 * doubt * float(descent.max()) / (3 * 499))


def rows_bar(what: str, keep: int, z: float) -> float:
    """The mean of the two over 300 draws: of the standard error, the root of the mean square, which has no bias."""
    found = _draws(keep, z)
    if what == "standard_error":
        return math.sqrt(sum(one.standard_error**2 for one in found) / len(found))
    return sum(one.error for one in found) / len(found)


def rows_field_exact(name: str, keep: int, z: float) -> float:
    """The other fields from all masks and the rows' norms."""
    descent, below = _under_masks(keep, z)
    x, scale, p = keep / ROWS_DIM, float(np.linalg.norm(_some_rows(z)[0])) / ((1 - z) * 2.0), float(below[0].mean())
    return {
        "norm_ratio": float(np.mean(descent)),
        "probability": p,
        "lower": x,
        "upper": min(x * max(1.0, scale), math.sqrt(x)) / p,
    }[name]


# --- kappa at the sizes that people use: a few large entries by their hypergeometric law, heavy tails by closed forms and draws


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


LARGE_FIELDS = ("value", "norm_ratio", "probability", "lower", "upper", "error over norm_ratio_error")
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


def best_by_trying(dim: int, share: float, clip: float, delta_c: float, noise_term: float, name: str) -> float:
    """The least bound over every rate, the rate where it is reached, or kappa there."""
    bounds = _bounds_of_all(dim, share, clip, delta_c, noise_term)
    least, x = float(bounds.min()), (int(bounds.argmin()) + 1) / dim
    return {"bound": least, "rate": 1 - x, "kappa": (delta_c + x * noise_term) / least}[name]


def best_found(dim: int, share: float, clip: float, delta_c: float, noise_term: float, name: str) -> float:
    found = _best(dim, share, clip, delta_c, noise_term)
    return {"bound": found.bound, "rate": found.drop_rate, "kappa": found.kappa.value}[name]


def over_law_at_rate(dim: int, share: float, clip: float, delta_c: float, noise_term: float, name: str) -> float:
    """Bound or kappa of the answer over its value by the hypergeometric law at the answered rate."""
    found = _best(dim, share, clip, delta_c, noise_term)
    keep = round((1 - found.drop_rate) * dim)
    ratio = uneven_ratio(dim, keep, 1, share, 4 / clip)
    return found.kappa.value / ratio if name == "kappa" else found.bound * ratio / (delta_c + keep / dim * noise_term)


Rows = tuple[tuple[int, ...], ...]


def printed_kappa(rate: float) -> float:
    """kappa as Appendix G supposes it."""
    return math.sqrt(1.0 - rate)


CLIP, DIM = 4, 4
_FLAT, _SPIKE = (2, 2, 2, 2), (4, 0, 0, 0)


def _deviations(large: int, small: int) -> Rows:
    """+-(2, 2, 2, 2) ``large`` times each, and zero ``small`` times: length 4 in full, 2 for one entry."""
    return ((2,) * DIM,) * large + ((-2,) * DIM,) * large + ((0,) * DIM,) * small


CASES: dict[str, tuple[tuple[int, ...], int, Rows]] = {
    "one entry, no deviation": (_SPIKE, 1, _deviations(0, 1)),
    "equal entries, no deviation": (_FLAT, 1, _deviations(0, 1)),
    "equal entries, P = 1/2": (_FLAT, 1, _deviations(1, 2)),
    "equal entries, P = 1/4": (_FLAT, 1, _deviations(3, 2)),
    "equal entries, P = 3/4": (_FLAT, 1, _deviations(1, 6)),
    "r = 0": (_FLAT, 4, _deviations(1, 2)),
}


def exact_kappa(gradient: Sequence[int], keep: int, rows: Rows) -> Fraction:
    """kappa by enumeration in fractions; gradients whose masked norms are whole."""

    def squared(v: Sequence[int], kept: Sequence[int]) -> int:
        return sum(v[j] ** 2 for j in kept)

    def part(kept: Sequence[int]) -> Fraction:
        x = squared(gradient, kept)
        below = Fraction(sum(squared(row, kept) < 9 for row in rows), len(rows))
        root = math.isqrt(x)
        if root**2 != x:
            raise ValueError(f"gradient must have whole masked norms, got {gradient!r}")
        return below * min(x, root)

    found = [part(kept) for kept in itertools.combinations(range(DIM), keep)]
    return sum(found, Fraction(0)) / len(found) / part(range(DIM))


def exact_kappa_of(name: str) -> Fraction:
    """kappa of a named case, in fractions."""
    return exact_kappa(*CASES[name])


def calculated(name: str) -> sparsification.Kappa:
    """The calculator's kappa of a named case."""
    gradient, keep, rows = CASES[name]
    return sparsification.kappa(
        gradient, clip_norm=CLIP, drop_rate=1 - keep / DIM, deviation=np.array(rows, dtype=float)
    )


Below = Callable[[Sequence[int]], float]
"""P(|m * xi| < 3 C / 4) by the entries that the mask keeps."""


def gaussian(clip: float, spread: float) -> Below:
    """Of a Gaussian deviation."""
    return lambda kept: float(scipy.stats.chi2.cdf((0.75 * clip / spread) ** 2, len(kept))) if spread else 1.0


def empirical(clip: float, rows: Sequence[Sequence[float]] | Array) -> Below:
    """Of deviations that are rows, equally likely."""
    return lambda kept: sum(math.hypot(*(row[j] for j in kept)) < 0.75 * clip for row in rows) / len(rows)


def enumerated(gradient: Sequence[float] | Array, keep: int, clip: float, below: Below) -> float:
    """kappa by enumeration of the masks, as Lemma 3.3 defines it."""

    def part(kept: Sequence[int]) -> float:
        square = sum(float(gradient[j]) ** 2 for j in kept)
        return below(kept) * min(square, clip / 4 * math.sqrt(square))

    found = [part(kept) for kept in itertools.combinations(range(len(gradient)), keep)]
    return sum(found) / len(found) / part(range(len(gradient)))


def spread_of(probability: float, dim: int, clip: float = 1.0, z: float = 0.75) -> float:
    """Standard deviation of the Gaussian deviation that stays below z C with this probability."""
    return z * clip / math.sqrt(float(scipy.stats.chi2.ppf(probability, dim)))
