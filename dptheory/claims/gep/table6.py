"""gep.table6: number of anchor gradients."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gep.table6",
        title="number of anchor gradients",
        source=Source("gep", "Table 6, Appendix C"),
        statement=r"CIFAR-10 at $\epsilon = 8$: increasing $m$ improves B-GEP and GEP slightly.",
        verdict=Verdict.EMPIRICAL,
        reported=papers.table("gep.table6").quoted(),
    )
)
