"""The forecast beside finished runs: reads the folders that ``dptheory run`` writes, JSON alone."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from dptheory import _validate
from dptheory.planning._config import CONFIGURED
from dptheory.planning._records import MethodResult, Plan
from dptheory.planning._signal import LEVEL

_METRICS = "metrics.json"
_NEAR = 0.02
_LARGEST = 1e12
"""Of a number in a run that is no noise multiplier."""


@dataclass(frozen=True)
class _Run:
    method: str
    trained_on: tuple[Any, Any]
    accuracy: float
    epsilon: float
    planned: bool


def compare_runs(plan: Plan, *, runs: Sequence[Path]) -> tuple[MethodResult, ...]:
    """What finished runs say of a plan's forecasts, method by method.

    A forecast is of the descent of a step, a run has an accuracy: they are held against each other by their order alone. The
    difference from DP-SGD's mean accuracy gets a 95 % interval by Student's t with the degrees of freedom of the smaller group,
    for which both methods need two runs or more.

    A run is as planned where it is of SGD, batch size, epochs, delta and number of training images are the plan's, and noise
    multiplier, clip and the setting of the method are within 2 % of its own. What the plan leaves open may be anything, and so
    may the learning rate: forecasts are of each method at its best one. Where a run of the method or of DP-SGD is not as
    planned, the outcome is "not as planned".

    Args:
        plan: of :func:`dptheory.planning.plan`.
        runs: folders with a ``metrics.json``, or such files, each once, of one data set and one network; runs of one method may
            differ in nothing but the seed for the interval to mean something.

    Returns:
        One result per method that the runs have, in the order of the runs.

    Raises:
        ValueError: a run given twice, runs of different data or networks, or a file that is no result of a run: no finished
            epoch, an accuracy outside [0, 1], another entry that is missing or outside its range. The message names the file
            and the entry.
        OSError: a file that cannot be read.

    Source: new, on RF, section 2.2 (rf.mse_criterion).

    Example: one finished run of DP-SGD.
        >>> import json, tempfile
        >>> from pathlib import Path
        >>> from dptheory.planning import TrainingSetup, compare_runs, plan
        >>> found = plan(TrainingSetup(num_examples=1000, epsilon=3.0, delta=1e-5, dim=2000, batch_size=1000, epochs=10))
        >>> config = {"data": "excerpt", "model": "small-cnn", "batch_size": 1000, "epochs": 10, "max_grad_norm": 1.0,
        ...     "delta": 1e-5, "optimizer": {"name": "sgd", "learning_rate": 2.0}, "mechanism": {"name": "dp-sgd"}}
        >>> metrics = {"config": config, "noise_multiplier": 4.5, "training_images": 1000, "privacy": {"epsilon": 2.9},
        ...     "epochs": [{"test_accuracy": 0.7}]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / "metrics.json").write_text(json.dumps(metrics))
        ...     (result,) = compare_runs(found, runs=[Path(folder)])
        >>> result.method, result.accuracy, result.difference, result.outcome
        ('dp-sgd', 0.7, 0.0, 'reference')
    """
    _validate.instance("plan", plan, Plan)
    if not isinstance(runs, list | tuple) or not all(isinstance(path, Path) for path in runs):
        raise ValueError(f"runs must be a row of paths, got {_validate.shown(runs)}")
    files = [path / _METRICS if path.is_dir() else path for path in runs]
    if len({file.resolve() for file in files}) < len(files):
        raise ValueError(f"runs must differ from each other, got {[str(path) for path in runs]}")
    read = [_read(plan, file) for file in files]
    trained_on = dict.fromkeys(one.trained_on for one in read)
    if len(trained_on) > 1:
        raise ValueError(f"runs must be of one data set and one network, got {_validate.shown(list(trained_on))}")
    names = dict.fromkeys(one.method for one in read)
    return tuple(_result(plan, name, read) for name in names)


def _read(plan: Plan, file: Path) -> _Run:
    try:
        return _run(plan, json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"runs must be results of dptheory run, got {file}: {error}") from None


def _run(plan: Plan, found: Any) -> _Run:
    epochs = _validate.instance("epochs", _entry(found, "epochs"), list)
    if not epochs:
        raise ValueError("it has no finished epoch")
    method = _word(found, "config.mechanism.name")
    spent = _entry(found, "privacy.epsilon")
    return _Run(
        method=method,
        trained_on=(_word(found, "config.data"), _word(found, "config.model")),
        accuracy=_validate.real("epochs.test_accuracy", _entry(epochs[-1], "test_accuracy"), 0.0, 1.0),
        epsilon=math.inf if spent is None else _validate.real("privacy.epsilon", spent, 0.0, ends="[)"),
        planned=_as_planned(plan, method, found),
    )


def _entry(found: Any, name: str) -> Any:
    """What stands under a name such as ``config.data``."""
    for key in name.split("."):
        if not isinstance(found, dict) or key not in found:
            raise ValueError(f"it has no {name}")
        found = found[key]
    return found


def _word(found: Any, name: str) -> str:
    return _validate.instance(name, _entry(found, name), str)


def _as_planned(plan: Plan, method: str, found: Any) -> bool:
    """Whether a run has what the plan fixes."""
    same = {
        "config.batch_size": plan.batch_size.value,
        "config.epochs": plan.epochs.value,
        "config.delta": plan.setup.delta,
        "config.optimizer.name": "sgd",
        "training_images": plan.setup.num_examples,
    }
    near = {
        "noise_multiplier": (plan.noise_multiplier, 1e6),
        "config.max_grad_norm": (plan.clip_norm.value, _LARGEST),
    }
    read = {name: _validate.real(name, _entry(found, name), 0.0, most) for name, (_, most) in near.items()}
    return (
        all(_entry(found, name) == value for name, value in same.items())
        and all(value is None or _near(read[name], value) for name, (value, _) in near.items())
        and all(_near(found["config"]["mechanism"].get(name), value) for name, value in _setting(plan, method).items())
    )


def _near(value: object, wanted: float) -> bool:
    return isinstance(value, int | float) and abs(value - wanted) <= _NEAR * wanted


def _setting(plan: Plan, method: str) -> dict[str, float]:
    """What the forecast of a method says of its table [mechanism]."""
    parts = next((one.parts for one in plan.methods if one.method == method), ())
    return {part.name: part.value for part in parts if part.name in CONFIGURED.get(method, ())}


def _result(plan: Plan, method: str, read: Sequence[_Run]) -> MethodResult:
    own = [one for one in read if one.method == method]
    scores = np.array([one.accuracy for one in own])
    base = np.array([one.accuracy for one in read if one.method == "dp-sgd"])
    base_planned = all(one.planned for one in read if one.method == "dp-sgd")
    planned = all(one.planned for one in own)
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
        planned=planned,
        forecast=forecast,
        outcome=_outcome(method, forecast, difference, reach, planned=planned and base_planned),
    )


def _outcome(method: str, forecast: str, difference: float | None, reach: float | None, *, planned: bool) -> str:
    if method == "dp-sgd":
        return "reference"
    if not planned:
        return "not as planned"
    if difference is None or reach is None or abs(difference) <= reach:
        return "undecided"
    if forecast == "undecided":
        return "measured, not forecast"
    return "agrees" if (difference > 0.0) == (forecast == "gain") else "contradicts"
