"""PyTorch and Opacus: the papers' algorithms as optimizers, and the predictions of :mod:`dptheory` against real gradients."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dptheory.training.audits import audit as audit
    from dptheory.training.engine import PrivacyEngine as PrivacyEngine
    from dptheory.training.engine import check_rows_apart as check_rows_apart
    from dptheory.training.engine import make_private as make_private
    from dptheory.training.engine import make_private_with_epsilon as make_private_with_epsilon
    from dptheory.training.planning import plan as plan

_ROOMS = {"audit": "audits", "plan": "planning"} | dict.fromkeys(
    ("PrivacyEngine", "check_rows_apart", "make_private", "make_private_with_epsilon"), "engine"
)


def __getattr__(name: str) -> Any:
    """Loaded on first use: torch and Opacus take seconds to import, which ``--help`` should not."""
    if name not in _ROOMS:
        raise AttributeError(f"module 'dptheory.training' has no attribute {name!r}")
    return getattr(import_module(f"dptheory.training.{_ROOMS[name]}"), name)
