"""rf.table4: accuracy of ranked freeze."""

from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.rf import _tables

row = Row(
    Claim(
        id="rf.table4",
        title="accuracy of ranked freeze",
        source=Source("rf", "Table 4"),
        statement="As Table 3 with ranked in place of random masks: about the same accuracy. But see rf.ranked. "
        + _tables.BEST_EPOCH,
        verdict=Verdict.EMPIRICAL,
        reported=_tables.accuracies(_tables.TABLE_4, ("baseline", "adjusted baseline", "ranked freeze")),
    )
)
