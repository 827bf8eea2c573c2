import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, partial

import numpy as np
import scipy

from dptheory import privacy
from dptheory.claims._draws import all_masks
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rf import ranked
from dptheory.privacy import gaussian_delta
from dptheory.privacy.auditing._one_run import _chance, _inverse_curve, _least_mass

Rows = tuple[tuple[int, ...], ...]


thm3_1 = new_row(
    id="rs.thm3.1",
    source=Source("rs", "Theorem 3.1; RF, section 3"),
    verdict=Verdict.HOLDS,
    kernel_theorems=("part_holds", "correction_holds"),
    calculators=(privacy.masked_sensitivity,),
    figure="audit_claims",
)


# Norms of these, masked or not, are whole: sensitivities have exact squares.
_UNIVERSES: tuple[Rows, ...] = (((3, 4), (-6, 8)), ((0, 2), (5, 12), (-8, 15)), ((1, 2, 2), (2, -3, 6), (4, 4, -7)))


def _largest_square(rows: Rows, clip: Fraction, mask: tuple[int, ...]) -> Fraction:
    """The largest squared norm of a masked, clipped gradient."""
    return max(min(Fraction(sum(m * x * x for m, x in zip(mask, row, strict=True))), clip * clip) for row in rows)


def _squared(rows: Rows, clip: Fraction, mask: tuple[int, ...] | None) -> float:
    return privacy.masked_sensitivity(gradients=rows, clip_norm=float(clip), mask=mask) ** 2


@thm3_1.equal(
    *(
        (rows, clip, mask)
        for rows in _UNIVERSES
        for mask in itertools.product((0, 1), repeat=len(rows[0]))
        for clip in (Fraction(1), Fraction(5), Fraction(9), Fraction(40))
    ),
    tolerance=1e-13,
)
def _(rows: Rows, clip: Fraction, mask: tuple[int, ...]) -> Sides:
    """squared sensitivity in whole numbers, all masks"""
    return _squared(rows, clip, mask), lambda: _largest_square(rows, clip, mask), lambda: _squared(rows, clip, None)


def _replace_squared(side: int, height: int, mask: tuple[int, int] | None) -> float:
    """Two examples with gradients (+-side, height), clip 1."""
    rows = ((side, height), (-side, height))
    return privacy.masked_sensitivity(gradients=rows, clip_norm=1.0, mask=mask, adjacency="replace-one") ** 2


@thm3_1.equal((1, 100), (2, 3), (7, 1), tolerance=1e-13, kind=Kind.COUNTEREXAMPLE)
def _(side: int, height: int) -> Sides:
    """replace-one: gradients (+-a, b) under the mask (1, 0)"""
    return _replace_squared(side, height, (1, 0)), Fraction(4), lambda: _replace_squared(side, height, None)


@thm3_1.equal((1, 100), (2, 3), (7, 1), tolerance=1e-13)
def _(side: int, height: int) -> Sides:
    """replace-one: gradients (+-a, b) without a mask"""
    return (
        _replace_squared(side, height, None),
        Fraction(4 * side**2, side**2 + height**2),
        lambda: _replace_squared(side, height, (1, 0)),
    )


def _growth(adjacency: str, first: float, second: float, third: float, fourth: float) -> float:
    rows = ((first, second), (third, fourth))
    whole = privacy.masked_sensitivity(gradients=rows, clip_norm=1.0, mask=None, adjacency=adjacency)
    return whole - privacy.masked_sensitivity(gradients=rows, clip_norm=1.0, mask=(1, 0), adjacency=adjacency)


@thm3_1.inequality(
    {name: Range(-3.0, 3.0) for name in ("first", "second", "third", "fourth")},
    # wrong: nor does it under replace-one
    wrong=lambda **point: _growth("replace-one", **point),
)
def _add_remove_slack(**point: float) -> float:
    """add/remove: no mask raises the sensitivity"""
    return _growth("add-remove", **point)


def _within(bound: float, first: float, second: float, third: float, keep: int) -> float:
    rows = ((first, second, third), (-second, third, first))
    mask = tuple(int(j < keep) for j in range(3))
    return bound - privacy.masked_sensitivity(gradients=rows, clip_norm=1.0, mask=mask, adjacency="replace-one")


@thm3_1.inequality(
    {
        **{name: Range(-3.0, 3.0) for name in ("first", "second", "third")},
        "keep": Range(1, 3, integer=True),
    },
    wrong=partial(_within, 1.0),  # C, as under add/remove
)
def _replace_bound_slack(**point: float) -> float:
    """replace-one: at most 2C under any mask"""
    return _within(2.0, **point)  # type: ignore[arg-type]


