"""Which records replace which: another label, another length, far away."""

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from dptheory.training.engine._far_records import distances, labels, lengths, longest, read, replacements

PLAIN = TensorDataset(torch.tensor([[1.0, 0.0], [1.1, 0.0], [-9.0, 5.0]]), torch.tensor([0, 0, 1]))


def test_label_length_and_content_count() -> None:
    found = read(PLAIN, [0, 1, 2])
    far = distances(found, found)
    assert far[0, 0] == 0.0 and far[0, 1] < 0.1 and far[0, 2] > 1.5
    texts = read(["ab", "ab", "abcdefgh"], [0, 1, 2])  # type: ignore[arg-type]
    assert distances(texts, texts)[0].tolist()[:2] == [0.0, 0.0] and distances(texts, texts)[0, 2] > 0.5
    padded = [{"ids": [4, 5, 0, 0]}, {"ids": [4, 5, 6, 7]}]
    ids = read(padded, [0, 1])  # type: ignore[arg-type]
    assert distances(ids, ids)[0, 1] > 0.5
    ragged = read([(torch.ones(2, 3),), (torch.ones(9, 3),)], [0, 1])  # type: ignore[arg-type]
    assert distances(ragged, ragged)[0, 1] > 0.5


def test_lengths_leave_out_padding_and_single_numbers() -> None:
    found = read([([4, 5, 0, 0], [1, -100, -100, 2], 7), ([4, 5, 6, 7], [1, 2, 2, 1], 0)], [0, 1])  # type: ignore[arg-type]
    assert lengths(found).tolist() == [4, 8]
    one, _ = replacements(found[:1] * 3, [found[0], found[1]], np.zeros((3, 2), dtype=bool), np.random.default_rng(0))
    assert list(one.values()) == [1]


def test_records_that_cannot_be_read_are_all_alike() -> None:
    class Closed:
        def __getitem__(self, index: int) -> int:
            raise OSError("opened by workers")

    found = read(Closed(), [0, 1])  # type: ignore[arg-type]
    assert not distances(found, found).any() and labels(found) == [0, 0]
    one, many = replacements(found, found, np.eye(2, dtype=bool), np.random.default_rng(0))
    assert all(a != b for a, b in (one | many).items())


def test_labels_are_numbers_that_records_share() -> None:
    assert labels(read(PLAIN, [0, 1, 2])) == [0, 0, 1]
    numbered = TensorDataset(
        torch.arange(6), torch.tensor([3, 3, 3, 8, 8, 8])
    )  # the first is a number of its own for each
    assert labels(read(numbered, range(6))) == [3, 3, 3, 8, 8, 8]


@pytest.mark.parametrize("seed", range(20))
def test_the_rarest_label_comes_in_and_every_label_goes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = torch.from_numpy(rng.integers(0, 4, 40))
    data = TensorDataset(torch.from_numpy(rng.normal(size=(40, 3))), drawn)
    rows, candidates = list(range(12)), list(range(12, 40))
    same = np.zeros((12, 28), dtype=bool)
    one, many = replacements(read(data, rows), read(data, candidates), same, rng)
    ((row, candidate),) = one.items()
    assert drawn[row] != drawn[12 + candidate]
    taken = {int(drawn[12 + source]) for source in many.values()}
    counts = torch.bincount(drawn[:12], minlength=4)
    assert len(taken) == 1 and counts[taken.pop()] == counts[drawn[12:].unique()].min()
    assert [sum(place // 4 == block for place in many) for block in range(3)] == [2, 2, 2]
    gone = {int(drawn[place]) for place in many}
    assert {label for label in range(4) if counts[label] > 1} <= gone


def test_the_longest_are_those_of_any_part_whose_lengths_differ() -> None:
    tokens = [[1, 2, 0], [1, 2, 3], [4, 0, 0]]
    found = [[np.array(one), np.ones(2), np.array(place)] for place, one in enumerate(tokens)]
    assert longest(found).tolist() == [False, True, False]
    assert not longest([one[1:] for one in found]).any()
