"""rf.table3: accuracy of the tuned CNN."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.rf._best_epoch import BEST_EPOCH

row = Row(
    Claim(
        id="rf.table3",
        title="accuracy of the tuned CNN",
        source=Source("rf", "Table 3"),
        statement="The adjusted baseline (C = 1, no momentum) beats the original, random freeze to 0.9 with 20 more epochs both. "
        + BEST_EPOCH,
        verdict=Verdict.EMPIRICAL,
        reported=papers.table("rf.table3").quoted(),
    )
)
