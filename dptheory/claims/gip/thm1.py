import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dptheory import pruning
from dptheory._arrays import ArrayLike
from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite
from dptheory.claims.gip._finite import DISTANCES, WEIGHT, apart, enumerated_loss, gain, log_of, model_of, together
from dptheory.pruning import SubsetMallows


def printed_mask(gradient: ArrayLike, keep: int) -> NDArray[np.bool_]:
    """Algorithm 1, lines 3-5, as printed: |g_j| above the 100k-th percentile of one group."""
    size = np.abs(np.asarray(gradient, dtype=np.float64))
    return np.asarray(size > np.percentile(size, 100 * keep / size.size))


_TIED = (1.0, 1.0, 1.0, 1.0)


def _mask_cases() -> Iterator[tuple[tuple[float, ...], int]]:
    for dim, keep in _finite.SIZES:
        yield tuple(float(j + 1) for j in range(dim)), keep
    yield _TIED, 2


alg1 = new_row(
    id="gip.alg1",
    source=Source("gip", "Algorithm 1, lines 3-5"),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_mask,
    calculators=(pruning.top_k_mask,),
)


@alg1.equal(_mask_cases, kind=Kind.COUNTEREXAMPLE)
def _(gradient: tuple[float, ...], keep: int) -> Sides:
    """number of entries kept"""
    return int(pruning.top_k_mask(gradient, keep=keep).sum()), keep, int(printed_mask(gradient, keep).sum())


@alg1.equal(_mask_cases, kind=Kind.COUNTEREXAMPLE)
def _(gradient: tuple[float, ...], keep: int) -> Sides:
    """energy of the entries kept"""
    return (
        np.square(gradient) @ pruning.top_k_mask(gradient, keep=keep),
        lambda: max(sum(x * x for x in chosen) for chosen in itertools.combinations(gradient, keep)),
        np.square(gradient) @ printed_mask(gradient, keep),
    )


@alg1.equal(lambda: [(20_000, 2_000, j) for j in (0, 1, 1_999, 2_000, 19_999)])
def _(dim: int, keep: int, j: int) -> Sides:
    """a long gradient in falling order, its signs mixed"""
    return (
        bool(pruning.top_k_mask((-1.0) ** np.arange(dim) * (dim - np.arange(dim)), keep=keep)[j]),
        j < keep,
        bool(printed_mask((-1.0) ** np.arange(dim) * (dim - np.arange(dim)), keep)[j]),
    )


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


alg2 = new_row(
    id="gip.alg2",
    source=Source("gip", "Algorithm 2, sections 3 and 4"),
    verdict=Verdict.CONDITIONAL,
    printed=printed_training,
)


@alg2.equal(lambda: [(Fraction(1), Fraction(1, 2), steps) for steps in (1, 2, 5)], kind=Kind.COUNTEREXAMPLE)
def _(start: Fraction, rate: Fraction, steps: int) -> tuple[Fraction, Fraction]:
    """update inside the loop"""
    return _descend(start, rate, steps), start * (1 - rate) ** steps


@alg2.equal(lambda: [(Fraction(10), Fraction(3), batch) for batch in (1, 2, 5)], kind=Kind.COUNTEREXAMPLE)
def _(sigma: Fraction, clip: Fraction, batch: int) -> Sides:
    """noise on the average for the same privacy"""
    return (sigma * clip) / batch, lambda: _noise_of_average(sigma, clip, batch), sigma * clip


grouping = new_row(
    id="gip.grouping",
    source=Source("gip", "section 4.2, groups"),
    verdict=Verdict.HOLDS,
)


Group = tuple[int, int, Fraction]
"""(entries, ones, e^-theta)."""


def _grouped_ratio(groups: tuple[Group, ...]) -> Fraction:
    """The largest ratio of the chances of one outcome under two references, over all pairs and outcomes, by enumeration."""
    laws = [
        [_finite.mallows(reference, weight) for reference in _finite.subsets(dim, keep)] for dim, keep, weight in groups
    ]
    outcomes = list(itertools.product(*(list(group[0]) for group in laws)))
    chances = [
        [
            math.prod((law[part] for law, part in zip(chosen, outcome, strict=True)), start=Fraction(1))
            for outcome in outcomes
        ]
        for chosen in itertools.product(*laws)
    ]
    return max(a / b for one, other in itertools.product(chances, repeat=2) for a, b in zip(one, other, strict=True))


