"""The subspace of the embedding, as a matrix or by the anchors that span it, with what a step asks of it."""

from typing import Protocol

import torch

from dptheory.training._randomness import normal
from dptheory.training.mechanisms._subspace import off_subspace, power_iteration, split_vectors
from dptheory.training.per_example import Formed, PerExampleGradients, as_rows

_MOST_AMPLIFIED = 1e3
"""|C| |A| up to which a basis C A is left as coefficients and anchors: float64 then leaves 1e-10 in what has to be 0 or 1."""


class Span(Protocol):
    """Orthonormal rows B, shape (k, p), by what is asked of them."""

    def coordinates(self, gradients: PerExampleGradients) -> torch.Tensor:
        """B g_i for the gradients of a batch, shape (n, k)."""

    def combined(self, coordinates: torch.Tensor) -> torch.Tensor:
        """B^T c, shape (p,)."""

    def off(self, vector: torch.Tensor) -> torch.Tensor:
        """What of a vector is orthogonal to the rows, up to 1e-10 of the vector, in its type."""

    def rest(self, vector: torch.Tensor) -> torch.Tensor:
        """The same up to the rounding of the vector's type."""

    def in_float64(self) -> "Span":
        """The same, for several vectors in float64."""

    def matrix(self) -> torch.Tensor:
        """B, in the type of the anchors."""


class Matrix:
    """The rows themselves."""

    def __init__(self, rows: torch.Tensor) -> None:
        self._rows = rows

    def coordinates(self, gradients: PerExampleGradients) -> torch.Tensor:
        return gradients.project(split_vectors(self._rows, gradients.shapes))

    def combined(self, coordinates: torch.Tensor) -> torch.Tensor:
        return coordinates @ self._rows

    def off(self, vector: torch.Tensor) -> torch.Tensor:
        return off_subspace(vector, self._rows)

    def rest(self, vector: torch.Tensor) -> torch.Tensor:
        return vector - (vector @ self._rows.T) @ self._rows

    def in_float64(self) -> "Matrix":
        return Matrix(self._rows.double())

    def matrix(self) -> torch.Tensor:
        return self._rows


class OfAnchors:
    r"""B = C A for the gradients A of m anchors, which are left as factors: :math:`B g_i = C (A g_i)`.

    Inner products of two gradients of a dense layer are products of small matrices, where a product with a row of B costs a forward
    pass. All is in float64: what B is does not differ from use to use by the rounding of float32, so that the square norm of a
    residual stays that of the gradient less that of the embedding, which is what the clip of the residual rests on.

    Args:
        coefficients: C, shape (k, m), in float64.
        anchors: A.
    """

    def __init__(self, coefficients: torch.Tensor, anchors: PerExampleGradients) -> None:
        self._coefficients, self._anchors, self._dtype = coefficients, anchors.in_float64(), anchors.dtype

    def coordinates(self, gradients: PerExampleGradients) -> torch.Tensor:
        products = gradients.inner_products(self._anchors)
        if products is None:  # those of a batch are formed where a loop has looked at them
            return gradients.project(split_vectors(self.matrix(), gradients.shapes))
        return products @ self._coefficients.T

    def combined(self, coordinates: torch.Tensor) -> torch.Tensor:
        parts = self._anchors.weighted_sum(coordinates.double() @ self._coefficients)
        return torch.cat([part.flatten() for part in parts])

    def off(self, vector: torch.Tensor) -> torch.Tensor:
        wide = vector.double()
        inside = self._anchors.project(split_vectors(wide[None], self._anchors.shapes))[:, 0]
        return (wide - self.combined(self._coefficients @ inside)).to(vector.dtype)

    def rest(self, vector: torch.Tensor) -> torch.Tensor:
        return self.off(vector)

    def in_float64(self) -> "OfAnchors":
        return self

    def matrix(self) -> torch.Tensor:
        sums = self._anchors.weighted_sums(self._coefficients.T)
        return torch.cat([as_rows(part) for part in sums], dim=1).to(self._dtype)


def principal_span(
    anchors: PerExampleGradients, *, dim: int, iterations: int, generator: torch.Generator | None
) -> Span:
    """:func:`power_iteration` on anchor gradients, by their inner products where these cost less.

    Args:
        anchors, dim, iterations, generator: as for :func:`power_iteration`.
    """
    found = _by_inner_products(anchors, dim, iterations, generator) if _cheap(anchors, dim) else None
    if found is not None:
        return found
    return Matrix(power_iteration(anchors, dim=dim, iterations=iterations, generator=generator).contiguous())


def _cheap(anchors: PerExampleGradients, dim: int) -> bool:
    """Whether the products of formed gradients with those of all anchors cost less than with the rows of a basis."""
    formed = sum(part.entries for part in anchors.parts if isinstance(part, Formed))
    return formed * anchors.examples <= dim * sum(part.entries for part in anchors.parts)


def _by_inner_products(
    anchors: PerExampleGradients, dim: int, iterations: int, generator: torch.Generator | None
) -> OfAnchors | None:
    """The power iteration in coefficients of the anchors; None where float64 would not do, or gradients would have to be formed."""
    gram = anchors.inner_products(anchors)
    if gram is None or not bool(torch.isfinite(gram).all()):
        return None
    products = _started(gram, dim, generator)
    for _ in range(iterations):
        rows = torch.linalg.qr(products).Q.T
        for _ in range(2):
            lower, failed = torch.linalg.cholesky_ex(rows @ gram @ rows.T)
            if int(failed):
                return None
            rows = torch.linalg.solve_triangular(lower, rows, upper=False)
        products = gram @ rows.T
    amplified = float(rows.norm()) * float(gram.trace().sqrt())
    return OfAnchors(rows, anchors) if amplified <= _MOST_AMPLIFIED else None  # also where it is no number


def _started(gram: torch.Tensor, dim: int, generator: torch.Generator | None) -> torch.Tensor:
    """A B' for a random start B, shape (m, dim): its columns are normal with covariance A A', and are drawn as such."""
    values, vectors = torch.linalg.eigh(gram)
    start = normal((len(gram), dim), generator).to(gram)
    found: torch.Tensor = vectors @ (values.clamp_min(0.0).sqrt()[:, None] * start)
    return found
