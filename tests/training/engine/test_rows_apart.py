"""Rows that are kept apart: repeated records, records far from all others, and the check that a user calls."""

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from dptheory.training.engine._rows_apart import (
    Passed,
    Rounding,
    distances,
    explained,
    fingerprint,
    in_place,
    labels,
    lengths,
    longest,
    moved,
    read,
    replacements,
    still,
)
from dptheory.training.per_example import as_gradients

# --- What is compared of gradients, and how exactly ---


ROWS = [
    torch.randn(6, 3, 4, generator=torch.Generator().manual_seed(0)),
    torch.randn(6, 3, generator=torch.Generator().manual_seed(1)),
]

EXACT = Rounding.of(as_gradients(ROWS))
UNIT = torch.finfo(torch.float32).eps


def printed(rows: list[torch.Tensor]) -> torch.Tensor:
    return fingerprint(as_gradients(rows), seed=5)


def passed(rows: torch.Tensor, activations: list[tuple[str, torch.Tensor]]) -> Passed:
    """Of a batch in one part."""
    return Passed(rows, activations, torch.full((len(rows),), float(len(rows))))


def test_a_fingerprint_has_norms_and_components() -> None:
    found = printed(ROWS)
    assert found.shape == (6, 4) and found.dtype == torch.float64
    torch.testing.assert_close(found[:, 0].float(), ROWS[0].flatten(1).norm(dim=1))
    turned = printed([ROWS[0].flip(2), ROWS[1]])
    torch.testing.assert_close(turned[:, 0], found[:, 0])
    assert (turned[:, 2] != found[:, 2]).all() and torch.equal(turned[:, 3], found[:, 3])
    assert printed([torch.zeros(0, 3, 4)]).shape == (0, 2)
    assert torch.equal(printed([ROWS[1].half()]), printed([ROWS[1].half().float()]))


def test_the_tolerance_goes_with_precision_and_number_of_terms() -> None:
    """Two tensors, forward and backward, and rows of four entries: the root of sixteen terms, eight units each."""
    assert EXACT.unit == UNIT and EXACT.share == pytest.approx(8 * 4 * UNIT)
    assert Rounding.of(as_gradients([rows.double() for rows in ROWS])).share == pytest.approx(8 * 4 * 2.0**-52)
    assert Rounding.of(as_gradients(ROWS), torch.bfloat16) == Rounding(2.0**-7, 2.0**-5)


@pytest.mark.parametrize(("by", "moves"), [(0.25, False), (4.0, True)])
def test_what_is_more_than_rounding_moves(by: float, moves: bool) -> None:
    before = printed(ROWS)
    after = before.clone()
    after[2, 1] += by * EXACT.share * float(before[2, :2].norm())
    flags = moved(before, after, (), EXACT)
    assert (flags is not None) == moves == (not still(before, after, EXACT))
    if flags is not None:
        assert flags.tolist() == [False, True]
    assert moved(before, after, (2,), EXACT) is None  # of the record itself


def test_rows_that_change_places_together_have_not_moved() -> None:
    before = printed(ROWS)
    order = torch.tensor([3, 0, 1, 2, 5, 4])
    changed = [rows.clone() for rows in ROWS]
    changed[0][2], changed[1][2] = 7.0, 7.0
    together = printed([rows[order] for rows in changed])
    assert moved(before, together, (2,), EXACT) is None
    assert moved(before, together, (2,), EXACT, in_place=True) is not None  # the model changed the order, not the loop
    apart = printed([changed[0][order], changed[1]])
    assert moved(before, apart, (2,), EXACT) is not None


def test_the_input_says_whether_the_loop_changed_places() -> None:
    rows, noted = printed(ROWS), torch.rand(6, 3, dtype=torch.float64)
    longer, other = noted + torch.tensor([0.0, 0.0, 4.0]), noted.clone()
    other[2] += 1.0
    for now, kept in ((noted, True), (longer, True), (other, True), (noted.flip(0), False), (noted[:3], False)):
        assert in_place(passed(rows, [("", noted)]), passed(rows, [("", now)]), (2,)) == kept
    assert not in_place(passed(rows, []), passed(rows, []), (2,))


