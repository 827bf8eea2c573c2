"""RS: kappa, the factor that masking puts in front of the descent of clipped SGD."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from dptheory import sparsification
from dptheory.checks import ExactCheck, Kind, MeanCheck, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims._draws import drawn_masks
from dptheory.claims.rs import _kappa_fields
from dptheory.claims.rs import _kappa_rows as rows
from dptheory.claims.rs import _large_kappa as large

Array = NDArray[np.float64]
Rows = tuple[tuple[int, ...], ...]


def printed_kappa(rate: float) -> float:
    """kappa as Appendix G supposes it."""
    return math.sqrt(1.0 - rate)


# --- exact cases: d = 4, C = 4, so that c = 1 and the deviation counts below 3 ----------------------------------------

_CLIP, _DIM = 4, 4
_FLAT, _SPIKE = (2, 2, 2, 2), (4, 0, 0, 0)


def _deviations(large: int, small: int) -> Rows:
    """+-(2, 2, 2, 2) ``large`` times each, and zero ``small`` times: length 4 in full, 2 for one entry."""
    return ((2,) * _DIM,) * large + ((-2,) * _DIM,) * large + ((0,) * _DIM,) * small


_CASES: dict[str, tuple[tuple[int, ...], int, Rows]] = {
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

    found = [part(kept) for kept in itertools.combinations(range(_DIM), keep)]
    return sum(found, Fraction(0)) / len(found) / part(range(_DIM))


def exact_kappa_of(name: str) -> Fraction:
    """kappa of a named case, in fractions."""
    return exact_kappa(*_CASES[name])


def calculated(name: str) -> sparsification.Kappa:
    """The calculator's kappa of a named case."""
    gradient, keep, rows = _CASES[name]
    return sparsification.kappa(gradient, _CLIP, 1 - keep / _DIM, np.array(rows, dtype=float))


def _strictly_inside(name: str) -> bool:
    x = Fraction(_CASES[name][1], _DIM)
    return x < exact_kappa_of(name) < 1


def _condition_met(name: str) -> bool:
    """P >= sqrt(1 - r) and r > 0, in fractions: the lemma then says that kappa lies in (1 - r, 1)."""
    _, keep, rows = _CASES[name]
    below = Fraction(sum(sum(x * x for x in row) < 9 for row in rows), len(rows))
    return keep < _DIM and below**2 >= Fraction(keep, _DIM)


def _stated_inside(name: str) -> bool:
    found = calculated(name)
    return found.lower < found.value < 1


def _step_57_holds(size: int, scale: int) -> bool:
    """Equation 57 for the gradient (size, 0), d = 2, r = 1/2, c = scale, by enumeration."""
    masked = (size, 0)
    low, high = [a for a in masked if a <= scale], [a for a in masked if a > scale]
    left = Fraction(sum(min(a, scale) * a for a in masked), 2)
    right = Fraction(len(low), 2) * Fraction(1, 2) * size**2 + Fraction(len(high), 2) * scale * Fraction(sum(masked), 2)
    return left >= right


# --- searches ---------------------------------------------------------------------------------------------------------


def spread_of(probability: float, dim: int, clip: float = 1.0, z: float = 0.75) -> float:
    """Standard deviation of the Gaussian deviation that stays below z C with this probability."""
    return z * clip / math.sqrt(float(chi2.ppf(probability, dim)))


def _found(second: float, third: float, fourth: float, keep: int, scale: float, margin: float) -> sparsification.Kappa:
    """Four entries, |w| = scale c, Gaussian deviation with P between sqrt x and 1."""
    u = np.array([1.0, second, third, fourth])
    root = math.sqrt(keep / 4)
    spread = spread_of(root + margin * (1 - root), 4) if margin < 1 and root < 1 else 0.0
    return sparsification.kappa(0.25 * scale * u / np.linalg.norm(u), 1.0, 1 - keep / 4, spread)


