"""rf.more_epochs: more epochs at the same budget."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="rf.more_epochs",
        title="more epochs at the same budget",
        source=Source("rf", "section 4, after Table 3"),
        statement='Extending the training raises the noise multiplier at the same budget; "As a result, more epochs without random '
        'freeze will decrease the performance."',
        verdict=Verdict.EMPIRICAL,
        reported=(("more epochs without random freeze", "will decrease the performance"),),
    )
)
