"""rf.table1: accuracy with random freeze."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.rf._best_epoch import BEST_EPOCH


def _reported() -> tuple[tuple[str, str], ...]:
    """The accuracies of each row, then the freeze rate, which is a setting."""
    rates = {(one.model, one.epsilon): one.number("drop_rate") for one in papers.settings("rf")}
    found = []
    for cell in papers.table("rf.table1").cells:
        found.append((cell.name, cell.quoted))
        if cell.key("column") == "random freeze":
            approach, epsilon = cell.key("approach"), cell.key("epsilon")
            found.append((f"{approach}, epsilon {epsilon}, final freeze rate", f"{rates[approach, float(epsilon)]:g}"))
    return tuple(found)


row = Row(
    Claim(
        id="rf.table1",
        title="accuracy with random freeze",
        source=Source("rf", "Table 1"),
        statement="On CIFAR-10 random freeze keeps the accuracy of four frameworks at the hyperparameters of the dense runs. "
        + BEST_EPOCH,
        verdict=Verdict.EMPIRICAL,
        reported=_reported(),
    )
)