def _closed_range_slack(**point: float) -> float:
    found = _found(**point)  # type: ignore[arg-type]
    return min(found.value / found.lower, found.upper / found.value, 1 / found.value) - 1


def _square_root_slack(**point: float) -> float:
    """Wrong statement: kappa is at least sqrt(1 - r)."""
    found = _found(**point)  # type: ignore[arg-type]
    return found.value / math.sqrt(found.lower) - 1


def _without_condition_slack(probability: float, scale: float, keep: int) -> float:
    """The upper end with P arbitrary: min(x max(1, s), sqrt x) / P."""
    found = sparsification.kappa(np.full(6, 0.25 * scale), 1.0, 1 - keep / 6, spread_of(probability, 6))
    return min(found.value / found.lower, found.upper / found.value) - 1


def _at_most_one_slack(probability: float, scale: float, keep: int) -> float:
    """Wrong statement: kappa <= 1 without the condition."""
    found = sparsification.kappa(np.full(6, 0.25 * scale), 1.0, 1 - keep / 6, spread_of(probability, 6))
    return 1 / found.value - 1


_BOX = {
    "second": Range(0, 1),
    "third": Range(0, 1),
    "fourth": Range(0, 1),
    "keep": Range(1, 4, integer=True),
    "scale": Range(0.01, 100, log=True),
    "margin": Range(0, 1),
}

