import functools
import itertools
import math
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import partial

import numpy as np

from dptheory import papers, privacy, sparsification
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

Law = dict[tuple[int, ...], Fraction]


def shuffled_law(records: tuple[int, ...], truthful: Fraction) -> Law:
    """Law of the outputs when the records are shuffled and each is sent through randomised response, batches of one."""
    law: Law = {}
    orders = list(itertools.permutations(records))
    for order, outputs in itertools.product(orders, itertools.product((0, 1), repeat=len(records))):
        chance = math.prod(
            (truthful if x == y else 1 - truthful for x, y in zip(order, outputs, strict=True)), start=Fraction(1)
        )
        law[outputs] = law.get(outputs, Fraction(0)) + chance / len(orders)
    return law


def largest_ratio(truthful: Fraction, size: int, given_history: bool) -> Fraction:
    """Largest ratio of the last output's probabilities between {0, 1, ..., 1} and {1, ..., 1}, given the earlier outputs or not."""
    ones = (1,) * (size - 1)
    laws = [shuffled_law((first, *ones), truthful) for first in (0, 1)]

    def chance(law: Law, last: int, history: tuple[int, ...] | None) -> Fraction:
        chosen = {o: p for o, p in law.items() if history is None or o[:-1] == history}
        return sum((p for o, p in chosen.items() if o[-1] == last), Fraction(0)) / sum(chosen.values())

    histories = list(itertools.product((0, 1), repeat=size - 1)) if given_history else [None]
    pairs = ((chance(laws[0], y, h), chance(laws[1], y, h)) for h in histories for y in (0, 1))
    return max(max(a / b, b / a) for a, b in pairs)


def amplified(truthful: Fraction, size: int) -> Fraction:
    """1 + q (e^epsilon - 1) for q = 1/size and randomised response with e^epsilon = truthful / (1 - truthful)."""
    return 1 + (truthful / (1 - truthful) - 1) / size


