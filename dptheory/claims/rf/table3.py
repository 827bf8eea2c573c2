"""rf.table3: accuracy of the tuned CNN."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.rf._best_epoch import BEST_EPOCH

row = Row(
    Claim(
        id="rf.table3",
        title="accuracy of the tuned CNN",
        source=Source("rf", "Table 3"),
        statement="End-to-end CNN, C = 1, no momentum (the adjusted baseline), then random freeze to 0.9 and 20 more epochs. "
        + BEST_EPOCH,
        verdict=Verdict.EMPIRICAL,
        reported=papers.table("rf.table3").quoted(),
    )
)
