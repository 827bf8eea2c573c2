import dataclasses
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dptheory import convergence, sparsification
from dptheory._arrays import Array
from dptheory.checks import EqualityCheck
from dptheory.claims import _draws
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _runs, _worst_case
from dptheory.claims.rs import _runs as enumeration
from dptheory.claims.rs._runs import BOTH, Settings, spelled, two_point

# --- Checks that the theorems on clipped SGD share: a function for each, that gives the check for a theorem's own settings.


def gap_free(s: Settings) -> float:
    """kappa * bound + bias with the run's decrease in place of the gap, which equals E<grad, update> on a quadratic."""
    found = enumeration.run(s)
    factor = 1.0 if s.masks == BOTH else 0.8
    return factor * _runs.with_decrease(s, found, factor, found.bias) + found.bias


def dense_noise(s: Settings) -> float:
    """The same for a wrong statement: noise of the whole vector, and one example's second moment."""
    found = enumeration.run(s)
    plain = spelled(decrease=found.decrease / s.steps, gamma=s.learning_rate, G=s.smoothness, M=s.clip**2)
    return convergence.alignment_bound(**plain, noise_term=_runs.noise(s)).value


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


def _step_value(step: _draws.Step, steps: int, kappa: float | None, bias: float, moment: float | None) -> float:
    """The bound with the decrease of ``steps`` such first steps in place of the gap."""
    run = _runs.noise_of(step) | step.sampling
    run |= spelled(gap=1.0, gamma=float(step.learning_rate), T=steps, r=1 - step.kept / step.dim)
    unit = convergence.dpsgd_bound(**run, kappa=kappa, bias=bias, second_moment=moment)
    return steps * step.decrease * unit.optimization + unit.clipping + unit.noise + unit.bias


def largest_moment_check() -> EqualityCheck:
    """Every term with the default second moment, by equality with a step on a quadratic whose gradients are all clipped."""

    def compare(step: _draws.Step, steps: int, kappa: float | None, bias: float) -> Sides:
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
            for step in _draws.STEPS
            for steps, kappa, bias in ((1, None, 0.0), (10_000, min(1.0, 1.1 * step.kept / step.dim), -0.125))
        ],
        compare,
        tolerance=1e-11,
    )


def poisson_check() -> EqualityCheck:
    """Boolean: does the bound with C^2 hold? For batches of fixed size, not for Poisson batches."""

    def compare(examples: int, poisson: bool) -> Sides:
        return not poisson, lambda: _draws.two_steps_hold(examples, poisson), True

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


thm3_3.add(terms_check(_runs.PLAIN), poisson_check(), equality_check(_runs.UNCLIPPED[2:]))


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


thm3_4.add(
    held_mask_check(),
    poisson_check(),
    closed_range_check(0.75),
    terms_check(tuple(Settings(s.start, s.deviations, s.smoothness, s.clip, s.learning_rate) for s in _runs.NOISY[:2])),
    equality_check((Settings((0.5, 0.4), two_point(0.1, 0.2), clip=9.0, batch_size=2),)),
)


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


thm3_5.add(
    held_mask_check(),
    poisson_check(),
    closed_range_check(0.75),
    terms_check(_runs.NOISY[:3]),
    largest_moment_check(),
    equality_check(_runs.UNCLIPPED[:2]),
)


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
    masks = _draws.all_masks(dim, keep)
    return sum((min(sum(m) * square, clip_square) for m in masks), Fraction(0)) / len(masks)


_SIZES = tuple((dim, keep) for dim in (2, 4, 8) for keep in range(1, dim))


@as_tight.equal(*_SIZES, kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int) -> Sides:
    """second moment with a mask where it is C^2 = 9 without one"""
    square, clip_square = Fraction(9, dim), Fraction(9)
    # wrong: C^2 with the mask, too
    return Fraction(9 * keep, dim), lambda: _second_moment(square, dim, keep, clip_square), clip_square


