"""Numbers printed so that what is read holds as well."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal


def rounded_up(value: float, digits: int = 3) -> str:
    """In so many digits, 1..15, and never below the number: epsilon and noise that are rounded down promise too much."""
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 3) -> str:
    """In so many digits, 1..15, and never above the number: what is spent at least."""
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, way: str) -> str:
    return f"{float(Context(prec=digits, rounding=way).create_decimal(Decimal(repr(float(value))))):.{digits}g}"
