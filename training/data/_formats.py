"""The two published binary formats: idx (MNIST, FashionMNIST) and the CIFAR-10 binary version."""

import math

import numpy as np
from numpy.typing import NDArray

_IDX_MAGIC = {0x00000801: 1, 0x00000803: 3}  # unsigned bytes with one axis (labels) or three (images)
_CIFAR_SHAPE = (3, 32, 32)
_CIFAR_ROW = 1 + math.prod(_CIFAR_SHAPE)


class DataFileError(ValueError):
    """A data file that is there but is not what was published: unreadable, truncated or altered. Raised by :func:`load`."""


def parse_idx(content: bytes, name: str) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes.

    Layout: a big-endian 32-bit magic number (0x801 for labels, 0x803 for images), one 32-bit length per axis, then
    the bytes with the last axis fastest.

    Args:
        content: the whole uncompressed file.
        name: the file's name, for the error message.

    Returns:
        Array of shape (N,) for labels, (N, height, width) for images.

    Raises:
        DataFileError: the magic number is another one, or the size does not match the lengths in the header.

    Example: three labels, as a file of bytes in one dimension.
        >>> from dptheory.training.data import parse_idx
        >>> parse_idx(bytes.fromhex("00000801 00000003 070009"), "labels").tolist()
        [7, 0, 9]
    """
    magic = int.from_bytes(content[:4], "big")
    if len(content) < 4 or magic not in _IDX_MAGIC:
        raise DataFileError(
            f"{name}: {len(content):,} bytes beginning with {content[:4].hex() or 'nothing'}; "
            "expected an idx file of unsigned bytes, which begins with 00000801 (labels) or 00000803 (images)"
        )
    header = 4 + 4 * _IDX_MAGIC[magic]
    if len(content) < header:
        raise DataFileError(f"{name}: {len(content):,} bytes; expected an idx header of {header} bytes")
    shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, header, 4))
    expected = header + math.prod(shape)
    if len(content) != expected:
        raise DataFileError(f"{name}: {len(content):,} bytes; expected {expected:,} for shape {shape}")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def parse_cifar10(content: bytes, name: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Read a file of the CIFAR-10 binary version: rows of one label byte and 3 x 32 x 32 pixel bytes.

    Args:
        content: the whole file.
        name: the file's name, for the error message.

    Returns:
        Images of shape (N, 3, 32, 32) and labels of shape (N,).

    Raises:
        DataFileError: the size is not a whole number of rows, or a label is above 9.

    Example: one black image of class 3.
        >>> from dptheory.training.data import parse_cifar10
        >>> images, labels = parse_cifar10(bytes([3]) + bytes(3072), "batch")
        >>> images.shape, labels.tolist()
        ((1, 3, 32, 32), [3])
    """
    if not content or len(content) % _CIFAR_ROW:
        raise DataFileError(f"{name}: {len(content):,} bytes; expected a positive multiple of {_CIFAR_ROW:,}")
    rows = np.frombuffer(content, np.uint8).reshape(-1, _CIFAR_ROW)
    labels = rows[:, 0]
    if labels.max() > 9:
        raise DataFileError(f"{name}: {len(content):,} bytes, with the label {labels.max()}; expected labels 0 to 9")
    return rows[:, 1:].reshape(-1, *_CIFAR_SHAPE), labels
