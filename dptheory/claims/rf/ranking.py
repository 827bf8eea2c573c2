"""RF: ranked masks, masking after clipping, costs, and amplification by shuffling."""

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import ndtr

from dptheory import sparsification
from dptheory.checks import ExactCheck, Kind, MeanCheck, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims._draws import all_masks
from dptheory.gradients import posterior_freeze, relaxed_gradient_ratio

Array = NDArray[np.float64]

# --- rf.ranked --------------------------------------------------------------------------------------------------------


def _kept_energy(rng: np.random.Generator, n: int, dim: int, keep: int, snr: float, density: float) -> Array:
    """Share of the expected signal energy on the keep largest |signal + noise|; a share ``density`` of the signal is non-zero."""
    signal = rng.standard_normal((n, dim)) * (rng.random((n, dim)) < density)
    seen = signal * (snr / math.sqrt(density)) + rng.standard_normal((n, dim))
    kept = np.argpartition(-np.abs(seen), keep - 1, axis=1)[:, :keep]
    return np.asarray(np.square(np.take_along_axis(signal, kept, axis=1)).sum(axis=1) / (dim * density))


def _share_by_integral(keep_rate: float, snr: float, density: float, signed: bool) -> float:
    """Second method: integrate s^2 P(the entry is kept | s) over the signal, the threshold found by bisection."""
    spread = math.sqrt(1 + snr**2 / density)

    def passes(y: float, scale: float) -> float:
        return float(ndtr(-y / scale) + (0.0 if signed else ndtr(-y / scale)))

    low, high = -40.0 * spread, 40.0 * spread
    for _ in range(200):
        y = (low + high) / 2
        if density * passes(y, spread) + (1 - density) * passes(y, 1.0) > keep_rate:
            low = y
        else:
            high = y

    def integrand(z: float) -> float:
        s = z * snr / math.sqrt(density)
        kept = ndtr(s - y) + (0.0 if signed else ndtr(-s - y))
        return float(z * z * kept * math.exp(-z * z / 2) / math.sqrt(2 * math.pi))

    corner = y * math.sqrt(density) / snr
    points = sorted(p for p in (-corner, corner) if abs(p) < 12)
    return float(quad(integrand, -12, 12, points=points or None, limit=400, epsabs=1e-12, epsrel=1e-11)[0])


def _share_cases() -> Iterator[tuple[float, float]]:
    yield from itertools.product((0.05, 0.3, 0.5, 0.9), (0.05, 1.0, 4.0))


