"""Norms and clipped sums of per-sample gradients, a few rows at a time or all at once."""

import numpy as np
import pytest
import torch

from dptheory.training import mechanisms
from dptheory.training.per_example import _squares

SHAPES = ((2, 3), (1,), (4,))


def samples(count: int) -> list[torch.Tensor]:
    rng = np.random.default_rng(count)
    return [torch.from_numpy(rng.standard_normal((count, *shape))).float() for shape in SHAPES]


def masks() -> list[torch.Tensor]:
    rng = np.random.default_rng(1)
    return [torch.from_numpy(np.asarray(rng.random(shape) < 0.6)) for shape in SHAPES]


def flat(tensors: list[torch.Tensor]) -> np.ndarray:
    return np.hstack([t.double().flatten(1).numpy() for t in tensors])


@pytest.mark.parametrize("products", [1, 5, 6, 7, 13, 1 << 18])
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_masked_norms_in_blocks(products: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few products are held at once."""
    monkeypatch.setattr(_squares, "_CPU_PRODUCTS", products)
    mask = np.concatenate([m.reshape(-1).numpy() for m in masks()])
    found = mechanisms.sample_norms(samples(count), mask=masks())
    np.testing.assert_allclose(found.numpy(), np.linalg.norm(flat(samples(count)) * mask, axis=1), rtol=1e-6)
    np.testing.assert_allclose(
        mechanisms.sample_norms(samples(count)).numpy(), np.linalg.norm(flat(samples(count)), axis=1), rtol=1e-6
    )


def test_factors() -> None:
    norms = torch.tensor([0.0, 1e-45, 0.5, 2.0, 4.0, torch.inf, torch.nan])
    assert mechanisms.clip_factors(norms, 2.0).tolist() == [1.0, 1.0, 1.0, 1.0, 0.5, 0.0, 0.0]
    torch.testing.assert_close(mechanisms.clip_factors(norms, 0.1)[2:5], torch.tensor([0.2, 0.05, 0.025]))


def test_samples_of_factor_zero_add_nothing() -> None:
    given = samples(4)
    given[0][1, 0, 0], given[2][3, 2] = torch.nan, torch.inf
    found = mechanisms.clipped_sum(given, 1.5, mask=masks())
    assert found.nonfinite == 2
    mask = np.concatenate([m.reshape(-1).numpy() for m in masks()])
    rows = flat(given)[[0, 2]] * mask
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    wanted = (rows * np.minimum(1.0, 1.5 / norms)).sum(0)
    np.testing.assert_allclose(
        np.concatenate([t.reshape(-1).numpy() for t in found.total]), wanted, rtol=1e-5, atol=1e-6
    )


def test_half_precision_is_widened() -> None:
    for kind, wide in ((torch.float16, torch.float32), (torch.bfloat16, torch.float32), (torch.float64, torch.float64)):
        assert mechanisms.sample_norms([torch.ones(1, 2, dtype=kind)]).dtype == wide
        assert mechanisms.clipped_sum([torch.ones(1, 2, dtype=kind)], 1.0).total[0].dtype == wide


# --- norms that clipping divides by ----------------------------------------------------------------------------------------

SHORT = 1e-5
"""What a norm may fall short of the true one, as a share of it."""


def rows_that_lose_small_squares(count: int) -> torch.Tensor:
    """Large entries first, then squares of half a unit in the last place of theirs: every running sum drops these."""
    row = torch.full((1, count), 2.0**-12 * 0.999)
    row[0, :64] = 1.0
    return row


def true_norms(rows: torch.Tensor) -> np.ndarray:
    return np.linalg.norm(rows.double().numpy(), axis=1)


@pytest.mark.numerics
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("count", [511, 512, 513, 4096, 100_003, 2**20, 2**24])
def test_norms_of_large_tensors_are_not_short(count: int, masked: bool) -> None:
    """Equal entries, whose sums round to one side, and small squares after large ones, which running sums drop."""
    mask = [torch.ones(count, dtype=torch.bool)] if masked else None
    for rows in (torch.full((1, count), 1.1), torch.full((1, count), 0.83), rows_that_lose_small_squares(count)):
        short = 1 - mechanisms.sample_norms([rows], mask=mask).double().numpy() / true_norms(rows)
        assert abs(short[0]) <= SHORT, short


@pytest.mark.numerics
def test_norms_of_many_tensors_are_not_short() -> None:
    """Of a model of 3,000 parameters of one entry, and of rows whose entries do not lie side by side."""
    row = rows_that_lose_small_squares(3000)
    found = mechanisms.sample_norms([row[:, i] for i in range(3000)])
    assert abs(float(found) / true_norms(row)[0] - 1) <= SHORT
    wide = torch.cat([rows_that_lose_small_squares(2**20)] * 2)
    apart = wide.T.contiguous().T
    assert apart.stride(-1) == 2
    np.testing.assert_allclose(mechanisms.sample_norms([apart]).numpy(), true_norms(wide), rtol=SHORT)


@pytest.mark.numerics
@pytest.mark.parametrize("size", [1e-42, 1e-38, 1e-25, 1e-20, 1e-17, 1e15, 1e20, 1e25, 1e35])
@pytest.mark.parametrize("masked", [False, True])
def test_norms_whose_squares_leave_the_range(size: float, masked: bool) -> None:
    """Neither infinite, which would drop a record, nor zero, nor mixed up with the records beside it."""
    rng = np.random.default_rng(0)
    first = torch.from_numpy(rng.standard_normal((3, 700))).float()
    second = torch.from_numpy(rng.standard_normal((3, 5, 2))).float()
    first[1], second[1] = first[1] * size, second[1] * size
    mask = [torch.arange(700) % 2 == 0, torch.ones(5, 2, dtype=torch.bool)] if masked else None
    seen = torch.cat([first * (1 if mask is None else mask[0]), second.flatten(1)], dim=1)
    found = mechanisms.sample_norms([first, second], mask=mask)
    np.testing.assert_allclose(found.double().numpy(), true_norms(seen), rtol=SHORT, atol=1e-45)
    clip = 2.0
    total = mechanisms.clipped_sum([first[1:2], second[1:2]], clip, mask=mask)
    assert total.nonfinite == 0
    norm = float(torch.cat([t.flatten() for t in total.total]).double().norm())
    assert norm == pytest.approx(min(clip, true_norms(seen)[1]), rel=SHORT, abs=1e-45)


def test_what_is_not_finite_stays_so() -> None:
    rows = torch.tensor(
        [[3.0, 4.0], [torch.inf, 1.0], [torch.nan, 1.0], [torch.nan, torch.inf], [0.0, 0.0], [3e38, 3e38]]
    )
    found = mechanisms.sample_norms([rows, torch.zeros(6, 0)])
    assert found[0] == 5.0 and found[4] == 0.0 and not torch.isfinite(found[[1, 2, 3, 5]]).any()
    assert mechanisms.clipped_sum([rows], 1.0).nonfinite == 4


def test_a_factor_of_few_digits_counts_as_zero() -> None:
    """It would be off by up to half of itself, and the clipped gradient longer than the clip."""
    norms = torch.tensor([1e38, 3e38, 1e30])
    assert mechanisms.clip_factors(norms, 1e-3).tolist()[:2] == [0.0, 0.0]
    assert float(mechanisms.clip_factors(norms, 1e-3)[2]) == pytest.approx(1e-33, rel=1e-6)


@pytest.mark.numerics
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_no_record_moves_a_sum_by_more_than_the_clip(kind: torch.dtype) -> None:
    """On the path through every mechanism that clips whole gradients: C and the rounding that the module's docstring states."""
    rng = np.random.default_rng(3)
    largest = float(torch.finfo(kind).max) ** 0.5
    for size in (1e-3, 1.0, 100.0, min(largest / 10, 1e145)):  # whose squares add up to a number of float64
        for dim in (1, 300, 5000, 70_000):
            rows = torch.from_numpy(rng.standard_normal((1, dim)) * size).to(kind)
            for rest in (rows, torch.full((1, dim), size, dtype=kind)):
                total = mechanisms.DpSgd().contribute([rest], 0.7)
                assert total.nonfinite == 0
                assert float(total.total[0].double().norm()) <= 0.7 * (1 + SHORT)
