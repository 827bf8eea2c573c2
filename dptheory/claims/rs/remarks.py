"""RS: Remarks 1 to 3, what masking does to SGD, clipped SGD and DP-SGD, and the remark on the deviation at convergence."""

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
from scipy.optimize import brentq

from dptheory import sparsification
from dptheory.checks import ExactCheck, Kind, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.rs.kappa import calculated, exact_kappa_of, printed_kappa
from dptheory.claims.rs.tradeoff import least_over_rates

# --- rs.rem1 ----------------------------------------------------------------------------------------------------------


def _noisy_bound(x: float, gap: float, variance: float) -> float:
    """min over g in (0, 1] of (gap / (x g) + g variance / 2) / (1 - g / 2): Theorem 3.2 before its choice of g, G = T = 1."""
    p, q = gap / x, variance / 2
    g = 2 * p / (p + math.sqrt(p * p + 4 * p * q))  # root of q g^2 + p g = p
    return (p / g + q * g) / (1 - g / 2)


def _tuned_remark_slack(x: float, gap: float, variance: float) -> float:
    return _noisy_bound(x, gap, variance) / _noisy_bound(1.0, gap, variance) - 1


def _strong_remark_slack(x: float, gap: float, variance: float) -> float:
    """Wrong statement: the tuned bound is larger by 1 / x."""
    return x * _noisy_bound(x, gap, variance) / _noisy_bound(1.0, gap, variance) - 1


def _mean_squares(start: Fraction, gamma: Fraction, steps: int, keep: Fraction) -> Fraction:
    """Sum over t < steps of E w_t^2 for L = w^2 / 2, noise +-1 and a coordinate kept with chance ``keep``, outcome by outcome."""
    outcomes = ((keep / 2, True, 1), (keep / 2, True, -1), (1 - keep, False, 0))
    total = Fraction(0)
    for path in itertools.product(outcomes, repeat=steps - 1):
        chance, w, along = Fraction(1), start, start**2
        for probability, kept, noise in path:
            chance *= probability
            w = w - gamma * (w + noise) if kept else w
            along += w**2
        total += chance * along
    return total


def _masked_run_is_ahead(start: Fraction, gamma: Fraction) -> bool:
    """Five steps in fractions: mean square gradient with x = 1/2 below that without a mask."""
    return _mean_squares(start, gamma, 5, Fraction(1, 2)) < _mean_squares(start, gamma, 5, Fraction(1))


_REM1 = Claim(
    id="rs.rem1",
    title="masking noisy SGD",
    source=Source("rs", "Remark 1"),
    statement=r"By Theorem 3.2 noisy SGD or vanilla SGD may converge more slowly under RS, as $\|\nabla w_t\|^2$ has a larger upper bound for "
    r"$0 < r < 1$.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "a mask drawn afresh at every step, without momentum: else Theorem 3.2 fails",
        "Delta_L > 0: otherwise the bounds are equal",
        "it compares upper bounds, not runs",
    ),
    correction=r"Under these conditions the bound is larger for $r > 0$, at every fixed learning rate and also at the tuned one. The run itself can be "
    r"ahead with the mask: on $L = w^2/2$ exactly if it starts below the noise floor $\gamma V/(2-\gamma)$, $V$ the noise variance, "
    r"$0 < \gamma < 2$.",
    checks=(
        SearchCheck(
            name="the bound is larger at the tuned rate too",
            box={
                "x": Range(1e-4, 1, log=True),
                "gap": Range(1e-6, 1e6, log=True),
                "variance": Range(1e-6, 1e6, log=True),
            },
            slack=_tuned_remark_slack,
            wrong=_strong_remark_slack,
        ),
        ExactCheck(
            name="runs on w^2 / 2, five steps, all outcomes",
            cases=lambda: [(Fraction(s, 10), Fraction(g, 4)) for s in (0, 1, 4, 6, 20) for g in (1, 2, 4)],
            truth=_masked_run_is_ahead,
            statement=lambda start, gamma: start**2 < gamma / (2 - gamma),
            wrong=lambda start, gamma: False,
            kind=Kind.COUNTEREXAMPLE,
        ),
    ),
    proved=True,
)

