"""The validation run: train, and compare at the start, in the middle and at the end."""

import sys

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress

from dptheory import _validate
from dptheory.training._streams import simulation
from dptheory.training.data import Images, load
from dptheory.training.measure._probe import DATA, check_shape
from dptheory.training.measure._rows import Moment, Result
from dptheory.training.measure._settings import ValidateSettings
from dptheory.training.measure._snapshot import Snapshot, prepare, snapshots
from dptheory.training.measure._validation_rows import (
    angle_rows,
    attack_rows,
    clipping_rows,
    embedding_rows,
    kappa_rows,
    mse_rows,
    projection_rows,
    pruning_rows,
    ranking_rows,
)
from dptheory.training.runs import accuracy


def validate(data: str, settings: ValidateSettings, device: torch.device) -> Result:
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


def validate_images(train: Images, test: Images, settings: ValidateSettings, device: torch.device) -> Result:
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
        check_shape(images)
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
    return Result(
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
