"""RS: descent lemmas and convergence bounds."""

import dataclasses
import math
from fractions import Fraction
from functools import partial

from dptheory import convergence
from dptheory.checks import CertificateCheck, ExactCheck, Kind, Range, SearchCheck
from dptheory.claims import _poisson
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.rs import _enumeration as enumeration
from dptheory.claims.rs import _held_mask, _noisy_runs, _poisson_steps, _runs, _worst_case
from dptheory.claims.rs._enumeration import BOTH, Settings

# --- rs.lem3.1, rs.lem3.4 ---------------------------------------------------------------------------------------------


def printed_descent(decrease: float, learning_rate: float, smoothness: float, clip: float) -> float:
    """Right side of Lemma 3.1 as printed: the second moment of the clipped update is put at C^2."""
    return decrease / learning_rate + learning_rate * smoothness * clip**2 / 2


def printed_noisy_descent(
    decrease: float, learning_rate: float, smoothness: float, clip: float, noise: float, rate: float
) -> float:
    """Right side of Lemma 3.4 as printed, noise = Delta_sigma."""
    return printed_descent(decrease, learning_rate, smoothness, clip) + (1 - rate) * learning_rate * noise


def _printed(s: Settings) -> float:
    decrease = enumeration.run(s).decrease / s.steps
    return printed_noisy_descent(decrease, s.learning_rate, s.smoothness, s.clip, _runs.noise(s), _runs.rate(s))


def _slack(s: Settings, share: float) -> float:
    """Right side of Lemma 3.4 minus left side, over the size of the terms; ``share`` of gamma G C^2 / 2 is kept."""
    found = enumeration.run(s)
    clipping = s.learning_rate * s.smoothness * s.clip**2 / 2
    noise = (1 - _runs.rate(s)) * s.learning_rate * _runs.noise(s)
    decrease = found.decrease / s.steps
    right = printed_noisy_descent(decrease, s.learning_rate, s.smoothness, s.clip, _runs.noise(s), _runs.rate(s))
    return (right - (1 - share) * clipping - found.alignment) / (abs(decrease) / s.learning_rate + clipping + noise)


def _printed_slack(**point: float) -> float:
    return _slack(dataclasses.replace(_runs.at(**point), steps=1), 1.0)


def _halved_slack(**point: float) -> float:
    return _slack(dataclasses.replace(_runs.at(**point), steps=1), 0.5)


def _plain_slack(**point: float) -> float:
    return _slack(dataclasses.replace(_runs.at(**point), steps=1, masks=BOTH), 1.0)


def _plain_halved_slack(**point: float) -> float:
    return _slack(dataclasses.replace(_runs.at(**point), steps=1, masks=BOTH), 0.5)


def _certified(
    learning_rate: float, smoothness: float, clip: float, mean_norm: float, rate: float, noise_energy: float
) -> float:
    """Refined bound for a batch of two and a decrease of 1; noise_energy = d (C sigma / B)^2."""
    moment = convergence.batch_second_moment(mean_norm, clip**2, 2, sampling="fixed")
    noise = convergence.noise_term(smoothness, clip, math.sqrt(noise_energy) * 2 / clip, 1, 2)
    return convergence.alignment_bound(1.0, learning_rate, smoothness, moment, noise, rate).value


def _printed_step_bound(step: _poisson.Step) -> float:
    noise = convergence.noise_term(
        float(step.smoothness), float(step.clip), float(step.noise_multiplier), step.dim, step.batch_size
    )
    gamma, smoothness, rate = float(step.learning_rate), float(step.smoothness), 1 - step.kept / step.dim
    return printed_noisy_descent(step.decrease, gamma, smoothness, float(step.clip), noise, rate)