# --- rs.rem2 ----------------------------------------------------------------------------------------------------------


def _descent_ratio(first: int, second: int, length: int) -> Fraction:
    """E<w, masked clipped g> over E<w, clipped g> for g = (first, +-second), w = (first, 0), C = 1, r = 1/2, by enumeration."""

    def inner(mask: tuple[int, int], sign: int) -> Fraction:
        g = (first * mask[0], sign * second * mask[1])
        square = g[0] ** 2 + g[1] ** 2
        size = math.isqrt(square)
        if size**2 != square:
            raise ValueError(f"second must make |g| whole, got {second!r}")
        return Fraction(first * g[0]) * min(Fraction(1), Fraction(1, size))

    masked = sum((inner(mask, sign) for mask in ((1, 0), (0, 1)) for sign in (1, -1)), Fraction(0)) / 4
    return masked / sum((inner((1, 1), sign) for sign in (1, -1)), Fraction(0)) * 2


_REM2 = Claim(
    id="rs.rem2",
    title="masking clipped SGD",
    source=Source("rs", "Remark 2 and section 1.1"),
    statement=r"RS could impede clipped SGD as $1/\kappa > 1$ for $r > 0$; without noise its bound is only enlarged, so the trade-off is possibly unique "
    r"to DP-SGD.",
    verdict=Verdict.FALSE,
    conditions=("for kappa <= 1 (P >= sqrt(1 - r)) the bound is not lowered, but need not be enlarged",),
    correction=r"$1/\kappa \ge 1$ under the lemma's condition, with equality possible for $r > 0$; without the condition $1/\kappa$ can be below 1. As to "
    r"the algorithms: for $g = (w_1, \pm b)$ with $w_1 \ge C$, $b \ge C$, $r = \frac12$, batch size 1 and no noise, RS multiplies $E\langle w, \hat g\rangle$ by "
    r"$\|g\|/(2w_1)$, about five for $b = 10w_1$, at the same $E\|\hat g\|^2$.",
    printed=printed_kappa,
    calculators=(sparsification.kappa,),
    checks=(
        ExactCheck(
            name="descent with the mask over descent without",
            cases=lambda: [(3, 4, 5), (9, 40, 41), (21, 220, 221)],
            truth=_descent_ratio,
            statement=lambda first, second, length: Fraction(length, 2 * first),
            wrong=lambda first, second, length: min(Fraction(1), Fraction(length, 2 * first)),
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="1 / kappa = 1 under the condition, 1/2 without",
            cases=lambda: [("equal entries, P = 1/2",), ("equal entries, P = 1/4",)],
            truth=lambda name: 1 / exact_kappa_of(name),
            statement=lambda name: 1 / calculated(name).value,
            wrong=lambda name: 1 / printed_kappa(0.75),
            tolerance=1e-14,
            kind=Kind.COUNTEREXAMPLE,
        ),
    ),
    proved=True,
)

# --- rs.rem3 ----------------------------------------------------------------------------------------------------------


def _noise_reduced(size: int, threshold: int, keep: int) -> bool:
    """(1 - r) / kappa < 1 for four entries of this size, c = threshold, no deviation; keep 1 or 4, so norms are whole."""

    def part(length: int) -> int:
        return min(length, threshold) * length

    kappa = Fraction(part(size * math.isqrt(keep)), part(2 * size))
    return Fraction(keep, 4) / kappa < 1


def _noise_reduced_by_calculator(size: int, threshold: int, keep: int) -> bool:
    found = sparsification.kappa(np.full(4, float(size)), 4.0 * threshold, 1 - keep / 4)
    return found.lower / found.value < 1 - 1e-12


def _tuned(rate: float, kappa: float, noise: Fraction) -> float:
    """Tuned bound for Delta_L = 1, T = 9, A = 1, D = noise."""
    return sparsification.tuned_bound(rate, kappa, 1.0, 9.0, 1.0, float(noise)).bound


