"""rs.table3: partition against Poisson sampling."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.rs._best_epoch import BEST_EPOCH

row = Row(
    Claim(
        id="rs.table3",
        title="partition against Poisson sampling",
        source=Source("rs", "Table 3, Appendix K"),
        statement="DP-CNN on CIFAR10: no significant difference between the two ways of drawing batches, and RS gains in both. "
        + BEST_EPOCH,
        verdict=Verdict.EMPIRICAL,
        reported=papers.table("rs.table3").quoted(),
    )
)