shuffle = new_row(
    id="rf.shuffle",
    source=Source("rf", "section 4, Privacy budget; RS, section 6 and Appendix K"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
)


@shuffle.equal(
    (Fraction(3, 4), 2, True),
    (Fraction(3, 4), 3, True),
    (Fraction(3, 4), 2, False),
    (Fraction(2, 3), 3, False),
    kind=Kind.COUNTEREXAMPLE,
)
def _(truthful: Fraction, size: int, history: bool) -> Sides:
    """each iteration is amplified given the earlier ones"""
    return not history, lambda: largest_ratio(truthful, size, history) <= amplified(truthful, size), True


@shuffle.equal((Fraction(3, 4), 2), kind=Kind.COUNTEREXAMPLE)
def _(truthful: Fraction, size: int) -> Sides:
    """two records, e^epsilon = 3: the ratio is 5/2"""
    return (
        (truthful**2 + (1 - truthful) ** 2) / (1 - truthful),
        lambda: largest_ratio(truthful, size, True),
        amplified(truthful, size),
    )


Sizes = tuple[int, int, int, int]
"""Dimension, basis, samples, gradients."""


def _counted(dim: int, basis: int, samples: int, gradients: int) -> tuple[int, int]:
    """Multiplications of the power step and of the projection, counted while multiplying row by column."""
    count = 0

    def multiply(rows: int, inner: int, columns: int) -> int:
        nonlocal count
        for _ in range(rows * columns):
            for _ in range(inner):
                count += 1
        return count

    power = multiply(samples, dim, basis)  # W'V
    power = multiply(dim, samples, basis)  # W (W'V)
    return power, multiply(basis, dim, gradients) - power


def _operations(dim: int, basis: int, samples: int, gradients: int, iterations: int = 1) -> sparsification.Operations:
    return sparsification.projection_operations(
        dim=dim, subspace_dim=basis, anchors=samples, gradient_count=gradients, iterations=iterations
    )


_SIZES: tuple[Sizes, ...] = ((24, 4, 8, 8), (12, 6, 4, 20))


def _multiplied(dim: int, basis: int, samples: int, gradients: int, iterations: int, part: str) -> int:
    """Multiplications by the shapes of the factors, rows by inner by columns."""
    shapes = [(samples, dim, basis), (dim, samples, basis)] * iterations if part != "projection" else []
    shapes += [(basis, dim, gradients)] if part != "power_method" else []
    return sum(map(math.prod, shapes))


cost = new_row(
    id="rf.cost",
    source=Source("rf", "section 4, Advantages of sparsity"),
    verdict=Verdict.LOOSE,
    kernel_theorems=("printed_holds", "reading_is_false", "correction_holds"),
    calculators=(sparsification.projection_operations,),
)


@cost.equal(lambda: [(*sizes, part) for sizes in _SIZES for part in (0, 1)])
def _(dim: int, basis: int, samples: int, gradients: int, part: int) -> Sides:
    """multiplications counted one by one"""
    found = _operations(dim, basis, samples, gradients)
    stated = Fraction((found.power_method, found.projection)[part])
    return stated, lambda: Fraction(_counted(dim, basis, samples, gradients)[part]), Fraction(dim * basis * samples)


@cost.equal(lambda: [(Fraction(1, 2), sizes) for sizes in _SIZES], kind=Kind.COUNTEREXAMPLE)
def _(x: Fraction, sizes: Sizes) -> Sides:
    """projection with d and b halved"""
    *scaled, gradients = sizes
    dim, basis, samples = (int(x * size) for size in scaled)
    return (
        Fraction(_operations(dim, basis, samples, gradients).projection, _operations(*sizes).projection),
        lambda: Fraction(_counted(dim, basis, samples, gradients)[1], _counted(*sizes)[1]),
        x**3,
    )


@cost.equal(
    lambda: [
        (*sizes, iterations, part)
        for sizes in ((50, 6, 9, 20), (550_000, 1000, 2000, 1000))
        for iterations in (1, 3)
        for part in ("power_method", "projection", "total")
    ]
)
def _(dim: int, basis: int, samples: int, gradients: int, iterations: int, part: str) -> Sides:
    """shapes multiplied, users' sizes, three power iterations"""
    stated = getattr(_operations(dim, basis, samples, gradients, iterations), part)
    counted = _multiplied(dim, basis, samples, gradients, iterations, part)
    return Fraction(stated), Fraction(counted), Fraction(dim * basis * samples)


# --- Density of a run with gradual cooling, counted epoch by epoch


def counted_density(final: Fraction, cooling: int, epochs: int, baseline: int) -> Fraction:
    """Share of non-zero entries, epoch by epoch as Algorithm 1 runs."""
    rates = [final * min(Fraction(e, cooling - 1), Fraction(1)) for e in range(epochs)]
    return sum((1 - r for r in rates), Fraction(0)) / baseline


def stated_density(final: Fraction | float, cooling: int, epochs: int, baseline: int) -> float:
    """The same by the calculator."""
    return sparsification.total_density(
        final_drop_rate=float(final), cooling_epochs=cooling, epochs=epochs, baseline_epochs=baseline
    )


def _rounded(value: float, digits: int) -> Fraction:
    """Half up at ``digits`` places; the twelfth place absorbs what float64 lost."""
    unit = Decimal(1).scaleb(-digits)
    return Fraction(Decimal(f"{value:.12f}").quantize(unit, ROUND_HALF_UP))


PRINTED_DENSITIES = {
    # where: the setting; the dense run was as long as the ramp
    "Table 2, End-to-end CNN, epsilon = 7.53": "rf.end-to-end-cnn.eps7.53",
    "Table 2, End-to-end CNN, epsilon = 3": "rf.end-to-end-cnn.eps3",
    "Table 2, Handcrafted CNN": "rf.handcrafted-cnn.eps3",
    "Table 2, GEP": "rf.gep.eps8",
    "Table 2, DP-Transfer Learning": "rf.dp-transfer-learning.eps2",
    "Table 9, epsilon = 3": "rf.adjusted-end-to-end-cnn.eps3",
    "Table 9, epsilon = 7.53": "rf.adjusted-end-to-end-cnn.eps7.53",
}


def _printed_density(where: str) -> Fraction:
    return Fraction(str(papers.setting(PRINTED_DENSITIES[where]).total_density))


def _density_as_printed(where: str, own_epochs: bool) -> Fraction:
    one = papers.setting(PRINTED_DENSITIES[where])
    cooling, epochs = one.whole("cooling_epochs"), one.whole("epochs")
    value = stated_density(one.number("drop_rate"), cooling, epochs, epochs if own_epochs else cooling)
    return _rounded(value, len(str(one.total_density).split(".")[1]))


density = new_row(
    id="rf.density",
    source=Source("rf", "section 4, Tables 2 and 9"),
    verdict=Verdict.HOLDS,
    calculators=(sparsification.total_density, sparsification.freeze_rate),
)


@density.equal(
    lambda: itertools.product((Fraction(0), Fraction(7, 10), Fraction(1)), (2, 3, 40), (1, 2, 40, 100), (40, 100)),
    tolerance=1e-13,
)
def _(final: Fraction, cooling: int, epochs: int, baseline: int) -> Sides:
    """counted epoch by epoch, in fractions"""
    return (
        stated_density(final, cooling, epochs, baseline),
        lambda: counted_density(final, cooling, epochs, baseline),
        1 - final / 2,  # whatever the lengths
    )


@density.equal(lambda: itertools.product((2, 3, 40), (0, 1, 20, 39, 40, 99)), tolerance=1e-15)
def _(cooling: int, epoch: int) -> Sides:
    """rate of each epoch"""
    return (
        sparsification.freeze_rate(epoch=epoch, final_drop_rate=0.9, cooling_epochs=cooling),
        Fraction(9, 10) * min(Fraction(epoch, cooling - 1), Fraction(1)),
        0.9 * min(epoch / cooling, 1.0),  # the text: r* is reached in epoch e*
    )


@density.equal(lambda: [(where,) for where in PRINTED_DENSITIES])
def _(where: str) -> Sides:
    """the printed densities"""
    return _density_as_printed(where, False), _printed_density(where), _density_as_printed(where, True)


sparsity70 = new_row(
    id="rf.sparsity70",
    source=Source("rf", "abstract, section 4, Table 1"),
    verdict=Verdict.CONDITIONAL,
    calculators=(sparsification.total_density,),
)


@sparsity70.equal(
    lambda: [(Fraction(7, 10), epochs, epochs, epochs) for epochs in (2, 40, 50, 80)],
    tolerance=1e-13,
    kind=Kind.COUNTEREXAMPLE,
)
def _(final: Fraction, cooling: int, epochs: int, baseline: int) -> Sides:
    """sparsity of the whole run"""
    return (
        1 - stated_density(final, cooling, epochs, baseline),
        lambda: 1 - counted_density(final, cooling, epochs, baseline),
        float(final),
    )


# --- Epsilon of subsampled Gaussian steps by inverting the moments of the loss: no grid of losses, no convolution
#
# With M(s) = E_P e^(sL) and any c > 0,
#
# .. math:: \delta(\epsilon) = \frac1{2\pi}\int M(c + iu)^T \frac{e^{-(c+iu)\epsilon}}{(c+iu)(c+1+iu)}\,du,
#
# as (1 - e^-x)^+ has the two-sided Laplace transform 1/(s(s+1)). The trapezoid rule converges faster than any power of its step.


_NODES = np.linspace(-13.0, 13.0, 651)


@functools.cache
def _loss(sigma: float, rate: float, sign: int) -> tuple[Array, Array]:
    """Losses and weights: "remove" (the mixture against N(0, 1)) for sign 1, "add" for -1."""
    z = np.concatenate([_NODES, _NODES + 1 / sigma]) if sign > 0 else _NODES
    step = _NODES[1] - _NODES[0]
    density = np.exp(-(_NODES**2) / 2) / math.sqrt(2 * math.pi) * step
    weights = np.concatenate([(1 - rate) * density, rate * density]) if sign > 0 else density
    return sign * np.log1p(rate * np.expm1(z / sigma - 0.5 / sigma**2)), weights


def delta(sigma: float, rate: float, steps: int, epsilon: float, sign: int) -> float:
    """delta(epsilon) of ``steps`` steps in one direction."""
    losses, weights = _loss(sigma, rate, sign)

    def log_moment(s: float) -> float:
        return steps * math.log(float(weights @ np.exp(s * losses))) - s * epsilon

    points = np.geomspace(0.5, min(200.0, 600.0 / float(np.abs(losses).max())), 60)
    saddle = float(points[np.argmin([log_moment(s) - math.log(s * (s + 1)) for s in points])])
    mean = float(weights @ losses)
    spread = math.sqrt(steps * float(weights @ np.square(losses - mean)))
    u = np.arange(0.0, 9.0 / spread, min(0.1 / spread, 0.2 * saddle))
    s = saddle + 1j * u
    moments = np.array([np.log(weights @ np.exp(one * losses)) for one in s])  # the argument stays small for every node
    terms = np.exp(steps * moments - s * epsilon) / (s * (s + 1))
    return float((terms.real.sum() - terms.real[0] / 2) * (u[1] - u[0]) / math.pi)


def worst_delta(sigma: float, rate: float, steps: int, epsilon: float) -> float:
    """The larger of both directions."""
    return max(delta(sigma, rate, steps, epsilon, sign) for sign in (1, -1))


PRINTED = {
    # table: the setting; delta = 1e-5, CIFAR-10 with N = 50,000
    "Table 5, End-to-end CNN, epsilon 3": "rf.end-to-end-cnn.eps3",
    "Table 5, End-to-end CNN, epsilon 7.53": "rf.end-to-end-cnn.eps7.53",
    "Table 6, DP-Transfer Learning, epsilon 2": "rf.dp-transfer-learning.eps2",
    "Table 7, Handcrafted CNN, epsilon 3": "rf.handcrafted-cnn.eps3",
    "Table 9, adjusted End-to-end CNN, epsilon 3": "rf.adjusted-end-to-end-cnn.eps3",
    "Table 9, adjusted End-to-end CNN, epsilon 7.53": "rf.adjusted-end-to-end-cnn.eps7.53",
}

_DELTA = 1e-5
_QUICK = "Table 7, Handcrafted CNN, epsilon 3"  # the search for its least noise is quick


def _run(where: str) -> tuple[float, float, float, int]:
    """(epsilon, sigma, sampling rate, steps) of a row."""
    one = papers.setting(PRINTED[where])
    rate = one.number("batch_size") / one.number("train_size")
    return one.number("epsilon"), one.number("noise_multiplier"), rate, round(one.number("epochs") / rate)


def _spent(where: str, scale: float = 1.0) -> privacy.EpsilonBounds:
    _, sigma, rate, steps = _run(where)
    return privacy.epsilon_bounds(noise_multiplier=scale * sigma, sampling_rate=rate, steps=steps, delta=_DELTA)


def _least(where: str) -> float:
    epsilon, _, rate, steps = _run(where)
    return privacy.least_noise_multiplier(epsilon=epsilon, delta=_DELTA, sampling_rate=rate, steps=steps)


def _next_to_renyi(where: str) -> bool:
    """Is the least noise by Renyi privacy, which is never below the least, at most 1.1 times it?

    Its epsilon falls as the noise rises.
    """
    epsilon, _, rate, steps = _run(where)
    below, above = (
        privacy.rdp_epsilon(noise_multiplier=x * _least(where), sampling_rate=rate, steps=steps, delta=_DELTA)
        for x in (0.9999, 1.1)
    )
    return below > epsilon >= above


def _least_by_inversion(where: str, factor: float) -> bool:
    """Does ``factor`` times the least noise keep the budget, and 0.4 % less not?"""
    epsilon, _, rate, steps = _run(where)
    keeps, breaks = (worst_delta(x * factor * _least(where), rate, steps, epsilon) for x in (1.0, 0.996))
    return keeps <= _DELTA < breaks


# noise, rate, steps, delta
_USED = ((1.0, 0.02, 1000, 1e-5), (10.0, 4096 / 45_000, 875, 1e-5), (10.0, 0.01, 1000, 1e-5))
_REACH = 1e-6
"""How far a bound may be from epsilon, times max(1, epsilon); the inversion here is the less exact of the two."""


def _bracket_holds(sigma: float, rate: float, steps: int, delta: float, field: str, moved: float = 0.0) -> bool:
    """Is a field of the bracket, moved by a share of itself, next to the true epsilon?"""
    found = privacy.epsilon_bounds(noise_multiplier=sigma, sampling_rate=rate, steps=steps, delta=delta)
    at, reach = (1 + moved) * float(getattr(found, field)), _REACH * max(1.0, found.estimate)
    low, high = at - reach, at + reach
    # delta falls in epsilon: the true epsilon lies between the two
    return worst_delta(sigma, rate, steps, low) >= delta >= worst_delta(sigma, rate, steps, high)


def _most_by_inversion(epsilon: float, sigma: float, rate: float, factor: float) -> bool:
    """Do ``factor`` times the most steps keep the budget, and one more, or 0.4 % more, do not?"""
    most = round(factor * privacy.max_steps(epsilon=epsilon, delta=_DELTA, noise_multiplier=sigma, sampling_rate=rate))
    more = max(most + 1, round(1.004 * most))
    fits, exceeds = (worst_delta(sigma, rate, n, epsilon) for n in (most, more))
    return fits <= _DELTA < exceeds


def shuffled_delta(sigma: float, batches: int, epochs: int, epsilon: float) -> tuple[float, float]:
    """delta at epsilon of shuffled batches, simulated, and its standard error: others have -C, the record C or nothing."""
    rng, loss = np.random.default_rng(batches * epochs), np.zeros(8000)
    for _ in range(epochs):
        sums = rng.normal(size=(loss.size, batches))
        sums[:, 0] += 2 / sigma  # whichever batch has the record
        odds = np.exp(sums / sigma)
        loss += np.log(np.square(odds).sum(1) / odds.sum(1)) - 1.5 / sigma**2
    gains = -np.expm1(np.minimum(epsilon - loss, 0.0))
    return float(gains.mean()), float(gains.std() / math.sqrt(loss.size))


def shuffled_epsilon(where: str) -> float:
    """What a row spends at least on shuffled batches."""
    _, sigma, rate, steps = _run(where)
    return privacy.samplers.shuffled_epsilon_lower_bound(
        noise_multiplier=sigma, batches=int(1 / rate), epochs=round(steps * rate), delta=_DELTA
    )


def _simulated_spends_more(where: str) -> bool:
    epsilon, sigma, rate, steps = _run(where)
    estimate, error = shuffled_delta(sigma, round(1 / rate), round(steps * rate), epsilon)
    return estimate - 5 * error > _DELTA


_SHUFFLED = [(where,) for where in PRINTED if "Table 5" in where or "Table 9" in where]


sigmas = new_row(
    id="rf.sigmas",
    source=Source("rf", "Tables 5 to 7 and 9"),
    verdict=Verdict.CONDITIONAL,
    calculators=(
        privacy.epsilon_bounds,
        privacy.least_noise_multiplier,
        privacy.max_steps,
        privacy.samplers.shuffled_epsilon_lower_bound,
    ),
    figure="accountants",
)


@sigmas.equal(lambda: [(where,) for where in PRINTED])
def _(where: str) -> Sides:
    """the printed noise keeps the budget"""
    return _spent(where).upper <= _run(where)[0], True, lambda: _spent(where, 0.9).lower <= _run(where)[0]


@sigmas.equal(lambda: _SHUFFLED, kind=Kind.COUNTEREXAMPLE)
def _(where: str) -> Sides:
    """the printed noise does not keep it on shuffled batches, simulated"""
    return (
        shuffled_epsilon(where) > _run(where)[0],
        lambda: _simulated_spends_more(where),
        lambda: _spent(where).lower > _run(where)[0],
    )


@sigmas.equal((_QUICK,))
def _(where: str) -> Sides:
    """the least noise, against Renyi privacy"""
    return _next_to_renyi(where), True, lambda: _least(where) >= _run(where)[1]


@sigmas.equal((_QUICK,))
def _(where: str) -> Sides:
    """the least noise spends the budget, by inversion"""
    return _least_by_inversion(where, 1.0), True, lambda: _least_by_inversion(where, 1.01)


@sigmas.equal(*((*run, field) for run in _USED for field in ("lower", "estimate", "upper")))
def _(sigma: float, rate: float, steps: int, delta: float, field: str) -> Sides:
    """each bound within 1e-6 of epsilon by inversion"""
    holds = partial(_bracket_holds, sigma, rate, steps, delta, field)
    # wrong: half a percent further in, the estimate further down
    return holds(), True, lambda: holds(0.005 if field == "lower" else -0.005)


@sigmas.equal((1.0, 2.0, 0.1), (3.0, 1.5, 0.2), (1.0, 1.5, 0.02))
def _(epsilon: float, sigma: float, rate: float) -> Sides:
    """the most steps, by inversion"""
    return _most_by_inversion(epsilon, sigma, rate, 1.0), True, lambda: _most_by_inversion(epsilon, sigma, rate, 1.01)
