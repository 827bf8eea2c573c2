import itertools
import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import scipy

from dptheory import pruning
from dptheory._arrays import Array
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.gip._finite import top_k_gain

_CENTRE = math.sqrt(2 / math.pi)  # E|x|, x standard normal
_SPREAD = math.sqrt(1 - 2 / math.pi)  # standard deviation of |x|
_DIM = 10**6  # large enough for the limits of large groups
_X = np.linspace(0.0, 12.0, 2401)
_DENSITY = (
    2 * scipy.stats.norm.pdf(_X) * np.r_[0.5, np.ones(2399), 0.5] * (_X[1] - _X[0])
)  # trapezoids: the density is even


def _bound(share: float, rho: float, length: float) -> float:
    """The calculator's bound in a group of 10^6, for gradients of ``length`` clipping norms."""
    return pruning.selection_gain_bound(
        zcdp_rho=rho,
        dim=_DIM,
        keep=round(share * _DIM),
        groups=1,
        sigma_g=length / math.sqrt(_DIM),
        clip_norm=1.0,
    )


def _magnitudes(share: float, rho: float, length: float) -> float:
    noise = pruning.magnitude_noise(rho) / (length / math.sqrt(_DIM))
    return pruning.magnitude_gain(keep_share=share, noise_ratio=noise)


def _logistic(share: float, rho: float, length: float) -> float:
    """Share retained where every entry is kept on its own, with log-odds sqrt(8 rho) |g_j| / C - c."""
    rate = math.sqrt(8 * rho) * length / math.sqrt(_DIM)
    edge = 40 + 12 * rate
    offset = scipy.optimize.brentq(
        lambda c: float(_DENSITY @ scipy.special.expit(rate * _X - c)) - share, -edge, edge, xtol=1e-13
    )
    return float(_DENSITY @ ((_X**2 - 1) * scipy.special.expit(rate * _X - offset))) / top_k_gain(share)


def _primal(share: float, slope: float) -> tuple[float, float]:
    """Gain and information of the selection p with log-odds slope x^2 - c, by quadrature."""

    def chance(x: float, offset: float) -> float:
        return float(scipy.special.expit(slope * (x * x - 1) - offset))

    def mean(offset: float, of: int) -> float:
        def integrand(x: float) -> float:
            p = chance(x, offset)
            nats = float(scipy.special.rel_entr(p, share) + scipy.special.rel_entr(1 - p, 1 - share))
            return 2 * float(scipy.stats.norm.pdf(x)) * (p, (x * x - 1) * p, nats)[of]

        edge = math.sqrt(max(1 + offset / slope, 0.01))
        return float(
            scipy.integrate.quad(integrand, 0, 12, points=[edge, min(11.9, 1.1 * edge)], limit=200, epsabs=1e-13)[0]
        )

    offset = scipy.optimize.brentq(lambda c: mean(c, 0) - share, -40 - slope, 40 + 150 * slope, xtol=1e-13)
    return mean(offset, 1), mean(offset, 2)


def _most_gain(share: float, nats: float, dim: int, groups: int, ratio: float) -> float:
    """F, taken out of the calculator's bound: ``nats`` a entry, sigma_g / C = ``ratio``."""
    keep = round(share * dim)
    rho = nats / (_SPREAD * ratio + 1 / math.sqrt(dim * groups)) ** 2
    bound = pruning.selection_gain_bound(zcdp_rho=rho, dim=dim, keep=keep, groups=groups, sigma_g=ratio, clip_norm=1.0)
    return bound * float(pruning.random_k_mse(dim, keep, sigma_g=1.0) - pruning.top_k_mse(dim, keep, sigma_g=1.0)) / dim


