"""The validation run: train, and compare at the start, in the middle and at the end."""

import sys
from dataclasses import dataclass

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training._streams import simulation
from dptheory.training.data import Images, load
from dptheory.training.networks import IMAGE_SHAPE
from dptheory.training.probe import DATA
from dptheory.training.runs import accuracy
from dptheory.training.validate._rows import Row
from dptheory.training.validate._rows_angles import angle_rows
from dptheory.training.validate._rows_attack import attack_rows
from dptheory.training.validate._rows_clipping import clipping_rows, kappa_rows
from dptheory.training.validate._rows_embedding import embedding_rows, projection_rows
from dptheory.training.validate._rows_mse import mse_rows
from dptheory.training.validate._rows_pruning import pruning_rows, ranking_rows
from dptheory.training.validate._settings import ValidateSettings
from dptheory.training.validate._snapshot import Snapshot, prepare, snapshots


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What was compared at the weights of one step.

    Attributes:
        name: "start", "middle" or "end".
        step: updates made before.
        batch_size: examples in the step's Poisson batch.
        rows: predictions beside measurements.
        notes: what could not be compared, and why.
    """

    name: str
    step: int
    batch_size: int
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Validation:
    """A whole validation run.

    Attributes:
        data: the image set.
        train_images, test_images: how many there were.
        settings: how it was trained, and what was measured.
        moments: start, middle and end.
        accuracy: of the trained network on the test images, in [0, 1].

    Example: one row that agrees, as a summary, a table and a file.
        >>> import tempfile
        >>> from pathlib import Path
        >>> import torch
        >>> from dptheory.training.runs import DpSgdSettings
        >>> from dptheory.training.validate import Moment, Row, ValidateSettings, Validation, row_table, summary, to_dict, write_json
        >>> row = Row(group="noise", quantity="|Z|^2", setting="", claims="gip.norm", predicted=4.0, measured=4.4,
        ...     standard_error=0.1)
        >>> settings = ValidateSettings(DpSgdSettings(
        ...     steps=20, batch_size=50, noise_multiplier=1.0, max_grad_norm=1.0, learning_rate=0.1, seed=0))
        >>> moment = Moment(name="start", step=0, batch_size=50, rows=(row,), notes=())
        >>> result = Validation(data="excerpt", train_images=2000, test_images=500, settings=settings, moments=(moment,),
        ...     accuracy=0.1)
        >>> print(summary(result))
        1 of 1 rows that need no assumption agree within 5 SE; 0 of 0 that rest on one; test accuracy 10.0% on 500 images
        >>> result.broken, row_table(moment).row_count, to_dict(result, torch.device("cpu"))["rows"][0]["within"]
        ([], 2, True)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_json(result, torch.device("cpu"), Path(folder) / "validation.json")
    """

    data: str
    train_images: int
    test_images: int
    settings: ValidateSettings
    moments: tuple[Moment, ...]
    accuracy: float

    @property
    def broken(self) -> list[tuple[Moment, Row]]:
        """Rows that need no assumption, and yet do not agree."""
        return [(moment, row) for moment in self.moments for row in moment.rows if row.broken]


def validate(data: str, settings: ValidateSettings, device: torch.device) -> Validation:
    """Run the validation on a data set: train, and compare at the start, in the middle and at the end.

    Args:
        data: "excerpt", "fashion-mnist" or "mnist".
        settings: see :class:`ValidateSettings`.
        device: where to train and to compute gradients; they are compared on the CPU.

    Returns:
        Predictions beside measurements, each row with the ids of the claims that it rests on.

    Raises:
        ValueError: a value outside its range.
        OSError: the data files are missing and cannot be fetched.
    """
    _validate.choice("data", data, DATA)
    return validate_images(load(name=data, train=True), load(name=data, train=False), settings, device)


def validate_images(train: Images, test: Images, settings: ValidateSettings, device: torch.device) -> Validation:
    """:func:`validate` for given images; the auxiliary images are test images.

    Args:
        train, test: images of shape 1 x 28 x 28.
        settings: see :class:`ValidateSettings`.
        device: where to train and to compute gradients; they are compared on the CPU.

    Returns:
        Predictions beside measurements, each row with the ids of the claims that it rests on.

    Raises:
        ValueError: images of another shape than 1 x 28 x 28, or too few for the settings.
    """
    for images in (train, test):
        if tuple(images.pixels.shape[1:]) != IMAGE_SHAPE:
            raise ArgumentError("images", f"have the shape {IMAGE_SHAPE}", tuple(images.pixels.shape[1:]))
    trainer = prepare(train, test.pixels, settings, device)
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        training = progress.add_task("training", total=settings.training.steps)
        taken = snapshots(trainer, settings, lambda: progress.advance(training))
        measuring = progress.add_task("measuring", total=len(taken))
        moments = []
        for number, snapshot in enumerate(taken):
            with simulation():  # measured bit for bit again
                moments.append(_moment(snapshot, settings, settings.stream(number)))
            progress.advance(measuring)
    trainer.synchronize()
    return Validation(
        data=train.name,
        train_images=len(train),
        test_images=len(test),
        settings=settings,
        moments=tuple(moments),
        accuracy=accuracy(trainer.plain, test, device),
    )


def _moment(snapshot: Snapshot, settings: ValidateSettings, seed: int) -> Moment:
    generator, rng = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    kappas, notes = kappa_rows(snapshot, settings, generator)
    rows = [
        *mse_rows(snapshot, settings, generator),
        *clipping_rows(snapshot, settings),
        *kappas,
        *pruning_rows(snapshot, settings, rng),
        *ranking_rows(snapshot, settings, generator),
        *angle_rows(snapshot, settings, generator),
        *projection_rows(snapshot, settings, generator),
        *embedding_rows(snapshot, settings, generator),
        *attack_rows(snapshot, settings, rng),
    ]
    return Moment(name=snapshot.name, step=snapshot.step, batch_size=len(snapshot.batch), rows=tuple(rows), notes=notes)
