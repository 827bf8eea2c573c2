"""RS: the measured claims."""

from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.rs import tables

_BEST_EPOCH = (
    "The released code reports the best test accuracy over the epochs, which is too high a number for both methods."
)


def _empirical(name: str, title: str, label: str, statement: str, reported: tuple[tuple[str, str], ...]) -> Claim:
    return Claim(
        id=f"rs.{name}",
        title=title,
        source=Source("rs", label),
        statement=statement,
        verdict=Verdict.EMPIRICAL,
        reported=reported,
    )


def _accuracies(table: tables.Rows) -> tuple[tuple[str, str], ...]:
    return tuple(
        (f"{setting}, {column}", f"{value} {unit}")
        for setting, row in table.items()
        for column, value, unit in zip(
            ("baseline", "random sparsification", "difference"), row, ("%", "%", "points"), strict=True
        )
    )


CLAIMS = (
    _empirical(
        "table2",
        "accuracy with random sparsification",
        "Table 2",
        "RS improves the test accuracy of the baselines, more at the smaller epsilon. " + _BEST_EPOCH,
        _accuracies(tables.TABLE_2),
    ),
    _empirical(
        "table3",
        "partition against Poisson sampling",
        "Table 3, Appendix K",
        "DP-CNN on CIFAR10: no significant difference between the two ways of drawing batches, and the gain of RS in both. "
        + _BEST_EPOCH,
        _accuracies(tables.TABLE_3),
    ),
    _empirical(
        "fig2",
        "accuracy over the final rate, nine noise levels",
        "Fig. 2",
        "DP-CNN, batch size 1000, 100 epochs, sigma in {1, 2, 4} and C in {1/4, 1/2, 1}: the best rate rises with sigma and with C, and the "
        "trend is one of sigma^2 C^2; at sigma = 4, C = 1 training breaks down.",
        (
            ("gain at sigma^2 C^2 = 4 (Fig. 2f, 2h)", "more than 4 %"),
            ("at sigma^2 C^2 = 1 (Fig. 2c, 2e, 2g)", "performance kept, or slightly increased"),
        ),
    ),
    _empirical(
        "fig3",
        "no gain without noise or without clipping",
        "Fig. 3",
        "With clipping alone (C in {1/4, 1/2, 1}) or noise alone (sigma in {1, 2, 4}) RS only lowers the train accuracy.",
        (("clipped SGD", "accuracy falls with the rate"), ("noisy SGD", "accuracy falls, faster at high rates")),
    ),
    _empirical(
        "fig4",
        "accuracy over the final rate, plugged in",
        "Fig. 4",
        "DP-CNN, H-CNN (epsilon = 3), DP-TL (epsilon = 2), GEP (epsilon = 8) at the dense runs' hyperparameters keep their accuracy.",
        (("final rate without loss", "up to 0.7 or 0.9"), ("average sparsity", "0.35 or 0.45")),
    ),
    _empirical(
        "fig5",
        "reconstruction by inverting gradients",
        "Fig. 5",
        "The error of the reconstruction grows with the rate (ResNet34, noise N(0, 1e-3), 200 images of CIFAR10).",
        (("MSE without noise and mask", "0.02 ± 0.02"),),
    ),
    _empirical(
        "fig10",
        "clip and momentum",
        "Fig. 10",
        "DP-CNN (epsilon = 3, 7.53), DP-Transfer Learning (2), Handcrafted CNN (3): the best of each row and column lies on the diagonal "
        "of constant C/(1 - momentum). But see rf.scaling.",
        (("best of each row and column", "on the diagonal"),),
    ),
    _empirical(
        "fig11",
        "clip and momentum under Adam",
        "Fig. 11",
        "DP-CNN with Adam, epsilon = 3 and 7.53: the best momentum is the same for every C, and the best C for every momentum. But see rs.appH.",
        (("best momentum", "the same for every C"),),
    ),
    _empirical(
        "fig12",
        "how often a parameter is masked out",
        "Fig. 12",
        "Over 100 epochs the histograms of random and ranked sparsification mostly overlap; ranking without noise differs. But see rf.ranked.",
        (("random against ranked", "mostly overlap"), ("epochs", "100")),
    ),
)
