import itertools
import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cache, partial

import numpy as np
import scipy

from dptheory import privacy
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite
from dptheory.claims.gip._finite import RATES, STEPS, gaussian_delta, gaussian_log_delta, half_line, values_curve


def _gaussian_epsilon(mu: float, log_delta: float) -> float:
    orders = [1 + 1.1**i / 100 for i in range(120)]
    return privacy.epsilon_from_rdp(orders=orders, rdp=[a * mu * mu / 2 for a in orders], delta=math.exp(log_delta))


def _largest_share(order: float) -> float:
    """max over u in (0, 1) of u^(a-1) (1 - u), by evaluation."""
    best = (order - 1) / order
    return max(math.pow(u, order - 1) * (1 - u) for u in (best, 0.999 * best, 1.001 * best))


lem1 = new_row(
    id="gip.lem1",
    source=Source("gip", "Lemma 1"),
    verdict=Verdict.CONDITIONAL,
    calculators=(privacy.subsampled_gaussian_rdp, privacy.epsilon_from_rdp, privacy.conversion),
)


_REAL = ((1.001, 0.3, 2.0), (1.5, 0.01, 1.0), (2.7, 0.5, 0.7), (40.3, 0.02, 4.0))


@lem1.equal(lambda: (*RATES, *_REAL), tolerance=1e-8)
def _(order: float, rate: float, sigma: float) -> Sides:
    """curve of one step by quadrature"""
    return (
        values_curve(order, rate, sigma),
        lambda: _finite.divergence(order, rate, sigma),
        rate * order / (2 * sigma**2),
    )


@lem1.equal(lambda: _REAL, tolerance=1e-8)
def _(order: float, rate: float, sigma: float) -> Sides:
    """curve of the other direction by quadrature"""
    curve = privacy.subsampled_gaussian_rdp(orders=[order], sampling_rate=rate, noise_multiplier=sigma, direction="add")
    return curve[0], lambda: _finite.divergence(order, rate, sigma, sign=-1), values_curve(order, rate, sigma)


@lem1.equal((2, 3.0), (7, 5.0), tolerance=1e-9, kind=Kind.COUNTEREXAMPLE)
def _(order: int, sigma: float) -> Sides:
    """replacing an example, no sampling"""
    curve = privacy.subsampled_gaussian_rdp(
        orders=[order], sampling_rate=1.0, noise_multiplier=sigma, adjacency="replace-one"
    )
    return (
        curve[0],
        lambda: _finite.divergence(order, 1.0, sigma, shift=2.0),
        values_curve(order, 1.0, sigma),
    )


@lem1.inequality(
    {
        "order": Range(1.05, 16),
        "rate": Range(0.02, 1),
        "sigma": Range(0.7, 6, log=True),
    },
    wrong=0.5,
    tolerance=1e-7,
)
def _reverse_slack(order: float, rate: float, sigma: float) -> float:
    """the other direction is no larger"""
    return 1 - _finite.divergence(order, rate, sigma, sign=-1) / values_curve(order, rate, sigma)


@lem1.inequality(
    {"mu": Range(0.05, 5, log=True), "log_delta": Range(-34, -3)},
    wrong=lambda mu, log_delta: log_delta - gaussian_log_delta(mu, 0.9 * _gaussian_epsilon(mu, log_delta)),
    tolerance=1e-9,
)
def _conversion_slack(mu: float, log_delta: float) -> float:
    """conversion against the exact Gaussian"""
    return log_delta - gaussian_log_delta(mu, _gaussian_epsilon(mu, log_delta))


def _covered(rdp: float) -> float:
    """A delta above sqrt(1 - e^-rdp), by hand."""
    return math.sqrt(1 - math.exp(-rdp))


@lem1.inequality({"mu": Range(0.01, 5, log=True)}, wrong=lambda mu: _covered(mu * mu / 2) ** 2 - math.erf(mu / 8**0.5))
def _distance_slack(mu: float) -> float:
    """the distance of two Gaussians below sqrt(1 - e^-R)

    R is the Kullback-Leibler divergence, the least of the curve.
    """
    return _covered(mu * mu / 2) - math.erf(mu / 8**0.5)


@lem1.equal((2.0, 0.3, 1e-5), (11.0, 2.0, 1e-9), tolerance=1e-12)
def _(order: float, rdp: float, delta: float) -> Sides:
    """conversion, one order"""
    return (
        privacy.epsilon_from_rdp(orders=[order], rdp=[rdp], delta=delta),
        lambda: -math.log(_largest_share(order) ** -1 * delta) / (order - 1) + rdp,
        rdp - math.log(delta) / (order - 1),
    )


