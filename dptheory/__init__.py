"""Executable companion to five papers on DP-SGD with masked, frozen, pruned and projected gradients.

The calculators live in flat modules (``dptheory.pruning``, ``dptheory.pruning``, ...), the verdict on every claim of
the papers in ``dptheory.claims``, and the engine that checks them in ``dptheory.checks``. Submodules load on first use.
"""

import importlib
from types import ModuleType

_SUBMODULES = (
    "accounting",
    "angles",
    "auditing",
    "claims",
    "clipping",
    "convergence",
    "costs",
    "embedding",
    "errors",
    "freezing",
    "gradient_mse",
    "index_privacy",
    "index_prv",
    "joint_privacy",
    "mallows",
    "mask_effects",
    "mask_privacy",
    "masks",
    "momentum",
    "montecarlo",
    "projections",
    "presets",
    "pruning",
    "quadratic",
    "quadratic_form",
    "randomized_response",
    "ranking",
    "reconstruction",
    "renyi",
    "schedules",
    "selection",
    "sparsification",
    "tradeoff",
)


def __getattr__(name: str) -> ModuleType:
    if name in _SUBMODULES:
        return importlib.import_module(f"dptheory.{name}")
    raise AttributeError(f"module 'dptheory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_SUBMODULES)
