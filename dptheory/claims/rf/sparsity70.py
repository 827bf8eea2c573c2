from fractions import Fraction

from dptheory import sparsification
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.rf.density import counted_density, stated_density

row = new_row(
    id="rf.sparsity70",
    source=Source("rf", "abstract, section 4, Table 1"),
    verdict=Verdict.CONDITIONAL,
    calculators=(sparsification.total_density,),
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
