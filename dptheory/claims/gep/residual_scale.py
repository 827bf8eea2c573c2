import math
from fractions import Fraction

from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row


def _least_delta(residual: Fraction, added: Fraction, epsilon: int) -> float:
    """delta that any (epsilon, delta) guarantee needs: sup_S P_D(S) - e^epsilon P_D'(S), one step, residual noise N(0, r^2).

    D has a residual of length ``residual`` along an axis orthogonal to the one of the sample added, in D' the noise has scale
    ``added``; seen along a third axis the release is N(0, residual^2) against N(0, added^2).
    """
    if residual == 0:
        return 1.0  # the event {0}: probability 1 against 0
    narrow, wide = float(residual), float(added)
    # densities cross where x^2 (1/narrow^2 - 1/wide^2) / 2 = log(wide / narrow) - epsilon
    level = 2 * (math.log(wide / narrow) - epsilon)
    if level <= 0:
        return 0.0
    edge = math.sqrt(level / (1 / narrow**2 - 1 / wide**2))
    inside = [math.erf(edge / scale / math.sqrt(2)) for scale in (narrow, wide)]
    return inside[0] - math.exp(epsilon) * inside[1]


def _claimed_delta(epsilon: int) -> float:
    """delta for which sigma = 2 sqrt(2 log(1/delta)) / epsilon is the noise multiplier 1; epsilon < 2 log(1/delta) if epsilon > 4."""
    return math.exp(-(epsilon**2) / 8)


row = new_row(
    id="gep.residual_scale",
    source=Source("gep", "Theorem 3.3 and its proof", (8,)),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false", "correction_holds"),
)


@row.equal(lambda: [(Fraction(0), Fraction(1), epsilon) for epsilon in (5, 8, 50)], kind=Kind.COUNTEREXAMPLE)
def _(residual: Fraction, added: Fraction, epsilon: int) -> Sides:
    """no residual against one: least delta"""
    return 1.0, lambda: _least_delta(residual, added, epsilon), _claimed_delta(epsilon)


@row.equal((Fraction(1, 10**6), Fraction(1), 5), kind=Kind.COUNTEREXAMPLE)
def _(residual: Fraction, added: Fraction, epsilon: int) -> Sides:
    """largest residual 10^-6 against 1: is the claimed delta enough?"""
    return False, _least_delta(residual, added, epsilon) <= _claimed_delta(epsilon), True
