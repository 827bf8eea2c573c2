"""Which records replace which in a dry batch: far ones first, of another label, length or content."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

CANDIDATES = 128
"""Records of the data that are read to choose from."""
_BLOCK = 4
_ENTRIES = 1024
"""Of a tensor that are compared, evenly spread."""


Parts = list[NDArray[Any]]
"""The numbers, tensors and texts of a record, in order."""


def read(data: Dataset[Any], indices: Sequence[int]) -> list[Parts]:
    """The parts of some records; none where the records cannot be read here."""
    try:
        return [_parts(data[index]) for index in indices]
    except Exception:  # a data set that only its workers can read: then any record will do
        return [[] for _ in indices]


def distances(rows: list[Parts], candidates: list[Parts]) -> NDArray[Any]:
    """How far records are from one another, (rows, candidates): the sum over their parts of label, length and content.

    Of each part their difference as a share of their sizes, in [0, 1], and 1 more where they are whole numbers (labels, lengths); of
    tensors and texts also the difference of their numbers of entries that are no padding, likewise.
    """
    total = np.zeros((len(rows), len(candidates)))
    for column in range(min(map(len, (*rows, *candidates)))):
        total += _difference([record[column] for record in rows], [record[column] for record in candidates])
    return total


def lengths(records: list[Parts]) -> NDArray[Any]:
    """Of each record the number of entries in its tensors and texts that are no padding, zero or -100 in whole numbers."""
    whole = [[v for v in record if v.ndim] for record in records]
    return np.array(
        [sum(np.count_nonzero((v != 0) & (v != -100)) if v.dtype.kind == "i" else v.size for v in one) for one in whole]
    )


def longest(records: list[Parts]) -> NDArray[Any]:
    """Of each record whether one of its tensors or texts is as long as any, where not all are; all of one length are not."""
    found = np.zeros(len(records), dtype=bool)
    for column in range(min(map(len, records))):
        own = lengths([record[column : column + 1] for record in records])
        found |= (own == own.max()) & (own.min() < own.max())
    return found


def labels(records: list[Parts]) -> list[int]:
    """Of each record the first whole number that several records share; 0 where there is none."""
    for column in range(min(map(len, records))):
        values = [record[column] for record in records]
        if all(v.ndim == 0 and v.dtype.kind == "i" for v in values):
            found = [int(v) for v in values]
            if 1 < len(set(found)) <= max(2, len(found) // 2):
                return found
    return [0] * len(records)


def replacements(
    rows: list[Parts], candidates: list[Parts], same: NDArray[Any], rng: np.random.Generator
) -> tuple[dict[int, int], dict[int, int]]:
    """Which candidates take whose places: the farthest of the longest that of one row, those of one label half of the places.

    Where something divides by a number of labels, that number changes: the label is the one that the batch has least of, and a
    row of every label goes where the batch has several.

    Args:
        rows: records of the batch.
        candidates: to choose from.
        same: (rows, candidates), where they are one record.
        rng: breaks ties.
    """
    far = distances(rows, candidates) + 1e-6 * rng.random(same.shape)
    far[same] = -1.0
    long = lengths(candidates)
    row, candidate = np.unravel_index(np.where(long == long.max(), far, -2.0).argmax(), far.shape)
    found = labels([*rows, *candidates])
    own, other = np.array(found[: len(rows)]), np.array(found[len(rows) :])
    known, counts = np.unique(other, return_counts=True)
    held = np.array([np.count_nonzero(own == label) for label in known])
    rarest = known[np.lexsort((rng.random(len(known)), counts, held))[0]]
    order = sorted(set(range(len(rows))) - _kept(own, rng))
    score = rng.random(same.shape) * (far + 1.0) - np.where(other == rarest, 0.0, far.max() + 2.0) - 1e9 * same
    return {int(row): int(candidate)}, {
        int(place): int(score[place].argmax()) for place in order if not same[place].all()
    }


def _kept(own: NDArray[Any], rng: np.random.Generator) -> set[int]:
    """Rows that stay: two of each four in a row, so that every part of a batch has some; never all of a label, and of two labels."""
    kept: set[int] = set()
    for block in range(0, max(1, len(own) - len(own) % _BLOCK), _BLOCK):
        rows = rng.permutation(np.arange(block, min(block + _BLOCK, len(own)))).tolist()
        here: list[int] = []
        for _ in range(max(1, len(rows) // 2)):
            taken = [own[row] for row in (*kept, *here)]

            def rank(row: int, taken: list[int] = taken, here: list[int] = here) -> tuple[bool, bool]:
                last = int(np.count_nonzero(own == own[row])) - taken.count(own[row]) <= 1
                return last, any(own[row] == own[other] for other in here)

            here.append(min((row for row in rows if row not in here), key=rank))
        kept |= set(here)
    return kept


def _difference(rows: list[NDArray[Any]], candidates: list[NDArray[Any]]) -> NDArray[Any]:
    own, other = (np.array([np.count_nonzero(v != -100) for v in side], float) for side in (rows, candidates))
    nonzero = [np.array([np.count_nonzero(v) for v in side], float) for side in (rows, candidates)]
    found: NDArray[Any] = _share(own[:, None], other[None]) + _share(nonzero[0][:, None], nonzero[1][None])
    if len({v.shape for v in (*rows, *candidates)}) > 1:
        return found
    first, second = np.stack(rows)[:, None], np.stack(candidates)[None]
    if first.shape[2:] == () and np.issubdtype(first.dtype, np.integer):
        gap = np.abs(first.astype(float) - second)
        unlike: NDArray[Any] = (gap > 0.0) + gap / np.maximum(1.0, np.abs(first.astype(float)) + np.abs(second))
        return unlike
    first, second = first.reshape(len(rows), 1, -1).astype(float), second.reshape(1, len(candidates), -1).astype(float)
    gap = np.sqrt(((first - second) ** 2).sum(2))
    sizes = np.sqrt((first**2).sum(2)) + np.sqrt((second**2).sum(2))
    found = np.nan_to_num(found + gap / np.maximum(sizes, 1e-300), posinf=1.0, neginf=1.0)
    return found


def _share(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = np.abs(a - b) / np.maximum(np.maximum(a, b), 1.0)
    return found


def _parts(record: Any) -> Parts:
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
        there = record.detach().cpu()
        return _parts((there.float() if there.is_floating_point() else there).numpy())
    found = np.asarray(record)
    return [_thinned(found)] if found.dtype.kind in "biuf" else []


def _thinned(values: NDArray[Any]) -> NDArray[Any]:
    values = values.astype(np.int64) if values.dtype.kind in "bu" else values
    if values.ndim == 0 or values.size <= _ENTRIES:
        return values
    return values.reshape(-1)[:: -(-values.size // _ENTRIES)]
