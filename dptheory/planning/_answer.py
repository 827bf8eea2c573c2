"""A plan from what a command line holds: numbers and files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dptheory import _validate
from dptheory.planning._compare import compare_runs
from dptheory.planning._plan import plan
from dptheory.planning._records import PlannedTraining
from dptheory.planning._setup import TrainingSetup
from dptheory.planning._shipped import shipped_names, shipped_statistics
from dptheory.planning._statistics import read_statistics


def plan_training(
    setup: Mapping[str, Any], *, stats: Path | None, like: str | None, runs: Sequence[Path]
) -> PlannedTraining:
    """A plan in one call: setup, statistics from a file or shipped ones, finished runs; what ``dptheory plan`` calls.

    Args:
        setup: arguments of :class:`TrainingSetup`; without ``dim`` and ``layer_sizes`` the layers are those of the statistics.
            Where both ``epochs`` and ``max_epochs`` are given, the first is at most the second.
        stats: file of statistics measured on the user's own network; or None.
        like: name of shipped statistics, which are then borrowed, in place of ``stats``; or None.
        runs: as for :func:`compare_runs`.

    Returns:
        The plan, and the results of the runs.

    Raises:
        ValueError: an argument outside its range, or both ``stats`` and ``like``.
        OSError: a file that cannot be read.

    Source: new, on RF, section 2.2 (rf.mse_criterion, rs.tuned).

    Example: with the statistics of the project's own small network.
        >>> from dptheory.planning import plan_training
        >>> setup = {"num_examples": 60_000, "epsilon": 3.0, "delta": 1e-5, "batch_size": 60_000, "epochs": 10, "clip_norm": 1.0}
        >>> found = plan_training(setup, stats=None, like="small-cnn/mnist", runs=[]).plan
        >>> found.statistics, found.borrowed, found.setup.dim
        ('small-cnn/mnist', True, 26010)
    """
    if stats is not None and like is not None:
        raise ValueError(f"stats must be left out where like={like!r} is given, got {str(stats)!r}")
    measured = None
    if stats is not None:
        measured = read_statistics(_validate.instance("stats", stats, Path))
    elif like is not None:
        measured = shipped_statistics(_validate.choice("like", like, shipped_names()))
    given = dict(_validate.instance("setup", setup, Mapping))  # type: ignore[type-abstract]
    if given.get("dim") is None and given.get("layer_sizes") is None and measured is not None:
        given["layer_sizes"] = measured.layer_sizes
    asked = TrainingSetup(**given)
    if asked.epochs is not None and "max_epochs" in given and asked.epochs > asked.max_epochs:
        raise ValueError(f"epochs must be at most max_epochs = {asked.max_epochs}, got {asked.epochs}")
    found = plan(asked, stats=measured, borrowed=like is not None)
    return PlannedTraining(plan=found, results=compare_runs(found, runs=runs))
