"""LF: the descent lemma and the convergence bound."""

import dataclasses
import math
from fractions import Fraction

import numpy as np

from dptheory import convergence, freezing_bound
from dptheory.claims import _poisson
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.lf import _appendix_a, _worst_case
from dptheory.claims.lf import _testbed as testbed
from dptheory.claims.lf._testbed import RUNS, Run
from dptheory.montecarlo import CertificateCheck, ExactCheck, Kind, Range, SearchCheck

# --- lf.lem2.1 --------------------------------------------------------------------------------------------------------


def _gap(start: float, step: float) -> float:
    """f(v) - f(w) - f'(w)(v - w) for f = log cosh, v = w + step, over step^2."""
    loss, slope = testbed.LOSSES["log cosh"]
    low, high = np.array(start), np.array(start + step)
    return float(loss(high) - loss(low) - slope(low) * step) / step**2


def _lemma_slack(start: float, step: float) -> float:
    return 0.5 - _gap(start, step)


def _lowered_lemma_slack(start: float, step: float) -> float:
    return 0.49 - _gap(start, step)


_LEM21 = Claim(
    id="lf.lem2.1",
    title="descent lemma",
    source=Source("lf", "Lemma 2.1"),
    statement=r"If $\nabla f$ is Lipschitz with constant $L$: $f(v)\le f(w)+\nabla f(w)^T(v-w)+\frac L2|v-w|^2$ for all $v,w$.",
    verdict=Verdict.HOLDS,
    conditions=("f is differentiable on the whole space", "its gradient is Lipschitz with constant L"),
    checks=(
        CertificateCheck(
            name="worst case over smooth functions",
            cases=lambda: [(1.0, 1.0), (2.0, 3.0), (0.1, 5.0)],
            problem=_worst_case.descent,
            bound=lambda smoothness, distance: smoothness / 2 * distance**2,
            wrong=lambda smoothness, distance: smoothness / 4 * distance**2,
        ),
        SearchCheck(
            name="log cosh, L = 1",
            box={"start": Range(-5, 5), "step": Range(1e-2, 10, log=True)},
            slack=_lemma_slack,
            wrong=_lowered_lemma_slack,
        ),
    ),
    proved=True,
)

# --- lf.lem3.1 --------------------------------------------------------------------------------------------------------


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


def _right_side(run: Run, reading: str) -> float:
    found = testbed.expectations(run)
    alignments = found.alignment[1:] if reading == "literal" else found.alignment[:-1]
    return printed_bound(
        found.decrease,
        run.learning_rates,
        tuple(alignments.tolist()),
        1.0,
        run.clip,
        run.noise_multiplier,
        run.batch_size,
    )


def _printed(run: Run) -> float:
    return _right_side(run, "literal")


def _reindexed(run: Run) -> float:
    return _right_side(run, "shifted")


def _reindexed_on_quadratic(run: Run) -> float:
    """What the re-indexed right side comes to for the Hessian I: -(1/2) sum eta^2 (E|s^B|^2 + (d - 1) tau^2) / sum eta."""
    moments = testbed.expectations(run).moment
    lost = sum(
        eta**2 * (m + (d - 1) * run.tau**2) for eta, m, d in zip(run.learning_rates, moments, run.dims, strict=True)
    )
    return -float(lost) / 2 / sum(run.learning_rates)


def _squares(dim: int, start: Fraction, eta: Fraction, tau: Fraction, steps: int) -> list[Fraction]:
    """E|theta_t|^2 of DP-SGD without clipping on |theta|^2 / 2, where grad f = s^B = theta, from |theta|^2 = start."""
    values = [start]
    for _ in range(steps):
        values.append((1 - eta) ** 2 * values[-1] + eta**2 * dim * tau**2)
    return values


def _printed_holds(dim: int, start: Fraction, eta: Fraction, tau: Fraction, steps: int, reading: str) -> bool:
    """Is the least E|grad f|^2 over all T + 1 iterates below the printed right side?

    "shifted" sums the inner products over the iterates that the steps start from, "literal" over those that they lead to:
    the lemma has f(theta_0) - E f(theta_T) and the sum over t = 1..T.
    """
    squares = _squares(dim, start, eta, tau, steps)
    met = squares[:-1] if reading == "shifted" else squares[1:]
    decrease = (squares[0] - squares[-1]) / 2
    return min(squares) <= (decrease - eta * sum(met) + steps * eta**2 * tau**2 / 2) / (steps * eta)


_LITERAL_HOLDS = {1: ("0.36", "1.39"), 10: ("0.127", "1.498"), 100: ("0.026", "1.498")}
"""Between which eta L, to the digits given, the bound read literally holds on L |theta|^2 / 2, by the number of steps."""


