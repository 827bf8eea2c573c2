import dataclasses
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

from dptheory import convergence
from dptheory.checks import EqualityCheck
from dptheory.claims import _poisson
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _runs
from dptheory.claims.rs import _runs as enumeration
from dptheory.claims.rs._runs import BOTH, Settings, two_point

# --- Checks that the theorems on clipped SGD share: a function for each, that gives the check for a theorem's own settings.


def gap_free(s: Settings) -> float:
    """kappa * bound + bias with the run's decrease in place of the gap, which equals E<grad, update> on a quadratic."""
    found = enumeration.run(s)
    factor = 1.0 if s.masks == BOTH else 0.8
    return factor * _runs.with_decrease(s, found, factor, found.bias) + found.bias


def dense_noise(s: Settings) -> float:
    """The same for a wrong statement: noise of the whole vector, and one example's second moment."""
    found = enumeration.run(s)
    plain = convergence.alignment_bound(
        decrease=found.decrease / s.steps,
        learning_rate=s.learning_rate,
        smoothness=s.smoothness,
        second_moment=s.clip**2,
        noise_term=_runs.noise(s),
        drop_rate=0.0,
    )
    return plain.value


def terms_check(cases: tuple[Settings, ...]) -> EqualityCheck:
    """Every term of the bound, by equality with an enumerated run on a quadratic."""

    def compare(s: Settings) -> Sides:
        return gap_free(s), lambda: enumeration.run(s).alignment, lambda: dense_noise(s)

    return EqualityCheck("terms of the bound, by enumeration", lambda: [(s,) for s in cases], compare, tolerance=1e-12)


def equality_check(cases: tuple[Settings, ...]) -> EqualityCheck:
    """Without clipping, the left side is the bound with the decrease in place of the gap and kappa = 1 - r."""

    def bound(s: Settings, kappa: float | None) -> float:
        found = enumeration.run(s)
        return _runs.with_decrease(s, found, kappa, 0.0)

    def compare(s: Settings) -> Sides:
        def wrong() -> float:
            return bound(s, 1.0) if s.masks != BOTH else 0.5 * bound(s, None)

        return bound(s, None), lambda: enumeration.run(s).measure, wrong

    return EqualityCheck("equality where nothing is clipped", lambda: [(s,) for s in cases], compare, tolerance=1e-12)


def held_mask_check() -> EqualityCheck:
    """Boolean: does the bound with the smallest kappa hold? Only for a fresh mask."""

    def compare(steps: int, learning_rate: Fraction, held: bool) -> Sides:
        def holds() -> bool:
            right = clipped_right_side(steps, learning_rate)
            return mean_square_gradient(steps, learning_rate, held) <= right

        return not held, holds, True

    return EqualityCheck(
        "a held mask breaks the bound",
        lambda: [(T, Fraction(1, n), held) for T, n in ((450, 90), (648, 108)) for held in (False, True)],
        compare,
        kind=Kind.COUNTEREXAMPLE,
    )


def closed_range_check(z: float) -> EqualityCheck:
    """Boolean: is kappa above 1 - r? Not where |grad| <= (1 - z) C, nor for a one-hot gradient."""
    still = two_point(0.0, 0.0)

    def compare(s: Settings, spread_out: bool) -> Sides:
        return spread_out, lambda: (_runs.kappa(enumeration.run(s)) or 0.0) > 0.5 * (1 + 1e-12), True

    return EqualityCheck(
        "kappa = 1 - r is attained",
        lambda: [
            (Settings((0.25, 0.0), still, steps=1, z=z), False),
            (Settings((0.125, 0.125), still, steps=1, z=z), False),
            (Settings((8.0, 0.0), still, steps=1, z=z), False),
            (Settings((8.0, 8.0), still, steps=1, z=z), True),
        ],
        compare,
        kind=Kind.COUNTEREXAMPLE,
    )