@grouping.equal(
    (((2, 1, Fraction(1, 2)), (3, 1, Fraction(2, 3))),),
    (((3, 1, Fraction(1, 2)), (3, 2, Fraction(1, 3))),),
    (((2, 1, Fraction(1, 5)), (2, 1, Fraction(1, 2)), (2, 1, Fraction(3, 4))),),
)
def _(groups: tuple[Group, ...]) -> Sides:
    """the largest likelihood ratio of all groups together"""
    each = [weight ** -_finite.diameter(dim, keep) for dim, keep, weight in groups]
    return math.prod(each, start=Fraction(1)), lambda: _grouped_ratio(groups), max(each)


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


def3 = new_row(
    id="gip.def3",
    source=Source("gip", "Definition 3"),
    verdict=Verdict.HOLDS,
    calculators=(pruning.index_sensitivity,),
)


@def3.equal(lambda: _finite.SIZES)
def _(dim: int, keep: int) -> Sides:
    """diameter of the k-subsets"""
    return pruning.index_sensitivity(dim, keep), lambda: _finite.diameter(dim, keep), 2 * keep


@def3.equal(lambda: [(*size, clip) for size in _finite.SIZES for clip in (Fraction(1), Fraction(1, 10**6))])
def _(dim: int, keep: int, clip: Fraction) -> Sides:
    """one clipped example reaches it"""
    return (
        pruning.index_sensitivity(dim, keep),
        lambda: _reached_by_one_example(dim, keep, clip),
        pruning.index_sensitivity(dim, keep) - 2,
    )


@def3.equal(lambda: DISTANCES)
def _(dim: int, keep: int) -> Sides:
    """distance of two index sets at users' sizes, place by place"""
    return pruning.index_sensitivity(dim, keep), lambda: apart(dim, keep), 2 * keep


@def3.equal(lambda: DISTANCES)
def _(dim: int, keep: int) -> Sides:
    """most swaps: half the distance"""
    return SubsetMallows(dim, keep, theta=1.0).max_swaps, lambda: apart(dim, keep) // 2, keep


unrestricted = new_row(
    id="gip.unrestricted",
    source=Source("gip", "section 4.1, after Definition 3"),
    verdict=Verdict.HOLDS,
)


def _farthest(dim: int) -> int:
    """The largest L1 distance of two index sets of any size, by enumeration."""
    sets = list(itertools.product((False, True), repeat=dim))
    return max(_finite.hamming(one, other) for one in sets for other in sets)


@unrestricted.equal((3,), (5,), (6,))
def _(dim: int) -> Sides:
    """distance of index sets of any size, against those with one entry kept"""
    return dim, lambda: _farthest(dim), _finite.diameter(dim, 1)


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
    theta = pruning.theta_for_budget(epsilon=0.3, dim=dim, keep=keep, steps=steps, groups=groups)
    return pruning.SubsetMallows(dim, keep, theta=theta).epsilon(_finite.diameter(dim, keep))


def _is_private(dim: int, keep: int, weight: Fraction, epsilon: float) -> bool:
    """Pure epsilon-DP for every pair of references, by enumeration."""
    reach = 2 * min(keep, dim - keep)
    return all(abs(_log_ratio(dim, keep, weight, m)) <= epsilon + 1e-12 for m in range(2, reach + 1, 2))


def printed_privacy_condition(theta: float, epsilon: float, sensitivity: int) -> bool:
    """Theorem 1 as printed, with no lower bound on theta."""
    return theta <= epsilon / sensitivity


thm1 = new_row(
    id="gip.thm1",
    source=Source("gip", "Theorem 1, Definition 4", (4, 8, 9, 10)),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds",),
    printed=printed_privacy_condition,
    calculators=(pruning.SubsetMallows.epsilon, pruning.index_sensitivity, pruning.theta_for_budget),
)


@thm1.equal(_ratio_cases, tolerance=1e-12)
def _(dim: int, keep: int, weight: Fraction, distance: int) -> Sides:
    """largest privacy loss of a pair"""
    return (
        pruning.SubsetMallows(dim, keep, theta=-math.log(weight)).epsilon(distance),
        lambda: _log_ratio(dim, keep, weight, distance),
        -math.log(weight) * (distance - 2),
    )


@thm1.equal(lambda: [(*size, *run) for size in _finite.SIZES for run in ((1, 1), (7, 5), (1, 3))], tolerance=1e-12)
def _(dim: int, keep: int, steps: int, groups: int) -> Sides:
    """theta for a budget spends all of it"""
    return steps * groups * _spent(dim, keep, steps, groups), 0.3, steps * _spent(dim, keep, steps, groups)


