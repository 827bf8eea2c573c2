"""What several processes share; without torchrun there is one process, the first of one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from opacus.optimizers.ddpoptimizer import DistributedDPOptimizer

from dptheory.errors import ArgumentError
from dptheory.training.engine._optimizer import MechanismOptimizer
from dptheory.training.mechanisms import Tensors

# --- The optimizer that runs a mechanism, over several processes


class DistributedMechanismOptimizer(MechanismOptimizer, DistributedDPOptimizer):  # type: ignore[misc]
    """The same over several processes: totals are summed over all of them, the first draws noise, all get its release.

    Every process needs a mechanism that was built with the same seed, or without one: then the masks of the
    first are handed to all.

    Args:
        optimizer, mechanism, sampling_rate, names, noise_multiplier, max_grad_norm: as for :class:`MechanismOptimizer`.
        expected_batch_size, loss_reduction, generator, secure, adjacency, sampler, views, batches: as there.

    Raises:
        TypeError, ValueError: as :class:`MechanismOptimizer`.
    """

    def add_noise(self) -> None:
        """Sum the totals, release once, and hand the release to every process."""
        if self.clipped_total is None:
            raise ArgumentError.about("p.grad", None, "step() needs a backward pass since the last zero_grad()")
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


def active() -> bool:
    """Whether a process group is up.

    Returns:
        True under torchrun, once :func:`process_group` has been entered.

    Example: a process that was started alone.
        >>> from dptheory.training.engine import active
        >>> active()
        False
    """
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def place() -> tuple[int, int]:
    """Number of this process, and number of processes.

    Returns:
        (rank, world size); (0, 1) where there is no process group.

    Example: a process that was started alone is number 0 of 1.
        >>> from dptheory.training.engine import place
        >>> place()
        (0, 1)
    """
    return (torch.distributed.get_rank(), torch.distributed.get_world_size()) if active() else (0, 1)


def first() -> bool:
    """Whether this process writes files and prints.

    Returns:
        True for rank 0, and where there is no process group.

    Example: a process that was started alone is the first one.
        >>> from dptheory.training.engine import first
        >>> first()
        True
    """
    return place()[0] == 0


def summed(value: float, device: torch.device) -> float:
    """Sum of a number over all processes; every process must call it.

    Args:
        value: of this process.
        device: on which the sum is made, one of the process group's: see :func:`communicating`.

    Returns:
        The sum, in double precision; the value itself where there is no process group.

    Example: over one process the sum is the number itself.
        >>> from dptheory.training.engine import communicating, summed
        >>> summed(2.5, communicating())
        2.5
    """
    if not active():
        return value
    total = torch.tensor(value, dtype=torch.float64, device=device)
    torch.distributed.all_reduce(total)
    return float(total)


def communicating() -> torch.device:
    """A device on which this process can sum numbers with the others.

    Returns:
        This process's CUDA device with nccl, otherwise the CPU.

    Example: one process alone sums up on the CPU.
        >>> from dptheory.training.engine import communicating
        >>> communicating()
        device(type='cpu')
    """
    return torch.device("cuda" if active() and torch.distributed.get_backend() == "nccl" else "cpu")


@contextmanager
def process_group(device: torch.device) -> Iterator[torch.device]:
    """The process group that torchrun asks for (nccl on CUDA, gloo on the CPU), for the block of a ``with``.

    Args:
        device: that was asked for.

    Returns:
        A context that gives this process's own device; the one asked for where torchrun did not start the process.

    Example: without torchrun there is one process, on the device that was asked for.
        >>> import torch
        >>> from dptheory.training.engine import process_group
        >>> with process_group(torch.device("cpu")) as device:
        ...     print(device)
        cpu
    """
    if "RANK" not in os.environ:
        yield device
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield device
    finally:
        torch.distributed.destroy_process_group()
