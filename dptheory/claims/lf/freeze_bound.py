import dataclasses
import itertools
from fractions import Fraction
from typing import Any

from dptheory import convergence, freezing
from dptheory.claims import _poisson
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.lf import _testbed as testbed
from dptheory.claims.lf import _worst_case
from dptheory.claims.lf._testbed import RUNS, Run


def _whole_slack(run: Run) -> float:
    """The wrong statement that the bound holds for the whole gradient, frozen layers included."""
    found, terms = testbed.expectations(run), testbed.bound(run)
    whole = sum(eta * g for eta, g in zip(run.learning_rates, found.whole[:-1], strict=True)) / sum(run.learning_rates)
    return float(terms.value - whole) / (abs(terms.optimization) + terms.clipping + terms.noise + abs(terms.bias))


def _frozen_runs() -> list[tuple[Run]]:
    return [(run,) for run in RUNS if any(run.frozen)]


def _all_dims(run: Run) -> float:
    """The bound with the noise of all parameters at every step."""
    found = testbed.expectations(run)
    steps, dim = len(run.learning_rates), len(run.start)
    return convergence.layer_freezing_bound(
        decrease=found.decrease,
        learning_rate=run.learning_rates,
        steps=steps,
        smoothness=1.0,
        clip_norm=run.clip,
        noise_multiplier=run.noise_multiplier,
        dim=dim,
        batch_size=run.batch_size,
        second_moment=found.moment,
        bias=found.bias,
        sampling="poisson" if run.poisson else "fixed",
        sampling_rate=run.rate,
    ).value


def _energy(sizes: tuple[int, ...], frozen: int, eta: Fraction, tau: Fraction) -> Fraction:
    """What the noise of one step of size eta on the first ``frozen`` blocks adds to E|theta|^2 / 2, over eta."""
    dim = sum(sizes[:frozen])
    before, after = testbed.squares(dim, Fraction(0), eta, tau, 1)
    return (after - before) / 2 / eta


def _break_even(sizes: tuple[int, ...], frozen: int, eta: Fraction, tau: Fraction) -> float:
    found = freezing.freezing_bounds(
        sizes,
        frozen_layers=frozen,
        objective_gap=1.0,
        learning_rate=float(eta),
        steps=7,
        smoothness=1.0,
        clip_norm=2.0,
        noise_multiplier=float(tau),
        batch_size=2,
    )
    return found.largest_frozen_gradient


def _trained(step: _poisson.Step, which: str) -> _poisson.Step:
    """The step with all layers trained, or with the first of two frozen: the second has the entries that are kept."""
    return step if which == "frozen" else dataclasses.replace(step, kept=step.dim)


def _bounds(step: _poisson.Step, given: bool) -> freezing.FreezingBounds:
    """``given``: nine tenths of the largest second moments, and biases of 1/4 and -1/2."""
    moment = 0.9 * _trained(step, "full").moment
    known: dict[str, Any] = {
        "second_moment": moment,
        "frozen_second_moment": [0.8 / 0.9 * moment] * 3,
        "bias": 0.25,
        "frozen_bias": -0.5,
    }
    return freezing.freezing_bounds(
        (step.dim - step.kept, step.kept),
        frozen_layers=1,
        objective_gap=1.0,
        learning_rate=float(step.learning_rate),
        steps=3,
        smoothness=float(step.smoothness),
        clip_norm=float(step.clip),
        noise_multiplier=float(step.noise_multiplier),
        batch_size=step.batch_size,
        **(known if given else {}),
        **step.sampling,  # type: ignore[arg-type]
    )


def _stated_alignment(step: _poisson.Step, which: str, given: bool) -> float:
    """The bound with the decrease of three such first steps in place of the gap."""
    part = getattr(_bounds(step, given), which)
    return float(3 * _trained(step, which).decrease * part.optimization + part.clipping + part.noise + part.bias)


def _alignment_of(step: _poisson.Step, which: str, given: bool) -> float:
    """E<grad, s^B> on a quadratic, less what the second moment and the bias that are given take off."""
    trained = _trained(step, which)
    share, bias = ((0.9, 0.25) if which == "full" else (0.8, -0.5)) if given else (1.0, 0.0)
    gain = float(step.learning_rate * step.smoothness) / 2
    return trained.alignment - (1 - share) * gain * trained.moment - bias


def _wrong_alignment(step: _poisson.Step, which: str, given: bool) -> float:
    return _stated_alignment(step, "full" if which == "frozen" else "frozen", given)