def _searched(x: Fraction, kappa: Fraction, noise: Fraction) -> float:
    """The same by a search over the learning rate."""
    return least_over_rates(float(1 + x * noise), 1.0, 9.0) / float(kappa)


_REM3 = Claim(
    id="rs.rem3",
    title="trade-off of DP-SGD",
    source=Source("rs", "Remark 3"),
    statement=r"RS reduces the noise term by $(1-r)/\kappa$ and enlarges the others by $1/\kappa$: a trade-off. The magnitude of $\Delta_\sigma$ against "
    r"the other terms decides between gain and loss.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "1 - r < kappa < 1: at kappa = 1 - r no noise is saved, at kappa = 1 nothing is lost",
        "a fixed learning rate, or kappa > sqrt(1 - r): at the tuned rate kappa <= sqrt(1 - r) never gains",
        "the conditions of Theorem 3.5: a fresh mask, no momentum",
    ),
    correction=r"At a fixed learning rate: gain iff $\kappa > (\Delta_C + x\gamma\Delta_\sigma)/(\Delta_C + \gamma\Delta_\sigma)$. With a learning rate tuned for "
    r"each $r$ and $\kappa \le \sqrt x$ (so whenever $P' = P$) there is no gain, however large $\Delta_\sigma$.",
    calculators=(sparsification.least_kappa, sparsification.tuned_bound),
    checks=(
        ExactCheck(
            name="is noise saved?",
            cases=lambda: [(size, c, keep) for size in (1, 2, 5) for c in (1, 3, 10) for keep in (1, 4)],
            truth=_noise_reduced,
            statement=_noise_reduced_by_calculator,
            wrong=lambda size, c, keep: True if keep < 4 else None,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="kappa = sqrt x = 1/2: squared ratio of the tuned bounds, by search over the learning rate",
            cases=lambda: [(Fraction(n),) for n in (0, 1, 10, 1000, 10**6)],
            truth=lambda n: (
                (_searched(Fraction(1, 4), Fraction(1, 2), n) / _searched(Fraction(1), Fraction(1), n)) ** 2
            ),
            statement=lambda n: (_tuned(0.75, 0.5, n) / _tuned(0.0, 1.0, n)) ** 2,
            wrong=lambda n: ((1 + n / 4) / (1 + n) * 2) ** 2,
            tolerance=1e-9,
        ),
        ExactCheck(
            name="the tuned bounds themselves, by search over the learning rate",
            cases=lambda: [
                (x, k, Fraction(n)) for x, k in ((1, 1), (Fraction(1, 4), Fraction(1, 2))) for n in (0, 1, 1000)
            ],
            truth=_searched,
            statement=lambda x, k, n: _tuned(float(1 - x), float(k), n),
            wrong=lambda x, k, n: _tuned(0.0, 1.0, n) / float(k),
            tolerance=1e-9,
        ),
        ExactCheck(
            name="threshold of a fixed rate: where the bounds with and without the mask meet, by root finding",
            cases=lambda: [(Fraction(j, 4), Fraction(n)) for j in (1, 2, 3) for n in (0, 1, 10)],
            truth=lambda x, n: float(
                brentq(lambda k: float(1 + x * n) / k - float(1 + n), float(x) / 2, 2.0, xtol=1e-15)
            ),
            statement=lambda x, n: sparsification.least_kappa(float(1 - x), 1.0, float(n)),
            wrong=lambda x, n: x,
            tolerance=1e-12,
        ),
    ),
    proved=True,
    figure="tradeoff",
)

# --- rs.larger_clip ---------------------------------------------------------------------------------------------------

_NORM, _STEP, _GAP, _STEPS, _NOISE = Fraction(1, 2), Fraction(1, 2), 2, 2000, Fraction(88, 10)
"""|w|, learning rate, Delta_L, T, and d sigma^2 / B^2 of d = 550,000, sigma = 4, B = 1000; G = 1."""

