"""The descent lemma, what freezing costs in it, and our bound under Algorithm 1; worst cases as PEPit problems."""

import dataclasses
import importlib
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from dptheory import convergence, freezing
from dptheory.claims import _draws
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.lf import _testbed
from dptheory.claims.lf import _testbed as testbed
from dptheory.claims.lf._testbed import RUNS, Run
from dptheory.claims.rs._runs import spelled


def descent(smoothness: float, distance: float) -> Any:
    """Largest f(v) - f(w) - <grad f(w), v - w> with |v - w| <= distance."""
    problem, function = _smooth(smoothness)
    start, end = problem.set_initial_point(), problem.set_initial_point()
    gradient, value = function.oracle(start)
    problem.set_initial_condition((end - start) ** 2 <= distance**2)
    problem.set_performance_metric(function(end) - value - gradient * (end - start))
    return problem


def frozen_step(learning_rate: float, smoothness: float, second_moment: float, noise_energy: float, bias: float) -> Any:
    """Largest |trainable part of grad f|^2 at a step with expected decrease at most 1 that moves the trainable block alone.

    The step is s +- v, both signs equally likely, in that block: |s|^2 <= second_moment, |v|^2 = noise_energy, and
    <grad f, s> >= |trainable part|^2 + bias (bias < 0 is harmful).
    """
    problem, function = _smooth(smoothness)
    partition = problem.declare_block_partition(d=2)
    point = importlib.import_module("PEPit").Point
    start = problem.set_initial_point()
    gradient, value = function.oracle(start)
    trained = partition.get_block(gradient, 1)
    signal, noise = (partition.get_block(point(), 1) for _ in range(2))
    problem.add_constraint(signal**2 <= second_moment)
    problem.add_constraint(noise**2 == noise_energy)
    problem.add_constraint(trained * signal >= trained**2 + bias)
    after = [function(start - learning_rate * (signal + sign * noise)) for sign in (1, -1)]
    problem.set_initial_condition(value - (after[0] + after[1]) / 2 <= 1)
    problem.set_performance_metric(trained**2)
    return problem


def _smooth(smoothness: float) -> tuple[Any, Any]:
    """A problem and its smooth function."""
    problem = importlib.import_module("PEPit").PEP()
    kind = importlib.import_module("PEPit.functions").SmoothFunction
    return problem, problem.declare_function(kind, L=smoothness)


def bound(learning_rate: float, smoothness: float, second_moment: float, noise_energy: float, bias: float) -> float:
    """The corrected bound for one step with decrease 1; noise_energy = d tau^2, here with d = 4."""
    clip = math.sqrt(second_moment)
    sigma = math.sqrt(noise_energy / 4) / clip
    run = spelled(decrease=1.0, gamma=learning_rate, T=1, G=smoothness, C=clip, sigma=sigma, d=4, B=1)
    return convergence.layer_freezing_bound(**run, second_moment=second_moment, bias=bias).value


STEPS = ((0.5, 1.0, 10.0, 1.0, -1.0), (0.3, 2.0, 20.0, 0.5, -0.5), (1.2, 1.0, 8.0, 2.0, 0.0))
"""Arguments of :func:`frozen_step` and :func:`bound`."""


lem2_1 = new_row(
    id="lf.lem2.1",
    source=Source("lf", "Lemma 2.1"),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds",),
)


@lem2_1.certificate(
    (1.0, 1.0),
    (2.0, 3.0),
    (0.1, 5.0),
    problem=descent,
    wrong=lambda smoothness, distance: smoothness / 4 * distance**2,
)
def _(smoothness: float, distance: float) -> float:
    """worst case over smooth functions"""
    return smoothness / 2 * distance**2


def _gap(start: float, step: float) -> float:
    """f(v) - f(w) - f'(w)(v - w) for f = log cosh, v = w + step, over step^2."""
    loss, slope = _testbed.LOSSES["log cosh"]
    low, high = np.array(start), np.array(start + step)
    return float(loss(high) - loss(low) - slope(low) * step) / step**2


@lem2_1.inequality(
    {"start": Range(-5, 5), "step": Range(1e-2, 10, log=True)}, wrong=lambda start, step: 0.49 - _gap(start, step)
)
def log_cosh_slack(start: float, step: float) -> float:
    """log cosh, L = 1"""
    return 0.5 - _gap(start, step)


