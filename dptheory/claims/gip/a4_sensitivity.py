import itertools

from dptheory import pruning
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
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


row = new_row(
    id="gip.a4.sensitivity",
    source=Source("gip", "Appendix A.4, text after Proposition 3"),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds", "reading_is_false", "correction_holds"),
    calculators=(pruning.index_sensitivity,),
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
