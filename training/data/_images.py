"""The image sets: an embedded excerpt of FashionMNIST, and the whole of FashionMNIST, MNIST and CIFAR-10."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from dptheory import _validate
from dptheory.training.data._files import (
    Archive,
    DataFile,
    data_folder,
    fetch_missing,
    parse_cifar10,
    parse_idx,
    read_checked,
)

_Arrays = tuple[NDArray[np.uint8], NDArray[np.uint8]]

_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
_MNIST = "http://yann.lecun.com/exdb/mnist/"
_CIFAR = Archive(url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", md5="c32a1d4ab5d03f1284b67883e8d87530")


@dataclass(frozen=True)
class Images:
    """Labelled images.

    Args:
        name: of the set they come from, one of ``NAMES``.
        pixels: float32, shape (N, channels, height, width); in [0, 1] as loaded.
        labels: int64, shape (N,), 0 to 9.

    Example: the first hundred test images of the excerpt.
        >>> from dptheory.training.data import Images, load
        >>> whole = load(name="excerpt", train=False)
        >>> len(Images(whole.name, whole.pixels[:100], whole.labels[:100]))
        100
    """

    name: str
    pixels: torch.Tensor
    labels: torch.Tensor

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class _DataSet:
    train: tuple[DataFile, ...]
    test: tuple[DataFile, ...]
    parse: Callable[[tuple[DataFile, ...], Path], _Arrays]
    embedded: bool = False


def _read_idx_pair(files: tuple[DataFile, ...], folder: Path) -> _Arrays:
    images, labels = (parse_idx(read_checked(f, folder), f.path) for f in files)
    return images[:, None], labels


def _read_cifar10(files: tuple[DataFile, ...], folder: Path) -> _Arrays:
    images, labels = zip(*(parse_cifar10(read_checked(f, folder), f.path) for f in files), strict=True)
    return np.concatenate(images), np.concatenate(labels)


def _idx(path: str, size: int, md5: str, url: str, served_md5: str) -> DataFile:
    return DataFile(
        path=path, size=size, md5=md5, home=Archive(url=f"{url}{path.rsplit('/', 1)[-1]}.gz", md5=served_md5)
    )


def _cifar(name: str, md5: str) -> DataFile:
    return DataFile(path=f"cifar-10-batches-bin/{name}.bin", size=30_730_000, md5=md5, home=_CIFAR)


# fmt: off
_SETS = {
    "excerpt": _DataSet(
        train=(
            DataFile(path="train-images-idx3-ubyte", size=1_568_016, md5="7f9091a9289757d4759f4db021f25698", home=None),
            DataFile(path="train-labels-idx1-ubyte", size=2_008, md5="286ec15c542ee97cbedb47658809cb4d", home=None),
        ),
        test=(
            DataFile(path="t10k-images-idx3-ubyte", size=392_016, md5="4255ad7a7e77f5f027f05fd7644a6d38", home=None),
            DataFile(path="t10k-labels-idx1-ubyte", size=508, md5="46aa1f456ad6a5c48b50f4f28b2cc651", home=None),
        ),
        parse=_read_idx_pair,
        embedded=True,
    ),
    "fashion-mnist": _DataSet(
        train=(
            _idx("fashion-mnist/train-images-idx3-ubyte", 47_040_016, "f4a8712d7a061bf5bd6d2ca38dc4d50a",
                 _FASHION, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
            _idx("fashion-mnist/train-labels-idx1-ubyte", 60_008, "9018921c3c673c538a1fc5bad174d6f9",
                 _FASHION, "25c81989df183df01b3e8a0aad5dffbe"),
        ),
        test=(
            _idx("fashion-mnist/t10k-images-idx3-ubyte", 7_840_016, "8181f5470baa50b63fa0f6fddb340f0a",
                 _FASHION, "bef4ecab320f06d8554ea6380940ec79"),
            _idx("fashion-mnist/t10k-labels-idx1-ubyte", 10_008, "15d484375f8d13e6eb1aabb0c3f46965",
                 _FASHION, "bb300cfdad3c16e7a12a480ee83cd310"),
        ),
        parse=_read_idx_pair,
    ),
    "mnist": _DataSet(
        train=(
            _idx("mnist/train-images-idx3-ubyte", 47_040_016, "6bbc9ace898e44ae57da46a324031adb",
                 _MNIST, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
            _idx("mnist/train-labels-idx1-ubyte", 60_008, "a25bea736e30d166cdddb491f175f624",
                 _MNIST, "d53e105ee54ea40749a09fcbcd1e9432"),
        ),
        test=(
            _idx("mnist/t10k-images-idx3-ubyte", 7_840_016, "2646ac647ad5339dbf082846283269ea",
                 _MNIST, "9fb629c4189551a2d022fa330f9573f3"),
            _idx("mnist/t10k-labels-idx1-ubyte", 10_008, "27ae3e4e09519cfbb04c329615203637",
                 _MNIST, "ec29112dd5afa0611ce80d1b7f02629c"),
        ),
        parse=_read_idx_pair,
    ),
    "cifar-10": _DataSet(
        train=(
            _cifar("data_batch_1", "5dd7e06a14cb22eb9f671a540d1b7c25"),
            _cifar("data_batch_2", "5ea93a67294ea407fff1d09f752e9692"),
            _cifar("data_batch_3", "942cd6a4bcdd0dd3c604fbe906cb4421"),
            _cifar("data_batch_4", "ae636b3ba5c66a11e91e8cb52e771fcb"),
            _cifar("data_batch_5", "53f37980c15c3d472c316c40844f3f0d"),
        ),
        test=(_cifar("test_batch", "803d5f7f4d78ea53de84dbe85f74fb6d"),),
        parse=_read_cifar10,
    ),
}
# fmt: on

NAMES = tuple(_SETS)

_FASHION_CHANNELS = (0.2860,), (0.3530,)
CHANNELS = {
    "excerpt": _FASHION_CHANNELS,
    "fashion-mnist": _FASHION_CHANNELS,
    "mnist": ((0.1307,), (0.3081,)),
    "cifar-10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}
"""Mean and standard deviation of every channel over the training images, pixels in [0, 1], as they are published with each set.

