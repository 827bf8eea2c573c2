"""gip.eq18: sizes of the index classes."""

from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict
from dptheory.claims.gip import _finite

row = Row(
    Claim(
        id="gip.eq18",
        title="sizes of the index classes",
        source=Source("gip", "Appendix A.3", (18,)),
        statement=r"""$C_0(I)$ is the set of zeros and $C_1(I)$ the set of ones of an index set $I \in S_k$, and $|C_0(I)| = kd$,
$|C_1(I)| = (1-k)d$.""",
        verdict=Verdict.FALSE,
        kernel="gip/eq18.v",
        kernel_theorems=("printed_is_false", "correction_holds"),
        summary="the two sizes are swapped; equation 19 and everything after it use the right ones.",
        conditions=(
            "$I$ has exactly $K = kd$ ones.",
            r"The printed sizes are right for $k = \frac12$ only.",
        ),
        correction="$|C_0(I)| = (1-k)d = d - K$ and $|C_1(I)| = kd = K$.",
        printed=lambda dim, keep: keep,
        proved=True,
    )
)


@row.equal(lambda: _finite.SIZES, kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int) -> Sides:
    """number of zeros"""
    return dim - keep, lambda: max(sum(not x for x in s) for s in _finite.subsets(dim, keep)), keep
