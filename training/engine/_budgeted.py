"""``make_private`` for an epsilon: the noise that a number of passes needs, and no step beyond them."""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from opacus import GradSampleModule
from torch import nn
from torch.utils.data import DataLoader

from dptheory import _validate, privacy
from dptheory.errors import ArgumentError
from dptheory.training.engine._accountant import PrivacyAccountant
from dptheory.training.engine._optimizer import LARGEST, SMALLEST, MechanismOptimizer
from dptheory.training.engine._private import make_private, restored_after_errors
from dptheory.training.mechanisms import Mechanism
from dptheory.training.per_example import FACTORS

_HALVINGS = 60
"""Of an interval of 69 on the log scale: to the last digit."""
_LARGEST_BUDGET = 1e4
"""Of a composition; a larger one gets the noise of this one."""


def make_private_with_epsilon(
    *,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    data_loader: DataLoader[Any],
    mechanism: Mechanism,
    target_epsilon: float,
    target_delta: float,
    epochs: int,
    max_grad_norm: float,
    grad_sample_mode: str = FACTORS,
    loss_reduction: str = "mean",
    noise_generator: torch.Generator | None = None,
    secure: bool = False,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
    steps_per_epoch: int | None = None,
    participations: int | None = None,
    expected_batch_size: float | None = None,
    probe: bool = True,
    views: int = 1,
    augmentation: Callable[[Any], Any] | None = None,
) -> tuple[GradSampleModule, MechanismOptimizer, DataLoader[Any]]:
    """:func:`make_private` with the least noise for which so many passes over the loader keep within a budget.

    The budget holds: a step that would exceed it raises :class:`BudgetError`, and nothing of it is released
    (``optimizer.accountant.limit`` sets another one). What secret masks amplify is not counted in the choice of the noise.

    Args:
        module, optimizer, data_loader, mechanism, max_grad_norm, grad_sample_mode: as for :func:`make_private`.
        loss_reduction, noise_generator, secure, sampling, sampling_rate, steps_per_epoch, participations: as there.
        expected_batch_size, probe, views, augmentation: as there.
        target_epsilon: epsilon after the last pass, > 0; above 1e4 it gets the noise of 1e4.
        target_delta: in [1e-30, 0.99].
        epochs: passes over the loader that is returned, >= 1.

    Returns:
        As :func:`make_private`; the noise is ``optimizer.noise_multiplier``.

    Raises:
        ValueError: as :func:`make_private`; a budget that no noise keeps; a mechanism that is not private, or that spends on
            the choice of entries too, for which one number of the noise does not say what it spends.
        TypeError: a mechanism that is none.

    Example: two passes of two batches within epsilon 1.
        >>> import torch
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> from dptheory.training.engine import make_private_with_epsilon
        >>> from dptheory.training.mechanisms import DpSgd
        >>> model = torch.nn.Linear(3, 2)
        >>> data = TensorDataset(torch.rand(40, 3), torch.zeros(40, dtype=torch.long))
        >>> private, optimizer, loader = make_private_with_epsilon(module=model, mechanism=DpSgd(), max_grad_norm=1.0,
        ...     optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=DataLoader(data, batch_size=20),
        ...     target_epsilon=1.0, target_delta=1e-5, epochs=2)
        >>> round(optimizer.noise_multiplier, 1)
        4.1
    """
    epsilon = _validate.real("target_epsilon", target_epsilon, 0.0, ends="()")
    delta = _validate.real("target_delta", target_delta, *privacy.DELTA)
    passes = _validate.integer("epochs", epochs, 1)
    _validate.instance("module", module, nn.Module)
    with restored_after_errors(module):
        private, wrapped, batches = make_private(
            module=module,
            optimizer=optimizer,
            data_loader=data_loader,
            mechanism=mechanism,
            noise_multiplier=1.0,
            max_grad_norm=max_grad_norm,
            grad_sample_mode=grad_sample_mode,
            loss_reduction=loss_reduction,
            noise_generator=noise_generator,
            secure=secure,
            sampling=sampling,
            sampling_rate=sampling_rate,
            steps_per_epoch=steps_per_epoch,
            participations=participations,
            expected_batch_size=expected_batch_size,
            probe=probe,
            views=views,
            augmentation=augmentation,
        )
        try:
            wrapped.noise_multiplier = _noise(mechanism, wrapped, epsilon, delta, steps=passes * len(batches))
        except ValueError:
            mechanism.leave()  # for a call that does not fail
            raise
    wrapped.accountant.limit(epsilon=epsilon, delta=delta)
    return private, wrapped, batches


def _noise(mechanism: Mechanism, optimizer: MechanismOptimizer, epsilon: float, delta: float, *, steps: int) -> float:
    """The least noise multiplier with which so many steps keep the budget.

    Raises:
        ValueError: there is none, or a step spends on the choice of entries too.
    """
    try:
        needed = _needed(epsilon, delta, optimizer.accountant, steps)
    except ValueError as error:
        raise ArgumentError(
            "target_epsilon", f"be a budget that {steps} steps can keep", epsilon, then=f": {error}"
        ) from None
    return _noise_of_a_step(mechanism, [p.detach() for p in optimizer.params], needed)


def _needed(epsilon: float, delta: float, accountant: PrivacyAccountant, steps: int) -> float:
    """The least noise multiplier of Gaussian steps; over the whole range of the accountant, [1e-15, 1e15], where the first ends.

    Raises:
        ValueError: there is none in that range either.
    """
    least, most = privacy.NOISE
    law: dict[str, Any] = (
        {"sampling": "random allocation", "steps_per_epoch": accountant.law[0], "participations": accountant.law[1]}
        if isinstance(accountant.law, tuple)
        else {"sampling_rate": accountant.law}
    )
    try:
        found = privacy.least_noise_multiplier(epsilon=epsilon, delta=delta, steps=steps, **law)
    except ValueError:
        found = most
    if least < found < most:
        return found
    part: privacy.Step | privacy.RandomAllocation = (
        privacy.RandomAllocation(
            noise_multiplier=1.0,
            steps_per_epoch=accountant.law[0],
            participations=accountant.law[1],
            count=steps // accountant.law[0],
        )
        if isinstance(accountant.law, tuple)
        else privacy.Step(noise_multiplier=1.0, sampling_rate=accountant.law, count=steps)
    )
    run = privacy.Composition((part,))
    return run.noise_scale(epsilon=min(epsilon, _LARGEST_BUDGET), delta=delta)


def _noise_of_a_step(mechanism: Mechanism, params: list[torch.Tensor], needed: float) -> float:
    """The least noise multiplier with which a step of the mechanism costs no more than a Gaussian one of the needed noise.

    Raises:
        ValueError: there is none, or a step spends on the choice of entries too.
    """
    first = copy.deepcopy(mechanism)  # whose masks are drawn for this question alone
    first.begin_step(params)
    if first.cost(needed).selection is not None:
        raise ArgumentError(
            "mechanism",
            "spend on its values alone",
            mechanism,
            got=f"{mechanism.title}, which spends on the choice of entries too: give noise_multiplier to "
            "make_private, and see optimizer.epsilon(delta)",
        )

    def enough(sigma: float) -> bool:
        return first.cost(sigma).noise_multiplier >= needed

    if first.cost(needed).noise_multiplier == needed:
        return needed
    low, high = SMALLEST, LARGEST
    if not enough(high):
        raise ArgumentError(
            "mechanism",
            "keep the budget with enough noise on its values",
            mechanism,
            got=f"{mechanism.title}, which never does",
        )
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
