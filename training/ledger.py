"""What a run has spent so far."""

import dataclasses
import functools
import math
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptheory import _validate, accounting, renyi
from dptheory.joint_privacy import ORDERS, FreshMask, joint_rdp, subsampled_gaussian_rdp
from dptheory.mallows import SubsetMallows
from training.mechanisms._base import StepCost

_NOISE = 0.1, 1000.0
_MAX_STEPS = 10**6
"""What the accountants take."""
_LARGEST_BLOCK = 1 << 20
_COARSE, _FINE = 0.005, 5e-4
"""Widths of the brackets of epsilon; the fine one, which costs seconds, is that of ``accounting.noise_multiplier``."""


class BudgetError(ValueError):
    """The step would exceed the privacy budget; nothing of it was released."""


class PrivacyLedger:
    """Counts steps by what they cost, and bounds epsilon of all of them together.

    Args:
        sampling_rate: Poisson sampling rate of the batches, in (0, 1].
    """

    def __init__(self, sampling_rate: float) -> None:
        self.sampling_rate = _validate.real("sampling_rate", sampling_rate, 0.0, 1.0, ends="(]")
        self._spent: Counter[StepCost] = Counter()
        self._budget: tuple[float, float] | None = None
        self._cleared: tuple[StepCost, int] | None = None

    @property
    def steps(self) -> int:
        """Steps recorded."""
        return self._spent.total()

    def record(self, cost: StepCost) -> None:
        """Note one step."""
        self._spent[cost] += 1

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon for adding or removing one example; 0 before the first step, inf if nothing protects it.

        For steps of one cost without a private selection, that of :func:`dptheory.accounting.epsilon` (in a narrower bracket
        where that decides whether a budget is kept); otherwise by Renyi differential privacy, where costs of all kinds add up.

        Args:
            delta: in [1e-15, 0.1].
        """
        if self._budget is not None and delta == self._budget[1]:
            return self._closely(self._spent, *self._budget)
        return _epsilon(frozenset(self._spent.items()), self.sampling_rate, delta, _COARSE)

    def limit(self, epsilon: float, delta: float) -> None:
        """Set a budget, which :meth:`clear` enforces; delta in [1e-15, 0.1]."""
        self._budget = (
            _validate.real("epsilon", epsilon, 0.0, ends="()"),
            _validate.real("delta", delta, 1e-15, 0.1),
        )
        self._cleared = None

    def clear(self, cost: StepCost) -> None:
        """Ask, before a release, whether the budget affords one more step of this cost.

        Raises:
            BudgetError: it does not.
        """
        if self._budget is None:
            return
        known, left = self._cleared or (cost, 0)
        if known != cost or left == 0:
            left = self._affordable(cost, *self._budget)
        if left == 0:
            raise BudgetError(
                f"one more step would exceed epsilon = {self._budget[0]:g} at delta = {self._budget[1]:g}"
            )
        self._cleared = cost, left - 1

    def state_dict(self) -> dict[str, Any]:
        """Steps by cost."""
        return {"spent": [(dataclasses.asdict(cost), times) for cost, times in self._spent.items()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""
        self._spent = Counter({_cost(plain): times for plain, times in state["spent"]})
        self._cleared = None

    def _affordable(self, cost: StepCost, epsilon: float, delta: float) -> int:
        """A number of further steps that the budget affords: the largest power of two less one or more, 0 if none."""

        def fits(more: int) -> bool:
            spent = self._spent.copy()
            spent[cost] += more
            return self._closely(spent, epsilon, delta) <= epsilon

        if not fits(1):
            return 0
        block = 1
        while block < _LARGEST_BLOCK and fits(2 * block):
            block *= 2
        return block

    def _closely(self, spent: Counter[StepCost], epsilon: float, delta: float) -> float:
        """The bound, in a fine bracket where a coarse one says that it is above ``epsilon``."""
        found = _epsilon(frozenset(spent.items()), self.sampling_rate, delta, _COARSE)
        near = epsilon < found < (1 + 4 * _COARSE) * epsilon + 4 * _COARSE
        fine = max(1e-4, _FINE * min(1.0, epsilon))
        return _epsilon(frozenset(spent.items()), self.sampling_rate, delta, fine) if near else found


@functools.lru_cache(maxsize=1024)
def _epsilon(spent: frozenset[tuple[StepCost, int]], rate: float, delta: float, width: float) -> float:
    if not spent:
        return 0.0
    multipliers = {cost.noise_multiplier for cost, _ in spent}
    if 0 in multipliers:
        return math.inf
    bounds = []
    if not any(cost.selection for cost, _ in spent):  # the least noise for all steps, and no help by masks
        bounds.append(_gaussian(min(multipliers), sum(times for _, times in spent), rate, delta, width))
    if len(multipliers) > 1 or any(cost.selection or cost.mask for cost, _ in spent):
        curve = np.sum([times * _curve(cost, rate) for cost, times in spent], axis=0)
        known = np.isfinite(curve)
        bounds.append(renyi.epsilon_from_rdp(np.array(ORDERS)[known], curve[known], delta) if known.any() else math.inf)
    return min(bounds)


def _gaussian(sigma: float, steps: int, rate: float, delta: float, width: float) -> float:
    if sigma < _NOISE[0] or steps > _MAX_STEPS:  # outside the accountants' range: without amplification by sampling
        return accounting.gaussian_epsilon(math.sqrt(steps) / sigma, delta)
    return accounting.epsilon(min(sigma, _NOISE[1]), rate, steps, delta, width=width).upper


@functools.lru_cache(maxsize=1024)
def _curve(cost: StepCost, rate: float) -> NDArray[np.float64]:
    """Renyi curve of one step at the orders of ``ORDERS``."""
    if cost.mask is not None:
        return cost.mask.rdp(ORDERS, rate, cost.noise_multiplier)
    if cost.selection is not None:
        groups, law = cost.selection
        return joint_rdp(ORDERS, rate, cost.noise_multiplier, law, groups)
    return subsampled_gaussian_rdp(ORDERS, rate, cost.noise_multiplier)


def _cost(plain: dict[str, Any]) -> StepCost:
    """A cost from what ``dataclasses.asdict`` made of it."""
    chosen, mask = plain["selection"], plain["mask"]
    return StepCost(
        plain["noise_multiplier"],
        None if chosen is None else (chosen[0], SubsetMallows(**chosen[1])),
        None if mask is None else FreshMask(**mask),
    )
