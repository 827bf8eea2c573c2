"""Norms, errors and deviations: against batches drawn one by one, and numbers by hand."""

import pytest
import torch

from dptheory.training.measure import _masked
from tests.training.measure.looked_at import invented


def test_law_of_the_norms() -> None:
    view = invented(torch.diag(torch.tensor([0.1, 1.0, 10.0])), clip=0.5, kept=torch.tensor([True, True, False]))
    found = _masked.norms(view)
    assert found["clipped_share"] == pytest.approx(1 / 3) and found["kept"] == 2
    assert found["quantiles"][3] == pytest.approx(0.1)  # the norms are 0.1, 1 and, masked out, 0
    assert sum(found["histogram"]) == 3 and found["histogram"][0] == 1 and found["histogram"][50] == 1


def test_errors_are_those_of_drawn_batches() -> None:
    generator = torch.Generator().manual_seed(0)
    gradients = torch.randn(30, 20, generator=generator) + 0.5
    view = invented(gradients, clip=1.5, sigma=2.0, batch=5)
    masks = view.drawn_masks(0.5, 1)
    found = _masked._error(view, masks)
    kept = masks[:, 0].float()
    clipped = gradients * kept
    clipped = clipped * (1.5 / clipped.norm(dim=1)).clamp_max(1.0)[:, None]
    chosen = torch.randint(30, (40_000, 5), generator=generator)
    drawn = (clipped[chosen].mean(1) - gradients.mean(0)).square().sum(1)
    assert found == pytest.approx(float(drawn.mean()), rel=0.02)
    rows = _masked.errors(view, [0.5], 3)
    noise = [after - before for after, before in zip(rows["mse"], rows["signal_loss"], strict=True)]
    assert noise == pytest.approx([20 * (3 / 5) ** 2, 10 * (3 / 5) ** 2]) and rows["drop_rates"] == [0.0, 0.5]


def test_kept_entries_grow_where_the_clip_binds() -> None:
    gradients = torch.ones(4, 100)
    assert _masked.relaxed(invented(gradients, clip=1.0), [0.75], 2)["ratio"] == pytest.approx([2.0])
    assert _masked.relaxed(invented(gradients, clip=100.0), [0.75], 2)["ratio"] == pytest.approx([1.0])


def test_a_skewed_law_is_told_from_its_mirror_image() -> None:
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(200, 300, generator=generator)
    skewed = 0.1 * normal + 3.0 * (torch.rand(200, 1, generator=generator) < 0.1)
    even, odd = (
        _masked.deviations(invented(g, clip=1.0, kept=torch.ones(300, dtype=torch.bool)), 5, 50)
        for g in (normal, skewed)
    )
    assert abs(even["mirror_distance"]) < 0.02 < 0.2 < odd["mirror_distance"]
    assert even["skewness_rms"] < 0.3 < 1.0 < odd["skewness_rms"]
    assert len(even["points"]) == 5 and all(len(pair) == 2 for pair in even["points"])


def test_how_often_an_entry_was_out() -> None:
    view = invented(torch.ones(2, 4), clip=1.0, kept=torch.tensor([True, True, False, False]))
    assert _masked.frozen(view)["times"] == [2, 2]
    vars(view)["kept"] = torch.tensor([True, False, False, True])
    assert _masked.frozen(view)["times"] == [1, 2, 1]
