import dataclasses

from dptheory import convergence
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _clipped_bounds as clipped
from dptheory.claims.rs import _runs
from dptheory.claims.rs import _runs as enumeration
from dptheory.claims.rs._runs import Settings, two_point

_Z = 0.25  # P(|xi| < C/4) and min(|w|, 3C/4)


def _without_freeze(s: Settings) -> float:
    found = enumeration.run(s)
    return _runs.theorem_bound(s, found, found.gap, None, 0.0).value


row = new_row(
    id="rf.thm2",
    source=Source("rf", "Theorem 2", (4, 5, *range(40, 70))),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("printed_is_false", "correction_holds"),
    calculators=(convergence.dpsgd_bound, convergence.noise_term),
)
row.add(clipped.held_mask_check())
row.add(clipped.poisson_check())
row.add(clipped.closed_range_check(_Z))
row.add(clipped.terms_check(_runs.NOISY[:3]))
row.add(clipped.largest_moment_check())
row.add(
    clipped.equality_check(
        (
            Settings((0.2, -0.1), two_point(0.3, 0.2), clip=9.0, steps=3, noise_std=0.05, z=_Z),
            Settings((2.0, 1.4), two_point(0.1, 0.2), clip=9.0, batch_size=2, noise_std=0.1, z=_Z),
        )
    )
)


@row.equal(lambda: [(s,) for s in _runs.PLAIN], tolerance=1e-12)
def _(s: Settings) -> Sides:
    """no freeze: the bound of DP-SGD"""
    return (
        _without_freeze(s),
        lambda: (
            enumeration.run(s).gap / (s.learning_rate * s.steps)
            + s.learning_rate * s.smoothness / 2 * enumeration.run(s).second_moment
        ),
        _without_freeze(s) + s.learning_rate * s.smoothness / 2 * s.clip**2,
    )


@row.inequality(
    {**_runs.QUIET_BOX, "noise_std": Range(0, 0.3)},
    wrong=lambda **point: _runs.maskless_slack(dataclasses.replace(_runs.at(**point), steps=1, z=_Z)),
)
def _slack(**point: float) -> float:
    """inequality, any two-point deviation"""
    return _runs.theorem_slack(dataclasses.replace(_runs.at(**point), steps=1, z=_Z))
