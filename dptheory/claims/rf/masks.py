"""RF: expectations and norms of masked vectors."""

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dptheory import gradients
from dptheory.checks import ExactCheck, Kind, MeanCheck, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims._draws import all_masks, drawn_masks

Array = NDArray[np.float64]
Vector = tuple[int, ...]
Law = list[tuple[Fraction, Vector, Vector, Vector]]
"""Probability, mask, u, v."""

_FIRST = (3, -2, 1, 5, -4)
_SECOND = (1, 4, -2, 7, 2)


def _cases() -> Iterator[tuple[int, int]]:
    yield from ((dim, keep) for dim in range(1, 6) for keep in range(1, dim + 1))


def _inner(mask: Vector, u: Vector, v: Vector) -> int:
    return sum(m * a * b for m, a, b in zip(mask, u, v, strict=True))


def _mean_inner(dim: int, keep: int) -> Fraction:
    found = [_inner(mask, _FIRST[:dim], _SECOND[:dim]) for mask in all_masks(dim, keep)]
    return Fraction(sum(found), len(found))


def _mean_inner_of_both(dim: int, keep: int) -> Fraction:
    """E<m*u, m*v>, multiplying both vectors by the mask."""
    found = [
        sum(m * a * m * b for m, a, b in zip(mask, _FIRST[:dim], _SECOND[:dim], strict=True))
        for mask in all_masks(dim, keep)
    ]
    return Fraction(sum(found), len(found))


def _stated(dim: int, keep: int) -> float:
    return gradients.expected_masked_inner(_FIRST[:dim], _SECOND[:dim], 1 - keep / dim)


_FULL, _ONE, _TWO = (1, 1), (1, 0), (0, 1)
_LAWS: dict[str, Law] = {
    "mask independent of the pair": [
        (Fraction(1, 4), mask, (s, s), (s, 2 * s)) for mask, s in itertools.product((_ONE, _TWO), (1, -1))
    ],
    "independent of u and of v, not of the pair": [
        (Fraction(1, 4), mask, (s, 0), (s if mask == _ONE else -s, 0))
        for mask, s in itertools.product((_ONE, _TWO), (1, -1))
    ],
    "vectors that went through the same mask": [
        (Fraction(1, 2), mask, mask, _FULL) for mask in (_ONE, _TWO)
    ],
    "always the same mask": [(Fraction(1), _ONE, (1, 0), (1, 0))],
}  # fmt: skip


def _lemma_holds(name: str) -> bool:
    law = _LAWS[name]
    masked = sum((p * _inner(mask, u, v) for p, mask, u, v in law), Fraction(0))
    return masked == Fraction(1, 2) * sum((p * _inner(_FULL, u, v) for p, _, u, v in law), Fraction(0))


def _independent(name: str, other: Callable[[Vector, Vector], object]) -> bool:
    """The mask is independent of ``other(u, v)``."""
    law = _LAWS[name]
    joint: dict[tuple[Vector, object], Fraction] = {}
    for p, mask, u, v in law:
        joint[mask, other(u, v)] = joint.get((mask, other(u, v)), Fraction(0)) + p
    of_mask = {m: sum(q for (n, _), q in joint.items() if n == m) for m, _ in joint}
    of_other = {o: sum(q for (_, n), q in joint.items() if n == o) for _, o in joint}
    return all(joint.get((m, o), Fraction(0)) == of_mask[m] * of_other[o] for m in of_mask for o in of_other)


def _condition(name: str) -> bool:
    """The mask is independent of the pair and keeps each entry with probability 1 - r = 1/2."""
    uniform = all(sum((p * mask[j] for p, mask, _, _ in _LAWS[name]), Fraction(0)) == Fraction(1, 2) for j in range(2))
    return uniform and _independent(name, lambda u, v: (u, v))


def _printed_condition(name: str) -> bool:
    """Independent of u and of v, with the right number of ones."""
    return _independent(name, lambda u, v: u) and _independent(name, lambda u, v: v)