def printed_bound(
    decrease: float,
    learning_rates: tuple[float, ...],
    alignments: tuple[float, ...],
    smoothness: float,
    clip: float,
    noise_multiplier: float,
    batch_size: int,
) -> float:
    """Right side of Lemma 3.1; alignments = E[cos(gamma^B) |grad f| |s^B|] at t = 1..T, counted from theta_0.

    As printed these are the iterates that the steps lead to. With those that the steps start from it is re-indexed, as its proof
    has it.
    """
    aligned = sum(eta * a for eta, a in zip(learning_rates, alignments, strict=True))
    noise = smoothness / 2 * (noise_multiplier * clip / batch_size) ** 2 * sum(eta**2 for eta in learning_rates)
    return (decrease - aligned + noise) / sum(learning_rates)


def _printed(run: Run, iterates: slice = slice(1, None)) -> float:
    found = testbed.expectations(run)
    noise = run.clip, run.noise_multiplier, run.batch_size
    return printed_bound(found.decrease, run.learning_rates, tuple(found.alignment[iterates].tolist()), 1.0, *noise)


_reindexed = partial(_printed, iterates=slice(None, -1))


def _reindexed_on_quadratic(run: Run) -> float:
    """What the re-indexed right side comes to for the Hessian I: -(1/2) sum eta^2 (E|s^B|^2 + (d - 1) tau^2) / sum eta."""
    moments = testbed.expectations(run).moment
    lost = sum(
        eta**2 * (m + (d - 1) * run.tau**2) for eta, m, d in zip(run.learning_rates, moments, run.dims, strict=True)
    )
    return -float(lost) / 2 / sum(run.learning_rates)


def _printed_holds(dim: int, start: Fraction, eta: Fraction, tau: Fraction, steps: int, reading: str) -> bool:
    """Is the least E|grad f|^2 over all T + 1 iterates below the printed right side?

    "shifted" sums the inner products over the iterates that the steps start from, "literal" over those that they lead to:
    the lemma has f(theta_0) - E f(theta_T) and the sum over t = 1..T.
    """
    squares = testbed.squares(dim, start, eta, tau, steps)
    met = squares[:-1] if reading == "shifted" else squares[1:]
    decrease = (squares[0] - squares[-1]) / 2
    return min(squares) <= (decrease - eta * sum(met) + steps * eta**2 * tau**2 / 2) / (steps * eta)


_LITERAL_HOLDS = {
    1: (Fraction("0.36"), Fraction("1.39")),
    10: (Fraction("0.127"), Fraction("1.498")),
    100: (Fraction("0.026"), Fraction("1.498")),
}
"""Between which eta L, to the digits given, the bound read literally holds on L |theta|^2 / 2, by the number of steps."""


def _about(low: Fraction, high: Fraction) -> tuple[Fraction, ...]:
    """Step sizes at both ends and beside them."""
    beside = Fraction(1, 500)
    return Fraction(1, 100), low - beside, low, (low + high) / 2, high, high + beside


