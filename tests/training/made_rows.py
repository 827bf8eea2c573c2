"""Rows of measurements, made up."""

from typing import Any

from dptheory.training.measure import Row


def row(
    predicted: float,
    measured: float,
    standard_error: float = 0.0,
    *,
    quantity: str = "q",
    setting: str = "",
    **more: Any,
) -> Row:
    """A row of group "g" and claims "c" where nobody says otherwise."""
    return Row(
        quantity=quantity,
        setting=setting,
        predicted=predicted,
        measured=measured,
        standard_error=standard_error,
        **{"group": "g", "claims": "c"} | more,
    )
