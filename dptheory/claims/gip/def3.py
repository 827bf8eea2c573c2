"""gip.def3: sensitivity of the index set."""

from fractions import Fraction

from dptheory import pruning
from dptheory.claims._row import Claim, Row, Sides, Source, Verdict
from dptheory.claims.gip import _finite
from dptheory.claims.gip._index_at_scale import DISTANCES, apart
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


row = Row(
    Claim(
        id="gip.def3",
        title="sensitivity of the index set",
        source=Source("gip", "Definition 3"),
        statement=r"""Write $I \subset \lbrace 1,\dots,d\rbrace$ for an index set with $K = kd$ ones, $0 \le K \le d$, and $h(I, J)$ for the number
of places in which two index sets differ: their L1 distance. $I(g)$ is the set of the $K$ entries of $g$ that are largest in
absolute value. The paper (Definition 3 and the text below it) calls $s = \sup h(I(g), I(g'))$ over neighbouring data sets
(here: batches) the index sensitivity and says that it is at most $\min(2kd, 2d - 2kd)$.""",
        verdict=Verdict.HOLDS,
        summary=(
            r"two index sets with $K$ ones differ in at most $\min(2K, 2(d-K))$ places, and one clipped example is enough to "
            "reach that, for every clipping bound."
        ),
        conditions=(
            (
                r"Every index set has exactly $K$ ones (needed: with $|I| \ne |J|$ the distance can be anything up to $d$; see "
                "[gip.alg1](alg1.md) for why the printed threshold does not ensure it)."
            ),
            (
                r'For "reached": the data may produce any per-example gradient (for instance the loss $\langle w, x\rangle$, '
                r"whose gradient is the example $x$ itself). Without this, $2\min(K, d-K)$ is still an upper bound."
            ),
            r"With groups, $d$ is the group size $\ell$ and $K$ the number kept in the group.",
        ),
        correction=r"""For every $C > 0$, with neighbours that differ in one added or removed example of clipped norm at most $C$,

$$s = 2\min(K, d-K).$$""",
        calculators=(pruning.index_sensitivity,),
        proved=True,
    )
)


@row.equal(lambda: _finite.SIZES)
def _(dim: int, keep: int) -> Sides:
    """diameter of the k-subsets"""
    return pruning.index_sensitivity(dim, keep), lambda: _finite.diameter(dim, keep), 2 * keep


@row.equal(lambda: [(*size, clip) for size in _finite.SIZES for clip in (Fraction(1), Fraction(1, 10**6))])
def _(dim: int, keep: int, clip: Fraction) -> Sides:
    """one clipped example reaches it"""
    return (
        pruning.index_sensitivity(dim, keep),
        lambda: _reached_by_one_example(dim, keep, clip),
        pruning.index_sensitivity(dim, keep) - 2,
    )


@row.equal(lambda: DISTANCES)
def _(dim: int, keep: int) -> Sides:
    """distance of two index sets at users' sizes, place by place"""
    return pruning.index_sensitivity(dim, keep), lambda: apart(dim, keep), 2 * keep


@row.equal(lambda: DISTANCES)
def _(dim: int, keep: int) -> Sides:
    """most swaps: half the distance"""
    return SubsetMallows(dim, keep, theta=1.0).max_swaps, lambda: apart(dim, keep) // 2, keep
