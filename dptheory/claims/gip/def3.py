import itertools
from fractions import Fraction

from dptheory import pruning
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite
from dptheory.claims.gip._at_scale import DISTANCES, apart
from dptheory.pruning import SubsetMallows


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
