"""What is compared of gradients, and how exactly."""

import pytest
import torch

from dptheory.training.engine._rows_apart import Passed, Rounding, explained, fingerprint, in_place, moved, still
from dptheory.training.per_example import as_gradients

ROWS = [
    torch.randn(6, 3, 4, generator=torch.Generator().manual_seed(0)),
    torch.randn(6, 3, generator=torch.Generator().manual_seed(1)),
]
EXACT = Rounding.of(as_gradients(ROWS))
UNIT = torch.finfo(torch.float32).eps


def printed(rows: list[torch.Tensor]) -> torch.Tensor:
    return fingerprint(as_gradients(rows), seed=5)


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
        assert in_place(Passed(rows, [("", noted)]), Passed(rows, [("", now)]), (2,)) == kept
    assert not in_place(Passed(rows, []), Passed(rows, []), (2,))


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

    def says(*layers: tuple[str, torch.Tensor], flags: tuple[bool, bool] = (True, True)) -> str:
        quiet = Passed(before, [(name, noted) for name, _ in layers])
        return explained(quiet, Passed(before, layers), (0,), torch.tensor(flags), names, EXACT)

    assert "model's input" in says(("", other), ("one", other))
    assert "first in one:" in says(("", noted), ("one", other), ("two", other))
    assert "the loss does not" in says(("", noted), ("one", noted))
    assert "the loss does not" in says(("", longer))  # padded to another length
    assert "first in two:" in says(("", noted), flags=(False, True))
