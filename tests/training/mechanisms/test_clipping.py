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
    one = torch.ones(2)
    assert _clipping.widened([one])[0] is one
