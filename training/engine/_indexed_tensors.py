"""A batch of a ``TensorDataset`` in one copy for each tensor, in place of one for each record and one more to stack them."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import Dataset, Subset, TensorDataset, default_collate


def indexed(data: Dataset[Any], collate: Any) -> Dataset[Any]:
    """The data set, or one with the same records that reads whole batches; they are the same, and what is put together of them.

    Args:
        data: a ``TensorDataset``, or a ``Subset`` of one by numbers; any other is given back as it is.
        collate: how records are put together; with another function than torch's own the data set is given back as it is.
    """
    if collate is not default_collate:
        return data
    if type(data) is TensorDataset:
        return IndexedTensors(data)
    if type(data) is Subset and type(data.dataset) is TensorDataset and isinstance(data.indices, list | range):
        return Subset(IndexedTensors(data.dataset), data.indices)
    return data


class IndexedTensors(TensorDataset):
    """The same data set, with the same attributes: one that is set anew at either is set at both.

    Args:
        data: records by the first dimension of its tensors.
    """

    def __init__(self, data: TensorDataset) -> None:
        self.__dict__ = data.__dict__

    def __getitems__(self, indices: Sequence[int]) -> Sequence[tuple[torch.Tensor, ...]]:
        """The records of a batch."""
        if not len(indices) or not all(map(_plain, self.tensors)):
            return [self[index] for index in indices]
        places = torch.tensor(indices)
        return Rows([tensor.index_select(0, places) for tensor in self.tensors])


class Rows(Sequence[tuple[torch.Tensor, ...]]):
    """Records that are put together already.

    Attributes:
        whole: what torch's collate function makes of them.
    """

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
