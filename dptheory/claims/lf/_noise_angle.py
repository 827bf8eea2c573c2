"""LF: what the mean square and the variance of the noise angle do when the clipped signal grows."""

import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
from scipy.special import gammaincinv

from dptheory import gradients
from dptheory.checks import ExactCheck, Kind, MeanCheck, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.lf._angle_samples import angles_drawn, half_squares, opposed_half_squares, squares
from dptheory.claims.lf._real_dimension import folded_means

# --- lf.appC.second_moment --------------------------------------------------------------------------------------------


def _clipped_sum(samples: tuple[tuple[Fraction, Fraction, Fraction], ...], frozen: bool) -> Fraction:
    """Squared norm of the sum of clipped trainable gradients, C = 1: entries are (x, y, frozen norm squared)."""
    x, y = Fraction(0), Fraction(0)
    for first, second, rest in samples:
        square = first**2 + second**2 + (0 if frozen else rest)
        size = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
        assert size**2 == square
        scale = min(1 / size, Fraction(1))
        x, y = x + scale * first, y + scale * second
    return x**2 + y**2


_CANCELLING = ((Fraction(1), Fraction(0), Fraction(0)), (Fraction(-48, 25), Fraction(14, 25), Fraction(12)))
_ALIGNED = ((Fraction(1), Fraction(0), Fraction(0)), (Fraction(48, 25), Fraction(14, 25), Fraction(12)))


def _second_moment_falls(samples: tuple[tuple[Fraction, Fraction, Fraction], ...], snr: float) -> bool:
    """E angle^2 after freezing against before, at snr = ``snr`` times the norm of the sum; d = 2."""
    before, after = (
        gradients.DistortionAngle(2, snr * math.sqrt(_clipped_sum(samples, frozen))).second_moment()
        for frozen in (False, True)
    )
    return after < before


def _second_moment_slack(dim: float, share: float, factor: float) -> float:
    d = round(dim)
    low, high = (gradients.DistortionAngle(d, f * share * math.sqrt(d)).second_moment() for f in (1.0, factor))
    return low / high - 1


def _second_moment_fast_slack(dim: float, share: float, factor: float) -> float:
    """Wrong statement: it falls like 1 / snr^2 or faster."""
    d = round(dim)
    low, high = (gradients.DistortionAngle(d, f * share * math.sqrt(d)).second_moment() for f in (1.0, factor))
    return low / high / factor**2 - 1