_RANKED = Claim(
    id="rf.ranked",
    title="ranked freeze is no better than random",
    source=Source("rf", "section 3.3, Appendix C; RS, Appendix I"),
    statement="Ranking the coordinates by past perturbed gradients and freezing the smallest performs like a random mask: the ranking is "
    "dominated by the noise.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "t << 1, t the ratio of signal std to noise std in the ranked sum; it grows like sqrt(T) over the T steps summed",
        "a dense signal: a sparse one of the same energy is found at much smaller t",
        "here: iid Gaussian signal and noise, the signal the same in all ranked steps",
    ),
    correction=r"A ranked mask with a share $x$ of ones keeps $x+\frac{2t^2}{1+t^2}y\varphi(y)$ of the signal's energy, $y = \Phi^{-1}(1-x/2)$, for large $d$ "
    r"(exact for every $d$ in the calculator); a random one keeps $x$. Sorting signed values, as Algorithm 2 is printed, it is "
    r"$x+\frac{t^2}{1+t^2}y'\varphi(y')$, $y' = \Phi^{-1}(1-x)$: below $x$ for $x>1/2$.",
    calculators=(
        sparsification.captured_energy,
        sparsification.signed_captured_energy,
        sparsification.sparse_captured_energy,
    ),
    checks=(
        MeanCheck(
            name="ranked by magnitude, d = 40, t = 1",
            sampler=partial(_kept_energy, dim=40, keep=10, snr=1.0, density=1.0),
            claimed=lambda: sparsification.captured_energy(40, 10, 1.0),
            wrong=lambda: 0.25,
            row_bytes=2000,
        ),
        MeanCheck(
            name="one signal in twenty, d = 2000, t = 1/2",
            sampler=partial(_kept_energy, dim=2000, keep=200, snr=0.5, density=0.05),
            claimed=lambda: sparsification.sparse_captured_energy(0.1, 0.5, 0.05),
            wrong=lambda: sparsification.captured_energy(2000, 200, 0.5),
            row_bytes=100_000,
        ),
        ExactCheck(
            name="large d, second method: integral over the signal",
            cases=_share_cases,
            truth=lambda keep_rate, snr: _share_by_integral(keep_rate, snr, 1.0, signed=False),
            statement=lambda keep_rate, snr: sparsification.captured_energy(10**9, round(keep_rate * 10**9), snr),
            wrong=lambda keep_rate, snr: keep_rate,
            tolerance=1e-7,
        ),
        ExactCheck(
            name="signed values as printed, second method",
            cases=_share_cases,
            truth=lambda keep_rate, snr: _share_by_integral(keep_rate, snr, 1.0, signed=True),
            statement=lambda keep_rate, snr: sparsification.signed_captured_energy(keep_rate, snr),
            wrong=lambda keep_rate, snr: keep_rate,
            tolerance=1e-8,
        ),
        ExactCheck(
            name="sparse signal, second method",
            cases=lambda: itertools.product((0.02, 0.1, 0.6), (0.1, 0.5), (0.01, 0.3)),
            truth=lambda keep_rate, snr, density: _share_by_integral(keep_rate, snr, density, signed=False),
            statement=lambda keep_rate, snr, density: sparsification.sparse_captured_energy(keep_rate, snr, density),
            wrong=lambda keep_rate, snr, density: sparsification.sparse_captured_energy(keep_rate, snr, 1.0),
            tolerance=1e-8,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="very sparse signal, and masks of nearly all or nearly none",
            cases=lambda: [
                *itertools.product((0.02, 0.6, 0.99), (0.05, 0.5), (1e-3, 1e-5)),
                (1e-6, 0.5, 1e-3),
                (1 - 1e-6, 0.5, 1e-3),
            ],
            truth=lambda keep_rate, snr, density: _share_by_integral(keep_rate, snr, density, signed=False),
            statement=lambda keep_rate, snr, density: sparsification.sparse_captured_energy(keep_rate, snr, density),
            wrong=lambda keep_rate, snr, density: sparsification.sparse_captured_energy(keep_rate, snr, 1.1 * density),
            tolerance=1e-7,
        ),
    ),
    proved=True,
    figure="ranked_energy",
)

# --- rf.posterior -----------------------------------------------------------------------------------------------------

Batch = tuple[tuple[int, ...], ...]

BATCHES: tuple[Batch, ...] = (
    ((1, 0), (-5, 12)),
    ((3, 4),),
    ((1, 0), (-3, 4)),
    ((2, 3, 6), (1, -2, 2)),
    ((0, 0, 0), (12, -4, 3), (0, 3, 4)),
)
"""Per-example gradients with integer norms, so that clipping them is rational arithmetic."""


def _shrink(vector: Sequence[Fraction | int]) -> tuple[Fraction, ...]:
    """Clip to norm 1; the norm of an integer vector that is not an integer is taken from its float."""
    square = sum((Fraction(x) ** 2 for x in vector), Fraction(0))
    if square <= 1:
        return tuple(map(Fraction, vector))
    root = Fraction(math.isqrt(int(square)))
    norm = root if root**2 == square else Fraction(math.sqrt(square))
    return tuple(x / norm for x in vector)


def _masked(mask: Sequence[int], vector: Sequence[Fraction | int]) -> tuple[Fraction, ...]:
    return tuple(Fraction(m * x) for m, x in zip(mask, vector, strict=True))


def _batch_mean(vectors: Sequence[Sequence[Fraction]]) -> tuple[Fraction, ...]:
    return tuple(sum(column, Fraction(0)) / len(vectors) for column in zip(*vectors, strict=True))


def _mean_square(batch: Batch, keep: int, clip_first: bool) -> Fraction:
    """E|batch gradient|^2 over all masks, C = 1, clipped before (posterior freeze) or after masking (random freeze)."""
    masks = all_masks(len(batch[0]), keep)
    total = Fraction(0)
    for mask in masks:
        rows = [_masked(mask, _shrink(g)) if clip_first else _shrink(_masked(mask, g)) for g in batch]
        total += sum((x**2 for x in _batch_mean(rows)), Fraction(0))
    return total / len(masks)


