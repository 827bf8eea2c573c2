"""Real images: files checked against published sums, read and standardised."""

from dptheory.training.data._augmentation import CropsAndFlips
from dptheory.training.data._files import (
    Archive,
    DataFile,
    DataFileError,
    DataMissingError,
    data_folder,
    fetch_missing,
    parse_cifar10,
    parse_idx,
    read_checked,
)
from dptheory.training.data._images import CHANNELS, NAMES, Images, load, standardised

__all__ = [
    "CHANNELS",
    "NAMES",
    "Archive",
    "CropsAndFlips",
    "DataFile",
    "DataFileError",
    "DataMissingError",
    "Images",
    "data_folder",
    "fetch_missing",
    "load",
    "parse_cifar10",
    "parse_idx",
    "read_checked",
    "standardised",
]
