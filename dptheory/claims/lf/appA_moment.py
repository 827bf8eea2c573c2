"""lf.appA.moment: the second moment of the private gradient."""

import math
from fractions import Fraction

from dptheory import freezing
from dptheory.claims._row import Claim, Row, Sides, Source, Verdict
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


row = Row(
    Claim(
        id="lf.appA.moment",
        title="second moment of the private gradient",
        source=Source("lf", "Appendix A"),
        statement=r"$E|s_t^P|^2\le\frac1{B^2}\sigma^2C^2$.",
        verdict=Verdict.FALSE,
        kernel="lf/appA_moment.v",
        kernel_theorems=("printed_is_false", "correction_holds"),
        summary="the printed bound is the variance of one entry of the noise; the signal and the other $d-1$ entries "
        "are missing.",
        conditions=(
            r"$s_t^P=s_t^B+z_t$, $z_t$ of mean zero and covariance $\tau^2I$ on $d$ coordinates given the batch and "
            "the iterate.",
        ),
        correction=r"""With $\tau=\sigma C/B$,

$$E|s_t^P|^2=E|s_t^B|^2+d\tau^2 ,$$

so the printed bound is too small unless $s^B=0$ always and $d=1$ or $\sigma=0$. And $E|s_t^B|^2\le C^2$ for batches of $B$
examples, but only $\le(1+\frac{1-q}B)C^2$ for Poisson batches at rate $q$ and mean size $B$ whose sum is divided by $B$.

This is one of the two mistakes of [lf.lem3.1](lem3.1.md), alone; its FALSE is part of that row's.""",
        printed=printed_private_moment,
        calculators=(freezing.private_second_moment,),
        proved=True,
        part_of="lf.lem3.1",
    )
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
