import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
import scipy

from dptheory import privacy, sparsification
from dptheory._arrays import Array
from dptheory.checks import EqualityCheck
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row

# --- One step of ranked sparsification by enumeration, with noise on whole numbers, and the printed step in fractions.


Vector = tuple[int, ...]
Law = dict[tuple[Vector, ...], Fraction]
Ranking = Callable[[Vector, Vector, Vector], Iterator[tuple[Vector, Fraction]]]
"""Laws of the ranked vector, from the sum, the mask and what was released of it."""

_NOISE = {z: Fraction(weight, 10) for z, weight in ((-2, 1), (-1, 2), (0, 4), (1, 2), (2, 1))}


@dataclass(frozen=True)
class Step:
    """A step of two entries: the mask in use, and the clipped sums with and without one example."""

    mask: Vector
    joined: Vector
    without: Vector


def cases() -> Iterator[tuple[Step, Fraction]]:
    """Steps and weights e^epsilon."""
    for mask, joined, without in (
        ((1, 1), (1, 0), (0, 0)),
        ((1, 1), (2, 1), (1, 1)),
        ((1, 0), (1, 0), (0, 0)),
        ((1, 1), (0, -1), (0, 1)),
    ):
        for weight in (Fraction(1), Fraction(3, 2), Fraction(3)):
            yield Step(mask, joined, without), weight


def released_sum(total: Vector, mask: Vector, released: Vector) -> Iterator[tuple[Vector, Fraction]]:
    """The ranked vector of RS: what was released, and noise alone where the mask is 0."""
    for noise, chance in _noises(tuple(1 - m for m in mask)):
        yield tuple(r + n for r, n in zip(released, noise, strict=True)), chance


def second_draw(total: Vector, mask: Vector, released: Vector) -> Iterator[tuple[Vector, Fraction]]:
    """That of RF with fresh noise on the sum."""
    for noise, chance in _noises((1,) * len(total)):
        yield tuple(t + n for t, n in zip(total, noise, strict=True)), chance


def exact_delta(step: Step, weight: Fraction, ranking: Ranking | None) -> Fraction:
    """delta at e^epsilon = weight of the release and the next mask (None: of the release alone), worst direction."""
    first, second = (_law(total, step.mask, ranking) for total in (step.joined, step.without))
    return max(_excess(first, second, weight), _excess(second, first, weight))


def _noises(mask: Vector) -> Iterator[tuple[Vector, Fraction]]:
    """Noise where the mask is 1, with its probability."""
    for noise in itertools.product(*[_NOISE if m else (0,) for m in mask]):
        chance = Fraction(1)
        for m, z in zip(mask, noise, strict=True):
            chance *= _NOISE[z] if m else 1
        yield noise, chance


def _law(total: Vector, mask: Vector, ranking: Ranking | None) -> Law:
    law: Law = {}
    for noise, chance in _noises(mask):
        released = tuple(t + n for t, n in zip(total, noise, strict=True))
        if ranking is None:
            law[(released,)] = law.get((released,), Fraction(0)) + chance
            continue
        for ranked, more in ranking(total, mask, released):
            outcome = (released, _largest(ranked))
            law[outcome] = law.get(outcome, Fraction(0)) + chance * more
    return law


def _largest(ranked: Vector) -> Vector:
    """Mask of the entry of largest magnitude, the first of equal ones."""
    best = max(range(len(ranked)), key=lambda j: (abs(ranked[j]), -j))
    return tuple(int(j == best) for j in range(len(ranked)))


def _excess(first: Law, second: Law, weight: Fraction) -> Fraction:
    return sum((max(p - weight * second.get(o, Fraction(0)), Fraction(0)) for o, p in first.items()), Fraction(0))


# --- the printed step -----------------------------------------------------------------------------------------------------


def runs() -> list[tuple[tuple[Fraction, ...], Fraction, float]]:
    """Data of a model of one weight, the example that joins, and a noise multiplier."""
    data = (Fraction(1), Fraction(-1, 2))
    return [(data, Fraction(3), 1.0), (data, Fraction(1, 100), 50.0), ((), Fraction(1), 1e6)]


def distance_after_printed_step(data: tuple[Fraction, ...], extra: Fraction) -> float:
    """Total variation distance of w_1 with and without an example, for v = g_t and loss sum (w - x)^2 / 2 from w_0 = 0."""
    return float(_printed_step(data) != _printed_step((*data, extra)))


