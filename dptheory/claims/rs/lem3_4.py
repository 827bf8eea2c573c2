import dataclasses

from dptheory import convergence
from dptheory.claims import _poisson
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _descent, _runs, _worst_case
from dptheory.claims.rs import _runs as enumeration
from dptheory.claims.rs._descent import certified, descent_slack, printed_noisy_descent, printed_of_run
from dptheory.claims.rs._runs import Settings

row = new_row(
    id="rs.lem3.4",
    source=Source("rs", "Lemma 3.4", (13, 78, 79, 80, 81, 82, 83, 84)),
    verdict=Verdict.LOOSE,
    printed=printed_noisy_descent,
    calculators=(convergence.alignment_bound, convergence.batch_second_moment, convergence.noise_term),
)


@row.equal(lambda: [(s,) for s in _runs.NOISY], tolerance=1e-12)
def _(s: Settings) -> Sides:
    """equality on a quadratic, by enumeration"""
    return _runs.alignment_bound(s, enumeration.run(s)), lambda: enumeration.run(s).alignment, lambda: printed_of_run(s)


@row.equal(lambda: [(s,) for s in _runs.NOISY], tolerance=1e-12)
def _(s: Settings) -> Sides:
    """equality with one mask for all steps"""
    return (
        _runs.alignment_bound(s, _runs.held(s)),
        lambda: _runs.held(s).alignment,
        lambda: _runs.alignment_bound(s, _runs.held(s), dropped=0.0),
    )


row.equal(lambda: _descent.POISSON_STEPS, kind=Kind.COUNTEREXAMPLE)(_descent.poisson_batches)


def _printed_step_bound(step: _poisson.Step) -> float:
    noise = convergence.noise_term(
        smoothness=float(step.smoothness),
        clip_norm=float(step.clip),
        noise_multiplier=float(step.noise_multiplier),
        dim=step.dim,
        batch_size=step.batch_size,
    )
    gamma, smoothness, rate = float(step.learning_rate), float(step.smoothness), 1 - step.kept / step.dim
    return printed_noisy_descent(step.decrease, gamma, smoothness, float(step.clip), noise, rate)


@row.equal(lambda: [(step,) for step in _poisson.STEPS], tolerance=1e-11)
def _(step: _poisson.Step) -> Sides:
    """one step with mask, noise and the largest second moment, at the sizes of the papers"""
    return _descent.step_bound(step), step.alignment, lambda: _printed_step_bound(step)


@row.equal((10, 50), (4, 200), (100, 20), tolerance=1e-11, kind=Kind.COUNTEREXAMPLE)
def _(examples: int, steps: int) -> Sides:
    """runs with Poisson batches, by enumeration of their lattice"""
    # wrong: the whole gap and C^2, 1.9 > 1
    return (
        _descent.run_bound(
            examples,
            steps,
            convergence.batch_second_moment(mean_norm=1.0, second_moment=1.0, batch_size=1, sampling_rate=1 / examples),
        ),
        lambda: _poisson.run_alignment(examples, steps)[0],
        0.5 / (2.0 * steps) + 1.0,
    )


@row.inequality(_runs.BOX, wrong=lambda **point: descent_slack(dataclasses.replace(_runs.at(**point), steps=1), 0.5))
def _printed_slack(**point: float) -> float:
    """printed inequality"""
    return descent_slack(dataclasses.replace(_runs.at(**point), steps=1), 1.0)


row.certificate(
    (0.5, 1.0, 1.0, 0.5, 0.5, 2.0),
    (1.2, 2.0, 1.0, 0.8, 0.5, 0.3),
    (0.5, 1.0, 1.0, 0.5, 0.0, 2.0),
    problem=_worst_case.clipped_step,
    wrong=lambda gamma, G, C, mean_norm, rate, energy: certified(gamma, G, C, mean_norm, 0.0, energy),
    name="worst case over smooth functions, B = 2, masked and noised",
)(certified)
