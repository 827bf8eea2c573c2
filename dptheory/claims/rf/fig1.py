"""rf.fig1: signal loss and error over the freeze rate."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="rf.fig1",
        title="signal loss and error over the freeze rate",
        source=Source("rf", "Fig. 1"),
        statement="End-to-end CNN, 80 epochs, epsilon = 7.53: with a higher freeze rate more signal is lost, and yet the mean "
        "square error of the gradient is clearly lower. But see rf.mse_criterion.",
        verdict=Verdict.EMPIRICAL,
        reported=(("signal loss, dense minus frozen", "falls with the rate"), ("MSE, dense minus frozen", "positive")),
        figure="measured_errors",
    )
)
