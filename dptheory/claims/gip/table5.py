"""gip.table5: accuracy against baselines."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gip.table5",
        title="accuracy against baselines",
        source=Source("gip", "Table 5, Fig. 3"),
        statement="Test accuracy of Jax-Privacy, Random-k, GIP, DataLens and RGP (the last two not on WRN-28-10, whose columns "
        "are as printed; Table 4 has other epsilons: gip.text), four budgets, four settings.",
        verdict=Verdict.EMPIRICAL,
        reported=papers.table("gip.table5").quoted(),
    )
)
