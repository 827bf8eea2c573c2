"""rs.fig10: clip and momentum."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="rs.fig10",
        title="clip and momentum",
        source=Source("rs", "Fig. 10"),
        statement="DP-CNN (epsilon = 3, 7.53), DP-Transfer Learning (2), Handcrafted CNN (3): the best of each row and column "
        "lies on the diagonal of constant C/(1 - momentum). But see rf.scaling.",
        verdict=Verdict.EMPIRICAL,
        reported=(("best of each row and column", "on the diagonal"),),
    )
)