_LEM31 = Claim(
    id="rs.lem3.1",
    title="descent with clipped gradients",
    source=Source("rs", "Lemma 3.1", (6, 40, 41, 42, 43)),
    statement=r"$E\langle\nabla w_t,\bar g_t\rangle\le\frac1\gamma E[L_t-L_{t+1}]+\gamma\frac{GC^2}2$.",
    verdict=Verdict.LOOSE,
    conditions=(
        "L is G-smooth",
        "w_{t+1} = w_t - gamma * gbar_t: no momentum",
        "the sum of a batch is divided by the size of that batch; for Poisson batches divided by their expected size B = qN it fails",
    ),
    correction=r"$C^2$ can be $M = (1-\frac1B)|E g_i|^2+\frac1BE|g_i|^2\le C^2$, $g_i$ one clipped gradient given $w_t$, for $B$ examples "
    r"drawn independently or without replacement; equality for $L = G|w|^2/2$ if drawn independently, and then the worst case over "
    r"smooth functions. For Poisson batches divided by $B = qN$ it is $M = |E g_i|^2+\frac{1-q}BE|g_i|^2\le C^2(1+\frac{1-q}B)$, exactly.",
    printed=printed_descent,
    calculators=(convergence.alignment_bound, convergence.batch_second_moment),
    checks=(
        ExactCheck(
            name="equality on a quadratic, by enumeration",
            cases=lambda: [(s,) for s in _runs.PLAIN],
            truth=lambda s: enumeration.run(s).alignment,
            statement=lambda s: _runs.alignment_bound(s, enumeration.run(s)),
            wrong=_printed,
            tolerance=1e-12,
        ),
        ExactCheck(
            name="second moment of a batch, by enumeration",
            cases=lambda: [(s,) for s in _runs.PLAIN],
            truth=lambda s: enumeration.run(s).second_moment,
            statement=lambda s: _runs.moment(enumeration.run(s), s.batch_size),
            wrong=lambda s: s.clip**2,
            tolerance=1e-12,
        ),
        ExactCheck(
            name="second moment of a Poisson batch, over all batches in fractions",
            cases=lambda: [
                (gradients, Fraction(rate))
                for gradients in ((1, 1, 1, 1), (3, -1, 2, 0), (1, -1, 1, -1, 1, -1))
                for rate in (Fraction(1, 2), 1)
            ],
            truth=_poisson.mean_square,
            statement=lambda gradients, rate: _poisson_steps.poisson_moment(gradients, rate),
            # that of B independent draws
            wrong=lambda gradients, rate: _poisson_steps.poisson_moment(gradients, rate, fixed=True),
            tolerance=1e-12,
        ),
        _poisson_steps.poisson_check(),
        ExactCheck(
            name="equality with Poisson batches, in fractions",
            cases=lambda: _poisson_steps.POISSON_STEPS,
            truth=lambda *case: _poisson.one_step(*case)[0],
            statement=_poisson_steps.poisson_bound,
            wrong=lambda gradient, gamma, examples, rate: printed_descent(
                float(_poisson.one_step(gradient, gamma, examples, rate)[1]), float(gamma), 1.0, 1.0
            ),
            tolerance=1e-12,
        ),
        SearchCheck(
            name="printed inequality",
            box=_runs.QUIET_BOX,
            slack=_plain_slack,
            wrong=_plain_halved_slack,
        ),
        CertificateCheck(
            name="worst case over smooth functions, B = 2",
            cases=lambda: [
                (0.5, 1.0, 1.0, 1.0, 0.0, 0.0),
                (0.3, 2.0, 1.5, 0.75, 0.0, 0.0),
                (1.7, 1.0, 1.0, 0.1, 0.0, 0.0),
            ],
            problem=_worst_case.clipped_step,
            bound=_certified,
            wrong=lambda gamma, G, C, mean_norm, rate, energy: printed_descent(1.0, gamma, G, C),
        ),
    ),
    proved=True,
)


