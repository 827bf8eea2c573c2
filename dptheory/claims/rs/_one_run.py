"""Audits of one run, without their bounds: the worst mechanism by linear programming, and mechanisms whose guesses have a known law."""

import itertools
import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import scipy

Line = tuple[float, float]
"""An epsilon and its delta."""


@cache
def _laws(guesses: int, p: float) -> tuple[tuple[float, ...], float]:
    """Bin(guesses, p), one toss after the other, and the mean of the largest masses of all that come before it."""
    law, largest = np.ones(1), 0.0
    for _ in range(guesses):
        largest += float(law.max())
        law = np.convolve(law, [1 - p, p])
    return tuple(law), largest / guesses


def tail(n: int, p: float, least: int) -> float:
    """P(Bin(n, p) >= least), summed."""
    return math.fsum(_laws(n, p)[0][max(least, 0) :]) if n else float(least <= 0)


def mean_mass(guesses: int, p: float) -> float:
    """The mean over n < guesses of the largest mass of Bin(n, p)."""
    return _laws(guesses, p)[1]


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
