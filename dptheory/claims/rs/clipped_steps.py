"""rs.clipped_steps: worst case of clipped SGD over T steps."""

import dataclasses
import itertools
import math

from dptheory import convergence
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _enumeration as enumeration
from dptheory.claims.rs import _runs, _worst_case
from dptheory.claims.rs._clipped_steps import LATTICE, RUNS, LatticeRun, Recursion

row = new_row(
    id="rs.clipped_steps",
    source=Source("rs", "new, on Theorem 3.5"),
    ours=True,
    verdict=Verdict.HOLDS,
    calculators=(convergence.dpsgd_bound,),
    proved=True,
)


@row.equal(lambda: [(run,) for run in LATTICE], tolerance=1e-12)
def _(run: LatticeRun) -> Sides:
    """attained on a quadratic, by enumeration of masks and examples"""
    return run.bound(), run.measure, lambda: run.bound(0.0)


_PARTS: tuple[dict[str, bool], ...] = (
    {},
    {"clipping": False, "noise": False},
    {"gap": False, "noise": False},
    {"gap": False, "clipping": False},
)
_TERMS = ("value", "optimization", "clipping", "noise")


@row.equal(lambda: itertools.product(RUNS, range(4)), tolerance=1e-9)
def _(run: Recursion, part: int) -> Sides:
    """every term, step by step at the sizes of the papers"""
    summed = getattr(run.summed(), _TERMS[part])
    return (
        getattr(run.stated(), _TERMS[part]),
        lambda: run.walked(**_PARTS[part]),
        summed if summed else 1.0,
    )


@row.equal(*itertools.product((0.01, 0.1, 1.0, 30.0), (0.6, 1.9), (1, 2, 40)), tolerance=1e-12)
def _(gap: float, gamma: float, steps: int) -> Sides:
    """steps longer than 1 / (2 x G)"""

    # C = G = x = 1: the smaller of 2 (Delta + (T - 1) v) and Delta / gamma + T v / gamma
    def value(bias: float | None) -> float:
        return convergence.dpsgd_bound(
            objective_gap=gap,
            learning_rate=gamma,
            steps=steps,
            smoothness=1.0,
            clip_norm=1.0,
            bias=bias,
            sampling="fixed",
        ).value

    v = gamma**2 / 2
    truth = min(2 * (gap + (steps - 1) * v), (gap + steps * v) / gamma) / steps
    return value(None), truth, value(None) * 1.01


def _clipped_worst(
    gamma: float, G: float, clip: float, r: float, T: int, energy: float, bias: float | None = None
) -> float:
    return convergence.dpsgd_bound(
        objective_gap=1.0,
        learning_rate=gamma,
        steps=T,
        smoothness=G,
        clip_norm=clip,
        noise_multiplier=math.sqrt(energy / 4) / clip,
        dim=4,
        batch_size=1,
        drop_rate=r,
        bias=bias,
        sampling="fixed",
    ).value


@row.certificate(
    (0.2, 1.0, 2.0, 0.0, 3, 0.0),
    (0.3, 2.0, 3.0, 0.5, 2, 0.0),
    (0.1, 1.0, 2.0, 0.5, 2, 1.0),
    problem=_worst_case.clipped_run,
    wrong=lambda gamma, G, clip, r, T, energy: _clipped_worst(gamma, G, clip, r, T, energy, 0.0),
)
def _(gamma: float, G: float, clip: float, r: float, T: int, energy: float) -> float:
    """worst case of two and three steps over smooth functions, B = 1"""
    # the wrong value is the sum of the one-step inequalities
    return _clipped_worst(gamma, G, clip, r, T, energy)


def _slack(s: enumeration.Settings, kappa: float | None) -> float:
    """Bound with the run's own mean second moment less the measure, over their sum."""
    found = enumeration.run(s)
    bound = convergence.dpsgd_bound(
        objective_gap=found.gap,
        learning_rate=s.learning_rate,
        steps=s.steps,
        smoothness=s.smoothness,
        clip_norm=s.clip,
        noise_multiplier=_runs.noise_multiplier(s),
        dim=2,
        batch_size=s.batch_size,
        drop_rate=_runs.rate(s),
        kappa=kappa or _runs.kappa(found),
        second_moment=_runs.moment(found, s.batch_size),
        sampling="fixed",
    ).value
    return (bound - found.measure) / (bound + found.measure)


_BOX = {
    **{name: one for name, one in _runs.QUIET_BOX.items() if name != "weight"},
    "learning_rate": Range(0.02, 1.9, log=True),
}


def _symmetric(point: dict[str, float], steps: int) -> enumeration.Settings:
    return dataclasses.replace(_runs.at(**point, weight=0.5), steps=steps, clip=4.0)


def _maskless_slack(**point: float) -> float:
    return _slack(_symmetric(point, 1), 1.0)


@row.inequality(_BOX, wrong=_maskless_slack)
def _clipped_slack(**point: float) -> float:
    """inequality, any symmetric two-point deviation"""
    return _slack(_symmetric(point, 2), None)
