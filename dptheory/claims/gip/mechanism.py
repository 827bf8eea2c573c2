"""GIP: index sensitivity, top-k selection, privacy of the index mechanism, training algorithm."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptheory import pruning
from dptheory.checks import ExactCheck, Kind
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.gip import _finite, _index_at_scale

# --- gip.def3 ---------------------------------------------------------------------------------------------------------


def _diameter(dim: int, keep: int) -> int:
    first = _finite.subsets(dim, keep)[0]  # any other subset is a relabelling of this one
    return max(_finite.hamming(first, other) for other in _finite.subsets(dim, keep))


def _reached_by_one_example(dim: int, keep: int, clip: Fraction) -> int:
    """Distance of the top-k subsets of g and g + v with |v| <= clip, for a g whose gaps are small."""
    moved = min(keep, dim - keep)
    gap = clip / (2 * dim)
    gradient = [1 + gap if j < keep else Fraction(1) for j in range(dim)]
    example = [2 * gap if keep <= j < keep + moved else Fraction(0) for j in range(dim)]
    if sum(x * x for x in example) > clip * clip:
        raise ArithmeticError("the example breaks its clipping bound")
    after = [g + x for g, x in zip(gradient, example, strict=True)]
    return _finite.hamming(_finite.top_subset(gradient, keep), _finite.top_subset(after, keep))


_DEF3 = Claim(
    id="gip.def3",
    title="sensitivity of the index set",
    source=Source("gip", "Definition 3"),
    statement=r"Two index sets with $K$ of $d$ ones differ in at most $\min(2K, 2(d-K))$ places, and two neighbouring "
    r"batches reach that for every clipping bound $C > 0$.",
    verdict=Verdict.HOLDS,
    conditions=("exactly K ones in every index set",),
    calculators=(pruning.index_sensitivity,),
    checks=(
        ExactCheck(
            name="diameter of the k-subsets",
            cases=lambda: _finite.SIZES,
            truth=_diameter,
            statement=lambda dim, keep: pruning.index_sensitivity(dim, keep),
            wrong=lambda dim, keep: 2 * keep,
        ),
        ExactCheck(
            name="one clipped example reaches it",
            cases=lambda: [(*size, clip) for size in _finite.SIZES for clip in (Fraction(1), Fraction(1, 10**6))],
            truth=_reached_by_one_example,
            statement=lambda dim, keep, clip: pruning.index_sensitivity(dim, keep),
            wrong=lambda dim, keep, clip: pruning.index_sensitivity(dim, keep) - 2,
        ),
        *_index_at_scale.SENSITIVITY,
    ),
    proved=True,
)

# --- gip.alg1 ---------------------------------------------------------------------------------------------------------


def printed_mask(gradient: ArrayLike, keep: int) -> NDArray[np.bool_]:
    """Algorithm 1, lines 3-5, as printed: |g_j| above the 100k-th percentile of one group."""
    size = np.abs(np.asarray(gradient, dtype=np.float64))
    return np.asarray(size > np.percentile(size, 100 * keep / size.size))


_TIED = (1.0, 1.0, 1.0, 1.0)


def _mask_cases() -> Iterator[tuple[tuple[float, ...], int]]:
    for dim, keep in _finite.SIZES:
        yield tuple(float(j + 1) for j in range(dim)), keep
    yield _TIED, 2


_ALG1 = Claim(
    id="gip.alg1",
    title="top-k threshold",
    source=Source("gip", "Algorithm 1, lines 3-5"),
    statement=r"Keeping the entries above the $100k$-th percentile of $|g|$ keeps the largest $kd$ of them.",
    verdict=Verdict.FALSE,
    conditions=("the number kept must be exactly K for the sensitivity of Definition 3",),
    correction=r"The $100k$-th percentile leaves $(1-k)d$ entries above it. The threshold is the $100(1-k)$-th "
    r"percentile (for $k < 1$), and a tie rule is needed so that exactly $kd$ entries are kept.",
    printed=printed_mask,
    calculators=(pruning.top_k_mask,),
    checks=(
        ExactCheck(
            name="number of entries kept",
            cases=_mask_cases,
            truth=lambda gradient, keep: keep,
            statement=lambda gradient, keep: int(pruning.top_k_mask(gradient, keep).sum()),
            wrong=lambda gradient, keep: int(printed_mask(gradient, keep).sum()),
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="energy of the entries kept",
            cases=_mask_cases,
            truth=lambda gradient, keep: max(
                sum(x * x for x in chosen) for chosen in itertools.combinations(gradient, keep)
            ),
            statement=lambda gradient, keep: float(np.square(gradient) @ pruning.top_k_mask(gradient, keep)),
            wrong=lambda gradient, keep: float(np.square(gradient) @ printed_mask(gradient, keep)),
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="a long gradient in falling order, its signs mixed",
            cases=lambda: [(20_000, 2_000, j) for j in (0, 1, 1_999, 2_000, 19_999)],
            truth=lambda dim, keep, j: j < keep,
            statement=lambda dim, keep, j: bool(
                pruning.top_k_mask((-1.0) ** np.arange(dim) * (dim - np.arange(dim)), keep)[j]
            ),
            wrong=lambda dim, keep, j: bool(printed_mask((-1.0) ** np.arange(dim) * (dim - np.arange(dim)), keep)[j]),
        ),
    ),
    proved=True,
)

# --- gip.thm1 ---------------------------------------------------------------------------------------------------------

_WEIGHTS = (Fraction(1, 2), Fraction(9, 10), Fraction(1))


def _largest_ratio(dim: int, keep: int, weight: Fraction, distance: int) -> Fraction:
    """max P(I | A) / P(I | B) over all outputs I and all B at this distance from A."""
    first = _finite.subsets(dim, keep)[0]  # any other reference is a relabelling
    near = [s for s in _finite.subsets(dim, keep) if _finite.hamming(first, s) == distance]
    law = _finite.mallows(first, weight)
    return max(law[out] / other[out] for other in (_finite.mallows(s, weight) for s in near) for out in law)


def _ratio_cases() -> Iterator[tuple[int, int, Fraction, int]]:
    for dim, keep in _finite.SIZES:
        for distance in {2, 2 * min(keep, dim - keep)}:
            for weight in _WEIGHTS:
                yield dim, keep, weight, distance


def _log_ratio(dim: int, keep: int, weight: Fraction, distance: int) -> float:
    return math.log(_largest_ratio(dim, keep, weight, distance))


def _spent(dim: int, keep: int, steps: int, groups: int) -> float:
    """Epsilon of one release at the theta that a budget of 0.3 gives."""
    theta = pruning.theta_for_budget(0.3, dim, keep, steps, groups)
    return pruning.SubsetMallows(dim, keep, theta).epsilon(_diameter(dim, keep))


def _is_private(dim: int, keep: int, weight: Fraction, epsilon: float) -> bool:
    """Pure epsilon-DP for every pair of references, by enumeration."""
    reach = 2 * min(keep, dim - keep)
    return all(abs(_log_ratio(dim, keep, weight, m)) <= epsilon + 1e-12 for m in range(2, reach + 1, 2))


def printed_privacy_condition(theta: float, epsilon: float, sensitivity: int) -> bool:
    """Theorem 1 as printed, with no lower bound on theta."""
    return theta <= epsilon / sensitivity


_THM1 = Claim(
    id="gip.thm1",
    title="index privacy",
    source=Source("gip", "Theorem 1, Definition 4", (4, 8, 9, 10)),
    statement=r"The Mallows index mechanism is $\epsilon$-DP if and only if $\theta \le \epsilon / s$, "
    r"$s$ the index sensitivity.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "theta >= 0",
        "s is the attained sensitivity",
        "every reference has exactly K ones",
        "for a given batch: under sampling the condition is sufficient only",
    ),
    correction=r"For any sign: $\epsilon$-DP if and only if $|\theta| \le \epsilon / s$. The loss of a pair at distance "
    r"$m$ is exactly $|\theta| m$, attained at $I = I(g)$ for $\theta \ge 0$.",
    printed=printed_privacy_condition,
    calculators=(pruning.SubsetMallows.epsilon, pruning.index_sensitivity, pruning.theta_for_budget),
    checks=(
        ExactCheck(
            name="largest privacy loss of a pair",
            cases=_ratio_cases,
            truth=_log_ratio,
            statement=lambda dim, keep, weight, distance: pruning.SubsetMallows(dim, keep, -math.log(weight)).epsilon(
                distance
            ),
            wrong=lambda dim, keep, weight, distance: -math.log(weight) * (distance - 2),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="theta for a budget spends all of it",
            cases=lambda: [(*size, *run) for size in _finite.SIZES for run in ((1, 1), (7, 5), (1, 3))],
            truth=lambda dim, keep, steps, groups: 0.3,
            statement=lambda dim, keep, steps, groups: steps * groups * _spent(dim, keep, steps, groups),
            wrong=lambda dim, keep, steps, groups: steps * _spent(dim, keep, steps, groups),
            tolerance=1e-12,
        ),
        *_index_at_scale.PURE,
        ExactCheck(
            name="negative theta breaks the printed condition",
            cases=lambda: [(2, 1, Fraction(2), 0.1), (4, 2, Fraction(3), 1.0), (4, 2, Fraction(1, 2), 3.0)],
            truth=_is_private,
            statement=lambda dim, keep, weight, epsilon: abs(math.log(weight)) * _diameter(dim, keep) <= epsilon,
            wrong=lambda dim, keep, weight, epsilon: printed_privacy_condition(
                -math.log(weight), epsilon, _diameter(dim, keep)
            ),
            kind=Kind.COUNTEREXAMPLE,
        ),
    ),
    proved=True,
)

# --- gip.alg2 ---------------------------------------------------------------------------------------------------------


def _descend(start: Fraction, learning_rate: Fraction, steps: int) -> Fraction:
    """Gradient descent on w^2 / 2, the training that Algorithm 2 is meant to do."""
    weight = start
    for _ in range(steps):
        weight -= learning_rate * weight
    return weight


def printed_training(start: Fraction, learning_rate: Fraction, steps: int) -> Fraction:
    """Algorithm 2 as printed on w^2 / 2 without noise or pruning: line 12 stands behind the loop."""
    weight = start
    gradient = Fraction(0)
    for _ in range(steps):
        gradient = weight
    return weight - learning_rate * gradient


def _noise_of_average(sigma: Fraction, clip: Fraction, batch: int) -> Fraction:
    """sigma times the largest move of sum / |B| when one of |B| examples from {-C, 0, C} leaves."""
    examples = itertools.product((-clip, Fraction(0), clip), repeat=batch)
    moves = (abs(sum(batch_of, Fraction(0)) - sum(batch_of[1:], Fraction(0))) / batch for batch_of in examples)
    return sigma * max(moves)


_ALG2 = Claim(
    id="gip.alg2",
    title="training algorithm",
    source=Source("gip", "Algorithm 2, sections 3 and 4"),
    statement=r"Algorithm 2 trains for $T$ steps with noise of standard deviation $\sigma C$ as accounted for in Lemma 1.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "the update of line 12 belongs inside the loop",
        "the noise sigma C is added to the sum over the batch (line 10), not to the average (section 3)",
    ),
    correction=r"Update inside the loop; noise $N(0, \sigma^2C^2 I)$ on the sum, which is $\sigma C/|B|$ on the average. "
    r"Section 4's $\sigma^2C^2d$ is the noise of the sum.",
    printed=printed_training,
    checks=(
        ExactCheck(
            name="update inside the loop",
            cases=lambda: [(Fraction(1), Fraction(1, 2), steps) for steps in (1, 2, 5)],
            truth=lambda start, rate, steps: start * (1 - rate) ** steps,
            statement=_descend,
            wrong=printed_training,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="noise on the average for the same privacy",
            cases=lambda: [(Fraction(10), Fraction(3), batch) for batch in (1, 2, 5)],
            truth=_noise_of_average,
            statement=lambda sigma, clip, batch: (sigma * clip) / batch,
            wrong=lambda sigma, clip, batch: sigma * clip,
            kind=Kind.COUNTEREXAMPLE,
        ),
    ),
    proved=True,
)

CLAIMS = (_DEF3, _ALG1, _THM1, _ALG2)