def _posterior_descent(batch: Batch, keep: int) -> Fraction:
    """E<w, batch gradient> of posterior freeze over all masks, w = (1, 2, ..., d), C = 1."""
    masks = all_masks(len(batch[0]), keep)
    means = [_batch_mean([_masked(mask, _shrink(g)) for g in batch]) for mask in masks]
    return sum((Fraction(j + 1) * x for mean in means for j, x in enumerate(mean)), Fraction(0)) / len(masks)


def _stated_descent(batch: Batch, keep: int) -> float:
    mean = posterior_freeze(batch, 1.0, keep).mean
    return float(mean @ np.arange(1, mean.size + 1))


def _batch_cases() -> list[tuple[Batch, int]]:
    return [(batch, keep) for batch in BATCHES for keep in range(1, len(batch[0]))]


def _example_slack(norm: float, share: float, clip: float) -> float:
    """|m * clip(g)| <= |clip(m * g)| <= |g| for one example, and the ratio of the first two is the calculator's."""
    masked = share * norm
    before, after = min(masked, clip), masked * min(1.0, clip / norm)
    ratio = float(relaxed_gradient_ratio(norm, masked, clip))
    return min(before / after - 1, norm / before - 1, 1e-13 - abs(before / after / ratio - 1))


def _strict_example_slack(norm: float, share: float, clip: float) -> float:
    return _example_slack(norm, share, clip) - 1e-3  # strictly more magnitude, clipped or not


def _long_posterior(keep: int, what: str) -> float:
    """Gradients (3, 4, 0, ..., 0) and (0, ..., 0, 5), clipped to norm 1: the mean is (3, 4, 0, ..., 0, 5) / 10 before masking."""
    gradients = np.zeros((2, 20_000))
    gradients[0, :2], gradients[1, -1] = (3.0, 4.0), 5.0
    found = posterior_freeze(gradients, 1.0, keep)
    return found.mean_square if what == "mean square" else float(found.mean @ (gradients[0] + gradients[1])) / 5


_POSTERIOR = Claim(
    id="rf.posterior",
    title="posterior freeze keeps less",
    source=Source("rf", "Appendix G", tuple(range(71, 76))),
    statement=r"With $\bar g$ clipped then masked and $\hat g$ masked then clipped, $E\|\bar g\|^2\le E\|\hat g\|^2$; for one example both have the same direction and "
    r"$\|\bar g_i\|\le\|\hat g_i\|\le\|g_i\|$.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "batch size 1; the statements on single examples hold (the direction where m*g_i is not 0)",
        "a mask drawn independently of the data",
    ),
    correction=r"For batches $E\|\bar g\|^2\le E\|\hat g\|^2$ can fail. $E\langle\nabla w,\bar g\rangle = (1-r)E\langle\nabla w,g_C\rangle$ and "
    r"$E\|\bar g\|^2 = (1-r)E\|g_C\|^2$, $g_C$ the batch's clipped gradient: with masked noise, the bound on one step is $1-r$ times that of DP-SGD.",
    calculators=(posterior_freeze, relaxed_gradient_ratio),
    checks=(
        ExactCheck(
            name="order of the mean squares, batches in fractions",
            cases=_batch_cases,
            truth=lambda batch, keep: _mean_square(batch, keep, True) <= _mean_square(batch, keep, False),
            statement=lambda batch, keep: (
                posterior_freeze(batch, 1.0, keep).mean_square <= _mean_square(batch, keep, False) + 1e-12
            ),
            wrong=lambda batch, keep: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="mean square of posterior freeze, all masks",
            cases=_batch_cases,
            truth=lambda batch, keep: _mean_square(batch, keep, True),
            statement=lambda batch, keep: posterior_freeze(batch, 1.0, keep).mean_square,
            wrong=lambda batch, keep: float(_mean_square(batch, keep, False)),
            tolerance=1e-13,
        ),
        ExactCheck(
            name="descent of posterior freeze, all masks",
            cases=_batch_cases,
            truth=_posterior_descent,
            statement=_stated_descent,
            wrong=lambda batch, keep: _stated_descent(batch, len(batch[0])),
            tolerance=1e-13,
        ),
        SearchCheck(
            name="order for one example",
            box={
                "norm": Range(1e-3, 1e3, log=True),
                "share": Range(1e-3, 1.0, log=True),
                "clip": Range(1e-3, 1e3, log=True),
            },
            slack=_example_slack,
            wrong=_strict_example_slack,
        ),
        ExactCheck(
            name="two long gradients by hand, 20,000 entries",
            cases=lambda: [(keep, what) for keep in (5_000, 20_000) for what in ("mean square", "descent")],
            truth=lambda keep, what: Fraction(keep, 20_000) * Fraction(1, 2 if what == "mean square" else 1),
            statement=_long_posterior,
            wrong=lambda keep, what: 1.01 * _long_posterior(keep, what),
            tolerance=1e-12,
        ),
    ),
    proved=True,
)

