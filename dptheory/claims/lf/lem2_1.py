import numpy as np

from dptheory.claims._row import Range, Source, Verdict, new_row
from dptheory.claims.lf import _testbed, _worst_case

row = new_row(
    id="lf.lem2.1",
    source=Source("lf", "Lemma 2.1"),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds",),
)


@row.certificate(
    (1.0, 1.0),
    (2.0, 3.0),
    (0.1, 5.0),
    problem=_worst_case.descent,
    wrong=lambda smoothness, distance: smoothness / 4 * distance**2,
)
def _(smoothness: float, distance: float) -> float:
    """worst case over smooth functions"""
    return smoothness / 2 * distance**2


def _gap(start: float, step: float) -> float:
    """f(v) - f(w) - f'(w)(v - w) for f = log cosh, v = w + step, over step^2."""
    loss, slope = _testbed.LOSSES["log cosh"]
    low, high = np.array(start), np.array(start + step)
    return float(loss(high) - loss(low) - slope(low) * step) / step**2


@row.inequality(
    {"start": Range(-5, 5), "step": Range(1e-2, 10, log=True)}, wrong=lambda start, step: 0.49 - _gap(start, step)
)
def log_cosh_slack(start: float, step: float) -> float:
    """log cosh, L = 1"""
    return 0.5 - _gap(start, step)
