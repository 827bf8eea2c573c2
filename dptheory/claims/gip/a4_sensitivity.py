"""gip.a4.sensitivity: sensitivity by per-example pruning."""

import itertools

from dptheory import pruning
from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict
from dptheory.claims.gip import _finite


def _support_sensitivity(dim: int, keep: int, others: int, replaced: bool) -> int:
    """Largest move of the support of a sum of keep-sparse gradients, entries -1, 0, 1, when one leaves or is replaced."""
    examples = [
        tuple(next(one) if stays else 0 for stays in kept)
        for kept in _finite.subsets(dim, keep)
        for signs in itertools.product((-1, 1), repeat=keep)
        for one in (iter(signs),)
    ]
    bases = {tuple(map(sum, zip(*chosen, strict=True))) for chosen in itertools.product(examples, repeat=others)}
    outs = list(itertools.product(examples, examples)) if replaced else [(e, (0,) * dim) for e in examples]
    return max(
        _finite.hamming(_support(base, first), _support(base, second)) for base in bases for first, second in outs
    )


def _support(base: tuple[int, ...], example: tuple[int, ...]) -> tuple[bool, ...]:
    return tuple(a + b != 0 for a, b in zip(base, example, strict=True))


def _largest_support(dim: int, keep: int, batch: int) -> int:
    chosen = itertools.product(_finite.subsets(dim, keep), repeat=batch)
    return max(sum(any(bits) for bits in zip(*one, strict=True)) for one in chosen)


_SPARSE = ((5, 1), (6, 1), (6, 2), (7, 2))


row = Row(
    Claim(
        id="gip.a4.sensitivity",
        title="sensitivity by per-example pruning",
        source=Source("gip", "Appendix A.4, text after Proposition 3"),
        statement=r"""Take $d \approx 10^6$. Each example's gradient is pruned to $K = 1$ % of its entries; then the index sensitivity is
$C_1 = 2 \cdot 10^4 = 2K$.""",
        verdict=Verdict.CONDITIONAL,
        kernel="gip/a4_sensitivity.v",
        kernel_theorems=("printed_holds", "reading_is_false", "correction_holds"),
        summary=(
            r"$2K = 2 \cdot 10^4$ bounds how far one replaced example moves the support of the sum, but that is "
            "not a set of $K$ ones; for the top-K set of the sum $2K$ holds with or without per-example pruning."
        ),
        conditions=(
            (
                r"The paper does not say which index set of the sum is meant, nor which neighbours. $2 \cdot 10^4$ is the exact "
                "value for the support under replacement. Under add/remove (the neighbours that the sampling of Algorithm 2 "
                "calls for) it is $10^4$."
            ),
            "Per-example pruning acts on each example by itself; clipping afterwards only scales and keeps the support.",
            'For "reached": the data may produce any such per-example gradients.',
            (
                "Theorem 1 and the Mallows mechanism need an index set with exactly $K$ ones. The support of a sum has up to "
                "$|B|K$ ones: it does not provide such a set, and the gradient is not pruned to 1 %; randomised response "
                "(Proposition 3) does not need it."
            ),
        ),
        correction=r"""Let every example's gradient have at most $K$ nonzero entries, $1 \le K \le d$, and let $g$ be their sum over the batch.

1. *Index set = support of $g$.* It moves in at most $K$ places when one example is added or removed, and in at most
$\min(2K, d)$ places when one is replaced. Both are reached. The support can have any size up to $\min(d, |B|K)$.
2. *Index set = top-K' set of $g$.* It moves in at most $2\min(K, K', d-K')$ places when one example is added or removed,
and this is reached. For $K' = K$ this is $2\min(K, d-K)$, the value of [gip.def3](def3.md) without any per-example pruning.""",
        calculators=(pruning.index_sensitivity,),
        proved=True,
    )
)


@row.equal(lambda: [(*size, 1, True) for size in ((2, 1), (3, 1), (3, 2), (4, 2))])
def _(dim: int, keep: int, others: int, replaced: bool) -> Sides:
    """support of the sum, replace one"""
    return min(2 * keep, dim), lambda: _support_sensitivity(dim, keep, others, replaced), keep


@row.equal(
    lambda: [(*size, others, False) for size in ((2, 1), (4, 1), (5, 2)) for others in (1, 2)], kind=Kind.COUNTEREXAMPLE
)
def _(dim: int, keep: int, others: int, replaced: bool) -> Sides:
    """support of the sum, add or remove one"""
    return keep, lambda: _support_sensitivity(dim, keep, others, replaced), 2 * keep


@row.equal(lambda: [(*size, batch) for size in _SPARSE for batch in (1, 2, 3)], kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int, batch: int) -> Sides:
    """the sum is not K-sparse"""
    return min(dim, batch * keep), lambda: _largest_support(dim, keep, batch), keep
