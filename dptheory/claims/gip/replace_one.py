import math

import numpy as np
import scipy

from dptheory import privacy
from dptheory._arrays import Array
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)
_FAR = 10.0
_GRID = np.linspace(-_FAR, _FAR, 2001)


def opposite_delta(scale: float, rate: float, epsilon: float) -> float:
    """delta(epsilon) of (1-q) N(0,1) + q N(s,1) against (1-q) N(0,1) + q N(-s,1), epsilon >= 0: the best event is a half-line."""
    a, c = math.exp(epsilon), (1 - rate) * math.expm1(epsilon) / rate
    log_c = math.log(c) if c > 0 else -math.inf

    def excess(x: float) -> float:
        """log of the first density less that of what it must exceed, over N(0, 1); it rises in x."""
        return scale * x - scale**2 / 2 - float(np.logaddexp(epsilon - scale * x - scale**2 / 2, log_c))

    edge = scipy.optimize.brentq(excess, -1e5, 1e5)
    return float(
        rate
        * (scipy.special.ndtr(scale - edge) - a * scipy.special.ndtr(-scale - edge) - c * scipy.special.ndtr(-edge))
    )


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


def _orthogonal_slack(scale: float, first: float, second: float, angle: float, rate: float, epsilon: float) -> float:
    """Wrong statement: orthogonal ones are."""
    worst = pair_delta(scale, scale, math.pi / 2, rate, epsilon)
    return (worst - pair_delta(first * scale, second * scale, angle, rate, epsilon)) / rate


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


row = new_row(
    id="gip.replace_one",
    source=Source("gip", "new, on Definition 1 and Lemma 1"),
    verdict=Verdict.HOLDS,
    calculators=(privacy.epsilon_bounds,),
)


@row.inequality(
    {
        "scale": Range(0.05, 4.0, log=True),
        "first": Range(0.05, 1.0),
        "second": Range(0.0, 1.0),
        "angle": Range(0.0, math.pi),
        "rate": Range(1e-3, 0.999),
        "epsilon": Range(0.0, 4.0),
    },
    wrong=_orthogonal_slack,
    tolerance=1e-6,
)
def _worst_slack(scale: float, first: float, second: float, angle: float, rate: float, epsilon: float) -> float:
    """no pair of gradients is worse than two opposite ones

    Opposite gradients of full norm are the worst pair; relative to the sampling rate.
    """
    return (
        opposite_delta(scale, rate, epsilon) - pair_delta(first * scale, second * scale, angle, rate, epsilon)
    ) / rate


@row.inequality(
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


@row.equal((1.0, 0.1, 1e-3), (1.0, 0.5, 0.05), tolerance=1e-2)
def _(s: float, q: float, d: float) -> Sides:
    """two steps of opposite gradients under the accountant"""
    return (
        two_steps(
            3 * ((1 / s, -1 / s),),
            q,
            privacy.epsilon_bounds(
                noise_multiplier=s, sampling_rate=q, steps=2, delta=d, adjacency="replace-one"
            ).estimate,
        ),
        d,
        two_steps(
            3 * ((1 / s, -1 / s),),
            q,
            privacy.epsilon_bounds(noise_multiplier=s, sampling_rate=q, steps=2, delta=d).estimate,
        ),
    )


@row.equal(lambda: [(s, q, d) for s in (0.5, 1.0, 3.0) for q in (0.01, 0.3) for d in (1e-3, 1e-6)], tolerance=1e-6)
def _(s: float, q: float, d: float) -> Sides:
    """delta of one step at the epsilon of the accountant"""
    return (
        opposite_delta(
            1 / s,
            q,
            privacy.epsilon_bounds(
                noise_multiplier=s, sampling_rate=q, steps=1, delta=d, adjacency="replace-one"
            ).estimate,
        ),
        d,
        opposite_delta(
            1 / s, q, privacy.epsilon_bounds(noise_multiplier=s, sampling_rate=q, steps=1, delta=d).estimate
        ),
    )
