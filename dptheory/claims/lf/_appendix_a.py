"""LF: the two equations in the proof of the convergence bound that are wrong."""

import math
from fractions import Fraction

from dptheory import freezing
from dptheory.checks import ExactCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.lf import _at_scale
from dptheory.claims.lf import _testbed as testbed
from dptheory.claims.lf._testbed import RUNS


def printed_private_moment(clip: float, noise_multiplier: float, batch_size: int) -> float:
    """The bound of appendix A on E|s^P|^2."""
    return (noise_multiplier * clip / batch_size) ** 2


_MOMENT = Claim(
    id="lf.appA.moment",
    title="second moment of the private gradient",
    source=Source("lf", "Appendix A"),
    statement=r"$E|s_t^P|^2\le\sigma^2C^2/B^2$.",
    verdict=Verdict.FALSE,
    conditions=("noise of mean zero and covariance tau^2 I on d parameters, independent of the batch",),
    correction=r"$E|s_t^P|^2 = E|s_t^B|^2+d\tau^2$, $\tau=\sigma C/B$: the printed bound is too small unless $s^B=0$ "
    r"always and $d=1$ or $\sigma=0$. $E|s_t^B|^2\le C^2$ for batches of $B$ examples, $\le(1+\frac{1-q}B)C^2$ for Poisson batches of mean size $B$. "
    r"One of the two mistakes of lf.lem3.1, alone.",
    printed=printed_private_moment,
    calculators=(freezing.private_second_moment,),
    checks=(
        ExactCheck(
            name="by enumeration",
            cases=lambda: [(run,) for run in RUNS],
            truth=lambda run: testbed.expectations(run).private_moment[0],
            statement=testbed.private_moment,
            wrong=lambda run: printed_private_moment(run.clip, run.noise_multiplier, run.batch_size),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="Poisson batches of one gradient of norm C, in fractions",
            cases=lambda: [(n, q) for n in (1, 2, 5, 8) for q in (Fraction(1, 8), Fraction(1, 2), Fraction(1))],
            truth=lambda n, q: sum(
                math.comb(n, k) * q**k * (1 - q) ** (n - k) * (k / (q * n)) ** 2 for k in range(n + 1)
            ),
            statement=lambda n, q: 1 + (1 - q) / (q * n),
            wrong=lambda n, q: Fraction(1),
        ),
        *_at_scale.MOMENT,
    ),
    part_of="lf.lem3.1",
    proved=True,
)


def _mean(values: tuple[int, ...]) -> Fraction:
    return Fraction(sum(values), len(values))


def _clipped(value: int, clip: int) -> int:
    return max(-clip, min(clip, value))


def _inner_with_signal(values: tuple[int, ...], clip: int) -> Fraction:
    """E<grad f, s^B> for a batch of two per-example gradients, numbers, drawn with replacement."""
    pairs = [Fraction(_clipped(a, clip) + _clipped(b, clip), 2) for a in values for b in values]
    return sum((_mean(values) * signal for signal in pairs), Fraction(0)) / len(pairs)


def _inner_with_bias(values: tuple[int, ...], clip: int) -> Fraction:
    """<grad f, b>: the bias is what clipping takes from each example, averaged."""
    return _mean(values) * _mean(tuple(_clipped(value, clip) - value for value in values))


_BIAS = Claim(
    id="lf.appA.bias",
    title="bias against alignment",
    source=Source("lf", "Appendix A"),
    statement=r"$E[\nabla f(\theta_t)^Tb_t]=E\langle\nabla f(\theta_t),s_t^B\rangle=E[\cos(\gamma_t^B)|\nabla f(\theta_t)||s_t^B|]$.",
    verdict=Verdict.FALSE,
    conditions=(r"b_t = E[s_t^B | theta_t] - grad f(theta_t), as appendix A defines it",),
    correction=r"$E[\nabla f_t^Tb_t]=E\langle\nabla f_t,s_t^B\rangle-E|\nabla f_t|^2$; the second equality holds. The printed one holds only where "
    r"$\nabla f_t=0$ almost surely, so that without clipping ($b_t=0$) it says $E|\nabla f_t|^2=0$. "
    r"One of the two mistakes of lf.lem3.1, alone.",
    checks=(
        ExactCheck(
            name="by enumeration of the batches, in fractions",
            cases=lambda: [(values, clip) for values in ((1, 2), (3, -1), (5, -4, 0)) for clip in (1, 2, 9)],
            truth=_inner_with_bias,
            statement=lambda values, clip: _inner_with_signal(values, clip) - _mean(values) ** 2,
            wrong=_inner_with_signal,
        ),
    ),
    part_of="lf.lem3.1",
    proved=True,
)

CLAIMS: tuple[Claim, ...] = (_MOMENT, _BIAS)
