"""How much memory a step takes, asked in a process of its own.

``python -m dptheory.training.benchmarks._memory DP-SGD MLP 4096 2`` prints it in MiB: arm, network, rows of the batch, threads.
"""

import dataclasses
import re
import resource
import subprocess
import sys
import warnings
from pathlib import Path

from dptheory.training.benchmarks import _arms
from dptheory.training.benchmarks._networks import NETWORKS, VIEWS
from dptheory.training.benchmarks._text import BY_HAND, TEXT

NAMED = NETWORKS | VIEWS | TEXT | BY_HAND
_STEPS = 3
_STATUS = Path("/proc/self/status")


def peak(arm: str, network: str, batch: int, threads: int) -> float:
    """MiB that three steps take at their peak, beyond what a fresh process held with the network and the batch."""
    command = [sys.executable, "-m", __name__, arm, network, str(batch), str(threads)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def beyond_start(arm: str, network: str, batch: int) -> float:
    """The same, of this process."""
    timed = dataclasses.replace(NAMED[network], batch=batch)
    step = _arms.build(arm, timed, *timed.examples(batch))
    start, _ = resident()
    for _ in range(_STEPS):
        step()
    return max(0.0, resident()[1] - start)


def resident() -> tuple[float, float]:
    """MiB of memory that this process holds, and the most that it ever held.

    On Linux these are the kernel's VmRSS and VmHWM, as ``ru_maxrss`` of a child starts at its parent's.
    """
    if not _STATUS.exists():
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2 ** (20 if sys.platform == "darwin" else 10)
        return most, most
    status = _STATUS.read_text(encoding="ascii")
    now, most = (int(re.findall(rf"{name}:\s+(\d+) kB", status)[0]) / 2**10 for name in ("VmRSS", "VmHWM"))
    return now, most


def _main(arm: str, network: str, batch: str, threads: str) -> None:
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(int(threads))
    print(beyond_start(arm, network, int(batch)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
