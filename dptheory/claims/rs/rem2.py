from dptheory import sparsification
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.rs._kappa import calculated, exact_kappa_of, printed_kappa

row = new_row(
    id="rs.rem2",
    source=Source("rs", "Remark 2"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
    printed=printed_kappa,
    calculators=(sparsification.kappa,),
)


@row.equal(("equal entries, P = 1/2",), ("equal entries, P = 1/4",), tolerance=1e-14, kind=Kind.COUNTEREXAMPLE)
def _(name: str) -> Sides:
    """1 / kappa = 1 under the condition, 1/2 without"""
    return 1 / calculated(name).value, lambda: 1 / exact_kappa_of(name), 1 / printed_kappa(0.75)
