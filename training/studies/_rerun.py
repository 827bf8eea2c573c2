"""A result made again at the version that it names, and held against what it says."""

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training.studies import _measured, _processes, _results
from dptheory.training.studies._results import Result
from dptheory.training.studies._worker import Task

_ROOT = Path(__file__).resolve().parents[2]
_TIMES = ("seconds", "cpu_seconds")
_MACHINE = ("versions", "device")


@dataclass(frozen=True, kw_only=True)
class Rerun:
    """What came out when a result was made again.

    Attributes:
        commit: whose code made it, both times.
        changed: entries that came out otherwise, with both values; the times are left out.
        machine: entries of versions and device that are others than in the result, with both values: a reason for ``changed``.

    Example: all numbers are those of the file, though the library is another.
        >>> from dptheory.training.studies import Rerun
        >>> told = ('versions.torch: "2.13.0" before, "2.14.0" now',)
        >>> Rerun(commit="c0ffee", changed=(), machine=told).same
        True
    """

    commit: str
    changed: tuple[str, ...]
    machine: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether every entry came out as in the result, but for times, versions and device."""
        return not self.changed


def seconds_taken(path: Path, run: str) -> float:
    """How long a result took when it was made, in seconds.

    Args:
        path: of results, of a study's runs or of instruments.
        run: name of one of them.

    Returns:
        The seconds of its epochs, or the CPU seconds of its measurements.

    Raises:
        ValueError: no such file, it holds no results, or none of that name.

    Example: a file that is not there.
        >>> from pathlib import Path
        >>> from dptheory.training.studies import seconds_taken
        >>> seconds_taken(Path("nowhere.jsonl"), "final_plain_seed=0")
        Traceback (most recent call last):
            ...
        dptheory.errors.ArgumentError: path must be a file of results, got 'nowhere.jsonl'
    """
    found = _read(path, run)
    return float(found["cpu_seconds"]) if "instrument" in found else float(sum(found["seconds"]["epochs"]))


def rerun(path: Path, run: str) -> Rerun:
    """Make a result again, by the code of the commit that it names, and hold it against what it says.

    The code is taken from this checkout's history into a temporary folder; neither the checkout nor the file is changed.
    Training data is found where the code finds it now, and libraries are those that are installed.

    Args:
        path: of results, of a study's runs or of instruments.
        run: name of one of them.

    Returns:
        What came out otherwise.

    Raises:
        ValueError: no such file, it holds no results, or none of that name; code that is in no commit; the run failed.
        OSError: git cannot be asked, or this checkout does not have the commit.

    Example: a file that is not there.
        >>> from pathlib import Path
        >>> from dptheory.training.studies import rerun
        >>> rerun(Path("nowhere.jsonl"), "final_plain_seed=0")
        Traceback (most recent call last):
            ...
        dptheory.errors.ArgumentError: path must be a file of results, got 'nowhere.jsonl'
    """
    before = _read(path, run)
    commit = before["code"].get("commit")
    if commit is None or before["code"]["dirty"]:
        raise ArgumentError("run", "be one whose code is a commit", run, then=f", made by {before['code']}")
    with tempfile.TemporaryDirectory(prefix="rerun-") as folder:
        code, out = Path(folder) / "code", Path(folder) / "out"
        _check_out(commit, code)
        made = _measure_again(before, code, out) if "instrument" in before else _train_again(before, code, out)
        after = json.loads(made.read_text(encoding="utf-8"))  # the one line of a new file; up to 0.3.0 the whole of it
    told = list(_differences(before, {key: value for key, value in after.items() if key != "run"}))
    return Rerun(
        commit=commit,
        changed=tuple(text for name, text in told if name not in _MACHINE),
        machine=tuple(text for name, text in told if name in _MACHINE),
    )


def _read(path: Path, run: str) -> Result:
    """A result of either kind."""
    found: dict[str, Result] = {}
    for read in (_results.read, _measured.read):
        with contextlib.suppress(ValueError, OSError):
            found = found or read(path)
    if not found:
        raise ArgumentError("path", "be a file of results", str(path))
    return found[_validate.choice("run", run, tuple(found))]


def _check_out(commit: str, folder: Path) -> None:
    """The files of a commit, with its history, so that its code can say which it is."""
    if not (_ROOT / ".git").exists():
        raise OSError("a result is made again from a git checkout: this package is none")
    _results.git(_ROOT, "cat-file", "-e", f"{commit}^{{commit}}")
    _results.git(_ROOT, "clone", "--quiet", "--shared", "--no-checkout", str(_ROOT), str(folder))
    _results.git(folder, "checkout", "--quiet", "--detach", commit)


class _Again(Task):
    """A run by other code, which has its own way to write a result: what lies there is the result."""

    def finished(self) -> bool:
        return Path(self.result).exists()


def _train_again(before: Result, code: Path, out: Path) -> Path:
    """The run of a study, by the worker of that commit."""
    result = out / "result"
    task = _Again(
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
    return next(path for path in out.rglob("*.json*"))


def _device(result: Result) -> str:
    return "cuda" if result["device"].startswith("cuda") else "cpu"


def _differences(before: Result, after: Result) -> Iterator[tuple[str, str]]:
    """Top-level entry and, in words, place and both values, of everything that differs but the times."""
    keys = [key for key in {**before, **after} if key not in _TIMES]
    for key in keys:
        for place, old, new in _leaves(key, before.get(key), after.get(key)):
            yield key, f"{place}: {json.dumps(old)} before, {json.dumps(new)} now"


def _leaves(place: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from _leaves(f"{place}.{key}", old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _leaves(f"{place}[{index}]", one, other)
    elif old != new:
        yield place, old, new
