"""rs.table2: accuracy with random sparsification."""

from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.rs import _tables

row = Row(
    Claim(
        id="rs.table2",
        title="accuracy with random sparsification",
        source=Source("rs", "Table 2"),
        statement="RS improves the test accuracy of the baselines, more at the smaller epsilon. " + _tables.BEST_EPOCH,
        verdict=Verdict.EMPIRICAL,
        reported=_tables.reported(_tables.TABLE_2),
    )
)
