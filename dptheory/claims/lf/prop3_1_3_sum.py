"""lf.prop3.1.3.sum: the variances of the two angles do not add up."""

import math
from fractions import Fraction
from functools import partial

from dptheory import gradients
from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict
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


row = Row(
    Claim(
        id="lf.prop3.1.3.sum",
        title="variances add up",
        source=Source("lf", "Proposition 3.1 (3), proof"),
        statement=r'$\mathrm{Var}[\gamma] = \mathrm{Var}[\gamma^B]+\mathrm{Var}[\gamma^{BP}]$, "since the noise $z_t$ is '
        'drawn independently".',
        verdict=Verdict.FALSE,
        summary="the angle is not the sum of the two angles, and independence of the noise from the batch does not make "
        "its variance the sum of theirs.",
        conditions=(
            r"$\nabla f$, $s^B$ and $s^P$ are not 0; $z$ is independent of the batch.",
            r"In general $\gamma^{BP}$ is not independent of $\gamma^B$ either: its law depends on the batch through "
            r"$\lVert s^B\rVert$.",
        ),
        correction=r"""For $z\sim N(0,\tau^2I_d)$ independent of the batch, $d\ge2$:

$$\mathrm{Var}\gamma = E\thinspace\mathrm{Var}(\gamma\mid\text{batch})+\mathrm{Var}\thinspace E(\gamma\mid\text{batch}),\qquad
\cos\gamma = \cos\gamma^B\cos\gamma^{BP}+\sin\gamma^B\sin\gamma^{BP}\omega_1,\qquad(1)$$

where given the batch $\omega_1$ is the first entry of a uniform unit vector of $\mathbb R^{d-1}$, independent of $\gamma^{BP}$.
If $s^B$ points along or against $\nabla f$ with equal chances and has one norm,

$$\mathrm{Var}\gamma = \mathrm{Var}\gamma^{BP}+\Big(\frac\pi2-E\gamma^{BP}\Big)^2,\qquad\text{while}\quad\mathrm{Var}\gamma^B+\mathrm{Var}\gamma^{BP} = \mathrm{Var}\gamma^{BP}+\frac{\pi^2}4 .\qquad(2)$$""",
        printed_error="Two mistakes. That the angle is the sum of the two is the mistake of [lf.def3.2](def3.2.md): this "
        r"row's FALSE is part of that row's. The second is its own: $\gamma^{BP}$ depends on the batch, through "
        r"$\lVert s^B\rVert$.",
        printed=printed_sum,
        calculators=(gradients.DistortionAngle.var, gradients.DistortionAngle.mean),
        proved=True,
        part_of="lf.def3.2",
    )
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