@lem1.equal((1.5, 0.3), (2.0, 1e-5), (64.0, 1e-9), tolerance=1e-12)
def _(order: float, delta: float) -> Sides:
    """what the conversion adds at an order"""
    return (
        privacy.conversion(order=np.asarray(order), delta=delta),
        lambda: -math.log(_largest_share(order) ** -1 * delta) / (order - 1),
        -math.log(delta) / (order - 1),
    )


def _fresh(order: float, rate: float, sigma: float, dim: int, keep: int, steps: int = 1) -> float:
    mask = privacy.FreshMask(dim=dim, keep=keep)
    return float(mask.rdp(orders=[order], sampling_rate=rate, noise_multiplier=sigma, steps=steps)[0])


def _one_entry(dim: int) -> tuple[float, ...]:
    return (1.0,) + (0.0,) * (dim - 1)


def _example(first: float, second: float, third: float, norm: float) -> list[float]:
    raw = [first, second, third, 0.3]
    size = math.sqrt(sum(x * x for x in raw))
    return [norm * x / size for x in raw]


def _share_slack(
    order: float, rate: float, sigma: float, first: float, second: float, third: float, norm: float
) -> float:
    """Wrong statement: the divergence itself shrinks to the share k."""
    example = _example(first, second, third, norm)
    return 1 - _finite.masked_divergence(order, rate, sigma, example, 2) / (0.5 * values_curve(order, rate, sigma))


def _own_bound_holds(order: float, rate: float, sigma: float, dim: int, keep: int) -> bool:
    """D_a(base, mixture) of a flat example below the bound made from the one-entry D_a(base, mixture)."""
    flat = _finite.divergence(order, rate, sigma, math.sqrt(keep / dim), sign=-1)
    own = (order - 1) * _finite.divergence(order, rate, sigma, sign=-1)
    return flat <= math.log1p(keep / dim * math.expm1(own)) / (order - 1)


def _pair_dominates(dim: int, keep: int, mu: float, epsilon: float) -> bool:
    """delta of a flat example under a fresh mask at most k delta of the one-entry example."""
    flat = gaussian_log_delta(mu * math.sqrt(keep / dim), epsilon)
    return flat <= math.log(keep / dim) + gaussian_log_delta(mu, epsilon)


_MASKS = ((3, 1), (4, 3), (20_000, 500), (10**9, 10**8))


def _masked(order: int, rate: float, sigma: float, steps: int, dim: int, keep: int) -> float:
    """An example with one entry: in each step its share of the masks shows it, so the number of steps is binomial."""
    one = (order - 1) * _finite.divergence(order, rate, sigma)
    seen = Fraction(keep, dim)
    moments = (
        float(math.comb(steps, t) * seen**t * (1 - seen) ** (steps - t)) * math.exp(t * one) for t in range(steps + 1)
    )
    return math.log(math.fsum(moments)) / (order - 1)


prop1 = new_row(
    id="gip.prop1",
    source=Source("gip", "Proposition 1"),
    verdict=Verdict.LOOSE,
    calculators=(privacy.FreshMask.rdp,),
)


@prop1.equal(lambda: [(*point, dim, keep) for point in RATES[:4] for dim, keep in ((3, 1), (4, 3))], tolerance=1e-7)
def _(order: int, rate: float, sigma: float, dim: int, keep: int) -> Sides:
    """example with one entry attains the bound"""
    return (
        _fresh(order, rate, sigma, dim, keep),
        lambda: _finite.masked_divergence(order, rate, sigma, _one_entry(dim), keep),
        values_curve(order, rate, sigma),
    )


@prop1.equal(
    lambda: [(*step, steps, *mask) for step, steps, mask in itertools.product(STEPS, (1, 2, 40), _MASKS)],
    tolerance=1e-7,
)
def _(order: int, rate: float, sigma: float, steps: int, dim: int, keep: int) -> Sides:
    """example with one entry over many entries and steps"""
    return (
        _fresh(order, rate, sigma, dim, keep, steps),
        lambda: _masked(order, rate, sigma, steps, dim, keep),
        _fresh(order, rate, sigma, dim, keep),
    )


