"""Several views of each record in a batch: drawn where the record is read, and put together with those of one record side by side."""

import copy
from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader, Dataset

from dptheory.errors import ArgumentError

Augmentation = Callable[[Any], Any]


def with_views(loader: DataLoader[Any], *, views: int, augmentation: Augmentation | None) -> DataLoader[Any]:
    """A loader whose batches have ``views`` rows for each record; itself without an augmentation, whose rows others make.

    Args:
        loader: of records; it is not changed.
        views: rows of a record, >= 1.
        augmentation: gives a view of a record; called once for each.

    Raises:
        ValueError: an augmentation that cannot be called.
    """
    if augmentation is None or not isinstance(loader, DataLoader):
        return loader
    if not callable(augmentation):
        raise ArgumentError("augmentation", "be None or a function of a record that gives a view of it", augmentation)
    found = copy.copy(loader)
    # set beside what the loader guards against being set anew
    vars(found).update(
        dataset=Views(loader.dataset, views=views, augmentation=augmentation), collate_fn=SideBySide(loader.collate_fn)
    )
    return found


def without_views(data: Dataset[Any]) -> Dataset[Any]:
    """The records themselves."""
    return data.records if isinstance(data, Views) else data


class Views(Dataset[list[Any]]):
    """The views of every record, drawn when it is read: so a dry batch draws those of each record from a seed of its own.

    Args:
        records: a data set with a length.
        views: of a record.
        augmentation: gives one.
    """

    def __init__(self, records: Dataset[Any], *, views: int, augmentation: Augmentation) -> None:
        self.records = records
        self._views = views
        self._augmentation = augmentation

    def __len__(self) -> int:
        return len(self.records)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> list[Any]:
        # read once for each view: an augmentation may write to what it is given
        return [self._augmentation(self.records[index]) for _ in range(self._views)]


class SideBySide:
    """A collate function for views: all of the first record, then all of the second one, and so on.

    Args:
        collate: for plain records.
    """

    def __init__(self, collate: Callable[[list[Any]], Any]) -> None:
        self._collate = collate

    def __call__(self, batch: list[list[Any]]) -> Any:
        return self._collate([view for views in batch for view in views])