@thm1.equal(lambda: DISTANCES, tolerance=1e-12)
def _(dim: int, keep: int) -> Sides:
    """loss of a far pair at users' sizes"""
    return (
        model_of(dim, keep, WEIGHT).epsilon(apart(dim, keep)),
        # P(A | A) / P(A | B) = weight^-distance: both laws have one normalisation
        lambda: -log_of(WEIGHT ** apart(dim, keep)),
        model_of(dim, keep, WEIGHT).epsilon(apart(dim, keep) - 2),
    )


@thm1.equal(
    lambda: [(*size, *run) for size in DISTANCES for run in ((1, 1), (875, 1), (1, 10_547), (2500, 10_547))],
    tolerance=1e-12,
)
def _(dim: int, keep: int, steps: int, groups: int) -> Sides:
    """theta for a budget at users' sizes spends all of it"""
    return (
        steps
        * groups
        * pruning.theta_for_budget(epsilon=0.3, dim=dim, keep=keep, steps=steps, groups=groups)
        * apart(dim, keep),
        0.3,
        steps * pruning.theta_for_budget(epsilon=0.3, dim=dim, keep=keep) * apart(dim, keep),
    )


@thm1.equal((2, 1, Fraction(2), 0.1), (4, 2, Fraction(3), 1.0), (4, 2, Fraction(1, 2), 3.0), kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int, weight: Fraction, epsilon: float) -> Sides:
    """negative theta breaks the printed condition"""
    return (
        abs(math.log(weight)) * _finite.diameter(dim, keep) <= epsilon,
        lambda: _is_private(dim, keep, weight, epsilon),
        printed_privacy_condition(-math.log(weight), epsilon, _finite.diameter(dim, keep)),
    )


def _exchanged(first: tuple[int, ...], second: tuple[int, ...], dim: int, keep: int) -> int:
    """Swaps of the top sets of all groups between two sums of gradients."""
    places = range(0, len(first), dim)
    tops = [[_finite.top_subset(total[at : at + dim], keep) for at in places] for total in (first, second)]
    return sum(_finite.hamming(one, other) for one, other in zip(*tops, strict=True)) // 2


def _most_exchanged(nonzeros: int, dim: int, keep: int, groups: int) -> int:
    """The largest over all supports of an example, with entries that lift the sum above all others or cancel it."""
    base = tuple(1 + (j % dim) for j in range(dim * groups))
    most = 0
    for support in itertools.combinations(range(len(base)), nonzeros):
        for lift in itertools.product((True, False), repeat=nonzeros):
            total = list(base)
            for at, up in zip(support, lift, strict=True):
                total[at] += 10 if up else -base[at]
            most = max(most, _exchanged(base, tuple(total), dim, keep))
    return most


def _replaced(nonzeros: int, dim: int, keep: int, groups: int) -> int:
    """Swaps between two contents of one example: the first cancels top entries, the second lifts the least ones (step 3)."""
    base = [dim - j % dim for j in range(dim * groups)]
    first, second = list(base), list(base)
    least = min(keep, dim - keep)
    left = min(2 * nonzeros, groups * least)
    cancelled = (left + 1) // 2
    for at in range(0, len(base), dim):
        here = min(least, left)
        gone = min(here, cancelled)
        left, cancelled = left - here, cancelled - gone
        first[at : at + gone] = [0] * gone
        for j in range(at + dim - (here - gone), at + dim):
            second[j] += 2 * dim
    assert all(sum(x != y for x, y in zip(base, total, strict=True)) <= nonzeros for total in (first, second))
    return _exchanged(tuple(first), tuple(second), dim, keep)


def _small_cases() -> Iterator[tuple[int, int, int, int]]:
    for dim, keep, groups in ((3, 1, 1), (3, 2, 2), (4, 2, 1), (5, 3, 1), (4, 2, 2)):
        for nonzeros in range(1, min(dim * groups, 4) + 1):
            yield nonzeros, dim, keep, groups


def _step_loss(dim: int, keep: int, split: tuple[int, ...], weight: Fraction) -> _finite.Loss:
    """Of all groups together, whose references are so many swaps apart, by all index sets."""
    return together(enumerated_loss(dim, keep, weight, swaps) for swaps in split)


def _hockey_stick(law: _finite.Loss, weight: Fraction, gamma: Fraction) -> Fraction:
    """H_gamma from the loss 2 theta j: the second law is weight^(2 j) times the first."""
    return sum((p * max(Fraction(0), 1 - gamma * weight ** (2 * j)) for j, p in law.items()), Fraction(0))


_SPLITS = tuple(
    (dim, keep, split, weight)
    for dim, keep, splits in ((4, 2, ((2,), (1, 1))), (6, 3, ((3,), (2, 1), (1, 1, 1))), (7, 2, ((2, 0), (1, 1))))
    for split in splits
    for weight in (Fraction(1, 2), Fraction(9, 10))
)
"""Group size, kept, swaps of each group, e^-theta."""


