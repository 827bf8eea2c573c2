r"""Privacy audits: a lower bound on epsilon from what an attack scores with and without one example.

A mechanism that is (epsilon, delta)-differentially private has, for every set S of outputs and either order of the two worlds,
:math:`P(S) \le e^\epsilon Q(S) + \delta`. An attack is a score of the output, and S the scores beyond a threshold. Two kinds
of thresholds have bounds that hold together: 1/2, fixed before any score is seen, used where all scores are 0 or 1; and the k-th
largest or smallest score of the likelier world, for some ranks k that depend on the number of scores alone. Of the likelier world
at least a share with the law Beta(k, n - k + 1) lies at or beyond its own k-th score; for the other world, which had no part in
it, the threshold is a fixed number, so Clopper-Pearson bounds hold. The bound holds at the stated confidence whatever the score
is, uses all scores, and does not depend on their order.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import _validate
from dptheory._arrays import ArrayLike
from dptheory.errors import ArgumentError
from dptheory.privacy.methods._closed_forms import gaussian_epsilon

Array = NDArray[np.float64]

AUDIT_METHODS = ("events", "gaussian")
_MOST_SCORES = 10**12
_FIXED = 0.5
"""The threshold that is fixed beforehand."""
_FIXED_SHARE = 0.75
"""Of the probability of failure; the ranks share the rest. Smaller levels cost little, and a count needs no search."""
_FIXED_BOUNDS = 4
"""Upper and lower ones of the probability of a score beyond 1/2 in each world; the other side's are the same."""


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """What an audit proves, at its confidence.

    Attributes:
        epsilon_lower: epsilon is at least this, >= 0 and finite; see the method for what that means.
        method: "events" or "gaussian".
        event: the outputs whose probability was bounded: scores "above" the threshold or "below" it; a score that equals the
            threshold belongs to both, but to "above" alone at 1/2, which is fixed beforehand.
        likelier: the world, "with" or "without" the example, in which that event is the likelier one.
        threshold: of the score: 1/2, or one of the scores of the likelier world.
        confidence: probability, over the trials, that epsilon_lower is at most the true epsilon, at least.
        trials: (with, without): the numbers of scores.
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

    With lower bound p on the probability of an event in one world and upper bound q in the other,

    .. math:: \epsilon \ge \log\frac{p - \delta}{q} \;\text{("events")},\qquad
        \mu \ge \Phi^{-1}(p) - \Phi^{-1}(q),\; \epsilon \ge \epsilon_\mu(\delta) \;\text{("gaussian")} .

    "events" holds for every mechanism. "gaussian" bounds the mu of Gaussian differential privacy: no mechanism with a smaller
    mu has such error rates. The epsilon that it reports is that of the Gaussian mechanism with this mu, so it refutes claims
    of Gaussian privacy, and bounds the true epsilon only where the trade-off curve is that of a Gaussian mechanism: one
    Gaussian release, or several, without subsampling or a random mask. It is the more powerful one there.

    All bounds of all events that are tried, for both orders of the worlds, both sides and every threshold, hold together with
    the stated confidence. So the best may be taken, and neither the order of the scores nor any choice has a part in it.

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
            ceil(log2(16 / (3 - 3 confidence))) in each world.

    Source: for the mechanisms of RF, RS, GEP and GIP; Jagielski, Ullman, Oprea, Auditing differentially private machine
    learning; Nasr et al., Tight auditing of differentially private machine learning (gaussian).

    Example: a perfect attack on 1000 runs in each world proves 5.1, not infinity.
        >>> import numpy as np
        >>> from dptheory.privacy.auditing import audit
        >>> found = audit(scores_with=np.ones(1000), scores_without=np.zeros(1000), delta=1e-5)
        >>> round(found.epsilon_lower, 3)
        5.067
    """
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    confidence = _validate.real("confidence", confidence, 0.0, 1.0, ends="()")
    method = _validate.choice("method", method, AUDIT_METHODS)
    least = _least(confidence)
    worlds = {
        "with": np.sort(_scores("scores_with", scores_with, least)),
        "without": np.sort(_scores("scores_without", scores_without, least)),
    }
    ranks = {name: _ranks(own.size) for name, own in worlds.items()}
    # the event at 1/2 has its share of the level whether it is looked at or not
    counts = all(bool(np.isin(own, (0.0, 1.0)).all()) for own in worlds.values())
    # both sides of both worlds at every rank, each with two bounds
    level = (1.0 - _FIXED_SHARE) * (1.0 - confidence) / (4.0 * sum(one.size for one in ranks.values()))
    best: tuple[float, float, float, str, str, float] | None = None
    for likelier, other in (("with", "without"), ("without", "with")):
        own, others = worlds[likelier], worlds[other]
        for event in ("above", "below"):
            tried = []
            if counts:
                inside = _count(own, _FIXED, event), _count(others, _FIXED, event)
                tried.append((_bounds(*inside, own.size, others.size, _fixed_level(confidence)), np.array([_FIXED])))
            thresholds = own[-ranks[likelier]] if event == "above" else own[ranks[likelier] - 1]
            beyond = _count(others, thresholds, event)
            in_own = ranks[likelier].astype(np.float64)
            tried.append((_bounds(in_own, beyond, own.size, others.size, level), thresholds))
            for (p, q), places in tried:
                values = _evidence(p, q, delta, method)
                top = int(np.argmax(values))
                if best is None or values[top] > best[0]:
                    best = (float(values[top]), float(p[top]), float(q[top]), event, likelier, float(places[top]))
    assert best is not None
    evidence, likelier_rate, other_rate, event, likelier, threshold = best
    found = max(0.0, evidence)
    return AuditResult(
        epsilon_lower=gaussian_epsilon(found, delta) if method == "gaussian" else found,
        method=method,
        event=event,
        likelier=likelier,
        threshold=threshold,
        confidence=confidence,
        trials=(worlds["with"].size, worlds["without"].size),
        likelier_rate=likelier_rate,
        other_rate=other_rate,
    )


