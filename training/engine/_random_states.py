"""The random states that a loop draws from, set for every record of a dry batch by itself, and given back."""

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, SupportsIndex

import numpy as np
import torch

from dptheory.training._randomness import RandomStates
from dptheory.training.engine._empty_batches import CollateAlsoNone
from dptheory.training.engine._records import Rows

_ROW_STEP = 7919
"""Between the seeds of two records of a batch."""


class SeededIndices(list[int]):
    """Indices of a dry batch; whoever reads records by them draws for each from a seed of its place in the batch.

    So a record that is replaced, and augmented with more draws or fewer, changes the augmentation of no other one; also in
    worker processes, which only get the indices. :class:`Collating` gives back the states that the records have used.
    """

    def __init__(self, indices: Iterable[int], seed: int) -> None:
        super().__init__(indices)
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        Collating.keep()
        for place, index in enumerate(super().__iter__()):
            _set_all(self.seed + _ROW_STEP * place)
            yield index
        _set_all(self.seed - 1)
        Collating.have_read()

    def __reduce_ex__(self, _: SupportsIndex) -> tuple[Any, ...]:
        return SeededIndices, (self._plain(), self.seed)

    def __array_function__(
        self, function: Callable[..., Any], _: Any, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """What NumPy makes of it: plain numbers; but ``array_split``, by which Opacus cuts a batch in parts, such parts."""
        parts = function(*(one._plain() if isinstance(one, SeededIndices) else one for one in args), **options)
        if function is not np.array_split:
            return parts
        starts = np.cumsum([0, *map(len, parts)])  # of each record the same seed, however the batch is cut
        return [
            SeededIndices(part.tolist(), self.seed + _ROW_STEP * int(start))
            for start, part in zip(starts, parts, strict=False)
        ]

    def tolist(self) -> "SeededIndices":
        """Itself: as a part of a batch is asked for."""
        return self

    def _plain(self) -> list[int]:
        return list(super().__iter__())


class Collating(CollateAlsoNone):
    """The loader's collate function, after which the random states are as they were before a dry batch was read."""

    _kept: RandomStates | None = None
    """From before the records of a dry batch were read, in this process."""
    _read: RandomStates | None = None
    """From when they had been read: what is drawn after that is drawn for all of them."""
    drew: bool | None = None
    """Whether anything was, for the last dry batch; None where that is not known, as of worker processes."""

    @classmethod
    def forget(cls) -> None:
        """A batch begins. One that could not be read to its end may have left states here, which are of no run any more."""
        Collating._kept = Collating._read = Collating.drew = None

    @classmethod
    def keep(cls) -> None:
        """Keep the states, unless some are kept already."""
        if Collating._kept is None:
            Collating._kept = RandomStates.now(of_cuda=False)

    @classmethod
    def have_read(cls) -> None:
        """Note the states."""
        Collating._read = RandomStates.now(of_cuda=False)

    def __call__(self, batch: list[Any] | Rows) -> Any:
        if isinstance(batch, Rows):
            Collating.drew = bool(Collating.drew)
        try:
            return batch.whole if isinstance(batch, Rows) else super().__call__(batch)
        finally:
            kept, read = Collating._kept, Collating._read
            Collating._kept = Collating._read = None
            if kept is not None:
                Collating.drew = Collating.drew or read is None or not read.still()
                kept.restore()


def from_global_torch(*generators: torch.Generator | None) -> bool:
    """Whether one of them is a global generator of torch, which everything without a generator draws from."""
    ours = (torch.default_generator, *torch.cuda.default_generators)
    return any(given is one for given in generators if given is not None for one in ours)


def _set_all(seed: int) -> None:
    torch.default_generator.manual_seed(seed % 2**63)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    random.seed(seed)
