import itertools
import math
from functools import partial

import numpy as np
import scipy

from dptheory import gradients, sparsification
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _runs
from dptheory.claims.rs._runs import mask_rows

mask_is_clip = new_row(
    id="rs.mask_is_clip",
    source=Source("rs", "new, on Lemma 3.3, Theorem 3.5 and section 6.1"),
    verdict=Verdict.HOLDS,
    calculators=(sparsification.masked_descent,),
)


def _rows(dim: int, count: int, tilt: float, push: float) -> Array:
    """Rows whose entries fall like j^-tilt, pushed along the flat direction."""
    phases = np.outer(np.arange(1, count + 1), np.arange(1, dim + 1))
    found: Array = push + np.sin(1.3 * phases) * np.arange(1, dim + 1) ** -tilt + 0.01
    return found


def _enumerated(rows: Array, true: Array, clip: float, keep: int) -> float:
    """kappa*, every mask in turn."""
    every = _runs.clip(mask_rows(rows.shape[1], keep)[:, None, :] * rows, clip)
    return float((every @ true).sum(axis=1).mean()) / float((_runs.clip(rows, clip) @ true).sum())


def _inside(dim: float, keep: float, tilt: float, push: float, clip: float, narrow: float = 1.0) -> float:
    """How far kappa* is inside its bounds, drawn in to ``narrow`` of their width about their middle, over their width."""
    dim = round(dim)
    rows = _rows(dim, 3, tilt, push)
    keep = min(round(keep), dim - 1)
    size = clip * float(np.linalg.norm(rows, axis=1).mean())
    true = rows.mean(axis=0)
    if float((_runs.clip(rows, size) @ true).sum()) <= 1e-9:
        return 1.0
    found = sparsification.masked_descent(rows, clip_norm=size, drop_rate=1 - keep / dim)
    middle, half = (found.upper + found.lower) / 2, (found.upper - found.lower) / 2
    off = abs(_enumerated(rows, true, size, keep) - middle)
    return (narrow * half - off) / max(half, 1e-3)


_SMALL = {
    "dim": Range(2, 7, integer=True),
    "keep": Range(1, 6, integer=True),
    "tilt": Range(0, 2),
    "push": Range(0, 2),
    "clip": Range(0.1, 3, log=True),
}
"""Where every mask can be tried in turn."""


mask_is_clip.inequality(
    _SMALL,
    wrong=partial(_inside, narrow=0.2),
    tolerance=1e-9,
    name="kappa* lies within its bounds, every mask in turn",
)(_inside)


def _near(dim: float, keep: float, tilt: float, push: float, clip: float, share: float = 1.0) -> float:
    """Item 1 for one gradient: ``share`` of what is allowed less the distance, over the length."""
    dim = round(dim)
    keep = min(round(keep), dim - 1)
    x, one = keep / dim, _rows(dim, 1, tilt, push)[0]
    size = clip * math.hypot(*one)
    mean = _runs.clip(mask_rows(dim, keep) * one, size).mean(axis=0)
    limit = _runs.clip(one, size / math.sqrt(x))
    crowding = float((one**4).sum() / (one**2).sum() ** 2)
    variance = (1 - x) / x * (dim * crowding - 1) / (dim - 1)
    return (share * math.sqrt(x * variance) - math.hypot(*(mean - x * limit)) / math.hypot(*limit)) / math.sqrt(x)


mask_is_clip.inequality(
    _SMALL,
    wrong=partial(_near, share=0.3),
    tolerance=1e-9,
    name="the masked step is the step of the larger clip but for the root of the variance, every mask in turn",
)(_near)


