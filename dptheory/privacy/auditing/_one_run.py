r"""A lower bound of epsilon from one run: many canaries, each put in by a fair coin of its own, and guesses of the coins.

Of m coins an attacker guesses r, and says nothing of the others. Were the run (epsilon, delta)-private, a guess would be right with
probability :math:`p = e^\epsilon / (1 + e^\epsilon)` at most, whatever the other coins are, but for what delta allows. So the number of
right guesses has the tail of a binomial law, and a little more. Both bounds are proved on pages of their own: proofs/rs/one_run.md and
proofs/rs/one_run_curve.md.
"""

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import _validate
from dptheory._arrays import ArrayLike
from dptheory.errors import ArgumentError
from dptheory.privacy._composition import Composition
from dptheory.privacy._parts import Step

Array = NDArray[np.float64]

_MOST_CANARIES = 10**7
_MOST_GUESSES = 10**5
_EPSILONS = 256
"""Values of epsilon of the grid from which the largest refuted one is narrowed down."""
_CELLS = 256
"""Pieces into which the mean of the largest masses is cut where the guesses are more."""
_LINES, _STEEPEST, _BEYOND = 20, 40.0, 20.0
"""Values of epsilon whose lines bound a trade-off curve from below; at the largest delta is the least rate asked for over this."""
_SPARE, _LEAST_CLAIM = 1.1, 0.01
"""A claim is refuted by right guesses alone with a tenth to spare; smaller claims are refuted by as many guesses."""
_OCTAVES, _HALVINGS = 24, 7
"""How far the noise is scaled, in powers of two, and how often the last interval is halved."""


@dataclass(frozen=True, kw_only=True)
class OneRunResult:
    """What one run proves, at its confidence.

    Attributes:
        epsilon_lower: epsilon is at least this, >= 0 and finite; see the method for what that means.
        method: "events", which holds for every mechanism, or "trade-off", for a composition whose noise is not known.
        hits: right guesses.
        guesses: of how many coins; nothing is said of the others.
        canaries: coins in all.
        confidence: probability that epsilon_lower is at most the true epsilon, at least.

    Example: half of the guesses are right, so nothing is proved.
        >>> from dptheory.privacy.auditing import OneRunResult
        >>> OneRunResult(epsilon_lower=0.0, method="events", hits=10, guesses=20, canaries=50, confidence=0.95).epsilon_lower
        0.0
    """

    epsilon_lower: float
    method: str
    hits: int
    guesses: int
    canaries: int
    confidence: float