def _public_mask_delta(sigma: float, epsilon: float, second: float, third: float, keep: int) -> float:
    """delta of masked sum and mask together: the mean over the masks, of a canary (1, second, third) with C = 1."""
    rows, masks = [(1.0, second, third)], all_masks(3, keep)
    norms = [privacy.masked_sensitivity(gradients=rows, clip_norm=1.0, mask=mask) for mask in masks]
    return sum(gaussian_delta(norm / sigma, epsilon) for norm in norms) / len(masks)


def _mask_slack(sigma: float, epsilon: float, second: float, third: float, keep: int, share: float = 1.0) -> float:
    """delta with a published random mask"""
    allowed = share * gaussian_delta(1 / sigma, epsilon)
    return 1.0 - _public_mask_delta(sigma, epsilon, second, third, keep) / allowed


thm3_1.inequality(
    {
        "sigma": Range(0.5, 4.0),
        "epsilon": Range(0.0, 2.0),
        "second": Range(0.0, 2.0),
        "third": Range(0.0, 2.0),
        "keep": Range(1, 2, integer=True),
    },
    # wrong: it lowers delta by the share of entries kept
    wrong=lambda keep, **point: _mask_slack(keep=keep, **point, share=keep / 3),
)(_mask_slack)


def _long_sensitivity(adjacency: str, masked: bool) -> float:
    """Gradients (3, 4, 0, ..., 0) and (0, ..., 0, 1/2), clipped to norm 1, the first entry masked or not."""
    rows = np.zeros((2, 20_000))
    rows[0, :2], rows[1, -1] = (3.0, 4.0), 0.5
    mask = np.ones(20_000)
    mask[0] = 0.0
    return privacy.masked_sensitivity(gradients=rows, clip_norm=1.0, mask=mask if masked else None, adjacency=adjacency)


@thm3_1.equal(
    lambda: [(adjacency, masked) for adjacency in ("add-remove", "replace-one") for masked in (False, True)],
    tolerance=1e-12,
)
def _(adjacency: str, masked: bool) -> Sides:
    """long gradients by hand, 20,000 entries"""
    return (
        _long_sensitivity(adjacency, masked),
        1.0 if adjacency == "add-remove" else math.sqrt(1.25),
        lambda: 1.01 * _long_sensitivity(adjacency, masked),
    )


