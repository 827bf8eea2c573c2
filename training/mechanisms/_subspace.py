"""The subspace of the embedding: the first principal vectors of anchor gradients, and how many each group gets."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from dptheory import _validate
from dptheory.training._randomness import normal
from dptheory.training.per_example import PerExampleGradients, Tensors, as_gradients, as_rows

_LEAST_RATIO = 1e-4
"""Of the diagonal of a Cholesky factor: below it, a second pass would not make up for the first one's rounding."""
_WIDENED = 1 << 23
"""Entries of a basis that are held in float64 at once: 64 MiB."""


class AnchorSource(Protocol):
    r"""Gives gradients of auxiliary, non-sensitive examples at the present weights, shapes (m, \*parameter.shape).

    Source: GEP, Algorithm 1, line 3 (gep.random_labels).
    """

    def __call__(self) -> Tensors: ...

    def state_dict(self) -> dict[str, Any]:
        """All that changes from call to call."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""


def power_iteration(
    anchors: PerExampleGradients | torch.Tensor, *, dim: int, iterations: int, generator: torch.Generator | None
) -> torch.Tensor:
    """Orthonormal rows B that span about the first principal subspace of the anchor gradients A.

    From a random start, ``iterations`` times: Q R = A B', then B' R = A' Q.

    Args:
        anchors: A, shape (m, p), finite; or gradients of m examples, whose entries are those of their parameters side by side.
        dim: rows k, 1..min(m, p).
        iterations: >= 1.
        generator: of the CPU, for the start; None for the operating system's.

    Returns:
        Basis B, shape (k, p).

    Raises:
        ValueError: ``dim`` or ``iterations`` outside its range.

    Source: GEP, Algorithm 1, lines 3 to 7 (gep.lem3.1, gep.power).

    Example: anchors of rank 1 give their direction after one iteration.
        >>> import torch
        >>> from dptheory.training.mechanisms import power_iteration
        >>> anchors = torch.outer(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 0.6, 0.8]))
        >>> power_iteration(anchors, dim=1, iterations=1, generator=torch.Generator().manual_seed(0)).abs()
        tensor([[0.0000, 0.6000, 0.8000]])
    """
    rows = anchors if isinstance(anchors, PerExampleGradients) else as_gradients([anchors])
    entries = sum(shape.numel() for shape in rows.shapes)
    _validate.integer("dim", dim, 1, min(rows.examples, entries))
    basis = normal((dim, entries), generator).to(rows.parts[0].device, rows.dtype)
    for _ in range(_validate.integer("iterations", iterations, 1)):
        # without it singular values are squared, too much for float32
        left = torch.linalg.qr(rows.project(split_vectors(basis, rows.shapes))).Q
        sums = torch.cat([as_rows(part) for part in rows.weighted_sums(left)], dim=1)
        basis = orthonormal(sums)
    return basis


def orthonormal(rows: torch.Tensor) -> torch.Tensor:
    """Orthonormal rows that span what the given ones do, shape (k, p), k <= p.

    By the Cholesky factor of their products in float64, twice, which takes a third of the time of a QR decomposition of long rows;
    where rows are so nearly dependent that it would lose digits, by that.
    """
    found = rows
    for _ in range(2):
        wide = found.double()
        lower, failed = torch.linalg.cholesky_ex(wide @ wide.T)
        ends = lower.diagonal()
        if int(failed) or float(ends.min()) < _LEAST_RATIO * float(ends.max()):
            exact: torch.Tensor = torch.linalg.qr(rows.T).Q.T
            return exact
        inverse = torch.linalg.solve_triangular(lower, torch.eye(len(lower)).to(lower), upper=False)
        found = inverse.to(rows.dtype) @ found
    return found


def split_vectors(vectors: torch.Tensor, shapes: Sequence[torch.Size]) -> Tensors:
    """Vectors over the entries of several parameters, shape (k, p), cut into those of each: shapes (k, *shape)."""
    pieces = torch.split(vectors, [shape.numel() for shape in shapes], dim=1)
    return [piece.reshape(-1, *shape) for piece, shape in zip(pieces, shapes, strict=True)]


def off_subspace(vector: torch.Tensor, basis: torch.Tensor) -> torch.Tensor:
    r"""What of a vector v is orthogonal to the rows of B, in float64: :math:`(1 - B^\top B)^2 v`.

    Where the rows are orthonormal up to rounding, :math:`|B B^\top - 1|\le\delta`, each pass leaves delta of what was inside,
    two leave delta^2, about 1e-12 for a basis in float32, and float64 rounding adds about 1e-15 of the vector.

    Args:
        vector: v, shape (p,).
        basis: B, shape (k, p).

    Returns:
        Shape (p,), in the type of ``vector``.

    Source: new, on GEP, Theorem 3.1 (gep.split).

    Example: of a vector in the plane the part along the first axis goes.
        >>> import torch
        >>> from dptheory.training.mechanisms._subspace import off_subspace
        >>> off_subspace(torch.tensor([3.0, 4.0]), torch.tensor([[1.0, 0.0]]))
        tensor([0., 4.])
    """
    size = max(1, _WIDENED // len(basis))
    parts = torch.split(basis, size, dim=1) if size < basis.shape[1] else [basis.double()]
    pieces = list(torch.split(vector.double(), size, dim=-1))
    for _ in range(2):
        inside = torch.stack([v @ b.double().T for v, b in zip(pieces, parts, strict=True)]).sum(0)
        pieces = [v - inside @ b.double() for v, b in zip(pieces, parts, strict=True)]
    return torch.cat(pieces, dim=-1).to(vector.dtype)


def shared_dimensions(sizes: Sequence[int], subspace_dim: int) -> list[int]:
    r"""The quota k shared out by the square roots of the sizes: :math:`k_g = k\sqrt{p_g}/\sum_h\sqrt{p_h}`, rounded, in 1..p_g.

    Args:
        sizes: entries p_g of the groups, each >= 1.
        subspace_dim: k, >= 1.

    Returns:
        k_g for every group; by rounding their sum may differ from k.

    Source: GEP, section 4 (gep.groups).

    Example: the quota goes by the square roots of the sizes, and a small group gets no more than it can hold.
        >>> from dptheory.training.mechanisms import shared_dimensions
        >>> shared_dimensions([100, 900, 4], 40)
        [10, 29, 2]
    """
    roots = [math.sqrt(size) for size in sizes]
    return [min(size, max(1, round(subspace_dim * root / sum(roots)))) for size, root in zip(sizes, roots, strict=True)]
