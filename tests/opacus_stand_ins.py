"""Small stand-ins for what Opacus's example scripts import and no CPU build carries: data of the same shape, made up."""

import sys
import types
from collections.abc import Callable, Iterable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import interpolate

EXAMPLES, TEST_EXAMPLES, CLASSES, WORDS = 40, 8, 10, 50


class _Images(torch.utils.data.Dataset):
    shape: tuple[int, ...]

    def __init__(
        self, root: str, train: bool = True, download: bool = False, transform: Callable | None = None
    ) -> None:
        count = EXAMPLES if train else TEST_EXAMPLES
        source = torch.Generator().manual_seed(int(train))
        self.data = torch.randint(256, (count, *self.shape), generator=source, dtype=torch.uint8)
        self.targets = torch.full((count,), 8) if train else torch.arange(count) % CLASSES
        self._transform = transform or (lambda image: image)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        return self._transform(self.data[i]), int(self.targets[i])


class MNIST(_Images):
    shape = (1, 28, 28)


class CIFAR10(_Images):
    shape = (3, 32, 32)


class Compose:
    def __init__(self, transforms: list[Callable]) -> None:
        self._transforms = transforms

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        for transform in self._transforms:
            image = transform(image)
        return image


class ToTensor:
    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return image / 255


class Normalize:
    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        self._mean, self._std = (torch.tensor(one)[:, None, None] for one in (mean, std))

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return (image - self._mean) / self._std


class Resize:
    def __init__(self, size: int) -> None:
        self._size = size

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return interpolate(image[None].float(), (self._size, self._size))[0]


class _Splits(dict):
    """Reviews by split, as far as the script uses what ``load_dataset`` gives."""

    def map(self, tokenize: Callable, batched: bool) -> "_Splits":
        return _Splits({name: tokenize({"text": texts}) for name, texts in self.items()})

    def set_format(self, type: str, columns: list[str]) -> None:
        """They are tensors already."""


_TEXTS = {"train": range(EXAMPLES), "test": range(TEST_EXAMPLES)}


class BertTokenizerFast:
    @classmethod
    def from_pretrained(cls, name: str) -> "BertTokenizerFast":
        return cls()

    def __call__(self, texts: Iterable[int], truncation: bool, max_length: int) -> list[dict[str, torch.Tensor]]:
        return [
            {
                "input_ids": torch.randint(WORDS, (3 + i % max_length,), generator=torch.Generator().manual_seed(i)),
                "label": torch.tensor(i % 2),
            }
            for i in texts
        ]

    def __len__(self) -> int:
        return WORDS


class _Bar:
    """A bar that shows nothing but what it is told."""

    def __init__(self, loader: Iterable) -> None:
        self._loader = loader

    def __iter__(self) -> Any:
        return iter(self._loader)

    def set_description(self, text: str) -> None:
        print(text)


def write_names(folder: Path) -> None:
    """Names of two languages, one per line, a file for each, as the recurrent network's script reads them."""
    folder.mkdir()
    for language, letters in (("German", "abde"), ("Latin", "ious")):
        names = ["".join(letters[(i * j) % 4] for j in range(1, 3 + i % 4)) for i in range(25)]
        (folder / f"{language}.txt").write_text("\n".join(names) + "\n", encoding="utf-8")


def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stand-ins where ``import`` finds them."""
    parts = {
        "torchvision": {},
        "torchvision.datasets": {"MNIST": MNIST, "CIFAR10": CIFAR10},
        "torchvision.transforms": {
            "Compose": Compose, "ToTensor": ToTensor, "Normalize": Normalize, "Resize": Resize,
            "RandomCrop": lambda size, padding: None, "RandomHorizontalFlip": lambda: None,
        },
        "torchvision.utils": {"save_image": lambda tensor, path, normalize: Path(path).write_bytes(b"")},
        "tqdm": {"tqdm": _Bar},
        "datasets": {"load_dataset": lambda name, cache_dir: _Splits(_TEXTS)},
        "transformers": {"BertTokenizerFast": BertTokenizerFast},
    }  # fmt: skip
    for name, content in parts.items():
        module = types.ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)  # torch asks whether there is one
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
