"""rf.sparsity70: 70 % is the sparsity of the last epoch."""

from fractions import Fraction

from dptheory import sparsification
from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict
from dptheory.claims.rf._cooling import counted_density, stated_density

row = Row(
    Claim(
        id="rf.sparsity70",
        title="up to 70 % sparsity",
        source=Source("rf", "abstract, section 4, Table 1"),
        statement=r"""The paper says that it maintains accuracy within the same number of iterations while achieving up to 70 % representation sparsity.
In Table 1 the largest rate is $r^\ast = 0.7$, reached at the end of a ramp over the whole run.""",
        verdict=Verdict.CONDITIONAL,
        summary="70 % is the sparsity of the last epoch; the run as a whole has 35 %.",
        conditions=(
            r"Sparsity is that of the last epoch, $r^\ast = 0.7$: 70 % is true of it.",
            "No share of communication, or of computation that is linear in the number of kept entries, counted "
            "over the run, falls by more than 35 % from the mask. (Where the subspace is shrunk too, "
            "[rf.cost](cost.md), computation can fall by more.)",
        ),
        correction=r"Over the run the share of gradient entries that are zero is $r^\ast/2$, 35 %, as it is $r^\ast/2$ "
        r"whenever $e^\ast = E = E_0$ ([rf.density](density.md)). The paper's own Table 2 says the same (density "
        '0.65), and RS, section 6.3, states both numbers: "0.7 or 0.9 final sparsification rate, i.e. 0.35 or '
        '0.45 average sparsity".',
        calculators=(sparsification.total_density,),
        proved=True,
    )
)


@row.equal(
    lambda: [(Fraction(7, 10), epochs, epochs, epochs) for epochs in (2, 40, 50, 80)],
    tolerance=1e-13,
    kind=Kind.COUNTEREXAMPLE,
)
def _(final: Fraction, cooling: int, epochs: int, baseline: int) -> Sides:
    """sparsity of the whole run"""
    return (
        1 - stated_density(final, cooling, epochs, baseline),
        lambda: 1 - counted_density(final, cooling, epochs, baseline),
        float(final),
    )
