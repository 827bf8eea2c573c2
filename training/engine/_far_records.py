"""Which records replace which in a dry batch: far ones first, of another label, length or content."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

CANDIDATES = 128
"""Records of the data that are read to choose from."""
_ENTRIES = 1024
"""Of a tensor that are compared, evenly spread."""


def distances(data: Dataset[Any], rows: list[int], candidates: list[int]) -> np.ndarray:
    """How far records are from one another, (rows, candidates): the sum over their parts of label, length and content.

    Args:
        data: the data set.
        rows, candidates: indices.

    Returns:
        Of each part 1 where two numbers differ that are whole (labels), else their difference as a share of their sizes, in
        [0, 1]; of tensors and texts also the difference of their numbers of entries that are no padding, likewise. All zero
        where the records cannot be read here.
    """
    try:
        parts = [_parts(data[index]) for index in (*rows, *candidates)]
    except Exception:  # a data set that only its workers can read: then any record will do
        return np.zeros((len(rows), len(candidates)))
    total = np.zeros((len(rows), len(candidates)))
    for column in range(min(map(len, parts))):
        values = [record[column] for record in parts]
        total += _difference(values[: len(rows)], values[len(rows) :])
    return total


def _difference(rows: list[np.ndarray], candidates: list[np.ndarray]) -> np.ndarray:
    own, other = (np.array([np.count_nonzero(v != -100) for v in side], float) for side in (rows, candidates))
    nonzero = [np.array([np.count_nonzero(v) for v in side], float) for side in (rows, candidates)]
    found = _share(own[:, None], other[None]) + _share(nonzero[0][:, None], nonzero[1][None])
    if len({v.shape for v in (*rows, *candidates)}) > 1:
        return found
    first, second = np.stack(rows)[:, None], np.stack(candidates)[None]
    if first.shape[2:] == () and np.issubdtype(first.dtype, np.integer):
        return (first != second).astype(float)
    first, second = first.reshape(len(rows), 1, -1).astype(float), second.reshape(1, len(candidates), -1).astype(float)
    gap = np.sqrt(((first - second) ** 2).sum(2))
    sizes = np.sqrt((first**2).sum(2)) + np.sqrt((second**2).sum(2))
    return np.nan_to_num(found + gap / np.maximum(sizes, 1e-300), posinf=1.0, neginf=1.0)


def _share(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.abs(a - b) / np.maximum(np.maximum(a, b), 1.0)


def _parts(record: Any) -> list[np.ndarray]:
    """The numbers, tensors and texts of a record, in order, as arrays."""
    if isinstance(record, str | bytes):
        return [np.ones(len(record), dtype=np.int64)]
    if isinstance(record, Mapping):
        return [part for key in record for part in _parts(record[key])]
    if isinstance(record, list | tuple):
        if record and all(isinstance(one, int | float) for one in record):
            return [_thinned(np.asarray(record))]
        return [part for one in record for part in _parts(one)]
    if isinstance(record, torch.Tensor):
        found = record.detach().cpu()
        return _parts((found.float() if found.is_floating_point() else found).numpy())
    found = np.asarray(record)
    return [_thinned(found)] if found.dtype.kind in "biuf" else []


def _thinned(values: np.ndarray) -> np.ndarray:
    values = values.astype(np.int64) if values.dtype.kind in "bu" else values
    if values.ndim == 0 or values.size <= _ENTRIES:
        return values
    return values.reshape(-1)[:: -(-values.size // _ENTRIES)]
