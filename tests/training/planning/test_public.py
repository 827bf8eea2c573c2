"""Public records: of a data set, shipped or made up; too few, others than pairs, and private ones are refused."""

from typing import Any

import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from dptheory.training.planning import Shipped, Synthetic
from dptheory.training.planning._public import public_records, refuse_private, tensors
from tests.refused import refused
from tests.training.planning.small import labelled, public


class Pairs(Dataset[Any]):
    """Pairs, one by one."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> Any:
        return self.rows[place]


def test_pairs_and_tensors_are_the_same_records() -> None:
    features, labels = labelled()
    pairs = Pairs([(row, int(label)) for row, label in zip(features, labels, strict=True)])
    assert all(torch.equal(a, b) for a, b in zip(tensors("public", pairs), (features, labels), strict=True))
    mixed = public_records(pairs, seed=0)
    assert not torch.equal(mixed[0], features)
    assert torch.equal(mixed[0].sort(0).values, features.sort(0).values)
    assert torch.equal(mixed[1], (mixed[0][:, 0] > 0).long()), "each with its own label"


@pytest.mark.parametrize(
    "data",
    [
        public(49),
        Pairs([torch.zeros(3)] * 60),
        Pairs([(torch.zeros(3), 0)] * 59 + [(torch.zeros(4), 0)]),
        Pairs([("a word", 0)] * 60),
        iter([1]),
    ],
    ids=["49", "no pairs", "shapes", "words", "no length"],
)
def test_other_records_are_refused(data: Any) -> None:
    with refused("public"):
        public_records(data, seed=0)


def test_private_records_among_the_public_ones_are_refused() -> None:
    features, _ = labelled()
    others = torch.randn(100, 5, generator=torch.Generator().manual_seed(9))
    refuse_private(features, TensorDataset(others, torch.zeros(100)))
    others[70] = features[3]
    with refused("public", "1"):
        refuse_private(features, TensorDataset(others, torch.zeros(100)))


def test_shipped_records_are_a_draw_of_test_images() -> None:
    pixels, labels = public_records(Shipped(name="excerpt", count=60), seed=0)
    assert pixels.shape == (60, 1, 28, 28) and labels.shape == (60,)
    assert not torch.equal(pixels, public_records(Shipped(name="excerpt", count=60), seed=1)[0])


def test_synthetic_records_have_shape_scale_and_classes_that_can_be_told_apart() -> None:
    features, labels = Synthetic(shape=(2, 4), classes=3, scale=5.0, count=600).records(seed=0)
    assert features.shape == (600, 2, 4) and labels.bincount().tolist() == [200, 200, 200]
    assert float(features.square().mean().sqrt()) == pytest.approx(5.0, rel=1e-5)
    means = torch.stack([features[labels == k].mean(0) for k in range(3)])
    nearest = torch.cdist(features.flatten(1), means.flatten(1)).argmin(1)
    assert float((nearest == labels).double().mean()) > 0.5, "a third by guessing"


@pytest.mark.parametrize("arguments", [{"name": "none"}, {"name": "excerpt", "count": 49}])
def test_shipped_arguments(arguments: dict[str, Any]) -> None:
    with refused(list(arguments)[-1]):
        Shipped(**arguments)


@pytest.mark.parametrize(("name", "value"), [("shape", (0,)), ("classes", 1), ("scale", 0.0), ("count", 49)])
def test_synthetic_arguments(name: str, value: Any) -> None:
    with refused(name):
        Synthetic(**{"shape": (3,), "classes": 2, name: value})
