"""gep.table1: accuracy at three budgets."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict

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
            (cell.name, f"{cell.quoted} ({papers.table('gep.table1-change').cell(cell.name).text})")
            for cell in papers.table("gep.table1").cells
        ),
    )
)
