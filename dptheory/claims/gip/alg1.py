import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptheory import pruning
from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite


def printed_mask(gradient: ArrayLike, keep: int) -> NDArray[np.bool_]:
    """Algorithm 1, lines 3-5, as printed: |g_j| above the 100k-th percentile of one group."""
    size = np.abs(np.asarray(gradient, dtype=np.float64))
    return np.asarray(size > np.percentile(size, 100 * keep / size.size))


_TIED = (1.0, 1.0, 1.0, 1.0)


def _mask_cases() -> Iterator[tuple[tuple[float, ...], int]]:
    for dim, keep in _finite.SIZES:
        yield tuple(float(j + 1) for j in range(dim)), keep
    yield _TIED, 2


row = new_row(
    id="gip.alg1",
    source=Source("gip", "Algorithm 1, lines 3-5"),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_mask,
    calculators=(pruning.top_k_mask,),
)


@row.equal(_mask_cases, kind=Kind.COUNTEREXAMPLE)
def _(gradient: tuple[float, ...], keep: int) -> Sides:
    """number of entries kept"""
    return int(pruning.top_k_mask(gradient, keep=keep).sum()), keep, int(printed_mask(gradient, keep).sum())


@row.equal(_mask_cases, kind=Kind.COUNTEREXAMPLE)
def _(gradient: tuple[float, ...], keep: int) -> Sides:
    """energy of the entries kept"""
    return (
        np.square(gradient) @ pruning.top_k_mask(gradient, keep=keep),
        lambda: max(sum(x * x for x in chosen) for chosen in itertools.combinations(gradient, keep)),
        np.square(gradient) @ printed_mask(gradient, keep),
    )


@row.equal(lambda: [(20_000, 2_000, j) for j in (0, 1, 1_999, 2_000, 19_999)])
def _(dim: int, keep: int, j: int) -> Sides:
    """a long gradient in falling order, its signs mixed"""
    return (
        bool(pruning.top_k_mask((-1.0) ** np.arange(dim) * (dim - np.arange(dim)), keep=keep)[j]),
        j < keep,
        bool(printed_mask((-1.0) ** np.arange(dim) * (dim - np.arange(dim)), keep)[j]),
    )