_CLIPS = tuple(Fraction(c, 10) for c in (1, 5, 10, 15, 20, 40))


def _terms(clip: Fraction) -> tuple[Fraction, Fraction]:
    """Delta_C and the noise term at this clipping norm."""
    curvature = _STEP * clip**2 / 2
    return Fraction(_GAP, _STEPS) / _STEP + curvature, curvature * _NOISE


@cache
def _best_flat_rate(clip: Fraction, dim: int = 10**6) -> float:
    """The rate of least U for ``dim`` entries of equal size, P' = P, by trying every number of entries kept."""
    delta_c, noise = map(float, _terms(clip))
    x = np.arange(1.0, dim + 1) / dim
    descent = np.minimum(x * max(1.0, 4 * float(_NORM / clip)), np.sqrt(x))  # f(x |w|^2), over a constant
    return 1 - (int(np.argmin((delta_c + x * noise) / descent * (1 - 1e-13 * x))) + 1) / dim


def _stated_flat_rate(clip: Fraction) -> float:
    delta_c, noise = _terms(clip)
    return sparsification.optimal_rate_flat(float(delta_c), float(noise), float(_NORM), float(clip))


def _share_kept(clip: Fraction, dim: int) -> float:
    """x of the best rate of ``dim`` equal entries among those tried."""
    delta_c, noise = _terms(clip)
    w = np.full(dim, float(_NORM) / math.sqrt(dim))
    return 1 - sparsification.best_rate(w, float(clip), float(delta_c), float(noise)).rate


def _clip_ratio(kappa_share: float, x: float, gap: float, noise: float, clip: float) -> float:
    """Bound at r over bound at 0 with kappa = x^kappa_share for every clip; G = gamma = 1."""
    a = gap + clip**2 / 2
    masked = sparsification.tradeoff(1 - x, a, noise * clip**2 / 2, x**kappa_share)
    return masked / sparsification.tradeoff(0.0, a, noise * clip**2 / 2, 1.0)


def _larger_clip_slack(clip: float, growth: float, **point: float) -> float:
    return _clip_ratio(**point, clip=clip) / _clip_ratio(**point, clip=clip * growth) - 1


def _much_larger_clip_slack(clip: float, growth: float, **point: float) -> float:
    """Wrong statement: the ratio falls as the clip grows by a tenth of its growth."""
    return _larger_clip_slack(clip, growth, **point) - (growth - 1) / 10


_LARGER_CLIP = Claim(
    id="rs.larger_clip",
    title="larger gains for larger C",
    source=Source("rs", "section 6.1, item (ii), and Appendix J"),
    statement=r"As $\Delta_\sigma \propto \sigma^2C^2$, more can be gained from RS as $C$ increases; RS is beneficial when $C$, $\sigma$, $d$ are large and $B$ is "
    r"small.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "kappa does not fall as C grows: the exact kappa does",
        "a fixed learning rate, Delta_L > 0, zero bias",
        "it compares upper bounds; the accuracies of Figure 2 are observations",
    ),
    correction=r"$C$ cancels in $\Delta_\sigma/(GC^2/2) = d\sigma^2/B^2$; at fixed $\kappa$ a larger $C$ helps only through $\Delta_L/(\gamma T)$, and no $C$ makes up for "
    r"$d\sigma^2/B^2 \le 1/\sqrt x$ where $\kappa \le \sqrt x$. With the exact $\kappa$ there is no gain once $C \ge 4\|w\|$ and $P' = P$. Equal entries, $\|w\| = \gamma = \frac12$, "
    r"$\Delta_L = 2$, $T = 2000$, $d\sigma^2/B^2 = 8.8$: $r^* = 0.795, 0.883, 0.75, 0.4375, 0$ at $C = 0.1, 0.5, 1, 1.5, 2$.",
    calculators=(sparsification.optimal_rate_flat, sparsification.best_rate, sparsification.tradeoff),
    checks=(
        ExactCheck(
            name="best rate of equal entries over C: a million rates tried",
            cases=lambda: [(c,) for c in _CLIPS],
            truth=_best_flat_rate,
            statement=_stated_flat_rate,
            wrong=lambda c: 1 - float(_terms(c)[0] / _terms(c)[1]),  # rises with C
            tolerance=1e-4,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="the same by trying rates, 2,000 and 100,000 entries: share kept",
            cases=lambda: [(c, d) for c in _CLIPS for d in (2000, 10**5)],
            truth=lambda c, d: 1 - _best_flat_rate(c),
            statement=_share_kept,
            wrong=lambda c, d: float(_terms(c)[0] / _terms(c)[1]),
            tolerance=0.04,
        ),
        SearchCheck(
            name="at fixed kappa the ratio of the bounds falls in C",
            box={
                "kappa_share": Range(0, 1),
                "x": Range(0.01, 0.99),
                "gap": Range(1e-6, 1e3, log=True),
                "noise": Range(1e-3, 1e6, log=True),
                "clip": Range(1e-3, 1e3, log=True),
                "growth": Range(1, 10),
            },
            slack=_larger_clip_slack,
            wrong=_much_larger_clip_slack,
        ),
    ),
    proved=True,
)

