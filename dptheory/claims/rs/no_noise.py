import itertools
import math

import numpy as np

from dptheory import gradients, sparsification
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row

row = new_row(
    id="rs.no_noise",
    source=Source("rs", "new, on section 7"),
    verdict=Verdict.HOLDS,
    calculators=(gradients.clip, sparsification.isotropic_kappa),
    kernel_theorems=("part_holds",),
)


def _masks(dim: int, keep: int) -> Array:
    return np.array([[float(j in kept) for j in range(dim)] for kept in itertools.combinations(range(dim), keep)])


def decrease(rows: Array, true: Array, clip: float, masks: Array) -> float:
    """U^2 / M of batches of one example: 2 G times the largest decrease of a step on a quadratic of curvature G."""
    clipped = gradients.clip((masks[:, None, :] * rows).reshape(-1, rows.shape[1]), clip_norm=clip)
    return float((clipped @ true).mean()) ** 2 / float((clipped**2).sum(axis=1).mean())


def _alone(d: float, keep: float, tilt: float, clip: float, share: float = 1.0) -> float:
    """Item 1: ``share`` of x |w|^2 less what a mask has, over |w|^2."""
    dim, kept = round(d), min(round(keep), round(d) - 1)
    true = np.arange(1, dim + 1) ** -tilt * (1 + 0.5 * np.sin(2 * np.arange(dim)))
    size = float(true @ true)
    found = decrease(true[None, :], true, clip * math.sqrt(size), _masks(dim, kept))
    return (share * kept / dim * size - found) / size


def _less(**point: float) -> float:
    return _alone(**point, share=0.9)


row.inequality(
    {
        "d": Range(2, 6, integer=True),
        "keep": Range(1, 5, integer=True),
        "tilt": Range(0, 2),
        "clip": Range(0.1, 3, log=True),
    },
    wrong=_less,
    tolerance=1e-9,
    name="without deviations a mask leaves at most the share of entries that it keeps",
)(_alone)


def _whole_run(
    gamma: float, mu: float, bend: float, spread: float, noise: float, angle: float, share: float = 0.5
) -> float:
    """Item 5, three steps: the mean loss with one of two entries kept, over that of ``share`` of each update, less 1.

    The masked run has the smaller noise of a clipping norm of sqrt(1/2) times that of the other.
    """
    slope = np.array([[1.0, 0.3], [0.3, 0.2]])
    bent = bend * np.array([[math.cos(angle), 1.0], [1.0, -math.sin(angle)]])
    offset = spread * np.array([1.0, math.sin(angle)])
    start = np.array([math.cos(3 * angle), 1.0])
    ends = []
    for masks, size in ((list(np.eye(2)), math.sqrt(0.5) * noise), ([np.full(2, share)], noise)):
        places, speeds = start[None, :], np.zeros((1, 2))
        for _ in range(3):
            fast = [
                mu * speeds + mask * (places @ (slope + record * bent) + record * offset + size * kick)
                for mask, record, kick in itertools.product(masks, (1, -1), np.concatenate([np.eye(2), -np.eye(2)]))
            ]
            places = np.concatenate([places - gamma * one for one in fast])
            speeds = np.concatenate(fast)
        ends.append(float(np.einsum("ij,jk,ik->i", places, slope, places).mean()))
    return ends[0] / max(ends[1], 1e-300) - 1


row.inequality(
    {
        "gamma": Range(0.01, 3, log=True),
        "mu": Range(0, 0.95),
        "bend": Range(0, 1),
        "spread": Range(0, 3),
        "noise": Range(0, 3),
        "angle": Range(0, math.pi),
    },
    wrong=lambda **point: _whole_run(**point, share=1.0),
    tolerance=1e-9,
    name="without clipping no run of fresh masks on a quadratic ends below the one with x times each update",
)(_whole_run)


_SIGNS = np.array([[1, 1, 1, 1], [1, 1, 1, -1], [1, -1, 1, 1], [-1, -1, 1, -1]], dtype=float)


@row.equal(*((clip, scale) for clip in (0.3, 1.0, 2.5, 4.0) for scale in (1.0, 3.0)), tolerance=1e-12)
def _(clip: float, scale: float) -> Sides:
    """flat gradients of several lengths: x times the larger clip's decrease, every mask in turn"""
    rows = _SIGNS * np.array([1.0, scale, 1.0, 2.0])[:, None]
    true, whole = np.array([1.0, 0.5, 1.0, 0.2]), np.ones((1, 4))
    return (
        0.5 * decrease(rows, true, clip * math.sqrt(2), whole),
        lambda: decrease(rows, true, clip, _masks(4, 2)),
        0.5 * decrease(rows, true, clip * 2, whole) * 1.01,
    )


@row.equal((0.9,), (1.5,), kind=Kind.COUNTEREXAMPLE)
def _(clip: float) -> Sides:
    """a flat, symmetric law in two entries, gradient 1 and deviations +-1.5: a mask helps the clip 0.9 and not 1.5"""
    rows, true = np.array([[2.5, 2.5], [-0.5, -0.5]]), np.ones(2)
    plain, masked = (decrease(rows, true, clip, masks) for masks in (np.ones((1, 2)), _masks(2, 1)))
    return clip < 1, masked > plain, masked < plain


@row.equal((21.0, 220.0), (1.0, 1000.0), kind=Kind.COUNTEREXAMPLE)
def _(pull: float, push: float) -> Sides:
    """no bound over all symmetric laws: gradients (w, +-b) gain (w^2 + b^2) / (4 w^2)"""
    rows, true = np.array([[pull, push], [pull, -push]]), np.array([pull, 0.0])
    gain = decrease(rows, true, 1.0, _masks(2, 1)) / decrease(rows, true, 1.0, np.ones((1, 2)))
    stated = (pull**2 + push**2) / (4 * pull**2)
    return True, math.isclose(gain, stated, rel_tol=1e-9), math.isclose(gain, 1.1 * stated, rel_tol=1e-9)


