import math
from functools import partial

import scipy

from dptheory import privacy
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.lf import _privacy


def _free_freezing() -> float:
    return privacy.gaussian_delta(math.sqrt(_privacy.STEPS) / _privacy.SIGMA, _privacy.EPSILON)


def _cheaper_freezing() -> float:
    """As if half of the coordinates cost half of the budget."""
    return privacy.gaussian_delta(math.sqrt(1.5) / _privacy.SIGMA, _privacy.EPSILON)


def _hockey_stick(epsilon: float, adaptive: bool) -> float:
    """delta(epsilon) of one step that freezes layer 1 always, or, if ``adaptive``, where its gradient is 0.

    One parameter a layer, noise of standard deviation 1. The added record has the gradient (3/5, 4/5), the others 0. If the step
    is adaptive, layer 1 stays exactly where it is without the record, and moves with it: densities on sets that do not meet.
    Otherwise layer 2 alone is released, from gradients 0 and 1, the record being clipped to norm 1 after freezing.
    """
    if adaptive:
        without, added = 0.0, 3 / 5
        frozen_without, frozen_with = without == 0.0, without + added == 0.0
        return float(frozen_without != frozen_with)
    crossing = epsilon + 0.5  # where the log of the ratio of the densities is epsilon
    return float(
        scipy.integrate.quad(
            lambda x: scipy.stats.norm.pdf(x, 1) - math.exp(epsilon) * scipy.stats.norm.pdf(x, 0),
            crossing,
            40,
            epsabs=1e-13,
            limit=200,
        )[0]
    )


row = new_row(
    id="lf.privacy",
    source=Source("lf", "Section 3.1"),
    verdict=Verdict.HOLDS,
)


@row.mean(partial(_privacy.delta_draws, frozen=(0, 1)), wrong=_cheaper_freezing, row_bytes=200)
def _() -> float:
    """privacy loss of two steps, a layer frozen at the second"""
    return _free_freezing()


@row.equal(lambda: [(epsilon, adaptive) for epsilon in (0.1, 1.0, 5.0) for adaptive in (False, True)], tolerance=1e-7)
def _(epsilon: float, adaptive: bool) -> Sides:
    """fixed and data-dependent schedule: delta"""
    return (
        1.0 if adaptive else privacy.gaussian_delta(1.0, epsilon),
        lambda: _hockey_stick(epsilon, adaptive),
        privacy.gaussian_delta(1.0, epsilon),
    )
