"""Results: a file of lines per study, a line per run, with all that it depends on; on every repetition the same but for the times."""

import importlib.metadata
import json
import math
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training._files import JsonLines

_PACKAGES = ("training", "dptheory")
_NAME = "run"
"""The key of a line that names its run."""
_GUESSING = 0.2
"""An accuracy below twice that of guessing one of ten classes is that of a run that has diverged."""

Result = Mapping[str, Any]


def code_version(root: Path | None = None) -> dict[str, Any]:
    """Which code this is: commit and trees of a checkout, and whether they are what is there; outside git, the package's version.

    Only ``training`` and ``dptheory`` count: results, pages and tests change no run.
    """
    root = root or Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return {"package": importlib.metadata.version("dptheory")}
    changed = git(root, "status", "--porcelain", "--", *_PACKAGES)
    commit, *trees = git(root, "rev-parse", "HEAD", *(f"HEAD:{name}" for name in _PACKAGES)).split()
    return {"commit": commit, "trees": dict(zip(_PACKAGES, trees, strict=True)), "dirty": bool(changed)}


def settled(value: Any) -> Any:
    """Every float of a list or table to twelve digits: the last ones of an epsilon differ from process to process."""
    match value:
        case float():
            return float(f"{value:.12g}")
        case list():
            return [settled(one) for one in value]
        case dict():
            return {key: settled(one) for key, one in value.items()}
        case _:
            return value


def of_configuration(result: Result, config: Mapping[str, Any]) -> bool:
    """Whether a result is that of a configuration.

    Which of the ways to per-example gradients a run took, and how many of them it held at once, is not compared: they differ in
    rounding alone, committed results were made before there was the quickest, and what is quick depends on the device.
    """
    left_out = {"grad_sample_mode": None, "physical_batch_size": None}
    return {**result["config"], **left_out} == {**json.loads(json.dumps(config)), **left_out}


def git(root: Path, *arguments: str) -> str:
    """What git says of a checkout; OSError where it cannot be asked, or refuses."""
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"git {arguments[0]} failed in {root}: {done.stderr.strip()}")
    return done.stdout


def version(result: Result) -> str:
    """Of the code that made a result: its commit, or that of the package."""
    code = result["code"]
    return str(code.get("commit", code.get("package", "unknown")))


def refuse_dirty(code: Mapping[str, Any]) -> None:
    """Keep results out whose code nobody could find again."""
    if code.get("dirty"):
        raise ArgumentError.about(
            "allow_dirty",
            False,
            "the code differs from its commit; commit it, or say --allow-dirty for results that do not count",
        )


def code_that_counts(*, allow_dirty: bool) -> dict[str, Any]:
    """Which code this is, where somebody could find it again.

    Args:
        allow_dirty: also where it differs from its commit; such results decide nothing.

    Returns:
        The commit, the trees of the packages, and whether they are what is there; outside git, the package's version.

    Raises:
        ValueError: the code differs from its commit.
        OSError: a checkout, but git cannot be asked.

    Example: the commit in a checkout, the version of the package elsewhere.
        >>> from dptheory.training.studies import code_that_counts
        >>> {"package", "commit"} & code_that_counts(allow_dirty=True).keys() != set()
        True
    """
    code = code_version()
    if not _validate.flag("allow_dirty", allow_dirty):
        refuse_dirty(code)
    return code


def require_folder(results: Path) -> None:
    """Tell a folder that is not there from one without results, which would empty what was said so far."""
    if not results.is_dir():
        raise ArgumentError("results", "be an existing folder (of the repository's root)", str(results))


def path_of(folder: Path, study: str) -> Path:
    """Where the results of a study lie."""
    return folder / f"{study}.jsonl"


def run_name(*, phase: str, arm: str, point: Mapping[str, Any], seed: int) -> str:
    """Of a run in its study: what an earlier phase chose is not part of it."""
    values = (f"{key.rsplit('.', 1)[-1]}={value:g}" for key, value in point.items())
    return "_".join((phase, arm, *values, f"seed={seed}"))


def write(path: Path, name: str, result: Result) -> None:
    """Add the result of a run to those of its study; it stands for an earlier one of that name."""
    JsonLines(path).add({_NAME: name, **result}, allow_nan=False)


def read(
    path: Path, whose: str = "a run", keys: tuple[str, ...] = ("config", "epochs", "code", "diverged")
) -> dict[str, Result]:
    """The results in a file by the names of their runs, the last one of each with all ``keys``; none where there is no file."""
    found: dict[str, Result] = {}
    for number, line in enumerate(JsonLines(path).lines(), 1):
        lacking = [key for key in (_NAME, *keys) if key not in line]
        if lacking:
            raise ArgumentError(
                str(path), f"hold results of {whose}", lacking, got=f"line {number} without {', '.join(lacking)}"
            )
        result = dict(line)
        found[result.pop(_NAME)] = result
    return found


def last_accuracy(result: Result) -> float:
    """Test accuracy after the last epoch, in [0, 1]."""
    return float(result["epochs"]["test_accuracy"][-1])


def best_accuracy(result: Result) -> float:
    """The best test accuracy after any epoch: chosen by the test images, and so too high."""
    return float(max(result["epochs"]["test_accuracy"]))


def has_diverged(epochs: Mapping[str, list[Any]]) -> bool:
    """Whether the last epoch's loss is not a number, or the accuracy after it is below 20 %."""
    loss = epochs["train_loss"][-1]
    return loss is None or not math.isfinite(loss) or epochs["test_accuracy"][-1] < _GUESSING