@prop1.inequality(
    {
        "order": Range(1.05, 12),
        "rate": Range(0.05, 1),
        "sigma": Range(0.7, 4, log=True),
        "first": Range(0, 10),
        "second": Range(0, 1),
        "third": Range(0, 1),
        "norm": Range(0.1, 1),
    },
    wrong=_share_slack,
    tolerance=1e-7,
)
def _fresh_slack(
    order: float, rate: float, sigma: float, first: float, second: float, third: float, norm: float
) -> float:
    """every clipped example, four entries"""
    example = _example(first, second, third, norm)
    return 1 - _finite.masked_divergence(order, rate, sigma, example, 2) / _fresh(order, rate, sigma, 4, 2)


@prop1.equal(
    (2.0, 0.3, 1.0, 4, 2, False), (5.0, 0.3, 0.5, 4, 1, False), (2.0, 0.99, 2.0, 4, 1, True), kind=Kind.COUNTEREXAMPLE
)
def _(order: float, rate: float, sigma: float, dim: int, keep: int, holds: bool) -> Sides:
    """the other direction needs this direction's curve"""
    return holds, lambda: _own_bound_holds(order, rate, sigma, dim, keep), True


@prop1.equal((4, 1, 1.0, 0.0, False), (100, 10, 0.5, 0.05, False), (4, 1, 1.0, 2.0, True), kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int, mu: float, epsilon: float, holds: bool) -> Sides:
    """no dominating pair for privacy-loss accountants"""
    return holds, lambda: _pair_dominates(dim, keep, mu, epsilon), True


@prop1.equal((2, 2.0, 4), (5, 9.0, 9), tolerance=1e-7, kind=Kind.COUNTEREXAMPLE)
def _(order: int, sigma: float, steps: int) -> Sides:
    """one mask for all steps"""
    return (
        _fresh(order, 1.0, sigma / math.sqrt(steps), 4, 1),
        lambda: _finite.masked_divergence(order, 1.0, sigma / math.sqrt(steps), _one_entry(4), 1),
        _fresh(order, 1.0, sigma, 4, 1, steps),
    )


@prop1.equal((2, 0.3, 2.0), (5, 1.0, 3.0), tolerance=1e-7, kind=Kind.COUNTEREXAMPLE)
def _(order: int, rate: float, sigma: float) -> Sides:
    """mask before clipping"""
    return (
        values_curve(order, rate, sigma),
        # a long flat gradient is masked, then clipped: the shift is C under every mask
        lambda: _finite.masked_divergence(order, rate, sigma, (2**-0.5,) * 4, 2),
        _fresh(order, rate, sigma, 4, 2),
    )


def _gaussian_delta(energy: Array | float, epsilon: float) -> Array:
    """H_epsilon(v): delta(epsilon) of N(0, 1) against N(sqrt(v), 1)."""
    return gaussian_delta(np.sqrt(np.maximum(energy, 1e-300)), epsilon)


@cache
def _kept(dim: int, keep: int, spread: int) -> tuple[Array, Array]:
    """How many of ``spread`` coordinates a mask keeps, from one on, and the chances."""
    counts = range(1, min(spread, keep) + 1)
    ways = [math.comb(spread, j) * math.comb(dim - spread, keep - j) / math.comb(dim, keep) for j in counts]
    return np.array(counts, dtype=np.float64), np.array(ways)


def _flat(energy: float, epsilon: float, dim: int, keep: int, spread: int) -> float:
    """delta where the gradient is flat on ``spread`` coordinates."""
    counts, chances = _kept(dim, keep, spread)
    return float(chances @ _gaussian_delta(energy * counts / spread, epsilon))


def _worst_flat(energy: float, epsilon: float, dim: int, keep: int, spreads: Iterable[int]) -> float:
    return max(_flat(energy, epsilon, dim, keep, spread) for spread in spreads)


def _mean_masked_delta(energies: Array, epsilon: float, keep: int) -> float:
    """delta for any gradient, over all masks; ``energies`` are the squares of its entries over those of the noise."""
    masks = itertools.combinations(range(len(energies)), keep)
    return float(_gaussian_delta(np.array([energies[list(mask)].sum() for mask in masks]), epsilon).mean())


def _on_a_grid(energy: float, epsilon: float, dim: int, keep: int) -> float:
    """The largest delta over gradients whose squares are multiples of energy / 12."""
    shares = (s for s in itertools.combinations_with_replacement(range(13), dim) if sum(s) == 12)
    return max(_mean_masked_delta(energy / 12 * np.array(share, dtype=np.float64), epsilon, keep) for share in shares)


