"""The values of a test's case under the names of a calculator's arguments."""

from dptheory.claims._case import by_name

__all__ = ["by_name"]
