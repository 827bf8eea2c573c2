"""Executable companion to five papers on DP-SGD with masked, frozen, pruned and projected gradients.

The calculators stand in packages by subject (``dptheory.pruning``, ``dptheory.privacy``, ...), the verdict on every claim of
the papers in ``dptheory.claims``, and the engine that checks them in ``dptheory.checks``. Packages load on first use.
"""

import importlib
import pkgutil
from typing import Any


def _public() -> list[str]:
    """Packages and modules of the library whose name has no underscore."""
    return sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_"))


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and name in _public():
        return importlib.import_module(f"dptheory.{name}")
    raise AttributeError(f"module 'dptheory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return _public()