def _printed_step(data: tuple[Fraction, ...]) -> Fraction:
    """w_1 by the printed velocity: no noise enters. The sum over the batch, divided by a fixed B = 2."""
    return -Fraction(1, 10) * sum((0 - x for x in data), Fraction(0)) / 2


def largest_distance(noise_multiplier: float) -> float:
    """The total variation distance that a Gaussian mechanism of this multiplier may have, delta(0)."""
    return float(2 * scipy.special.ndtr(0.5 / noise_multiplier) - 1) if noise_multiplier else 1.0


# --- checks that the two papers share ---


def mask_adds_nothing(name: str) -> EqualityCheck:
    """The mask of the next epoch and the release tell two data sets apart as well as the release alone."""

    def compare(step: Step, weight: Fraction) -> Sides:
        return (
            exact_delta(step, weight, None),
            lambda: exact_delta(step, weight, released_sum),
            lambda: exact_delta(step, weight, second_draw),
        )

    return EqualityCheck(name, cases, compare)


def printed_velocity(name: str) -> EqualityCheck:
    """A step whose velocity takes the un-noised gradient is as private as two releases of which one has no noise."""

    def compare(data: tuple[Fraction, ...], extra: Fraction, sigma: float) -> Sides:
        return (
            largest_distance(privacy.combined_multiplier(noise_multipliers=(sigma, 0.0))),
            distance_after_printed_step(data, extra),
            largest_distance(privacy.combined_multiplier(noise_multipliers=(sigma,))),
        )

    return EqualityCheck(name, runs, compare, kind=Kind.COUNTEREXAMPLE)


def _kept_energy(rng: np.random.Generator, n: int, dim: int, keep: int, snr: float, density: float) -> Array:
    """Share of the expected signal energy on the keep largest |signal + noise|; a share ``density`` of the signal is non-zero."""
    signal = rng.standard_normal((n, dim)) * (rng.random((n, dim)) < density)
    seen = signal * (snr / math.sqrt(density)) + rng.standard_normal((n, dim))
    kept = np.argpartition(-np.abs(seen), keep - 1, axis=1)[:, :keep]
    return np.asarray(np.square(np.take_along_axis(signal, kept, axis=1)).sum(axis=1) / (dim * density))


def _share_by_integral(keep_share: float, snr: float, density: float, signed: bool) -> float:
    """Second method: integrate s^2 P(the entry is kept | s) over the signal, the threshold as a root."""
    spread = math.sqrt(1 + snr**2 / density)

    def passes(y: float, scale: float) -> float:
        return float(scipy.special.ndtr(-y / scale) + (0.0 if signed else scipy.special.ndtr(-y / scale)))

    def excess(y: float) -> float:
        return density * passes(y, spread) + (1 - density) * passes(y, 1.0) - keep_share

    y = float(scipy.optimize.brentq(excess, -40.0 * spread, 40.0 * spread, xtol=1e-14))

    def integrand(z: float) -> float:
        s = z * snr / math.sqrt(density)
        kept = scipy.special.ndtr(s - y) + (0.0 if signed else scipy.special.ndtr(-s - y))
        return float(z * z * kept * math.exp(-z * z / 2) / math.sqrt(2 * math.pi))

    corner = y * math.sqrt(density) / snr
    points = sorted(p for p in (-corner, corner) if abs(p) < 12) or None
    found = scipy.integrate.quad(integrand, -12, 12, points=points, limit=400, epsabs=1e-12, epsrel=1e-11)
    return float(found[0])


_SHARES = tuple(itertools.product((0.05, 0.3, 0.5, 0.9), (0.05, 1.0, 4.0)))


ranked_row = new_row(
    id="rf.ranked",
    source=Source("rf", "section 3.3, Appendix C; RS, Appendix I"),
    verdict=Verdict.CONDITIONAL,
    calculators=(
        sparsification.captured_energy,
        sparsification.signed_captured_energy,
        sparsification.sparse_captured_energy,
    ),
    figure="ranked_energy",
)


@ranked_row.mean(partial(_kept_energy, dim=40, keep=10, snr=1.0, density=1.0), wrong=lambda: 0.25, row_bytes=2000)
def _() -> float:
    """ranked by magnitude, d = 40, t = 1"""
    return sparsification.captured_energy(40, 10, snr=1.0)


@ranked_row.mean(
    partial(_kept_energy, dim=2000, keep=200, snr=0.5, density=0.05),
    wrong=lambda: sparsification.captured_energy(2000, 200, snr=0.5),
    row_bytes=100_000,
)
def _() -> float:
    """one signal in twenty, d = 2000, t = 1/2"""
    return sparsification.sparse_captured_energy(keep_share=0.1, snr=0.5, nonzero_share=0.05)


