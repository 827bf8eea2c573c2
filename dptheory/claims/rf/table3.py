"""rf.table3: accuracy of the tuned CNN."""

from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.rf import _tables

row = Row(
    Claim(
        id="rf.table3",
        title="accuracy of the tuned CNN",
        source=Source("rf", "Table 3"),
        statement="End-to-end CNN, C = 1, no momentum (the adjusted baseline), then random freeze to 0.9 and 20 more epochs. "
        + _tables.BEST_EPOCH,
        verdict=Verdict.EMPIRICAL,
        reported=_tables.accuracies(_tables.TABLE_3, ("baseline", "adjusted baseline", "random freeze")),
    )
)
