"""LF: the convergence bound."""

from fractions import Fraction

from dptheory import convergence
from dptheory.checks import CertificateCheck, ExactCheck, Kind, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.lf import _appendix_a, _freeze_bound, _worst_case
from dptheory.claims.lf import _testbed as testbed
from dptheory.claims.lf._testbed import RUNS, Run

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


def _printed_holds(dim: int, start: Fraction, eta: Fraction, tau: Fraction, steps: int, reading: str) -> bool:
    """Is the least E|grad f|^2 over all T + 1 iterates below the printed right side?

    "shifted" sums the inner products over the iterates that the steps start from, "literal" over those that they lead to:
    the lemma has f(theta_0) - E f(theta_T) and the sum over t = 1..T.
    """
    squares = testbed.squares(dim, start, eta, tau, steps)
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
    return testbed.relative_slack(testbed.corrected(run), run)


def _printed_slack(**point: float) -> float:
    run = testbed.random_run(frozen=0, **point)
    return testbed.relative_slack(_reindexed(run), run)


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
            box=testbed.BOX,
            slack=_slack,
            wrong=_printed_slack,
        ),
        CertificateCheck(
            name="worst case of one private step over smooth functions",
            cases=lambda: _worst_case.STEPS,
            problem=_worst_case.frozen_step,
            bound=_worst_case.bound,
            wrong=lambda eta, L, moment, energy, bias: _worst_case.bound(
                eta, L, 1e-9, energy / 4, bias
            ),  # E|s^P|^2 = tau^2
        ),
    ),
    proved=True,
    figure="freezing_bounds",
)

CLAIMS: tuple[Claim, ...] = (_LEM31, _freeze_bound.FREEZE_BOUND, *_appendix_a.CLAIMS)
