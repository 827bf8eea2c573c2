"""RS: convergence of clipped SGD and of DP-SGD, with and without a mask."""

import dataclasses
from fractions import Fraction

from dptheory import convergence
from dptheory.checks import ExactCheck, Kind, Range, SearchCheck
from dptheory.claims import _poisson
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.rs import _enumeration as enumeration
from dptheory.claims.rs import _held_mask, _runs
from dptheory.claims.rs._enumeration import BOTH, Settings, two_point

# --- checks shared by the theorems ------------------------------------------------------------------------------------


def gap_free(s: Settings) -> float:
    """kappa * bound + bias with the run's decrease in place of the gap, which equals E<grad, update> on a quadratic."""
    found = enumeration.run(s)
    factor = 1.0 if s.masks == BOTH else 0.8
    return factor * _runs.with_decrease(s, found, factor, found.bias) + found.bias


def dense_noise(s: Settings) -> float:
    """The same for a wrong statement: noise of the whole vector, and one example's second moment."""
    found = enumeration.run(s)
    plain = convergence.alignment_bound(
        found.decrease / s.steps, s.learning_rate, s.smoothness, s.clip**2, _runs.noise(s), 0.0
    )
    return plain.value


def terms_check(cases: tuple[Settings, ...]) -> ExactCheck:
    """Every term of the bound, by equality with an enumerated run on a quadratic."""
    return ExactCheck(
        name="terms of the bound, by enumeration",
        cases=lambda: [(s,) for s in cases],
        truth=lambda s: enumeration.run(s).alignment,
        statement=gap_free,
        wrong=dense_noise,
        tolerance=1e-12,
    )


def equality_check(cases: tuple[Settings, ...]) -> ExactCheck:
    """Without clipping, the left side is the bound with the decrease in place of the gap and kappa = 1 - r."""

    def bound(s: Settings, kappa: float | None) -> float:
        found = enumeration.run(s)
        return _runs.with_decrease(s, found, kappa, 0.0)

    return ExactCheck(
        name="equality where nothing is clipped",
        cases=lambda: [(s,) for s in cases],
        truth=lambda s: enumeration.run(s).measure,
        statement=lambda s: bound(s, None),
        wrong=lambda s: bound(s, 1.0) if s.masks != BOTH else 0.5 * bound(s, None),
        tolerance=1e-12,
    )


def held_mask_check() -> ExactCheck:
    """Boolean: does the bound with the smallest kappa hold? Only for a fresh mask."""
    return ExactCheck(
        name="a held mask breaks the bound",
        cases=lambda: [(T, Fraction(1, n), held) for T, n in ((450, 90), (648, 108)) for held in (False, True)],
        truth=lambda steps, learning_rate, held: (
            _held_mask.mean_square_gradient(steps, learning_rate, held)
            <= _held_mask.clipped_right_side(steps, learning_rate)
        ),
        statement=lambda steps, learning_rate, held: not held,
        wrong=lambda steps, learning_rate, held: True,
        kind=Kind.COUNTEREXAMPLE,
    )


def closed_range_check(z: float) -> ExactCheck:
    """Boolean: is kappa above 1 - r? Not where |grad| <= (1 - z) C, nor for a one-hot gradient."""
    still = two_point(0.0, 0.0)
    return ExactCheck(
        name="kappa = 1 - r is attained",
        cases=lambda: [
            (Settings((0.25, 0.0), still, steps=1, z=z), False),
            (Settings((0.125, 0.125), still, steps=1, z=z), False),
            (Settings((8.0, 0.0), still, steps=1, z=z), False),
            (Settings((8.0, 8.0), still, steps=1, z=z), True),
        ],
        truth=lambda s, spread_out: (_runs.kappa(enumeration.run(s)) or 0.0) > 0.5 * (1 + 1e-12),
        statement=lambda s, spread_out: spread_out,
        wrong=lambda s, spread_out: True,
        kind=Kind.COUNTEREXAMPLE,
    )


