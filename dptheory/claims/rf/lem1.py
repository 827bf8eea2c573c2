from fractions import Fraction
from functools import partial

import numpy as np

from dptheory import gradients
from dptheory._arrays import Array
from dptheory.claims._draws import all_masks, drawn_masks
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.rf import _masked_vectors as vectors


def _mean_inner(dim: int, keep: int) -> Fraction:
    found = [vectors.inner(mask, vectors.FIRST[:dim], vectors.SECOND[:dim]) for mask in all_masks(dim, keep)]
    return Fraction(sum(found), len(found))


def _masked_inner_draws(rng: np.random.Generator, n: int, dim: int, keep: int) -> Array:
    u, v = vectors.long_pair(dim)
    return np.asarray((drawn_masks(rng, n, dim, keep) * u) @ v)


row = new_row(
    id="rf.lem1",
    source=Source("rf", "Lemma 1 (Lemma A.1 of RS)", (28,)),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds", "reading_is_false"),
    calculators=(gradients.expected_masked_inner,),
)


@row.equal(vectors.sizes, tolerance=1e-14)
def _(dim: int, keep: int) -> Sides:
    """all masks, d <= 5"""
    return vectors.stated(dim, keep), lambda: _mean_inner(dim, keep), Fraction(keep, dim) ** 2 * dim


@row.equal(*((name,) for name in vectors.LAWS), kind=Kind.COUNTEREXAMPLE)
def _(name: str) -> Sides:
    """needs independence of the pair and a uniform mask"""
    return vectors.condition(name), vectors.lemma_holds(name), vectors.printed_condition(name)


@row.mean(partial(_masked_inner_draws, dim=60, keep=15), row_bytes=2000)
def _() -> float:
    """60 entries, 15 kept"""
    return gradients.expected_masked_inner(*vectors.long_pair(60), drop_rate=0.75)


@row.equal((20_000, 5_000), (10**6, 10**5), tolerance=1e-12)
def _(dim: int, keep: int) -> Sides:
    """users' sizes, in whole numbers"""
    return (
        gradients.expected_masked_inner(np.arange(dim) % 7, np.arange(dim) % 11, drop_rate=1 - keep / dim),
        lambda: Fraction(keep, dim) * sum(j % 7 * (j % 11) for j in range(dim)),
        lambda: sum(j % 7 * (j % 11) for j in range(dim)),
    )