@row.equal(
    *(
        (dim, keep, pull, spread)
        for dim, keep in ((2, 1), (10, 1), (10, 9), (1000, 300), (10**6, 500_000))
        for pull, spread in ((1.0, 0.7), (1.0, 1.0), (0.1, 3.0))
    )
)
def _(dim: int, keep: int, pull: float, spread: float) -> Sides:
    """isotropic deviations, hard clipping: kappa*^2 is below x (1 + r / (6 k - 1)), and that below 1, up to a million entries"""
    x = keep / dim
    exact = sparsification.isotropic_kappa(
        grad_norm=pull, dim=dim, clip_norm=1e-9, drop_rate=1 - x, deviation=spread / math.sqrt(dim)
    )
    top = x * (1 + (1 - x) / (6 * keep - 1))
    return True, exact**2 <= top * (1 + 1e-8) and top < 1, exact**2 <= 0.9 * top


# --- item 6: what any algorithm can do behind masks, and what the clipped run does without --------------------------------


def _posterior(records: float, keep: float, prior: float, scale: float = 1.0) -> float:
    """The mean of 1 / (n_j + 1 / b^2), s = 1, n_j binomial, over ``scale`` of what item 6 says, less 1; ten entries."""
    n, share, known = round(records), round(keep) / 10, prior**-2
    chances = [math.comb(n, j) * share**j * (1 - share) ** (n - j) for j in range(n + 1)]
    exact = math.fsum(chance / (j + known) for j, chance in enumerate(chances))
    return exact * (share * n + known) / scale - 1


row.inequality(
    {"records": Range(1, 200, integer=True), "keep": Range(1, 10, integer=True), "prior": Range(0.01, 100, log=True)},
    wrong=lambda **point: _posterior(**point, scale=1.1),
    tolerance=1e-9,
    name="behind masks the best guess of a random minimum is no nearer than item 6 says",
)(_posterior)


def _efficiency(dim: int, clip: float) -> float:
    """e of item 6, by sums over the chi law of the length."""
    lengths = np.linspace(0, 12 + 2 * math.sqrt(dim), 400_001)[1:]
    logs = (dim - 1) * np.log(lengths) - lengths**2 / 2
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    cut = np.minimum(lengths, clip)
    return float(weights @ (lengths * cut)) ** 2 / float(weights @ lengths**2) / float(weights @ cut**2)


@row.equal(
    (1, 1.345, 0.95), (1, 1e-3, 2 / math.pi), (2, 1e-3, math.pi / 4), (3, 1e-3, 8 / (3 * math.pi)), tolerance=1e-3
)
def _(dim: int, clip: float, known: float) -> Sides:
    """Huber's estimate at 1.345, the median and the spatial medians: their known efficiencies"""
    return known, lambda: _efficiency(dim, clip), known * 1.01


@row.equal(*((dim, clip) for dim in (2, 3, 10, 1000) for clip in (0.01, 1.0, 5.0, 30.0)))
def _(dim: int, clip: float) -> Sides:
    """the clipped run without a mask is above the share 1 - 1/d, and better the larger the clip"""
    found, more = _efficiency(dim, clip), _efficiency(dim, 1.1 * clip)
    return True, 1 - 1 / dim < found <= more * (1 + 1e-12) and found < 1 + 1e-12, found <= 1 - 1 / dim


def _least(known: float, largest: float) -> float:
    """f of step 7: E min(Z^2 / y, M)."""
    cut = math.sqrt(known * largest)
    inside = math.erf(cut / math.sqrt(2)) - cut * math.sqrt(2 / math.pi) * math.exp(-(cut**2) / 2)
    return inside / known + largest * math.erfc(cut / math.sqrt(2))


def _held(low: float, high: float, share: float, largest: float, scale: float = 1.0) -> float:
    """A mask that is held shows ``high`` with chance ``share`` and else ``low``: its mean over f at the mean, less 1."""
    mean = share * _least(high, largest) + (1 - share) * _least(low, largest)
    return mean / _least(share * high + (1 - share) * low, largest) / scale - 1


row.inequality(
    {
        "low": Range(1e-3, 100, log=True),
        "high": Range(1e-3, 100, log=True),
        "share": Range(0, 1),
        "largest": Range(0.01, 100, log=True),
    },
    wrong=lambda **point: _held(**point, scale=1.05),
    tolerance=1e-9,
    name="masks held so long that the shares seen have no limit lose no less than fresh ones",
)(_held)


@row.equal((), kind=Kind.COUNTEREXAMPLE)
def _() -> Sides:
    """a mask that looks at its own record, kept where it is above 0: one record, s = b = d = 1, is worth more than item 6 says"""
    seen = np.linspace(0, 12, 200_001)
    weights = np.exp(-(seen**2) / 4)
    weights /= weights.sum()
    variance = float(weights @ seen**2) - float(weights @ seen) ** 2
    found = (0.5 + (0.5 + variance / 4)) / 2 / 2  # kept, dropped; theta is half of what is seen, and normal around it
    return 0.295, round(found, 3), 1 / 3


@row.equal((), kind=Kind.COUNTEREXAMPLE)
def _() -> Sides:
    """records used in three epochs, half of two entries kept: more is seen than the hard-clipped run of one pass is worth"""
    run = _efficiency(2, 0.01)
    return True, 0.5 < run < 1 - 0.5**3, run < 0.5