def _pair(dim: int) -> tuple[Array, Array]:
    j = np.arange(1.0, dim + 1)
    return np.sqrt(j), 1.0 + np.cos(j)


def _masked_inner_draws(rng: np.random.Generator, n: int, dim: int, keep: int) -> Array:
    u, v = _pair(dim)
    return np.asarray((drawn_masks(rng, n, dim, keep) * u) @ v)


def _masked_norm_draws(rng: np.random.Generator, n: int, dim: int, keep: int) -> Array:
    u, _ = _pair(dim)
    return np.asarray(np.square(drawn_masks(rng, n, dim, keep) * u).sum(axis=1))


_CONDITIONS = (
    "m independent of the pair (u, v), not just of each",
    "every entry is kept with probability 1 - r: a uniform mask; the right number of ones alone is not enough",
)

_NEEDED = ExactCheck(
    name="needs independence of the pair and a uniform mask",
    cases=lambda: [(name,) for name in _LAWS],
    truth=_lemma_holds,
    statement=_condition,
    wrong=_printed_condition,
    kind=Kind.COUNTEREXAMPLE,
)
"""Both claims rest on the same conditions and fall with them."""

_LEM1 = Claim(
    id="rf.lem1",
    title="masked inner product",
    source=Source("rf", "Lemma 1 (Lemma A.1 of RS)", (28,)),
    statement=r"For arbitrary vectors $u, v$ and a random mask $m$ with $\sum m = (1-r)d$ independent from $u, v$: "
    r"$E\langle m^k\odot u, v\rangle = (1-r)E\langle u, v\rangle$.",
    verdict=Verdict.CONDITIONAL,
    conditions=_CONDITIONS,
    correction=r"True for a uniform mask that is independent of the pair $(u, v)$. It may not be applied to a gradient at an "
    r"iterate that the same mask has shaped (per-epoch masks).",
    calculators=(gradients.expected_masked_inner,),
    checks=(
        ExactCheck(
            name="all masks, d <= 5",
            cases=_cases,
            truth=_mean_inner,
            statement=_stated,
            wrong=lambda dim, keep: Fraction(keep, dim) ** 2 * dim,
            tolerance=1e-14,
        ),
        _NEEDED,
        MeanCheck(
            name="60 entries, 15 kept",
            sampler=partial(_masked_inner_draws, dim=60, keep=15),
            claimed=lambda: gradients.expected_masked_inner(*_pair(60), 0.75),
            row_bytes=2000,
        ),
        ExactCheck(
            name="users' sizes, in whole numbers",
            cases=lambda: [(20_000, 5_000), (10**6, 10**5)],
            truth=lambda dim, keep: Fraction(keep, dim) * sum(j % 7 * (j % 11) for j in range(dim)),
            statement=lambda dim, keep: gradients.expected_masked_inner(
                np.arange(dim) % 7, np.arange(dim) % 11, 1 - keep / dim
            ),
            wrong=lambda dim, keep: float(sum(j % 7 * (j % 11) for j in range(dim))),
            tolerance=1e-12,
        ),
    ),
    proved=True,
)

_COR11 = Claim(
    id="rf.cor1.1",
    title="inner product of two masked vectors",
    source=Source("rf", "Corollary 1.1 (Corollary A.2 of RS)", (32,)),
    statement=r"$E\langle m\odot u, m\odot v\rangle = (1-r)E\langle u, v\rangle$.",
    verdict=Verdict.CONDITIONAL,
    conditions=_CONDITIONS,
    correction=r"True under the conditions of Lemma 1; one factor $1-r$, not two, as both vectors share the mask. With "
    r"$u = v$: $E\|m\odot u\|^2 = (1-r)E\|u\|^2$.",
    calculators=(gradients.expected_masked_inner,),
    checks=(
        ExactCheck(
            name="all masks, d <= 5",
            cases=_cases,
            truth=_mean_inner_of_both,
            statement=_stated,
            wrong=lambda dim, keep: keep / dim * _stated(dim, keep),
            tolerance=1e-14,
        ),
        _NEEDED,
        MeanCheck(
            name="squared norm, 60 entries, 15 kept",
            sampler=partial(_masked_norm_draws, dim=60, keep=15),
            claimed=lambda: gradients.expected_masked_inner(_pair(60)[0], _pair(60)[0], 0.75),
            row_bytes=2000,
        ),
    ),
    proved=True,
)


