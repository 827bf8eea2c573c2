import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from dptheory import embedding
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row

# --- One power iteration carried out with numbers that count operations, and with a ledger of the matrices that are held.


Rows = list[list[float]]


@dataclass
class _Tally:
    """Arithmetic on rows of floats, and its operations so far; ``fused`` are the additions of a product to something."""

    products: int = 0
    sums: int = 0
    divisions: int = 0
    fused: int = 0

    def dot(self, x: list[float], y: list[float]) -> float:
        """Inner product: as many products as entries, one sum less; as many multiply-adds as entries, from 0."""
        self.products += len(x)
        self.sums += len(x) - 1
        self.fused += len(x)
        return sum(a * b for a, b in zip(x, y, strict=True))

    def times(self, rows: Rows, other: Rows) -> Rows:
        """All inner products of the rows with the rows of ``other``."""
        return [[self.dot(x, y) for y in other] for x in rows]

    def orthonormalise(self, rows: Rows) -> None:
        """Modified Gram-Schmidt on the rows, in place."""
        for i, x in enumerate(rows):
            norm = math.sqrt(self.dot(x, x))
            x[:] = [a / norm for a in x]
            self.divisions += len(x)
            for y in rows[i + 1 :]:
                share = self.dot(x, y)
                y[:] = [b - share * a for a, b in zip(x, y, strict=True)]
                self.products += len(x)
                self.sums += len(x)
                self.fused += len(x)


