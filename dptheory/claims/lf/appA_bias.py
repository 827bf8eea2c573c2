"""lf.appA.bias: the bias and the alignment differ by the square that the lemma bounds."""

from fractions import Fraction

from dptheory.claims._row import Claim, Row, Sides, Source, Verdict


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


row = Row(
    Claim(
        id="lf.appA.bias",
        title="bias against alignment",
        source=Source("lf", "Appendix A"),
        statement=r"Last step of the proof: $E[\nabla f(\theta_t)^Tb_t]=E\langle\nabla "
        r"f(\theta_t),s_t^B\rangle=E[\cos(\gamma_t^B)|\nabla f(\theta_t)||s_t^B|]$.",
        verdict=Verdict.FALSE,
        kernel="lf/appA_bias.v",
        kernel_theorems=("printed_is_false", "correction_holds"),
        summary=r"$\langle\nabla f,b\rangle$ and $\langle\nabla f,s^B\rangle$ differ by $|\nabla f|^2$, the very "
        "quantity that the lemma bounds.",
        conditions=(
            r"$b_t=E[s_t^B\mid\theta_t]-\nabla f(\theta_t)$: appendix A introduces it by $E[s_t^P]=\nabla "
            r"f(\theta_t)+b_t$.",
        ),
        correction=r"""$$E[\nabla f_t^Tb_t]=E\langle\nabla f_t,s_t^B\rangle-E|\nabla f_t|^2 .$$

The second equality of the paper is the definition of the angle, and true. The first holds only where $\nabla f_t=0$ almost
surely: without clipping ($b_t=0$) it says $E|\nabla f_t|^2=0$.

This is one of the two mistakes of [lf.lem3.1](lem3.1.md), alone; its FALSE is part of that row's.""",
        proved=True,
        part_of="lf.lem3.1",
    )
)


@row.equal(lambda: [(values, clip) for values in ((1, 2), (3, -1), (5, -4, 0)) for clip in (1, 2, 9)])
def _(values: tuple[int, ...], clip: int) -> Sides:
    """by enumeration of the batches, in fractions"""
    return (
        _inner_with_signal(values, clip) - _mean(values) ** 2,
        _inner_with_bias(values, clip),
        _inner_with_signal(values, clip),
    )
