"""What several processes share; without torchrun there is one process, the first of one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def active() -> bool:
    """Whether a process group is up."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def place() -> tuple[int, int]:
    """(number of this process, number of processes)."""
    return (torch.distributed.get_rank(), torch.distributed.get_world_size()) if active() else (0, 1)


def first() -> bool:
    """Whether this process writes files and prints."""
    return place()[0] == 0


def summed(value: float, device: torch.device) -> float:
    """Sum of a number over all processes."""
    if not active():
        return value
    total = torch.tensor(value, dtype=torch.float64, device=device)
    torch.distributed.all_reduce(total)
    return float(total)


def communicating() -> torch.device:
    """A device on which this process can sum numbers with the others."""
    return torch.device("cuda" if active() and torch.distributed.get_backend() == "nccl" else "cpu")


@contextmanager
def process_group(device: torch.device) -> Iterator[torch.device]:
    """The process group that torchrun asks for (nccl on CUDA, gloo on the CPU), and this process's device."""
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
