"""Scattering coefficients of a data set, computed once per machine and kept beside the data."""

import os
from pathlib import Path

import joblib
import numpy as np
import torch
from numpy.typing import NDArray

from dptheory.training.data import data_folder
from dptheory.training.networks import scattering_features

_FOLDER = "scattering"
_LEAST = 1000
"""Images, below which the coefficients are computed faster than they are read."""


def kept_features(pixels: torch.Tensor) -> torch.Tensor:
    """What :func:`dptheory.training.networks.scattering_features` gives, from a file where the same images had theirs computed before.

    The file lies in the folder ``scattering`` of the data folder: 3.1 GB for the 50,000 training images of CIFAR-10, which take
    minutes to compute. Runs at the same time share its memory. Where the folder cannot be written nothing is kept.

    Args:
        pixels: shape (n, channels, 32, 32), float32, on the CPU.

    Returns:
        Shape (n, 81 channels, 8, 8).
    """
    folder = data_folder() / _FOLDER
    if len(pixels) < _LEAST or not _writable(folder):
        return scattering_features(pixels)
    memory = joblib.Memory(folder, mmap_mode="c", verbose=0)
    return torch.from_numpy(memory.cache(_computed)(pixels.numpy()))


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _computed(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = scattering_features(torch.from_numpy(pixels)).numpy()
    return found
