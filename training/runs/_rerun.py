"""A result file made again at the version that it names, and held against what it says."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dptheory.errors import ArgumentError
from dptheory.training.runs import _measured, _processes, _results
from dptheory.training.runs._results import Result
from dptheory.training.runs._worker import Task

_ROOT = Path(__file__).resolve().parents[2]
_TIMES = ("seconds", "cpu_seconds")
_MACHINE = ("versions", "device")


@dataclass(frozen=True, kw_only=True)
class Rerun:
    """What came out when a result file was made again.

    Attributes:
        commit: whose code made it, both times.
        changed: entries that came out otherwise, with both values; the times are left out.
        machine: entries of versions and device that are others than in the file, with both values: a reason for ``changed``.

    Example: all numbers are those of the file, though the library is another.
        >>> from dptheory.training.runs import Rerun
        >>> told = ('versions.torch: "2.13.0" in the file, "2.14.0" now',)
        >>> Rerun(commit="c0ffee", changed=(), machine=told).same
        True
    """

    commit: str
    changed: tuple[str, ...]
    machine: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether every entry came out as in the file, but for times, versions and device."""
        return not self.changed


def seconds_taken(path: Path) -> float:
    """How long a result file took when it was made, in seconds.

    Args:
        path: of a result file, of a study's run or of an instrument.

    Returns:
        The seconds of its epochs, or the CPU seconds of its measurements.

    Raises:
        ValueError: no such file, or it is no result.

    Example: a file that is not there.
        >>> from pathlib import Path
        >>> from dptheory.training.runs import seconds_taken
        >>> seconds_taken(Path("nowhere.json"))
        Traceback (most recent call last):
            ...
        dptheory.errors.ArgumentError: path must be that of a result file, got 'nowhere.json'
    """
    found = _read(path)
    return float(found["cpu_seconds"]) if "instrument" in found else float(sum(found["seconds"]["epochs"]))


def rerun(path: Path) -> Rerun:
    """Make a result file again, by the code of the commit that it names, and hold it against the file.

    The code is taken from this checkout's history into a temporary folder; neither the checkout nor the file is changed.
    Training data is found where the code finds it now, and libraries are those that are installed.

    Args:
        path: of a result file, of a study's run or of an instrument.

    Returns:
        What came out otherwise.

    Raises:
        ValueError: no such file, or it is no result; code that is in no commit; the run failed.
        OSError: git cannot be asked, or this checkout does not have the commit.

    Example: a file that is not there.
        >>> from pathlib import Path
        >>> from dptheory.training.runs import rerun
        >>> rerun(Path("nowhere.json"))
        Traceback (most recent call last):
            ...
        dptheory.errors.ArgumentError: path must be that of a result file, got 'nowhere.json'
    """
    before = _read(path)
    commit = before["code"].get("commit")
    if commit is None or before["code"]["dirty"]:
        raise ArgumentError(
            "path", "be of a result whose code is a commit", str(path), then=f", made by {before['code']}"
        )
    with tempfile.TemporaryDirectory(prefix="rerun-") as folder:
        code, out = Path(folder) / "code", Path(folder) / "out"
        _check_out(commit, code)
        made = _measure_again(before, code, out) if "instrument" in before else _train_again(before, code, out)
        after = _read(made)
    told = list(_differences(before, after))
    return Rerun(
        commit=commit,
        changed=tuple(text for name, text in told if name not in _MACHINE),
        machine=tuple(text for name, text in told if name in _MACHINE),
    )


def _read(path: Path) -> Result:
    """A result of either kind."""
    for read in (_results.read, _measured.read):
        try:
            found = read(path)
        except ValueError:
            continue
        if found is not None:
            return found
    raise ArgumentError("path", "be that of a result file", str(path))


def _check_out(commit: str, folder: Path) -> None:
    """The files of a commit, with its history, so that its code can say which it is."""
    if not (_ROOT / ".git").exists():
        raise OSError("a result is made again from a git checkout: this package is none")
    _results.git(_ROOT, "cat-file", "-e", f"{commit}^{{commit}}")
    _results.git(_ROOT, "clone", "--quiet", "--shared", "--no-checkout", str(_ROOT), str(folder))
    _results.git(folder, "checkout", "--quiet", "--detach", commit)


def _train_again(before: Result, code: Path, out: Path) -> Path:
    """The run of a study, by the worker of that commit."""
    result = out / "result.json"
    task = Task(
        **{name: before[name] for name in ("study", "phase", "arm", "point", "config")},
        device=_device(before),
        folder=str(out / "state"),
        result=str(result),
    )
    out.mkdir()
    ending = _processes.in_fresh_process(task, code=code)
    if ending.kind != _processes.DONE:
        raise ValueError(f"the run was not made again: {ending.message or ending.kind}")
    return result


def _measure_again(before: Result, code: Path, out: Path) -> Path:
    """The measurements of an instrument, by the command of that commit."""
    name, seed = before["instrument"], before["seed"]
    own = (code / "training" / "__main__.py").exists()  # up to 0.2.0; since then the commands are those of dptheory
    command = [sys.executable, "-P", "-m", "training" if own else "dptheory", "instrument", name, "--seed", str(seed)]
    done = subprocess.run(
        [*command, "--device", _device(before), "--results", str(out)],
        capture_output=True,
        text=True,
        check=False,
        env=_processes.environment(code),
    )
    if done.returncode:
        raise ValueError(f"the measurements were not made again: {done.stderr.strip()}")
    return _measured.path_of(out, name=name, seed=seed)


def _device(result: Result) -> str:
    return "cuda" if result["device"].startswith("cuda") else "cpu"


def _differences(before: Result, after: Result) -> Iterator[tuple[str, str]]:
    """Top-level entry and, in words, place and both values, of everything that differs but the times."""
    keys = [key for key in {**before, **after} if key not in _TIMES]
    for key in keys:
        for place, old, new in _leaves(key, before.get(key), after.get(key)):
            yield key, f"{place}: {json.dumps(old)} in the file, {json.dumps(new)} now"


def _leaves(place: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from _leaves(f"{place}.{key}", old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _leaves(f"{place}[{index}]", one, other)
    elif old != new:
        yield place, old, new