@as_tight.equal(*_SIZES)
def _(dim: int, keep: int) -> Sides:
    """second moment with a mask for entries of the square C^2 / ((1 - r) d), C^2 = 9"""
    return Fraction(9), lambda: _second_moment(Fraction(9, keep), dim, keep, Fraction(9)), Fraction(9 * keep, dim)


# Runs of clipped and masked SGD that attain their worst case: on a lattice, in fractions, and step by step.


State = tuple[int, ...]


@dataclass(frozen=True)
class LatticeRun:
    """SGD with B = 1 on |w|^2 / 2 (G = 1); every entry of an example's gradient is +-1, with mean w_j.

    gamma = 1 / ``inverse_rate`` keeps every w_j a multiple of gamma, as ``start`` has it, within [-1, 1]. A mask keeps ``kept`` of the
    entries, so that every masked gradient has norm C = sqrt(kept) and none is clipped.
    """

    start: State
    inverse_rate: int
    kept: int
    steps: int
    z: Fraction

    def __str__(self) -> str:
        return f"w_1 = {self.start} / {self.inverse_rate}, {self.kept} kept, T = {self.steps}, z = {self.z}"

    def bound(self, bias: float | None = None) -> float:
        """The bound by the calculator; ``bias`` 0 asks for the sum of the one-step inequalities."""
        gap = float(Fraction(sum(k * k for k in self.start), 2 * self.inverse_rate**2))
        run = spelled(gap=gap, gamma=1 / self.inverse_rate, T=self.steps, G=1.0, C=math.sqrt(self.kept), bias=bias)
        return convergence.dpsgd_bound(**run, drop_rate=1 - self.kept / len(self.start), sampling="fixed").value

    def measure(self) -> Fraction:
        """Mean over the steps of E[min(|grad|, (1 - z) C) |grad|], all deviations 0 under the symmetric law, by enumeration."""
        dim = len(self.start)
        masks = list(itertools.combinations(range(dim), self.kept))
        law = {self.start: Fraction(1)}
        total = Fraction(0)
        for step in range(self.steps):
            for state, chance in law.items():
                square = Fraction(sum(k * k for k in state), self.inverse_rate**2)
                if square > (1 - self.z) ** 2 * self.kept:
                    raise ValueError(f"{self}: a gradient exceeds (1 - z) C at step {step + 1}")
                total += chance * square
            if step < self.steps - 1:
                law = self._moved(law, masks)
        return total / self.steps

    def _moved(self, law: dict[State, Fraction], masks: list[tuple[int, ...]]) -> dict[State, Fraction]:
        after: dict[State, Fraction] = {}
        for (state, chance), mask in itertools.product(law.items(), masks):
            for signs in itertools.product((1, -1), repeat=self.kept):
                weight = chance / len(masks)
                moved = list(state)
                for j, sign in zip(mask, signs, strict=True):
                    weight *= Fraction(self.inverse_rate + sign * state[j], 2 * self.inverse_rate)
                    moved[j] -= sign
                if weight:
                    after[tuple(moved)] = after.get(tuple(moved), Fraction(0)) + weight
        return after


LATTICE = tuple(
    LatticeRun(start, inverse, kept, steps, z)
    for z in (Fraction(3, 4), Fraction(1, 4))
    for start, inverse, kept, steps in (
        ((5,), 40, 1, 1),
        ((4,), 40, 1, 6),
        ((0,), 60, 1, 10),
        ((3, -2), 40, 1, 5),
        ((2, 3, 1), 40, 2, 3),
    )
)