def _reading_cases() -> list[tuple[int, Fraction, Fraction, Fraction, int, str]]:
    cases = []
    for steps, ends in _LITERAL_HOLDS.items():
        low, high = map(Fraction, ends)
        for eta in (Fraction(1, 100), low - Fraction(1, 500), low, (low + high) / 2, high, high + Fraction(1, 500)):
            cases += [(1, Fraction(1), eta, Fraction(0), steps, reading) for reading in ("shifted", "literal")]
    return cases


def _stated_reading(dim: int, start: Fraction, eta: Fraction, tau: Fraction, steps: int, reading: str) -> bool:
    low, high = map(Fraction, _LITERAL_HOLDS[steps])
    return reading == "literal" and low <= eta <= high


def _slack(**point: float) -> float:
    run = testbed.random_run(frozen=0, **point)
    return _relative(testbed.corrected(run), run)


def _printed_slack(**point: float) -> float:
    run = testbed.random_run(frozen=0, **point)
    return _relative(_reindexed(run), run)


def _relative(value: float, run: Run) -> float:
    """Slack over the size of the terms."""
    return (value - testbed.mean_trained(run)) / _size(run)


def _size(run: Run) -> float:
    terms = testbed.bound(run)
    return abs(terms.optimization) + terms.clipping + terms.noise + abs(terms.bias)


_BOX = {
    "seed": Range(0, 50, integer=True),
    "learning_rate": Range(0.01, 2, log=True),
    "ratio": Range(0.2, 5, log=True),
    "clip": Range(0.05, 5, log=True),
    "noise_multiplier": Range(0, 3),
    "spread": Range(0.1, 5, log=True),
}


def _worst(learning_rate: float, smoothness: float, second_moment: float, noise_energy: float, bias: float) -> float:
    """The corrected bound for one step with decrease 1; noise_energy = d tau^2, here with d = 4."""
    clip = math.sqrt(second_moment)
    sigma = math.sqrt(noise_energy / 4) / clip
    return convergence.layer_freezing_bound(
        1.0, learning_rate, 1, smoothness, clip, sigma, 4, 1, second_moment, bias
    ).value


_STEPS = ((0.5, 1.0, 10.0, 1.0, -1.0), (0.3, 2.0, 20.0, 0.5, -0.5), (1.2, 1.0, 8.0, 2.0, 0.0))

_LEM31 = Claim(
    id="lf.lem3.1",
    title="convergence bound of DP-SGD",
    source=Source("lf", "Lemma 3.1, appendix A"),
    statement=r"$\min_tE|\nabla f_t|^2\le\big(f(\theta_0)-Ef(\theta_T)-\sum_t\eta_tE[\cos(\gamma_t^B)|\nabla f_t||s_t^B|]"
    r"+\sum_t\eta_t^2\frac L{2B^2}\sigma^2C^2\big)/\sum_t\eta_t$.",
    verdict=Verdict.FALSE,
    conditions=(
        "f is L-smooth; nothing is asked of the private gradient",
        "no momentum",
        "noise of mean zero and covariance tau^2 I on the d parameters trained, independent of the batch",
        "step sizes fixed in advance",
    ),
    correction=r"$\min_tE|\nabla f_t|^2\le\big(f_1-Ef_{T+1}-\sum_t\eta_tE\langle\nabla f_t,b_t\rangle+\frac L2\sum_t\eta_t^2"
    r"(E|s_t^B|^2+d\tau^2)\big)/\sum_t\eta_t$, $\tau=\sigma C/B$, $b_t=E[s_t^B]-\nabla f_t$; equality for the weighted mean of "
    r"$E|\nabla f_t|^2$ if $f=\frac L2|\theta|^2$. There the printed right side, re-indexed to the iterates that the steps start from, is $\le0$: for every step size, clip and noise. "
    r"Read literally, at those they lead to, it can hold: on $\frac L2|\theta|^2$ without clipping and noise for $\eta L$ in .36..1.39 ($T=1$), .13..1.49 (10), .03..1.49 (100). "
    r"lf.appA.moment and lf.appA.bias are its two mistakes, each alone.",
    printed=printed_bound,
    calculators=(convergence.layer_freezing_bound,),
    checks=(
        ExactCheck(
            name="fails on |theta|^2 / 2 under either reading of the indices",
            cases=lambda: [
                (dim, Fraction(start), Fraction(1, 10), Fraction(tau), steps, reading)
                for dim, start, tau, steps in ((1, 1, 0, 1), (1, 1, 0, 5), (1, 1, 1, 1), (2, 0, 1, 1), (100, 1, 1, 20))
                for reading in ("shifted", "literal")
            ],
            truth=_printed_holds,
            statement=lambda *case: False,
            wrong=lambda *case: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="corrected bound: equality on quadratics, by enumeration",
            cases=lambda: [(run,) for run in RUNS],
            truth=testbed.mean_trained,
            statement=testbed.corrected,
            wrong=_printed,
            tolerance=1e-12,
        ),
        ExactCheck(
            name="where either reading holds on |theta|^2 / 2, in fractions",
            cases=_reading_cases,
            truth=_printed_holds,
            statement=_stated_reading,
            wrong=lambda *case: False,  # false on every quadratic
        ),
        ExactCheck(
            name="re-indexed right side on quadratics",
            cases=lambda: [(run,) for run in RUNS],
            truth=_reindexed,
            statement=_reindexed_on_quadratic,
            wrong=_printed,
            tolerance=1e-10,
        ),
        ExactCheck(
            name="re-indexed right side on quadratics is not above zero",
            cases=lambda: [(run,) for run in RUNS],
            truth=lambda run: _reindexed(run) <= 0,
            statement=lambda run: True,
            wrong=lambda run: testbed.corrected(run) <= 0,
        ),
        SearchCheck(
            name="corrected bound on clipped log cosh problems",
            box=_BOX,
            slack=_slack,
            wrong=_printed_slack,
        ),
        CertificateCheck(
            name="worst case of one private step over smooth functions",
            cases=lambda: _STEPS,
            problem=_worst_case.frozen_step,
            bound=_worst,
            wrong=lambda eta, L, moment, energy, bias: _worst(eta, L, 1e-9, energy / 4, bias),  # E|s^P|^2 = tau^2
        ),
    ),
    proved=True,
    figure="freezing_bounds",
)