def _counted(step: _poisson.Step, field: str, given: bool) -> float | Fraction:
    """Parameters, and the noise that one step of size eta puts on the frozen ones, over eta: G/2 eta E|noise|^2."""
    if field != "largest_frozen_gradient":
        return Fraction(step.dim if field == "dim" else step.kept)
    tau = step.noise_multiplier * step.clip / step.batch_size
    return step.smoothness / 2 * step.learning_rate * (step.dim - step.kept) * tau**2


def _square_slack(**point: float) -> float:
    """The wrong statement that it bounds the squared gradient: where gradients are clipped it does not."""
    run = testbed.random_run(frozen=1, **point)
    return (testbed.alignment_bound(run) - testbed.mean_trained(run)) / testbed.size(run)


row = new_row(
    id="lf.freeze_bound",
    source=Source("lf", "new, on Lemma 3.1 under Algorithm 1"),
    verdict=Verdict.HOLDS,
    calculators=(convergence.layer_freezing_bound, freezing.freezing_bounds),
    figure="freezing_bounds",
)


@row.equal(_frozen_runs, tolerance=1e-12)
def _(run: Run) -> Sides:
    """equality on quadratics with frozen coordinates, by enumeration"""
    return testbed.corrected(run), lambda: testbed.mean_trained(run), _all_dims(run)


@row.equal(
    lambda: [
        (sizes, frozen, Fraction(1, 4), Fraction(3, 2)) for sizes in ((100, 200, 300), (5, 1, 1)) for frozen in (1, 2)
    ],
    tolerance=1e-9,
)
def _(sizes: tuple[int, ...], frozen: int, eta: Fraction, tau: Fraction) -> Sides:
    """break-even against the noise energy of the frozen layers, in fractions"""
    nothing = 0.0  # the printed bound does not know d: freezing does nothing to it
    return _break_even(sizes, frozen, eta, tau), _energy(sizes, frozen, eta, tau), nothing


@row.equal(
    lambda: [
        (step, which, given)
        for step in _poisson.STEPS
        if step.kept < step.dim
        for which in ("full", "frozen")
        for given in (False, True)
    ],
    tolerance=1e-11,
)
def _(step: _poisson.Step, which: str, given: bool) -> Sides:
    """both bounds on a step of a quadratic, at the sizes of the papers"""
    return (
        _stated_alignment(step, which, given),
        lambda: _alignment_of(step, which, given),
        _wrong_alignment(step, which, given),
    )


@row.equal(
    lambda: [
        (step, field, given)
        for step in _poisson.STEPS
        if step.kept < step.dim and step.noise_multiplier**2 * step.dim > step.batch_size**2 / 10**4
        for field in ("dim", "trainable_dim", "largest_frozen_gradient")
        for given in ((False,) if field == "largest_frozen_gradient" else (False, True))
    ],
    tolerance=1e-9,
)
def _(step: _poisson.Step, field: str, given: bool) -> Sides:
    """what is counted, in fractions"""
    return (
        getattr(_bounds(step, given), field),
        lambda: _counted(step, field, given),
        getattr(_bounds(step, given), "dim" if field != "dim" else "trainable_dim"),
    )


@row.inequality({**testbed.BOX, "poisson": Range(0, 1, integer=True)}, wrong=_square_slack)
def _alignment_slack(**point: float) -> float:
    """without bias: alignment on clipped log cosh problems, Poisson batches or fixed"""
    run = testbed.random_run(frozen=1, **point)
    return (testbed.alignment_bound(run) - testbed.mean_alignment(run)) / testbed.size(run)


@row.equal(
    lambda: itertools.product(range(0, 50, 7), (0.01, 0.2, 2.0), (0.2, 5.0), (0.05, 0.7, 5.0), (0.0, 3.0), (0.1, 5.0))
)
def _(seed: int, learning_rate: float, ratio: float, clip: float, noise_multiplier: float, spread: float) -> Sides:
    """log cosh problems, one coordinate frozen at the second step"""
    run = testbed.random_run(seed, learning_rate, ratio, clip, noise_multiplier, spread, frozen=1)
    return testbed.relative_slack(testbed.corrected(run), run) >= -1e-12, True, lambda: _whole_slack(run) >= -1e-12


row.certificate(
    lambda: _worst_case.STEPS,
    problem=_worst_case.frozen_step,
    wrong=lambda eta, L, moment, energy, bias: _worst_case.bound(
        eta, L, moment, 2 * energy, bias
    ),  # noise of both blocks
    name="worst case of one step that moves one block alone",
)(_worst_case.bound)
