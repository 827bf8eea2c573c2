"""Bytes sent under a mask that several rounds share, and multiplications of projected DP-SGD."""

from dataclasses import dataclass
from typing import Literal

from dptheory import _validate

Index = Literal["seed", "kept", "dropped", "bitmap"]

_MAX = 10**12
_INDEX = ("seed", "kept", "dropped", "bitmap")
_SEED_BITS = 128


@dataclass(frozen=True, kw_only=True)
class Communication:
    """Bytes that one client sends while one mask lasts.

    Attributes:
        dense: without a mask.
        values: the entries kept, all rounds together.
        index: what tells the receiver the mask, once.
    """

    dense: int
    values: int
    index: int

    @property
    def ratio(self) -> float:
        """Bytes with the mask over bytes without."""
        return (self.values + self.index) / self.dense


def communication(dim: int, keep: int, *, rounds: int, index: Index = "seed", value_bits: int = 32) -> Communication:
    """Bytes sent in ``rounds`` rounds that share one mask with keep ones.

    The ratio is x = keep/dim plus the index cost: 128 bits for a shared ``"seed"``, ceil(log2 dim) bits for each entry
    ``"kept"`` or each entry ``"dropped"``, one bit an entry for a ``"bitmap"``. With ``"kept"`` the ratio is
    x (1 + ceil(log2 dim) / (value_bits rounds)). All bits are rounded up to whole bytes, once a round.

    Args:
        dim, keep: 1 <= keep <= dim <= 1e12.
        rounds: rounds of communication under one mask, 1..1e12.
        index: how the mask is told.
        value_bits: bits of one value, 1..64.

    Returns:
        Bytes of the dense gradients, of the values sent and of the index; ``.ratio`` is sent over dense.

    Source: RS, section 5, and RF, section 4 (rs.communication).

    Example: RF's CNN with 70 % dropped: a seed costs nothing, positions cost almost two thirds of the values.
        >>> from dptheory.sparsification import communication
        >>> [round(communication(550_000, 165_000, rounds=1, index=index).ratio, 4) for index in ("seed", "kept")]
        [0.3, 0.4875]
    """
    dim = _validate.integer("dim", dim, 1, _MAX)
    keep = _validate.integer("keep", keep, 1, dim)
    rounds = _validate.integer("rounds", rounds, 1, _MAX)
    value_bits = _validate.integer("value_bits", value_bits, 1, 64)
    _validate.choice("index", index, _INDEX)
    width = (dim - 1).bit_length()
    bits = {"seed": _SEED_BITS, "kept": keep * width, "dropped": (dim - keep) * width, "bitmap": dim}[index]
    return Communication(
        dense=rounds * _bytes(dim * value_bits), values=rounds * _bytes(keep * value_bits), index=_bytes(bits)
    )


@dataclass(frozen=True, kw_only=True)
class Operations:
    """Multiplications of one refresh of the subspace and one projection of the gradients.

    Attributes:
        power_method: W (W'V), 2 d b s each power iteration; orthogonalisation is not counted.
        projection: V'X, d b n.
    """

    power_method: int
    projection: int

    @property
    def total(self) -> int:
        """Both together."""
        return self.power_method + self.projection


def projection_operations(
    *, dim: int, subspace_dim: int, anchors: int, gradient_count: int, iterations: int = 1
) -> Operations:
    """Multiplications of projected DP-SGD with dense matrices; ``dim`` is the number of entries that are not frozen.

    Args:
        dim: rows d of all matrices, 1..1e12.
        subspace_dim: b, vectors that span the subspace, >= 1.
        anchors: s, sample gradients from which it is found, >= 1.
        gradient_count: n, gradients projected, >= 1.
        iterations: >= 1.

    Returns:
        Multiplications of the power method and of the projection.

    Source: RF, section 4, "Advantages of sparsity" (rf.cost).

    Example: both are proportional to dim, so that a mask that keeps 30 % saves 70 %.
        >>> from dptheory.sparsification import projection_operations
        >>> [projection_operations(dim=dim, subspace_dim=1000, anchors=2000, gradient_count=1000).total for dim in (1000, 300)]
        [5000000000, 1500000000]
    """
    dim = _validate.integer("dim", dim, 1, _MAX)
    subspace_dim = _validate.integer("subspace_dim", subspace_dim, 1, _MAX)
    anchors = _validate.integer("anchors", anchors, 1, _MAX)
    gradient_count = _validate.integer("gradient_count", gradient_count, 1, _MAX)
    iterations = _validate.integer("iterations", iterations, 1, _MAX)
    return Operations(
        power_method=2 * dim * subspace_dim * anchors * iterations, projection=dim * subspace_dim * gradient_count
    )


def _bytes(bits: int) -> int:
    return -(-bits // 8)
