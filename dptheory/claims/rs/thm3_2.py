import math
from fractions import Fraction

from dptheory import convergence
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _noisy_runs, _worst_case, clipped_bounds


def printed_noisy_sgd(
    objective_gap: float,
    steps: int,
    smoothness: float,
    deviation_norm: float,
    sum_noise_std: float,
    dim: int,
    batch_size: int,
    rate: float,
) -> float:
    """Right side of Theorem 3.2 as printed, gamma = 1/(G sqrt T)."""
    variance = deviation_norm**2 / batch_size + dim * (sum_noise_std / batch_size) ** 2
    return (2 * smoothness * objective_gap / (1 - rate) + variance) / math.sqrt(steps)


row = new_row(
    id="rs.thm3.2",
    source=Source("rs", "Theorem 3.2", (5, *range(25, 35))),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_noisy_sgd,
    calculators=(convergence.noisy_sgd_bound, convergence.fresh_mask_moments, convergence.epoch_mask_moments),
    figure="bound_recursion",
)


@row.equal((25, False), (25, True), (400, False), (400, True), kind=Kind.COUNTEREXAMPLE)
def _(steps: int, held: bool) -> Sides:
    """a held mask breaks the bound"""
    return (
        not held,
        lambda: (
            clipped_bounds.mean_square_gradient(steps, Fraction(1, round(steps**0.5)), held)
            <= clipped_bounds.noisy_right_side(steps)
        ),
        True,
    )


@row.equal(_noisy_runs.mask_cases, tolerance=1e-13)
def _(
    curvature: tuple[Fraction, ...], gamma: Fraction, variance: Fraction, epochs: int, per_epoch: int, keep: int
) -> Sides:
    """recursions, by enumeration of the masks"""
    return (
        _noisy_runs.stated_moment(curvature, gamma, variance, epochs, per_epoch, keep),
        lambda: _noisy_runs.enumerated_moment(curvature, gamma, variance, epochs, per_epoch, keep),
        lambda: _noisy_runs.other_moment(curvature, gamma, variance, epochs, per_epoch, keep),
    )


@row.equal(lambda: [case for case in _noisy_runs.mask_cases() if case[3] * case[4] in (4, 6)], tolerance=1e-12)
def _(
    curvature: tuple[Fraction, ...], gamma: Fraction, variance: Fraction, epochs: int, per_epoch: int, keep: int
) -> Sides:
    """recursions at users' sizes, entries repeated"""
    return (
        _noisy_runs.stated_moment(curvature, gamma, variance, epochs, per_epoch, keep, copies=10_000),
        lambda: _noisy_runs.enumerated_moment(curvature, gamma, variance, epochs, per_epoch, keep),
        lambda: _noisy_runs.other_moment(curvature, gamma, variance, epochs, per_epoch, keep),
    )


@row.equal(lambda: [(run,) for run in _noisy_runs.SMALL], tolerance=1e-12)
def _(run: _noisy_runs.NoisyRun) -> Sides:
    """attained on a quadratic, by enumeration of masks, batches and noise"""
    return (
        _noisy_runs.sharp_bound(run),
        lambda: _noisy_runs.enumerated_measure(run),
        lambda: _noisy_runs.without_final_gap(run),
    )


@row.equal(lambda: [(run,) for run in (*_noisy_runs.SMALL, *_noisy_runs.LARGE)], tolerance=1e-10)
def _(run: _noisy_runs.NoisyRun) -> Sides:
    """attained on a quadratic, entry by entry at the sizes of the papers"""
    return (
        _noisy_runs.sharp_bound(run),
        lambda: _noisy_runs.measure_by_entries(run),
        lambda: _noisy_runs.without_final_gap(run),
    )


row.inequality(
    {
        "steps": Range(1, 200, log=True),
        "rate": Range(0, 0.95),
        "spread": Range(0, 4),
        "curvature": Range(0, 1),
    },
    wrong=_noisy_runs.halved_noisy_slack,
    name="bound above the recursion on quadratics",
)(_noisy_runs.noisy_slack)


@row.certificate(
    (0.5, 1.0, 0.5, 1),
    (1.0, 1.0, 0.5, 2),
    (0.3, 2.0, 0.5, 3),
    (1.7, 1.0, 0.0, 4),
    (0.5, 1.0, 0.0, 5),
    problem=_worst_case.masked_run,
    wrong=lambda gamma, G, r, T: 1 / ((1 - r) * gamma * T * (1 - gamma * G / 2)),
)
def _(gamma: float, G: float, r: float, T: int) -> float:
    """worst case of one to five steps over smooth functions"""
    # the wrong value forgets the gap that is left at the end
    return convergence.noisy_sgd_bound(
        objective_gap=1.0, learning_rate=gamma, steps=T, smoothness=G, drop_rate=r, sampling="fixed"
    ).value


row.certificate(
    (0.5, 1.0, 0.5, 2, 3.0),
    (0.4, 2.0, 0.0, 3, 5.0),
    problem=_worst_case.masked_run,
    wrong=lambda gamma, G, r, T, energy: _noisy_runs.noisy_worst(gamma, G, r, T, 0.98 * energy),
    name="worst case with noise over smooth functions",
)(_noisy_runs.noisy_worst)
