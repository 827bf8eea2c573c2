"""RF: the measured claims."""

from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.rf import tables

_BEST_EPOCH = (
    "The paper averages the best accuracy over the epochs of each run, which is too high a number for both methods."
)


def _empirical(name: str, title: str, label: str, statement: str, reported: tuple[tuple[str, str], ...]) -> Claim:
    return Claim(
        id=f"rf.{name}",
        title=title,
        source=Source("rf", label),
        statement=statement,
        verdict=Verdict.EMPIRICAL,
        reported=reported,
    )


def _accuracies(table: dict[str, tuple[str, str, str]], columns: tuple[str, str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (f"{column}, epsilon {epsilon}", f"{value} %")
        for epsilon, row in table.items()
        for column, value in zip(columns, row, strict=True)
    )


CLAIMS = (
    _empirical(
        "table1",
        "accuracy with random freeze",
        "Table 1",
        "On CIFAR-10 random freeze keeps the accuracy of four frameworks at the hyperparameters of the dense runs. "
        + _BEST_EPOCH,
        tuple(
            (f"{setting}, {column}", f"{value} %" if column != "final freeze rate" else value)
            for setting, (_, baseline, frozen, rate) in tables.TABLE_1.items()
            for column, value in (("baseline", baseline), ("random freeze", frozen), ("final freeze rate", rate))
        ),
    ),
    _empirical(
        "table3",
        "accuracy of the tuned CNN",
        "Table 3",
        "End-to-end CNN with C = 1 and no momentum (the adjusted baseline), then with random freeze to 0.9 and 20 more epochs. "
        + _BEST_EPOCH,
        _accuracies(tables.TABLE_3, ("baseline", "adjusted baseline", "random freeze")),
    ),
    _empirical(
        "table4",
        "accuracy of ranked freeze",
        "Table 4",
        "As Table 3 with ranked in place of random masks: about the same accuracy. But see rf.ranked. " + _BEST_EPOCH,
        _accuracies(tables.TABLE_4, ("baseline", "adjusted baseline", "ranked freeze")),
    ),
    _empirical(
        "fig1",
        "signal loss and error over the freeze rate",
        "Fig. 1",
        "End-to-end CNN, 80 epochs, epsilon = 7.53: with a higher freeze rate more signal is lost, and yet the mean square error of the gradient is "
        "clearly lower. But see rf.mse_criterion.",
        (("signal loss, dense minus frozen", "falls with the rate"), ("MSE, dense minus frozen", "positive")),
    ),
    _empirical(
        "fig2",
        "law of the gradient norm",
        "Fig. 2",
        "With random freeze fewer per-example gradients have large norms, and fewer small ones, in later epochs.",
        (
            ("freeze rate at epoch 20", "0.45"),
            ("freeze rate at epoch 40", "0.9"),
            ("first epoch", "the two laws overlap"),
        ),
    ),
    _empirical(
        "fig3",
        "how often a parameter is frozen",
        "Fig. 3",
        "Over 100 epochs of the End-to-end CNN the histograms of random and ranked freeze agree; ranking without noise differs. But see rf.ranked.",
        (("random against ranked", "equivalent"), ("epochs", "100")),
    ),
    _empirical(
        "fig4",
        "clip and momentum, epsilon = 3",
        "Fig. 4",
        "End-to-end CNN: accuracy is kept along C/(1 - momentum) = 1 and falls when only one of the two is moved; no momentum is best. But see rf.scaling.",
        (("given optimum", "C = 0.1, momentum 0.9"), ("best", "momentum 0")),
    ),
    _empirical(
        "fig6",
        "accuracy over the privacy loss",
        "Fig. 6",
        "Mean of five runs: random freeze is above the baseline and the adjusted baseline at all high privacy levels.",
        (("order", "random freeze > adjusted baseline > baseline"),),
    ),
    _empirical(
        "fig7",
        "clip and momentum, epsilon = 7.53",
        "Fig. 7",
        "As Fig. 4 at epsilon = 7.53: accuracy is kept along C/(1 - momentum) = 1. But see rf.scaling.",
        (("given optimum", "C = 0.1, momentum 0.9"),),
    ),
)