_LEM33 = Claim(
    id="rs.lem3.3",
    title="range of kappa",
    source=Source("rs", "Lemma 3.3", (11, 57, 77)),
    statement=r"If $P = P(\|\xi\| < 3C/4) \ge \sqrt{1-r}$, there is $\kappa \in (1-r, 1)$ with "
    r"$E_m[P'_m h(w')\|w'\|] = \kappa P h(w)\|w\|$, $h(v) = \min(\|v\|, C/4)$.",
    verdict=Verdict.FALSE,
    conditions=(
        "w not zero",
        "m uniform and independent of xi, (1 - r) d whole and at least 1",
        "P > 0",
        "upper end only: P >= sqrt(1 - r)",
    ),
    correction=r"$\kappa \in [1-r, 1]$, both ends attained. The lower end needs no condition; without $P \ge \sqrt{1-r}$ the upper "
    r"end is $\min(x\max(1, s), \sqrt x)/P$, $x = 1-r$, $s = 4\|w\|/C$, which can exceed 1. $\kappa > 1-r$ for $r > 0$ if $P'_m > P$ "
    r"for every mask with $m\odot w \ne 0$. Step 57 (RF 63) is invalid; concavity of $\min(X, c\sqrt X)$ replaces it.",
    printed=lambda rate: (1.0 - rate, 1.0),
    calculators=(sparsification.kappa,),
    checks=(
        ExactCheck(
            name="the open interval is left on both sides",
            cases=lambda: [(name,) for name in _CASES],
            truth=_strictly_inside,
            statement=_stated_inside,
            wrong=lambda name: True if _condition_met(name) else None,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="kappa in fractions: x, sqrt x, 1, 2",
            cases=lambda: [(name,) for name in _CASES],
            truth=exact_kappa_of,
            statement=lambda name: calculated(name).value,
            wrong=lambda name: printed_kappa(1 - _CASES[name][1] / _DIM),
            tolerance=1e-14,
        ),
        ExactCheck(
            name="step 57 fails for one entry above c",
            cases=lambda: [(size, scale) for size in (1, 2, 3, 10) for scale in (1, 2, 5)],
            truth=_step_57_holds,
            statement=lambda size, scale: size <= scale,
            wrong=lambda size, scale: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        SearchCheck(
            name="closed range where P >= sqrt(1 - r)", box=_BOX, slack=_closed_range_slack, wrong=_square_root_slack
        ),
        SearchCheck(
            name="range for every P",
            box={
                "probability": Range(1e-6, 0.999),
                "scale": Range(0.01, 100, log=True),
                "keep": Range(1, 6, integer=True),
            },
            slack=_without_condition_slack,
            wrong=_at_most_one_slack,
        ),
    ),
    proved=True,
    figure="kappa_rate",
)

# --- rs.kappa ---------------------------------------------------------------------------------------------------------


def _gradient(dim: int) -> Array:
    return np.asarray(np.exp(-0.4 * np.arange(dim)) + 0.02)


def _rows(dim: int) -> Array:
    return np.asarray(np.random.default_rng(5).standard_normal((40, dim)) * 0.45)


def _enumerated(below: Callable[[Sequence[int]], float], dim: int, keep: int, clip: float) -> float:
    """kappa by enumeration; ``below`` gives P for the kept entries."""
    w, c = _gradient(dim), clip / 4

    def part(kept: Sequence[int]) -> float:
        square = sum(float(w[j]) ** 2 for j in kept)
        return below(kept) * min(square, c * math.sqrt(square))

    found = [part(kept) for kept in itertools.combinations(range(dim), keep)]
    return sum(found) / len(found) / part(range(dim))


def _gaussian_enumerated(dim: int, keep: int, clip: float, spread: float) -> float:
    return _enumerated(lambda kept: float(chi2.cdf((0.75 * clip / spread) ** 2, len(kept))), dim, keep, clip)


def _empirical_enumerated(dim: int, keep: int, clip: float) -> float:
    rows = _rows(dim)

    def below(kept: Sequence[int]) -> float:
        return sum(math.hypot(*(float(row[j]) for j in kept)) < 0.75 * clip for row in rows) / len(rows)

    return _enumerated(below, dim, keep, clip)


def _two_sizes(dim: int, present: int, keep: int) -> Fraction:
    """R for ``present`` entries 1 and zeros, c = 1: squares of whole numbers never fall below c^2."""
    law = [
        Fraction(math.comb(present, h) * math.comb(dim - present, keep - h), math.comb(dim, keep))
        for h in range(keep + 1)
    ]
    return sum((p * Fraction(math.sqrt(h)) for h, p in enumerate(law)), Fraction(0)) / Fraction(math.sqrt(present))


_MC_DIM, _MC_KEEP, _MC_CLIP, _MC_SPREAD = 40, 16, 2.0, 0.25


def _descent_draws(rng: np.random.Generator, n: int) -> Array:
    """1(|m*xi| < 3C/4) h(m*w) |m*w|, mask and Gaussian deviation drawn."""
    w = _gradient(_MC_DIM)
    masks = drawn_masks(rng, n, _MC_DIM, _MC_KEEP)
    size = np.linalg.norm(masks * w, axis=1)
    xi = masks * rng.normal(scale=_MC_SPREAD, size=(n, _MC_DIM))
    return np.asarray((np.linalg.norm(xi, axis=1) < 0.75 * _MC_CLIP) * np.minimum(size, _MC_CLIP / 4) * size)


def _descent(kappa: float) -> float:
    """kappa P h(w) |w|, with P from scipy's chi-square law."""
    size = float(np.linalg.norm(_gradient(_MC_DIM)))
    below = float(chi2.cdf((0.75 * _MC_CLIP / _MC_SPREAD) ** 2, _MC_DIM))
    return kappa * below * min(size, _MC_CLIP / 4) * size


def _large_flat_slack(dim: float, keep_share: float, scale: float) -> float:
    """Entries of equal size: R = sqrt x once |w| is at least 2 c / sqrt x."""
    size = round(dim)
    keep = min(max(round(keep_share * size), 1), size)
    w = np.ones(size)
    found = sparsification.kappa(w, 4 * math.sqrt(size) / scale / 2 * math.sqrt(keep / size), 1 - keep / size)
    return 1e-9 - abs(found.norm_ratio / math.sqrt(keep / size) - 1)


def _small_slack(dim: float, keep_share: float, scale: float) -> float:
    """Wrong statement: the same for the share x in place of sqrt x."""
    size = round(dim)
    keep = min(max(round(keep_share * size), 1), size)
    w = np.ones(size)
    found = sparsification.kappa(w, 4 * math.sqrt(size) / scale / 2 * math.sqrt(keep / size), 1 - keep / size)
    return 1e-9 - abs(found.norm_ratio / (keep / size) - 1)


_KAPPA = Claim(
    id="rs.kappa",
    title="exact value of kappa",
    source=Source("rs", "new, on Lemma 3.3"),
    statement=r"$\kappa = E_m[P'_m f(\|m\odot w\|^2)]/(P f(\|w\|^2))$, $f(X) = \min(X, c\sqrt X)$, $c = C/4$. For $\xi\sim N(0, s^2I)$: "
    r"$\kappa = R\,F_{xd}(\tau)/F_d(\tau)$, $\tau = (3C/4s)^2$, $F_k$ the $\chi^2_k$ law, $R = E_mf(\|m\odot w\|^2)/f(\|w\|^2)$; "
    r"$R = x$ for $\|w\| \le c$, $R = \min(x\max(1, s_w), \sqrt x)$ for entries of equal size, $s_w = \|w\|/c$.",
    verdict=Verdict.HOLDS,
    conditions=(
        "w not zero",
        "m uniform and independent of xi, (1 - r) d whole and at least 1",
        "P > 0",
        "the error bound: proved without draws; where masks are drawn for rows of deviations, with a chance of at least 0.9999",
    ),
    calculators=(sparsification.kappa,),
    checks=(
        *_kappa_fields.CHECKS,
        ExactCheck(
            name="Gaussian deviation, all masks",
            cases=lambda: [
                (d, k, c, s) for d, k in ((3, 1), (6, 4), (9, 3)) for c in (0.5, 2.0, 9.0) for s in (0.1, 1.0)
            ],
            truth=_gaussian_enumerated,
            statement=lambda d, k, c, s: sparsification.kappa(_gradient(d), c, 1 - k / d, s).value,
            wrong=lambda d, k, c, s: printed_kappa(1 - k / d),
            tolerance=1e-11,
        ),
        ExactCheck(
            name="examples' gradients, all masks",
            cases=lambda: [(d, k, c) for d, k in ((3, 1), (6, 4), (9, 3)) for c in (2.0, 9.0)],
            truth=_empirical_enumerated,
            statement=lambda d, k, c: sparsification.kappa(_gradient(d), c, 1 - k / d, _rows(d)).value,
            wrong=lambda d, k, c: printed_kappa(1 - k / d),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="entries 0 and 1: hypergeometric",
            cases=lambda: [(30, 1, 6), (30, 4, 6), (30, 17, 6), (30, 30, 6), (30, 4, 29)],
            truth=_two_sizes,
            statement=lambda d, p, k: sparsification.kappa((np.arange(d) < p).astype(float), 4.0, 1 - k / d).value,
            wrong=lambda d, p, k: printed_kappa(1 - k / d),
            tolerance=1e-12,
        ),
        MeanCheck(
            name="mask and deviation drawn, d = 40",
            sampler=_descent_draws,
            claimed=lambda: _descent(
                sparsification.kappa(
                    _gradient(_MC_DIM), _MC_CLIP, 1 - _MC_KEEP / _MC_DIM, _MC_SPREAD, masks=20_000
                ).value
            ),
            wrong=lambda: _descent(printed_kappa(1 - _MC_KEEP / _MC_DIM)),
            row_bytes=1600,
        ),
        ExactCheck(
            name="one to five large entries, d = 1e4 to 1e6: which are kept is hypergeometric",
            cases=lambda: large.UNEVEN,
            truth=large.uneven_ratio,
            statement=lambda *case: large.uneven_found(*case).value,
            wrong=lambda *case: printed_kappa(1 - case[1] / case[0]),
            tolerance=1.1e-3,
        ),
        ExactCheck(
            name="their error bars hold and are at most a thousandth",
            cases=lambda: large.UNEVEN,
            truth=lambda *case: True,
            statement=lambda *case: large.bar_holds(large.uneven_found(*case), large.uneven_ratio(*case), 1.1e-3),
            wrong=lambda *case: large.bar_holds(
                replace(large.uneven_found(*case), error=0.0), large.uneven_ratio(*case), 1.1e-3
            ),
        ),
        ExactCheck(
            name="every field, heavy tails and Gaussian deviation, d = 1e4 to 1e6",
            cases=lambda: [(name, *case) for case in large.LARGE for name in large.FIELDS],
            truth=large.large_field_by_hand,
            statement=large.large_field,
            wrong=lambda name, *case: 1.005 * large.large_field(name, *case),
            tolerance=1e-3,
        ),
        MeanCheck(
            name="50 of 100,000 heavy-tailed entries drawn",
            sampler=large.large_draws,
            claimed=lambda: (
                sparsification.kappa(
                    large.heavy(large.DRAWN_DIM), 4 / large.DRAWN_SCALE, 1 - large.DRAWN_KEEP / large.DRAWN_DIM
                ).norm_ratio
            ),
            wrong=lambda: printed_kappa(1 - large.DRAWN_KEEP / large.DRAWN_DIM),
            row_bytes=2000,
        ),
        ExactCheck(
            name="rows of deviations, 16 entries, z = 3/4 and 1/4: all masks, and 5,000 drawn",
            cases=lambda: [(k, z, n) for k in (6, 8) for z in (0.75, 0.25) for n in (5000, 20_000)],
            truth=lambda keep, z, n: rows.rows_exact(keep, z),
            statement=lambda keep, z, n: rows.rows_found(keep, z, n).value,
            wrong=lambda keep, z, n: printed_kappa(1 - keep / rows.ROWS_DIM),
            tolerance=6e-3,
        ),
        ExactCheck(
            name="rows: the other fields",
            cases=lambda: [(name, k, z) for name in rows.ROWS_FIELDS for k, z in ((8, 0.75), (6, 0.25))],
            truth=rows.rows_field_exact,
            statement=rows.rows_field,
            wrong=lambda name, keep, z: 1.005 * rows.rows_field(name, keep, z),
            tolerance=2e-3,
        ),
        ExactCheck(
            name="rows: the error bars of 100 draws hold",
            cases=lambda: [(8, 0.75), (6, 0.25)],
            truth=lambda keep, z: True,
            statement=rows.rows_bars_hold,
            wrong=lambda keep, z: rows.rows_bars_hold(keep, z, 0.1),
        ),
        ExactCheck(
            name="rows: mean standard error and error of 300 draws, by the spread over all masks and Bernstein's inequality",
            cases=lambda: [("standard_error", 8, 0.75), ("standard_error", 6, 0.25), ("error", 8, 0.75)],
            truth=rows.rows_bar_exact,
            statement=rows.rows_bar,
            wrong=lambda what, keep, z: 1.01 * rows.rows_bar(what, keep, z),
            tolerance=6e-3,
        ),
        ExactCheck(
            name="rows: mean square of (value - exact) / standard error over 300 draws",
            cases=lambda: [(8, 0.75)],
            truth=lambda keep, z: 1.0,
            statement=rows.rows_z_score,
            wrong=lambda keep, z: 1.2 * rows.rows_z_score(keep, z),
            tolerance=0.12,
        ),
        SearchCheck(
            name="equal entries, large: R = sqrt x",
            box={"dim": Range(2, 1000, log=True), "keep_share": Range(0, 0.95), "scale": Range(1, 1e6, log=True)},
            slack=_large_flat_slack,
            wrong=_small_slack,
        ),
    ),
    proved=True,
    figure="kappa_rate",
)

CLAIMS = (_LEM33, _KAPPA)
