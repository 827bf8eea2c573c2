from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite

row = new_row(
    id="gip.eq18",
    source=Source("gip", "Appendix A.3", (18,)),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=lambda dim, keep: keep,
)


@row.equal(lambda: _finite.SIZES, kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int) -> Sides:
    """number of zeros"""
    return dim - keep, lambda: max(sum(not x for x in s) for s in _finite.subsets(dim, keep)), keep
