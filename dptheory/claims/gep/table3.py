"""gep.table3: accuracy on pre-trained features."""

from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.gep._tables import TABLE_3, TABLE_3_EPSILONS, percent

row = Row(
    Claim(
        id="gep.table3",
        title="accuracy on pre-trained features",
        source=Source("gep", "Table 3, Appendix A"),
        statement=(
            r"Linear model on 4096 features of a ResNet152 (SimCLR), CIFAR-10, $k = 200$, $\delta = 10^{-5}$, "
            r"best of 27 settings (Table 2): GEP is above GP at every $\epsilon$, B-GEP below at $\epsilon = 1$ "
            "and 2."
        ),
        verdict=Verdict.EMPIRICAL,
        reported=tuple(
            (f"{method}, epsilon {epsilon}", percent(*cell))
            for method, row in TABLE_3.items()
            for epsilon, cell in zip(TABLE_3_EPSILONS, row, strict=True)
        ),
    )
)
