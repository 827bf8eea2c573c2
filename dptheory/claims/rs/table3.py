"""rs.table3: partition against Poisson sampling."""

from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.rs import _tables

row = Row(
    Claim(
        id="rs.table3",
        title="partition against Poisson sampling",
        source=Source("rs", "Table 3, Appendix K"),
        statement="DP-CNN on CIFAR10: no significant difference between the two ways of drawing batches, and RS gains in both. "
        + _tables.BEST_EPOCH,
        verdict=Verdict.EMPIRICAL,
        reported=_tables.reported(_tables.TABLE_3),
    )
)
