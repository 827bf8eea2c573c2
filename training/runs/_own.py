"""A network and records of the user's own: a function in a Python file, and arrays in an .npz file."""

import logging
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training._files import NETWORK, executed, fault, place_of
from dptheory.training._randomness import seeded

_FEATURES, _LABELS = "features", "labels"
_TEST = ("test_features", "test_labels")
_MOST_LISTED = 6
_log = logging.getLogger("dptheory.progress")


def is_file(data: object) -> bool:
    """Whether data are records in a file of the user's, ``private.npz``, and not a shipped set."""
    return isinstance(data, str) and data.endswith(".npz")


def own_network(model: str, *, seed: int = 0) -> nn.Module:
    """The network that a function of the user's builds; the file is executed.

    Args:
        model: file and function, ``mynetwork.py:build``; the function takes no arguments and gives an ``nn.Module``. The file is
            looked up from the current folder, and may import its neighbours.
        seed: of torch's generator meanwhile, 0 to 2^63 - 1.

    Returns:
        The network, in training mode.

    Raises:
        ValueError: no such file or function, code that cannot be executed, or a function that gives no network.

    Example: a file with a linear layer.
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dptheory.training.runs import own_network
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "mynetwork.py"
        ...     _ = file.write_text("import torch\\ndef build():\\n    return torch.nn.Linear(3, 2)\\n")
        ...     own_network(f"{file}:build")
        Linear(in_features=3, out_features=2, bias=True)
    """
    _validate.instance("model", model, str)
    path, function = place_of("model", model, example="mynetwork.py:build")
    build = getattr(executed(path, module_name=NETWORK), function, None)
    if not callable(build):
        raise ArgumentError(str(path), f"have a function {function}", None, got="none of that name")
    try:
        network = seeded(seed, build)
    except Exception as error:
        raise ArgumentError(model, "build a network without arguments", None, got=fault(error, path)) from error
    if not isinstance(network, nn.Module):
        raise ArgumentError(model, "give an nn.Module", network, got=_validate.shown(network))
    return network.train()


def own_records(path: Path | str, *, test: bool = False) -> tuple[Tensor, Tensor]:
    """Features and labels from an .npz file, as ``numpy.savez(path, features=..., labels=...)`` writes it.

    Floating-point features become float32, as layers have them, and whole numbers int64, as embeddings and cross entropy take them;
    features of uint8 are refused, as images in bytes are meant to be scaled.

    Args:
        path: of the file; an .npz with pickled objects is refused.
        test: take the arrays ``test_features`` and ``test_labels`` instead, to judge by; none of either gives no record.

    Returns:
        Features, shape (n, ...), and labels, shape (n,).

    Raises:
        ValueError: no such file, another format, an array that is missing or no array of numbers, labels that are not whole or
            not one a record, numbers that are not finite, or arrays of different lengths.

    Example: three records.
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from dptheory.training.runs import own_records
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.savez(Path(folder) / "public.npz", features=np.ones((3, 2)), labels=[0, 1, 0])
        ...     features, labels = own_records(Path(folder) / "public.npz")
        >>> features.dtype, labels.tolist()
        (torch.float32, [0, 1, 0])
    """
    path = Path(path)
    if not path.is_file():
        raise ArgumentError(
            str(path),
            "be an .npz file with arrays features and labels",
            None,
            got=f"no file of this name in {path.resolve().parent}",
        )
    try:
        held = np.load(path, allow_pickle=False)
        if not isinstance(held, np.lib.npyio.NpzFile):
            raise ArgumentError(
                str(path), "be an .npz file with arrays features and labels", None, got="a single array"
            )
        with held:
            names = _TEST if test else (_FEATURES, _LABELS)
            there = [name for name in names if name in held.files]
            if test and not there:
                return _none_like(held[_FEATURES], path), torch.zeros(0, dtype=torch.int64)
            if len(there) < len(names):
                listed = ", ".join(held.files[:_MOST_LISTED]) or "none"
                raise ArgumentError(str(path), f"have arrays {' and '.join(names)}", None, got=listed)
            features, labels = (_tensor(path, name, held[name]) for name in names)
    except (zipfile.BadZipFile, EOFError, OSError, UnicodeDecodeError) as error:
        raise ArgumentError(str(path), "be an .npz file", None, got=f"one that cannot be read: {error}") from error
    except ValueError as error:
        if "pickle" not in str(error):
            raise
        raise ArgumentError(
            str(path), "be an .npz file of numbers", None, got="another format or pickled objects, which are not read"
        ) from error
    if len(features) != len(labels):
        raise ArgumentError(
            str(path), "have as many labels as features", None, got=f"{len(labels)} and {len(features)}"
        )
    return features, labels


def _none_like(features: NDArray[Any], path: Path) -> Tensor:
    return _tensor(path, _FEATURES, features[:0])


def _tensor(path: Path, name: str, array: NDArray[Any]) -> Tensor:
    if array.dtype.kind not in "biuf" or not array.ndim:
        raise ArgumentError(
            str(path), f"hold numbers in {name}, one row a record", None, got=f"{array.dtype} of shape {array.shape}"
        )
    if name in (_LABELS, _TEST[1]) and (array.dtype.kind == "f" or array.ndim != 1):
        raise ArgumentError(
            str(path),
            f"hold whole numbers in {name}, the classes from 0, one a record",
            array.dtype,
            got=f"{array.dtype} of shape {array.shape}",
            then=f": numpy.int64({name}) makes some of classes held as floating-point numbers"
            if array.ndim == 1
            else "",
        )
    if array.dtype == np.float64:
        _log.info("%s: %s are float64, and taken as float32", path, name)
    if name in (_FEATURES, _TEST[0]) and array.dtype == np.uint8:  # bytes of images, which no layer takes as they are
        raise ArgumentError(
            str(path),
            f"hold pixels in {name} as floating-point numbers: numpy.float32(pixels) / 255",
            array.dtype,
            got="uint8; numbers of tokens are int64",
        )
    if array.dtype.kind != "f":
        return torch.from_numpy(array.astype(np.int64))
    with np.errstate(over="ignore"):
        single = array.astype(np.float32)
    if not np.isfinite(single).all():
        raise ArgumentError(
            str(path), f"hold finite numbers in {name}", None, got="NaN, infinity or more than a float32 holds"
        )
    return torch.from_numpy(single)
