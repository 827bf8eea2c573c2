"""What a result says of the machine that made it."""

import importlib.metadata
import platform

import torch

_PACKAGES = ("dptheory", "numpy", "scipy", "torch", "opacus")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that the numbers depend on; of torch the build too, such as 2.13.0+cu130."""
    installed = {p: importlib.metadata.version(p) for p in _PACKAGES}
    return {"python": platform.python_version()} | installed | {"torch": str(torch.__version__)}  # names the build


def device_name(device: torch.device) -> str:
    """The device in words, such as "cuda: NVIDIA A100"."""
    return f"cuda: {torch.cuda.get_device_name(device)}" if device.type == "cuda" else "cpu"
