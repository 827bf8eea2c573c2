"""rf.fresh_masks: a mask per iteration against a mask per epoch."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="rf.fresh_masks",
        title="a mask per iteration against a mask per epoch",
        source=Source("rf", "section 3.2; RS, section 4.2"),
        statement='Re-randomizing the mask at each iteration "slightly decreases the performance" against a mask per epoch; RS: '
        'alternating frequently "might be harmful, which we have also observed".',
        verdict=Verdict.EMPIRICAL,
        reported=(("a mask per iteration", "slightly decreases the performance"),),
    )
)