def _channel(*, a0: float, a1: float, a2: float, joint: float, tilt: float) -> tuple[float, float]:
    """A channel from three fair bits to subsets of three: E KL to a law Q, and the information of every entry on its bit."""
    bits = np.array(list(itertools.product((0, 1), repeat=3)), dtype=np.float64)
    size = bits.sum(axis=1)
    logs = (bits * [a0, a1, a2]) @ bits.T + joint * size * (size - 1)  # row: the bits, column: the subset
    laws = np.exp(logs - scipy.special.logsumexp(logs, axis=1, keepdims=True))
    other = np.exp(tilt * size - scipy.special.logsumexp(tilt * size))
    spent = float(scipy.special.rel_entr(laws, other).sum(axis=1).mean())
    learned = 0.0
    for j in range(3):
        kept = laws @ bits[:, j]
        chances = np.array([kept[bits[:, j] == bit].mean() for bit in (0, 1)])
        learned += float(
            scipy.special.entr(kept.mean())
            + scipy.special.entr(1 - kept.mean())
            - (scipy.special.entr(chances) + scipy.special.entr(1 - chances)).mean()
        )
    return spent, learned


_ORDERS = np.logspace(-4, 4, 601)[:, None] + 1


def _order_share(first: Array, second: Array, orders: Array) -> Array:
    """D_a / a of two laws given by logarithms, over the orders."""
    return np.asarray(
        scipy.special.logsumexp(orders * first + (1 - orders) * second, axis=1) / (orders[:, 0] - 1) / orders[:, 0]
    )


def _group_share(order: float, step: float, middle: float, last: float) -> float:
    """D_a of the ends of a chain of three laws, over a times the largest zCDP of a link."""
    heights = np.array([0.0, middle, 1.0])
    chain = [step * c * heights - scipy.special.logsumexp(step * c * heights) for c in (0.0, 1.0, 1.0 + last)]
    links = [pair for one in itertools.pairwise(chain) for pair in (one, one[::-1])]
    rho = max(float(_order_share(*pair, _ORDERS).max()) for pair in links)
    return float(_order_share(chain[0], chain[2], np.array([[order]]))[0]) / rho


def _logistic_share(order: float, rho: float, g: float, shift: float, turn: float) -> float:
    """D_a of two entries kept on their own, over a rho: C = 1, v of norm 1, log-odds sqrt(8 rho) |g_j| - shift."""
    total = 0.0
    for move in (math.cos(turn), math.sin(turn)):
        odds = math.sqrt(8 * rho) * np.abs([g, g + move]) - shift
        first, second = (-np.logaddexp(0, [-x, x]) for x in odds)
        total += float(_order_share(first, second, np.array([[order]]))[0]) / rho
    return total


selection_limit = new_row(
    id="gip.selection_limit",
    source=Source("gip", "new, on section 4.2"),
    verdict=Verdict.HOLDS,
    calculators=(pruning.selection_gain_bound,),
)


@selection_limit.equal(
    lambda: itertools.product((1.001, 2.0, 10.0), (0.02, 0.5, 5.0), (-0.5, 0.5, 1.9), (0.3, 1.0)),
    tolerance=1e-3,  # the largest zCDP of a link is sought on a grid of orders
)
def _(order: float, step: float, middle: float, last: float) -> Sides:
    """step 1: two links of a chain cost at most four times as much as one"""
    cost = _group_share(order, step, middle, last)
    return max(4.0, cost), 4.0, max(2.0, cost)


@selection_limit.equal(lambda: itertools.product((-1.0, 0.2), (0.2, 2.0), (0.2, 1.0), (0.0, -0.5, 1.0), (0.1, -1.0)))
def _(a0: float, a1: float, a2: float, joint: float, tilt: float) -> Sides:
    """step 3: the entries together learn no more than the set spends"""
    spent, learned = _channel(a0=a0, a1=a1, a2=a2, joint=joint, tilt=tilt)
    return min(learned, spent), learned, min(learned, 0.9 * spent)


@selection_limit.equal(
    (0.1, 0.01, 1000, 1, 0.3),
    (0.1, 0.4, 1000, 50, 0.01),
    (0.5, 1.5, 64, 3, 1.0),
    (0.9, 1.0, 10, 1, 0.1),
    (0.01, 0.2, 10**6, 9, 0.001),
    tolerance=1e-6,
)
def _(share: float, slope: float, dim: int, groups: int, ratio: float) -> Sides:
    """step 5: the minimum over s and nu is the gain of a selection with that information, by quadrature"""
    gain, nats = _primal(share, slope)
    return (
        _most_gain(share, nats, dim, groups, ratio),
        gain,
        lambda: _most_gain(share, 1.01 * nats, dim, groups, ratio),
    )