@dataclass(frozen=True)
class Recursion:
    """S_t = S_{t-1} + R_t, R_t = 2 G x D_t, D_{t+1} = D_t - gamma R_t + v_t: what the worst case does, step by step.

    Batches without a ``sampling_rate`` have a fixed size; ``kappa`` is x where it is None. ``moment`` is the mean of E|update|^2, which
    may all come at the first step, or None for the largest at every step.
    """

    gap: float
    learning_rate: float
    smoothness: float
    kept: float
    steps: int
    clip: float
    noise_multiplier: float
    dim: int
    batch_size: int
    sampling_rate: float | None
    kappa: float | None = None
    moment: float | None = None

    def __str__(self) -> str:
        return f"T = {self.steps}, d = {self.dim}, B = {self.batch_size}, x = {self.kept}, kappa = {self.kappa}"

    @property
    def _largest(self) -> float:
        excess = 0.0 if self.sampling_rate is None else (1 - self.sampling_rate) / self.batch_size
        return self.clip**2 * (1 + excess)

    def bound(self, bias: float | None = None) -> convergence.DescentBound:
        """The bound by the calculator; ``bias`` 0 asks for the sum of the one-step inequalities."""
        run = spelled(gap=self.gap, gamma=self.learning_rate, T=self.steps, G=self.smoothness, C=self.clip)
        run |= spelled(sigma=self.noise_multiplier, d=self.dim, B=self.batch_size, q=self.sampling_rate)
        run |= spelled(r=1 - self.kept, kappa=self.kappa, bias=bias, M=self.moment)
        return convergence.dpsgd_bound(**run, sampling="fixed" if self.sampling_rate is None else "poisson")

    def walked(self, *, gap: bool = True, clipping: bool = True, noise: bool = True) -> float:
        """The mean of R_t over the steps, over kappa; one part of it at a time if asked. The less of the ways that moments can come."""
        ways = [[self._largest] * self.steps]
        if self.moment is not None:
            ways.append([self.steps * self.moment] + [0.0] * (self.steps - 1))
        return min(self._walk(moments if clipping else [0.0] * self.steps, gap, noise) for moments in ways)

    def _walk(self, moments: list[float], gap: bool, noise: bool) -> float:
        energy = self.dim * (self.clip * self.noise_multiplier / self.batch_size) ** 2
        left, total = self.gap if gap else 0.0, 0.0
        for moment in moments:
            descent = 2 * self.smoothness * self.kept * left
            total += descent
            left -= self.learning_rate * descent
            added = moment + (self.kept * energy if noise else 0.0)
            left += self.learning_rate**2 * self.smoothness / 2 * added
        return total / self.steps / (self.kept if self.kappa is None else self.kappa)


RUNS = (
    Recursion(1.0, 0.1, 1.0, 1.0, 1, 1.0, 0.0, 1, 1, None),
    Recursion(1.0, 0.1, 2.0, 0.5, 7, 1.0, 1.5, 10, 4, None, 0.7),
    Recursion(2.0, 0.05, 1.0, 0.25, 30, 0.5, 2.0, 100, 16, 0.01),
    Recursion(2.0, 0.05, 1.0, 0.5, 30, 0.5, 0.0, 100, 16, 0.01, None, 0.1),
    Recursion(0.3, 0.02, 3.0, 1.0, 1, 0.5, 1.0, 10, 4, 0.5, None, 0.2),
    Recursion(2.3, 1e-3, 1.0, 0.3, 2000, 0.1, 1.5, 550_000, 1000, 0.02, 0.4),
    Recursion(2.3, 2e-4, 2.0, 1.0, 3000, 1.0, 4.0, 1_000_000, 512, 0.01),
    Recursion(2.3, 1e-3, 1.0, 0.1, 3000, 0.1, 1.0, 2_700_000, 1024, None, 0.2, 0.004),
    Recursion(2.3, 1e-3, 1.0, 0.3, 2000, 0.1, 0.0, 550_000, 1000, None, 0.4, 0.0099),
)


clipped_steps = new_row(
    id="rs.clipped_steps",
    source=Source("rs", "new, on Theorem 3.5"),
    verdict=Verdict.HOLDS,
    calculators=(convergence.dpsgd_bound,),
)


@clipped_steps.equal(lambda: [(run,) for run in LATTICE], tolerance=1e-12)
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


