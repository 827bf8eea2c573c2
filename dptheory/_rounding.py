"""Numbers written so that what is read holds as well."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any


def rounded_up(value: float, digits: int = 3) -> str:
    """In so many digits, 1..15, and never below the number: epsilon and noise that are rounded down promise too much."""
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 3) -> str:
    """In so many digits, 1..15, and never above the number: what is spent at least."""
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, way: str) -> str:
    found = float(Context(prec=digits, rounding=way).create_decimal(Decimal(repr(float(value)))))
    return f"{found:.{max(digits, 6)}g}"  # 124000 in three digits, not 1.24e+05


def for_json(value: Any) -> Any:
    """With null for NaN and infinity, which JSON does not have, also inside dicts and lists; the text beside it says why."""
    if isinstance(value, dict):
        return {name: for_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [for_json(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