MNIST: PyTorch's example for it; CIFAR-10: the code of De et al. (2022, jax_privacy), .49139968 and so on; FashionMNIST: in common
use, and its training images have just these. Whoever trains on these sets knows them, so that they cost no privacy; on data of
one's own they would have to come from elsewhere.
"""


def standardised(images: Images) -> Images:
    r"""The images less the published mean of each channel, over its published standard deviation: :math:`(x - \mu_c)/\sigma_c`.

    Args:
        images: of a set that ``CHANNELS`` has, as :func:`load` gives them.

    Returns:
        New images of the same name; the labels are shared.

    Raises:
        ValueError: a name that ``CHANNELS`` does not have.

    Example: the mean pixel of the excerpt is near 0 afterwards.
        >>> from dptheory.training.data import load, standardised
        >>> round(abs(float(standardised(load(name="excerpt", train=True)).pixels.mean())), 1)
        0.0
    """
    channels = CHANNELS[_validate.choice("images.name", images.name, tuple(CHANNELS))]
    mean, deviation = (torch.tensor(values).view(-1, 1, 1) for values in channels)
    return Images(images.name, (images.pixels - mean) / deviation, images.labels)


def load(*, name: str, train: bool) -> Images:
    """Load the training or the test images of a data set, their files checked against the published MD5 sums.

    Args:
        name: "excerpt" (the first 2,000 training and 500 test images of FashionMNIST, which come with this package),
            "fashion-mnist", "mnist" or "cifar-10" (read from the data folder; fetched into it when they are missing).
        train: True for the training images, False for the test images.

    Returns:
        The images with pixels divided by 255.

    Raises:
        ValueError: an unknown name.
        DataFileError: a file is unreadable, truncated or not the published one.
        DataMissingError: a file is missing and cannot be fetched.

    Example: the test images of the embedded excerpt, and the classes of the first five.
        >>> from dptheory.training.data import load
        >>> images = load(name="excerpt", train=False)
        >>> images.pixels.shape, images.labels[:5].tolist()
        (torch.Size([500, 1, 28, 28]), [9, 2, 1, 1, 6])
    """
    chosen = _SETS[_validate.choice("name", name, NAMES)]
    _validate.flag("train", train)
    files = chosen.train if train else chosen.test
    if chosen.embedded:
        folder = Path(str(package_files("dptheory.training"))) / "excerpt"
    else:
        folder = data_folder()
        fetch_missing(chosen.train + chosen.test, folder)
    pixels, labels = chosen.parse(files, folder)
    return Images(name, torch.from_numpy(pixels.astype(np.float32) / 255), torch.from_numpy(labels.astype(np.int64)))
