from fractions import Fraction
from functools import partial

import numpy as np

from dptheory import gradients
from dptheory._arrays import Array
from dptheory.claims._draws import all_masks, drawn_masks
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.rf import _masked_vectors as vectors


def _mean_inner_of_both(dim: int, keep: int) -> Fraction:
    """E<m*u, m*v>, multiplying both vectors by the mask."""
    found = [
        sum(m * a * m * b for m, a, b in zip(mask, vectors.FIRST[:dim], vectors.SECOND[:dim], strict=True))
        for mask in all_masks(dim, keep)
    ]
    return Fraction(sum(found), len(found))


def _masked_norm_draws(rng: np.random.Generator, n: int, dim: int, keep: int) -> Array:
    u, _ = vectors.long_pair(dim)
    return np.asarray(np.square(drawn_masks(rng, n, dim, keep) * u).sum(axis=1))


row = new_row(
    id="rf.cor1.1",
    source=Source("rf", "Corollary 1.1 (Corollary A.2 of RS)", (32,)),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds", "reading_is_false"),
    calculators=(gradients.expected_masked_inner,),
)


@row.equal(vectors.sizes, tolerance=1e-14)
def _(dim: int, keep: int) -> Sides:
    """all masks, d <= 5"""
    return vectors.stated(dim, keep), lambda: _mean_inner_of_both(dim, keep), keep / dim * vectors.stated(dim, keep)


@row.equal(*((name,) for name in vectors.LAWS), kind=Kind.COUNTEREXAMPLE)
def _(name: str) -> Sides:
    """needs independence of the pair and a uniform mask"""
    return vectors.condition(name), vectors.lemma_holds(name), vectors.printed_condition(name)


@row.mean(partial(_masked_norm_draws, dim=60, keep=15), row_bytes=2000)
def _() -> float:
    """squared norm, 60 entries, 15 kept"""
    return gradients.expected_masked_inner(vectors.long_pair(60)[0], vectors.long_pair(60)[0], drop_rate=0.75)
