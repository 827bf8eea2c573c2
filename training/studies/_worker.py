"""``python -m dptheory.training.studies._worker``: one run of a study, in a process that is told by its standard input what to do."""

import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dptheory.files import write_atomically
from dptheory.training._machine import device_name, only_here, versions
from dptheory.training.studies import _results

FAILED, STOPPED, BUSY = 1, 130, 75
"""Exit codes: an error that would come again; told to stop, with the state saved; another process has this run."""
_TASK = "task.json"


@dataclass(frozen=True)
class Task:
    """What a worker needs to know; plain values, as it goes to other processes and machines.

    Attributes:
        folder: for checkpoint, lock and log while the run is under way.
        allow_dirty: whether code that differs from its commit may make results.
    """

    study: str
    phase: str
    arm: str
    point: Mapping[str, Any]
    config: Mapping[str, Any]
    device: str
    folder: str
    result: str
    allow_dirty: bool = False

    @property
    def name(self) -> str:
        """Of the run in its study."""
        return _results.run_name(phase=self.phase, arm=self.arm, point=self.point, seed=self.config["seed"])

    def finished(self) -> bool:
        """Whether there is a result of this very configuration."""
        found = _results.read(Path(self.result)).get(self.name)
        return found is not None and _results.of_configuration(found, self.config)


def make(task: Task) -> None:
    """Train, from the checkpoint where there is one of this code and configuration, and write the result.

    Raises:
        KeyboardInterrupt: it was told to stop; the state is saved.
        BlockingIOError: another process has this run.
        ValueError, OSError: as :func:`dptheory.training.runs.train`; code that differs from its commit.
    """
    import torch

    from dptheory.training.runs import STATE, from_dict, metrics, pick_device, train

    torch.set_num_threads(1)  # the order of sums, and so the last digits, would depend on the number of threads
    code = _results.code_version()
    if not task.allow_dirty:
        _results.refuse_dirty(code)
    device, folder = pick_device(task.device), Path(task.folder)
    with only_here(folder):
        if task.finished():
            return
        state = folder / "run"
        same = json.dumps(
            {"code": code.get("trees", code), "device": str(device), "config": task.config}, sort_keys=True
        )
        if not (folder / _TASK).exists() or (folder / _TASK).read_text() != same:
            shutil.rmtree(state, ignore_errors=True)
            write_atomically(folder / _TASK, same)
        resume = (state / STATE).exists()
        if not resume:  # metrics of a worker that was killed before it had a state
            shutil.rmtree(state, ignore_errors=True)
        run = train(from_dict(task.config), device, state, resume=resume)
        found = metrics(run)
        found["privacy"] = _results.settled(found["privacy"])
        rows = found.pop("epochs")
        if not rows:
            raise ValueError("the run made no step: its budget does not afford one")
        epochs = {name: [row[name] for row in rows] for name in rows[0]}
        seconds = {"epochs": epochs.pop("seconds")}
        epochs["epsilon"] = _results.settled(epochs["epsilon"])
        where = {key: value for key, value in asdict(task).items() if key in ("study", "phase", "arm", "point")}
        _results.write(
            Path(task.result),
            task.name,
            where
            | found
            | {"seed": run.config.seed, "diverged": _results.has_diverged(epochs), "code": code}
            | {"device": _device(device), "versions": versions(), "epochs": epochs, "seconds": seconds},
        )
        shutil.rmtree(state)


def _device(device: Any) -> str:
    """The device in words; for a CPU with the instructions that torch uses, on which the last digits depend."""
    import torch

    return f"cpu ({torch.backends.cpu.get_cpu_capability()})" if device.type == "cpu" else device_name(device)


def main() -> int:
    """Read a task from standard input and do it; stop, with the state saved, when standard input is closed."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))
    task = Task(**json.loads(_line()))
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    try:
        make(task)
    except KeyboardInterrupt:
        return STOPPED
    except BlockingIOError:
        return BUSY
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return FAILED
    return 0


def _line() -> str:
    """The first line, read without a buffer: a thread that waits in a buffered read cannot be left at the end."""
    text = b""
    while not text.endswith(b"\n") and (part := os.read(0, 1)):
        text += part
    return text.decode()


def _stop_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
