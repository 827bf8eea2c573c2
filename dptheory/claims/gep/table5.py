"""gep.table5: choice of auxiliary data."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gep.table5",
        title="choice of auxiliary data",
        source=Source("gep", "Table 5, Appendix C"),
        statement=r"GEP on CIFAR-10 at $\epsilon = 8$, 2000 auxiliary samples, evaluated on 8000 test samples: random "
        "labels are better than correct ones, and the source matters little.",
        verdict=Verdict.EMPIRICAL,
        reported=papers.table("gep.table5").quoted(),
    )
)
