import dataclasses

from dptheory import convergence
from dptheory.claims._row import Source, Verdict, new_row
from dptheory.claims.rs import _runs
from dptheory.claims.rs._clipped_bounds import (
    closed_range_check,
    equality_check,
    held_mask_check,
    poisson_check,
    terms_check,
)
from dptheory.claims.rs._runs import Settings, two_point

row = new_row(
    id="rs.thm3.4",
    source=Source("rs", "Theorem 3.4", (12,)),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("printed_is_false", "correction_holds"),
    calculators=(convergence.dpsgd_bound,),
)


row.add(held_mask_check())


row.add(poisson_check())


row.add(closed_range_check(0.75))


row.add(
    terms_check(tuple(Settings(s.start, s.deviations, s.smoothness, s.clip, s.learning_rate) for s in _runs.NOISY[:2]))
)


row.add(equality_check((Settings((0.5, 0.4), two_point(0.1, 0.2), clip=9.0, batch_size=2),)))


@row.inequality(
    _runs.QUIET_BOX, wrong=lambda **point: _runs.maskless_slack(dataclasses.replace(_runs.at(**point), steps=1))
)
def _one_step_slack(**point: float) -> float:
    """inequality, any two-point deviation"""
    return _runs.theorem_slack(dataclasses.replace(_runs.at(**point), steps=1))


def _room(share: float, **point: float) -> float:
    """T times the bracket of the theorem less kappa S, over ``share`` gamma G C^2 / 2, less 1."""
    s = dataclasses.replace(_runs.at(**point), steps=1)
    found = _runs.run(s)
    unit = s.learning_rate * s.smoothness * s.clip**2 / 2
    room = found.gap / s.learning_rate + s.steps * (unit - found.bias - found.masked_measure)
    return room / (share * unit) - 1


@row.inequality(
    _runs.QUIET_BOX,
    # wrong: four times as much
    wrong=lambda **point: _room(4 * 0.5, **point),
)
def _open_range_slack(**point: float) -> float:
    """the open range, step 5: the sum is r gamma G C^2 / 2 below the bracket"""
    return _room(0.5, **point)
