"""LF: the descent lemma and the convergence bound."""

import math
from fractions import Fraction

import numpy as np

from dptheory import convergence, freezing_bound
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
    """Right side of Lemma 3.1 as printed; alignments = E[cos(gamma^B) |grad f| |s^B|] of the steps."""
    aligned = sum(eta * a for eta, a in zip(learning_rates, alignments, strict=True))
    noise = smoothness / 2 * (noise_multiplier * clip / batch_size) ** 2 * sum(eta**2 for eta in learning_rates)
    return (decrease - aligned + noise) / sum(learning_rates)


def _printed(run: Run) -> float:
    found = testbed.expectations(run)
    alignments = tuple(found.alignment.tolist())
    return printed_bound(
        found.decrease, run.learning_rates, alignments, 1.0, run.clip, run.noise_multiplier, run.batch_size
    )


def _printed_on_quadratic(run: Run) -> float:
    """What the printed right side comes to for the Hessian I: -(1/2) sum eta^2 (E|s^B|^2 + (d - 1) tau^2) / sum eta."""
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


def _slack(**point: float) -> float:
    run = testbed.random_run(frozen=0, **point)
    return _relative(testbed.corrected(run), run)


def _printed_slack(**point: float) -> float:
    run = testbed.random_run(frozen=0, **point)
    return _relative(_printed(run), run)


def _relative(value: float, run: Run) -> float:
    """Slack over the size of the terms."""
    terms = testbed.bound(run)
    size = abs(terms.optimization) + terms.clipping + terms.noise + abs(terms.bias)
    return (value - testbed.mean_trained(run)) / size


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
    r"$E|\nabla f_t|^2$ if $f=\frac L2|\theta|^2$. There the printed right side is $\le0$: for every step size, clip and noise.",
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
            name="printed right side on quadratics is below zero",
            cases=lambda: [(run,) for run in RUNS],
            truth=_printed,
            statement=_printed_on_quadratic,
            wrong=testbed.mean_trained,
            tolerance=1e-10,
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
    ).value


def _energy(sizes: tuple[int, ...], frozen: int, eta: Fraction, tau: Fraction) -> Fraction:
    """What the noise of one step of size eta on the first ``frozen`` blocks adds to E|theta|^2 / 2, over eta."""
    dim = sum(sizes[:frozen])
    before, after = _squares(dim, Fraction(0), eta, tau, 1)
    return (after - before) / 2 / eta


def _break_even(sizes: tuple[int, ...], frozen: int, eta: Fraction, tau: Fraction) -> float:
    found = freezing_bound.freezing_bounds(sizes, frozen, 1.0, float(eta), 7, 1.0, 2.0, float(tau), 2)
    return found.largest_frozen_gradient


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
