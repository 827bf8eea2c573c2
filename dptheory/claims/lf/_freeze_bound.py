"""LF: what freezing does to the convergence bound."""

import dataclasses
import itertools
from fractions import Fraction
from typing import Any

from dptheory import convergence, freezing
from dptheory.checks import CertificateCheck, ExactCheck, Range, SearchCheck
from dptheory.claims import _poisson
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.lf import _testbed as testbed
from dptheory.claims.lf import _worst_case
from dptheory.claims.lf._testbed import RUNS, Run


def _frozen_later(
    seed: int, learning_rate: float, ratio: float, clip: float, noise_multiplier: float, spread: float
) -> Run:
    return testbed.random_run(seed, learning_rate, ratio, clip, noise_multiplier, spread, frozen=1)


def _frozen_slack(*point: Any) -> float:
    run = _frozen_later(*point)
    return testbed.relative_slack(testbed.corrected(run), run)


def _whole_slack(*point: Any) -> float:
    """The wrong statement that the bound holds for the whole gradient, frozen layers included."""
    run = _frozen_later(*point)
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
        found.decrease,
        run.learning_rates,
        steps,
        1.0,
        run.clip,
        run.noise_multiplier,
        dim,
        run.batch_size,
        found.moment,
        found.bias,
        sampling="poisson" if run.poisson else "fixed",
        sampling_rate=run.rate,
    ).value


def _energy(sizes: tuple[int, ...], frozen: int, eta: Fraction, tau: Fraction) -> Fraction:
    """What the noise of one step of size eta on the first ``frozen`` blocks adds to E|theta|^2 / 2, over eta."""
    dim = sum(sizes[:frozen])
    before, after = testbed.squares(dim, Fraction(0), eta, tau, 1)
    return (after - before) / 2 / eta


def _break_even(sizes: tuple[int, ...], frozen: int, eta: Fraction, tau: Fraction) -> float:
    found = freezing.freezing_bounds(sizes, frozen, 1.0, float(eta), 7, 1.0, 2.0, float(tau), 2)
    return found.largest_frozen_gradient


def _trained(step: _poisson.Step, which: str) -> _poisson.Step:
    """The step with all layers trained, or with the first of two frozen: the second has the entries that are kept."""
    return step if which == "frozen" else dataclasses.replace(step, kept=step.dim)


