"""The forecast beside finished runs: reads the folders that ``python -m training run`` writes, JSON alone."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from dptheory import _validate
from dptheory.planning._records import MethodResult, Plan
from dptheory.planning._signal import LEVEL

_METRICS = "metrics.json"


@dataclass(frozen=True)
class _Run:
    method: str
    accuracy: float
    epsilon: float
    planned: bool


def compare_runs(plan: Plan, *, runs: Sequence[Path]) -> tuple[MethodResult, ...]:
    """What finished runs say of a plan's forecasts, method by method.

    A forecast is of the descent of a step, a run has an accuracy: they are held against each other by their order alone. The
    difference from DP-SGD's mean accuracy gets a 95 % interval by Student's t with the degrees of freedom of the smaller group,
    for which both methods need two runs or more.

    Args:
        plan: of :func:`dptheory.planning.plan`.
        runs: folders with a ``metrics.json``, or such files; runs of one method may differ in nothing but the seed for the
            interval to mean something.

    Returns:
        One result per method that the runs have, in the order of the runs.

    Raises:
        ValueError: a file that is no result of a run.
        OSError: a file that cannot be read.

    Source: new, on RF, section 2.2 (rf.mse_criterion).

    Example: one finished run of DP-SGD.
        >>> import json, tempfile
        >>> from pathlib import Path
        >>> from dptheory.planning import TrainingSetup, compare_runs, plan
        >>> found = plan(TrainingSetup(num_examples=1000, epsilon=3.0, delta=1e-5, dim=2000, batch_size=1000, epochs=10))
        >>> metrics = {"config": {"batch_size": 1000, "epochs": 10, "mechanism": {"name": "dp-sgd"}}, "noise_multiplier": 4.5,
        ...     "privacy": {"epsilon": 2.9}, "epochs": [{"test_accuracy": 0.7}]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / "metrics.json").write_text(json.dumps(metrics))
        ...     (result,) = compare_runs(found, runs=[Path(folder)])
        >>> result.method, result.accuracy, result.difference, result.outcome
        ('dp-sgd', 0.7, 0.0, 'reference')
    """
    _validate.instance("plan", plan, Plan)
    if not isinstance(runs, list | tuple) or not all(isinstance(path, Path) for path in runs):
        raise ValueError(f"runs must be a row of paths, got {_validate.shown(runs)}")
    if len({path.resolve() for path in runs}) < len(runs):
        raise ValueError(f"runs must differ from each other, got {[str(path) for path in runs]}")
    read = [_read(plan, path) for path in runs]
    names = dict.fromkeys(one.method for one in read)
    return tuple(_result(plan, name, read) for name in names)


def _read(plan: Plan, path: Path) -> _Run:
    file = path / _METRICS if path.is_dir() else path
    try:
        found: Any = json.loads(file.read_text(encoding="utf-8"))
        config, spent = found["config"], found["privacy"]["epsilon"]
        accuracy, noise = float(found["epochs"][-1]["test_accuracy"]), float(found["noise_multiplier"])
        same = config["batch_size"] == plan.batch_size.value and config["epochs"] == plan.epochs.value
        near = abs(noise / plan.noise_multiplier - 1.0) <= 0.02
        method = str(config["mechanism"]["name"])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"runs must be results of python -m training run, got {file}: {error!r}") from None
    return _Run(method, accuracy, math.inf if spent is None else float(spent), same and near)


def _result(plan: Plan, method: str, read: Sequence[_Run]) -> MethodResult:
    own = [one for one in read if one.method == method]
    scores = np.array([one.accuracy for one in own])
    base = np.array([one.accuracy for one in read if one.method == "dp-sgd"])
    forecast = {one.method: one.verdict for one in plan.methods}.get(method, "undecided")
    difference, reach = None, None
    if base.size:
        difference = float(scores.mean() - base.mean())
    if method != "dp-sgd" and min(base.size, scores.size) > 1:
        error = math.sqrt(float(scores.var(ddof=1) / scores.size + base.var(ddof=1) / base.size))
        reach = float(stdtrit(min(base.size, scores.size) - 1, 0.5 + LEVEL / 2)) * error
    return MethodResult(
        method=method,
        runs=len(own),
        accuracy=float(scores.mean()),
        difference=difference,
        lower=None if reach is None or difference is None else difference - reach,
        upper=None if reach is None or difference is None else difference + reach,
        largest_epsilon=max(one.epsilon for one in own),
        planned=all(one.planned for one in own),
        forecast=forecast,
        outcome=_outcome(method, forecast, difference, reach),
    )


def _outcome(method: str, forecast: str, difference: float | None, reach: float | None) -> str:
    if method == "dp-sgd":
        return "reference"
    if difference is None or reach is None or abs(difference) <= reach:
        return "undecided"
    if forecast == "undecided":
        return "measured, not forecast"
    return "agrees" if (difference > 0.0) == (forecast == "gain") else "contradicts"
