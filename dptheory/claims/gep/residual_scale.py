"""gep.residual_scale: the largest residual as sensitivity."""

import math
from fractions import Fraction

from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict


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


row = Row(
    Claim(
        id="gep.residual_scale",
        title="the largest residual as sensitivity",
        source=Source("gep", "Theorem 3.3 and its proof", (8,)),
        statement=r'$r_t = \max_i\lVert(R_t)_{i,:}\rVert$ "is the sensitivity of residual gradient at step $t$", and '
        r"noise $z^{(2)}_t\sim N(0,\sigma^2r_t^2I)$ with the $\sigma$ of Theorem 3.2 keeps the privacy of that theorem.",
        verdict=Verdict.FALSE,
        kernel="gep/residual_scale.v",
        kernel_theorems=("printed_is_false", "correction_holds"),
        summary=r"$\max_i|(R_t)_i|$ of the private data is not a sensitivity; noise scaled by it gives no "
        r"$(\epsilon,\delta)$ guarantee with $\delta<1$.",
        conditions=(
            "Neighbouring data sets differ by one sample; the gradients of one sample are at most $G = 1$ long.",
            "The paper's Algorithm 1 and its experiments clip at thresholds fixed beforehand, and are not concerned. The "
            "text after Theorem 3.3 names a clip as a possible solution, and leaves what it does to future work; "
            "[gep.clipped_residuals](clipped_residuals.md) has it.",
        ),
        correction="Sensitivity is a maximum over neighbouring data sets, not over the samples of one. If no residual is "
        r"there, $r_t = 0$, and one sample with a residual is seen with certainty: $\delta = 1$ for every "
        r"$\epsilon$. Clip at a public $\rho$ and add $N(0,\sigma^2\rho^2I)$; $\rho = G$ is safe without "
        "clipping if every sample's loss is $G$-Lipschitz.",
        proved=True,
    )
)


@row.equal(lambda: [(Fraction(0), Fraction(1), epsilon) for epsilon in (5, 8, 50)], kind=Kind.COUNTEREXAMPLE)
def _(residual: Fraction, added: Fraction, epsilon: int) -> Sides:
    """no residual against one: least delta"""
    return 1.0, lambda: _least_delta(residual, added, epsilon), _claimed_delta(epsilon)


@row.equal((Fraction(1, 10**6), Fraction(1), 5), kind=Kind.COUNTEREXAMPLE)
def _(residual: Fraction, added: Fraction, epsilon: int) -> Sides:
    """largest residual 10^-6 against 1: is the claimed delta enough?"""
    return False, _least_delta(residual, added, epsilon) <= _claimed_delta(epsilon), True
