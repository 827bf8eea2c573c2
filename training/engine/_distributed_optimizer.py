"""The optimizer that runs a mechanism, over several processes."""

import torch
from opacus.optimizers.ddpoptimizer import DistributedDPOptimizer

from dptheory.training.engine._optimizer import MechanismOptimizer
from dptheory.training.mechanisms import Tensors


class DistributedMechanismOptimizer(MechanismOptimizer, DistributedDPOptimizer):  # type: ignore[misc]
    """The same over several processes: totals are summed over all of them, the first draws noise, all get its release.

    Every process needs a mechanism that was built with the same seed, or without one: then the masks of the
    first are handed to all.

    Args:
        optimizer, mechanism, sampling_rate, names, noise_multiplier, max_grad_norm: as for :class:`MechanismOptimizer`.
        expected_batch_size, loss_reduction, generator, secure, adjacency, sampler, views: as there.

    Raises:
        TypeError, ValueError: as :class:`MechanismOptimizer`.
    """

    def add_noise(self) -> None:
        """Sum the totals, release once, and hand the release to every process."""
        if self.clipped_total is None:
            raise ValueError("step() needs a backward pass since the last zero_grad()")
        for total in self.clipped_total:
            torch.distributed.all_reduce(total)
        count = torch.tensor(self._nonfinite, device=self.clipped_total[0].device)
        torch.distributed.all_reduce(count)
        self._nonfinite = int(count)
        released = [r.contiguous() for r in self._release()]
        for value in released:
            torch.distributed.broadcast(value, src=0)
        self._store(released)

    def _begin_step(self, params: Tensors) -> None:
        """The first process's masks and subspace for all: rounding can flip a basis vector's sign."""
        super()._begin_step(params)
        for tensor in self.mechanism.shared():
            torch.distributed.broadcast(tensor, src=0)

    def reduce_gradients(self) -> None:
        """Every process has the sum already; Opacus gives each the expected size of its own share of the batch."""
        if self.loss_reduction == "mean":
            for p in self.params:
                p.grad /= self.world_size