def _settings() -> Iterator[tuple[float, float, float]]:
    for share in (0.01, 0.1, 0.5, 0.9):
        for length in (0.3, 100.0):
            for rho in (1e-6, 0.03, 1.0, 30.0):
                yield share, rho * _DIM / (1 + length) ** 2, length


@selection_limit.equal(_settings)
def _(share: float, rho: float, length: float) -> Sides:
    """noisy sizes and the logistic choice retain no more than the bound"""
    retained = max(_magnitudes(share, rho, length), _logistic(share, rho, length))
    bound = _bound(share, rho, length) * (1 + 1e-9)
    return min(retained, bound), retained, min(retained, bound / 1.1)


@selection_limit.equal(lambda: itertools.product((1, 26, 128, 255), (1e-3, 1.0, 5.0), (1e-6, 0.1, 100.0)))
def _(keep: int, length: float, rho: float) -> Sides:
    """the Mallows mechanism retains no more than the bound, groups of 256"""
    retained = pruning.retained_gain(256, keep, theta=math.sqrt(rho / pruning.index_sensitivity(256, keep)))
    bound = pruning.selection_gain_bound(zcdp_rho=rho, dim=256, keep=keep, groups=1, sigma_g=length / 16, clip_norm=1.0)
    return min(retained, bound), retained, min(retained, bound / 8)


@selection_limit.inequality(
    {
        "order": Range(1.001, 100, log=True),
        "rho": Range(1e-4, 10, log=True),
        "g": Range(-3, 3),
        "shift": Range(-3, 5),
        "turn": Range(0, 7),
    },
    wrong=0.1,  # nine tenths of it
    tolerance=1e-6,
)
def _logistic_slack(**point: float) -> float:
    """step 8: the logistic choice spends no more than its budget, two entries"""
    return 1.0 - _logistic_share(**point)


def _leading(share: float, length: float, name: str) -> float:
    """Bound over retained share at small budgets, items 3 to 5."""
    long = 1 + 1 / (_SPREAD * length)
    root = math.sqrt(share * (1 - share))
    a = float(scipy.stats.norm.isf(share / 2))
    return {
        "sizes": math.sqrt(math.pi - 2) * root / float(scipy.stats.norm.pdf(scipy.stats.norm.isf(share))) * long,
        "logistic": math.sqrt(math.pi - 2) / (2 * root) * long,
        "mallows": (_SPREAD * length + 1) / (a * float(scipy.stats.norm.pdf(a)) * math.sqrt(2 * (1 - share))),
    }[name]


def _measured(share: float, length: float, name: str) -> float:
    rho = 1e-7
    retained = {
        "sizes": lambda: _magnitudes(share, rho, length),
        "logistic": lambda: _logistic(share, rho, length),
        "mallows": lambda: pruning.retained_gain(_DIM, round(share * _DIM), theta=math.sqrt(rho / (2 * share * _DIM))),
    }[name]()
    return _bound(share, rho, length) / retained


@selection_limit.equal(
    lambda: itertools.product((0.5, 0.1, 0.01), (0.5, 100.0), ("sizes", "logistic", "mallows")), tolerance=2e-3
)
def _(share: float, length: float, name: str) -> Sides:
    """small budgets: the bound over what noisy sizes, the logistic choice and the Mallows mechanism retain"""
    leading = _leading(share, length, name)
    return leading, _measured(share, length, name), leading / _SPREAD


@selection_limit.equal(lambda: itertools.product((0.3, 0.75, 1.0, 1.5, 3.0, 5.0, 7.0, 20.0, 1e3), (100.0, 1e4)))
def _(noise: float, length: float) -> Sides:
    """k = .1, gradients of at least 100 clipping norms, noise in units of sigma_g: noisy sizes have half of the bound"""
    rho = _DIM / (2 * (noise * length) ** 2)
    bound, retained = _bound(0.1, rho, length), _magnitudes(0.1, rho, length)
    return max(bound, 2 * retained), 2 * retained, max(bound, 1.85 * retained)