def one_run_epsilon(
    *,
    scores: ArrayLike,
    coins: ArrayLike,
    delta: float,
    confidence: float = 0.95,
    guesses: int | None = None,
    epsilon: float | None = None,
    composition: Composition | None = None,
) -> OneRunResult:
    r"""Lower bound on epsilon from one run in which each of many canaries was put in by a fair coin.

    The canaries with the highest scores are guessed to be in, as many with the lowest ones out, r in all. With right guesses v,
    m canaries and :math:`p = e^\epsilon/(1+e^\epsilon)`, a run that is (epsilon, delta)-private has

    .. math:: P(V \ge v) \le P(\mathrm{Bin}(r, p) \ge v) + \frac{m\delta}{1+e^\epsilon}
        \cdot \frac1r\sum_{n<r}\max_kP(\mathrm{Bin}(n, p) = k),

    and the largest epsilon at which that is below 1 - confidence is refuted, with all smaller ones. This holds for every mechanism.
    With ``composition`` the trade-off curve of that run takes the place of epsilon and delta: the noise multipliers are scaled until
    the curve is no longer refuted. It proves more, and holds for runs that are such a composition at some scale of their noise.

    Decide what to give before the run. Scores of equal size at the edge of the guesses count as wrong first, so that the order of the
    canaries has no part in the result.

    Args:
        scores: of the canaries, shape (m,), any real number or +-inf, m at most 1e7: the higher, the likelier it was in. They may
            depend on all that the run releases and on what is public, not on the coins.
        coins: 1 or True where the canary was in, shape (m,); fair, independent, and independent of all else.
        delta: in (0, 1).
        confidence: in (0, 1).
        guesses: r, even numbers split in half; at least log2(1 / (1 - confidence)), at most m and 1e5. None for the even number next
            to 4 sqrt(m), which proves most or nearly so, or m where that is less.
        epsilon: a claim, in [0, 1e4]. Where so few guesses could not refute it though all were right, they are the fewest that can,
            with a tenth to spare; where none can, they stay. None where there is no claim, or the guesses are given.
        composition: what the run would be at the right noise; None for the bound that needs none.

    Returns:
        The bound, and the guesses that prove it.

    Raises:
        ValueError: an argument outside its range, a NaN score, as many coins as scores not given, or fewer canaries than guesses.

    Source: on RS, Theorem 3.1, after Steinke, Nasr and Jagielski, Privacy auditing with one training run, and Mahloujifar, Melis and
    Chaudhuri, Auditing f-differential privacy in one run; with proofs of our own (rs.one_run, rs.one_run_curve).

    Example: every guess is right.
        >>> import numpy as np
        >>> from dptheory.privacy.auditing import one_run_epsilon
        >>> coins = np.arange(1000) % 2
        >>> found = one_run_epsilon(scores=coins, coins=coins, delta=1e-5)
        >>> found.hits, found.guesses, round(found.epsilon_lower, 3)
        (126, 126, 3.727)
    """
    values = _validate.numbers_and_infinities("scores", _validate.booleans_as_numbers(scores))
    if values.ndim != 1 or not 1 <= values.size <= _MOST_CANARIES:
        raise ArgumentError("scores", f"be one-dimensional with 1..10^7 scores; got shape {values.shape}", scores)
    tossed = _validate.zeros_and_ones("coins", coins)
    if tossed.shape != values.shape:
        raise ArgumentError("coins", f"have one coin a score, {values.size}; got shape {tossed.shape}", coins)
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    confidence = _validate.real("confidence", confidence, 0.0, 1.0, ends="()")
    level = 1.0 - confidence
    least = max(1, math.ceil(-math.log2(level)))
    if values.size < least:
        raise ArgumentError(
            "scores", f"hold at least {least}: with fewer no outcome proves epsilon > 0 at this confidence", scores
        )
    if guesses is None:
        guesses = _usual(values.size, delta, level, epsilon, composition is not None)
    elif epsilon is not None:
        raise ArgumentError("epsilon", "be left out where the guesses are given", epsilon)
    guesses = _validate.integer("guesses", guesses, least, min(values.size, _MOST_GUESSES))
    hits = _hits(values, tossed > 0, guesses)
    if composition is None:
        found = _largest_refuted(hits, guesses, values.size, delta, level)
    else:
        _validate.instance("composition", composition, Composition)
        found = _least_leak(hits, guesses, values.size, composition, delta, level)
    return OneRunResult(
        epsilon_lower=found,
        method="events" if composition is None else "trade-off",
        hits=hits,
        guesses=guesses,
        canaries=values.size,
        confidence=confidence,
    )


def _usual(canaries: int, delta: float, level: float, epsilon: float | None, curved: bool) -> int:
    """The number of guesses that shows most of moderate epsilons, and can refute the claim with some to spare."""
    most = min(canaries, _MOST_GUESSES)
    guesses = max(math.ceil(-math.log2(level)), min(most, 2 * round(2 * math.sqrt(canaries))))
    if epsilon is None:
        return guesses
    claim = _SPARE * _validate.real("epsilon", epsilon, 0.0, 1e4)
    if curved:  # the Gaussian curve of the claim: what the run will be is not known before
        one = Composition((Step(noise_multiplier=1.0, sampling_rate=1.0, count=1),))
        shift = 1.0 / one.noise_scale(epsilon=min(max(claim, _LEAST_CLAIM), _STEEPEST), delta=delta)

        def curve(right: float) -> float:
            return float(scipy.special.ndtr(scipy.special.ndtri(right) - shift))

        def refuted(all_right: int) -> bool:
            return _least_mass(curve, all_right, all_right, canaries, level) > 1.0
    else:

        def refuted(all_right: int) -> bool:
            return _largest_refuted(all_right, all_right, canaries, delta, level) > claim

    if not refuted(most):
        return guesses  # the claim is out of reach: these prove most of what is not
    # with all guesses right, more refute more; each that is not needed is a canary that shows less
    return guesses + bisect.bisect_left(range(guesses, most), True, key=refuted)


def _hits(scores: Array, coins: NDArray[np.bool_], guesses: int) -> int:
    """Right guesses, wrong ones first among equal scores: at most what any way of breaking ties would give."""
    top, bottom = guesses - guesses // 2, guesses // 2
    highest = np.lexsort((coins, -scores))[:top]
    lowest = np.lexsort((~coins, scores))[:bottom]
    return int(coins[highest].sum() + (~coins[lowest]).sum())


# --- for every mechanism ------------------------------------------------------------------------------------------------


