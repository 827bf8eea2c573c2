import math
from fractions import Fraction

from dptheory import freezing
from dptheory.claims._row import Severity, Sides, Source, Verdict, new_row
from dptheory.claims.lf import _testbed as testbed
from dptheory.claims.lf._testbed import RUNS, Run


def printed_private_moment(clip: float, noise_multiplier: float, batch_size: int) -> float:
    """The bound of appendix A on E|s^P|^2."""
    return (noise_multiplier * clip / batch_size) ** 2


_SIGNALS = (
    (((3, 2), (-1, 1)), Fraction(1, 3), 2),
    (((1, 20_000), (-2, 5000)), Fraction(2), 64),
    (((0, 10**7),), Fraction(1), 1024),
)
"""Entries of s^B and how many there are of each, tau, and B."""


def _square_by_signs(entries: tuple[tuple[int, int], ...], tau: Fraction, batch_size: int) -> Fraction:
    """E|s^B + z|^2 with both signs of the noise +-tau in every entry."""
    return sum((count * sum(((s + z) ** 2 for z in (tau, -tau)), Fraction(0)) / 2 for s, count in entries), Fraction(0))


row = new_row(
    id="lf.appA.moment",
    source=Source("lf", "Appendix A"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_private_moment,
    calculators=(freezing.private_second_moment,),
    part_of="lf.lem3.1",
)


@row.equal(lambda: [(run,) for run in RUNS], tolerance=1e-12)
def _(run: Run) -> Sides:
    """by enumeration"""
    return (
        testbed.private_moment(run),
        testbed.expectations(run).private_moment[0],
        printed_private_moment(run.clip, run.noise_multiplier, run.batch_size),
    )


@row.equal(lambda: [(n, q) for n in (1, 2, 5, 8) for q in (Fraction(1, 8), Fraction(1, 2), Fraction(1))])
def _(n: int, q: Fraction) -> Sides:
    """Poisson batches of one gradient of norm C, in fractions"""
    return (
        1 + (1 - q) / (q * n),
        sum(math.comb(n, k) * q**k * (1 - q) ** (n - k) * (k / (q * n)) ** 2 for k in range(n + 1)),
        Fraction(1),
    )


@row.equal(lambda: _SIGNALS, tolerance=1e-14)
def _(entries: tuple[tuple[int, int], ...], tau: Fraction, batch_size: int) -> Sides:
    """both signs of the noise in every entry, at users' sizes"""
    stated = freezing.private_second_moment(
        second_moment=float(sum(count * s**2 for s, count in entries)),
        clip_norm=0.5,
        noise_multiplier=float(2 * tau * batch_size),
        dim=sum(count for _, count in entries),
        batch_size=batch_size,
    )
    as_printed = tau**2
    return stated, _square_by_signs(entries, tau, batch_size), as_printed
