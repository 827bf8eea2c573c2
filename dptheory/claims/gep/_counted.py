"""One power iteration carried out with numbers that count operations, and with a ledger of the matrices that are held."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass
class _Tally:
    """Operations so far; ``fused`` are the additions of a product to something."""

    products: int = 0
    sums: int = 0
    divisions: int = 0
    fused: int = 0


class _Matrix:
    """Rows of floats whose arithmetic is written to a tally, one operation at a time."""

    def __init__(self, rows: list[list[float]], tally: _Tally) -> None:
        self.rows, self.tally = rows, tally

    def dot(self, x: list[float], y: list[float]) -> float:
        """Inner product: as many products as entries, one sum less; as many multiply-adds as entries, from 0."""
        self.tally.products += len(x)
        self.tally.sums += len(x) - 1
        self.tally.fused += len(x)
        return sum(a * b for a, b in zip(x, y, strict=True))

    def times(self, other: list[list[float]]) -> list[list[float]]:
        """All inner products of the rows with the rows of ``other``."""
        return [[self.dot(x, y) for y in other] for x in self.rows]

    def orthonormalise(self) -> None:
        """Modified Gram-Schmidt on the rows, in place."""
        for i, x in enumerate(self.rows):
            norm = math.sqrt(self.dot(x, x))
            x[:] = [a / norm for a in x]
            self.tally.divisions += len(x)
            for y in self.rows[i + 1 :]:
                share = self.dot(x, y)
                y[:] = [b - share * a for a, b in zip(x, y, strict=True)]
                self.tally.products += len(x)
                self.tally.sums += len(x)
                self.tally.fused += len(x)


@lru_cache(maxsize=64)
def counted(dim: int, basis: int, anchors: int, groups: int) -> tuple[int, int]:
    """(multiply-adds, floating-point operations) of lines 5 and 6 on all groups; divisions belong to the second alone."""
    rng = np.random.default_rng(dim + 100 * basis + 10_000 * anchors)
    tally = _Tally()
    for _ in range(groups):
        gradients = rng.standard_normal((anchors, dim // groups)).tolist()
        start = rng.standard_normal((basis // groups, dim // groups)).tolist()
        images = _Matrix(gradients, tally).times(start)
        columns = [list(column) for column in zip(*images, strict=True)]
        entries = [list(column) for column in zip(*gradients, strict=True)]
        found = _Matrix(_Matrix(columns, tally).times(entries), tally)
        found.orthonormalise()
        rows = np.array(found.rows)
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
        for row, embedding in zip(private, embeddings[:, columns], strict=True):
            row[part] -= embedding @ memory.matrices[f"B{i}"]
    return memory.most - gradients * dim