_ALTERNATIVES_DIM, _KEEP = 1000, 100
_RATIO = 0.75


def _excess_energy(gradient: Array, score: Array, keep: int) -> Array:
    """Energy that the top-k of the score keeps beyond the share k of all."""
    squares = np.square(gradient)
    chosen = np.argpartition(score, -keep, axis=1)[:, -keep:]
    kept = np.take_along_axis(squares, chosen, axis=1).sum(axis=1)
    return np.asarray(kept - keep / gradient.shape[1] * squares.sum(axis=1))


def _relative_gain(rng: np.random.Generator, n: int, dim: int, keep: int, kind: str) -> Array:
    """Excess energy over that of exact top-k in large groups, one draw per gradient."""
    gradient = rng.standard_normal((n, dim))
    noise = rng.standard_normal((n, dim)) if kind == "normal" else rng.gumbel(size=(n, dim))
    excess = _excess_energy(gradient, np.abs(gradient) + _RATIO * noise, keep)
    return excess / (dim * top_k_gain(keep / dim))


def _released(rng: np.random.Generator, n: int, dim: int, noise_std: float) -> tuple[Array, Array]:
    """Gaussian gradients, and the same with noise."""
    gradient = rng.standard_normal((n, dim))
    return gradient, gradient + noise_std * rng.standard_normal((n, dim))


def _released_excess(rng: np.random.Generator, n: int, dim: int, keep: int, noise_std: float) -> Array:
    gradient, released = _released(rng, n, dim, noise_std)
    return _excess_energy(gradient, np.abs(released), keep)


def _released_error(rng: np.random.Generator, n: int, dim: int, keep: int, noise_std: float) -> Array:
    gradient, released = _released(rng, n, dim, noise_std)
    return np.asarray(np.square(released * pruning.top_k_mask(released, keep=keep) - gradient).sum(axis=1))


def _exact_gain(dim: int, keep: int) -> float:
    return float(pruning.random_k_mse(dim, keep, sigma_g=1.0) - pruning.top_k_mse(dim, keep, sigma_g=1.0))


def _peeling_divergence(scores: Array, others: Array, keep: int, rate: float, order: float) -> float:
    """D_order of the ordered top-k under Gumbel noise of scale 1 / rate, by enumeration."""

    def log_chance(u: Array, ordered: tuple[int, ...]) -> float:
        left, result = dict(enumerate(rate * u)), 0.0
        for j in ordered:
            result += left[j] - float(np.logaddexp.reduce(list(left.values())))
            del left[j]
        return result

    terms = []
    for ordered in itertools.permutations(range(scores.size), keep):
        terms.append(order * log_chance(scores, ordered) + (1 - order) * log_chance(others, ordered))
    return float(np.logaddexp.reduce(terms)) / (order - 1)


def _peeling_share(order: float, rho: float, g0: float, g1: float, v0: float, v1: float) -> float:
    """Divergence over order * rho for d = 3, K = 2, C = 1, at the rate that the budget rho allows."""
    g, v = np.array([g0, g1, 0.5]), np.array([v0, v1, 0.1])
    moved = np.abs(g + v / np.linalg.norm(v))
    return _peeling_divergence(np.abs(g), moved, 2, pruning.gumbel_rate(zcdp_rho=rho, keep=2), order) / (order * rho)


def _room(order: float, **entries: float) -> float:
    """A norm of v less how far the sizes of g move, in Euclidean norm, when v is added."""
    g, v = (np.array([entries[f"{letter}{j}"] for j in range(3)]) for letter in "gv")
    return float(np.linalg.norm(v, order) - np.linalg.norm(np.abs(g + v) - np.abs(g)))


def _sizes_divergence(order: float, rho: float, clip: float) -> float:
    """D_order of noisy sizes (|g| = 5 C in one entry) with and without an example that adds C, both ways by quadrature."""
    noise = pruning.magnitude_noise(rho) * clip
    grid = np.linspace(-12.0, 12.0, 4001) * noise * (1 + order) + 5 * clip
    first, second = scipy.stats.norm.logpdf(grid, 6 * clip, noise), scipy.stats.norm.logpdf(grid, 5 * clip, noise)
    logs = (order * p + (1 - order) * q for p, q in ((first, second), (second, first)))
    return max((float(np.logaddexp.reduce(found)) + math.log(grid[1] - grid[0])) / (order - 1) for found in logs)


