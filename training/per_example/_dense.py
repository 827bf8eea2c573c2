r"""Per-example gradients of a dense layer's weight as factors: inputs and output gradients.

The gradient of example i is :math:`\sum_t b_{it} a_{it}^\top`, t over a sequence or space where there is one.
"""

import functools

import torch

from dptheory.training.per_example._formed import (
    LARGE,
    SMALL,
    Formed,
    blocks_of_squares,
    formed_projections,
    formed_squares,
    formed_sums,
    in_blocks,
    square_sums,
)
from dptheory.training.per_example._representation import (
    CHUNK,
    Representation,
    Tensors,
    at_once,
    filled,
    widened,
)

_BLOCK = 1 << 11
"""Inputs whose products are added up in float32: 8,192 of them rounded away 1.1e-5 on a processor that adds one after the other."""
_CANCELLED = 1 / 16
"""A square norm below this share of what independent terms have is made again from the formed gradient."""
_LOST = 1e-6
"""Share of the norm that places may have whose squares have no places in float32."""
_TINY = 1e-10
"""Share of the whole square norm below which the kept part of it is made again: float32 may have lost it."""


class Dense(Representation):
    r"""Factors of the weight of a dense layer, shape (out, in).

    Without a sequence (T = 1), with :math:`g = b a^\top`, everything is exact algebra of small matrices:
    :math:`|g|^2 = |b|^2|a|^2`, :math:`|M\odot g|^2 = (b\odot b)^\top M (a\odot a)`, :math:`\langle V, g\rangle = b^\top V a`.
    With one, norms of large weights come from the Gram matrices,
    :math:`|g|^2 = \sum_{s,t}\langle b_s, b_t\rangle\langle a_s, a_t\rangle`, which a long sequence makes larger than the gradient:
    norms of small weights, masked norms and projections come from gradients that are formed in chunks of examples.

    Args:
        output_gradients: b, shape (n, T, out).
        inputs: a, shape (n, T, in).

    Example: one example without a sequence, b = (1, 2), a = (3, 4).
        >>> import torch
        >>> from dptheory.training.per_example import Dense
        >>> weight = Dense(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[3.0, 4.0]]]))
        >>> weight.square_norms(), weight.formed()
        (tensor([125.], dtype=torch.float64), tensor([[[3., 4.],
                 [6., 8.]]]))
    """

    def __init__(self, output_gradients: torch.Tensor, inputs: torch.Tensor) -> None:
        self._pieces = [(output_gradients, inputs)]
        self._describe()

    def _describe(self) -> None:
        b, a = self._pieces[0]
        same = {one.dtype for one in (widened(b), widened(a))}
        self.shape = torch.Size((len(b), b.shape[2], a.shape[2]))
        self.dtype = same.pop() if len(same) == 1 else torch.float64
        self.computed_in = b.dtype

    @functools.cached_property
    def _b(self) -> torch.Tensor:
        return _together([b for b, _ in self._pieces]).to(self.dtype)

    @functools.cached_property
    def _a(self) -> torch.Tensor:
        return _together([a for _, a in self._pieces]).to(self.dtype)

    @property
    def length(self) -> int:
        """T, the length of the sequence."""
        return sum(b.shape[1] for b, _ in self._pieces)

    def joined(self, other: "Dense") -> "Dense":
        """Both uses of a weight that is used twice: the sequences one behind the other."""
        found = object.__new__(Dense)
        found._pieces = self._pieces + other._pieces
        found._describe()
        return found

    def with_rows(self, rows: int) -> "Dense":
        if rows <= len(self):
            return self
        found = object.__new__(Dense)
        found._pieces = [(filled(b, rows), filled(a, rows)) for b, a in self._pieces]
        found._describe()
        return found

    def rests_on(self) -> Tensors:
        return [one for piece in self._pieces for one in piece]

    def settled(self) -> Representation:
        return (
            Formed(self.formed(), computed_in=self.computed_in)
            if small(self.length, self.shape[1], self.shape[2])
            else self
        )

    @property
    def device(self) -> torch.device:
        return self._pieces[0][0].device

    def square_norms(self, mask: torch.Tensor | None = None) -> torch.Tensor:
        if self.length == 1:
            b, a = self._b[:, 0], self._a[:, 0]
            return square_sums(b) * square_sums(a) if mask is None else self._masked(b, a, mask)
        if mask is None and not small(self.length, self.shape[1], self.shape[2]):
            return self._gram()
        return formed_squares(self, mask)

    def _masked(self, b: torch.Tensor, a: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        (out, inn), of_b = self.shape[1:], b.square()
        kept, ones = mask.to(self.dtype).T, a.new_ones(inn)
        products, of_a = a.new_empty(len(a), out), a.new_empty(len(a))
        found = a.new_zeros(len(a), dtype=torch.float64)
        for rows, squares in blocks_of_squares(a):
            torch.mv(squares, ones, out=of_a[rows])
            for start in range(0, inn, _BLOCK):
                block = slice(start, start + _BLOCK)
                torch.mm(squares[:, block], kept[block], out=products[rows])
                if inn > _BLOCK:
                    found[rows] += products[rows].mul_(of_b[rows]).sum(1)
        if inn <= _BLOCK:
            found = products.mul_(of_b).sum(1).double()
        whole = of_b.sum(1).double() * of_a
        lost = ~((whole >= SMALL) & (whole <= LARGE) & (found > _TINY * whole))  # NaN too
        return self._made_again(found, mask, lost)

    def _gram(self) -> torch.Tensor:
        of_b, of_a = _products(self._b), _products(self._a)
        found = (of_b * of_a).sum((1, 2)).double()
        squares = [one.diagonal(0, 1, 2).double() for one in (of_b, of_a)]
        # Squares that float32 takes for 0 may stand beside large ones: what they make of the norm must not be lost with them.
        tiny = (squares[0] < SMALL) | (squares[1] < SMALL)
        if tiny.any():
            for own, rows in zip(squares, (self._b, self._a), strict=True):
                own[tiny] = square_sums(rows[tiny])
        lengths = (squares[0] * squares[1]).sqrt()  # of each place
        cancelled = ~(found > _CANCELLED / max(self.length, 1) * lengths.sum(1).square())
        lost = lengths.where(tiny, 0.0).sum(1) > _LOST * found.clamp_min(0.0).sqrt()
        return self._made_again(found, None, cancelled | lost)

    def _made_again(self, found: torch.Tensor, mask: torch.Tensor | None, doubtful: torch.Tensor) -> torch.Tensor:
        """Square norms from the formed gradient, in float64, of the examples whose sums rounding may have spoilt."""
        for i in doubtful.nonzero().flatten().tolist():
            gradient = self._b[i].double().T @ self._a[i].double()
            found[i] = (gradient if mask is None else gradient * mask).square().sum()
        return found

    def weighted_sum(self, weights: torch.Tensor) -> torch.Tensor:
        def of(block: slice) -> torch.Tensor:
            scaled = self._b[block] * weights[block].to(self.dtype)[:, None, None]
            return scaled.flatten(0, 1).T @ self._a[block].flatten(0, 1)

        return in_blocks(of, len(self))

    def weighted_sums(self, weights: torch.Tensor) -> torch.Tensor:
        if self.length > 1:
            return super().weighted_sums(weights) if weights.shape[1] < 2 else formed_sums(self, weights)

        def of(block: slice) -> torch.Tensor:
            scaled = self._b[block, 0, None, :] * weights[block].to(self.dtype)[:, :, None]
            return scaled.flatten(1).T @ self._a[block, 0]

        return in_blocks(of, len(self)).view(-1, *self.shape[1:])

    def formed(self, examples: slice = slice(None)) -> torch.Tensor:
        return torch.bmm(self._b[examples].mT, self._a[examples])

    def cleared(self, left_out: torch.Tensor) -> "Dense":
        # both factors: 0 times NaN is NaN
        return Dense(
            self._b.masked_fill(left_out[:, None, None], 0.0), self._a.masked_fill(left_out[:, None, None], 0.0)
        )

    def inner_products(self, other: Representation) -> torch.Tensor | None:
        if not isinstance(other, Dense) or self.length > 1 or other.length > 1:
            return None
        pairs = ((self._b, other._b), (self._a, other._a))
        of_b, of_a = (one[:, 0].double() @ two[:, 0].double().T for one, two in pairs)
        return of_b.mul_(of_a)

    def in_float64(self) -> "Dense":
        return Dense(self._b.double(), self._a.double())

    def project(self, directions: torch.Tensor) -> torch.Tensor:
        vectors = directions.to(self.dtype)
        n, out, inn = self.shape
        if self.length > 1:  # forming costs less than a product for each direction and place
            return formed_projections(self, vectors)
        b, a = self._b[:, 0], self._a[:, 0]
        if out > inn:  # the smaller side remains in between
            b, a, vectors = a, b, vectors.mT
        count = max(1, at_once(b.device, CHUNK) // max(n * b.shape[1], 1))
        parts = [
            # not as a product of small matrices for each example, which takes four times as long
            (a @ v.flatten(0, 1).T).view(n, len(v), b.shape[1]).mul_(b[:, None]).sum(2)
            for v in torch.split(vectors, count)
        ]
        return torch.cat(parts, dim=1)


def _products(rows: torch.Tensor) -> torch.Tensor:
    """Inner products of the places of each example, shape (n, T, T), of rows of shape (n, T, entries)."""
    first, *others = torch.split(rows, _BLOCK, 2)
    found = torch.bmm(first, first.mT)
    for part in others:
        found += torch.bmm(part, part.mT)
    return found


def small(length: int, out: int, wide: int) -> bool:
    """Whether the gradient of an example is formed: the one place that decides it, for dense layers and convolutions.

    Forming costs length * wide * out products an example, and then norms and sums, masked or not, cost next to nothing. Factors
    have length * (wide + out) entries; their Gram matrices cost length^2 * (wide + out) products, and a weighted sum as many as
    forming. So gradients are formed up to twice the size of the factors. Without a sequence, factors cost least by far.

    Args:
        wide: inputs below the weight: those of a dense layer, or of a kernel.
    """
    return length > 1 and wide * out <= 2 * length * (wide + out)


def _together(pieces: Tensors) -> torch.Tensor:
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)
