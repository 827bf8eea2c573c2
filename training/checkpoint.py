"""State of a run on disk: written whole or not at all."""

import csv
import io
import json
import math
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from dptheory.files import write_atomically
from training import distributed

if TYPE_CHECKING:
    from training.run import Run

STATE, CSV, JSON = "checkpoint.pt", "metrics.csv", "metrics.json"
_MAY_DIFFER = ("physical_batch_size",)
"""What a resumed run may be given anew: how much memory to take. Noise and schedules depend on the epochs."""


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
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_atomically(folder / STATE, buffer.getvalue())


def refuse_to_overwrite(folder: Path) -> None:
    """Keep what an earlier run has finished.

    Raises:
        ValueError: the folder holds the state of a run.
    """
    if (folder / STATE).exists():
        raise ValueError(
            f"out={folder} holds the state of a run; go on with --resume, or name another folder with --out"
        )


def restore(run: "Run", folder: Path) -> None:
    """Put a run back to where it was saved.

    Raises:
        ValueError: no state, one of another configuration, or a file that is none.
    """
    path = folder / STATE
    if not path.exists():
        raise ValueError(f"out={folder} holds no {STATE} to resume from; leave out --resume to start")
    try:
        state = torch.load(path, map_location=run.device, weights_only=True)
        before = state["config"]
    except (RuntimeError, EOFError, KeyError, TypeError, pickle.UnpicklingError) as error:
        raise ValueError(f"{path} is not the state of a run ({type(error).__name__})") from error
    now = run.config.as_dict()
    differ = [key for key in now if key not in _MAY_DIFFER and before.get(key) != now[key]]
    if differ:
        raise ValueError(
            f"{path} belongs to another run: {', '.join(differ)} differ; resume with its own configuration"
        )
    run.optimizer.load_state_dict(state["optimizer"])
    run.model.load_state_dict(state["model"])
    run.step, run.spent = state["step"], state["spent"]
    if distributed.first():  # it was handed what all processes had summed up
        run.losses, run.seen, run.seconds = state["losses"], state["seen"], state["seconds"]
    run.rows.extend(state["rows"])


def write_metrics(run: "Run", folder: Path) -> None:
    """The rows of all epochs, as CSV and, with the configuration, as JSON (infinite epsilon is null there)."""
    table = io.StringIO()
    writer = csv.DictWriter(table, fieldnames=list(run.rows[0]) if run.rows else ["epoch"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(run.rows)
    write_atomically(folder / CSV, table.getvalue())
    plain = [
        {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()} for row in run.rows
    ]
    done = {
        "config": run.config.as_dict(),
        "mechanism": run.optimizer.mechanism.title,
        "noise_multiplier": run.optimizer.noise_multiplier,
        "budget_spent": run.spent,
        "training_images": len(run.train),
        "test_images": len(run.test),
        "versions": {"torch": torch.__version__},
        "device": str(run.device),
        "epochs": plain,
    }
    write_atomically(folder / JSON, json.dumps(done, indent=2, allow_nan=False) + "\n")