def _gumbel_worst(order: float, rho: float) -> float:
    """Divergence over the order of the exact worst case: two even entries, one up and one down by C / sqrt 2."""
    scores, move = np.array([1.0, 1.0]), math.sqrt(0.5)
    return (
        _peeling_divergence(
            scores, scores + np.array([move, -move]), 1, pruning.gumbel_rate(zcdp_rho=rho, keep=1), order
        )
        / order
    )


_SMALL = (
    (1e-7, 256, 26, 100, 0.3, 1.0, 1e3),
    (1e-7, 20_000, 2000, 5, 2.0, 0.5, 1e3),
    (1e-8, 10**6, 5, 1, 0.3, 1.0, 50.0),
)
"""rho, dim, keep, groups, sigma_g, clip, noise multiplier."""


def _small_gains(
    name: str, rho: float, dim: int, keep: int, groups: int, sigma_g: float, clip: float, noise: float
) -> float:
    """Leading term of each gain where the budget is small."""
    k = keep / dim
    signal = math.sqrt(2 / math.pi) * sigma_g / clip / top_k_gain(k)
    return {
        "mallows": 2 * k * (1 - k) * dim / (dim - 1) * math.sqrt(rho / (2 * keep * groups)),
        "magnitude": float(scipy.stats.norm.pdf(scipy.stats.norm.isf(k))) * math.sqrt(2 * rho) * signal,
        "gumbel": (1 - k) * -math.log1p(-k) * 2 * math.sqrt(rho / keep) * signal,
        "released": (sigma_g / (clip * noise)) ** 2,
    }[name]


def _released_by_parts(dim: int, keep: int, sigma_g: float, noise_std: float) -> float:
    """Error of top-k of r = g + Z from E[Z^2 | r] where it is kept and E[g^2 | r] where not, K = 1 or d - 1.

    The energy kept is that of the largest, or of all but the smallest, of d normal entries: a quadrature.
    """
    size = np.linspace(0.0, 12.0, 40_001)  # of an entry of r over its deviation
    largest = float(np.trapezoid(1 - scipy.special.erf(size / math.sqrt(2)) ** dim, size**2))
    smallest = float(np.trapezoid(scipy.special.erfc(size / math.sqrt(2)) ** dim, size**2))
    kept = largest if keep == 1 else dim - smallest
    total = sigma_g**2 + noise_std**2
    given_r = sigma_g**2 * noise_std**2 / total
    return dim * given_r + kept * noise_std**4 / total + (dim - kept) * sigma_g**4 / total


alternatives = new_row(
    id="gip.alternatives",
    source=Source("gip", "new, on section 4.2, below Theorem 2"),
    verdict=Verdict.HOLDS,
    calculators=(
        pruning.magnitude_noise,
        pruning.gumbel_rate,
        pruning.magnitude_gain,
        pruning.gumbel_gain,
        pruning.released_gain,
        pruning.released_top_k_mse,
        pruning.selection_gains,
    ),
    figure="index_alternatives",
)


@alternatives.inequality(
    {name: Range(-3.0, 3.0) for name in ("g0", "g1", "g2", "v0", "v1", "v2")},
    # wrong: at most the largest entry of v
    wrong=lambda **entries: _room(math.inf, **entries),
)
def _sizes_slack(**entries: float) -> float:
    """the sizes move by no more than the gradient"""
    return _room(2, **entries)


@alternatives.equal((2.0, 0.1, 1.0), (7.0, 1e-3, 3.0), (1.5, 2.0, 0.2), tolerance=1e-9)
def _(order: float, rho: float, clip: float) -> Sides:
    """noise on the magnitudes spends the budget, by quadrature"""
    return _sizes_divergence(order, rho, clip), order * rho, _sizes_divergence(order, rho, 2 * clip) / 2


@alternatives.equal((2.0, 1e-8), (9.0, 1e-9), tolerance=1e-4)
def _(order: float, rho: float) -> Sides:
    """Gumbel rate is the largest"""
    return rho, lambda: _gumbel_worst(order, rho), 2 * rho  # wrong: sensitivity C in every entry at once