# --- lf.freeze_bound --------------------------------------------------------------------------------------------------


def _frozen_later(**point: float) -> Run:
    return testbed.random_run(frozen=1, **point)


def _frozen_slack(**point: float) -> float:
    return _relative(testbed.corrected(_frozen_later(**point)), _frozen_later(**point))


def _whole_slack(**point: float) -> float:
    """The wrong statement that the bound holds for the whole gradient, frozen layers included."""
    run = _frozen_later(**point)
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
    before, after = _squares(dim, Fraction(0), eta, tau, 1)
    return (after - before) / 2 / eta


def _break_even(sizes: tuple[int, ...], frozen: int, eta: Fraction, tau: Fraction) -> float:
    found = freezing_bound.freezing_bounds(sizes, frozen, 1.0, float(eta), 7, 1.0, 2.0, float(tau), 2)
    return found.largest_frozen_gradient


def _trained(step: _poisson.Step, which: str) -> _poisson.Step:
    """The step with all layers trained, or with the first of two frozen: the second has the entries that are kept."""
    return step if which == "frozen" else dataclasses.replace(step, kept=step.dim)


def _bounds(step: _poisson.Step, given: bool) -> freezing_bound.FreezingBounds:
    """``given``: nine tenths of the largest second moments, and biases of 1/4 and -1/2."""
    moment = 0.9 * _trained(step, "full").moment
    return freezing_bound.freezing_bounds(
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
    return (testbed.alignment_bound(run) - testbed.mean_alignment(run)) / _size(run)


def _square_slack(**point: float) -> float:
    """The wrong statement that it bounds the squared gradient: where gradients are clipped it does not."""
    run = testbed.random_run(frozen=1, **point)
    return (testbed.alignment_bound(run) - testbed.mean_trained(run)) / _size(run)


_FREEZE_BOUND = Claim(
    id="lf.freeze_bound",
    title="what freezing does to the bound",
    source=Source("lf", "Lemma 3.1 under Algorithm 1 (ours)"),
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
    calculators=(convergence.layer_freezing_bound, freezing_bound.freezing_bounds),
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
            box={**_BOX, "poisson": Range(0, 1, integer=True)},
            slack=_alignment_slack,
            wrong=_square_slack,
        ),
        SearchCheck(
            name="log cosh problems, one coordinate frozen at the second step",
            box=_BOX,
            slack=_frozen_slack,
            wrong=_whole_slack,
        ),
        CertificateCheck(
            name="worst case of one step that moves one block alone",
            cases=lambda: _STEPS,
            problem=_worst_case.frozen_step,
            bound=_worst,
            wrong=lambda eta, L, moment, energy, bias: _worst(eta, L, moment, 2 * energy, bias),  # noise of both blocks
        ),
    ),
    proved=True,
    figure="freezing_bounds",
)

CLAIMS: tuple[Claim, ...] = (_LEM21, _LEM31, _FREEZE_BOUND, *_appendix_a.CLAIMS)
