"""Small image sets in place of the whole ones, and configurations to match."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dptheory import training
from dptheory.training.data import Images
from dptheory.training.per_example._layer_hooks import HookedModule
from dptheory.training.runs import RunConfig, _prepare, from_dict

SHAPES = {"excerpt": (1, 28, 28), "fashion-mnist": (1, 28, 28), "mnist": (1, 28, 28), "cifar-10": (3, 32, 32)}
TRAIN, TEST = 120, 60
OF_ANY_SIZE = ("resnet20", "wrn-16-4")
"""Networks that end in a mean over all places, which small images do for."""


def tiny_load(name: str, *, train: bool) -> Images:
    """Random images in the shape of the data set; class k is brighter in row k, so that something can be learned."""
    generator = torch.Generator().manual_seed(int(train))
    count = TRAIN if train else TEST
    labels = torch.arange(count) % 10
    pixels = torch.rand(count, *SHAPES[name], generator=generator) / 2
    pixels[torch.arange(count), :, labels] += 0.5
    return Images(name, pixels, labels)


_look = HookedModule._astray


def look_once(patch: pytest.MonkeyPatch, seen: set[Any] | None = None) -> None:
    """From now on a look that found nothing is not made again at the same network, in as many examples of the same shape.

    The first run has all looks and later ones have none: where a look leaves a trace the two differ. Tests that hand on what was
    ``seen`` share the first run.
    """
    seen = set() if seen is None else seen

    def first_look(self: HookedModule, leaves: list[Any], spec: Any, count: int, held: list[int]) -> list[nn.Parameter]:
        trained = tuple(p.requires_grad for p in self._module.parameters())
        shapes = tuple((x.dtype, x.shape[1:]) for x in leaves if isinstance(x, torch.Tensor))
        key = repr(self._module), trained, self.mode, self.passes.views, shapes, count, tuple(held)
        found = [] if key in seen else _look(self, leaves, spec, count, held)
        if not found:
            seen.add(key)
        return found

    patch.setattr(HookedModule, "_astray", first_look)


_compare, _COMPARED = _prepare._compared, dict[Any, str]()


def _compared_once(model: nn.Module, config: RunConfig, train: Images, device: torch.device) -> str:
    """That a network keeps records apart is seen once: hundreds of runs have the same network and images of the same shape."""
    key = config.model, config.views, train.pixels.shape[1:], device
    if key not in _COMPARED:
        _COMPARED[key] = _compare(model, config, train, device)
    return _COMPARED[key]


def made_up_data(patch: pytest.MonkeyPatch) -> None:
    """Runs read small made-up images."""
    patch.setattr(_prepare, "load", tiny_load)
    patch.setattr(_prepare, "_compared", _compared_once)
    look_once(patch)


def small_images(patch: pytest.MonkeyPatch) -> None:
    """CIFAR-10 at 12 pixels a side."""
    patch.setitem(SHAPES, "cifar-10", (3, 12, 12))


def tiny_config(mechanism: dict | None = None, **changes) -> RunConfig:
    """Three epochs of four steps of the small CNN."""
    table = {
        "data": "excerpt", "model": "small-cnn", "epochs": 3, "batch_size": 30, "physical_batch_size": 16,
        "max_grad_norm": 1.0, "noise_multiplier": 1.0, "seed": 5,
        "optimizer": {"name": "sgd", "learning_rate": 0.5, "momentum": 0.9},
        "mechanism": mechanism or {"name": "dp-sgd"},
    }  # fmt: skip
    return from_dict(table | changes)


def said_of(path: Path) -> str:
    """Comments and table of a shipped run."""
    parts = (
        (Path(training.__file__).parent / path.parent).with_suffix(".toml").read_text(encoding="utf-8").split("\n\n")
    )
    (found,) = (part for part in parts if re.search(rf'^\[(")?{re.escape(path.name)}(?(1)")\]$', part, re.MULTILINE))
    return found
