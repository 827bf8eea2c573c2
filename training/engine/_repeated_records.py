"""A data set in which every record stands once: a copy would count as another record."""

from typing import Any

import numpy as np
from torch.utils.data import ConcatDataset, Dataset, Subset

from dptheory.errors import ArgumentError


def check_records(data: Dataset[Any]) -> None:
    """Refuse a data set that visibly holds a record twice: a copy of it would count as another record.

    Raises:
        ValueError: a subset or a concatenation that holds something twice.
    """
    if isinstance(data, Subset):
        places, parts = np.asarray(data.indices), [data.dataset]
        twice = len(np.unique(places)) < len(places)
    elif isinstance(data, ConcatDataset):
        parts = data.datasets
        twice = len({id(part) for part in parts}) < len(parts)
    else:
        return
    if twice:
        raise ArgumentError(
            "data_loader",
            "hold every record once",
            type(data).__name__,
            got=f"a {type(data).__name__} that holds some twice: epsilon is that of one copy, and a "
            "record in several is protected less; leave the copies out",
        )
    for part in parts:
        check_records(part)
