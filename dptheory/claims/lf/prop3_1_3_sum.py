import math
from fractions import Fraction
from functools import partial

from dptheory import gradients
from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.lf._angle_samples import opposed_half_squares


def printed_sum(bias_variance: float, dim: int, snr: float) -> float:
    """Var gamma as the sum of the variances."""
    return bias_variance + gradients.DistortionAngle(dim, snr=snr).var()


def _opposed_variance(dim: int, snr: float) -> float:
    """Var gamma where s^B points along or against the gradient with equal chances and has one norm."""
    angle = gradients.DistortionAngle(dim, snr=snr)
    return angle.var() + (math.pi / 2 - angle.mean()) ** 2


def _variance_of_two(chance: Fraction) -> Fraction:
    """Variance of an angle that is pi with this chance and 0 otherwise, in units of pi^2."""
    return chance * (1 - chance)


def _flipped(against: Fraction, flip: Fraction) -> Fraction:
    """Chance that s^P points against the gradient on a line, by enumeration."""
    chances = {(b, n): (against if b else 1 - against) * (flip if n else 1 - flip) for b in (0, 1) for n in (0, 1)}
    return sum((p for (b, n), p in chances.items() if b != n), Fraction(0))


row = new_row(
    id="lf.prop3.1.3.sum",
    source=Source("lf", "Proposition 3.1 (3), proof"),
    verdict=Verdict.FALSE,
    severity=Severity.SERIOUS,
    printed=printed_sum,
    calculators=(gradients.DistortionAngle.var, gradients.DistortionAngle.mean),
    part_of="lf.def3.2",
)


@row.equal(lambda: [(Fraction(1, 2), Fraction(1, n)) for n in (3, 4, 10)], kind=Kind.COUNTEREXAMPLE)
def _(against: Fraction, flip: Fraction) -> Sides:
    """on a line, in fractions of pi^2"""
    return (
        _variance_of_two(against * (1 - flip) + (1 - against) * flip),
        _variance_of_two(_flipped(against, flip)),
        _variance_of_two(against) + _variance_of_two(flip),
    )


@row.mean(
    partial(opposed_half_squares, dim=10, snr=2.0), wrong=lambda: printed_sum(math.pi**2 / 4, 10, 2.0), row_bytes=560
)
def _() -> float:
    """s^B along or against the gradient, d = 10, snr = 2"""
    return _opposed_variance(10, 2.0)
