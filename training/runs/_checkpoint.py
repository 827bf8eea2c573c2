"""State of a run on disk: written whole or not at all."""

import csv
import dataclasses
import hashlib
import io
import json
import math
import pickle
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from dptheory.errors import ArgumentError
from dptheory.files import write_atomically
from dptheory.training import engine
from dptheory.training._machine import only_here
from dptheory.training.runs._own import is_file

if TYPE_CHECKING:
    from dptheory.training.runs._prepare import Run

STATE, CSV, JSON, LOCK, WEIGHTS = "checkpoint.pt", "metrics.csv", "metrics.json", ".lock", "model.pt"
STATEMENT, STATEMENT_JSON = "statement.md", "statement.json"
_FILES = (STATE, CSV, JSON, STATEMENT, STATEMENT_JSON, WEIGHTS)
_OWNER = 0o600
"""Of files with losses, accuracies and counts that no noise protects: only their owner can read them."""
_KEYS = ("config", "model", "optimizer", "step", "losses", "seen", "seconds", "spent", "rows")
_MAY_DIFFER = ("physical_batch_size",)
"""What a resumed run may be given anew: how much memory to take. Noise and schedules depend on the epochs."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs out of the folder, which is made where there is none."""
    with ExitStack() as held:
        refusal: Exception | None = None
        if engine.first():
            try:
                held.enter_context(only_here(folder, LOCK))
            except BlockingIOError:
                refusal = ArgumentError.about(
                    "out",
                    folder,
                    f"out={folder} is in use by a run under way; wait for its end, or name another folder with --out",
                )
            except OSError as error:
                refusal = OSError(f"out={folder} must be a folder, or one that can be made: {error.strerror}")
        if engine.summed(refusal is not None, engine.communicating()) > 0:  # so that no process waits for the first
            raise refusal or ArgumentError.about("out", folder, f"out={folder} was refused to the first process")
        yield


def save_all(run: "Run", folder: Path) -> None:
    """Write what the run has spent, and then its state: no file says less than the state has spent, wherever it stops.

    A statement and weights of fewer steps go: new ones take seconds, and are written at the end.
    """
    for name in (STATEMENT, STATEMENT_JSON, WEIGHTS):
        (folder / name).unlink(missing_ok=True)
    write_metrics(run, folder)
    save(run, folder)


def save(run: "Run", folder: Path) -> None:
    """Write all that the rest of the run depends on."""
    state = {
        "config": run.config.as_dict(),
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "step": run.step,
        "losses": run.losses,
        "seen": run.seen,
        "seconds": run.seconds,
        "spent": run.spent,
        "rows": run.rows,
    }
    if run.mean is not None:  # what the run gives, and where it goes on
        state["average"] = run.mean.state_dict()
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_atomically(folder / STATE, buffer.getvalue(), mode=_OWNER)


def refuse_to_overwrite(folder: Path) -> None:
    """Keep what an earlier run has finished."""
    if (folder / STATE).exists():
        raise ArgumentError.about(
            "out",
            folder,
            f"out={folder} holds the state of a run; go on with --resume, or name another folder with --out",
        )
    left = [name for name in _FILES if (folder / name).exists()]
    if left:
        raise ArgumentError.about(
            "out",
            folder,
            f"out={folder} holds {', '.join(left)} of an earlier run; name another folder with --out, or remove them",
        )


