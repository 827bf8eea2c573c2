import dataclasses
from fractions import Fraction

from dptheory import convergence
from dptheory.claims import _poisson
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _descent, _runs, _worst_case
from dptheory.claims.rs import _runs as enumeration
from dptheory.claims.rs._descent import certified, descent_slack, printed_descent, printed_of_run
from dptheory.claims.rs._runs import BOTH, Settings

row = new_row(
    id="rs.lem3.1",
    source=Source("rs", "Lemma 3.1", (6, 40, 41, 42, 43)),
    verdict=Verdict.LOOSE,
    printed=printed_descent,
    calculators=(convergence.alignment_bound, convergence.batch_second_moment),
)


@row.equal(lambda: [(s,) for s in _runs.PLAIN], tolerance=1e-12)
def _(s: Settings) -> Sides:
    """equality on a quadratic, by enumeration"""
    return _runs.alignment_bound(s, enumeration.run(s)), lambda: enumeration.run(s).alignment, lambda: printed_of_run(s)


@row.equal(lambda: [(s,) for s in _runs.PLAIN], tolerance=1e-12)
def _(s: Settings) -> Sides:
    """second moment of a batch, by enumeration"""
    return _runs.moment(enumeration.run(s), s.batch_size), lambda: enumeration.run(s).second_moment, s.clip**2


@row.equal(
    lambda: [
        (gradients, Fraction(rate))
        for gradients in ((1, 1, 1, 1), (3, -1, 2, 0), (1, -1, 1, -1, 1, -1))
        for rate in (Fraction(1, 2), 1)
    ],
    tolerance=1e-12,
)
def _(gradients: tuple[int, ...], rate: Fraction) -> Sides:
    """second moment of a Poisson batch, over all batches in fractions"""
    # wrong: the moment of B independent draws
    return (
        _descent.poisson_moment(gradients, rate),
        lambda: _poisson.mean_square(gradients, rate),
        lambda: _descent.poisson_moment(gradients, rate, fixed=True),
    )


row.equal(lambda: _descent.POISSON_STEPS, kind=Kind.COUNTEREXAMPLE)(_descent.poisson_batches)


@row.equal(lambda: _descent.POISSON_STEPS, tolerance=1e-12)
def _(gradient: Fraction, gamma: Fraction, examples: int, rate: Fraction) -> Sides:
    """equality with Poisson batches, in fractions"""
    return (
        _descent.poisson_bound(gradient, gamma, examples, rate),
        lambda: _poisson.one_step(gradient, gamma, examples, rate)[0],
        lambda: printed_descent(float(_poisson.one_step(gradient, gamma, examples, rate)[1]), float(gamma), 1.0, 1.0),
    )


@row.inequality(
    _runs.QUIET_BOX,
    wrong=lambda **point: descent_slack(dataclasses.replace(_runs.at(**point), steps=1, masks=BOTH), 0.5),
)
def _plain_slack(**point: float) -> float:
    """printed inequality"""
    return descent_slack(dataclasses.replace(_runs.at(**point), steps=1, masks=BOTH), 1.0)


row.certificate(
    (0.5, 1.0, 1.0, 1.0, 0.0, 0.0),
    (0.3, 2.0, 1.5, 0.75, 0.0, 0.0),
    (1.7, 1.0, 1.0, 0.1, 0.0, 0.0),
    problem=_worst_case.clipped_step,
    wrong=lambda gamma, G, C, mean_norm, rate, energy: printed_descent(1.0, gamma, G, C),
    name="worst case over smooth functions, B = 2",
)(certified)
