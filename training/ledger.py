"""What a run has spent so far."""

import dataclasses
from collections import Counter
from typing import Any

from dptheory import _validate
from training.mechanisms._base import StepCost


class PrivacyLedger:
    """Counts steps by what they cost, and bounds epsilon of all of them together.

    Args:
        sampling_rate: Poisson sampling rate of the batches, in (0, 1].
    """

    def __init__(self, sampling_rate: float) -> None:
        self.sampling_rate = _validate.real("sampling_rate", sampling_rate, 0.0, 1.0, ends="(]")
        self._steps: Counter[StepCost] = Counter()

    @property
    def steps(self) -> int:
        """Steps recorded."""
        return sum(self._steps.values())

    def record(self, cost: StepCost, times: int = 1) -> None:
        """Note ``times`` steps of this cost."""
        self._steps[cost] += times

    def spent_after(self, cost: StepCost, times: int, delta: float) -> float:
        """Upper bound on epsilon if ``times`` more steps of this cost were made."""
        other = PrivacyLedger(self.sampling_rate)
        other._steps = self._steps.copy()
        other.record(cost, times)
        return other.epsilon(delta)

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon at ``delta`` for add/remove of one example; 0 before the first step, inf if nothing protects."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Steps by cost."""
        return {"steps": [(*dataclasses.astuple(cost), times) for cost, times in self._steps.items()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""
        self._steps = Counter({StepCost(*row[:-1]): row[-1] for row in state["steps"]})
