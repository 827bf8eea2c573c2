"""Batches of tensor data sets in one copy: the same as record by record."""

import random

import numpy as np
import pytest
import torch
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset, default_collate

from dptheory.training.engine import make_private
from dptheory.training.engine._indexed_tensors import IndexedTensors, Rows, indexed
from dptheory.training.engine._random_states import Collating, SeededIndices
from dptheory.training.mechanisms import DpSgd

N = 12
ENTRIES = torch.arange(N * 6.0).view(N, 2, 3)
DATA = TensorDataset(ENTRIES, torch.arange(N), torch.arange(N).half(), torch.ones(N, 0))
BATCHES = [[3, 1, 7], [], [11], SeededIndices([5, 0], 9), list(range(N))]


def loaded(data, batches=BATCHES, **more) -> list:
    collate = Collating(default_collate, data[0], data[1], chance=0.1)
    return list(DataLoader(data, batch_sampler=batches, collate_fn=collate, **more))


def alike(found: list, wanted: list) -> None:
    assert len(found) == len(wanted)
    for batch, other in zip(found, wanted, strict=True):
        assert type(batch) is type(other) is list and len(batch) == len(other)
        for tensor, same in zip(batch, other, strict=True):
            assert torch.equal(tensor, same) and tensor.dtype == same.dtype and tensor.stride() == same.stride()
            assert tensor.requires_grad == same.requires_grad


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "data",
    [DATA, TensorDataset(ENTRIES), Subset(DATA, list(range(N))[::-1]), Subset(DATA, range(N))],
    ids=["four", "one", "subset", "range"],
)
def test_batches_are_those_of_single_records(data, workers: int) -> None:
    alike(loaded(indexed(data, default_collate), num_workers=workers), loaded(data))


def test_a_batch_is_one_copy_and_no_record_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = loaded(DATA, [[2, 0, 2]])
    made = indexed(DATA, default_collate)
    collate = Collating(default_collate, DATA[0], DATA[1], chance=0.1)
    monkeypatch.setattr(TensorDataset, "__getitem__", lambda *_: pytest.fail("a record was read"))
    (batch,) = found = list(DataLoader(made, batch_sampler=[[2, 0, 2]], collate_fn=collate))
    alike(found, wanted)
    batch[0].zero_()  # nothing of the data
    assert float(ENTRIES.sum()) == sum(range(N * 6))


def test_random_states_are_as_record_by_record() -> None:
    def states(made) -> list:
        torch.manual_seed(3)
        np.random.seed(3)  # noqa: NPY002
        random.seed(3)
        loaded(made, [SeededIndices([5, 0, 2], 9), [1]])
        return [torch.rand(1).item(), np.random.rand(), random.random()]  # noqa: NPY002

    assert states(DATA) == states(indexed(DATA, default_collate))


@pytest.mark.parametrize(
    "tensor",
    [torch.rand(N, 3).requires_grad_(), torch.rand(3, N).t(), torch.rand(N, 4, 2, 2).to(memory_format=torch.channels_last),
     torch.rand(1).expand(N), torch.rand(N, 2, dtype=torch.cfloat).conj(),
     nn.Parameter(torch.rand(N, 2))],
    ids=["gradient", "transposed", "channels last", "expanded", "conjugate", "parameter"],
)  # fmt: skip
def test_tensors_of_other_kinds_are_read_record_by_record(tensor: torch.Tensor) -> None:
    data = TensorDataset(tensor)
    batch = [3, 1, 2]
    made = indexed(data, default_collate)
    found, wanted = (default_collate(one.__getitems__(batch)) for one in (made, Subset(data, range(N))))
    assert isinstance(made.__getitems__(batch), list)
    alike([found], [wanted])


class Own(TensorDataset):
    def __getitem__(self, index: int):
        return (-super().__getitem__(index)[0],)


@pytest.mark.parametrize(
    "data",
    [Own(ENTRIES), Subset(Own(ENTRIES), [1, 2]), Subset(DATA, np.arange(3)), [(1.0,), (2.0,)], Subset(Subset(DATA, [1]), [0])],
    ids=["class", "subset of it", "array", "list", "subset of a subset"],
)  # fmt: skip
def test_other_data_sets_and_other_functions_stay_as_they_are(data) -> None:
    assert indexed(data, default_collate) is data
    assert indexed(DATA, lambda rows: default_collate(rows)) is DATA


def test_attributes_are_those_of_the_data_set() -> None:
    data = TensorDataset(torch.zeros(2, 1))
    data.classes = "two"  # type: ignore[attr-defined]
    made = indexed(data, default_collate)
    assert isinstance(made, IndexedTensors) and isinstance(made, TensorDataset) and len(made) == 2
    data.tensors = (torch.ones(3, 1),)
    assert made.classes == "two" and len(made) == 3  # type: ignore[attr-defined]
    assert default_collate(made.__getitems__([2]))[0].tolist() == [[1.0]]


def test_rows_are_records_for_any_other_function() -> None:
    rows = indexed(DATA, default_collate).__getitems__([4, 2])  # type: ignore[attr-defined]
    assert isinstance(rows, Rows) and len(rows) == 2
    alike([default_collate(rows)], [default_collate([DATA[4], DATA[2]])])
    assert all(torch.equal(a, b) for a, b in zip(rows[1], DATA[2], strict=True))


@pytest.mark.parametrize("parts", [False, True])
def test_a_private_loop_gets_the_same_batches(monkeypatch: pytest.MonkeyPatch, parts: bool) -> None:
    """Dry ones, too, and in parts."""

    def seen() -> list:
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        loader = DataLoader(
            TensorDataset(torch.arange(60.0).view(20, 3), torch.arange(20) % 2),
            batch_size=5,
            generator=torch.Generator().manual_seed(1),
        )
        private, optimizer, loader = make_private(module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=loader, mechanism=DpSgd(), noise_multiplier=1.0, max_grad_norm=1.0,
            noise_generator=torch.Generator().manual_seed(2))  # fmt: skip
        optimizer._dry._rng = np.random.default_rng(4)  # the operating system's otherwise
        found = []

        def go(batches) -> None:
            for x, y in batches:
                found.append([x, y])
                optimizer.zero_grad()
                nn.functional.cross_entropy(private(x), y).backward()
                optimizer.step()

        if parts:
            with BatchMemoryManager(data_loader=loader, max_physical_batch_size=2, optimizer=optimizer) as batches:
                go(batches)
        else:
            go(loader)
        return [*found, [p.detach().clone() for p in model.parameters()]]

    found = seen()
    monkeypatch.setattr("dptheory.training.engine._private.indexed", lambda data, _: data)
    alike(found, seen())
    assert len(found) > 8