def _mean_norm(u: Array, keep: int) -> float:
    """E|m*u| over all masks."""
    return float(np.linalg.norm(np.array(all_masks(u.size, keep)) * u, axis=1).mean())


def _bounds_slack(second: float, third: float, fourth: float, keep: int) -> float:
    u = np.array([1.0, second, third, fourth])
    bounds = gradients.mask_norm_bounds(u, 1 - keep / 4)
    found = _mean_norm(u, keep)
    return min(found / bounds.lower, bounds.upper / found) - 1


def _narrow_slack(second: float, third: float, fourth: float, keep: int) -> float:
    """Wrong statement: the lower end raised to |u| x^(9/10)."""
    u = np.array([1.0, second, third, fourth])
    return _mean_norm(u, keep) / float(np.linalg.norm(u)) / math.pow(keep / 4, 0.9) - 1


def _spike_or_flat(dim: int, shape: str) -> Array:
    return np.asarray(3.0 * (np.eye(1, dim)[0] if shape == "one entry" else np.ones(dim)))


def _attained(dim: int, keep: int, shape: str) -> float:
    bounds = gradients.mask_norm_bounds(_spike_or_flat(dim, shape), 1 - keep / dim)
    return bounds.lower if shape == "one entry" else bounds.upper


_LEM2 = Claim(
    id="rf.lem2",
    title="norm of a masked vector",
    source=Source("rf", "Lemma 2 (Lemma B.1 of RS)", (35,)),
    statement=r"$E\|m\odot u\| \ge (1-r)\|u\|$, with equality when $r = 0$.",
    verdict=Verdict.LOOSE,
    conditions=("a uniform mask, independent of u",),
    correction=r"$(1-r)\|u\| \le E\|m\odot u\| \le \sqrt{1-r}\,\|u\|$; the lower end is attained for every $r$ by a vector with "
    r"one entry, the upper one by entries of equal size.",
    calculators=(gradients.mask_norm_bounds,),
    checks=(
        SearchCheck(
            name="four entries, all masks",
            box={
                "second": Range(0, 1),
                "third": Range(0, 1),
                "fourth": Range(0, 1),
                "keep": Range(1, 4, integer=True),
            },
            slack=_bounds_slack,
            wrong=_narrow_slack,
        ),
        ExactCheck(
            name="both ends attained",
            cases=lambda: [(dim, keep, s) for dim, keep in _cases() for s in ("one entry", "equal entries")],
            truth=lambda dim, keep, shape: _mean_norm(_spike_or_flat(dim, shape), keep),
            statement=_attained,
            wrong=lambda dim, keep, shape: keep / dim * math.sqrt(9.0 * (1 if shape == "one entry" else dim)),
            tolerance=1e-14,
        ),
        ExactCheck(
            name="both ends attained, users' sizes",
            cases=lambda: [
                (*size, shape) for size in ((20_000, 5_000), (10**6, 10**5)) for shape in ("one entry", "equal entries")
            ],
            truth=lambda dim, keep, shape: 3.0 * (keep / dim if shape == "one entry" else math.sqrt(keep)),
            statement=_attained,
            wrong=lambda dim, keep, shape: 1.01 * keep / dim * math.sqrt(9.0 * (1 if shape == "one entry" else dim)),
            tolerance=1e-12,
        ),
    ),
    proved=True,
)

CLAIMS = (_LEM1, _COR11, _LEM2)
