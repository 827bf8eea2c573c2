"""Numbers printed so that what is read holds as well."""

from decimal import ROUND_CEILING, Context, Decimal


def rounded_up(value: float, digits: int = 3) -> str:
    """In so many digits, 1..6, and never below the number: epsilon and noise that are rounded down promise too much."""
    return f"{float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(repr(float(value))))):g}"
