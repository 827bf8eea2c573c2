"""Gradual cooling: the freeze rate of each epoch, and the share of the gradient that a run sends in all."""

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
