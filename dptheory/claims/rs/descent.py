import dataclasses
import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from dptheory import convergence
from dptheory.claims import _draws
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _runs, _worst_case
from dptheory.claims.rs import _runs as enumeration
from dptheory.claims.rs._noisy_runs import noisy_run
from dptheory.claims.rs._runs import BOTH, Settings, noise_of, spelled

# --- The descent lemmas against runs: by enumeration, with Poisson batches, and with mask and noise.


# --- RS: the bound on one step against steps with Poisson batches, or with mask and noise


def printed_holds(gradient: Fraction, gamma: Fraction, examples: int, rate: Fraction) -> bool:
    """The printed inequality for one step with Poisson batches and C = G = 1, in fractions."""
    alignment, decrease = _draws.one_step(gradient, gamma, examples, rate)
    return alignment <= decrease / gamma + gamma / 2


def poisson_bound(gradient: Fraction, gamma: Fraction, examples: int, rate: Fraction) -> float:
    clipped = min(float(gradient), 1.0)
    drawn = spelled(mean_norm=clipped, M=clipped**2, B=round(rate * examples), q=float(rate))
    moment = convergence.batch_second_moment(**drawn)
    decrease = float(_draws.one_step(gradient, gamma, examples, rate)[1])
    return convergence.alignment_bound(**spelled(decrease=decrease, gamma=float(gamma), G=1.0, M=moment)).value


POISSON_STEPS = [
    (Fraction(10), Fraction(1, 2), 100, Fraction(1, 100)),
    (Fraction(10), Fraction(1, 2), 6, Fraction(1, 3)),
    (Fraction(3, 4), Fraction(3, 2), 8, Fraction(1, 2)),
    (Fraction(10), Fraction(1, 2), 4, Fraction(1)),
]


def poisson_moment(gradients: tuple[int, ...], rate: Fraction, fixed: bool = False) -> float:
    mean = sum(gradients) / len(gradients)
    square = sum(g * g for g in gradients) / len(gradients)
    drawn = spelled(sampling="fixed") if fixed else spelled(q=float(rate))
    return convergence.batch_second_moment(
        **spelled(mean_norm=abs(mean), M=square, B=round(rate * len(gradients))), **drawn
    )


def poisson_batches(gradient: Fraction, gamma: Fraction, examples: int, rate: Fraction) -> Sides:
    """Poisson batches break the printed constant, in fractions"""
    # without clipping |update|^2 is (3/4)^2 (1 + 1/8) in the third case; a batch of all examples is one of fixed size
    return gradient < 1 or rate == 1, lambda: printed_holds(gradient, gamma, examples, rate), True


def step_bound(step: _draws.Step) -> float:
    """Lemma 3.4 with the largest second moment, one step with mask and noise on a quadratic."""
    clip, noise = float(step.clip), convergence.noise_term(**noise_of(step))
    largest = spelled(mean_norm=clip, M=clip**2, B=step.batch_size) | step.sampling
    moment = convergence.batch_second_moment(**largest)
    run = spelled(gamma=float(step.learning_rate), G=float(step.smoothness), M=moment, r=1 - step.kept / step.dim)
    return convergence.alignment_bound(**run, decrease=step.decrease, noise_term=noise).value


def printed_descent(decrease: float, learning_rate: float, smoothness: float, clip: float) -> float:
    """Right side of Lemma 3.1 as printed: the second moment of the clipped update is put at C^2."""
    return decrease / learning_rate + learning_rate * smoothness * clip**2 / 2


def printed_noisy_descent(
    decrease: float, learning_rate: float, smoothness: float, clip: float, noise: float, rate: float
) -> float:
    """Right side of Lemma 3.4 as printed, noise = Delta_sigma."""
    return printed_descent(decrease, learning_rate, smoothness, clip) + (1 - rate) * learning_rate * noise


def printed_of_run(s: Settings) -> float:
    decrease = enumeration.run(s).decrease / s.steps
    return printed_noisy_descent(decrease, s.learning_rate, s.smoothness, s.clip, _runs.noise(s), _runs.rate(s))


def descent_slack(s: Settings, share: float) -> float:
    """Right side of Lemma 3.4 minus left side, over the size of the terms; ``share`` of gamma G C^2 / 2 is kept."""
    found = enumeration.run(s)
    clipping = s.learning_rate * s.smoothness * s.clip**2 / 2
    noise = (1 - _runs.rate(s)) * s.learning_rate * _runs.noise(s)
    decrease = found.decrease / s.steps
    right = printed_noisy_descent(decrease, s.learning_rate, s.smoothness, s.clip, _runs.noise(s), _runs.rate(s))
    return (right - (1 - share) * clipping - found.alignment) / (abs(decrease) / s.learning_rate + clipping + noise)