def _stated(rows: Array, true: Array, clip: float, keep: int) -> tuple[float, float, float, float]:
    """Bounds, limit and participation, row by row from the page."""
    d = rows.shape[1]
    x = keep / d
    low = high = limit = whole = crowded = 0.0
    for y in rows:
        length, t = math.sqrt(math.fsum(y**2)), math.fsum(true * y)
        rho = math.fsum((y / length) ** 4)
        crowded += rho / len(rows)
        whole += t * min(1, clip / length)
        limit += x * t * min(1, clip / (math.sqrt(x) * length))
        v = (1 - x) / x * (d * rho - 1) / (d - 1)
        a = clip / (math.sqrt(x) * length)
        P = min(v / (v + 9 / 16), math.exp(-9 / 32 * x / rho))
        if a >= 1:
            least = 1 - min(math.sqrt(v) / 4, v / (8 * a**2 * (a**2 - 1)) if a > 1 else math.inf)
        else:
            least = a - min(a * math.sqrt(v) / 4, a**2 * v / (16 * (1 - a)))
        most = min(1.0, a * (1 + 10 * v / 9) + P)
        L = 4 * a / 3 if a <= 0.5 else 1 / (1 + a) if a < 1 else 1 / (2 * a**2)
        e = math.sqrt(x * (1 - x) * d / (d - 1) * math.fsum((true * y) ** 2) * (L**2 * v + P))
        low += min(x * t * least, x * t * most) - e
        high += max(x * t * least, x * t * most) + e
    return low / whole, high / whole, limit / whole, 1 / crowded


_FIELDS = ("lower", "upper", "larger_clip", "participation")
_CASES = tuple(
    (dim, keep, tilt, push, clip)
    for dim, keep in ((5, 2), (300, 90), (20_000, 10_000))
    for tilt, push, clip in ((0.0, 0.3, 0.5), (0.5, 0.1, 0.3), (0.3, 0.5, 0.95), (0.0, 0.4, 1.3))
)


@mask_is_clip.equal(*((*one, name) for one in _CASES for name in _FIELDS), tolerance=1e-9)
def _(dim: int, keep: int, tilt: float, push: float, clip: float, name: str) -> Sides:
    """bounds, limit and participation, row by row from the page's formulas, also for 20,000 entries"""
    rows = _rows(dim, 4, tilt, push)
    size = clip * float(np.linalg.norm(rows, axis=1).mean())
    found = getattr(sparsification.masked_descent(rows, clip_norm=size, drop_rate=1 - keep / dim), name)
    return found, lambda: _stated(rows, rows.mean(axis=0), size, keep)[_FIELDS.index(name)], found * 1.001


@mask_is_clip.equal(
    *((dim, keep, name) for dim, keep in ((5, 2), (20_000, 10_000)) for name in _FIELDS), tolerance=1e-9
)
def _(dim: int, keep: int, name: str) -> Sides:
    """the same where the true gradient is given, and is not the mean of the rows"""
    rows = _rows(dim, 4, 0.3, 0.5)
    true = rows.mean(axis=0) + np.linspace(0.0, 0.3, dim)
    size = 0.5 * float(np.linalg.norm(rows, axis=1).mean())
    found = getattr(
        sparsification.masked_descent(rows, clip_norm=size, drop_rate=1 - keep / dim, true_gradient=true), name
    )
    return found, lambda: _stated(rows, true, size, keep)[_FIELDS.index(name)], found * 1.001