def _budget(dim: int, keep: int, split: tuple[int, ...], weight: Fraction) -> pruning.SparseIndexBudget:
    """The budget that one step with these swaps spends."""
    swaps = sum(split)
    return pruning.sparse_index_budget(
        epsilon=-2 * swaps * math.log(weight), nonzeros=swaps, dim=dim, keep=keep, groups=len(split)
    )


sparse_examples = new_row(
    id="gip.sparse_examples",
    source=Source("gip", "new, on Theorem 1"),
    verdict=Verdict.HOLDS,
    calculators=(pruning.sparse_index_budget,),
)


@sparse_examples.equal(_small_cases)
def _(nonzeros: int, dim: int, keep: int, groups: int) -> Sides:
    """most swaps of an example, over all supports"""
    # wrong: every group moves as far as it can
    return (
        pruning.sparse_index_budget(epsilon=1.0, nonzeros=nonzeros, dim=dim, keep=keep, groups=groups).swaps,
        lambda: _most_exchanged(nonzeros, dim, keep, groups),
        groups * min(keep, dim - keep),
    )


@sparse_examples.equal(
    lambda: itertools.chain(_small_cases(), ((2, 9, 4, 1), (7, 9, 4, 3), (6, 9, 5, 3), (1, 2, 1, 3)))
)
def _(nonzeros: int, dim: int, keep: int, groups: int) -> Sides:
    """swaps between two contents of a replaced example (step 3)"""
    found = pruning.sparse_index_budget(epsilon=1.0, nonzeros=2 * nonzeros, dim=dim, keep=keep, groups=groups).swaps
    # wrong: the bound of an example added or removed
    wrong = pruning.sparse_index_budget(epsilon=1.0, nonzeros=nonzeros, dim=dim, keep=keep, groups=groups).swaps
    return found, lambda: _replaced(nonzeros, dim, keep, groups), wrong if wrong < found else found - 1


@sparse_examples.equal(lambda: _SPLITS, tolerance=1e-12)
def _(dim: int, keep: int, split: tuple[int, ...], weight: Fraction) -> Sides:
    """largest loss over theta, all groups together, by all index sets"""
    found = _budget(dim, keep, split, weight)
    largest = 2 * max(_step_loss(dim, keep, split, weight))
    return -2 * found.swaps * math.log(weight) / found.theta, largest, 2 * max(split) - 1


@sparse_examples.equal(lambda: _SPLITS, tolerance=1e-12)
def _(dim: int, keep: int, split: tuple[int, ...], weight: Fraction) -> Sides:
    """Kullback-Leibler divergence over theta, for every split, in fractions"""
    found = _budget(dim, keep, split, weight)
    mean = sum(2 * j * p for j, p in _step_loss(dim, keep, split, weight).items())
    return 2 * found.retained_gain * found.swaps, mean, 2.0 * found.swaps


@sparse_examples.equal((Fraction(1, 2),), (Fraction(9, 10),), kind=Kind.COUNTEREXAMPLE)
def _(weight: Fraction) -> Sides:
    """is one split the worst at every gamma? d = 4, K = 2, in fractions"""
    one, split = (_step_loss(4, 2, swaps, weight) for swaps in ((2,), (1, 1)))
    signs = {
        _hockey_stick(one, weight, gamma) > _hockey_stick(split, weight, gamma)
        for gamma in (Fraction(1), weight**-1, weight**-3, (weight**-4 + weight**-3) / 2)
    }
    return len(signs) == 1, False, True


@sparse_examples.equal(
    lambda: [
        (field, *case)
        for field in ("swaps", "theta", "retained_gain")
        for case in ((5, 20_000, 5, 40, 3), (70, 20_000, 19_996, 1000, 50), (10**9, 10**6, 2, 7, 12))
    ],
    tolerance=1e-9,
)
def _(field: str, nonzeros: int, dim: int, keep: int, steps: int, groups: int) -> Sides:
    """swaps, theta and gain at users' sizes, by counting index sets"""
    found = pruning.sparse_index_budget(epsilon=1.5, nonzeros=nonzeros, dim=dim, keep=keep, steps=steps, groups=groups)
    swaps = min(nonzeros, groups * min(keep, dim - keep))
    theta = Fraction(3, 2) / (2 * steps * swaps)
    retained = gain(dim, keep, Fraction(math.exp(-theta)))
    true = {"swaps": float(swaps), "theta": float(theta), "retained_gain": retained}[field]
    return getattr(found, field), true, 1.01 * true