# --- rf.cost ----------------------------------------------------------------------------------------------------------


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
    return power, multiply(basis, dim, gradients) - power  # V'X


def _scaled_total(x: Fraction, both: bool, sizes: tuple[int, int, int, int]) -> sparsification.Operations:
    """Operations when a share x of the rows stays, and of b and s too where ``both``."""
    dim, basis, samples, gradients = sizes
    factor = x if both else Fraction(1)
    return sparsification.projection_operations(int(x * dim), int(factor * basis), int(factor * samples), gradients)


_SIZES = ((24, 4, 8, 8), (12, 6, 4, 20))


def _cost_ratio(x: Fraction, sizes: tuple[int, int, int, int]) -> Fraction:
    """Projection with d and b scaled, counted, over the dense count."""
    dim, basis, samples, gradients = sizes
    smaller = _counted(int(x * dim), int(x * basis), int(x * samples), gradients)
    return Fraction(smaller[1], _counted(*sizes)[1])


def _multiplied(dim: int, basis: int, samples: int, gradients: int, iterations: int, part: str) -> int:
    """Multiplications by the shapes of the factors, rows by inner by columns."""
    shapes = [(samples, dim, basis), (dim, samples, basis)] * iterations if part != "projection" else []
    shapes += [(basis, dim, gradients)] if part != "power_method" else []
    return sum(map(math.prod, shapes))


_COST = Claim(
    id="rf.cost",
    title="cost of projected DP-SGD",
    source=Source("rf", "section 4, Advantages of sparsity"),
    statement=r"With random freeze the power method, $O(dbs)$, and the projection, $O(dbn)$, cost between $O(1-r)$ and $O((1-r)^3)$ of the dense cost.",
    verdict=Verdict.CONDITIONAL,
    conditions=("the cubic end: b and s are scaled down with d, and the power method outweighs the projection",),
    correction=r"With $x = 1-r$: both scale with $x$ if only $d$ does; with $b$ and $s$ scaled too the power method scales with $x^3$ and the projection, whose "
    r"$n$ is the number of gradients, with $x^2$.",
    calculators=(sparsification.projection_operations,),
    checks=(
        ExactCheck(
            name="multiplications counted one by one",
            cases=lambda: [(*sizes, part) for sizes in _SIZES for part in (0, 1)],
            truth=lambda *case: Fraction(_counted(*case[:4])[case[4]]),
            statement=lambda *case: Fraction(
                (lambda found: (found.power_method, found.projection))(sparsification.projection_operations(*case[:4]))[
                    case[4]
                ]
            ),
            wrong=lambda dim, basis, samples, gradients, part: Fraction(dim * basis * samples),
        ),
        ExactCheck(
            name="projection with d and b halved",
            cases=lambda: [(Fraction(1, 2), sizes) for sizes in _SIZES],
            truth=_cost_ratio,
            statement=lambda x, sizes: Fraction(
                _scaled_total(x, True, sizes).projection, sparsification.projection_operations(*sizes).projection
            ),
            wrong=lambda x, sizes: x**3,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="shapes multiplied, users' sizes, three power iterations",
            cases=lambda: [
                (*sizes, iterations, part)
                for sizes in ((50, 6, 9, 20), (550_000, 1000, 2000, 1000))
                for iterations in (1, 3)
                for part in ("power_method", "projection", "total")
            ],
            truth=lambda *case: Fraction(_multiplied(*case)),
            statement=lambda *case: Fraction(getattr(sparsification.projection_operations(*case[:5]), case[5])),
            wrong=lambda *case: Fraction(math.prod(case[:3])),
        ),
    ),
    proved=True,
)

