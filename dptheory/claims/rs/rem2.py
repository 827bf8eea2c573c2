"""rs.rem2: masking clipped SGD."""

import math
from fractions import Fraction

from dptheory import sparsification
from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict
from dptheory.claims.rs._kappa_cases import calculated, exact_kappa_of, printed_kappa

row = Row(
    Claim(
        id="rs.rem2",
        title="masking clipped SGD",
        source=Source("rs", "Remark 2, abstract, sections 1.1 and 6.1"),
        statement=r"""Neglecting the bias, Theorem 3.4 against Theorem 3.3 suggests that RS could impede clipped SGD, as $1/\kappa>1$ for
$r>0$. The trade-off is "not present in other popular SGD schemes" (section 1.1), "possibly a unique property" of DP-SGD
(abstract), and "a unique property" of it (section 6.1 and Figure 3). Two claims are judged: $1/\kappa>1$, and that only DP-SGD has something to gain.""",
        verdict=Verdict.FALSE,
        kernel="rs/rem2.v",
        kernel_theorems=("reading_is_false", "correction_holds"),
        summary=(
            r"$1/\kappa>1$ is not true for all $r>0$: $\kappa = 1$ occurs under the lemma's condition and "
            r"$\kappa>1$ without it; clipped SGD without noise can gain from masking, five-fold in an example."
        ),
        conditions=(
            r"For $P\ge\sqrt{1-r}$, so $\kappa\le1$, the bound is never lowered, but need not be enlarged.",
            "With the symmetric proxy equal to the true law, the example of the correction has $P = 0$: Theorem 3.3 says "
            "nothing of the run without a mask, and Theorem 3.4 does not apply. It is a statement about the algorithms, "
            "not about these two bounds.",
        ),
        correction=r"""$1/\kappa\ge1$ if $P\ge\sqrt{1-r}$, and equality is possible for $r>0$; without the condition $1/\kappa$ can be below
1. As to the algorithm, let $g = (w_1,\pm b)$ with equal chances, so $w = (w_1,0)$, $d = 2$, $r = \frac12$,
$w_1\ge C$, $b\ge C$, batch size 1 and no noise. Masking multiplies $E\langle w,\hat g\rangle$ by
$\lVert g\rVert/(2w_1)$, about five for $b = 10w_1$, and leaves the mean square of a clipped gradient at $C^2$.""",
        printed=printed_kappa,
        calculators=(sparsification.kappa,),
        proved=True,
    )
)


def _descent_ratio(first: int, second: int, length: int) -> Fraction:
    """E<w, masked clipped g> over E<w, clipped g> for g = (first, +-second), w = (first, 0), C = 1, r = 1/2, by enumeration."""

    def inner(mask: tuple[int, int], sign: int) -> Fraction:
        g = (first * mask[0], sign * second * mask[1])
        square = g[0] ** 2 + g[1] ** 2
        size = math.isqrt(square)
        if size**2 != square:
            raise ValueError(f"second must make |g| whole, got {second!r}")
        return Fraction(first * g[0]) * min(Fraction(1), Fraction(1, size))

    masked = sum((inner(mask, sign) for mask in ((1, 0), (0, 1)) for sign in (1, -1)), Fraction(0)) / 4
    return masked / sum((inner((1, 1), sign) for sign in (1, -1)), Fraction(0)) * 2


@row.equal((3, 4, 5), (9, 40, 41), (21, 220, 221), kind=Kind.COUNTEREXAMPLE)
def _(first: int, second: int, length: int) -> Sides:
    """descent with the mask over descent without"""
    return (
        Fraction(length, 2 * first),
        lambda: _descent_ratio(first, second, length),
        min(Fraction(1), Fraction(length, 2 * first)),
    )


@row.equal(("equal entries, P = 1/2",), ("equal entries, P = 1/4",), tolerance=1e-14, kind=Kind.COUNTEREXAMPLE)
def _(name: str) -> Sides:
    """1 / kappa = 1 under the condition, 1/2 without"""
    return 1 / calculated(name).value, lambda: 1 / exact_kappa_of(name), 1 / printed_kappa(0.75)