@clipped_steps.equal(lambda: itertools.product(RUNS, range(4)), tolerance=1e-9)
def _(run: Recursion, part: int) -> Sides:
    """every term, step by step at the sizes of the papers"""
    stated, summed = (getattr(run.bound(bias), _TERMS[part]) for bias in (None, 0.0))
    return stated, lambda: run.walked(**_PARTS[part]), summed or 1.0


@clipped_steps.equal(*itertools.product((0.01, 0.1, 1.0, 30.0), (0.6, 1.9), (1, 2, 40)), tolerance=1e-12)
def _(gap: float, gamma: float, steps: int) -> Sides:
    """steps longer than 1 / (2 x G)"""

    # C = G = x = 1: the smaller of 2 (Delta + (T - 1) v) and Delta / gamma + T v / gamma
    def value(bias: float | None) -> float:
        run = spelled(gap=gap, gamma=gamma, T=steps, G=1.0, C=1.0, bias=bias)
        return convergence.dpsgd_bound(**run, sampling="fixed").value

    v = gamma**2 / 2
    truth = min(2 * (gap + (steps - 1) * v), (gap + steps * v) / gamma) / steps
    return value(None), truth, value(None) * 1.01


def _clipped_worst(
    gamma: float, G: float, clip: float, r: float, T: int, energy: float, bias: float | None = None
) -> float:
    run = spelled(gap=1.0, gamma=gamma, T=T, G=G, C=clip, sigma=math.sqrt(energy / 4) / clip, d=4, B=1, r=r)
    return convergence.dpsgd_bound(**run, bias=bias, sampling="fixed").value