def _mean_square_angle(dim: int, snr: float) -> float:
    """E of the squared angle between e and snr e + noise, from the normal part along e and the length across it."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    across = np.sqrt(2.0 * gammaincinv((dim - 1) / 2, (np.arange(4000) + 0.5) / 4000))
    return float((weights / weights.sum()) @ np.square(np.arctan2(across, (snr + nodes)[:, None])).mean(axis=1))


_APPC = Claim(
    id="lf.appC.second_moment",
    title="mean squared noise angle falls",
    source=Source("lf", "Appendix C, last display"),
    statement=r"Freezing lowers the mean squared angle between $s^B$ and $s^B + z$ on the trainable parameters: "
    r"$E[(\gamma^{BP,a})^2]\le E[(\gamma^{BP,b})^2]$.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "|s^B| after freezing >= |s^B| before, in every batch or in law over the batches (does not follow from freezing: lf.lem3.2b)",
        "same tau and same trainable parameters before and after",
    ),
    correction=r"Given the batch, $E[(\gamma^{BP})^2]$ is strictly decreasing in $\kappa = \|s^B\|/\tau$, because $\gamma^{BP}$ falls in law; so it "
    r"falls if and only if $\|s^B\|$ rises. It can rise under Assumptions 3.1 and 3.2: clipped gradients may cancel more after freezing.",
    calculators=(gradients.DistortionAngle.second_moment,),
    checks=(
        MeanCheck(
            name="mean squared angle, d = 30, snr = 2",
            sampler=partial(squares, dim=30, snr=2.0),
            claimed=lambda: gradients.DistortionAngle(30, 2.0).second_moment(),
            wrong=lambda: gradients.DistortionAngle(30, 2.0).mean() ** 2,
            row_bytes=720,
        ),
        SearchCheck(
            name="falls as snr rises",
            box={"dim": Range(2, 1e9, log=True), "share": Range(1e-3, 1e6, log=True), "factor": Range(1.0, 2.0)},
            slack=_second_moment_slack,
            wrong=_second_moment_fast_slack,
            tolerance=1e-11,
        ),
        ExactCheck(
            name="two samples, norms in fractions: rises where the clipped gradients cancel",
            cases=lambda: [(samples, snr) for samples in (_CANCELLING, _ALIGNED) for snr in (0.1, 5.0)],
            truth=lambda samples, snr: _clipped_sum(samples, True) > _clipped_sum(samples, False),
            statement=_second_moment_falls,
            wrong=lambda samples, snr: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="users' sizes, by quadrature over both parts of the noise",
            cases=lambda: [(d, share) for d in (20_000, 10**6) for share in (0.1, 1.0, 4.0)],
            truth=lambda d, share: _mean_square_angle(d, share * math.sqrt(d)),
            statement=lambda d, share: gradients.DistortionAngle(d, share * math.sqrt(d)).second_moment(),
            wrong=lambda d, share: _mean_square_angle(d, 1.01 * share * math.sqrt(d)),
            tolerance=1e-5,
        ),
    ),
    proved=True,
)

# --- lf.prop3.1.2 -----------------------------------------------------------------------------------------------------


def printed_variance(dim: int, snr: float) -> float:
    """Var = E angle^2, from the printed E angle = 0."""
    return gradients.DistortionAngle(dim, snr).second_moment()


def _variance_over_batches(dim: int, snrs: tuple[float, ...]) -> float:
    """Variance over equally likely batches and the noise."""
    found = [gradients.DistortionAngle(dim, snr) for snr in snrs]
    means = np.array([angle.mean() for angle in found])
    return float(np.mean([angle.var() for angle in found]) + means.var())


def _rises_by_fractions(before: Fraction, after: Fraction) -> bool:
    """d = 10, two batches at snr ``before`` each; then one at ``after``: lower bound after against upper bound before.

    Before: at most the variance without a signal, pi^2 / 12 - (1 + 1/4 + 1/9 + 1/16) / 2. After: at least a quarter of the
    squared difference of the means; that at snr k is at least pi / 2 - k sqrt(pi / 2) and, for k >= 20, at most 6 / k + 1e-20.
    """
    assert after >= 20
    below, above = Fraction(31415, 10000), Fraction(31416, 10000)  # pi
    most_before = above**2 / 12 - (1 + Fraction(1, 4) + Fraction(1, 9) + Fraction(1, 16)) / 2
    apart = below / 2 - before * Fraction(126, 100) - 6 / after - Fraction(1, 10**20)
    return apart > 0 and apart**2 / 4 > most_before


def _slope_slack(excess: float, snr: float) -> float:
    """dVar / dkappa < 0 for every real d = 1 + excess."""
    rho, p = folded_means(1 + excess, snr)
    return p / rho - 1


def _steeper_slope_slack(excess: float, snr: float) -> float:
    """Wrong statement: with a margin of 5 %."""
    return _slope_slack(excess, snr) - 0.05


def _variance_slack(dim: float, share: float, factor: float) -> float:
    d = round(dim)
    low, high = (gradients.DistortionAngle(d, f * share * math.sqrt(d)).var() for f in (1.0, factor))
    return low / high - 1


def _fast_variance_slack(dim: float, share: float, factor: float) -> float:
    """Wrong statement: the variance falls like 1 / snr^2 or faster."""
    return (1 + _variance_slack(dim, share, factor)) / factor**2 - 1


_PROP312 = Claim(
    id="lf.prop3.1.2",
    title="variance of the noise angle falls",
    source=Source("lf", "Proposition 3.1 (2)"),
    statement=r"Under Assumptions 3.1 and 3.2 freezing lowers the variance, over data sampling and noise, of the angle between $s^B$ and "
    r"$s^P$ on the trainable parameters; the proof says $E[\gamma^{BP}] = 0$, so $\mathrm{Var}[\gamma^{BP}] = E[(\gamma^{BP})^2]$.",
    verdict=Verdict.FALSE,
    conditions=("the corrected statement is given the batch: s^B fixed, |s^B| not smaller after freezing",),
    correction=r"$E\gamma^{BP}>0$. Over the batches $\mathrm{Var} = E\,\mathrm{Var}(\cdot|batch)+\mathrm{Var}\,E(\cdot|batch)$ and the second term can rise: "
    r".1107 to .5595 although $\|s^B\|$ falls in no batch. Given the batch it needs that $\|s^B\|$ does not fall (lf.lem3.2b), and then is a theorem: $\mathrm{Var}(\gamma^{BP}|batch)$ is strictly decreasing in "
    r"$\kappa = \|s^B\|/\tau$, for every real $d>1$.",
    printed=printed_variance,
    calculators=(gradients.DistortionAngle.var, gradients.DistortionAngle.mean),
    checks=(
        ExactCheck(
            name="d = 10, two batches: snr 1/50 and 1/50 before, 1/50 and 20 after",
            cases=lambda: [(Fraction(1, 50), Fraction(20))],
            truth=_rises_by_fractions,
            statement=lambda before, after: (
                _variance_over_batches(10, (float(before), float(after)))
                > _variance_over_batches(10, (float(before), float(before)))
            ),
            wrong=lambda before, after: False,
            kind=Kind.COUNTEREXAMPLE,
        ),
        MeanCheck(
            name="variance given the batch, d = 20, snr = 3",
            sampler=partial(half_squares, dim=20, snr=3.0),
            claimed=lambda: gradients.DistortionAngle(20, 3.0).var(),
            wrong=lambda: printed_variance(20, 3.0),
            row_bytes=960,
        ),
        MeanCheck(
            name="mean given the batch, d = 20, snr = 3",
            sampler=partial(angles_drawn, dim=20, snr=3.0),
            claimed=lambda: gradients.DistortionAngle(20, 3.0).mean(),
            wrong=lambda: 0.0,
            row_bytes=480,
        ),
        SearchCheck(
            name="the slope of the variance, real dimensions",
            box={"excess": Range(0.05, 99.0, log=True), "snr": Range(1e-3, 30.0, log=True)},
            slack=_slope_slack,
            wrong=_steeper_slope_slack,
        ),
        ExactCheck(
            name="the variance falls as snr rises",
            cases=lambda: itertools.product(
                (2, 3, 10, 1000, 10**6, 10**9), (0.01, 0.1, 0.5, 1.0, 3.0, 30.0, 1e4), (1.001, 1.1, 2.0)
            ),
            truth=lambda *case: True,
            statement=lambda *case: _variance_slack(*case) >= -1e-10,
            wrong=lambda *case: _fast_variance_slack(*case) >= -1e-10,
        ),
    ),
    proved=True,
)

# --- lf.prop3.1.3.sum -------------------------------------------------------------------------------------------------


def printed_sum(bias_variance: float, dim: int, snr: float) -> float:
    """Var gamma as the sum of the variances."""
    return bias_variance + gradients.DistortionAngle(dim, snr).var()


def _opposed_variance(dim: int, snr: float) -> float:
    """Var gamma where s^B points along or against the gradient with equal chances and has one norm."""
    angle = gradients.DistortionAngle(dim, snr)
    return angle.var() + (math.pi / 2 - angle.mean()) ** 2


def _variance_of_two(chance: Fraction) -> Fraction:
    """Variance of an angle that is pi with this chance and 0 otherwise, in units of pi^2."""
    return chance * (1 - chance)


def _flipped(against: Fraction, flip: Fraction) -> Fraction:
    """Chance that s^P points against the gradient on a line, by enumeration."""
    chances = {(b, n): (against if b else 1 - against) * (flip if n else 1 - flip) for b in (0, 1) for n in (0, 1)}
    return sum((p for (b, n), p in chances.items() if b != n), Fraction(0))


_SUM = Claim(
    id="lf.prop3.1.3.sum",
    title="variances add up",
    source=Source("lf", "Proposition 3.1 (3), proof"),
    statement=r"$\mathrm{Var}[\gamma] = \mathrm{Var}[\gamma^B]+\mathrm{Var}[\gamma^{BP}]$ since the noise is drawn independently.",
    verdict=Verdict.FALSE,
    conditions=("z independent of the batch",),
    correction=r"$\gamma$ is not the sum of the two, the mistake of lf.def3.2 again, and $\gamma^{BP}$ depends on the batch through $\|s^B\|$. What holds: "
    r"$\mathrm{Var}\gamma = E\,\mathrm{Var}(\gamma|batch)+\mathrm{Var}\,E(\gamma|batch)$, where given the batch "
    r"$\cos\gamma = \cos\gamma^B\cos\gamma^{BP}+\sin\gamma^B\sin\gamma^{BP}\cos\phi$ with $\cos\phi$ the first entry of a uniform unit vector of "
    r"$\mathbb R^{d-1}$, independent of $\gamma^{BP}$. With $s^B$ along or against $\nabla f$ with equal chances and one norm: "
    r"$\mathrm{Var}\gamma = \mathrm{Var}\gamma^{BP}+(\pi/2-E\gamma^{BP})^2$ instead of $\mathrm{Var}\gamma^{BP}+\pi^2/4$.",
    printed=printed_sum,
    calculators=(gradients.DistortionAngle.var, gradients.DistortionAngle.mean),
    checks=(
        ExactCheck(
            name="on a line, in fractions of pi^2",
            cases=lambda: [(Fraction(1, 2), Fraction(1, n)) for n in (3, 4, 10)],
            truth=lambda against, flip: _variance_of_two(_flipped(against, flip)),
            statement=lambda against, flip: _variance_of_two(against * (1 - flip) + (1 - against) * flip),
            wrong=lambda against, flip: _variance_of_two(against) + _variance_of_two(flip),
            kind=Kind.COUNTEREXAMPLE,
        ),
        MeanCheck(
            name="s^B along or against the gradient, d = 10, snr = 2",
            sampler=partial(opposed_half_squares, dim=10, snr=2.0),
            claimed=lambda: _opposed_variance(10, 2.0),
            wrong=lambda: printed_sum(math.pi**2 / 4, 10, 2.0),
            row_bytes=560,
        ),
    ),
    part_of="lf.def3.2",
    proved=True,
)

CLAIMS: tuple[Claim, ...] = (_APPC, _PROP312, _SUM)
