"""lf.def3.1: the batch means are printed with one term too many."""

import itertools
from fractions import Fraction

from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict


def printed_mean_factor(batch_size: int) -> Fraction:
    """E s^U over the mean gradient as Definition 3.1 is printed: B + 1 terms over B."""
    return Fraction(batch_size + 1, batch_size)


def _mean_signal(gradients: tuple[int, ...], batch_size: int, terms: int) -> Fraction:
    """E of 1/B times the sum of ``terms`` gradients, over all ordered draws with replacement."""
    draws = list(itertools.product(gradients, repeat=terms))
    return Fraction(sum(sum(draw) for draw in draws), len(draws) * batch_size)


def _mean(values: tuple[int, ...]) -> Fraction:
    return Fraction(sum(values), len(values))


row = Row(
    Claim(
        id="lf.def3.1",
        title="signals of a batch",
        source=Source("lf", "Definition 3.1"),
        statement=r"$s_t^U:=\frac1B\sum_{i=0}^Bg_t(x_i)$ is the mean gradient over a batch of $B$ and an unbiased estimate "
        r"of $\nabla f_t$; $s_t^B:=\frac1B\sum_{i=0}^B\mathrm{clip}(g_t(x_i),C)$.",
        verdict=Verdict.FALSE,
        kernel="lf/def3_1.v",
        kernel_theorems=("printed_is_false", "correction_holds"),
        summary="as printed both means run over $B+1$ terms and are divided by $B$; the mean gradient so defined is not "
        "unbiased.",
        conditions=(
            r"$\nabla f_t$ is the mean gradient over the $N$ records; every draw is uniform on them (with or without "
            "replacement).",
            "For Poisson batches at rate $q=B/N$ the sum runs over the records drawn, however many, and is divided "
            "by $B$: unbiased too.",
        ),
        correction=r"Both sums run over $i=1,\dots,B$, as in equation (2) of the paper. With $B+1$ terms "
        r"$E[s_t^U]=\frac{B+1}B\nabla f_t$, and $|s_t^B|$ can reach $\frac{B+1}BC$. (Algorithm 1 likewise "
        "indexes its $N$ records from 0 to $N$.)",
        printed=printed_mean_factor,
        proved=True,
    )
)


@row.equal(lambda: [(values, size) for values in ((1, 2), (3, -1, 4), (-2, 5)) for size in (1, 2, 4)])
def _(values: tuple[int, ...], size: int) -> Sides:
    """mean over all batches, in fractions"""
    return _mean(values), _mean_signal(values, size, size), printed_mean_factor(size) * _mean(values)


@row.equal(lambda: [(values, size) for values in ((1, 2), (3, -1, 4)) for size in (1, 2, 4)], kind=Kind.COUNTEREXAMPLE)
def _(values: tuple[int, ...], size: int) -> Sides:
    """what the printed sum estimates"""
    return printed_mean_factor(size) * _mean(values), _mean_signal(values, size, size + 1), _mean(values)
