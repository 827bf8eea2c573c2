"""RS: descent lemmas and convergence bounds."""

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np

from dptheory import convergence, quadratic
from dptheory.claims import _poisson
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.rs import _enumeration as enumeration
from dptheory.claims.rs import _held_mask, _runs, _worst_case
from dptheory.claims.rs._enumeration import BOTH, Settings
from dptheory.montecarlo import CertificateCheck, ExactCheck, Kind, Range, SearchCheck

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


def _printed_holds(gradient: Fraction, gamma: Fraction, examples: int, rate: Fraction) -> bool:
    """The printed inequality for one step with Poisson batches and C = G = 1, in fractions."""
    alignment, decrease = _poisson.one_step(gradient, gamma, examples, rate)
    return alignment <= decrease / gamma + gamma / 2


def _poisson_bound(gradient: Fraction, gamma: Fraction, examples: int, rate: Fraction) -> float:
    clipped = min(float(gradient), 1.0)
    moment = convergence.batch_second_moment(
        clipped, clipped**2, round(rate * examples), sampling_rate=float(rate)
    )
    decrease = float(_poisson.one_step(gradient, gamma, examples, rate)[1])
    return convergence.alignment_bound(decrease, float(gamma), 1.0, moment).value


_POISSON_STEPS = [
    (Fraction(10), Fraction(1, 2), 100, Fraction(1, 100)),
    (Fraction(10), Fraction(1, 2), 6, Fraction(1, 3)),
    (Fraction(3, 4), Fraction(3, 2), 8, Fraction(1, 2)),
    (Fraction(10), Fraction(1, 2), 4, Fraction(1)),
]


def _poisson_moment(gradients: tuple[int, ...], rate: Fraction, fixed: bool = False) -> float:
    mean = sum(gradients) / len(gradients)
    square = sum(g * g for g in gradients) / len(gradients)
    size = round(rate * len(gradients))
    if fixed:
        return convergence.batch_second_moment(abs(mean), square, size, sampling="fixed")
    return convergence.batch_second_moment(abs(mean), square, size, sampling_rate=float(rate))


def _poisson_check() -> ExactCheck:
    return ExactCheck(
        name="Poisson batches break the printed constant, in fractions",
        cases=lambda: _POISSON_STEPS,
        truth=_printed_holds,
        # without clipping |update|^2 is (3/4)^2 (1 + 1/8) in the third case; a batch of all examples is one of fixed size
        statement=lambda gradient, gamma, examples, rate: gradient < 1 or rate == 1,
        wrong=lambda *case: True,
        kind=Kind.COUNTEREXAMPLE,
    )


def _step_bound(step: _poisson.Step) -> float:
    """Lemma 3.4 with the largest second moment, one step with mask and noise on a quadratic."""
    clip, batch, sampling = float(step.clip), step.batch_size, step.sampling
    gamma, smoothness, rate = float(step.learning_rate), float(step.smoothness), 1 - step.kept / step.dim
    moment = convergence.batch_second_moment(clip, clip**2, batch, **sampling)  # type: ignore[arg-type]
    noise = convergence.noise_term(smoothness, clip, float(step.noise_multiplier), step.dim, batch)
    return convergence.alignment_bound(step.decrease, gamma, smoothness, moment, noise, rate).value


def _printed_step_bound(step: _poisson.Step) -> float:
    noise = convergence.noise_term(
        float(step.smoothness), float(step.clip), float(step.noise_multiplier), step.dim, step.batch_size
    )
    gamma, smoothness, rate = float(step.learning_rate), float(step.smoothness), 1 - step.kept / step.dim
    return printed_noisy_descent(step.decrease, gamma, smoothness, float(step.clip), noise, rate)


