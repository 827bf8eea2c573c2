r"""Privacy audits: a lower bound on epsilon from what an attack scores with and without one example.

A mechanism that is (epsilon, delta)-differentially private has, for every set S of outputs and either order of the two worlds,
:math:`P(S) \le e^\epsilon Q(S) + \delta`. An attack is a score of the output. The first half of the scores chooses a threshold;
the other half, which had no part in the choice, gives Clopper-Pearson bounds for it. So the bound holds at the stated
confidence whatever the score is, and however the threshold was chosen.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.privacy.methods.gaussian._gaussian import gaussian_epsilon

Array = NDArray[np.float64]

AUDIT_METHODS = ("events", "gaussian")
_CANDIDATES = 400  # thresholds tried; close ones differ by less than the statistical error
_MOST_SCORES = 10**12
_HUGE = float(np.finfo(np.float64).max)


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """What an audit proves, at its confidence.

    Attributes:
        epsilon_lower: epsilon is at least this, >= 0 and finite; see the method for what that means.
        method: "events" or "gaussian".
        event: the outputs whose probability was bounded: scores "above" the threshold or "below" it.
        likelier: the world, "with" or "without" the example, in which that event was expected to be the likelier one.
        threshold: of the score; about +-9e307 where infinite scores alone were the best evidence.
        confidence: probability, over the trials, that epsilon_lower is at most the true epsilon, at least.
        trials: (with, without): the held-out scores that the bound rests on, half of those given.
        likelier_rate: lower confidence bound on the event's probability in the likelier world.
        other_rate: upper confidence bound on its probability in the other world.
    """

    epsilon_lower: float
    method: str
    event: str
    likelier: str
    threshold: float
    confidence: float
    trials: tuple[int, int]
    likelier_rate: float
    other_rate: float


def audit(
    *,
    scores_with: ArrayLike,
    scores_without: ArrayLike,
    delta: float,
    confidence: float = 0.99,
    method: str = "events",
) -> AuditResult:
    r"""Lower bound on epsilon from independent scores of a mechanism's output with and without one example.

    With lower bound p on the probability of the chosen event in one world and upper bound q in the other, each of which fails
    with probability (1 - confidence) / 2 at most,

    .. math:: \epsilon \ge \log\frac{p - \delta}{q} \;\text{("events")},\qquad
        \mu \ge \Phi^{-1}(p) - \Phi^{-1}(q),\; \epsilon \ge \epsilon_\mu(\delta) \;\text{("gaussian")} .

    "events" holds for every mechanism. "gaussian" bounds the mu of Gaussian differential privacy: no mechanism with a smaller
    mu has such error rates. The epsilon that it reports is that of the Gaussian mechanism with this mu, so it refutes claims
    of Gaussian privacy, and bounds the true epsilon only where the trade-off curve is that of a Gaussian mechanism: one
    Gaussian release, or several, without subsampling or a random mask. It is the more powerful one there.

    Both orders of the worlds and both sides of the threshold are tried on the first half; one of the four is tested.

    Args:
        scores_with: one score per trial, any real number or +-inf, shape (n,); the trials are independent and alike.
        scores_without: the same without the example, shape (m,).
        delta: in (0, 1).
        confidence: in (0, 1).
        method: "events" or "gaussian".

    Returns:
        The bound, the event and the threshold that prove it.

    Raises:
        ValueError: an argument outside its range, a NaN score, or fewer scores than could ever prove epsilon > 0:
            2 ceil(log2(2 / (1 - confidence))) in each world.

    Source: for the mechanisms of RF, RS, GEP and GIP; Jagielski, Ullman, Oprea, Auditing differentially private machine
    learning; Nasr et al., Tight auditing of differentially private machine learning (gaussian).

    Example: a perfect attack on 1000 runs in each world proves 4.5, not infinity.
        >>> import numpy as np
        >>> from dptheory.privacy.auditing import audit
        >>> found = audit(scores_with=np.ones(1000), scores_without=np.zeros(1000), delta=1e-5)
        >>> round(found.epsilon_lower, 3)
        4.542
    """
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    confidence = _validate.real("confidence", confidence, 0.0, 1.0, ends="()")
    method = _validate.choice("method", method, AUDIT_METHODS)
    level = (1.0 - confidence) / 2.0
    least = _least(level)
    choose_with, test_with = _halves(_scores("scores_with", scores_with, least))
    choose_without, test_without = _halves(_scores("scores_without", scores_without, least))

    thresholds = _thresholds(np.concatenate([choose_with, choose_without]))
    best = (-math.inf, 0.0, "above", "with")
    for event in ("above", "below"):
        counts = {"with": _count(choose_with, thresholds, event), "without": _count(choose_without, thresholds, event)}
        sizes = {"with": choose_with.size, "without": choose_without.size}
        for likelier, other in (("with", "without"), ("without", "with")):
            values = _evidence(
                _lower(counts[likelier], sizes[likelier], level),
                _upper(counts[other], sizes[other], level),
                delta,
                method,
            )
            top = int(np.argmax(values))
            best = max(best, (float(values[top]), float(thresholds[top]), event, likelier), key=lambda found: found[0])
    _, threshold, event, likelier = best

    cut = np.array([threshold])
    first, second = (test_with, test_without) if likelier == "with" else (test_without, test_with)
    p = _lower(_count(first, cut, event), first.size, level)
    q = _upper(_count(second, cut, event), second.size, level)
    found = max(0.0, float(_evidence(p, q, delta, method)[0]))
    return AuditResult(
        epsilon_lower=gaussian_epsilon(found, delta) if method == "gaussian" else found,
        method=method,
        event=event,
        likelier=likelier,
        threshold=threshold,
        confidence=confidence,
        trials=(test_with.size, test_without.size),
        likelier_rate=float(p[0]),
        other_rate=float(q[0]),
    )


def largest_bound(*, scores: int, delta: float, confidence: float = 0.99, method: str = "events") -> float:
    """The epsilon_lower of a perfect attack: no audit with this many scores in each world can report more.

    An audit that should refute a claimed epsilon needs so many scores that this exceeds it.

    Args:
        scores: in each world; half of them choose the threshold. At least 2 ceil(log2(2 / (1 - confidence))),
            at most 1e12.
        delta, confidence, method: as for :func:`audit`.

    Returns:
        The bound, >= 0; 0 where delta is so large that even this attack proves nothing.

    Raises:
        ValueError: an argument outside its range.

    Source: as for :func:`audit`; for the mechanisms of RF, RS, GEP and GIP.

    Example: to refute an epsilon of 8 an audit needs more than 10,000 scores in each world.
        >>> from dptheory.privacy.auditing import largest_bound
        >>> [round(largest_bound(scores=scores, delta=1e-5), 2) for scores in (1000, 10_000, 100_000)]
        [4.54, 6.85, 9.15]
    """
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    confidence = _validate.real("confidence", confidence, 0.0, 1.0, ends="()")
    method = _validate.choice("method", method, AUDIT_METHODS)
    level = (1.0 - confidence) / 2.0
    scores = _validate.integer("scores", scores, _least(level), _MOST_SCORES)
    tested = scores - scores // 2  # all of them in the event in one world, none in the other
    p, q = _lower(np.array([float(tested)]), tested, level), _upper(np.zeros(1), tested, level)
    found = max(0.0, float(_evidence(p, q, delta, method)[0]))
    return gaussian_epsilon(found, delta) if method == "gaussian" else found


def _least(level: float) -> int:
    """Scores in each world below which no outcome proves epsilon > 0."""
    return 2 * math.ceil(-math.log2(level))


def bound_at_known_rate(*, hits: int, trials: int, false_rate: float, delta: float, confidence: float = 0.99) -> float:
    r"""Lower bound on epsilon from an event fixed beforehand whose probability without the example is known.

    .. math:: \epsilon \ge \log\frac{p - \delta}{q}

    with the lower Clopper-Pearson bound p of its probability with the example. It needs no trials without the example, and is as
    true as the law that ``false_rate`` comes from.

    Args:
        hits: trials with the example in which the event came about.
        trials: independent, with the example, 1..1e12.
        false_rate: q in (0, 1], the event's probability without the example, or an upper bound on it.
        delta: in (0, 1).
        confidence: in (0, 1).

    Returns:
        The bound, >= 0.

    Raises:
        ValueError: an argument outside its range.

    Source: as for :func:`audit`; for the mechanisms of RF, RS, GEP and GIP.

    Example: 90 hits of 100, where 1 in 100 is all that chance gives.
        >>> from dptheory.privacy.auditing import bound_at_known_rate
        >>> round(bound_at_known_rate(hits=90, trials=100, false_rate=0.01, delta=1e-5), 3)
        4.393
    """
    trials = _validate.integer("trials", trials, 1, _MOST_SCORES)
    hits = _validate.integer("hits", hits, 0, trials)
    rate = _validate.real("false_rate", false_rate, 0.0, 1.0, ends="(]")
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    level = 1.0 - _validate.real("confidence", confidence, 0.0, 1.0, ends="()")
    p = _lower(np.array([hits], dtype=np.float64), trials, level)
    return max(0.0, float(_evidence(p, np.array([rate]), delta, "events")[0]))


def _scores(name: str, value: ArrayLike, least: int) -> Array:
    array = _validate.numbers_and_infinities(name, _validate.booleans_as_numbers(value))
    if array.ndim != 1 or array.size < least:
        raise ArgumentError(
            name,
            f"be one-dimensional with at least {least} scores: with fewer no outcome proves epsilon > "
            f"0 at this confidence; got shape {array.shape}",
            value,
        )
    return array


def _halves(scores: Array) -> tuple[Array, Array]:
    """The half that chooses, and the half, larger by one at most, that tests."""
    return scores[: scores.size // 2], scores[scores.size // 2 :]


def _thresholds(scores: Array) -> Array:
    """Midpoints of neighbouring scores, all or about _CANDIDATES of them, most near the ends, where few scores decide."""
    distinct = np.unique(scores)
    finite = np.clip(distinct, -_HUGE, _HUGE)
    middles = finite[:-1] / 2 + finite[1:] / 2
    if middles.size == 0:  # one score only, which proves nothing
        return distinct
    if middles.size <= _CANDIDATES:
        return middles
    quarter = _CANDIDATES // 4
    tail = np.unique(np.geomspace(1, middles.size, quarter).astype(int)) - 1
    even = np.linspace(0, middles.size - 1, 2 * quarter).astype(int)
    return np.asarray(middles[np.unique(np.concatenate([tail, middles.size - 1 - tail, even]))])


def _count(scores: Array, thresholds: Array, event: str) -> Array:
    """Scores in the event, for every threshold."""
    below = np.searchsorted(np.sort(scores), thresholds, side="left").astype(np.float64)
    return below if event == "below" else scores.size - below


def _lower(count: Array, trials: int, level: float) -> Array:
    """Clopper-Pearson: a probability below this gives so many hits with chance ``level`` at most."""
    return np.asarray(
        np.where(count > 0, scipy.special.betaincinv(np.maximum(count, 1.0), trials - count + 1.0, level), 0.0)
    )


def _upper(count: Array, trials: int, level: float) -> Array:
    return np.asarray(1.0 - _lower(trials - count, trials, level))


def _evidence(p: Array, q: Array, delta: float, method: str) -> Array:
    """What the rates prove: epsilon, or mu; -inf where nothing. q > 0 always."""
    if method == "gaussian":
        return np.asarray(scipy.special.ndtri(p) - scipy.special.ndtri(q))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(p - delta, 0.0)) - np.log(q))