def _bounds(step: _poisson.Step, given: bool) -> freezing.FreezingBounds:
    """``given``: nine tenths of the largest second moments, and biases of 1/4 and -1/2."""
    moment = 0.9 * _trained(step, "full").moment
    return freezing.freezing_bounds(
        (step.dim - step.kept, step.kept),
        1,
        1.0,
        float(step.learning_rate),
        3,
        float(step.smoothness),
        float(step.clip),
        float(step.noise_multiplier),
        step.batch_size,
        *((moment, [0.8 / 0.9 * moment] * 3, 0.25, -0.5) if given else ()),
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


def _alignment_slack(**point: float) -> float:
    run = testbed.random_run(frozen=1, **point)
    return (testbed.alignment_bound(run) - testbed.mean_alignment(run)) / testbed.size(run)


def _square_slack(**point: float) -> float:
    """The wrong statement that it bounds the squared gradient: where gradients are clipped it does not."""
    run = testbed.random_run(frozen=1, **point)
    return (testbed.alignment_bound(run) - testbed.mean_trained(run)) / testbed.size(run)


FREEZE_BOUND = Claim(
    id="lf.freeze_bound",
    title="what freezing does to the bound",
    source=Source("lf", "Lemma 3.1 under Algorithm 1 (ours)"),
    ours=True,
    statement=r"Ours: with $P_t$ the projection on the $d_t$ parameters trained at step $t$, "
    r"$\sum_t\eta_tE|P_t\nabla f_t|^2\le f_1-Ef_{T+1}-\sum_t\eta_tE\langle\nabla f_t,b_t\rangle+\frac L2\sum_t\eta_t^2(E|s_t^B|^2+d_t\tau^2)$, "
    r"$b_t=E[s_t^B]-P_t\nabla f_t$. The frozen part of the gradient is not bounded. At equal $E|s^B|^2$ and bias, freezing lowers the bound on the whole "
    r"gradient if the weighted mean of $E|(I-P_t)\nabla f_t|^2$ is below $\frac L2\eta(d-d_t)\tau^2$ (constant $\eta$).",
    verdict=Verdict.HOLDS,
    conditions=(
        "f is L-smooth",
        "no momentum: a frozen layer stays where it is",
        "gradients of frozen layers are set to 0 before clipping, and get no noise",
        "the freezing schedule is fixed in advance",
        "without the clipping bias the right side bounds E<grad f, s^B> alone; where gradients are clipped E|P_t grad f|^2 can be larger without limit",
        "E|s^B|^2 is at most C^2 for batches of B examples, C^2 (1 + (1 - q)/B) for Poisson batches",
    ),
    calculators=(convergence.layer_freezing_bound, freezing.freezing_bounds),
    checks=(
        ExactCheck(
            name="equality on quadratics with frozen coordinates, by enumeration",
            cases=_frozen_runs,
            truth=testbed.mean_trained,
            statement=testbed.corrected,
            wrong=_all_dims,
            tolerance=1e-12,
        ),
        ExactCheck(
            name="break-even against the noise energy of the frozen layers, in fractions",
            cases=lambda: [
                (sizes, frozen, Fraction(1, 4), Fraction(3, 2))
                for sizes in ((100, 200, 300), (5, 1, 1))
                for frozen in (1, 2)
            ],
            truth=_energy,
            statement=_break_even,
            wrong=lambda sizes, frozen, eta, tau: 0.0,  # the printed bound does not know d: freezing does nothing to it
            tolerance=1e-9,
        ),
        ExactCheck(
            name="both bounds on a step of a quadratic, at the sizes of the papers",
            cases=lambda: [
                (step, which, given)
                for step in _poisson.STEPS
                if step.kept < step.dim
                for which in ("full", "frozen")
                for given in (False, True)
            ],
            truth=_alignment_of,
            statement=_stated_alignment,
            wrong=_wrong_alignment,
            tolerance=1e-11,
        ),
        ExactCheck(
            name="what is counted, in fractions",
            cases=lambda: [
                (step, field, given)
                for step in _poisson.STEPS
                if step.kept < step.dim and step.noise_multiplier**2 * step.dim > step.batch_size**2 / 10**4
                for field in ("dim", "trainable_dim", "largest_frozen_gradient")
                for given in ((False,) if field == "largest_frozen_gradient" else (False, True))
            ],
            truth=_counted,
            statement=lambda step, field, given: getattr(_bounds(step, given), field),
            wrong=lambda step, field, given: getattr(
                _bounds(step, given), "dim" if field != "dim" else "trainable_dim"
            ),
            tolerance=1e-9,
        ),
        SearchCheck(
            name="without bias: alignment on clipped log cosh problems, Poisson batches or fixed",
            box={**testbed.BOX, "poisson": Range(0, 1, integer=True)},
            slack=_alignment_slack,
            wrong=_square_slack,
        ),
        ExactCheck(
            name="log cosh problems, one coordinate frozen at the second step",
            cases=lambda: itertools.product(
                range(0, 50, 7), (0.01, 0.2, 2.0), (0.2, 5.0), (0.05, 0.7, 5.0), (0.0, 3.0), (0.1, 5.0)
            ),
            truth=lambda *case: True,
            statement=lambda *case: _frozen_slack(*case) >= -1e-12,
            wrong=lambda *case: _whole_slack(*case) >= -1e-12,
        ),
        CertificateCheck(
            name="worst case of one step that moves one block alone",
            cases=lambda: _worst_case.STEPS,
            problem=_worst_case.frozen_step,
            bound=_worst_case.bound,
            wrong=lambda eta, L, moment, energy, bias: _worst_case.bound(
                eta, L, moment, 2 * energy, bias
            ),  # noise of both blocks
        ),
    ),
    proved=True,
    figure="freezing_bounds",
)
