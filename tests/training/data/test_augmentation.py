"""Crops and flips: pieces of the padded image, each in its place."""

from collections import namedtuple
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from dptheory.training.data import CropsAndFlips


def test_views_are_crops_of_the_padded_image_or_their_mirror_images() -> None:
    images = torch.randn(3, 2, 5, 4)
    augmentation = CropsAndFlips(shift=2)
    draws = augmentation.draws(12, torch.Generator().manual_seed(0))
    found = augmentation.views(images, draws)
    assert found.shape == (12, 2, 5, 4)
    for place, (row, column, mirrored) in enumerate(draws.tolist()):
        wanted = F.pad(images[place // 4], [2] * 4)[:, row : row + 5, column : column + 4]
        assert torch.equal(found[place], wanted.flip(2) if mirrored else wanted)


@pytest.mark.parametrize("flips", [True, False])
def test_every_crop_and_flip_is_drawn(flips: bool) -> None:
    draws = CropsAndFlips(shift=1, flips=flips).draws(1000, torch.Generator().manual_seed(0))
    # a given one of 18 is missing with probability (17 / 18)^1000 < 1e-24
    assert {tuple(row) for row in draws.tolist()} == {
        (r, c, f) for r in range(3) for c in range(3) for f in range(1 + flips)
    }


def test_no_images_have_no_views() -> None:
    augmentation = CropsAndFlips()
    assert augmentation.views(torch.zeros(0, 1, 6, 6), augmentation.draws(0)).shape == (0, 1, 6, 6)


Record = namedtuple("Record", ["image", "label"])


@pytest.mark.parametrize("kind", [tuple, list, lambda parts: Record(*parts)])
def test_records_keep_their_other_parts(kind: Any) -> None:
    record = kind([torch.ones(1, 3, 3), 7])
    found = CropsAndFlips(shift=1)(record)
    assert type(found) is type(record) and found[1] == 7 and found[0].shape == (1, 3, 3)


def test_the_global_generator_repeats_them() -> None:
    image = torch.randn(1, 6, 6)
    found = []
    for _ in range(2):
        torch.manual_seed(5)
        found.append(CropsAndFlips()(image))
    assert torch.equal(*found)


@pytest.mark.parametrize("record", [3, "text", torch.zeros(4), (torch.zeros(4), 1), {"image": torch.zeros(1, 3, 3)}])
def test_what_holds_no_image_is_refused(record: Any) -> None:
    with pytest.raises(ValueError, match="record"):
        CropsAndFlips()(record)


@pytest.mark.parametrize("bad", [{"shift": -1}, {"shift": 1.5}, {"shift": 2000}, {"flips": 1}, {"flips": "no"}])
def test_bad_arguments(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        CropsAndFlips(**bad)
