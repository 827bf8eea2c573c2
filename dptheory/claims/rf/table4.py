"""rf.table4: accuracy of ranked freeze."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.rf._best_epoch import BEST_EPOCH

row = Row(
    Claim(
        id="rf.table4",
        title="accuracy of ranked freeze",
        source=Source("rf", "Table 4"),
        statement="As Table 3 with ranked in place of random masks: about the same accuracy. But see rf.ranked. "
        + BEST_EPOCH,
        verdict=Verdict.EMPIRICAL,
        reported=papers.table("rf.table4").quoted(),
    )
)