def _by_quadrature(energy: float, epsilon: float) -> float:
    """The same delta from the two densities."""
    mu = math.sqrt(energy)

    def gap(x: float) -> float:
        return max(0.0, math.exp(-((x - mu) ** 2) / 2) - math.exp(epsilon - x * x / 2)) / math.sqrt(2 * math.pi)

    edge = epsilon / mu + mu / 2
    return float(scipy.integrate.quad(gap, edge, edge + mu + 12, epsabs=0, epsrel=1e-12, limit=200)[0])


def _cases() -> Iterator[tuple[float, float, int, int]]:
    for dim, keep in ((2, 1), (3, 1), (3, 2), (4, 1), (4, 3)):
        for energy in (0.2, 5.0, 30.0):
            for epsilon in (0.0, 0.05, 0.3, 1.0):
                yield energy, epsilon, dim, keep


def _levels(first: float, second: float, share: float, energy: float) -> tuple[tuple[int, float], tuple[int, float]]:
    """Numbers of coordinates, and the energy of each, of a gradient with two levels."""
    numbers = round(first), round(second)
    return (numbers[0], share * energy / numbers[0]), (numbers[1], (1 - share) * energy / numbers[1])


_DIM, _MOST = 10**6, 80


def _two_levels(energy: float, epsilon: float) -> float:
    """The largest delta at K = 1, d = 10^6, over gradients with two levels, up to 80 coordinates each."""
    first, second, share = np.meshgrid(np.arange(1, _MOST + 1), np.arange(1, _MOST + 1), np.linspace(0, 1, 21))
    costs = first * _gaussian_delta(share * energy / first, epsilon)
    return float((costs + second * _gaussian_delta((1 - share) * energy / second, epsilon)).max()) / _DIM


def _any_gradient(energy: float, epsilon: float, dim: int, keep: int) -> float:
    """The largest delta over 2,000 gradients drawn near the faces of the simplex, and the flat ones."""
    drawn = np.random.default_rng(0).dirichlet(np.full(dim, 0.3), size=2000)
    flat = np.tri(dim) / np.arange(1, dim + 1)[:, None]
    masks = np.array([[j in mask for j in range(dim)] for mask in itertools.combinations(range(dim), keep)])
    energies = energy * np.vstack([drawn, flat]) @ masks.T.astype(np.float64)
    return float(_gaussian_delta(energies, epsilon).mean(axis=1).max())


fresh_mask = new_row(
    id="gip.fresh_mask",
    source=Source("gip", "new, on Proposition 1"),
    verdict=Verdict.HOLDS,
    calculators=(privacy.FreshMask.rdp,),
)


@fresh_mask.equal(_cases, tolerance=1e-10)
def _(energy: float, epsilon: float, dim: int, keep: int) -> Sides:
    """one entry kept, or all but one: the largest delta over all gradients on a grid"""
    return (
        _worst_flat(energy, epsilon, dim, keep, range(1, dim + 1)),
        lambda: _on_a_grid(energy, epsilon, dim, keep),
        _worst_flat(energy, epsilon, dim, keep, (1, dim)),
    )


@fresh_mask.equal(lambda: itertools.product((0.01, 1.0, 20.0), (0.0, 1.0), ((2, 1), (6, 2), (7, 3), (5, 4), (100, 30))))
def _(energy: float, end: float, sizes: tuple[int, int]) -> Sides:
    """flat on everything at epsilon = 0, one entry at large epsilon, for every mask"""
    dim, keep = sizes
    # at mu^2 / 2 + 5 mu the delta of the whole gradient is about 1e-7
    epsilon = end * (energy / 2 + 5 * math.sqrt(energy))
    costs = [_flat(energy, epsilon, dim, keep, r) for r in range(1, dim + 1)]
    return 1 + int(np.argmax(costs)), dim if end == 0 else 1, 1 if end == 0 else dim


@fresh_mask.equal(lambda: itertools.product((0.01, 1.0, 20.0), (0.0, 0.2, 3.0)), tolerance=1e-8)
def _(energy: float, epsilon: float) -> Sides:
    """H, from the densities"""
    return (
        float(_gaussian_delta(energy, epsilon)),
        _by_quadrature(energy, epsilon),
        _by_quadrature(1.01 * energy, epsilon),
    )