def certified(
    learning_rate: float, smoothness: float, clip: float, mean_norm: float, rate: float, noise_energy: float
) -> float:
    """Refined bound for a batch of two and a decrease of 1; noise_energy = d (C sigma / B)^2."""
    moment = convergence.batch_second_moment(mean_norm=mean_norm, second_moment=clip**2, batch_size=2, sampling="fixed")
    noise = convergence.noise_term(**spelled(G=smoothness, C=clip, sigma=math.sqrt(noise_energy) * 2 / clip, d=1, B=2))
    run = spelled(decrease=1.0, gamma=learning_rate, G=smoothness, M=moment, r=rate)
    return convergence.alignment_bound(**run, noise_term=noise).value


lem3_1 = new_row(
    id="rs.lem3.1",
    source=Source("rs", "Lemma 3.1", (6, 40, 41, 42, 43)),
    verdict=Verdict.LOOSE,
    printed=printed_descent,
    calculators=(convergence.alignment_bound, convergence.batch_second_moment),
)


@lem3_1.equal(lambda: [(s,) for s in _runs.PLAIN], tolerance=1e-12)
def _(s: Settings) -> Sides:
    """equality on a quadratic, by enumeration"""
    return _runs.alignment_bound(s, enumeration.run(s)), lambda: enumeration.run(s).alignment, lambda: printed_of_run(s)


@lem3_1.equal(lambda: [(s,) for s in _runs.PLAIN], tolerance=1e-12)
def _(s: Settings) -> Sides:
    """second moment of a batch, by enumeration"""
    return _runs.moment(enumeration.run(s), s.batch_size), lambda: enumeration.run(s).second_moment, s.clip**2


@lem3_1.equal(
    lambda: [
        (gradients, Fraction(rate))
        for gradients in ((1, 1, 1, 1), (3, -1, 2, 0), (1, -1, 1, -1, 1, -1))
        for rate in (Fraction(1, 2), 1)
    ],
    tolerance=1e-12,
)
def _(gradients: tuple[int, ...], rate: Fraction) -> Sides:
    """second moment of a Poisson batch, over all batches in fractions"""
    of_independent_draws = poisson_moment(gradients, rate, fixed=True)
    return poisson_moment(gradients, rate), lambda: _draws.mean_square(gradients, rate), of_independent_draws


lem3_1.equal(lambda: POISSON_STEPS, kind=Kind.COUNTEREXAMPLE)(poisson_batches)


@lem3_1.equal(lambda: POISSON_STEPS, tolerance=1e-12)
def _(gradient: Fraction, gamma: Fraction, examples: int, rate: Fraction) -> Sides:
    """equality with Poisson batches, in fractions"""
    return (
        poisson_bound(gradient, gamma, examples, rate),
        lambda: _draws.one_step(gradient, gamma, examples, rate)[0],
        lambda: printed_descent(float(_draws.one_step(gradient, gamma, examples, rate)[1]), float(gamma), 1.0, 1.0),
    )


@lem3_1.inequality(
    _runs.QUIET_BOX,
    wrong=lambda **point: descent_slack(dataclasses.replace(_runs.at(**point), steps=1, masks=BOTH), 0.5),
)
def _plain_slack(**point: float) -> float:
    """printed inequality"""
    return descent_slack(dataclasses.replace(_runs.at(**point), steps=1, masks=BOTH), 1.0)


lem3_1.certificate(
    (0.5, 1.0, 1.0, 1.0, 0.0, 0.0),
    (0.3, 2.0, 1.5, 0.75, 0.0, 0.0),
    (1.7, 1.0, 1.0, 0.1, 0.0, 0.0),
    problem=_worst_case.clipped_step,
    wrong=lambda gamma, G, C, mean_norm, rate, energy: printed_descent(1.0, gamma, G, C),
    name="worst case over smooth functions, B = 2",
)(certified)


lem3_4 = new_row(
    id="rs.lem3.4",
    source=Source("rs", "Lemma 3.4", (13, 78, 79, 80, 81, 82, 83, 84)),
    verdict=Verdict.LOOSE,
    printed=printed_noisy_descent,
    calculators=(convergence.alignment_bound, convergence.batch_second_moment, convergence.noise_term),
)


