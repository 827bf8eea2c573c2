"""PyTorch and Opacus: the papers' algorithms as optimizers, and the predictions of :mod:`dptheory` against real gradients."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from training.engine import make_private


def __getattr__(name: str) -> Any:
    """``make_private`` on first use: torch and Opacus take seconds to import, which ``--help`` should not."""
    if name == "make_private":
        from training.engine import make_private

        return make_private
    raise AttributeError(f"module 'training' has no attribute {name!r}")
