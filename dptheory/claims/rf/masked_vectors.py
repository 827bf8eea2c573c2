import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from dptheory import gradients
from dptheory._arrays import Array
from dptheory.claims._draws import all_masks, drawn_masks
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row

# --- Small masked vectors by enumeration, with masks that depend on them or not: Lemmas 1 and 2, Corollary 1.1.


Vector = tuple[int, ...]
Law = list[tuple[Fraction, Vector, Vector, Vector]]
"""Probability, mask, u, v."""

FIRST = (3, -2, 1, 5, -4)
SECOND = (1, 4, -2, 7, 2)


def sizes() -> Iterator[tuple[int, int]]:
    """Dimension up to 5, and number of entries kept."""
    yield from ((dim, keep) for dim in range(1, 6) for keep in range(1, dim + 1))


def inner(mask: Vector, u: Vector, v: Vector) -> int:
    """<m*u, v>."""
    return sum(m * a * b for m, a, b in zip(mask, u, v, strict=True))


def stated(dim: int, keep: int) -> float:
    """The calculator's value for the first ``dim`` entries of FIRST and SECOND."""
    return gradients.expected_masked_inner(FIRST[:dim], SECOND[:dim], drop_rate=1 - keep / dim)


def long_pair(dim: int) -> tuple[Array, Array]:
    """Two vectors for Monte Carlo."""
    j = np.arange(1.0, dim + 1)
    return np.sqrt(j), 1.0 + np.cos(j)


