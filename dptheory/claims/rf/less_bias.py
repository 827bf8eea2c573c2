import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

Batch = tuple[tuple[int, int], ...]

row = new_row(
    id="rf.less_bias",
    source=Source("rf", "section 3.4, Fig. 4, on its reason"),
    verdict=Verdict.NOT_SHOWN,
)


def _mean_clipped(batch: Batch, clip: Fraction) -> tuple[Fraction, Fraction]:
    """The mean of the clipped gradients; their norms are whole numbers."""
    shares = [min(Fraction(1), clip / math.isqrt(x * x + y * y)) for x, y in batch]
    first = sum((share * x for share, (x, _) in zip(shares, batch, strict=True)), Fraction(0))
    second = sum((share * y for share, (_, y) in zip(shares, batch, strict=True)), Fraction(0))
    return first / len(batch), second / len(batch)


def _bias(batch: Batch, clip: Fraction) -> Fraction:
    """The first coordinate of the bias, in size; the second is 0 in the batches below."""
    return abs(_mean_clipped(batch, clip)[0] - Fraction(sum(x for x, _ in batch), len(batch)))


_UNEVEN: Batch = ((4, 0), (-2, 0), (-2, 0))


@row.equal((1, Fraction(1, 3)), (2, Fraction(2, 3)), (4, Fraction(0)), kind=Kind.COUNTEREXAMPLE)
def _(clip: int, bias: Fraction) -> Sides:
    """clipping bias of the gradients 4, -2, -2"""
    falling = Fraction(4 - clip, 3)  # wrong: the bound E(|g| - C)_+ on it, as long as only one is clipped
    return bias, lambda: _bias(_UNEVEN, Fraction(clip)), falling


def _all_clipped() -> Iterator[tuple[Batch, Fraction, Fraction]]:
    batches: tuple[Batch, ...] = (((3, 4), (0, 5)), ((5, 12), (-3, 4), (8, 15)), ((1, 0), (0, -2)))
    for batch, large, ratio in itertools.product(batches, (Fraction(1), Fraction(1, 2)), (2, 10)):
        yield batch, large, large / ratio


@row.equal(_all_clipped)
def _(batch: Batch, large: Fraction, small: Fraction) -> Sides:
    """clip over 1 - momentum kept, all clipped: the mean clipped gradient times 1 / (1 - momentum)"""
    factor = large / small  # 1 / (1 - momentum) at the smaller clip; 1 at the larger one
    one = _mean_clipped(batch, large)[0]
    return one, lambda: factor * _mean_clipped(batch, small)[0], _mean_clipped(batch, small)[0]