@mask_is_clip.equal((10**6, 0.5, 1.0), (10**6, 0.9, 0.2), (1000, 0.75, 0.7), tolerance=1e-12)
def _(dim: int, rate: float, clip: float) -> Sides:
    """flat gradients: the larger clip exactly, for a million entries"""
    rows = np.ones((2, dim))
    rows[1, : dim // 4] = -1.0
    x = 1 - rate
    found = sparsification.masked_descent(
        rows, clip_norm=clip * math.sqrt(dim), drop_rate=rate, true_gradient=np.ones(dim)
    )
    return (found.lower + found.upper) / 2, x * min(1, clip / math.sqrt(x)) / min(1, clip), x


# --- Gaussian deviations, independent entries, the clip far below every gradient -----------------------------------------


def normalised_gain(squares: Array, variances: Array, keep: int, nodes: int = 400) -> float:
    """kappa*^2 / x - 1 as C -> 0: one integral of products over entries, the masks by elementary symmetric polynomials."""
    d, energy = len(squares), float((squares + variances).sum())
    u = np.linspace(-20.0, math.log(60 * d / keep * energy / squares.sum()) / 2 + 5, nodes)
    t = np.exp(2 * u) / energy  # |y|^-1 = pi^-1/2 int t^-1/2 exp(-t |y|^2) dt
    weight = np.sqrt(t)
    spread = 1 + 2 * t[:, None] * variances
    factor, pull = spread**-0.5 * np.exp(-t[:, None] * squares / spread), squares / spread
    whole = weight @ (pull.sum(axis=1) * np.exp(np.log(np.maximum(factor, 1e-300)).sum(axis=1)))
    plain, marked = np.zeros((nodes, keep + 1)), np.zeros((nodes, keep + 1))
    plain[:, 0] = 1.0
    for j in range(d):  # entry j is kept as the n-th of k, or not; the weights n / k keep the sums within range
        kept = np.arange(1, keep + 1) / keep
        marked[:, 1:] += factor[:, j : j + 1] * kept * marked[:, :-1]
        marked[:, 1:] += (factor[:, j] * pull[:, j])[:, None] * kept * plain[:, :-1]
        plain[:, 1:] += factor[:, j : j + 1] * kept * plain[:, :-1]
        scale = max(float(np.abs(plain).max()), 1e-300)
        plain, marked = plain / scale, marked / scale
        whole /= scale
    count = math.lgamma(d + 1) - math.lgamma(d - keep + 1) - keep * math.log(keep)  # k! / k^k masks
    kappa = float(weight @ marked[:, keep] / whole) * math.exp(-count)
    return kappa**2 * d / keep - 1


def first_order(squares: Array, variances: Array, keep: int) -> float:
    """2 (r / x) Gamma of item 4."""
    d, x = len(squares), keep / len(squares)
    w2, q = float(squares.sum()), squares + variances
    Q, shared = float(q.sum()), float(squares @ variances)
    crowding, coherence = float(q @ q) / Q**2 - 1 / d, float(squares @ q) / (w2 * Q) - 1 / d
    gamma = 0.375 * crowding - coherence / 2 + 0.75 * float(variances @ variances) / Q**2
    return 2 * (1 - x) / x * (gamma + 1.5 * shared / Q**2 - shared / (w2 * Q))


def _law(name: str, dim: int, energy: float) -> tuple[Array, Array]:
    """A flat gradient of length 1 and variances that add up to ``energy``."""
    shapes = {
        "isotropic": np.ones(dim),
        "1/j": 1 / np.arange(1, dim + 1),
        "five": (np.arange(dim) < 5).astype(float),
        "one": (np.arange(dim) < 1).astype(float),
        "a tenth tenfold": np.where(np.arange(dim) < dim // 10, 10.0, 1.0),
    }
    return np.full(dim, 1 / dim), shapes[name] / shapes[name].sum() * energy


_TABLE = (
    ("isotropic", 0.5, 20, 0.0042), ("isotropic", 0.5, 10, 0.0125), ("1/j", 2.0, 20, 0.0394), ("1/j", 2.0, 10, 0.0951),
    ("five", 2.0, 20, 0.1507), ("five", 2.0, 10, 0.3825), ("one", 2.0, 20, 0.306), ("one", 2.0, 10, 0.5529),
)  # fmt: skip


@mask_is_clip.equal(*_TABLE)
def _(name: str, energy: float, keep: int, stated: float) -> Sides:
    """the page's table: d = 40, a flat gradient, the clip far below every gradient"""
    return stated, lambda: round(normalised_gain(*_law(name, 40, energy), keep), 4), round(0.9 * stated, 4)


@mask_is_clip.equal((10, 5), (40, 10), (1000, 100), tolerance=1e-6)
def _(dim: int, keep: int) -> Sides:
    """isotropic deviations: the integral against the chi laws"""
    exact = sparsification.isotropic_kappa(
        grad_norm=1.0, dim=dim, clip_norm=1e-6, drop_rate=1 - keep / dim, deviation=math.sqrt(0.5 / dim)
    )
    wrong = sparsification.largest_isotropic_kappa(dim=dim, drop_rate=1 - keep / dim)
    return normalised_gain(*_law("isotropic", dim, 0.5), keep) + 1, exact**2 * dim / keep, 1.001 * wrong**2 * dim / keep


@mask_is_clip.equal((20,), (10,), tolerance=1e-6)
def _(keep: int) -> Sides:
    """one noisy entry: the integral against Gauss-Hermite nodes, the mask with the entry and without"""
    dim, energy = 40, 2.0
    x, w = keep / dim, 1 / math.sqrt(dim)

    def gain() -> float:
        place = np.linspace(-12.0, 12.0, 200_001)
        weight = np.exp(-(place**2) / 2)
        weight /= weight.sum()
        noisy = w + math.sqrt(energy) * place

        def mean(entries: int) -> float:  # <m w, m y> / |m y| with the noisy entry kept
            rest = (entries - 1) / dim
            return float(weight @ ((w * noisy + rest) / np.sqrt(noisy**2 + rest)))

        kept = x * mean(keep) + (1 - x) * math.sqrt(keep / dim)
        return (kept / mean(dim)) ** 2 / x

    return normalised_gain(*_law("one", dim, energy), keep) + 1, gain, 1.0


@mask_is_clip.equal(("a tenth tenfold", 0.5), ("a tenth tenfold", 4.0))
def _(name: str, energy: float) -> Sides:
    """item 4: with four times the entries the first order misses less than an eighth of what it missed"""

    def missed(dim: int, orders: float) -> float:
        law = _law(name, dim, energy)
        return abs(normalised_gain(*law, dim // 2) - orders * first_order(*law, dim // 2))

    return True, lambda: missed(240, 1.0) < missed(60, 1.0) / 8, missed(240, 1.1) < missed(60, 1.1) / 8


@mask_is_clip.equal((2000, 1000, 100), (2000, 200, 400))
def _(dim: int, keep: int, sits: int) -> Sides:
    """item 5: w in one entry and gradients flat in others gain 3 r / (4 x n) to first order"""
    x, spare = keep / dim, dim - 1 - sits

    def gain() -> float:
        # kappa* = x E sqrt(n / H), H of the n entries kept beside that of w; one is counted where none is
        kept = np.arange(max(0, keep - 1 - spare), min(sits, keep - 1) + 1)
        chances = scipy.stats.hypergeom.pmf(kept, dim - 1, sits, keep - 1)
        return x * float(chances @ np.sqrt(sits / np.maximum(1, kept))) ** 2 - 1

    first = 2 * (1 - x) / x * (3 / 8 / sits + 1 / 8 / dim)
    return True, abs(gain() / first - 1) < 0.1, abs(gain() / (4 / 3 * first) - 1) < 0.1


@mask_is_clip.equal((6, 3, 5.0), (4, 3, 20.0), kind=Kind.COUNTEREXAMPLE)
def _(keep: int, flat: int, nu: float) -> Sides:
    """gradients flat over three of seven entries and small in that of w: with noise a mask beats every clip without one"""
    dim = 8
    rows = np.array(
        [
            [0.05, *(sign[places.index(j)] if j in places else 0.0 for j in range(1, dim))]
            for places in itertools.combinations(range(1, dim), flat)
            for sign in itertools.product((1.0, -1.0), repeat=flat)
        ]
    )

    def falls(clip: float, masks: Array) -> float:
        cut = _runs.clip((masks[:, None, :] * rows).reshape(-1, dim), clip)
        return float(cut[:, 0].mean()) ** 2 / (float((cut**2).sum(axis=1).mean()) + float(masks.mean()) * nu * clip**2)

    plain = max(falls(clip, np.ones((1, dim))) for clip in (0.1, 0.1 * math.sqrt(dim / keep), 1.0, 1.7, 2.0, 4.0))
    masked = falls(0.1, mask_rows(dim, keep))
    return True, masked > 1.05 * plain, masked <= plain


@mask_is_clip.equal((50, 1000, 500), (200, 10_000, 5000), (200, 10_000, 2000))
def _(flat: int, dim: int, keep: int) -> Sides:
    """item 5 nearly attained: its first order is within 3 % of the gain, counted over what a mask keeps of the flat entries"""
    x, small = keep / dim, 1 / flat

    kept = np.arange(flat + 1)
    chances = scipy.stats.hypergeom.pmf(kept, dim - 1, flat, keep - 1)
    kappa = x * float(chances @ (small**2 + (1 - small**2) * kept / flat) ** -0.5)
    gain = (kappa**2 / x - 1) / (2 * (1 - x) / x * (3 / 8 / flat + 1 / 8 / dim))
    return True, 1 < gain < 1.03, gain < 1


no_noise = new_row(
    id="rs.no_noise",
    source=Source("rs", "new, on section 7"),
    verdict=Verdict.HOLDS,
    calculators=(gradients.clip, sparsification.isotropic_kappa),
    kernel_theorems=("part_holds",),
)


def decrease(rows: Array, true: Array, clip: float, masks: Array) -> float:
    """U^2 / M of batches of one example: 2 G times the largest decrease of a step on a quadratic of curvature G."""
    clipped = gradients.clip((masks[:, None, :] * rows).reshape(-1, rows.shape[1]), clip_norm=clip)
    return float((clipped @ true).mean()) ** 2 / float((clipped**2).sum(axis=1).mean())


def _alone(d: float, keep: float, tilt: float, clip: float, share: float = 1.0) -> float:
    """Item 1: ``share`` of x |w|^2 less what a mask has, over |w|^2."""
    dim, kept = round(d), min(round(keep), round(d) - 1)
    true = np.arange(1, dim + 1) ** -tilt * (1 + 0.5 * np.sin(2 * np.arange(dim)))
    size = float(true @ true)
    found = decrease(true[None, :], true, clip * math.sqrt(size), mask_rows(dim, kept))
    return (share * kept / dim * size - found) / size


no_noise.inequality(
    {
        "d": Range(2, 6, integer=True),
        "keep": Range(1, 5, integer=True),
        "tilt": Range(0, 2),
        "clip": Range(0.1, 3, log=True),
    },
    wrong=partial(_alone, share=0.9),
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


no_noise.inequality(
    {
        "gamma": Range(0.01, 3, log=True),
        "mu": Range(0, 0.95),
        "bend": Range(0, 1),
        "spread": Range(0, 3),
        "noise": Range(0, 3),
        "angle": Range(0, math.pi),
    },
    wrong=partial(_whole_run, share=1.0),
    tolerance=1e-9,
    name="without clipping no run of fresh masks on a quadratic ends below the one with x times each update",
)(_whole_run)


_SIGNS = np.array([[1, 1, 1, 1], [1, 1, 1, -1], [1, -1, 1, 1], [-1, -1, 1, -1]], dtype=float)


@no_noise.equal(*((clip, scale) for clip in (0.3, 1.0, 2.5, 4.0) for scale in (1.0, 3.0)), tolerance=1e-12)
def _(clip: float, scale: float) -> Sides:
    """flat gradients of several lengths: x times the larger clip's decrease, every mask in turn"""
    rows = _SIGNS * np.array([1.0, scale, 1.0, 2.0])[:, None]
    true, whole = np.array([1.0, 0.5, 1.0, 0.2]), np.ones((1, 4))
    return (
        0.5 * decrease(rows, true, clip * math.sqrt(2), whole),
        lambda: decrease(rows, true, clip, mask_rows(4, 2)),
        0.5 * decrease(rows, true, clip * 2, whole) * 1.01,
    )


@no_noise.equal((0.9,), (1.5,), kind=Kind.COUNTEREXAMPLE)
def _(clip: float) -> Sides:
    """a flat, symmetric law in two entries, gradient 1 and deviations +-1.5: a mask helps the clip 0.9 and not 1.5"""
    rows, true = np.array([[2.5, 2.5], [-0.5, -0.5]]), np.ones(2)
    plain, masked = (decrease(rows, true, clip, masks) for masks in (np.ones((1, 2)), mask_rows(2, 1)))
    return clip < 1, masked > plain, masked < plain


@no_noise.equal((21.0, 220.0), (1.0, 1000.0), kind=Kind.COUNTEREXAMPLE)
def _(pull: float, push: float) -> Sides:
    """no bound over all symmetric laws: gradients (w, +-b) gain (w^2 + b^2) / (4 w^2)"""
    rows, true = np.array([[pull, push], [pull, -push]]), np.array([pull, 0.0])
    gain = decrease(rows, true, 1.0, mask_rows(2, 1)) / decrease(rows, true, 1.0, np.ones((1, 2)))
    stated = (pull**2 + push**2) / (4 * pull**2)
    return True, math.isclose(gain, stated, rel_tol=1e-9), math.isclose(gain, 1.1 * stated, rel_tol=1e-9)


@no_noise.equal(
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
    seen = np.arange(n + 1)
    exact = float(scipy.stats.binom.pmf(seen, n, share) @ (1 / (seen + known)))
    return exact * (share * n + known) / scale - 1


no_noise.inequality(
    {"records": Range(1, 200, integer=True), "keep": Range(1, 10, integer=True), "prior": Range(0.01, 100, log=True)},
    wrong=partial(_posterior, scale=1.1),
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


@no_noise.equal(
    (1, 1.345, 0.95), (1, 1e-3, 2 / math.pi), (2, 1e-3, math.pi / 4), (3, 1e-3, 8 / (3 * math.pi)), tolerance=1e-3
)
def _(dim: int, clip: float, known: float) -> Sides:
    """Huber's estimate at 1.345, the median and the spatial medians: their known efficiencies"""
    return known, lambda: _efficiency(dim, clip), known * 1.01


@no_noise.equal(*((dim, clip) for dim in (2, 3, 10, 1000) for clip in (0.01, 1.0, 5.0, 30.0)))
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


no_noise.inequality(
    {
        "low": Range(1e-3, 100, log=True),
        "high": Range(1e-3, 100, log=True),
        "share": Range(0, 1),
        "largest": Range(0.01, 100, log=True),
    },
    wrong=partial(_held, scale=1.05),
    tolerance=1e-9,
    name="masks held so long that the shares seen have no limit lose no less than fresh ones",
)(_held)


@no_noise.equal((), kind=Kind.COUNTEREXAMPLE)
def _() -> Sides:
    """a mask that looks at its own record, kept where it is above 0: one record, s = b = d = 1, is worth more than item 6 says"""
    seen = np.linspace(0, 12, 200_001)
    weights = np.exp(-(seen**2) / 4)
    weights /= weights.sum()
    variance = float(weights @ seen**2) - float(weights @ seen) ** 2
    found = (0.5 + (0.5 + variance / 4)) / 2 / 2  # kept, dropped; theta is half of what is seen, and normal around it
    return 0.295, round(found, 3), 1 / 3


@no_noise.equal((), kind=Kind.COUNTEREXAMPLE)
def _() -> Sides:
    """records used in three epochs, half of two entries kept: more is seen than the hard-clipped run of one pass is worth"""
    run = _efficiency(2, 0.01)
    return True, 0.5 < run < 1 - 0.5**3, run < 0.5
