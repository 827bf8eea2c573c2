"""The batch of no examples: its form is worked out before the run, whatever the collate function gives."""

import random
from collections import UserDict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader, TensorDataset, default_collate

from dptheory.training import make_private
from dptheory.training.engine._empty_batches import CollateAlsoNone
from dptheory.training.mechanisms import DpSgd

FIRST, OTHER = (torch.arange(6.0), torch.tensor(1)), (torch.arange(6.0) + 1, torch.tensor(2))
Named = namedtuple("Named", "x y")


class Encoding(UserDict):
    """As Hugging Face's: entries are attributes, and ``to`` moves it."""

    def __init__(self, data, lengths):
        super().__init__(data)
        self.lengths = lengths

    def __getattr__(self, name):
        if name == "data" or name not in self.data:
            raise AttributeError(name)
        return self.data[name]

    def to(self, device):
        return self


@dataclass(frozen=True, slots=True)
class Slotted:
    x: torch.Tensor
    words: list


class Plain:
    def __init__(self, x):
        self.x, self.kind = x, "plain"


def empty(collate, chance: float = 0.5):
    return CollateAlsoNone(collate, FIRST, OTHER, chance=chance)([])


def xs(rows) -> torch.Tensor:
    return torch.stack([row[0] for row in rows])


def test_tensors_lists_and_mappings() -> None:
    x, y = empty(default_collate)
    assert x.shape == (0, 6) and y.shape == (0,) and y.dtype == torch.int64
    assert empty(lambda rows: rows) == []
    assert empty(lambda rows: {"text": ["a"] * len(rows), "one": ["a"], "n": len(rows), "none": None}) == {
        "text": [], "one": ["a"], "n": 0, "none": None,
    }  # fmt: skip
    assert empty(lambda rows: (tuple("a" for _ in rows), 2.5)) == ((), 2.5)


def test_kinds_stay_what_they_are() -> None:
    found = empty(lambda rows: Named(xs(rows), [1]))
    assert type(found) is Named and found.x.shape == (0, 6) and found.y == [1]
    found = empty(lambda rows: Encoding({"x": xs(rows)}, [6] * len(rows))).to("cpu")
    assert type(found) is Encoding and found.x.shape == (0, 6) and found["x"] is found.x and found.lengths == []
    found = empty(lambda rows: Slotted(xs(rows), ["w"] * len(rows)))
    assert type(found) is Slotted and found.x.shape == (0, 6) and found.words == []
    found = empty(lambda rows: [Plain(xs(rows)), {"deep": (xs(rows),)}])
    assert type(found[0]) is Plain and found[0].x.shape == (0, 6) and found[0].kind == "plain"
    assert found[1]["deep"][0].shape == (0, 6)


def test_sizes_go_on_to_none() -> None:
    """Examples second, one behind another, pairs of them, offsets; numpy's arrays."""
    assert empty(lambda rows: xs(rows).T).shape == (6, 0)
    assert empty(lambda rows: xs(rows).flatten()).shape == (0,)
    assert empty(lambda rows: torch.ones(len(rows), len(rows), 2)).shape == (0, 0, 2)
    assert empty(lambda rows: torch.arange(len(rows) + 1)).tolist() == [0]
    found = empty(lambda rows: np.ones((2, len(rows)), dtype=np.float32))
    assert found.shape == (2, 0) and found.dtype == np.float32


def test_nothing_of_an_example_stays() -> None:
    """A constant does; what differs between examples is zero."""
    assert empty(lambda rows: torch.eye(3)).tolist() == torch.eye(3).tolist()
    assert empty(lambda rows: xs(rows).mean(0)).tolist() == [0.0] * 6
    assert empty(lambda rows: float(rows[0][0][0])) == 0.0
    assert empty(lambda rows: int(rows[0][1])) == 0


def test_every_empty_batch_is_a_new_one() -> None:
    collate = CollateAlsoNone(lambda rows: [torch.eye(2)], FIRST, OTHER, chance=0.5)
    collate([])[0].zero_()
    assert collate([])[0].any() and collate([FIRST])[0].any()


UNKNOWN = {
    "packed": lambda rows: pack_sequence([row[0] for row in rows]),
    "joined text": lambda rows: "a" * len(rows),
    "a generator": lambda rows: (row for row in rows),
    "nested": lambda rows: torch.nested.nested_tensor([row[0] for row in rows]),
    "another kind": lambda rows: xs(rows) if len(rows) == 1 else [xs(rows)],
    "faster than the examples": lambda rows: torch.ones(len(rows) ** 2),
    "other entries": lambda rows: {f"x{i}": row for i, row in enumerate(rows)},
    "fails on one": lambda rows: rows[1],
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", UNKNOWN)
def test_what_cannot_be_told_is_refused_at_once(name: str) -> None:
    loader = DataLoader(TensorDataset(torch.zeros(20, 6), torch.zeros(20)), 2, collate_fn=UNKNOWN[name])
    model = nn.Linear(6, 1)
    with pytest.raises(ValueError, match=r"^data_loader must have a collate_fn"):
        make_private(
            module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=loader, mechanism=DpSgd(),
            noise_multiplier=1.0, max_grad_norm=1.0,
        )  # fmt: skip


def test_what_never_comes_is_not_asked_for() -> None:
    collate = CollateAlsoNone(UNKNOWN["packed"], FIRST, OTHER, chance=1e-19)
    assert collate([FIRST]).data.shape == (6,)
    with pytest.raises(ValueError, match=r"^data_loader must"):
        collate([])


def test_the_runs_own_randomness_is_left_alone() -> None:
    def augmented(rows):
        return xs(rows) + torch.rand(6) + random.random() + np.random.random()  # noqa: NPY002

    drawn = []
    for looked in (False, True):
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        if looked:
            CollateAlsoNone(augmented, FIRST, OTHER, chance=0.5)
        drawn.append(augmented([FIRST]))
    assert torch.equal(*drawn)
