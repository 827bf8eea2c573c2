import math
from fractions import Fraction

from dptheory import convergence, freezing
from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.lf import _testbed as testbed
from dptheory.claims.lf import _worst_case
from dptheory.claims.lf._testbed import RUNS, Run


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


def _printed_slack(**point: float) -> float:
    run = testbed.random_run(frozen=0, **point)
    return testbed.relative_slack(_reindexed(run), run)


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


@lem3_1.equal(_reading_cases)
def _(dim: int, start: Fraction, eta: Fraction, tau: Fraction, steps: int, reading: str) -> Sides:
    """where either reading holds on |theta|^2 / 2, in fractions"""
    false_on_every_quadratic = False
    return (
        _stated_reading(dim, start, eta, tau, steps, reading),
        lambda: _printed_holds(dim, start, eta, tau, steps, reading),
        false_on_every_quadratic,
    )


@lem3_1.equal(lambda: [(run,) for run in RUNS], tolerance=1e-10)
def _(run: Run) -> Sides:
    """re-indexed right side on quadratics"""
    return _reindexed_on_quadratic(run), lambda: _reindexed(run), _printed(run)


@lem3_1.equal(lambda: [(run,) for run in RUNS])
def _(run: Run) -> Sides:
    """re-indexed right side on quadratics is not above zero"""
    return True, _reindexed(run) <= 0, testbed.corrected(run) <= 0


@lem3_1.inequality(testbed.BOX, wrong=_printed_slack)
def _slack(**point: float) -> float:
    """corrected bound on clipped log cosh problems"""
    run = testbed.random_run(frozen=0, **point)
    return testbed.relative_slack(testbed.corrected(run), run)


lem3_1.certificate(
    lambda: _worst_case.STEPS,
    problem=_worst_case.frozen_step,
    wrong=lambda eta, L, moment, energy, bias: _worst_case.bound(eta, L, 1e-9, energy / 4, bias),  # E|s^P|^2 = tau^2
    name="worst case of one private step over smooth functions",
)(_worst_case.bound)


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