@fresh_mask.equal(lambda: itertools.product((1.0, 5.0, 20.0), (0.5, 1.0, 2.0)), tolerance=1e-10)
def _(energy: float, epsilon: float) -> Sides:
    """one of 10^6 entries kept: the largest delta over gradients with two levels"""
    return (
        _worst_flat(energy, epsilon, _DIM, 1, range(1, 2 * _MOST)),
        _two_levels(energy, epsilon),
        _flat(energy, epsilon, _DIM, 1, 1),
    )


@fresh_mask.equal(
    lambda: itertools.product((0.3, 3.0, 30.0), (0.02, 0.4, 2.0), (4, 5, 6), (2, 3)),
    tolerance=1e-10,
)
def _(energy: float, epsilon: float, dim: int, keep: int) -> Sides:
    """observed: other masks, the largest delta over random gradients"""
    return (
        _worst_flat(energy, epsilon, dim, keep, range(1, dim + 1)),
        lambda: _any_gradient(energy, epsilon, dim, keep),
        _worst_flat(energy, epsilon, dim, keep, (2,)),
    )


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)
_FAR = 10.0
_GRID = np.linspace(-_FAR, _FAR, 2001)


def opposite_delta(scale: float, rate: float, epsilon: float) -> float:
    """delta(epsilon) of (1-q) N(0,1) + q N(s,1) against (1-q) N(0,1) + q N(-s,1), epsilon >= 0: the best event is a half-line."""
    return rate * half_line(scale, math.exp(epsilon), (1 - rate) * math.expm1(epsilon) / rate)


def pair_delta(first: float, second: float, angle: float, rate: float, epsilon: float) -> float:
    """The same for N(g, I) and N(g', I) in the plane, |g| = first, |g'| = second, with this angle between them.

    Centred at g, it is q E(1 - a M_u - c M_v)_+ with M_w = exp(<w, y> - |w|^2/2), u = g' - g, v = -g. Given <v, y> the
    expectation is that of a put option; the rest is a quadrature.
    """
    a, c = math.exp(epsilon), (1 - rate) * math.expm1(epsilon) / rate
    g, other = np.array([first, 0.0]), second * np.array([math.cos(angle), math.sin(angle)])
    u, v = other - g, -g
    along = float(u @ v) / first
    spread = math.sqrt(max(float(u @ u) - along**2, 0.0)) + 1e-9

    def put(z: Array) -> Array:
        strike = 1 - c * np.exp(first * z - first**2 / 2)
        mean = along * z - float(u @ u) / 2
        d = (np.log(np.maximum(strike, 1e-300) / a) - mean) / spread
        value = strike * scipy.special.ndtr(d) - a * np.exp(mean + spread**2 / 2) * scipy.special.ndtr(d - spread)
        return np.where(strike > 0, value, 0.0) * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)

    # panels that end where the strike vanishes, and narrow ones around where the option is at the money: a kink at worst lies
    # in a panel of width 0.01 (80 nodes: an error far below the tolerance of the check)
    level = 1 - c * np.exp(first * _GRID - first**2 / 2) - a * np.exp(along * _GRID - float(u @ u) / 2)
    turns = _GRID[:-1][np.diff(np.sign(level)) != 0]
    ends = {
        -_FAR,
        0.0,
        _FAR,
        *(t + k * max(spread, 0.01) for t in turns for k in (-9.0, -3.0, -1.0, 0.0, 1.0, 3.0, 9.0)),
    }
    if c > 0:
        ends.add(first / 2 - math.log(c) / first)
    cuts = np.array(sorted(e for e in ends if -_FAR <= e <= _FAR))
    half = np.diff(cuts)[:, None] / 2
    return rate * float((half * _WEIGHTS * put(cuts[:-1, None] + half * (1 + _NODES))).sum())


_LINE = np.linspace(-9.0, 9.0, 721)


def _step(first: float, second: float, rate: float) -> tuple[Array, Array]:
    """Densities, times the mesh, of a step with collinear gradients, on a grid; with the example's content changed."""
    laws = []
    for mean in (first, second):
        density = (1 - rate) * np.exp(-(_LINE**2) / 2) + rate * np.exp(-((_LINE - mean) ** 2) / 2)
        laws.append(density / density.sum())
    return laws[0], laws[1]


