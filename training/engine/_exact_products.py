"""Norms, clipped sums and projections in full precision, whatever the loop has set for its own products.

Under autocast a matrix product rounds its factors to 8 bits, and with TF32, which is what torch sets for convolutions on a GPU, to
11: norms come out too short by as much, and a record moves a sum by more than its clip.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

_FULL = "ieee"


@contextmanager
def exact_products() -> Iterator[None]:
    """No autocast, and products of float32 in float32, within the block; what the loop has set holds again behind it."""
    with ExitStack() as stack:
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        for place, name, full in _settings():
            stack.callback(setattr, place, name, getattr(place, name))
            setattr(place, name, full)
        yield


def _settings() -> list[tuple[Any, str, object]]:
    """Where torch keeps the precision of products: object, attribute, and its value for full precision."""
    found = torch.backends
    if hasattr(found.cuda.matmul, "fp32_precision"):
        places = [found.cuda.matmul, found.cudnn.conv, found.mkldnn.matmul, found.mkldnn.conv]  # type: ignore[attr-defined]
        return [(place, "fp32_precision", _FULL) for place in places if place.fp32_precision != _FULL]
    return [(found.cuda.matmul, "allow_tf32", False), (found.cudnn, "allow_tf32", False)]  # torch before 2.9