def _step_value(step: _poisson.Step, steps: int, kappa: float | None, bias: float, moment: float | None) -> float:
    """The bound with the decrease of ``steps`` such first steps in place of the gap."""
    unit = convergence.dpsgd_bound(
        1.0,
        float(step.learning_rate),
        steps,
        float(step.smoothness),
        float(step.clip),
        float(step.noise_multiplier),
        step.dim,
        step.batch_size,
        1 - step.kept / step.dim,
        kappa,
        bias,
        moment,
        **step.sampling,  # type: ignore[arg-type]
    )
    return steps * step.decrease * unit.optimization + unit.clipping + unit.noise + unit.bias


def _largest_kappa(step: _poisson.Step) -> float:
    return 1.0 if step.kept == step.dim else 1.1 * step.kept / step.dim


def largest_moment_check() -> ExactCheck:
    """Every term with the default second moment, by equality with a step on a quadratic whose gradients are all clipped."""
    return ExactCheck(
        name="largest second moment, mask and noise at the sizes of the papers",
        cases=lambda: [
            (step, steps, kappa, bias)
            for step in _poisson.STEPS
            for steps, kappa, bias in ((1, None, 0.0), (10_000, _largest_kappa(step), -0.125))
        ],
        truth=lambda step, steps, kappa, bias: (
            (step.alignment - bias) / (step.kept / step.dim if kappa is None else kappa)
        ),
        statement=lambda step, steps, kappa, bias: _step_value(step, steps, kappa, bias, None),
        # C^2, which the theorem prints
        wrong=lambda step, steps, kappa, bias: _step_value(step, steps, kappa, bias, float(step.clip) ** 2),
        tolerance=1e-11,
    )


def poisson_check() -> ExactCheck:
    """Boolean: does the bound with C^2 hold? For batches of fixed size, not for Poisson batches."""
    return ExactCheck(
        name="two steps with Poisson batches break the bound, in fractions",
        cases=lambda: [(examples, poisson) for examples in (100, 400) for poisson in (False, True)],
        truth=_poisson.two_steps_hold,
        statement=lambda examples, poisson: not poisson,
        wrong=lambda examples, poisson: True,
        kind=Kind.COUNTEREXAMPLE,
    )


SAMPLING = "the batch has B examples; for Poisson batches divided by their expected size B = qN it fails unless C^2 is C^2 (1 + (1 - q)/B)"

FRESH = (
    "a fresh mask at every step, independent of the iterate: with one mask held for many steps the bound fails",
    "no momentum",
    "the left side in expectation over the iterates",
    "the auxiliary law is symmetric given the iterate",
    "kappa is the mean of kappa_t weighted by the terms of the left side",
    "L is G-smooth and bounded below",
    SAMPLING,
)

# --- rs.thm3.3 --------------------------------------------------------------------------------------------------------


def _plain_slack(**point: float) -> float:
    return _runs.theorem_slack(dataclasses.replace(_runs.at(**point), steps=1, masks=BOTH))


def _plain_unclipped_slack(**point: float) -> float:
    return _runs.unclipped_slack(dataclasses.replace(_runs.at(**point), steps=1, masks=BOTH))


_THM33 = Claim(
    id="rs.thm3.3",
    title="clipped SGD",
    source=Source("rs", "Theorem 3.3", (8,)),
    statement=r"$\frac1T\sum_tP_{\tilde p_t}(|\xi_t|<\frac{3C}4)h(\nabla w_t)|\nabla w_t|\le\frac{\Delta_L}{\gamma T}+\gamma\frac{GC^2}2"
    r"-\frac1T\sum_tb_t$, $h(v) = \min(|v|,\frac C4)$.",
    verdict=Verdict.HOLDS,
    conditions=(
        "in expectation over the iterates",
        "no momentum",
        "the auxiliary law is symmetric given the iterate",
        "L is G-smooth and bounded below",
        SAMPLING,
    ),
    calculators=(convergence.dpsgd_bound, convergence.alignment_bound),
    checks=(
        terms_check(_runs.PLAIN),
        poisson_check(),
        equality_check(_runs.UNCLIPPED[2:]),
        SearchCheck(
            name="inequality, any two-point deviation",
            box=_runs.QUIET_BOX,
            slack=_plain_slack,
            wrong=_plain_unclipped_slack,
        ),
    ),
    proved=True,
)

