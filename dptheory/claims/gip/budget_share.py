"""gip.budget_share: best share of the budget for indices."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gip.budget_share",
        title="best share of the budget for indices",
        source=Source("gip", "section 6.2, Fig. 4d"),
        statement="CIFAR-10, WRN-16-4, epsilon 1: accuracy peaks when 1 % of epsilon goes to the indices and falls quickly beyond 10 %. But see gip.budget: at 1 % the "
        "index mechanism is statistically random-k.",
        verdict=Verdict.EMPIRICAL,
        reported=(("best share", "0.01"), ("quick fall beyond", "0.10")),
    )
)
