import dataclasses

from dptheory import convergence
from dptheory.claims._row import Source, Verdict, new_row
from dptheory.claims.rs import _runs
from dptheory.claims.rs._clipped_bounds import (
    equality_check,
    poisson_check,
    terms_check,
)
from dptheory.claims.rs._runs import BOTH

row = new_row(
    id="rs.thm3.3",
    source=Source("rs", "Theorem 3.3", (8,)),
    verdict=Verdict.HOLDS,
    calculators=(convergence.dpsgd_bound, convergence.alignment_bound),
)


row.add(terms_check(_runs.PLAIN))


row.add(poisson_check())


row.add(equality_check(_runs.UNCLIPPED[2:]))


@row.inequality(
    _runs.QUIET_BOX,
    wrong=lambda **point: _runs.unclipped_slack(dataclasses.replace(_runs.at(**point), steps=1, masks=BOTH)),
)
def _plain_slack(**point: float) -> float:
    """inequality, any two-point deviation"""
    return _runs.theorem_slack(dataclasses.replace(_runs.at(**point), steps=1, masks=BOTH))
