"""What several processes share; without torchrun there is one process, the first of one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


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
