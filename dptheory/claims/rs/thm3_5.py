from dptheory import convergence
from dptheory.claims._row import Range, Source, Verdict, new_row
from dptheory.claims.rs import _runs
from dptheory.claims.rs._clipped_bounds import (
    closed_range_check,
    equality_check,
    held_mask_check,
    largest_moment_check,
    poisson_check,
    terms_check,
)

row = new_row(
    id="rs.thm3.5",
    source=Source("rs", "Theorem 3.5", (14, 15, 85, 86, 87, 88, 89)),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("printed_is_false", "correction_holds"),
    calculators=(convergence.dpsgd_bound, convergence.noise_term),
)


row.add(held_mask_check())


row.add(poisson_check())


row.add(closed_range_check(0.75))


row.add(terms_check(_runs.NOISY[:3]))


row.add(largest_moment_check())


row.add(equality_check(_runs.UNCLIPPED[:2]))


@row.inequality(
    {**_runs.QUIET_BOX, "noise_std": Range(0, 0.3)}, wrong=lambda **point: _runs.maskless_slack(_runs.at(**point))
)
def _masked_slack(**point: float) -> float:
    """inequality, any two-point deviation"""
    return _runs.theorem_slack(_runs.at(**point))