# --- rf.shuffle -------------------------------------------------------------------------------------------------------

Law = dict[tuple[int, ...], Fraction]


def _shuffled_law(records: tuple[int, ...], truthful: Fraction) -> Law:
    """Law of the outputs when the records are shuffled and each is sent through randomised response, batches of one."""
    law: Law = {}
    orders = list(itertools.permutations(records))
    for order, outputs in itertools.product(orders, itertools.product((0, 1), repeat=len(records))):
        chance = math.prod(
            (truthful if x == y else 1 - truthful for x, y in zip(order, outputs, strict=True)), start=Fraction(1)
        )
        law[outputs] = law.get(outputs, Fraction(0)) + chance / len(orders)
    return law


def _largest_ratio(truthful: Fraction, size: int, given_history: bool) -> Fraction:
    """Largest ratio of the last output's probabilities between {0, 1, ..., 1} and {1, ..., 1}, given the earlier outputs or not."""
    ones = (1,) * (size - 1)
    laws = [_shuffled_law((first, *ones), truthful) for first in (0, 1)]

    def chance(law: Law, last: int, history: tuple[int, ...] | None) -> Fraction:
        chosen = {o: p for o, p in law.items() if history is None or o[:-1] == history}
        return sum((p for o, p in chosen.items() if o[-1] == last), Fraction(0)) / sum(chosen.values())

    histories = list(itertools.product((0, 1), repeat=size - 1)) if given_history else [None]
    pairs = ((chance(laws[0], y, h), chance(laws[1], y, h)) for h in histories for y in (0, 1))
    return max(max(a / b, b / a) for a, b in pairs)


def _amplified(truthful: Fraction, size: int) -> Fraction:
    """1 + q (e^epsilon - 1) for q = 1/size and randomised response with e^epsilon = truthful / (1 - truthful)."""
    return 1 + (truthful / (1 - truthful) - 1) / size


_SHUFFLE = Claim(
    id="rf.shuffle",
    title="amplification by shuffling into batches",
    source=Source("rf", "section 4, Privacy budget"),
    statement=r"Shuffling the data and cutting it into batches makes each iteration $(O(q\epsilon),q\delta)$-private for the whole data set, $q = B/N$, and the "
    "iterations compose.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "each batch is drawn afresh, independently of the earlier ones (Poisson or without replacement)",
        "privacy under replacing one record",
    ),
    correction=r"It holds for the law of one iteration by itself. Given the earlier outputs of the same epoch, which composition needs, the bound $1+q(e^\epsilon-1)$ fails: two records, "
    r"randomised response with $e^\epsilon = 3$, $q = 1/2$: amplified ratio 2, true ratio $5/2$; for $N$ records and $e^\epsilon = N$ about $N/2$ against a bound below 2. What holds without fresh draws: a record enters one batch an "
    r"epoch, so an epoch is $(\epsilon,\delta)$-private.",
    checks=(
        ExactCheck(
            name="each iteration is amplified given the earlier ones",
            cases=lambda: [
                (Fraction(3, 4), 2, True),
                (Fraction(3, 4), 3, True),
                (Fraction(3, 4), 2, False),
                (Fraction(2, 3), 3, False),
            ],
            truth=lambda truthful, size, history: _largest_ratio(truthful, size, history) <= _amplified(truthful, size),
            statement=lambda truthful, size, history: not history,
            wrong=lambda truthful, size, history: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="two records, e^epsilon = 3: the ratio is 5/2",
            cases=lambda: [(Fraction(3, 4), 2)],
            truth=lambda truthful, size: _largest_ratio(truthful, size, True),
            statement=lambda truthful, size: (truthful**2 + (1 - truthful) ** 2) / (1 - truthful),
            wrong=_amplified,
            kind=Kind.COUNTEREXAMPLE,
        ),
    ),
    proved=True,
)

CLAIMS = (_RANKED, _POSTERIOR, _COST, _SHUFFLE)
