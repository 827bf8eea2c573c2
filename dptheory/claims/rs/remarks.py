"""RS: Remarks 1 to 3, what masking does to SGD, clipped SGD and DP-SGD, and the remark on the deviation at convergence."""

import itertools
import math
from fractions import Fraction

import numpy as np

from dptheory import sparsification
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.rs.kappa import calculated, exact_kappa_of, printed_kappa
from dptheory.montecarlo import ExactCheck, Kind, Range, SearchCheck

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
            name="kappa = sqrt x = 1/2: squared ratio of the tuned bounds",
            cases=lambda: [(Fraction(n),) for n in (0, 1, 10, 1000, 10**6)],
            truth=lambda n: (1 + n / 4) / (1 + n) * 4,
            statement=lambda n: (
                (
                    sparsification.tuned_bound(0.75, 0.5, 1.0, 9.0, 1.0, float(n)).bound
                    / sparsification.tuned_bound(0.0, 1.0, 1.0, 9.0, 1.0, float(n)).bound
                )
                ** 2
            ),
            wrong=lambda n: ((1 + n / 4) / (1 + n) * 2) ** 2,
            tolerance=1e-12,
        ),
        ExactCheck(
            name="threshold of a fixed rate, in fractions",
            cases=lambda: [(Fraction(j, 4), Fraction(n)) for j in (1, 2, 3) for n in (0, 1, 10)],
            truth=lambda x, n: (1 + x * n) / (1 + n),  # kappa at which both bounds agree
            statement=lambda x, n: sparsification.least_kappa(float(1 - x), 1.0, float(n)),
            wrong=lambda x, n: x,
            tolerance=1e-14,
        ),
    ),
    proved=True,
    figure="tradeoff",
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

CLAIMS = (_REM1, _REM2, _REM3, _EQ63)