# --- rs.eq63 ----------------------------------------------------------------------------------------------------------


def _condition_at_minimum(spread: Fraction, clip: Fraction, rate: Fraction) -> bool:
    """L(w) = E (w - x)^2 / 2 for x = +-spread: deviations at its minimum against equation 63, by enumeration."""
    minimum = Fraction(0)
    gradients = [minimum - x for x in (spread, -spread)]
    mean = sum(gradients, Fraction(0)) / 2
    below = Fraction(sum(abs(g - mean) < Fraction(3, 4) * clip for g in gradients), 2)
    return below**2 >= 1 - rate


def _markov_slack(share: float, size: float, keep_share: float) -> float:
    """Two-point deviations 0 and size (C = 1) with E|xi|^2 at the stated limit: P against sqrt x."""
    root = math.sqrt(keep_share)
    limit = 9 / 16 * (1 - root)
    probability = min(1.0, share * limit / size**2)
    below = 1.0 if size < 0.75 else 1.0 - probability
    return below / root - 1


def _twice_markov_slack(share: float, size: float, keep_share: float) -> float:
    """Wrong statement: twice that second moment is enough."""
    return _markov_slack(2 * share, size, keep_share)


_EQ63 = Claim(
    id="rs.eq63",
    title="deviation near convergence",
    source=Source("rs", "Appendix B.3", (63,)),
    statement=r"$P(\|\xi\| < 3C/4) \ge \sqrt{1-r}$ is definitely satisfied as the network converges, as then $\|\nabla w\| \to 0$ and "
    r"$\|\xi\| \to 0$.",
    verdict=Verdict.FALSE,
    conditions=("true if the model interpolates: every example's gradient tends to 0",),
    correction=r"The examples' gradients need not vanish where their mean does. Enough is $E\|\xi\|^2 \le \frac{9C^2}{16}(1 - \sqrt{1-r})$, "
    r"and the constant is the best possible.",
    checks=(
        ExactCheck(
            name="the minimum of E (w - x)^2 / 2, x = +-a",
            cases=lambda: [(Fraction(a, 4), Fraction(1), Fraction(r, 10)) for a in (1, 2, 3, 4, 40) for r in (1, 5, 9)],
            truth=_condition_at_minimum,
            statement=lambda spread, clip, rate: spread < Fraction(3, 4) * clip,
            wrong=lambda spread, clip, rate: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        SearchCheck(
            name="second moment that is enough",
            box={"share": Range(0, 1), "size": Range(0.75, 10, log=True), "keep_share": Range(0.01, 0.99)},
            slack=_markov_slack,
            wrong=_twice_markov_slack,
        ),
    ),
    proved=True,
)

CLAIMS = (_REM1, _REM2, _REM3, _LARGER_CLIP, _EQ63)
