"""gep.table6: number of anchor gradients."""

from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.gep._tables import TABLE_6, TABLE_6_ANCHORS, percent

row = Row(
    Claim(
        id="gep.table6",
        title="number of anchor gradients",
        source=Source("gep", "Table 6, Appendix C"),
        statement=r"CIFAR-10 at $\epsilon = 8$: increasing $m$ improves B-GEP and GEP slightly.",
        verdict=Verdict.EMPIRICAL,
        reported=tuple(
            (f"{method}, m = {anchors}", percent(*cell))
            for method, row in TABLE_6.items()
            for anchors, cell in zip(TABLE_6_ANCHORS, row, strict=True)
        ),
    )
)