def _stick(law: tuple[Array, Array], gammas: Array) -> Array:
    """H_gamma for every gamma: the best event takes the largest ratios."""
    p, q = law
    ratios = p / q
    order = np.argsort(-ratios)
    above = np.searchsorted(-ratios[order], -gammas)
    sums_p, sums_q = (np.append(0.0, np.cumsum(x[order])) for x in (p, q))
    return np.asarray(sums_p[above] - gammas * sums_q[above])


def two_steps(pairs: tuple[tuple[float, float], ...], rate: float, log_gamma: float) -> float:
    """H_gamma of two steps; the pair of gradients of the second is chosen by the sign of the first outcome."""
    first, *rest = (_step(*pair, rate) for pair in pairs)
    p, q = first
    gammas = math.exp(log_gamma) * q / p
    later = np.where(_LINE > 0, *(_stick(law, gammas) for law in rest))
    return float(p @ later)


def _two_steps_slack(scale: float, rate: float, log_gamma: float, share: float, **shifts: float) -> float:
    """Opposite gradients of full norm in both steps are worse than what an adaptive choice makes, at every gamma > 0."""
    chosen = tuple((scale * shifts[f"g{j}"], scale * shifts[f"h{j}"]) for j in range(3))
    return two_steps(3 * ((scale * share, -scale * share),), rate, log_gamma) - two_steps(chosen, rate, log_gamma)


replace_one = new_row(
    id="gip.replace_one",
    source=Source("gip", "new, on Definition 1 and Lemma 1"),
    verdict=Verdict.HOLDS,
    calculators=(privacy.epsilon_bounds,),
)


@replace_one.inequality(
    {
        "scale": Range(0.05, 4.0, log=True),
        "first": Range(0.05, 1.0),
        "second": Range(0.0, 1.0),
        "angle": Range(0.0, math.pi),
        "rate": Range(1e-3, 0.999),
        "epsilon": Range(0.0, 4.0),
    },
    # wrong: orthogonal ones are the worst
    wrong=lambda scale, first, second, angle, rate, epsilon: (
        (
            pair_delta(scale, scale, math.pi / 2, rate, epsilon)
            - pair_delta(first * scale, second * scale, angle, rate, epsilon)
        )
        / rate
    ),
    tolerance=1e-6,
)
def _worst_slack(scale: float, first: float, second: float, angle: float, rate: float, epsilon: float) -> float:
    """no pair of gradients is worse than two opposite ones"""
    return (
        opposite_delta(scale, rate, epsilon) - pair_delta(first * scale, second * scale, angle, rate, epsilon)
    ) / rate


@replace_one.inequality(
    {
        "scale": Range(0.1, 2.5, log=True),
        "rate": Range(1e-2, 0.99),
        "log_gamma": Range(-3.0, 3.0),
        **{f"{name}{j}": Range(-1.0, 1.0) for name in "gh" for j in range(3)},
    },
    # wrong: the account of opposite gradients of half the norm, which add/remove would take
    wrong=lambda **point: _two_steps_slack(share=0.5, **point),
    tolerance=1e-5,  # of the grid
)
def _adaptive_slack(**point: float) -> float:
    """two steps, the second pair chosen by the first outcome, gamma below 1 too"""
    return _two_steps_slack(share=1.0, **point)


def _accounted(sigma: float, rate: float, steps: int, delta: float) -> tuple[float, float]:
    """Epsilon where a record is replaced, and where it is added or removed."""
    bounds = partial(privacy.epsilon_bounds, noise_multiplier=sigma, sampling_rate=rate, steps=steps, delta=delta)
    return bounds(adjacency="replace-one").estimate, bounds().estimate


@replace_one.equal((1.0, 0.1, 1e-3), (1.0, 0.5, 0.05), tolerance=1e-2)
def _(s: float, q: float, d: float) -> Sides:
    """two steps of opposite gradients under the accountant"""
    opposite = 3 * ((1 / s, -1 / s),)
    found, wrong = (two_steps(opposite, q, epsilon) for epsilon in _accounted(s, q, 2, d))
    return found, d, wrong


@replace_one.equal(
    lambda: [(s, q, d) for s in (0.5, 1.0, 3.0) for q in (0.01, 0.3) for d in (1e-3, 1e-6)], tolerance=1e-6
)
def _(s: float, q: float, d: float) -> Sides:
    """delta of one step at the epsilon of the accountant"""
    found, wrong = (opposite_delta(1 / s, q, epsilon) for epsilon in _accounted(s, q, 1, d))
    return found, d, wrong
