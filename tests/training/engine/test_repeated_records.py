"""A data set that visibly holds a record twice is refused."""

import pytest
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset

from dptheory.training import make_private
from dptheory.training.mechanisms import DpSgd
from tests.refused import refused


def data(count: int) -> TensorDataset:
    return TensorDataset(torch.zeros(count, 3), torch.arange(count) % 2)


def private(records: Dataset) -> None:
    model = nn.Linear(3, 2)
    make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=DataLoader(records, 2),
        mechanism=DpSgd(), noise_multiplier=1.0, max_grad_norm=1.0,
    )  # fmt: skip


DOUBLE = data(4)


@pytest.mark.parametrize(
    "twice",
    [
        Subset(data(40), [0, 1, 2, 1]),
        Subset(data(40), torch.tensor([0, 1, 2, 1])),
        Subset(Subset(data(40), [0, 1, 1]), [0, 1]),
        ConcatDataset([DOUBLE, DOUBLE]),
        ConcatDataset([data(4), Subset(data(40), [0, 0])]),
    ],
)
def test_a_record_that_is_there_twice_is_refused(twice) -> None:
    with refused("data_loader"):
        private(twice)
    private(Subset(Subset(data(40), range(1, 30)), [3, 1, 2]))
    private(ConcatDataset([data(4), Subset(data(40), [5, 6])]))