lem3_1 = new_row(
    id="lf.lem3.1",
    source=Source("lf", "Lemma 3.1, appendix A"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false",),
    printed=printed_bound,
    calculators=(convergence.layer_freezing_bound,),
    figure="freezing_bounds",
)


@lem3_1.equal(
    lambda: [
        (dim, Fraction(start), Fraction(1, 10), Fraction(tau), steps, reading)
        for dim, start, tau, steps in ((1, 1, 0, 1), (1, 1, 0, 5), (1, 1, 1, 1), (2, 0, 1, 1), (100, 1, 1, 20))
        for reading in ("shifted", "literal")
    ],
    kind=Kind.COUNTEREXAMPLE,
)
def _(dim: int, start: Fraction, eta: Fraction, tau: Fraction, steps: int, reading: str) -> Sides:
    """fails on |theta|^2 / 2 under either reading of the indices"""
    return False, lambda: _printed_holds(dim, start, eta, tau, steps, reading), True


@lem3_1.equal(lambda: [(run,) for run in RUNS], tolerance=1e-12)
def _(run: Run) -> Sides:
    """corrected bound: equality on quadratics, by enumeration"""
    return testbed.corrected(run), lambda: testbed.mean_trained(run), _printed(run)


@lem3_1.equal(
    lambda: [
        (1, Fraction(1), eta, Fraction(0), steps, reading)
        for steps, ends in _LITERAL_HOLDS.items()
        for eta in _about(*ends)
        for reading in ("shifted", "literal")
    ]
)
def _(dim: int, start: Fraction, eta: Fraction, tau: Fraction, steps: int, reading: str) -> Sides:
    """where either reading holds on |theta|^2 / 2, in fractions"""
    low, high = _LITERAL_HOLDS[steps]
    holds = reading == "literal" and low <= eta <= high
    false_on_every_quadratic = False
    return holds, lambda: _printed_holds(dim, start, eta, tau, steps, reading), false_on_every_quadratic


@lem3_1.equal(lambda: [(run,) for run in RUNS], tolerance=1e-10)
def _(run: Run) -> Sides:
    """re-indexed right side on quadratics"""
    return _reindexed_on_quadratic(run), lambda: _reindexed(run), _printed(run)


@lem3_1.equal(lambda: [(run,) for run in RUNS])
def _(run: Run) -> Sides:
    """re-indexed right side on quadratics is not above zero"""
    return True, _reindexed(run) <= 0, testbed.corrected(run) <= 0


def _slack(bound: Callable[[Run], float] = testbed.corrected, **point: float) -> float:
    """corrected bound on clipped log cosh problems"""
    run = testbed.random_run(frozen=0, **point)
    return testbed.relative_slack(bound(run), run)


lem3_1.inequality(testbed.BOX, wrong=partial(_slack, bound=_reindexed))(_slack)


lem3_1.certificate(
    lambda: STEPS,
    problem=frozen_step,
    wrong=lambda eta, L, moment, energy, bias: bound(eta, L, 1e-9, energy / 4, bias),  # E|s^P|^2 = tau^2
    name="worst case of one private step over smooth functions",
)(bound)


def _mean(values: tuple[int, ...]) -> Fraction:
    return Fraction(sum(values), len(values))


def _clipped(value: int, clip: int) -> int:
    return max(-clip, min(clip, value))


def _inner_with_signal(values: tuple[int, ...], clip: int) -> Fraction:
    """E<grad f, s^B> for a batch of two per-example gradients, numbers, drawn with replacement."""
    pairs = [Fraction(_clipped(a, clip) + _clipped(b, clip), 2) for a in values for b in values]
    return sum((_mean(values) * signal for signal in pairs), Fraction(0)) / len(pairs)


def _inner_with_bias(values: tuple[int, ...], clip: int) -> Fraction:
    """<grad f, b>: the bias is what clipping takes from each example, averaged."""
    return _mean(values) * _mean(tuple(_clipped(value, clip) - value for value in values))


appA_bias = new_row(
    id="lf.appA.bias",
    source=Source("lf", "Appendix A"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false", "correction_holds"),
    part_of="lf.lem3.1",
)


@appA_bias.equal(lambda: [(values, clip) for values in ((1, 2), (3, -1), (5, -4, 0)) for clip in (1, 2, 9)])
def _(values: tuple[int, ...], clip: int) -> Sides:
    """by enumeration of the batches, in fractions"""
    return (
        _inner_with_signal(values, clip) - _mean(values) ** 2,
        _inner_with_bias(values, clip),
        _inner_with_signal(values, clip),
    )


def printed_private_moment(clip: float, noise_multiplier: float, batch_size: int) -> float:
    """The bound of appendix A on E|s^P|^2."""
    return (noise_multiplier * clip / batch_size) ** 2


_SIGNALS = (
    (((3, 2), (-1, 1)), Fraction(1, 3), 2),
    (((1, 20_000), (-2, 5000)), Fraction(2), 64),
    (((0, 10**7),), Fraction(1), 1024),
)
"""Entries of s^B and how many there are of each, tau, and B."""


def _square_by_signs(entries: tuple[tuple[int, int], ...], tau: Fraction, batch_size: int) -> Fraction:
    """E|s^B + z|^2 with both signs of the noise +-tau in every entry."""
    return sum((count * sum(((s + z) ** 2 for z in (tau, -tau)), Fraction(0)) / 2 for s, count in entries), Fraction(0))


appA_moment = new_row(
    id="lf.appA.moment",
    source=Source("lf", "Appendix A"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_private_moment,
    calculators=(freezing.private_second_moment,),
    part_of="lf.lem3.1",
)


@appA_moment.equal(lambda: [(run,) for run in RUNS], tolerance=1e-12)
def _(run: Run) -> Sides:
    """by enumeration"""
    return (
        testbed.private_moment(run),
        testbed.expectations(run).private_moment[0],
        printed_private_moment(run.clip, run.noise_multiplier, run.batch_size),
    )


@appA_moment.equal(lambda: [(n, q) for n in (1, 2, 5, 8) for q in (Fraction(1, 8), Fraction(1, 2), Fraction(1))])
def _(n: int, q: Fraction) -> Sides:
    """Poisson batches of one gradient of norm C, in fractions"""
    return (
        1 + (1 - q) / (q * n),
        sum(math.comb(n, k) * q**k * (1 - q) ** (n - k) * (k / (q * n)) ** 2 for k in range(n + 1)),
        Fraction(1),
    )


@appA_moment.equal(lambda: _SIGNALS, tolerance=1e-14)
def _(entries: tuple[tuple[int, int], ...], tau: Fraction, batch_size: int) -> Sides:
    """both signs of the noise in every entry, at users' sizes"""
    stated = freezing.private_second_moment(
        second_moment=float(sum(count * s**2 for s, count in entries)),
        clip_norm=0.5,
        noise_multiplier=float(2 * tau * batch_size),
        dim=sum(count for _, count in entries),
        batch_size=batch_size,
    )
    as_printed = tau**2
    return stated, _square_by_signs(entries, tau, batch_size), as_printed


def _whole_slack(run: Run) -> float:
    """The wrong statement that the bound holds for the whole gradient, frozen layers included."""
    whole = np.average(testbed.expectations(run).whole[:-1], weights=run.learning_rates)
    return float(testbed.corrected(run) - whole) / testbed.size(run)


def _energy(sizes: tuple[int, ...], frozen: int, eta: Fraction, tau: Fraction) -> Fraction:
    """What the noise of one step of size eta on the first ``frozen`` blocks adds to E|theta|^2 / 2, over eta."""
    dim = sum(sizes[:frozen])
    before, after = testbed.squares(dim, Fraction(0), eta, tau, 1)
    return (after - before) / 2 / eta


def _trained(step: _draws.Step, which: str) -> _draws.Step:
    """The step with all layers trained, or with the first of two frozen: the second has the entries that are kept."""
    return step if which == "frozen" else dataclasses.replace(step, kept=step.dim)


def _bounds(step: _draws.Step, given: bool) -> freezing.FreezingBounds:
    """``given``: nine tenths of the largest second moments, and biases of 1/4 and -1/2."""
    moment = 0.9 * _trained(step, "full").moment
    run = spelled(gap=1.0, gamma=float(step.learning_rate), T=3, G=float(step.smoothness), C=float(step.clip))
    run |= spelled(sigma=float(step.noise_multiplier), B=step.batch_size, frozen_layers=1) | step.sampling
    if given:
        run |= {"second_moment": moment, "frozen_second_moment": [0.8 / 0.9 * moment] * 3}
        run |= {"bias": 0.25, "frozen_bias": -0.5}
    return freezing.freezing_bounds((step.dim - step.kept, step.kept), **run)


def _stated_alignment(step: _draws.Step, which: str, given: bool) -> float:
    """The bound with the decrease of three such first steps in place of the gap."""
    part = getattr(_bounds(step, given), which)
    return float(3 * _trained(step, which).decrease * part.optimization + part.clipping + part.noise + part.bias)


def _alignment_of(step: _draws.Step, which: str, given: bool) -> float:
    """E<grad, s^B> on a quadratic, less what the second moment and the bias that are given take off."""
    trained = _trained(step, which)
    share, bias = ((0.9, 0.25) if which == "full" else (0.8, -0.5)) if given else (1.0, 0.0)
    gain = float(step.learning_rate * step.smoothness) / 2
    return trained.alignment - (1 - share) * gain * trained.moment - bias


def _counted(step: _draws.Step, field: str, given: bool) -> float | Fraction:
    """Parameters, and the noise that one step of size eta puts on the frozen ones, over eta: G/2 eta E|noise|^2."""
    if field != "largest_frozen_gradient":
        return Fraction(step.dim if field == "dim" else step.kept)
    tau = step.noise_multiplier * step.clip / step.batch_size
    return step.smoothness / 2 * step.learning_rate * (step.dim - step.kept) * tau**2


freeze_bound = new_row(
    id="lf.freeze_bound",
    source=Source("lf", "new, on Lemma 3.1 under Algorithm 1"),
    verdict=Verdict.HOLDS,
    calculators=(convergence.layer_freezing_bound, freezing.freezing_bounds),
    figure="freezing_bounds",
)


@freeze_bound.equal(lambda: [(run,) for run in RUNS if any(run.frozen)], tolerance=1e-12)
def _(run: Run) -> Sides:
    """equality on quadratics with frozen coordinates, by enumeration"""
    noise_of_all_parameters = testbed.bound(run, dims=len(run.start)).value
    return testbed.corrected(run), lambda: testbed.mean_trained(run), noise_of_all_parameters


@freeze_bound.equal(
    lambda: [
        (sizes, frozen, Fraction(1, 4), Fraction(3, 2)) for sizes in ((100, 200, 300), (5, 1, 1)) for frozen in (1, 2)
    ],
    tolerance=1e-9,
)
def _(sizes: tuple[int, ...], frozen: int, eta: Fraction, tau: Fraction) -> Sides:
    """break-even against the noise energy of the frozen layers, in fractions"""
    run = spelled(gap=1.0, gamma=float(eta), T=7, G=1.0, C=2.0, sigma=float(tau), B=2)
    found = freezing.freezing_bounds(sizes, frozen_layers=frozen, **run)
    nothing = 0.0  # the printed bound does not know d: freezing does nothing to it
    return found.largest_frozen_gradient, _energy(sizes, frozen, eta, tau), nothing


@freeze_bound.equal(
    lambda: [
        (step, which, given)
        for step in _draws.STEPS
        if step.kept < step.dim
        for which in ("full", "frozen")
        for given in (False, True)
    ],
    tolerance=1e-11,
)
def _(step: _draws.Step, which: str, given: bool) -> Sides:
    """both bounds on a step of a quadratic, at the sizes of the papers"""
    other = _stated_alignment(step, "full" if which == "frozen" else "frozen", given)
    return _stated_alignment(step, which, given), lambda: _alignment_of(step, which, given), other


@freeze_bound.equal(
    lambda: [
        (step, field, given)
        for step in _draws.STEPS
        if step.kept < step.dim and step.noise_multiplier**2 * step.dim > step.batch_size**2 / 10**4
        for field in ("dim", "trainable_dim", "largest_frozen_gradient")
        for given in ((False,) if field == "largest_frozen_gradient" else (False, True))
    ],
    tolerance=1e-9,
)
def _(step: _draws.Step, field: str, given: bool) -> Sides:
    """what is counted, in fractions"""
    return (
        getattr(_bounds(step, given), field),
        lambda: _counted(step, field, given),
        getattr(_bounds(step, given), "dim" if field != "dim" else "trainable_dim"),
    )


def _alignment_slack(measure: Callable[[Run], float] = testbed.mean_alignment, **point: float) -> float:
    """without bias: alignment on clipped log cosh problems, Poisson batches or fixed"""
    run = testbed.random_run(frozen=1, **point)
    return (testbed.alignment_bound(run) - measure(run)) / testbed.size(run)


freeze_bound.inequality(
    {**testbed.BOX, "poisson": Range(0, 1, integer=True)},
    # wrong: it bounds the squared gradient, which it does not where gradients are clipped
    wrong=partial(_alignment_slack, measure=testbed.mean_trained),
)(_alignment_slack)


@freeze_bound.equal(
    lambda: itertools.product(range(0, 50, 7), (0.01, 0.2, 2.0), (0.2, 5.0), (0.05, 0.7, 5.0), (0.0, 3.0), (0.1, 5.0))
)
def _(seed: int, learning_rate: float, ratio: float, clip: float, noise_multiplier: float, spread: float) -> Sides:
    """log cosh problems, one coordinate frozen at the second step"""
    run = testbed.random_run(seed, learning_rate, ratio, clip, noise_multiplier, spread, frozen=1)
    return testbed.relative_slack(testbed.corrected(run), run) >= -1e-12, True, lambda: _whole_slack(run) >= -1e-12


freeze_bound.certificate(
    lambda: STEPS,
    problem=frozen_step,
    wrong=lambda eta, L, moment, energy, bias: bound(eta, L, moment, 2 * energy, bias),  # noise of both blocks
    name="worst case of one step that moves one block alone",
)(bound)