@lem3_4.equal(lambda: [(s,) for s in _runs.NOISY], tolerance=1e-12)
def _(s: Settings) -> Sides:
    """equality on a quadratic, by enumeration"""
    return _runs.alignment_bound(s, enumeration.run(s)), lambda: enumeration.run(s).alignment, lambda: printed_of_run(s)


@lem3_4.equal(lambda: [(s,) for s in _runs.NOISY], tolerance=1e-12)
def _(s: Settings) -> Sides:
    """equality with one mask for all steps"""
    found = _runs.held(s)
    return _runs.alignment_bound(s, found), found.alignment, _runs.alignment_bound(s, found, dropped=0.0)


lem3_4.equal(lambda: POISSON_STEPS, kind=Kind.COUNTEREXAMPLE)(poisson_batches)


def _printed_step_bound(step: _draws.Step) -> float:
    noise = convergence.noise_term(**noise_of(step))
    gamma, smoothness, rate = float(step.learning_rate), float(step.smoothness), 1 - step.kept / step.dim
    return printed_noisy_descent(step.decrease, gamma, smoothness, float(step.clip), noise, rate)


@lem3_4.equal(lambda: [(step,) for step in _draws.STEPS], tolerance=1e-11)
def _(step: _draws.Step) -> Sides:
    """one step with mask, noise and the largest second moment, at the sizes of the papers"""
    return step_bound(step), step.alignment, lambda: _printed_step_bound(step)


@lem3_4.equal((10, 50), (4, 200), (100, 20), tolerance=1e-11, kind=Kind.COUNTEREXAMPLE)
def _(examples: int, steps: int) -> Sides:
    """runs with Poisson batches, by enumeration of their lattice"""
    moment = convergence.batch_second_moment(**spelled(mean_norm=1.0, M=1.0, B=1, q=1 / examples))
    decrease = _draws.run_alignment(examples, steps)[1] / steps
    bound = convergence.alignment_bound(**spelled(decrease=decrease, gamma=2.0, G=1.0, M=moment)).value
    # wrong: the whole gap and C^2, 1.9 > 1
    return bound, lambda: _draws.run_alignment(examples, steps)[0], 0.5 / (2.0 * steps) + 1.0


@lem3_4.inequality(_runs.BOX, wrong=lambda **point: descent_slack(dataclasses.replace(_runs.at(**point), steps=1), 0.5))
def _printed_slack(**point: float) -> float:
    """printed inequality"""
    return descent_slack(dataclasses.replace(_runs.at(**point), steps=1), 1.0)


lem3_4.certificate(
    (0.5, 1.0, 1.0, 0.5, 0.5, 2.0),
    (1.2, 2.0, 1.0, 0.8, 0.5, 0.3),
    (0.5, 1.0, 1.0, 0.5, 0.0, 2.0),
    problem=_worst_case.clipped_step,
    wrong=lambda gamma, G, C, mean_norm, rate, energy: certified(gamma, G, C, mean_norm, 0.0, energy),
    name="worst case over smooth functions, B = 2, masked and noised",
)(certified)


least_gradient = new_row(
    id="rs.least_gradient",
    source=Source("rs", "new, on Theorem 3.2"),
    verdict=Verdict.HOLDS,
    calculators=(convergence.least_gradient_bound,),
)


def _bound(gamma: float, G: float, r: float, T: int, energy: float = 0.0) -> float:
    return convergence.least_gradient_bound(**noisy_run(1.0, gamma, G, r, T, energy))


def _mean(gamma: float, G: float, r: float, T: int, energy: float = 0.0) -> float:
    return convergence.noisy_sgd_bound(**noisy_run(1.0, gamma, G, r, T, energy)).value


@least_gradient.equal(*((Fraction(g, 10), T) for g in (1, 5, 10) for T in (1, 2, 7, 1000)), tolerance=1e-12)
def _(gamma: Fraction, T: int) -> Sides:
    """attained by a zigzag gradient without mask and noise, in fractions"""

    # gradient -1 at every iterate, slopes -1 and 1 in between, 1 after the last: what a step lowers, triangle by triangle
    def least() -> Fraction:
        gap = (T - 1) * (gamma - 2 * (gamma / 2) ** 2 / 2) + Fraction(1, 2)
        return 1 / gap

    return _bound(float(gamma), 1.0, 0.0, T), least, _mean(float(gamma), 1.0, 0.0, T) * (1.0 if T > 1 else 1.01)


least_gradient.certificate(
    (0.5, 1.0, 0.0, 2, 0.0),
    (0.4, 2.0, 0.0, 4, 0.0),
    problem=_worst_case.least_run,
    wrong=_mean,
    name="worst case without mask and noise over smooth functions",
)(_bound)


