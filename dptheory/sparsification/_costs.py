"""Bytes sent under a mask that several rounds share or a rate that cools, and multiplications of projected DP-SGD."""

from dataclasses import dataclass
from typing import Literal

from dptheory import _validate

_MAX_EPOCHS = 10**9


def freeze_rate(*, epoch: int, final_drop_rate: float, cooling_epochs: int) -> float:
    r"""Freeze rate of an epoch under gradual cooling, r* min(e / (e* - 1), 1).

    Args:
        epoch: e = 0, 1, ..., 1e9.
        final_drop_rate: r* in [0, 1].
        cooling_epochs: e*, 2..1e9; the rate reaches r* in epoch e* - 1. For e* = 1 the formula is 0/0.

    Returns:
        The rate, in [0, final_drop_rate].

    Source: RF, Algorithm 1, and RS, Algorithm 1 with e* = E (rf.density).

    Example: RF's CNN cools over 40 epochs to 0.7: nothing is frozen at first, half of it in the middle.
        >>> from dptheory.sparsification import freeze_rate
        >>> [round(freeze_rate(epoch=epoch, final_drop_rate=0.7, cooling_epochs=40), 3) for epoch in (0, 20, 39, 50)]
        [0.0, 0.359, 0.7, 0.7]
    """
    epoch = _validate.integer("epoch", epoch, 0, _MAX_EPOCHS)
    final_drop_rate = _validate.real("final_drop_rate", final_drop_rate, 0.0, 1.0)
    last = _validate.integer("cooling_epochs", cooling_epochs, 2, _MAX_EPOCHS) - 1
    return final_drop_rate if epoch >= last else final_drop_rate * (epoch / last)


def total_density(
    *, final_drop_rate: float, cooling_epochs: int, epochs: int, baseline_epochs: int | None = None
) -> float:
    r"""Gradient entries that a run with gradual cooling leaves non-zero, over those of a dense run.

    .. math:: \frac1{E_0}\sum_{e<E}(1-r(e)) = \frac{E - r^*(e^*/2 + E - e^*)}{E_0}\quad\text{for } E \ge e^*

    With e* = E = E_0 this is 1 - r*/2. Every epoch is taken to have the same number of steps.

    Args:
        final_drop_rate: r* in [0, 1].
        cooling_epochs: e*, 2..1e9.
        epochs: E, 1..1e9, length of the sparse run.
        baseline_epochs: E_0, 1..1e9, length of the dense run that it is held against; by default E.

    Returns:
        The density; above 1 only where E > E_0.

    Source: RF, section 4 and Tables 2 and 9 (rf.density, rf.sparsity70).

    Example: RF's CNN, Table 5: 40 epochs that cool to 0.7 leave the printed 0.65.
        >>> from dptheory.sparsification import total_density
        >>> round(total_density(final_drop_rate=0.7, cooling_epochs=40, epochs=40), 4)
        0.65
    """
    final_drop_rate = _validate.real("final_drop_rate", final_drop_rate, 0.0, 1.0)
    cooling = _validate.integer("cooling_epochs", cooling_epochs, 2, _MAX_EPOCHS)
    epochs = _validate.integer("epochs", epochs, 1, _MAX_EPOCHS)
    baseline = epochs if baseline_epochs is None else baseline_epochs
    baseline = _validate.integer("baseline_epochs", baseline, 1, _MAX_EPOCHS)
    ramp = min(epochs, cooling)
    frozen_epochs = ramp * (ramp - 1) / (2 * (cooling - 1)) + (epochs - ramp)
    return (epochs - final_drop_rate * frozen_epochs) / baseline


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