def restore(run: "Run", folder: Path) -> None:
    """Put a run back to where it was saved."""
    path = folder / STATE
    if not path.exists():
        raise ArgumentError.about(
            "out", folder, f"out={folder} holds no {STATE} to resume from; leave out --resume to start"
        )
    state = _read(path, run.device)
    before = state["config"]
    now = run.config.as_dict()
    differ = [key for key in {**now, **before} if key not in _MAY_DIFFER and before.get(key) != now.get(key)]
    if differ:
        raise ArgumentError.about(
            STATE,
            differ,
            f"{path} belongs to another run: {', '.join(differ)} differ; resume with its own configuration",
        )
    try:
        run.optimizer.load_state_dict(state["optimizer"])
        run.model.load_state_dict(state["model"])
        if run.mean is not None:
            run.mean.load_state_dict(state["average"])
    except (RuntimeError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ArgumentError.about(
            STATE, path, f"{path} is not the state of this run: {type(error).__name__}: {error}"
        ) from error
    run.step, run.spent = state["step"], state["spent"]
    if engine.first():  # it was handed what all processes had summed up
        run.losses, run.seen, run.seconds = state["losses"], state["seen"], state["seconds"]
    run.rows.extend(state["rows"])


def _read(path: Path, device: torch.device) -> dict[str, Any]:
    try:
        state = torch.load(path, map_location=device, weights_only=True)
    except (RuntimeError, EOFError, KeyError, TypeError, ValueError, pickle.UnpicklingError) as error:
        raise ArgumentError.about(STATE, path, f"{path} is not the state of a run ({type(error).__name__})") from error
    if not isinstance(state, dict) or not isinstance(state.get("config"), dict):
        raise ArgumentError.about(STATE, path, f"{path} is not the state of a run: it holds no configuration")
    lacking = [key for key in _KEYS if key not in state]
    if lacking:
        raise ArgumentError.about(
            STATE, lacking, f"{path} is not the whole state of a run: it lacks {', '.join(lacking)}"
        )
    return state


def write_metrics(run: "Run", folder: Path) -> None:
    """The rows of all epochs, as CSV; with the configuration and the guarantee that holds, as JSON (infinity is null there)."""
    table = io.StringIO()
    writer = csv.DictWriter(table, fieldnames=list(run.rows[0]) if run.rows else ["epoch"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(run.rows)
    write_atomically(folder / CSV, table.getvalue(), mode=_OWNER)
    write_atomically(folder / JSON, json.dumps(metrics(run), indent=2, allow_nan=False) + "\n", mode=_OWNER)


def write_statement(run: "Run", folder: Path) -> None:
    """Write what the run says of its privacy, for readers and as JSON, into ``statement.md`` and ``statement.json``.

    It names the SHA-256 of the file that :func:`write_weights` writes, so that nobody takes it for that of other weights.

    Args:
        run: trained.
        folder: of the run.

    Raises:
        OSError: the folder cannot be written to; an old file then stays as it was.

    Example: the statement of a run that has not made a step yet.
        >>> import tempfile
        >>> from pathlib import Path
        >>> import torch
        >>> from dptheory.training.runs import from_dict, prepare, write_statement
        >>> config = from_dict({"data": "excerpt", "model": "linear-probe", "epochs": 1, "batch_size": 500, "max_grad_norm": 1.0,
        ...     "noise_multiplier": 2.0})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_statement(prepare(config, torch.device("cpu")), Path(folder))
        ...     print((Path(folder) / "statement.md").read_text().splitlines()[0])
        # Privacy statement
    """
    seeds = (
        ()
        if run.config.secure
        else (f"seed {run.config.seed} of the configuration, for weights, batches, masks and noise",)
    )
    found = run.optimizer.statement(run.config.delta, seeds=seeds)
    if found.adjacency != engine.ADD_REMOVE:
        found = replace(found, train_size=len(run.train))
    if is_file(run.config.data):
        # whatever the file holds: how many of its rows are equal is private, and the statement is published
        unit = f"{found.unit} (a row of the file; whoever has several rows in it is protected less)"
        found = replace(found, unit=unit)
    if run.mean is not None and run.mean.count:
        # The guarantee is of all weights of all steps: a function of them alone, as their mean, has it too.
        decay, count = run.config.average_decay, run.mean.count
        named = f"exponential average, decay {decay:g}," if decay else "mean"
        averaged = f"the {named} of the weights after the last {count} steps, which is covered, too"
        found = replace(found, output=f"{found.output}; {averaged}")
    # a function of the weights of the steps, and so covered as they are: it tells nothing that they do not
    mark = hashlib.sha256(_weights(run)).hexdigest()
    found = replace(found, output=f"{found.output}; the weights of this run, {WEIGHTS}, have the SHA-256 {mark}")
    write_atomically(folder / STATEMENT, found.markdown())
    write_atomically(folder / STATEMENT_JSON, found.json())


def write_weights(run: "Run", folder: Path) -> None:
    """Write the weights that the run gives, those that its accuracy is of, into ``model.pt``: averaged where it averages.

    Args:
        run: trained.
        folder: of the run.

    Raises:
        OSError: the folder cannot be written to; an old file then stays as it was.

    Example: a network of the same kind takes them over.
        >>> import tempfile
        >>> from pathlib import Path
        >>> import torch
        >>> from dptheory.training.runs import WEIGHTS, build_model, from_dict, prepare, write_weights
        >>> config = from_dict({"data": "excerpt", "model": "linear-probe", "epochs": 1, "batch_size": 500, "max_grad_norm": 1.0,
        ...     "noise_multiplier": 2.0})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_weights(prepare(config, torch.device("cpu")), Path(folder))
        ...     build_model("linear-probe", features=784, seed=1).load_state_dict(torch.load(Path(folder) / WEIGHTS))
        <All keys matched successfully>
    """
    write_atomically(folder / WEIGHTS, _weights(run))


def _weights(run: "Run") -> bytes:
    """What ``model.pt`` holds: of the same weights the same bytes."""
    with nullcontext() if run.mean is None else run.mean.inside():
        weights = {name: value.detach().cpu() for name, value in run.model.state_dict().items()}
        buffer = io.BytesIO()
        torch.save(weights, buffer)
    return buffer.getvalue()


def metrics(run: "Run") -> dict[str, Any]:
    """Configuration, guarantee and the rows of all epochs, as JSON has them: infinity is None.

    Args:
        run: prepared or trained.

    Returns:
        What ``metrics.json`` holds.

    Example: a run before its first step.
        >>> import torch
        >>> from dptheory.training.runs import from_dict, metrics, prepare
        >>> config = from_dict({"data": "excerpt", "model": "linear-probe", "epochs": 1, "batch_size": 500, "max_grad_norm": 1.0,
        ...     "noise_multiplier": 2.0})
        >>> found = metrics(prepare(config, torch.device("cpu")))
        >>> found["mechanism"], found["privacy"]["steps"], found["epochs"]
        ('DP-SGD', 0, [])
    """
    return {
        "config": run.config.as_dict(),
        "mechanism": run.optimizer.mechanism.title,
        "privacy": _plain(dataclasses.asdict(run.optimizer.privacy(run.config.delta))),
        "noise_multiplier": run.optimizer.noise_multiplier,
        "budget_spent": run.spent,
        "training_images": len(run.train),
        "test_images": len(run.test),
        "versions": {"torch": torch.__version__},
        "device": str(run.device),
        "epochs": [_plain(row) for row in run.rows],
    }


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with None for those that JSON has no number for."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}
