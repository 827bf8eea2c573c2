"""A plan from what a command line holds: numbers and files."""

from collections.abc import Sequence
from pathlib import Path

from dptheory import _validate
from dptheory.planning._compare import compare_runs
from dptheory.planning._plan import plan
from dptheory.planning._records import PlannedTraining
from dptheory.planning._setup import TrainingSetup
from dptheory.planning._shipped import shipped_names, shipped_statistics
from dptheory.planning._statistics import read_statistics


def plan_training(
    *,
    num_examples: int,
    epsilon: float,
    delta: float,
    dim: int | None = None,
    layer_sizes: Sequence[int] | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    clip_norm: float | None = None,
    learning_rate: float | None = None,
    max_epochs: int = 100,
    stats: Path | None = None,
    like: str | None = None,
    runs: Sequence[Path] = (),
) -> PlannedTraining:
    """A plan in one call: setup, statistics from a file or shipped ones, finished runs.

    Args:
        num_examples, epsilon, delta, dim, layer_sizes, batch_size, epochs, clip_norm, learning_rate, max_epochs: as for
            :class:`TrainingSetup`; without ``dim`` and ``layer_sizes`` the layers are those of the statistics.
        stats: file of statistics measured on the user's own network.
        like: name of shipped statistics, which are then borrowed, in place of ``stats``.
        runs: as for :func:`compare_runs`.

    Returns:
        The plan, and the results of the runs.

    Raises:
        ValueError: an argument outside its range, or both ``stats`` and ``like``.
        OSError: a file that cannot be read.

    Source: new, on RF, section 2.2 (rf.mse_criterion, rs.tuned).

    Example: with the statistics of the project's own small network.
        >>> from dptheory.planning import plan_training
        >>> found = plan_training(num_examples=60_000, epsilon=3.0, delta=1e-5, batch_size=60_000, epochs=10, clip_norm=1.0,
        ...                       like="small-cnn/mnist").plan
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
    if dim is None and layer_sizes is None and measured is not None:
        layer_sizes = measured.layer_sizes
    setup = TrainingSetup(
        num_examples=num_examples,
        epsilon=epsilon,
        delta=delta,
        dim=dim,
        layer_sizes=layer_sizes,  # type: ignore[arg-type]
        batch_size=batch_size,
        epochs=epochs,
        clip_norm=clip_norm,
        learning_rate=learning_rate,
        max_epochs=max_epochs,
    )
    found = plan(setup, stats=measured, borrowed=like is not None)
    return PlannedTraining(plan=found, results=compare_runs(found, runs=runs))
