"""rs.fig11: clip and momentum under Adam."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="rs.fig11",
        title="clip and momentum under Adam",
        source=Source("rs", "Fig. 11"),
        statement="DP-CNN with Adam, epsilon = 3 and 7.53: the best momentum is the same for every C, and the best C for every "
        "momentum. But see rs.appH.",
        verdict=Verdict.EMPIRICAL,
        reported=(("best momentum", "the same for every C"),),
    )
)
