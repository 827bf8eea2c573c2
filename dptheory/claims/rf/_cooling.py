"""Density of a run with gradual cooling, counted epoch by epoch."""

from fractions import Fraction

from dptheory import sparsification


def counted_density(final: Fraction, cooling: int, epochs: int, baseline: int) -> Fraction:
    """Share of non-zero entries, epoch by epoch as Algorithm 1 runs."""
    rates = [final * min(Fraction(e, cooling - 1), Fraction(1)) for e in range(epochs)]
    return sum((1 - r for r in rates), Fraction(0)) / baseline


def stated_density(final: Fraction, cooling: int, epochs: int, baseline: int) -> float:
    """The same by the calculator."""
    return sparsification.total_density(
        final_drop_rate=float(final), cooling_epochs=cooling, epochs=epochs, baseline_epochs=baseline
    )
