"""gep.table3: accuracy on pre-trained features."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gep.table3",
        title="accuracy on pre-trained features",
        source=Source("gep", "Table 3, Appendix A"),
        statement=r"Linear model on 4096 features of a ResNet152 (SimCLR), CIFAR-10, $\delta = 10^{-5}$, one of 27 "
        r"settings (Table 2): GEP is above GP at every $\epsilon$, B-GEP below at $\epsilon = 1$ and 2.",
        verdict=Verdict.EMPIRICAL,
        reported=papers.table("gep.table3").quoted(),
    )
)
