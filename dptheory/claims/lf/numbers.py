"""LF: the measured claims."""

from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.lf import tables

_FREEZING = "CIFAR10, 5-layer CNN, layers 1 to 3 frozen at step 5000: "


def _empirical(name: str, title: str, label: str, statement: str, reported: tuple[tuple[str, str], ...]) -> Claim:
    return Claim(
        id=f"lf.{name}",
        title=title,
        source=Source("lf", label),
        statement=statement,
        verdict=Verdict.EMPIRICAL,
        reported=reported,
    )


CLAIMS: tuple[Claim, ...] = (
    _empirical(
        "table1",
        "accuracy with layer freezing",
        "Table 1",
        "Layer freezing raises the median test accuracy of five runs in all settings but one, at delta = 1e-5. The standard deviations of the Wide-ResNet "
        "can only be meant in percent. But see lf.abstract and lf.spread.",
        tuple(
            (f"{setting}, {column}", value)
            for setting, row in tables.TABLE_1.items()
            for column, value in zip(("without freezing", "with freezing"), row, strict=True)
        ),
    ),
    _empirical(
        "fig1",
        "lower layers converge first",
        "Fig. 1, section 3.2",
        "CIFAR10, 5-layer CNN, C = 3, sigma = 1, one layer and the last trained on after epsilon = 3: layer 1 gains least. By PWCCA only layer 1 shows a weak sign "
        "of convergence.",
        (
            ("accuracy of the full model at the last step", "around 0.63"),
            ("epsilon at the last step", "around 7"),
            ("least gain when trained alone", "layer 1"),
            ("weak sign of convergence (PWCCA)", "layer 1 only, of layers 1 to 4"),
        ),
    ),
    _empirical(
        "fig3",
        "signal after freezing",
        "Fig. 3",
        _FREEZING + "the median of |s^B| of layers 4 and 5 rises. But see lf.lem3.2b.",
        (("median of |s^B|, layers 4 and 5", "rises"), ("accuracy at the last step, epsilon = 7", "around 0.64")),
    ),
    _empirical(
        "fig4",
        "clipping angle after freezing",
        "Fig. 4",
        _FREEZING
        + "the angle gamma^UB between the unclipped and the clipped mean gradient of the batch falls in layers 4 and 5. gamma^UB, which Definition 3.2 "
        "does not define, stands in for gamma^B.",
        (("gamma^UB, layers 4 and 5", "falls"),),
    ),
    _empirical(
        "fig5",
        "noise angle after freezing",
        "Fig. 5",
        _FREEZING
        + "the angle gamma^BP between the clipped and the private mean gradient falls in layers 4 and 5, and is larger than gamma^UB. The caption "
        "calls it gamma^UB.",
        (("gamma^BP, layers 4 and 5", "falls"), ("gamma^BP against gamma^UB", "larger")),
    ),
    _empirical(
        "fig6",
        "how many layers to freeze, and when",
        "Fig. 6",
        "CIFAR10, 5-layer CNN: the number of layers frozen after epsilon = 3 hardly matters unless only the last is left; freezing layers 1 to 3 early costs accuracy, freezing late "
        "gains nothing before it starts.",
        (
            ("number of layers frozen", "not quite sensitive"),
            ("only the last layer left", "insufficient"),
            ("freezing early", "can be worse"),
        ),
    ),
    _empirical(
        "fig7",
        "alignment of clipped and unclipped gradients",
        "Fig. 7, appendix E",
        "CIFAR10, sigma = 1.0, B = 512, learning rate 0.15: the sum of the clipped gradients has a smaller angle to the true gradient than that of the unclipped ones, for C in {0.1, 1, 5, 10}.",
        (
            *((f"test accuracy at C = {clip}", value) for clip, value in tables.ALIGNMENT_ACCURACIES.items()),
            ("epsilon at the end", "7.0"),
            ("smaller angle", "clipped gradients, for every C"),
        ),
    ),
    _empirical(
        "fig8",
        "gradients that change status",
        "Fig. 8, appendix E",
        "Freezing the first 3 layers turns a small number of clipped gradients into unclipped ones; the directions of the two sums hardly change.",
        tuple(
            (f"change of angle of the {which} sum, epoch {epoch}", f"{value} radians")
            for epoch, row in tables.CHANGES_OF_ANGLE.items()
            for which, value in zip(("clipped", "unclipped"), row, strict=True)
        ),
    ),
    _empirical(
        "asm3.1",
        "clipped gradients are aligned better",
        "Assumption 3.1, appendix E",
        "The mean of the gradients with norm above C has a smaller angle to the true gradient than that of the others.",
        (("in the paper's words (appendix E)", "generally well-supported empirically"),),
    ),
    _empirical(
        "asm3.2",
        "freezing leaves the clipped set as it is",
        "Assumption 3.2, appendix E",
        "Freezing changes no gradient from clipped to unclipped. The paper itself finds that it does; Proposition 3.1 is stated under it.",
        (
            ("in the paper's words (appendix E)", "generally not true"),
            ("gradients that change status", "a small number"),
        ),
    ),
)