def _step_value(step: _poisson.Step, steps: int, kappa: float | None, bias: float, moment: float | None) -> float:
    """The bound with the decrease of ``steps`` such first steps in place of the gap."""
    unit = convergence.dpsgd_bound(
        objective_gap=1.0,
        learning_rate=float(step.learning_rate),
        steps=steps,
        smoothness=float(step.smoothness),
        clip_norm=float(step.clip),
        noise_multiplier=float(step.noise_multiplier),
        dim=step.dim,
        batch_size=step.batch_size,
        drop_rate=1 - step.kept / step.dim,
        kappa=kappa,
        bias=bias,
        second_moment=moment,
        **step.sampling,  # type: ignore[arg-type]
    )
    return steps * step.decrease * unit.optimization + unit.clipping + unit.noise + unit.bias


def _largest_kappa(step: _poisson.Step) -> float:
    return 1.0 if step.kept == step.dim else 1.1 * step.kept / step.dim


def largest_moment_check() -> EqualityCheck:
    """Every term with the default second moment, by equality with a step on a quadratic whose gradients are all clipped."""

    def compare(step: _poisson.Step, steps: int, kappa: float | None, bias: float) -> Sides:
        truth = (step.alignment - bias) / (step.kept / step.dim if kappa is None else kappa)
        # the theorem prints C^2
        return (
            _step_value(step, steps, kappa, bias, None),
            truth,
            lambda: _step_value(step, steps, kappa, bias, float(step.clip) ** 2),
        )

    return EqualityCheck(
        "largest second moment, mask and noise at the sizes of the papers",
        lambda: [
            (step, steps, kappa, bias)
            for step in _poisson.STEPS
            for steps, kappa, bias in ((1, None, 0.0), (10_000, _largest_kappa(step), -0.125))
        ],
        compare,
        tolerance=1e-11,
    )


def poisson_check() -> EqualityCheck:
    """Boolean: does the bound with C^2 hold? For batches of fixed size, not for Poisson batches."""

    def compare(examples: int, poisson: bool) -> Sides:
        return not poisson, lambda: _poisson.two_steps_hold(examples, poisson), True

    return EqualityCheck(
        "two steps with Poisson batches break the bound, in fractions",
        lambda: [(examples, poisson) for examples in (100, 400) for poisson in (False, True)],
        compare,
        kind=Kind.COUNTEREXAMPLE,
    )


# The counterexample to a mask held over many steps, in rational arithmetic: L = |w|^2 / 2, w_1 = (1, 1), no deviation, no noise.


RATE = Fraction(1, 2)
CLIP = 6  # so large that no gradient is clipped, and that |grad| is the smaller of |grad| and C/4


def mean_square_gradient(steps: int, learning_rate: Fraction, held: bool) -> Fraction:
    """(1/T) sum_t E|w_t|^2 of masked gradient descent with one of two entries kept, mask held or drawn at every step."""
    shrink = (1 - learning_rate) ** 2
    moving, square, total = Fraction(1), Fraction(2), Fraction(0)
    for _ in range(steps):
        total += square
        moving *= shrink
        # held: one entry moves, the other stays at 1; fresh: each entry's second moment moves with probability 1/2
        square = 1 + moving if held else (square + square * shrink) / 2
    return total / steps


def noisy_right_side(steps: int) -> Fraction:
    """2 G Delta / ((1 - r) sqrt T) of Theorem 3.2 for G = Delta = 1; ``steps`` is a square."""
    return 2 / (1 - RATE) / math.isqrt(steps)


def clipped_right_side(steps: int, learning_rate: Fraction) -> Fraction:
    """(Delta / (gamma T) + gamma G C^2 / 2) / kappa with the smallest kappa, 1 - r: the largest right side."""
    return (1 / (learning_rate * steps) + learning_rate * CLIP**2 / 2) / (1 - RATE)


thm3_3 = new_row(
    id="rs.thm3.3",
    source=Source("rs", "Theorem 3.3", (8,)),
    verdict=Verdict.HOLDS,
    calculators=(convergence.dpsgd_bound, convergence.alignment_bound),
)


thm3_3.add(terms_check(_runs.PLAIN))


thm3_3.add(poisson_check())


thm3_3.add(equality_check(_runs.UNCLIPPED[2:]))


@thm3_3.inequality(
    _runs.QUIET_BOX,
    wrong=lambda **point: _runs.unclipped_slack(dataclasses.replace(_runs.at(**point), steps=1, masks=BOTH)),
)
def _plain_slack(**point: float) -> float:
    """inequality, any two-point deviation"""
    return _runs.theorem_slack(dataclasses.replace(_runs.at(**point), steps=1, masks=BOTH))


