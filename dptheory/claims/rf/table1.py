"""rf.table1: accuracy with random freeze."""

from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.rf import _tables

row = Row(
    Claim(
        id="rf.table1",
        title="accuracy with random freeze",
        source=Source("rf", "Table 1"),
        statement="On CIFAR-10 random freeze keeps the accuracy of four frameworks at the hyperparameters of the dense runs. "
        + _tables.BEST_EPOCH,
        verdict=Verdict.EMPIRICAL,
        reported=tuple(
            (f"{setting}, {column}", f"{value} %" if column != "final freeze rate" else value)
            for setting, (_, baseline, frozen, rate) in _tables.TABLE_1.items()
            for column, value in (("baseline", baseline), ("random freeze", frozen), ("final freeze rate", rate))
        ),
    )
)