alg4 = new_row(
    id="rs.alg4",
    source=Source("rs", "Appendix I, Algorithm 4"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("printed_is_false", "correction_holds"),
    calculators=(privacy.combined_multiplier,),
)


alg4.add(
    ranked.mask_adds_nothing("RS: mask and release tell what the release tells, by enumeration"),
    ranked.printed_velocity("RS: one step of line 9 as printed"),
)


# --- Audits of one run, without their bounds: the worst mechanism by linear programming, and mechanisms whose guesses have a known law.


Line = tuple[float, float]
"""An epsilon and its delta."""


@cache
def _laws(guesses: int, p: float) -> tuple[tuple[float, ...], float]:
    """Bin(guesses, p), one toss after the other, and the mean over n < guesses of the largest mass of Bin(n, p)."""
    law, largest = np.ones(1), 0.0
    for _ in range(guesses):
        largest += float(law.max())
        law = np.convolve(law, [1 - p, p])
    return tuple(law), largest / guesses


def tail(n: int, p: float, least: int) -> float:
    """P(Bin(n, p) >= least), summed."""
    return math.fsum(_laws(n, p)[0][max(least, 0) :]) if n else float(least <= 0)


@cache
def worst_chance(canaries: int, guesses: int, hits: int, lines: tuple[Line, ...]) -> float:
    """The largest probability of so many hits, over all mechanisms that are (epsilon, delta)-private for every line.

    A mechanism is a law on the lists of guesses for each of the 2^m outcomes of the coins: all numbers are variables of one
    linear programme, and so is what is left above e^epsilon times a neighbour's law.
    """
    coins = list(itertools.product((0, 1), repeat=canaries))
    lists = [one for one in itertools.product((0, 1, None), repeat=canaries) if canaries - one.count(None) == guesses]
    place = {(s, t): i for i, (s, t) in enumerate(itertools.product(coins, lists))}
    pairs = [(s, (*s[:i], 1 - s[i], *s[i + 1 :])) for s in coins for i in range(canaries)]
    laws, over = len(place), len(pairs) * len(lists)
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    limits: list[float] = []
    for number, (epsilon, delta) in enumerate(lines):
        for pair, (s, other) in enumerate(pairs):
            slacks = [laws + number * over + pair * len(lists) + j for j in range(len(lists))]
            for slack, t in zip(slacks, lists, strict=True):  # P_s(t) - e^epsilon P_other(t) - slack <= 0
                rows += [len(limits)] * 3
                columns += [place[s, t], place[other, t], slack]
                values += [1.0, -math.exp(epsilon), -1.0]
                limits.append(0.0)
            rows += [len(limits)] * len(lists)  # the slacks sum to at most delta
            columns += slacks
            values += [1.0] * len(lists)
            limits.append(delta)
    size = laws + len(lines) * over
    gain = np.zeros(size)
    for (s, t), i in place.items():
        gain[i] = -float(sum(a == b for a, b in zip(s, t, strict=True)) >= hits) / len(coins)
    bounded = scipy.sparse.csr_matrix((values, (rows, columns)), shape=(len(limits), size))
    whole = scipy.sparse.csr_matrix(
        (np.ones(laws), ([coins.index(s) for s, _ in place], list(place.values()))), shape=(len(coins), size)
    )
    found = scipy.optimize.linprog(
        gain, A_ub=bounded, b_ub=limits, A_eq=whole, b_eq=np.ones(len(coins)), bounds=(0, None), method="highs"
    )
    return -float(found.fun)


def revealing_chance(guesses: int, hits: int, p: float, shown: int, chance: float) -> float:
    """Of so many hits, where with ``chance`` the coins of ``shown`` guesses are told, and all others are answered rightly at p."""
    return (1 - chance) * tail(guesses, p, hits) + chance * tail(guesses - shown, p, hits - shown)


def gaussian_lines(mu: float, epsilons: Sequence[float]) -> tuple[Line, ...]:
    """Epsilons and deltas of a Gaussian release, by its closed form."""
    normal = scipy.stats.norm.cdf
    return tuple((e, float(normal(mu / 2 - e / mu) - math.exp(e) * normal(-mu / 2 - e / mu))) for e in epsilons)


one_run = new_row(
    id="rs.one_run",
    source=Source("rs", "new, on Theorem 3.1"),
    verdict=Verdict.HOLDS,
    calculators=(privacy.auditing.one_run_epsilon,),
)

_ROUNDING = 1e-9
"""Of a linear programme."""


def _accuracy(epsilon: float) -> float:
    return 1.0 / (1.0 + math.exp(-epsilon))


def bound(hits: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The statement, term by term."""
    p = _accuracy(epsilon)
    return tail(guesses, p, hits) + canaries * delta * (1 - p) * _laws(guesses, p)[1]


def found_epsilon(
    hits: int, guesses: int, canaries: int, delta: float, level: float, run: privacy.Composition | None = None
) -> float:
    """What the calculator makes of so many hits: every canary that is guessed has a score of its own."""
    right = np.arange(guesses) >= guesses - hits
    guessed_in = np.arange(guesses) < guesses - guesses // 2
    scores = np.zeros(canaries)
    coins = np.arange(canaries) % 2
    scores[:guesses] = np.where(guessed_in, 1.0, -1.0) * (1.0 + np.arange(guesses))
    coins[:guesses] = np.where(right, guessed_in, ~guessed_in)
    return privacy.auditing.one_run_epsilon(
        scores=scores, coins=coins, delta=delta, confidence=1 - level, guesses=guesses, composition=run
    ).epsilon_lower


def largest_by_enumeration(hits: int, guesses: int, canaries: int, delta: float, level: float) -> float:
    """The largest epsilon whose bound is below the level."""

    def excess(epsilon: float) -> float:
        return bound(hits, guesses, canaries, epsilon, delta) - level

    refuted = [one for one in np.linspace(0.0, 12.0, 241).tolist() if excess(one) < 0]
    return float(scipy.optimize.brentq(excess, refuted[-1], refuted[-1] + 0.05, xtol=1e-14)) if refuted else 0.0


@one_run.equal(
    *itertools.product((1e-8, 1e-3, 0.02), (0.05, 0.3), ((8, 8, 10), (60, 52, 60), (60, 60, 400), (200, 140, 2000))),
    tolerance=1e-6,
)
def _(delta: float, level: float, numbers: tuple[int, int, int]) -> Sides:
    """the largest epsilon that is refuted, by enumeration"""
    guesses, hits, canaries = numbers
    return (
        found_epsilon(hits, guesses, canaries, delta, level),
        lambda: largest_by_enumeration(hits, guesses, canaries, delta, level),
        lambda: largest_by_enumeration(hits, guesses, canaries, 0.0, level) if delta > 1e-4 else None,
    )


_SMALL = [
    (canaries, guesses, hits, epsilon, delta)
    for canaries, guesses in ((1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3))
    for hits in range(1, guesses + 1)
    for epsilon in (0.0, 0.5, 1.5)
    for delta in (1e-12, 0.02, 0.15)
]


@one_run.equal(lambda: _SMALL, kind=Kind.EXACT)
def _(canaries: int, guesses: int, hits: int, epsilon: float, delta: float) -> Sides:
    """no private mechanism on up to three coins has more hits, by linear programming over all of them"""
    most = worst_chance(canaries, guesses, hits, ((epsilon, delta),))
    said = _chance(hits, guesses, canaries, epsilon, delta)
    # the binomial tail alone is too small as soon as delta counts
    return most <= said + _ROUNDING, True, lambda: most <= tail(guesses, _accuracy(epsilon), hits) + _ROUNDING


@one_run.equal(
    lambda: [case for case in _SMALL if case[4] < 1e-9 or case[:2] == (1, 1)],
    tolerance=1e-9,
    kind=Kind.EXACT,
)
def _(canaries: int, guesses: int, hits: int, epsilon: float, delta: float) -> Sides:
    """without delta, and for one coin, the worst mechanism attains it"""
    return (
        _chance(hits, guesses, canaries, epsilon, delta),
        lambda: worst_chance(canaries, guesses, hits, ((epsilon, delta),)),
        1.01 * _chance(hits, guesses, canaries, epsilon, delta),
    )


@one_run.equal(*itertools.product((0.5, 2.0), (50, 200), (1e-4, 0.02), (1, 2, 8)), kind=Kind.EXACT)
def _(epsilon: float, guesses: int, delta: float, shown: int) -> Sides:
    """who tells some coins with the chance that delta allows is refuted as rarely as stated, by enumeration"""
    p, level = _accuracy(epsilon), 0.05
    # the least number of hits that the binomial tail alone refutes
    refuted = next(v for v in range(guesses + 2) if tail(guesses, p, v) < level)
    chance = min(1.0, guesses * delta / shown)  # each coin is told with chance delta
    hits = bisect.bisect_left(  # the first that is refuted
        range(guesses + 1), True, key=lambda v: found_epsilon(v, guesses, guesses, delta, level) > epsilon
    )
    return (
        revealing_chance(guesses, hits, p, shown, chance) <= level,
        True,
        lambda: revealing_chance(guesses, refuted, p, shown, chance) <= level,
    )


one_run_curve = new_row(
    id="rs.one_run_curve",
    source=Source("rs", "new, on Theorem 3.1"),
    verdict=Verdict.HOLDS,
    calculators=(privacy.auditing.one_run_epsilon,),
)

_EPSILONS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.5)


def most_chance(inverse_curve: Callable[[float], float], hits: int, guesses: int, canaries: int) -> float:
    """The probability of so many hits at which all outcomes together have the probability 1."""
    return float(
        scipy.optimize.brentq(
            lambda level: _least_mass(inverse_curve, hits, guesses, canaries, level) - 1, 0.0, 1.0, xtol=1e-15
        )
    )


def curve_of(lines: tuple[tuple[float, float], ...]) -> Callable[[float], float]:
    """The least false positive rate at a true positive rate: the larger of the lines of every (epsilon, delta), both ways."""
    return lambda right: max(
        0.0,
        *(1 - delta - math.exp(e) * (1 - right) for e, delta in lines),
        *(math.exp(-e) * (right - delta) for e, delta in lines),
    )


def _gaussian(mu: float) -> Callable[[float], float]:
    """The same of a Gaussian release, in closed form."""
    return lambda right: float(scipy.special.ndtr(scipy.special.ndtri(min(right, 1.0)) - mu))


_SMALL_CURVES = [
    (canaries, guesses, hits, mu)
    for canaries, guesses in ((1, 1), (2, 1), (2, 2), (3, 2), (3, 3))
    for hits in range(1, guesses + 1)
    for mu in (0.3, 1.0, 2.0)
]


@one_run_curve.equal(lambda: _SMALL_CURVES)
def _(canaries: int, guesses: int, hits: int, mu: float) -> Sides:
    """no mechanism on up to three coins that is private along a Gaussian curve has more hits, by linear programming"""
    lines = gaussian_lines(mu, _EPSILONS)
    most = worst_chance(canaries, guesses, hits, lines)
    weaker = gaussian_lines(mu / 4, _EPSILONS)
    return (
        most <= most_chance(curve_of(lines), hits, guesses, canaries) + _ROUNDING,
        True,
        lambda: most <= most_chance(curve_of(weaker), hits, guesses, canaries) + _ROUNDING,
    )


@one_run_curve.equal(*((mu,) for mu in (0.3, 1.0, 2.0)), tolerance=1e-8)
def _(mu: float) -> Sides:
    """one coin: the worst mechanism attains it"""
    lines = gaussian_lines(mu, _EPSILONS)
    found = most_chance(curve_of(lines), 1, 1, 1)
    return found, lambda: worst_chance(1, 1, 1, lines), 1.01 * found


# off by d^2 / 2 times the density of the loss over its tail under Q, relative to it: lines are at most 0.5 apart, so d <= 0.25, and
# that quotient is at most 2.7 in these cases (5.3 at z = 5.1, over mu = 2)
@one_run_curve.equal(*itertools.product((0.5, 1.0, 2.0), (0.001, 0.05, 0.3, 0.9)), tolerance=0.085)
def _(mu: float, right: float) -> Sides:
    """the lines of a Gaussian release lie below its curve, and near it"""
    run = privacy.Composition((privacy.Step(noise_multiplier=1 / mu, sampling_rate=1.0, count=1),))
    normal = scipy.stats.norm
    truth = float(normal.cdf(normal.ppf(right) - mu))
    found = _inverse_curve(run, 0.001)(right)
    return found if found <= truth else math.inf, truth, right


def _slack(more: float, hits: int, level: float, mu: float, share: float, spread: float) -> float:
    """How much the least mass grows where some of the hits are beyond the least number, step by step as on the page."""
    guesses, canaries = 12, 20
    inverse = _gaussian(mu)
    # probabilities of hits and of hits + 1, then at each step what is asked for or more
    beyond = share * level if hits < guesses else 0.0
    right = (level * hits + beyond) / canaries
    wrong = (level * (guesses - hits) - beyond) / canaries
    mass = level
    for count in range(hits, 0, -1):
        needed = max(0.0, inverse(right) - wrong) * canaries / (guesses - count + 1)
        added = needed + spread * more / guesses
        mass += added
        right += added * (count - 1) / canaries
        wrong += added * (guesses - count + 1) / canaries
    return mass - _least_mass(inverse, hits, guesses, canaries, level)


def _from_one_more(hits: int, level: float, mu: float, **others: float) -> float:
    """Wrong statement: the least mass is that of one hit more."""
    least = [_least_mass(_gaussian(mu), count, 12, 20, level) for count in (hits, min(hits + 1, 12))]
    return _slack(hits=hits, level=level, mu=mu, **others) + least[0] - least[1]


one_run_curve.inequality(
    {
        "more": Range(0.0, 1.0),
        "hits": Range(1, 11, integer=True),
        "level": Range(0.01, 0.9),
        "mu": Range(0.05, 4.0, log=True),
        "share": Range(0.0, 1.0),
        "spread": Range(0.0, 1.0),
    },
    wrong=_from_one_more,
    tolerance=1e-12,
    name="all mass at the least number of hits, and no more than is asked for below it, is the least of all",
)(_slack)


@one_run_curve.equal(*itertools.product((0.4, 1.2), ((126, 90), (126, 120), (40, 36))), tolerance=0.01, kind=Kind.EXACT)
def _(scale: float, numbers: tuple[int, int]) -> Sides:
    """what is proved for a Gaussian release, whatever its noise was said to be, by its closed form"""
    guesses, hits = numbers
    canaries, level, delta = 1000, 0.05, 1e-5
    run = privacy.Composition((privacy.Step(noise_multiplier=scale, sampling_rate=1.0, count=1),))
    found = found_epsilon(hits, guesses, canaries, delta, level, run)

    def truth() -> float:
        def excess(mu: float) -> float:
            return _least_mass(_gaussian(mu), hits, guesses, canaries, level) - 1

        return privacy.gaussian_epsilon(float(scipy.optimize.brentq(excess, 1e-6, 30.0, xtol=1e-14)), delta)

    return found, truth, 1.05 * found