_LEM34 = Claim(
    id="rs.lem3.4",
    title="descent of DP-SGD with a mask",
    source=Source("rs", "Lemma 3.4", (13, 78, 79, 80, 81, 82, 83, 84)),
    statement=r"$E\langle\nabla w_t,\hat g_t\rangle\le\frac1\gamma E[L_t-L_{t+1}]+\gamma\frac{GC^2}2+(1-r)\gamma\Delta_\sigma$, "
    r"$\Delta_\sigma = \frac{C^2\sigma^2dG}{2B^2}$.",
    verdict=Verdict.LOOSE,
    conditions=(
        "L is G-smooth",
        "no momentum",
        "the noise is independent of iterate, batch and mask",
        "the mask keeps exactly (1 - r) d entries; it need not be fresh",
        "the sum of the clipped gradients is over B examples; for Poisson batches divided by their expected size B = qN it fails",
    ),
    correction=r"$C^2$ can be $M = E_m[(1-\frac1B)|E[g_i'|m]|^2+\frac1BE[|g_i'|^2|m]]$, $g_i'$ one masked and clipped gradient given $w_t$; "
    r"equality for $L = G|w|^2/2$. It holds for a mask held over an epoch as well. For Poisson batches divided by $B = qN$ it is "
    r"$M = E_m[|E[g_i'|m]|^2+\frac{1-q}BE[|g_i'|^2|m]]\le C^2(1+\frac{1-q}B)$, exactly.",
    printed=printed_noisy_descent,
    calculators=(convergence.alignment_bound, convergence.batch_second_moment, convergence.noise_term),
    checks=(
        ExactCheck(
            name="equality on a quadratic, by enumeration",
            cases=lambda: [(s,) for s in _runs.NOISY],
            truth=lambda s: enumeration.run(s).alignment,
            statement=lambda s: _runs.alignment_bound(s, enumeration.run(s)),
            wrong=_printed,
            tolerance=1e-12,
        ),
        ExactCheck(
            name="equality with one mask for all steps",
            cases=lambda: [(s,) for s in _runs.NOISY],
            truth=lambda s: _runs.held(s).alignment,
            statement=lambda s: _runs.alignment_bound(s, _runs.held(s)),
            wrong=lambda s: _runs.alignment_bound(s, _runs.held(s), dropped=0.0),
            tolerance=1e-12,
        ),
        _poisson_steps.poisson_check(),
        ExactCheck(
            name="one step with mask, noise and the largest second moment, at the sizes of the papers",
            cases=lambda: [(step,) for step in _poisson.STEPS],
            truth=lambda step: step.alignment,
            statement=_poisson_steps.step_bound,
            wrong=_printed_step_bound,
            tolerance=1e-11,
        ),
        ExactCheck(
            name="runs with Poisson batches, by enumeration of their lattice",
            cases=lambda: [(10, 50), (4, 200), (100, 20)],
            truth=lambda examples, steps: _poisson.run_alignment(examples, steps)[0],
            statement=lambda examples, steps: _poisson_steps.run_bound(
                examples, steps, convergence.batch_second_moment(1.0, 1.0, 1, sampling_rate=1 / examples)
            ),
            wrong=lambda examples, steps: 0.5 / (2.0 * steps) + 1.0,  # the whole gap and C^2: 1.9 > 1
            tolerance=1e-11,
            kind=Kind.COUNTEREXAMPLE,
        ),
        SearchCheck(name="printed inequality", box=_runs.BOX, slack=_printed_slack, wrong=_halved_slack),
        CertificateCheck(
            name="worst case over smooth functions, B = 2, masked and noised",
            cases=lambda: [
                (0.5, 1.0, 1.0, 0.5, 0.5, 2.0),
                (1.2, 2.0, 1.0, 0.8, 0.5, 0.3),
                (0.5, 1.0, 1.0, 0.5, 0.0, 2.0),
            ],
            problem=_worst_case.clipped_step,
            bound=_certified,
            wrong=lambda gamma, G, C, mean_norm, rate, energy: _certified(gamma, G, C, mean_norm, 0.0, energy),
        ),
    ),
    proved=True,
)

# --- rs.thm3.2 --------------------------------------------------------------------------------------------------------


def printed_noisy_sgd(
    objective_gap: float,
    steps: int,
    smoothness: float,
    deviation: float,
    noise_std: float,
    dim: int,
    batch_size: int,
    rate: float,
) -> float:
    """Right side of Theorem 3.2 as printed, gamma = 1/(G sqrt T)."""
    variance = deviation**2 / batch_size + dim * (noise_std / batch_size) ** 2
    return (2 * smoothness * objective_gap / (1 - rate) + variance) / math.sqrt(steps)


