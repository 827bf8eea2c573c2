"""gep.table1: accuracy at three budgets."""

from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.gep._tables import EPSILONS, TABLE_1

row = Row(
    Claim(
        id="gep.table1",
        title="accuracy at three budgets",
        source=Source("gep", "Table 1, abstract"),
        statement=(
            r"Test accuracy of GP, PATE, B-GEP and GEP on MNIST, SVHN, CIFAR-10 at $\epsilon = 2, 5, 8$, $\delta "
            "= 10^{-5}$ ($10^{-6}$ for SVHN), best over $k$; PATE's epsilon depends on the data. But see "
            "gep.text."
        ),
        verdict=Verdict.EMPIRICAL,
        reported=tuple(
            (f"{data}, {method}, epsilon {epsilon}", f"{accuracy} % ({change})")
            for data, methods in TABLE_1.items()
            for method, row in methods.items()
            for epsilon, (accuracy, change) in zip(EPSILONS, row, strict=True)
        ),
    )
)
