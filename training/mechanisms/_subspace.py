"""The subspace of the embedding: anchor gradients, their first principal vectors, and how many each group gets."""

import copy
import math
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import nn

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training import _argument_ranges
from dptheory.training._randomness import normal
from dptheory.training._streams import LABELS, Stream
from dptheory.training.per_example import (
    FACTORS,
    Formed,
    HookedModule,
    PerExampleGradients,
    Tensors,
    as_gradients,
    as_rows,
)

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
        """All that changes from call to call: nothing where no more is said."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""
        return


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
    two leave delta^2, about 1e-12 for a basis in float32, and float64 rounding adds about 1e-15 of the vector, whose type it gets.

    Source: new, on GEP, Theorem 3.1 (gep.split).
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


# --- The subspace of the embedding, as a matrix or by the anchors that span it, with what a step asks of it


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
    """:func:`power_iteration` on anchor gradients, by their inner products where these cost less."""
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


_OTHERWISE_IN_EVAL = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._NormBase)


class AnchorGradients:
    r"""Per-sample gradients of a model on auxiliary images; without labels, these are drawn afresh at every call.

    :math:`\nabla\ell(f(x_j), y_j)` for images x_j and labels y_j, random ones unless they are given, l the
    cross-entropy. They are taken at the model's present weights. Only trainable parameters count, in the order of
    ``model.parameters()``. A call returns the gradients of all m images, as factors where the layer has them.

    Args:
        model: the plain model, before ``make_private``: Opacus's hooks would see these images too.
        pixels: the images, shape (m, ...), m >= 1; nothing about them is protected.
        classes: number of classes, 2..1e9.
        seed: of the labels, which are public; 0 to 2^64 - 1.
        chunk: images at a time, 1..1e9: with more than that, gradients are formed, and memory is that of all of them and of the
            pass of one chunk.
        labels: int64, shape (m,), 0 to ``classes`` - 1, in place of random ones; nothing about them is protected either.

    Raises:
        ValueError: an argument outside its range, pixels that are not images, or unknown labels.

    Source: GEP, section 3.1 (gep.random_labels); true labels: Appendix C (gep.table5).

    Example: twenty images give twenty gradients of each parameter.
        >>> import torch
        >>> from dptheory.training.mechanisms import AnchorGradients
        >>> anchors = AnchorGradients(torch.nn.Linear(6, 2), torch.ones(20, 6), classes=2, seed=0)
        >>> [tuple(gradients.shape) for gradients in anchors()]
        [(20, 2, 6), (20, 2)]
    """

    def __init__(
        self,
        model: nn.Module,
        pixels: torch.Tensor,
        *,
        classes: int,
        seed: int,
        chunk: int = 256,
        labels: torch.Tensor | None = None,
    ) -> None:
        _validate.instance("model", model, nn.Module)
        if not isinstance(pixels, torch.Tensor) or pixels.ndim < 2 or not len(pixels):
            raise ArgumentError("pixels", "be a tensor with at least one auxiliary image", pixels)
        self._model = model
        self._copy = HookedModule(_recording(copy.deepcopy(model)), mode=FACTORS, loss_reduction="sum", strict=False)
        self._pixels = pixels
        self._classes = _validate.integer("classes", classes, 2, 10**9)
        self._stream = Stream(_argument_ranges.stream("seed", seed), LABELS)
        self._chunk = _validate.integer("chunk", chunk, 1, 10**9)
        self._labels = None if labels is None else _whole_labels(labels, len(pixels), self._classes)

    def __call__(self) -> PerExampleGradients:
        own = dict(self._copy._module.named_parameters())
        for name, p in self._model.named_parameters():
            own[name].data.copy_(p.data)
            own[name].requires_grad_(p.requires_grad)
        device = next(iter(own.values())).device
        labels = self._labels
        if labels is None:
            labels = torch.randint(self._classes, (len(self._pixels),), generator=self._stream.on("cpu"))
        parts = zip(torch.split(self._pixels, self._chunk), torch.split(labels, self._chunk), strict=True)
        found = [self._gradients(images.to(device), known.to(device)) for images, known in parts]
        if len(found) == 1:
            return found[0]
        return as_gradients([torch.cat(one) for one in zip(*found, strict=True)])

    def _gradients(self, images: torch.Tensor, labels: torch.Tensor) -> PerExampleGradients:
        with torch.enable_grad():
            torch.autograd.backward(nn.functional.cross_entropy(self._copy(images), labels, reduction="sum"))
        trained: list[Any] = [p for p in self._copy.parameters() if p.requires_grad]
        found = as_gradients([p.grad_sample for p in trained])
        self._copy.zero_grad(set_to_none=True)
        return found

    def streams(self) -> list[Stream]:
        """The random numbers of the labels."""
        return [self._stream]

    def state_dict(self) -> dict[str, Any]:
        """State of the labels in a simulation; otherwise they are drawn afresh."""
        return {"generator": self._stream.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""
        self._stream.load(state["generator"])


def _whole_labels(labels: torch.Tensor, count: int, classes: int) -> torch.Tensor:
    whole = isinstance(labels, torch.Tensor) and labels.dtype == torch.int64 and labels.shape == (count,)
    if not whole or bool(((labels < 0) | (labels >= classes)).any()):
        raise ArgumentError(
            "labels", f"be an int64 tensor of shape ({count},) with entries in 0..{classes - 1}", labels
        )
    return labels


def _recording(model: nn.Module) -> nn.Module:
    """In training mode, in which layers leave per-example gradients, but for those that do something else in ``eval()``."""
    for module in model.modules():
        if not isinstance(module, _OTHERWISE_IN_EVAL):
            module.training = True
    return model