def _chance(hits: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """Bound of the probability of so many hits or more under (epsilon, delta)-privacy (rs.one_run)."""
    p, wrong = 1.0 / (1.0 + math.exp(-epsilon)), 1.0 / (1.0 + math.exp(epsilon))
    tail = 1.0 if hits == 0 else float(scipy.special.betainc(hits, guesses - hits + 1.0, p))
    return tail + canaries * delta * wrong * _mean_mass(guesses, p)


def _mean_mass(guesses: int, p: float) -> float:
    """Mean over n < guesses of the largest mass of Bin(n, p); where they are many, a bound of it, as these masses fall with n."""
    starts = np.arange(guesses)
    if guesses > _CELLS:
        starts = np.unique(np.geomspace(1, guesses, _CELLS).astype(int))
        starts = np.append(0, starts[starts < guesses])
    lengths = np.diff(np.append(starts, guesses))
    n = starts.astype(np.float64)
    k = np.minimum(np.floor((n + 1.0) * p), n)  # the mode
    ways = scipy.special.gammaln(n + 1) - scipy.special.gammaln(k + 1) - scipy.special.gammaln(n - k + 1)
    masses = np.exp(ways + scipy.special.xlogy(k, p) + scipy.special.xlog1py(n - k, -p))
    return float(lengths @ np.minimum(masses, 1.0)) / guesses


def _largest_refuted(hits: int, guesses: int, canaries: int, delta: float, level: float) -> float:
    """The largest epsilon whose bound is below the level: a run that is private at a smaller one is so at this one too."""
    if hits == 0:
        return 0.0
    rate = float(
        scipy.special.betaincinv(hits, guesses - hits + 1.0, level)
    )  # beyond it the binomial tail is too large
    top = math.log(rate) - math.log1p(-rate) if rate < 1.0 else _STEEPEST
    if top <= 0.0:
        return 0.0

    def refuted(epsilon: float) -> bool:
        return _chance(hits, guesses, canaries, epsilon, delta) < level

    grid = np.linspace(top, 0.0, _EPSILONS)
    place = next((i for i, one in enumerate(grid) if refuted(float(one))), None)
    if place is None:
        return 0.0
    low, high = float(grid[place]), float(grid[max(place - 1, 0)])
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


# --- for a composition whose noise is not known -------------------------------------------------------------------------


def _least_leak(hits: int, guesses: int, canaries: int, composition: Composition, delta: float, level: float) -> float:
    """Epsilon at the least noise that is refuted, to half a per cent of it: whoever adds more is private as whoever adds less."""
    if _least_mass(lambda right: right, hits, guesses, canaries, level) <= 1.0:
        return 0.0  # not even noise without end is refuted

    def refuted(octave: float) -> bool:
        curve = _inverse_curve(composition.scaled(math.exp2(octave)), level * hits / canaries)
        return _least_mass(curve, hits, guesses, canaries, level) > 1.0

    bad = refuted(0.0)
    octave = next((k for k in range(1, _OCTAVES) if refuted(-k if bad else k) != bad), _OCTAVES)
    if octave == _OCTAVES and not bad:
        return 0.0
    high = float(1 - octave if bad else octave)  # refuted; one octave less is not, or was not tried
    low = high - 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if refuted(middle) else (middle, high)
    return composition.scaled(math.exp2(high)).epsilon(delta).lower


def _inverse_curve(run: Composition, least: float) -> Callable[[float], float]:
    """The least false positive rate at a true positive rate, from below; it is close from the rate ``least`` on.

    For every line its mirror image is there, so that the curve of all lines is its own inverse, as the proof needs.
    """
    top = max(run.epsilon(least / _BEYOND).upper, 0.1)
    epsilons = np.minimum(top, _STEEPEST) * np.linspace(0.0, 1.0, _LINES)
    kept = 1.0 - np.array([run.delta(float(one)).upper for one in epsilons])
    slopes = np.exp(epsilons)
    heights, falls = np.concatenate([kept, kept / slopes]), np.concatenate([slopes, 1.0 / slopes])
    return lambda right: max(0.0, float((heights - falls * (1.0 - right)).max()))


def _least_mass(inverse_curve: Callable[[float], float], hits: int, guesses: int, canaries: int, level: float) -> float:
    """The least probability of all outcomes together, where ``hits`` or more have the probability ``level`` (rs.one_run_curve)."""
    right, wrong = level * hits / canaries, level * (guesses - hits) / canaries
    for count in range(hits, 0, -1):
        more = max(0.0, inverse_curve(min(right, 1.0)) - wrong)
        wrong += more
        right += more * (count - 1) / (guesses - count + 1)
    return (right + wrong) * canaries / guesses
