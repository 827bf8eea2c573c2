"""lf.fig6: how many layers to freeze, and when."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="lf.fig6",
        title="how many layers to freeze, and when",
        source=Source("lf", "Fig. 6"),
        statement=(
            "CIFAR10, 5-layer CNN: how many layers are frozen after epsilon = 3 hardly matters unless only the "
            "last is left; freezing 1 to 3 early can cost accuracy, freezing late gains nothing before it starts."
        ),
        verdict=Verdict.EMPIRICAL,
        reported=(
            ("number of layers frozen", "not quite sensitive"),
            ("only the last layer left", "insufficient"),
            ("freezing early", "can be worse"),
        ),
    )
)