_FULL, _ONE, _TWO = (1, 1), (1, 0), (0, 1)
LAWS: dict[str, Law] = {
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


def lemma_holds(name: str) -> bool:
    """E<m*u, v> = E<u, v> / 2 under the law."""
    law = LAWS[name]
    masked = sum((p * inner(mask, u, v) for p, mask, u, v in law), Fraction(0))
    return masked == Fraction(1, 2) * sum((p * inner(_FULL, u, v) for p, _, u, v in law), Fraction(0))


def condition(name: str) -> bool:
    """The mask is independent of the pair and keeps each entry with probability 1 - r = 1/2."""
    uniform = all(sum((p * mask[j] for p, mask, _, _ in LAWS[name]), Fraction(0)) == Fraction(1, 2) for j in range(2))
    return uniform and _independent(name, lambda u, v: (u, v))


def printed_condition(name: str) -> bool:
    """Independent of u and of v, with the right number of ones."""
    return _independent(name, lambda u, v: u) and _independent(name, lambda u, v: v)


def _independent(name: str, other: Callable[[Vector, Vector], object]) -> bool:
    """The mask is independent of ``other(u, v)``."""
    law = LAWS[name]
    joint: dict[tuple[Vector, object], Fraction] = {}
    for p, mask, u, v in law:
        joint[mask, other(u, v)] = joint.get((mask, other(u, v)), Fraction(0)) + p
    of_mask = {m: sum(q for (n, _), q in joint.items() if n == m) for m, _ in joint}
    of_other = {o: sum(q for (_, n), q in joint.items() if n == o) for _, o in joint}
    return all(joint.get((m, o), Fraction(0)) == of_mask[m] * of_other[o] for m in of_mask for o in of_other)


# Clipping in fractions, for gradients whose masked norms are whole.


Point = tuple[int, ...]


def clipped(g: Point, mask: Point, bound: int) -> tuple[Fraction, ...]:
    """clip(m*g).

    Raises:
        ValueError: the masked norm is not whole.
    """
    kept = tuple(a * m for a, m in zip(g, mask, strict=True))
    size = math.isqrt(sum(a * a for a in kept))
    if size**2 != sum(a * a for a in kept):
        raise ValueError(f"g must have whole masked norms, got {g!r}")
    return tuple(Fraction(a) * min(Fraction(1), Fraction(bound, max(size, 1))) for a in kept)


def _mean_inner(dim: int, keep: int) -> Fraction:
    found = [inner(mask, FIRST[:dim], SECOND[:dim]) for mask in all_masks(dim, keep)]
    return Fraction(sum(found), len(found))


def _masked_inner_draws(rng: np.random.Generator, n: int, dim: int, keep: int) -> Array:
    u, v = long_pair(dim)
    return np.asarray((drawn_masks(rng, n, dim, keep) * u) @ v)


lem1 = new_row(
    id="rf.lem1",
    source=Source("rf", "Lemma 1 (Lemma A.1 of RS)", (28,)),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds", "reading_is_false"),
    calculators=(gradients.expected_masked_inner,),
)


@lem1.equal(sizes, tolerance=1e-14)
def _(dim: int, keep: int) -> Sides:
    """all masks, d <= 5"""
    return stated(dim, keep), lambda: _mean_inner(dim, keep), Fraction(keep, dim) ** 2 * dim


@lem1.equal(*((name,) for name in LAWS), kind=Kind.COUNTEREXAMPLE)
def _(name: str) -> Sides:
    """needs independence of the pair and a uniform mask"""
    return condition(name), lemma_holds(name), printed_condition(name)


@lem1.mean(partial(_masked_inner_draws, dim=60, keep=15), row_bytes=2000)
def _() -> float:
    """60 entries, 15 kept"""
    return gradients.expected_masked_inner(*long_pair(60), drop_rate=0.75)


@lem1.equal((20_000, 5_000), (10**6, 10**5), tolerance=1e-12)
def _(dim: int, keep: int) -> Sides:
    """users' sizes, in whole numbers"""
    return (
        gradients.expected_masked_inner(np.arange(dim) % 7, np.arange(dim) % 11, drop_rate=1 - keep / dim),
        lambda: Fraction(keep, dim) * sum(j % 7 * (j % 11) for j in range(dim)),
        lambda: sum(j % 7 * (j % 11) for j in range(dim)),
    )


def _mean_norm(u: Array, keep: int) -> float:
    """E|m*u| over all masks."""
    return float(np.linalg.norm(np.array(all_masks(u.size, keep)) * u, axis=1).mean())


def _narrow_slack(second: float, third: float, fourth: float, keep: int) -> float:
    """Wrong statement: the lower end raised to |u| x^(9/10)."""
    u = np.array([1.0, second, third, fourth])
    return _mean_norm(u, keep) / float(np.linalg.norm(u)) / math.pow(keep / 4, 0.9) - 1


def _spike_or_flat(dim: int, shape: str) -> Array:
    return np.asarray(3.0 * (np.eye(1, dim)[0] if shape == "one entry" else np.ones(dim)))


def _attained(dim: int, keep: int, shape: str) -> float:
    bounds = gradients.mask_norm_bounds(_spike_or_flat(dim, shape), drop_rate=1 - keep / dim)
    return bounds.lower if shape == "one entry" else bounds.upper


lem2 = new_row(
    id="rf.lem2",
    source=Source("rf", "Lemma 2 (Lemma B.1 of RS)", (35,)),
    verdict=Verdict.LOOSE,
    kernel_theorems=("printed_holds", "correction_holds"),
    calculators=(gradients.mask_norm_bounds,),
)


@lem2.inequality(
    {
        "second": Range(0, 1),
        "third": Range(0, 1),
        "fourth": Range(0, 1),
        "keep": Range(1, 4, integer=True),
    },
    wrong=_narrow_slack,
)
def _bounds_slack(second: float, third: float, fourth: float, keep: int) -> float:
    """four entries, all masks"""
    u = np.array([1.0, second, third, fourth])
    bounds = gradients.mask_norm_bounds(u, drop_rate=1 - keep / 4)
    found = _mean_norm(u, keep)
    return min(found / bounds.lower, bounds.upper / found) - 1


@lem2.equal(lambda: [(dim, keep, s) for dim, keep in sizes() for s in ("one entry", "equal entries")], tolerance=1e-14)
def _(dim: int, keep: int, shape: str) -> Sides:
    """both ends attained"""
    return (
        _attained(dim, keep, shape),
        _mean_norm(_spike_or_flat(dim, shape), keep),
        lambda: keep / dim * math.sqrt(9.0 * (1 if shape == "one entry" else dim)),
    )


@lem2.equal(
    lambda: [(*size, shape) for size in ((20_000, 5_000), (10**6, 10**5)) for shape in ("one entry", "equal entries")],
    tolerance=1e-12,
)
def _(dim: int, keep: int, shape: str) -> Sides:
    """both ends attained, users' sizes"""
    return (
        _attained(dim, keep, shape),
        3.0 * (keep / dim if shape == "one entry" else math.sqrt(keep)),
        lambda: 1.01 * keep / dim * math.sqrt(9.0 * (1 if shape == "one entry" else dim)),
    )


def _mean_inner_of_both(dim: int, keep: int) -> Fraction:
    """E<m*u, m*v>, multiplying both vectors by the mask."""
    found = [
        sum(m * a * m * b for m, a, b in zip(mask, FIRST[:dim], SECOND[:dim], strict=True))
        for mask in all_masks(dim, keep)
    ]
    return Fraction(sum(found), len(found))


def _masked_norm_draws(rng: np.random.Generator, n: int, dim: int, keep: int) -> Array:
    u, _ = long_pair(dim)
    return np.asarray(np.square(drawn_masks(rng, n, dim, keep) * u).sum(axis=1))


cor1_1 = new_row(
    id="rf.cor1.1",
    source=Source("rf", "Corollary 1.1 (Corollary A.2 of RS)", (32,)),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds", "reading_is_false"),
    calculators=(gradients.expected_masked_inner,),
)


@cor1_1.equal(sizes, tolerance=1e-14)
def _(dim: int, keep: int) -> Sides:
    """all masks, d <= 5"""
    return stated(dim, keep), lambda: _mean_inner_of_both(dim, keep), keep / dim * stated(dim, keep)


@cor1_1.equal(*((name,) for name in LAWS), kind=Kind.COUNTEREXAMPLE)
def _(name: str) -> Sides:
    """needs independence of the pair and a uniform mask"""
    return condition(name), lemma_holds(name), printed_condition(name)


@cor1_1.mean(partial(_masked_norm_draws, dim=60, keep=15), row_bytes=2000)
def _() -> float:
    """squared norm, 60 entries, 15 kept"""
    return gradients.expected_masked_inner(long_pair(60)[0], long_pair(60)[0], drop_rate=0.75)