@lru_cache(maxsize=64)
def counted(dim: int, basis: int, anchors: int, groups: int) -> tuple[int, int]:
    """(multiply-adds, floating-point operations) of lines 5 and 6 on all groups; divisions belong to the second alone."""
    rng = np.random.default_rng(dim + 100 * basis + 10_000 * anchors)
    tally = _Tally()
    for _ in range(groups):
        gradients = rng.standard_normal((anchors, dim // groups)).tolist()
        start = rng.standard_normal((basis // groups, dim // groups)).tolist()
        images = tally.times(gradients, start)
        columns = [list(column) for column in zip(*images, strict=True)]
        entries = [list(column) for column in zip(*gradients, strict=True)]
        found = tally.times(columns, entries)
        tally.orthonormalise(found)
        rows = np.array(found)
        if not np.allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-6):
            raise ArithmeticError("the basis is not orthonormal")
    return tally.fused, tally.products + tally.sums + tally.divisions


class _Held:
    """Matrices held at one time and the most numbers that they ever had together."""

    def __init__(self) -> None:
        self.matrices: dict[str, np.ndarray] = {}
        self.most = 0

    def keep(self, name: str, matrix: np.ndarray) -> np.ndarray:
        self.matrices[name] = matrix
        self.most = max(self.most, sum(one.size for one in self.matrices.values()))
        return matrix

    def drop(self, name: str) -> None:
        del self.matrices[name]


@lru_cache(maxsize=256)
def held(dim: int, basis: int, anchors: int, gradients: int, groups: int) -> int:
    """Most numbers held by Algorithm 1 beyond the private gradients, by running it.

    Every group's A is held; clipping is left out, being in place. Temporary rows are not counted: they could be done without.
    """
    rng = np.random.default_rng(0)
    memory, width, vectors = _Held(), dim // groups, basis // groups
    parts = [slice(i * width, (i + 1) * width) for i in range(groups)]
    for i in range(groups):
        memory.keep(f"B{i}", rng.standard_normal((vectors, width)))
    public = memory.keep("anchor gradients", rng.standard_normal((anchors, dim)))
    for i, part in enumerate(parts):
        memory.keep(f"A{i}", public[:, part] @ memory.matrices[f"B{i}"].T)
    for i, part in enumerate(parts):
        memory.matrices[f"B{i}"][:] = memory.matrices[f"A{i}"].T @ public[:, part]
    for i in range(groups):
        memory.drop(f"A{i}")
    memory.drop("anchor gradients")
    private = memory.keep("private gradients", rng.standard_normal((gradients, dim)))
    embeddings = memory.keep("embeddings", np.empty((gradients, basis)))
    for i, part in enumerate(parts):
        columns = slice(i * vectors, (i + 1) * vectors)
        embeddings[:, columns] = private[:, part] @ memory.matrices[f"B{i}"].T
        for row, embedded in zip(private, embeddings[:, columns], strict=True):
            row[part] -= embedded @ memory.matrices[f"B{i}"]
    return memory.most - gradients * dim


def printed_operations(dim: int, basis: int, anchors: int, groups: int = 1) -> int:
    """2 m k p / g + p k^2 / g^2 of Table 4, for g that divides p and k."""
    return (2 * anchors * basis * dim + dim * basis * (basis // groups)) // groups


_SIZES = (
    (1, 1, 1, 1),
    (12, 1, 3, 1),
    (12, 3, 5, 1),
    (20, 4, 7, 1),
    (24, 6, 5, 2),
    (24, 6, 5, 3),
    (40, 8, 9, 4),
)
"""Parameters, basis vectors, anchor gradients and groups."""
Unit = Literal["multiply-add", "operation"]


def _multiply_adds(dim: int, basis: int, anchors: int, groups: int) -> int:
    found = embedding.power_iteration(dim=dim, subspace_dim=basis, anchors=anchors, groups=groups)
    return found.products + found.orthogonalisation


def _once_slack(width: int, basis: int, anchors: int) -> float:
    """Wrong statement: the printed count bounds the operations."""
    dim = basis * width
    return (
        printed_operations(dim, basis, anchors)
        / embedding.power_iteration(dim=dim, subspace_dim=basis, anchors=anchors, unit="operation").total
        - 1
    )


def _counted_parts(part: str, dim: int, basis: int, anchors: int, groups: int, unit: str) -> int:
    """Operations of one power iteration, loop by loop, without running the innermost one."""
    p, k = dim // groups, basis // groups
    fused = unit == "multiply-add"
    found = {"products": 0, "orthogonalisation": 0, "scaling": 0}
    for _ in range(groups):
        found["products"] += anchors * k * (p if fused else p + p - 1)  # entries of A = G B^T: p products, p - 1 sums
        found["products"] += k * p * (anchors if fused else anchors + anchors - 1)
        for row in range(k):
            for _ in range(row):  # an inner product, and a multiple of the earlier row taken off
                found["orthogonalisation"] += (p if fused else p + p - 1) + (p if fused else p + p)
            found["orthogonalisation"] += p if fused else p + p - 1  # the squared norm
            found["scaling"] += p
    return sum(found.values()) if part == "total" else found[part]


appB_compute = new_row(
    id="gep.appB.compute",
    source=Source("gep", "Appendix B, Table 4, section 3.1"),
    verdict=Verdict.CONDITIONAL,
    printed=printed_operations,
    calculators=(embedding.power_iteration,),
)


@appB_compute.equal(
    lambda: [
        (part, *sizes, unit)
        for part in ("products", "orthogonalisation", "scaling", "total")
        for sizes in ((12, 3, 5, 1), (24, 6, 5, 3), (270_000, 1000, 2000, 1), (270_000, 1000, 2000, 5))
        for unit in ("multiply-add", "operation")
    ]
)
def _(part: str, dim: int, basis: int, anchors: int, groups: int, unit: Unit) -> Sides:
    """every part, loop by loop"""
    case = dim, basis, anchors, groups, unit
    stated = embedding.power_iteration(dim=dim, subspace_dim=basis, anchors=anchors, groups=groups, unit=unit)
    return (
        getattr(stated, part),
        lambda: _counted_parts(part, *case),
        lambda: _counted_parts(part, *case) + 1,
    )


@appB_compute.equal(lambda: _SIZES)
def _(dim: int, basis: int, anchors: int, groups: int) -> Sides:
    """multiply-adds, counted one by one"""
    return (
        _multiply_adds(dim, basis, anchors, groups),
        lambda: counted(dim, basis, anchors, groups)[0],
        2 * anchors * basis * dim // groups + dim * basis**2 // groups,
    )


@appB_compute.equal(lambda: _SIZES, kind=Kind.COUNTEREXAMPLE)
def _(dim: int, basis: int, anchors: int, groups: int) -> Sides:
    """floating-point operations, counted one by one"""
    return (
        embedding.power_iteration(dim=dim, subspace_dim=basis, anchors=anchors, groups=groups, unit="operation").total,
        lambda: counted(dim, basis, anchors, groups)[1],
        printed_operations(dim, basis, anchors, groups),
    )


@appB_compute.inequality(
    {
        "width": Range(1, 1e4, integer=True, log=True),
        "basis": Range(1, 1e3, integer=True, log=True),
        "anchors": Range(1, 1e4, integer=True, log=True),
    },
    wrong=_once_slack,
)
def twice_slack(width: int, basis: int, anchors: int) -> float:
    """once to twice the printed count

    Without the divisions, operations lie between 1 and 2 times the printed count; p = k width.
    """
    dim = basis * width
    found = embedding.power_iteration(dim=dim, subspace_dim=basis, anchors=anchors, unit="operation").total
    printed = printed_operations(dim, basis, anchors)
    return min(2 * printed / (found - dim * basis) - 1, (found - dim * basis) / printed - 1)


def printed_extra_floats(dim: int, basis: int, anchors: int, gradients: int, groups: int = 1) -> int:
    """max(0, (m - n + k / g) p + m k) of Table 4, for g that divides k."""
    return max(0, (anchors - gradients + basis // groups) * dim + anchors * basis)


def _held_floats(dim: int, basis: int, anchors: int, gradients: int, groups: int) -> int:
    """Most numbers held beyond the private gradients, stage by stage."""
    bases = sum((dim // groups) * (basis // groups) for _ in range(groups))
    finding = anchors * dim + bases + anchors * basis
    releasing = gradients * dim + bases + gradients * basis
    return max(finding, releasing) - gradients * dim


appB_memory = new_row(
    id="gep.appB.memory",
    source=Source("gep", "Appendix B, Table 4"),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds", "reading_is_false", "correction_holds"),
    printed=printed_extra_floats,
    calculators=(embedding.extra_floats,),
)


def _stated_floats(dim: int, basis: int, anchors: int, gradients: int, groups: int) -> float:
    return embedding.extra_floats(dim=dim, subspace_dim=basis, anchors=anchors, gradient_count=gradients, groups=groups)


@appB_memory.equal((6, 2, 1, 4, 1), (12, 3, 5, 6, 3), (270_000, 1000, 2000, 1000, 1), (270_000, 1000, 500, 1000, 5))
def _(dim: int, basis: int, anchors: int, gradients: int, groups: int) -> Sides:
    """numbers held, stage by stage"""
    held = _held_floats(dim, basis, anchors, gradients, groups)
    return (
        _stated_floats(dim, basis, anchors, gradients, groups),
        held,
        held + 1,
    )


@appB_memory.equal((2, 1, 1, 2, 1), (6, 2, 1, 4, 1), (6, 2, 3, 9, 2), (12, 3, 5, 6, 3), kind=Kind.COUNTEREXAMPLE)
def _(dim: int, basis: int, anchors: int, gradients: int, groups: int) -> tuple[float, float]:
    """fewer anchor gradients than private ones"""
    sizes = dim, basis, anchors, gradients, groups
    return _stated_floats(*sizes), held(*sizes)


@appB_memory.equal(
    lambda: [
        (dim, basis, anchors, gradients, groups)
        for dim, basis, groups in ((4, 2, 1), (4, 2, 2), (12, 6, 3))
        for anchors in (1, 3, 8)
        for gradients in (1, 3, 4, 20)
    ]
)
def _(dim: int, basis: int, anchors: int, gradients: int, groups: int) -> Sides:
    """the printed value is right for m >= n and for no other"""
    sizes = dim, basis, anchors, gradients, groups
    return (
        printed_extra_floats(*sizes) == _stated_floats(*sizes),
        printed_extra_floats(*sizes) == held(*sizes),
        anchors + basis // groups >= gradients,
    )