def largest_bound(*, scores: int, delta: float, confidence: float = 0.99, method: str = "events") -> float:
    """The epsilon_lower of a perfect attack: no audit with this many scores in each world can report more.

    An audit that should refute a claimed epsilon needs so many scores that this exceeds it.

    Args:
        scores: in each world, at least ceil(log2(16 / (3 - 3 confidence))), at most 1e12.
        delta, confidence, method: as for :func:`audit`.

    Returns:
        The bound, >= 0; 0 where delta is so large that even this attack proves nothing.

    Source: as for :func:`audit`; for the mechanisms of RF, RS, GEP and GIP.

    Example: to refute an epsilon of 8 an audit needs more than 10,000 scores in each world.
        >>> from dptheory.privacy.auditing import largest_bound
        >>> [round(largest_bound(scores=scores, delta=1e-5), 2) for scores in (1000, 10_000, 100_000)]
        [5.07, 7.37, 9.68]
    """
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    confidence = _validate.real("confidence", confidence, 0.0, 1.0, ends="()")
    method = _validate.choice("method", method, AUDIT_METHODS)
    scores = _validate.integer("scores", scores, _least(confidence), _MOST_SCORES)
    # all of them in the event in one world, none in the other
    p, q = _bounds(np.array([float(scores)]), np.zeros(1), scores, scores, _fixed_level(confidence))
    found = max(0.0, float(_evidence(p, q, delta, method)[0]))
    return gaussian_epsilon(found, delta) if method == "gaussian" else found


def _fixed_level(confidence: float) -> float:
    """Probability of failure of each bound at the threshold that is fixed beforehand."""
    return _FIXED_SHARE * (1.0 - confidence) / _FIXED_BOUNDS


def _least(confidence: float) -> int:
    """Scores in each world below which no outcome proves epsilon > 0."""
    return math.ceil(-math.log2(_fixed_level(confidence)))


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


def _ranks(size: int) -> NDArray[np.int64]:
    """Ranks whose scores are thresholds, by the number of scores alone: most near both ends, where few scores decide."""
    near = np.geomspace(1, max(size / 2, 1), max(1, round(2 * math.log2(size)))).astype(np.int64)
    return np.unique(np.concatenate([near, size - near, [size]]))


def _count(scores: Array, thresholds: ArrayLike, event: str) -> Array:
    """Sorted scores in the event, for every threshold; at the one fixed beforehand the sides share no score."""
    places = np.atleast_1d(np.asarray(thresholds))
    if event == "above":
        return np.asarray(scores.size - np.searchsorted(scores, places, side="left"), dtype=np.float64)
    strict = np.ndim(thresholds) == 0
    return np.asarray(np.searchsorted(scores, places, side="left" if strict else "right"), dtype=np.float64)


def _bounds(inside: Array, others_inside: Array, size: int, others: int, level: float) -> tuple[Array, Array]:
    """A lower bound of the probability of the event in the likelier world, an upper one in the other."""
    return _lower(inside, size, level), _upper(others_inside, others, level)


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
