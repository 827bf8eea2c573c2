"""The records of a run as its loader reads them: each once, in one copy for each tensor, with their views side by side."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset, default_collate

from dptheory.errors import ArgumentError

# --- A data set in which every record stands once: a copy would count as another record


def check_records(data: Dataset[Any]) -> None:
    """Refuse a data set that visibly, through subsets and concatenations, holds a record twice: it would count as two."""
    if not isinstance(data, Subset | ConcatDataset):
        return
    held = np.sort(_held(data, {}))  # np.unique is slower by far
    if copies := int(np.count_nonzero(held[1:] == held[:-1])):
        raise ArgumentError(
            "data_loader",
            "hold every record once",
            type(data).__name__,
            got=f"a {type(data).__name__} that holds some twice, {copies} of its {len(held)} records: epsilon is that of one "
            "copy, and a record in several is protected less; leave the copies out",
        )


_MOST = 1 << 40
"""Records of one data set."""


def _held(data: Dataset[Any], numbers: dict[Any, int]) -> NDArray[np.int64]:
    """A number for every record, the same for the same place of the same data set, through whatever subsets it came in.

    ``numbers`` holds those of data sets, and of keys that are no whole numbers.
    """
    if isinstance(data, ConcatDataset):
        return np.concatenate([_held(part, numbers) for part in data.datasets])
    if not isinstance(data, Subset):
        return _numbered(data, np.arange(len(data)), numbers)  # type: ignore[arg-type]
    places = np.asarray(data.indices)
    if isinstance(data.dataset, Subset | ConcatDataset):
        return _held(data.dataset, numbers)[places.astype(np.int64)]
    if places.dtype.kind not in "biu":  # a data set with keys, or a subset of none
        keys = ((id(data.dataset), key) for key in data.indices)
        places = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    elif hasattr(data.dataset, "__len__"):
        places = places % max(1, len(data.dataset))  # -1 is the last one
    return _numbered(data.dataset, places, numbers)


def _numbered(data: Dataset[Any], places: NDArray[Any], numbers: dict[Any, int]) -> NDArray[np.int64]:
    return numbers.setdefault(id(data), len(numbers)) * _MOST + places.astype(np.int64)


# --- Several views of each record in a batch: drawn where the record is read, and put together with those of one record side by side


Augmentation = Callable[[Any], Any]


class Views(Dataset[list[Any]]):
    """The views of every record, drawn when it is read: so a dry batch draws those of each record from a seed of its own."""

    def __init__(self, records: Dataset[Any], *, views: int, augmentation: Augmentation) -> None:
        if not callable(augmentation):
            raise ArgumentError(
                "augmentation", "be None or a function of a record that gives a view of it", augmentation
            )
        self._records = records
        self._views = views
        self._augmentation = augmentation

    def __len__(self) -> int:
        return len(self._records)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> list[Any]:
        # read once for each view: an augmentation may write to what it is given
        return [self._augmentation(self._records[index]) for _ in range(self._views)]


class SideBySide:
    """A collate function for views: all of the first record, then all of the second one, and so on."""

    def __init__(self, collate: Callable[[list[Any]], Any]) -> None:
        self._collate = collate

    def __call__(self, batch: list[list[Any]]) -> Any:
        return self._collate([view for views in batch for view in views])


def indexed(data: Dataset[Any], collate: Any) -> Dataset[Any]:
    """A data set with the same records that reads whole batches, and puts together the same; or the data set itself.

    Of tensors, or a subset of them by numbers, and with torch's own collate function there is one.
    """
    if collate is not default_collate:
        return data
    if type(data) is TensorDataset:
        return IndexedTensors(data)
    if type(data) is Subset and type(data.dataset) is TensorDataset and isinstance(data.indices, list | range):
        return Subset(IndexedTensors(data.dataset), data.indices)
    return data


class IndexedTensors(TensorDataset):
    """The same data set, with the same attributes: one that is set anew at either is set at both."""

    def __init__(self, data: TensorDataset) -> None:
        self.__dict__ = data.__dict__

    def __getitems__(self, indices: Sequence[int]) -> Sequence[tuple[torch.Tensor, ...]]:
        """The records of a batch."""
        if not len(indices) or not all(map(_plain, self.tensors)):
            return [self[index] for index in indices]
        places = torch.tensor(indices)
        return Rows([tensor.index_select(0, places) for tensor in self.tensors])


class Rows(Sequence[tuple[torch.Tensor, ...]]):
    """Records that are put together already: ``whole`` is what torch's collate function makes of them."""

    def __init__(self, whole: list[torch.Tensor]) -> None:
        self.whole = whole

    def __len__(self) -> int:
        return len(self.whole[0])

    def __getitem__(self, place: Any) -> Any:
        return tuple(tensor[place] for tensor in self.whole)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, ...]]:
        return zip(*self.whole, strict=True)


def _plain(tensor: torch.Tensor) -> bool:
    """Whether rows that are stacked are those that are picked, in the same order in memory, and nothing hangs on them."""
    return (
        type(tensor) is torch.Tensor
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and tensor.is_contiguous()
        and not (
            tensor.requires_grad or tensor.is_quantized or tensor.is_inference() or tensor.is_conj() or tensor.is_neg()
        )
    )