_THM32 = Claim(
    id="rs.thm3.2",
    title="noisy SGD with random sparsification",
    source=Source("rs", "Theorem 3.2", (5, *range(25, 35))),
    statement=r"For $\gamma = 1/(G\sqrt T)$: $\frac1T\sum_t|\nabla w_t|^2\le\frac{2G}{(1-r)\sqrt T}\Delta_L+\frac1{\sqrt T}"
    r"(\frac{\sigma_g^2}B+\frac{d\sigma^2}{B^2})$.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "a fresh mask at every step, independent of the iterate",
        "no momentum",
        "the left side in expectation over the iterates",
        "deviations of a batch have mean zero given the iterate and are uncorrelated",
        "L is G-smooth and bounded below",
        "the batch has B examples; for Poisson batches divided by qN the deviation of the sum grows with the gradient",
    ),
    correction=r"The worst case, for $0<\gamma<2/G$, $x = 1-r$, $V = \frac{\sigma_g^2}B+\frac{d\sigma^2}{B^2}$, $\rho = x\gamma G(2-\gamma G)$: "
    r"$\frac{2G\Delta_L}T\frac{1-(1-\rho)^T}\rho+\frac{\gamma G}{2-\gamma G}V(1-\frac{1-(1-\rho)^T}{\rho T})$, attained by $L = G|w|^2/2$ for "
    r"every $T$. At $\gamma = 1/(G\sqrt T)$ it is at most the printed right side over $2-1/\sqrt T$. With one mask held for all $T$ steps the "
    r"printed bound fails.",
    printed=printed_noisy_sgd,
    calculators=(convergence.noisy_sgd_bound, convergence.fresh_mask_moments, convergence.epoch_mask_moments),
    checks=(
        ExactCheck(
            name="a held mask breaks the bound",
            cases=lambda: [(25, False), (25, True), (400, False), (400, True)],
            truth=lambda steps, held: (
                _held_mask.mean_square_gradient(steps, Fraction(1, round(steps**0.5)), held)
                <= _held_mask.noisy_right_side(steps)
            ),
            statement=lambda steps, held: not held,
            wrong=lambda steps, held: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="recursions, by enumeration of the masks",
            cases=_noisy_runs.mask_cases,
            truth=_noisy_runs.enumerated_moment,
            statement=_noisy_runs.stated_moment,
            wrong=_noisy_runs.other_moment,
            tolerance=1e-13,
        ),
        ExactCheck(
            name="recursions at users' sizes, entries repeated",
            cases=lambda: [case for case in _noisy_runs.mask_cases() if case[3] * case[4] in (4, 6)],
            truth=_noisy_runs.enumerated_moment,
            statement=partial(_noisy_runs.stated_moment, copies=10_000),
            wrong=_noisy_runs.other_moment,
            tolerance=1e-12,
        ),
        ExactCheck(
            name="attained on a quadratic, by enumeration of masks, batches and noise",
            cases=lambda: [(run,) for run in _noisy_runs.SMALL],
            truth=_noisy_runs.enumerated_measure,
            statement=_noisy_runs.sharp_bound,
            wrong=_noisy_runs.without_final_gap,
            tolerance=1e-12,
        ),
        ExactCheck(
            name="attained on a quadratic, entry by entry at the sizes of the papers",
            cases=lambda: [(run,) for run in (*_noisy_runs.SMALL, *_noisy_runs.LARGE)],
            truth=_noisy_runs.measure_by_entries,
            statement=_noisy_runs.sharp_bound,
            wrong=_noisy_runs.without_final_gap,
            tolerance=1e-10,
        ),
        SearchCheck(
            name="bound above the recursion on quadratics",
            box={
                "steps": Range(1, 200, log=True),
                "rate": Range(0, 0.95),
                "spread": Range(0, 4),
                "curvature": Range(0, 1),
            },
            slack=_noisy_runs.noisy_slack,
            wrong=_noisy_runs.halved_noisy_slack,
        ),
        CertificateCheck(
            name="worst case of one to five steps over smooth functions",
            cases=lambda: [
                (0.5, 1.0, 0.5, 1),
                (1.0, 1.0, 0.5, 2),
                (0.3, 2.0, 0.5, 3),
                (1.7, 1.0, 0.0, 4),
                (0.5, 1.0, 0.0, 5),
            ],
            problem=_worst_case.masked_run,
            bound=lambda gamma, G, r, T: convergence.noisy_sgd_bound(1.0, gamma, T, G, rate=r, sampling="fixed").value,
            # the gap left at the end forgotten
            wrong=lambda gamma, G, r, T: 1 / ((1 - r) * gamma * T * (1 - gamma * G / 2)),
        ),
        CertificateCheck(
            name="worst case with noise over smooth functions",
            cases=lambda: [(0.5, 1.0, 0.5, 2, 3.0), (0.4, 2.0, 0.0, 3, 5.0)],
            problem=_worst_case.masked_run,
            bound=_noisy_runs.noisy_worst,
            wrong=lambda gamma, G, r, T, energy: _noisy_runs.noisy_worst(gamma, G, r, T, 0.98 * energy),
        ),
    ),
    proved=True,
    figure="bound_recursion",
)


CLAIMS: tuple[Claim, ...] = (_LEM31, _THM32, _LEM34)