@ranked_row.equal(*_SHARES, tolerance=1e-7)
def _(keep_share: float, snr: float) -> Sides:
    """large d, second method: integral over the signal"""
    return (
        sparsification.captured_energy(10**9, round(keep_share * 10**9), snr=snr),
        lambda: _share_by_integral(keep_share, snr, 1.0, signed=False),
        keep_share,
    )


@ranked_row.equal(*_SHARES, tolerance=1e-8)
def _(keep_share: float, snr: float) -> Sides:
    """signed values as printed, second method"""
    return (
        sparsification.signed_captured_energy(keep_share=keep_share, snr=snr),
        lambda: _share_by_integral(keep_share, snr, 1.0, signed=True),
        keep_share,
    )


@ranked_row.equal(
    lambda: itertools.product((0.02, 0.1, 0.6), (0.1, 0.5), (0.01, 0.3)), tolerance=1e-8, kind=Kind.COUNTEREXAMPLE
)
def _(keep_share: float, snr: float, density: float) -> Sides:
    """sparse signal, second method"""
    energy = partial(sparsification.sparse_captured_energy, keep_share=keep_share, snr=snr)
    truth = partial(_share_by_integral, keep_share, snr, density, signed=False)
    return energy(nonzero_share=density), truth, energy(nonzero_share=1.0)


@ranked_row.equal(
    *itertools.product((0.02, 0.6, 0.99), (0.05, 0.5), (1e-3, 1e-5)),
    (1e-6, 0.5, 1e-3),
    (1 - 1e-6, 0.5, 1e-3),
    tolerance=1e-7,
)
def _(keep_share: float, snr: float, density: float) -> Sides:
    """very sparse signal, and masks of nearly all or nearly none"""
    energy = partial(sparsification.sparse_captured_energy, keep_share=keep_share, snr=snr)
    truth = partial(_share_by_integral, keep_share, snr, density, signed=False)
    return energy(nonzero_share=density), truth, energy(nonzero_share=1.1 * density)


def _two_releases_by_grid(first: float, second: float, epsilon: float) -> float:
    """delta of two independent Gaussian releases of a sum that one example moves by 1, by a double integral."""
    u = np.linspace(-9.0, 9.0, 1401)
    x, y = first * (u + 0.5 / first)[:, None], second * (u + 0.5 / second)[None, :]
    joined = scipy.stats.norm.pdf(x, 1.0, first) * scipy.stats.norm.pdf(y, 1.0, second)
    without = scipy.stats.norm.pdf(x, 0.0, first) * scipy.stats.norm.pdf(y, 0.0, second)
    step = float(u[1] - u[0]) ** 2 * first * second
    return float(np.maximum(joined - math.exp(epsilon) * without, 0.0).sum() * step)


def _gaussian_excess(p: float, q: float, mu: float, epsilon: float) -> float:
    """E of (p dP - e^epsilon q dQ)_+ for P, Q normal laws mu apart."""
    if p == 0.0 or q == 0.0:
        return p
    level = epsilon + math.log(q / p)
    return p * float(scipy.special.ndtr(mu / 2 - level / mu)) - math.exp(epsilon) * q * float(
        scipy.special.ndtr(-mu / 2 - level / mu)
    )


def ranked_delta(sigma: float, epsilon: float, angle: float, gap: float) -> float:
    """delta of a release and the order of two entries by a second, fresh draw of the same noise.

    The example adds (cos, sin) of the angle to the sum, C = 1; the entries are ``gap`` apart without it.
    """
    p = float(scipy.special.ndtr((gap + math.cos(angle) - math.sin(angle)) / (math.sqrt(2) * sigma)))
    q = float(scipy.special.ndtr(gap / (math.sqrt(2) * sigma)))
    pairs = ((p, q), (1 - p, 1 - q))
    return sum(_gaussian_excess(first, second, 1 / sigma, epsilon) for first, second in pairs)


def _account_slack(releases: int, sigma: float, epsilon: float, angle: float, gap: float) -> float:
    mu = 1.0 / privacy.combined_multiplier(noise_multipliers=[sigma] * releases)
    return privacy.gaussian_delta(mu, epsilon) - ranked_delta(sigma, epsilon, angle, gap)


alg2 = new_row(
    id="rf.alg2",
    source=Source("rf", "Appendix C, Algorithm 2"),
    verdict=Verdict.CONDITIONAL,
    calculators=(privacy.combined_multiplier,),
)