thm3_4 = new_row(
    id="rs.thm3.4",
    source=Source("rs", "Theorem 3.4", (12,)),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("printed_is_false", "correction_holds"),
    calculators=(convergence.dpsgd_bound,),
)


thm3_4.add(held_mask_check())


thm3_4.add(poisson_check())


thm3_4.add(closed_range_check(0.75))


thm3_4.add(
    terms_check(tuple(Settings(s.start, s.deviations, s.smoothness, s.clip, s.learning_rate) for s in _runs.NOISY[:2]))
)


thm3_4.add(equality_check((Settings((0.5, 0.4), two_point(0.1, 0.2), clip=9.0, batch_size=2),)))


@thm3_4.inequality(
    _runs.QUIET_BOX, wrong=lambda **point: _runs.maskless_slack(dataclasses.replace(_runs.at(**point), steps=1))
)
def _one_step_slack(**point: float) -> float:
    """inequality, any two-point deviation"""
    return _runs.theorem_slack(dataclasses.replace(_runs.at(**point), steps=1))


def _room(share: float, **point: float) -> float:
    """T times the bracket of the theorem less kappa S, over ``share`` gamma G C^2 / 2, less 1."""
    s = dataclasses.replace(_runs.at(**point), steps=1)
    found = _runs.run(s)
    unit = s.learning_rate * s.smoothness * s.clip**2 / 2
    room = found.gap / s.learning_rate + s.steps * (unit - found.bias - found.masked_measure)
    return room / (share * unit) - 1


@thm3_4.inequality(
    _runs.QUIET_BOX,
    # wrong: four times as much
    wrong=lambda **point: _room(4 * 0.5, **point),
)
def _open_range_slack(**point: float) -> float:
    """the open range, step 5: the sum is r gamma G C^2 / 2 below the bracket"""
    return _room(0.5, **point)


thm3_5 = new_row(
    id="rs.thm3.5",
    source=Source("rs", "Theorem 3.5", (14, 15, 85, 86, 87, 88, 89)),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("printed_is_false", "correction_holds"),
    calculators=(convergence.dpsgd_bound, convergence.noise_term),
)


thm3_5.add(held_mask_check())


thm3_5.add(poisson_check())


thm3_5.add(closed_range_check(0.75))


thm3_5.add(terms_check(_runs.NOISY[:3]))


thm3_5.add(largest_moment_check())


thm3_5.add(equality_check(_runs.UNCLIPPED[:2]))


@thm3_5.inequality(
    {**_runs.QUIET_BOX, "noise_std": Range(0, 0.3)}, wrong=lambda **point: _runs.maskless_slack(_runs.at(**point))
)
def _masked_slack(**point: float) -> float:
    """inequality, any two-point deviation"""
    return _runs.theorem_slack(_runs.at(**point))


as_tight = new_row(
    id="rs.as_tight",
    source=Source("rs", "section 3.3, text after equation 15", (15,)),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
    calculators=(convergence.dpsgd_bound,),
)


def _second_moment(square: Fraction, dim: int, keep: int, clip_square: Fraction) -> Fraction:
    """Mean over the masks of the squared norm of a clipped masked gradient whose ``dim`` entries have this square."""
    masks = [m for m in itertools.product((0, 1), repeat=dim) if sum(m) == keep]
    return sum((min(sum(m) * square, clip_square) for m in masks), Fraction(0)) / len(masks)


def _sizes() -> Iterator[tuple[int, int]]:
    yield from ((dim, keep) for dim in (2, 4, 8) for keep in range(1, dim))


@as_tight.equal(_sizes, kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int) -> Sides:
    """second moment with a mask where it is C^2 = 9 without one"""
    square, clip_square = Fraction(9, dim), Fraction(9)
    # wrong: C^2 with the mask, too
    return Fraction(9 * keep, dim), lambda: _second_moment(square, dim, keep, clip_square), clip_square


@as_tight.equal(_sizes)
def _(dim: int, keep: int) -> Sides:
    """second moment with a mask for entries of the square C^2 / ((1 - r) d), C^2 = 9"""
    return Fraction(9), lambda: _second_moment(Fraction(9, keep), dim, keep, Fraction(9)), Fraction(9 * keep, dim)