@clipped_steps.certificate(
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
    bound = _runs.theorem_bound(s, found, found.gap, kappa or _runs.kappa(found), None).value
    return (bound - found.measure) / (bound + found.measure)


_BOX = {
    **{name: one for name, one in _runs.QUIET_BOX.items() if name != "weight"},
    "learning_rate": Range(0.02, 1.9, log=True),
}


def _symmetric(point: dict[str, float], steps: int) -> enumeration.Settings:
    return dataclasses.replace(_runs.at(**point, weight=0.5), steps=steps, clip=4.0)


@clipped_steps.inequality(_BOX, wrong=lambda **point: _slack(_symmetric(point, 1), 1.0))
def _clipped_slack(**point: float) -> float:
    """inequality, any symmetric two-point deviation"""
    return _slack(_symmetric(point, 2), None)


split_free = new_row(
    id="rs.split_free",
    source=Source("rs", "new, on Lemma 3.3 and Theorem 3.5"),
    verdict=Verdict.HOLDS,
    calculators=(sparsification.largest_split_free_kappa,),
)


def _descents(w: Array, deviations: Array, clip: float, masks: Array) -> Array:
    """Mean over the deviations of |v| min(|v|, (C - |xi|)_+), v and xi under each mask."""
    sizes, lengths = np.sqrt(masks @ w**2), np.sqrt(masks @ (deviations**2).T)
    return np.asarray(sizes * np.minimum(sizes[:, None], np.maximum(clip - lengths, 0.0)).mean(axis=1))


def _kappa(w: Array, deviations: Array, clip: float, keep: int) -> float:
    """By its definition: all masks, all deviations."""
    masked = _descents(w, deviations, clip, _runs.mask_rows(w.size, keep)).mean()
    return float(masked / _descents(w, deviations, clip, np.ones((1, w.size)))[0])


def _case(
    second: float, third: float, spread: float, turn: float, clip: float, keep: float
) -> tuple[Array, Array, float, int]:
    """Four entries, four deviations with their negatives, at least one within the clip."""
    w, deviations = _runs.four_entries(second, third, spread, turn, 3.0)
    return w, deviations, clip * float(np.linalg.norm(w)), round(keep)


def _bound(w: Array, deviations: Array, clip: float, keep: int) -> float:
    return sparsification.largest_split_free_kappa(
        grad_norm=float(np.linalg.norm(w)),
        clip_norm=clip,
        deviation_norms=np.linalg.norm(deviations, axis=-1),
        drop_rate=1 - keep / w.size,
    )


_SPLIT_BOX = {
    "second": Range(0, 3),
    "third": Range(0, 3),
    "spread": Range(0.01, 3, log=True),
    "turn": Range(0, 1),
    "clip": Range(0.05, 5, log=True),
    "keep": Range(1, 4),
}


def _upper_slack(scale: float = 1.0, **point: float) -> float:
    """upper end, all masks of four entries"""
    case = _case(**point)
    return scale * _bound(*case) / _kappa(*case) - 1


split_free.inequality(_SPLIT_BOX, wrong=lambda **point: _upper_slack(0.9, **point))(_upper_slack)


def _lower_slack(power: float = 1.0, **point: float) -> float:
    """lower end, all masks of four entries"""
    case = _case(**point)
    return _kappa(*case) / math.pow(case[3] / 4, power) - 1


split_free.inequality(_SPLIT_BOX, wrong=lambda **point: _lower_slack(0.5, **point))(_lower_slack)


_FLAT = tuple((dim, keep) for dim, keep in ((2, 1), (4, 3), (6, 2)))


@split_free.equal(*((*one, large) for one in _FLAT for large in (False, True)), tolerance=1e-12)
def _(dim: int, keep: int, large: bool) -> Sides:
    """both ends are attained by equal entries"""
    # far above the clip without deviation: sqrt x C / |w| / H = sqrt x; room for gradient and deviation: x
    w = np.full(dim, 50.0 if large else 0.1)
    deviations = np.zeros((1, dim)) if large else np.full((2, dim), 0.05) * np.array([[1.0], [-1.0]])
    truth = _kappa(w, deviations, 2.0, keep)
    return _bound(w, deviations, 2.0, keep), truth, truth * 1.01


@split_free.equal(*itertools.product((10_000,), (0.01, 0.5, 0.99, 0.0), (0.3, 4.0)), tolerance=1e-11)
def _(samples: int, rate: float, size: float) -> Sides:
    """the upper end at users' sizes, norm by norm"""
    norms = [2.0 * (i + 0.5) / samples for i in range(samples)]

    def truth() -> float:
        if rate == 0:
            return 1.0
        share = math.fsum(min(1.0, max(1.0 - norm, 0.0) / size) for norm in norms) / samples
        return min(1 - rate, math.sqrt(1 - rate) / size) / share

    found = sparsification.largest_split_free_kappa(
        grad_norm=size, clip_norm=1.0, deviation_norms=norms, drop_rate=rate
    )
    return found, truth, 1.01 * found


def _steps() -> Iterator[tuple[enumeration.Settings, float]]:
    """One masked step from random points, two-point deviations; times a factor that breaks the statement, or not."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        start, deviation = (rng.standard_normal(2) * 10 ** rng.uniform(-1, 1) for _ in range(2))
        law = enumeration.two_point(float(deviation[0]), float(deviation[1]))
        yield (
            enumeration.Settings(
                (float(start[0]), float(start[1])), law, clip=float(10 ** rng.uniform(-1, 1)), steps=1
            ),
            1.0,
        )
    short = enumeration.Settings((0.3, 0.1), enumeration.two_point(0.1, 0.2), steps=1)
    yield from ((short, factor) for factor in (1.0, 1.001))


@split_free.equal(_steps)
def _(s: enumeration.Settings, factor: float) -> Sides:
    """the masked, clipped step keeps at least the masked S, that at least every split, by enumeration"""

    def holds() -> bool:
        found = enumeration.run(s)
        deviations = np.array([v for _, v in s.deviations])
        kept = float(_descents(np.array(s.start), deviations, s.clip, np.array(s.masks, dtype=np.float64)).mean())
        splits = [enumeration.run(dataclasses.replace(s, z=z)).masked_measure for z in (0.1, 0.25, 0.5, 0.75)]
        return found.alignment >= factor * kept - 1e-12 and kept >= factor * max(splits) - 1e-12

    return factor == 1, holds, factor != 1