# --- rs.thm3.4, rs.thm3.5 ---------------------------------------------------------------------------------------------


def _one_step_slack(**point: float) -> float:
    return _runs.theorem_slack(dataclasses.replace(_runs.at(**point), steps=1))


def _one_step_maskless_slack(**point: float) -> float:
    return _runs.maskless_slack(dataclasses.replace(_runs.at(**point), steps=1))


def _masked_slack(**point: float) -> float:
    return _runs.theorem_slack(_runs.at(**point))


def _maskless_slack(**point: float) -> float:
    return _runs.maskless_slack(_runs.at(**point))


_THM34 = Claim(
    id="rs.thm3.4",
    title="clipped SGD with random sparsification",
    source=Source("rs", "Theorem 3.4", (12,)),
    statement=r"For some $\kappa\in(1-r,1)$ the left side of Theorem 3.3 is at most $\frac1\kappa(\frac{\Delta_L}{\gamma T}+\gamma\frac{GC^2}2"
    r"-\frac1T\sum_tE_m[b_t'])$, if $P_{\tilde p_t}(|\xi_t|<\frac{3C}4)\ge\sqrt{1-r}$.",
    verdict=Verdict.CONDITIONAL,
    conditions=FRESH,
    correction=r"Holds with a fresh mask and $\kappa = \sum_tE[\kappa_tQ_t]/\sum_tE[Q_t]\in[1-r,1]$, $Q_t$ the terms of the left side; "
    r"$\kappa = 1-r$ is attained, and always allowed in the bound. With one mask held for all steps it fails.",
    calculators=(convergence.dpsgd_bound,),
    checks=(
        held_mask_check(),
        poisson_check(),
        closed_range_check(0.75),
        terms_check(
            tuple(Settings(s.start, s.deviations, s.smoothness, s.clip, s.learning_rate) for s in _runs.NOISY[:2])
        ),
        equality_check((Settings((0.5, 0.4), two_point(0.1, 0.2), clip=9.0, batch_size=2),)),
        SearchCheck(
            name="inequality, any two-point deviation",
            box=_runs.QUIET_BOX,
            slack=_one_step_slack,
            wrong=_one_step_maskless_slack,
        ),
    ),
    proved=True,
)

_THM35 = Claim(
    id="rs.thm3.5",
    title="DP-SGD with random sparsification",
    source=Source("rs", "Theorem 3.5", (14, 15, 85, 86, 87, 88, 89)),
    statement=r"For some $\kappa\in(1-r,1)$ the left side of Theorem 3.3 is at most $\frac1\kappa(\frac{\Delta_L}{\gamma T}+\gamma\frac{GC^2}2"
    r"-\frac1T\sum_tE_m[b_t'])+\frac{1-r}\kappa\gamma\Delta_\sigma$, if $P_{\tilde p_t}(|\xi_t|<\frac{3C}4)\ge\sqrt{1-r}$.",
    verdict=Verdict.CONDITIONAL,
    conditions=(*FRESH, "fresh noise, independent of iterate, batch and mask"),
    correction=r"Holds with a fresh mask and $\kappa = \sum_tE[\kappa_tQ_t]/\sum_tE[Q_t]\in[1-r,1]$, $Q_t$ the terms of the left side; "
    r"$\kappa = 1-r$ is attained, and always allowed in the bound; $C^2$ can be the $M$ of Lemma 3.4. With one mask held for all steps it fails.",
    calculators=(convergence.dpsgd_bound, convergence.noise_term),
    checks=(
        held_mask_check(),
        poisson_check(),
        closed_range_check(0.75),
        terms_check(_runs.NOISY[:3]),
        largest_moment_check(),
        equality_check(_runs.UNCLIPPED[:2]),
        SearchCheck(
            name="inequality, any two-point deviation",
            box={**_runs.QUIET_BOX, "noise_std": Range(0, 0.3)},
            slack=_masked_slack,
            wrong=_maskless_slack,
        ),
    ),
    proved=True,
)

CLAIMS: tuple[Claim, ...] = (_THM33, _THM34, _THM35)
