"""What a result says of the machine that made it."""

import importlib.metadata
import platform

import torch

_PACKAGES = ("dptheory", "numpy", "scipy", "torch", "opacus")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that the numbers depend on."""
    return {"python": platform.python_version()} | {p: importlib.metadata.version(p) for p in _PACKAGES}


def device_name(device: torch.device) -> str:
    """The device in words, such as "cuda: NVIDIA A100"."""
    return f"cuda: {torch.cuda.get_device_name(device)}" if device.type == "cuda" else "cpu"