def _run_bound(examples: int, steps: int, moment: float) -> float:
    return convergence.alignment_bound(_poisson.run_alignment(examples, steps)[1] / steps, 2.0, 1.0, moment).value


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
            statement=lambda gradients, rate: _poisson_moment(gradients, rate),
            # that of B independent draws
            wrong=lambda gradients, rate: _poisson_moment(gradients, rate, fixed=True),
            tolerance=1e-12,
        ),
        _poisson_check(),
        ExactCheck(
            name="equality with Poisson batches, in fractions",
            cases=lambda: _POISSON_STEPS,
            truth=lambda *case: _poisson.one_step(*case)[0],
            statement=_poisson_bound,
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
        _poisson_check(),
        ExactCheck(
            name="one step with mask, noise and the largest second moment, at the sizes of the papers",
            cases=lambda: [(step,) for step in _poisson.STEPS],
            truth=lambda step: step.alignment,
            statement=_step_bound,
            wrong=_printed_step_bound,
            tolerance=1e-11,
        ),
        ExactCheck(
            name="runs with Poisson batches, by enumeration of their lattice",
            cases=lambda: [(10, 50), (4, 200), (100, 20)],
            truth=lambda examples, steps: _poisson.run_alignment(examples, steps)[0],
            statement=lambda examples, steps: _run_bound(
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


def _noisy_enumeration(
    curvature: tuple[Fraction, ...], learning_rate: Fraction, variance: Fraction, steps: int, keep: int, held: bool
) -> Fraction:
    """Sum over the entries of E w_{T+1}^2 from w_1 = (1, 2, ..), two-point noise of the given variance, every mask in turn.

    Along one sequence of masks an entry is a fixed number plus independent noises of mean zero, whose squares add up.
    """
    dim = len(curvature)
    masks = [tuple(j in kept for j in range(dim)) for kept in itertools.combinations(range(dim), keep)]
    paths = [(mask,) * steps for mask in masks] if held else list(itertools.product(masks, repeat=steps))
    total = Fraction(0)
    for path in paths:
        for j, slope in enumerate(curvature):
            signal, spread = Fraction(j + 1), Fraction(0)
            for mask in path:
                if mask[j]:
                    signal *= 1 - learning_rate * slope
                    spread = spread * (1 - learning_rate * slope) ** 2 + learning_rate**2 * variance
            total += signal**2 + spread
    return total / len(paths)


def _recursion_cases() -> list[tuple[tuple[Fraction, ...], Fraction, Fraction, int, int, bool]]:
    return [
        (tuple(Fraction(slope) for slope in curvature), Fraction(learning_rate), Fraction(3, 2), steps, keep, held)
        for curvature in ((1, 3), (2, 1, Fraction(1, 4)))
        for learning_rate in (Fraction(1, 3), Fraction(1, 2))
        for steps, keep in ((1, 1), (3, 1), (4, 1), (2, len(curvature) - 1))
        for held in (False, True)
    ]


def _recursion(
    curvature: tuple[Fraction, ...], learning_rate: Fraction, variance: Fraction, steps: int, keep: int, held: bool
) -> float:
    slopes, start = np.array(curvature, dtype=np.float64), np.arange(1.0, len(curvature) + 1)
    rate, gamma, spread = 1 - keep / len(curvature), float(learning_rate), float(variance)
    if held:
        return float(quadratic.epoch_mask_moments(slopes, start, 1, steps, gamma, rate, spread)[-1].sum())
    return float(quadratic.fresh_mask_moments(slopes, start, steps, gamma, rate, spread)[-1].sum())


def _other_recursion(
    curvature: tuple[Fraction, ...], learning_rate: Fraction, variance: Fraction, steps: int, keep: int, held: bool
) -> float:
    """The recursion of the other kind of mask; they agree for one step."""
    return _recursion(curvature, learning_rate, variance, steps, keep, not held)


def _rounds(dim: int, steps: int, learning_rate: float, rate: float, variance: float) -> tuple[float, float, float]:
    """Mean E|grad|^2, L(w_1) and E L(w_{T+1}) on |w|^2 / 2 from w_1 = (1, .., 1); variance is that of one entry."""
    moments = quadratic.fresh_mask_moments(1.0, np.ones(dim), steps, learning_rate, rate, variance).sum(axis=1)
    return float(moments[:-1].mean()), float(moments[0] / 2), float(moments[-1] / 2)


def _noisy_slack(steps: float, rate: float, spread: float, curvature: float, scale: float = 1.0) -> float:
    """Relative slack of the printed bound on a quadratic with curvatures (curvature, 1), gamma = 1/sqrt T."""
    steps = round(steps)
    moments = quadratic.fresh_mask_moments([curvature, 1.0], np.ones(2), steps, steps**-0.5, rate, spread)
    measure = float((moments[:-1] @ [curvature**2, 1.0]).mean())
    bound = convergence.noisy_sgd_bound(
        (curvature + 1) / 2, steps**-0.5, steps, 1.0, 0.0, math.sqrt(spread), 2, 1, rate
    ).value
    return scale * bound / measure - 1


def _halved_noisy_slack(steps: float, rate: float, spread: float, curvature: float) -> float:
    return _noisy_slack(steps, rate, spread, curvature, 0.5)


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
    ),
    correction=r"With a fresh mask the right side can be divided by $2-1/\sqrt T$; in general, for $\gamma<2/G$, "
    r"$[\frac{\Delta_L}{(1-r)\gamma T}+\frac{\gamma G}2(\frac{\sigma_g^2}B+\frac{d\sigma^2}{B^2})]/(1-\frac{\gamma G}2)$, an equality up to "
    r"$E L_{T+1}-\min L$ for $L = G|w|^2/2$. With one mask held for all $T$ steps the bound fails.",
    printed=printed_noisy_sgd,
    calculators=(convergence.noisy_sgd_bound, quadratic.fresh_mask_moments, quadratic.epoch_mask_moments),
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
            cases=_recursion_cases,
            truth=_noisy_enumeration,
            statement=_recursion,
            wrong=_other_recursion,
            tolerance=1e-13,
        ),
        ExactCheck(
            name="equality on a quadratic, with the decrease in place of the gap",
            cases=lambda: [
                (d, T, gamma, r, v)
                for d, T, gamma in ((1, 1, 0.3), (4, 10, 0.5), (3, 400, 0.05))
                for r in (0.0, 0.5, 0.9)
                for v in (0.0, 2.0)
            ],
            truth=lambda dim, steps, gamma, r, v: _rounds(dim, steps, gamma, r, v)[0],
            statement=lambda dim, steps, gamma, r, v: _noisy_with_decrease(dim, steps, gamma, r, v, 1.0),
            wrong=lambda dim, steps, gamma, r, v: _noisy_with_decrease(dim, steps, gamma, r, v, 1 - r),
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
            slack=_noisy_slack,
            wrong=_halved_noisy_slack,
        ),
        CertificateCheck(
            name="worst case of one step over smooth functions",
            cases=lambda: [(0.5, 1.0, 0.5), (0.3, 2.0, 0.5), (1.5, 1.0, 0.5), (1.0, 1.0, 0.0)],
            problem=_worst_case.masked_step,
            bound=lambda gamma, G, r: convergence.noisy_sgd_bound(1.0, gamma, 1, G, rate=r).value,
            wrong=lambda gamma, G, r: 2 / ((1 - r) * gamma),  # equation 30 gives 1 - gamma G / 2 away as 1/2
        ),
        CertificateCheck(
            name="worst case of two to four steps",
            cases=lambda: [(1.0, 1.0, 0.5, 2), (1.0, 1.0, 0.5, 3), (0.5, 1.0, 0.0, 4)],
            problem=_worst_case.masked_run,
            bound=lambda gamma, G, r, T: convergence.noisy_sgd_bound(1.0, gamma, T, G, rate=r).value,
            wrong=lambda gamma, G, r, T: convergence.noisy_sgd_bound(1.0, gamma, T, G).value,  # the mask forgotten
            looseness=0.34,
        ),
    ),
    proved=True,
    figure="bound_recursion",
)


def _noisy_with_decrease(
    dim: int, steps: int, learning_rate: float, rate: float, variance: float, factor: float
) -> float:
    """Bound with L_1 - E L_{T+1} in place of the gap, its sign as it is; ``factor`` scales the share kept."""
    _, first, last = _rounds(dim, steps, learning_rate, rate, variance)
    unit = convergence.noisy_sgd_bound(1.0, learning_rate, steps, 1.0, 0.0, math.sqrt(variance), dim, 1, rate)
    return (first - last) * unit.optimization / factor + unit.clipping + unit.noise


CLAIMS: tuple[Claim, ...] = (_LEM31, _THM32, _LEM34)
