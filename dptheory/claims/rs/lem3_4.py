"""rs.lem3.4: descent of DP-SGD with a mask."""

import dataclasses

from dptheory import convergence
from dptheory.claims import _poisson
from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict
from dptheory.claims.rs import _enumeration as enumeration
from dptheory.claims.rs import _poisson_steps, _runs, _worst_case
from dptheory.claims.rs._descent import certified, descent_slack, printed_noisy_descent, printed_of_run
from dptheory.claims.rs._enumeration import Settings

row = Row(
    Claim(
        id="rs.lem3.4",
        title="descent of DP-SGD with a mask",
        source=Source("rs", "Lemma 3.4", (13, 78, 79, 80, 81, 82, 83, 84)),
        statement=r"""For $w_{t+1} = w_t-\gamma(\hat g_t+\frac1Bm\odot\xi_\sigma)$, where $\hat g_t = \frac1B\sum_iu_i$,
$u_i = g_i'\min(1,C/|g_i'|)$, $g_i' = m\odot g_{t,i}$ and $\xi_\sigma\sim N(0,C^2\sigma^2I)$, on a $G$-smooth $L$,

$$E\langle\nabla w_t,\hat g_t\rangle\le\frac1\gamma E[L_t-L_{t+1}]+\gamma\frac{GC^2}2+(1-r)\gamma\Delta_\sigma,\qquad\Delta_\sigma = \frac{C^2\sigma^2dG}{2B^2} .$$""",
        verdict=Verdict.LOOSE,
        summary=(
            "true as printed for batches of $B$ examples, even for a mask held over many steps; for Poisson "
            "batches divided by their expected size the second moment of the averaged gradient must replace "
            "$C^2$."
        ),
        conditions=(
            r"Stated: $L$ is $G$-smooth; Gaussian noise of covariance $C^2\sigma^2I$; the mask keeps exactly $(1-r)d$ entries "
            "(section 3); the sum of the clipped gradients is over $B$ examples.",
            "Stated in the proof alone: no momentum. Unstated: the noise is independent of $w_t$, the batch and the mask. The paper's Algorithm 1 draws "
            "Poisson batches: divided by their expected size $B = qN$ the lemma fails.",
            "Not needed: the mask need not be fresh, nor independent of $w_t$. Of the noise only mean and covariance "
            "count.",
        ),
        correction=r"""$C^2$ can be replaced by $E|\hat g_t|^2$, which for examples drawn independently given $(w_t,m)$ is

$$M = E\Big[\Big(1-\frac1B\Big)|E[u\mid w_t,m]|^2+\frac1BE[|u|^2\mid w_t,m]\Big]\le C^2 ,$$

$u$ the masked and clipped gradient of one example. For Poisson batches at rate $q$ that are divided by $B = qN$ it is
exactly

$$M_q = E\Big[|E[u\mid w_t,m]|^2+\frac{1-q}BE[|u|^2\mid w_t,m]\Big]\le C^2\Big(1+\frac{1-q}B\Big) .$$

With $E|\hat g_t|^2$ in place of $C^2$ the lemma is an equality for $L(w) = \frac G2|w|^2$. All this holds for a mask
held over an epoch as well.""",
        printed=printed_noisy_descent,
        calculators=(convergence.alignment_bound, convergence.batch_second_moment, convergence.noise_term),
        proved=True,
    )
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


row.equal(lambda: _poisson_steps.POISSON_STEPS, kind=Kind.COUNTEREXAMPLE)(_poisson_steps.poisson_batches)


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
    return _poisson_steps.step_bound(step), step.alignment, lambda: _printed_step_bound(step)


@row.equal((10, 50), (4, 200), (100, 20), tolerance=1e-11, kind=Kind.COUNTEREXAMPLE)
def _(examples: int, steps: int) -> Sides:
    """runs with Poisson batches, by enumeration of their lattice"""
    # wrong: the whole gap and C^2, 1.9 > 1
    return (
        _poisson_steps.run_bound(
            examples,
            steps,
            convergence.batch_second_moment(mean_norm=1.0, second_moment=1.0, batch_size=1, sampling_rate=1 / examples),
        ),
        lambda: _poisson.run_alignment(examples, steps)[0],
        0.5 / (2.0 * steps) + 1.0,
    )


def _halved_slack(**point: float) -> float:
    return descent_slack(dataclasses.replace(_runs.at(**point), steps=1), 0.5)


@row.inequality(_runs.BOX, wrong=_halved_slack)
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
