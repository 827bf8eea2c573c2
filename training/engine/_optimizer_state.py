"""The state of an optimizer: what it holds, and what of it is taken over."""

from typing import TYPE_CHECKING, Any

from dptheory.errors import ArgumentError

if TYPE_CHECKING:
    from dptheory.training.engine._optimizer import MechanismOptimizer

_KEYS = ("optimizer", "mechanism", "accountant", "nonfinite_samples", "generator")


def written(optimizer: "MechanismOptimizer") -> dict[str, Any]:
    """What :func:`take_over` and the accountant take over."""
    return {
        "optimizer": optimizer.original_optimizer.state_dict(),
        "mechanism": optimizer.mechanism.state_dict(),
        "accountant": optimizer.accountant.state_dict(),
        "nonfinite_samples": optimizer.nonfinite_samples,
        "generator": optimizer.noise_stream.state(),
    }


def check(state: dict[str, Any]) -> None:
    """See that a state has all its parts.

    Raises:
        ValueError: it lacks some.
    """
    missing = [key for key in _KEYS if key not in state]
    if missing:
        raise ArgumentError(
            "state_dict", "be one of this optimizer", ", ".join(missing), got=f"one without {', '.join(missing)}"
        )


def take_over(optimizer: "MechanismOptimizer", state: dict[str, Any]) -> None:
    """All of a state but the steps.

    No noise comes back, but in a simulation that has made no step: two releases with one noise would show the data.
    """
    optimizer.original_optimizer.load_state_dict(state["optimizer"])
    optimizer.mechanism.load_state_dict(state["mechanism"])
    optimizer.nonfinite_samples = state["nonfinite_samples"]
    if optimizer.accountant.own_steps == 0:
        optimizer.noise_stream.load(state["generator"])