def test_small_gradients_beside_large_ones_may_differ_by_their_rounding() -> None:
    before = torch.tensor([[1.0, 1.0], [1e-6, 1e-6]], dtype=torch.float64)
    after = before + torch.tensor([[0.0, 0.0], [0.0, UNIT]])
    assert moved(before, after, (), Rounding(UNIT, 8 * UNIT)) is None
    alone = before[1:], after[1:]
    assert moved(*alone, (), Rounding(UNIT, 8 * UNIT)) is not None


def test_nan_moves_where_it_comes_and_goes() -> None:
    before = printed(ROWS)
    before[1, 0] = float("nan")
    assert moved(before, before.clone(), (), EXACT) is None
    after = before.clone()
    after[4, 1] = float("inf")
    assert moved(before, after, (), EXACT).tolist() == [False, True]


def test_an_explanation_names_input_layer_or_loss() -> None:
    before = printed(ROWS)
    noted = torch.rand(6, 3, dtype=torch.float64)
    other, longer = noted.clone(), noted + torch.tensor([0.0, 1.0, 1.0])
    other[3, 0] += 1.0
    names = ["one.weight", "two.bias"]

    def told(*layers: tuple[str, torch.Tensor], flags: tuple[bool, bool] = (True, True)) -> str:
        quiet = passed(before, [(name, noted) for name, _ in layers])
        found = explained(quiet, passed(before, layers), (0,), torch.tensor(flags), names, EXACT)
        assert found.argument == "records"
        return found.value

    assert told(("", other), ("one", other)) == "input"
    assert told(("", noted), ("one", other), ("two", other)) == "one"
    assert told(("", noted), ("one", noted)) == "loss"
    assert told(("", longer)) == "loss"  # padded to another length
    assert told(("", noted), flags=(False, True)) == "two"


# --- Which records replace which: another label, another length, far away ---


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
    one, *_ = replacements(found[:1] * 3, [found[0], found[1]], np.zeros((3, 2), dtype=bool), np.random.default_rng(0))
    assert list(one.values()) == [1]


def test_records_that_cannot_be_read_are_all_alike() -> None:
    class Closed:
        def __getitem__(self, index: int) -> int:
            raise OSError("opened by workers")

    found = read(Closed(), [0, 1])  # type: ignore[arg-type]
    assert not distances(found, found).any() and labels(found) == [0, 0]
    one, many, rest = replacements(found, found, np.eye(2, dtype=bool), np.random.default_rng(0))
    assert all(a != b for a, b in (one | many | rest).items())


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
    one, many, rest = replacements(read(data, rows), read(data, candidates), same, rng)
    ((row, candidate),) = one.items()
    assert drawn[row] != drawn[12 + candidate]
    taken = {int(drawn[12 + source]) for source in many.values()}
    counts = torch.bincount(drawn[:12], minlength=4)
    assert len(taken) == 1 and counts[taken.pop()] == counts[drawn[12:].unique()].min()
    assert [sum(place // 4 == block for place in many) for block in range(3)] == [2, 2, 2]
    gone = {int(drawn[place]) for place in many}
    assert {label for label in range(4) if counts[label] > 1} <= gone
    assert sorted([*many, *rest]) == rows


def test_the_longest_are_those_of_any_part_whose_lengths_differ() -> None:
    tokens = [[1, 2, 0], [1, 2, 3], [4, 0, 0]]
    found = [[np.array(one), np.ones(2), np.array(place)] for place, one in enumerate(tokens)]
    assert longest(found).tolist() == [False, True, False]
    assert not longest([one[1:] for one in found]).any()