@alg2.equal((1.0, 1.0, 0.5), (1.0, 1.0, 0.0), (2.0, 2.0, 0.1), (0.8, 3.0, 1.0), (5.0, 1.0, 0.3), tolerance=1e-5)
def _(s: float, t: float, eps: float) -> Sides:
    """two releases of one sum, by integration"""
    return (
        privacy.gaussian_delta(1 / privacy.combined_multiplier(noise_multipliers=(s, t)), eps),
        lambda: _two_releases_by_grid(s, t, eps),
        privacy.gaussian_delta(1 / s, eps),
    )


alg2.add(mask_adds_nothing("RF: mask and release tell what the release tells, by enumeration"))


@alg2.inequality(
    {
        "sigma": Range(0.3, 5.0, log=True),
        "epsilon": Range(0.0, 3.0),
        "angle": Range(-math.pi, math.pi),
        "gap": Range(-3.0, 3.0),
    },
    # wrong: by that of one
    wrong=lambda **point: _account_slack(1, **point),
)
def _twice_slack(**point: float) -> float:
    """a second draw costs more than one release, and at most two"""
    return _account_slack(2, **point)


alg2.add(printed_velocity("RF: one step of the printed velocity"))


never_updated = new_row(
    id="rf.never_updated",
    source=Source("rf", "Appendix C; RS, Appendix I"),
    verdict=Verdict.CONDITIONAL,
)

_Epochs = tuple[tuple[int, ...], ...]


def _run(signed: bool, mu: Fraction, epochs: _Epochs, frozen: int, steps: int = 2) -> tuple[list[set[int]], set[int]]:
    """What is frozen in each epoch, and what moves in the last one; ``epochs`` has each step's gradient, frozen ones cut to 0."""
    entries = range(len(epochs[0]))
    velocity, sets, moved = [Fraction(0)] * len(epochs[0]), [set[int]()], set[int]()
    for gradients in epochs:
        updates = [0 if j in sets[-1] else gradients[j] for j in entries]
        moved = set[int]()
        for _ in range(steps):
            velocity = [mu * v + g for v, g in zip(velocity, updates, strict=True)]
            moved |= {j for j in entries if velocity[j] != 0}
        order = sorted((updates[j] if signed else abs(updates[j]), j not in sets[-1], j) for j in entries)
        sets.append({j for *_, j in order[:frozen]})
    return sets, moved


def _drawn(seed: int, size: int = 12, epochs: int = 6) -> _Epochs:
    """Gradients that are never 0, as noisy ones almost surely are."""
    rng = random.Random(seed)
    return tuple(tuple(rng.choice((-1, 1)) * rng.randint(1, 99) for _ in range(size)) for _ in range(epochs))


@never_updated.equal(lambda: itertools.product(range(20), (1, 5, 11)))
def _(seed: int, frozen: int) -> Sides:
    """by magnitude, without momentum: how many of the frozen thaw in any later epoch, or move in the last"""

    def lost() -> int:
        sets, moved = _run(False, Fraction(0), _drawn(seed), frozen)
        return len((sets[1] & moved).union(*(sets[1] - later for later in sets[2:])))

    # wrong: all, as with momentum
    return 0, lost, frozen


def _negative_cases() -> Iterator[tuple[int, int]]:
    """Second epochs with at least as many negative sums among what is not frozen as will be frozen."""
    for seed, frozen in itertools.product(range(20), (1, 3, 5)):
        epochs = _drawn(seed, epochs=2)
        first = _run(True, Fraction(0), epochs[:1], frozen)[0][1]
        if sum(g < 0 for j, g in enumerate(epochs[1]) if j not in first) >= frozen:
            yield seed, frozen


@never_updated.equal(_negative_cases, kind=Kind.COUNTEREXAMPLE)
def _(seed: int, frozen: int) -> Sides:
    """with signs: how many of the frozen are frozen again where enough sums are negative"""
    # wrong: all
    return 0, lambda: len(set.intersection(*_run(True, Fraction(0), _drawn(seed, epochs=2), frozen)[0][1:])), frozen


@never_updated.equal(lambda: itertools.product(range(20), (1, 5)), kind=Kind.COUNTEREXAMPLE)
def _(seed: int, frozen: int) -> Sides:
    """with momentum 1/2: how many of the frozen move in the last epoch"""
    sets, moved = _run(False, Fraction(1, 2), _drawn(seed), frozen)
    # wrong: none
    return frozen, lambda: len(moved & sets[1]), 0