@alternatives.inequality(
    {
        "order": Range(1.1, 40, log=True),
        "rho": Range(1e-3, 10, log=True),
        **{name: Range(-3, 3) for name in ("g0", "g1")},
        **{name: Range(-1, 1) for name in ("v0", "v1")},
    },
    wrong=0.5,  # the K rounds cost as much as one
    tolerance=1e-6,
)
def _gumbel_slack(order: float, rho: float, g0: float, g1: float, v0: float, v1: float) -> float:
    """one-shot Gumbel, two of three entries"""
    return 1 - _peeling_share(order, rho, g0, g1, v0, v1)


@alternatives.mean(
    partial(_relative_gain, dim=_ALTERNATIVES_DIM, keep=_KEEP, kind="normal"),
    wrong=lambda: pruning.gumbel_gain(
        keep_share=_KEEP / _ALTERNATIVES_DIM, noise_ratio=_RATIO * math.sqrt(6) / math.pi
    ),  # the same variance
    row_bytes=40_000,
)
def _() -> float:
    """gain of noisy magnitudes"""
    return pruning.magnitude_gain(keep_share=_KEEP / _ALTERNATIVES_DIM, noise_ratio=_RATIO)


@alternatives.mean(
    partial(_relative_gain, dim=_ALTERNATIVES_DIM, keep=_KEEP, kind="gumbel"),
    wrong=lambda: pruning.magnitude_gain(
        keep_share=_KEEP / _ALTERNATIVES_DIM, noise_ratio=_RATIO * math.pi / math.sqrt(6)
    ),  # the same variance
    row_bytes=40_000,
)
def _() -> float:
    """gain of one-shot Gumbel"""
    return pruning.gumbel_gain(keep_share=_KEEP / _ALTERNATIVES_DIM, noise_ratio=_RATIO)


@alternatives.mean(
    partial(_released_excess, dim=20, keep=4, noise_std=1.0),
    wrong=lambda: math.sqrt(pruning.released_gain(sigma_g=1.0, noise_std=1.0)) * _exact_gain(20, 4),
    row_bytes=1200,
)
def _() -> float:
    """gain of the released gradient"""
    return pruning.released_gain(sigma_g=1.0, noise_std=1.0) * _exact_gain(20, 4)


@alternatives.mean(
    partial(_released_error, dim=20, keep=4, noise_std=2.0),
    wrong=lambda: 16 + 4 * 4.0,  # random-k's
    row_bytes=1600,
)
def _() -> float:
    """error of the released top-k"""
    return pruning.released_top_k_mse(20, 4, sigma_g=1.0, noise_std=2.0)


@alternatives.equal(
    lambda: [(name, *c) for name in ("mallows", "magnitude", "gumbel", "released") for c in _SMALL], tolerance=2e-3
)
def _(name: str, rho: float, dim: int, keep: int, groups: int, sigma_g: float, clip: float, noise: float) -> Sides:
    """gains at a small budget"""
    small = partial(_small_gains, name, rho, dim, keep, groups, sigma_g, clip, noise)
    return (
        getattr(
            pruning.selection_gains(
                zcdp_rho=rho, dim=dim, keep=keep, groups=groups, sigma_g=sigma_g, clip_norm=clip, noise_multiplier=noise
            ),
            name,
        ),
        small,
        small() ** 2,
    )


@alternatives.equal(
    (6, 1, 1.0, 2.0), (20_000, 1, 1.0, 2.0), (20_000, 1, 2.0, 0.5), (20_000, 19_999, 1.0, 2.0), tolerance=1e-6
)
def _(dim: int, keep: int, sigma_g: float, noise_std: float) -> Sides:
    """error of the released top-k at users' sizes, by the conditional energies"""
    return (
        pruning.released_top_k_mse(dim, keep, sigma_g=sigma_g, noise_std=noise_std),
        lambda: _released_by_parts(dim, keep, sigma_g, noise_std),
        (dim - keep) * sigma_g**2 + keep * noise_std**2,  # random-k's
    )
