"""rs.table2: accuracy with random sparsification."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.rs._best_epoch import BEST_EPOCH

row = Row(
    Claim(
        id="rs.table2",
        title="accuracy with random sparsification",
        source=Source("rs", "Table 2"),
        statement="RS improves the test accuracy of the baselines, more at the smaller epsilon. " + BEST_EPOCH,
        verdict=Verdict.EMPIRICAL,
        reported=papers.table("rs.table2").quoted(),
    )
)