least_gradient.certificate(
    (0.5, 1.0, 0.5, 3, 0.0),
    (0.5, 2.0, 0.5, 3, 0.0),
    (0.5, 1.0, 0.5, 2, 1.0),
    (0.5, 1.0, 0.0, 3, 1.0),
    problem=_worst_case.least_run,
    wrong=lambda *case: 0.9 * _bound(*case),
    looseness=0.07,
    name="at most 7 % above the worst case of two and three steps with mask or noise",
)(_bound)


_USERS = (
    spelled(gamma=0.3, T=5, G=2.0, s=1.0, tau=2.0, d=10, B=4, r=0.5),
    spelled(gamma=0.02, T=3000, G=1.0, s=2.0, tau=0.5, d=550_000, B=1024),
    spelled(gamma=0.9, T=20_000, G=1.0, tau=0.01, d=10**6, B=512, r=0.9),
    spelled(gamma=1e-3, T=10**6, G=5.0, r=0.99),
)


@least_gradient.equal(
    *((number, rate) for number in range(len(_USERS)) for rate in (None, 0.02, "fixed")), tolerance=1e-7
)
def _(number: int, rate: float | str | None) -> Sides:
    """the least over s, searched, at the sizes of the papers"""
    one = {"objective_gap": 2.3, **_USERS[number]}
    how: dict[str, Any] = {"sampling": "fixed"} if rate == "fixed" else {"sampling_rate": rate}
    found = convergence.least_gradient_bound(**one, **how)

    def searched() -> float:
        share = 1 / one.get("batch_size", 1) * (1 - (rate or 0.0) if rate != "fixed" else 1)  # type: ignore[operator]
        move, x = one["learning_rate"] * one["smoothness"], 1 - one.get("drop_rate", 0.0)
        square = 1.0 if rate == "fixed" else 1 + share
        V = (
            share * one.get("deviation_norm", 0.0) ** 2
            + one.get("dim", 1) * (one.get("sum_noise_std", 0.0) / one.get("batch_size", 1)) ** 2
        )
        n = one["steps"] - 1

        def value(s: float) -> float:
            # the sum of a_t and a_{t+1} times alpha(s) and beta(s), as in step 3
            alpha = x * move / 2 + (1 - s) / 4 + s * x * move / 2 - (1 + s) * x * move**2 * square / 4
            after = (1 - 1 / s) / 4
            noise = (1 + s) * x * move**2 * V / 4
            return float((one["smoothness"] * one["objective_gap"] + n * noise) / (0.5 + n * (alpha + after)))

        longest = 1 / math.sqrt(1 - x * move * (2 - square * move))
        at_most = 2 * one["smoothness"] * one["objective_gap"]
        return float(min(at_most, _runs.least(value, 1.0, longest)[1], value(1.0)))

    return found, searched, 1.01 * found


def _slack(steps: float, gamma: float, rate: float, spread: float, curvature: float, scale: float = 1.0) -> float:
    """Relative slack against the least expected square on a quadratic with curvatures (curvature, 1)."""
    steps = round(steps)
    walk = spelled(start=np.ones(2), T=steps, gamma=gamma, r=rate, variance=spread)
    moments = convergence.fresh_mask_moments([curvature, 1.0], **walk)
    run = noisy_run((curvature + 1) / 2, gamma, 1.0, rate, steps, 2 * spread, dim=2)
    least = float((moments[:-1] @ [curvature**2, 1.0]).min())
    return scale * convergence.least_gradient_bound(**run) / least - 1


least_gradient.inequality(
    {
        "steps": Range(1, 200, log=True),
        "gamma": Range(0.02, 1.9, log=True),
        "rate": Range(0, 0.95),
        "spread": Range(0, 4),
        "curvature": Range(0, 1),
    },
    wrong=partial(_slack, scale=0.5),
    name="bound above the least square on quadratics",
)(_slack)


@least_gradient.equal((0.5,), (1.79,), (20.0,), tolerance=1e-4)
def _(run_length: float) -> Sides:
    """small steps, against the worst case of the mean"""
    gamma = 1e-6
    run = noisy_run(1.0, gamma, 1.0, 0.0, round(run_length / (gamma * (2 - gamma))))
    gain = convergence.least_gradient_bound(**run) / convergence.noisy_sgd_bound(**run).value
    return run_length / (-math.expm1(-run_length) * (1 + run_length)), gain, 1.0
