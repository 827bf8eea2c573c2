from fractions import Fraction

from dptheory.claims._row import Severity, Sides, Source, Verdict, new_row


def _mean(values: tuple[int, ...]) -> Fraction:
    return Fraction(sum(values), len(values))


def _clipped(value: int, clip: int) -> int:
    return max(-clip, min(clip, value))


def _inner_with_signal(values: tuple[int, ...], clip: int) -> Fraction:
    """E<grad f, s^B> for a batch of two per-example gradients, numbers, drawn with replacement."""
    pairs = [Fraction(_clipped(a, clip) + _clipped(b, clip), 2) for a in values for b in values]
    return sum((_mean(values) * signal for signal in pairs), Fraction(0)) / len(pairs)


def _inner_with_bias(values: tuple[int, ...], clip: int) -> Fraction:
    """<grad f, b>: the bias is what clipping takes from each example, averaged."""
    return _mean(values) * _mean(tuple(_clipped(value, clip) - value for value in values))


row = new_row(
    id="lf.appA.bias",
    source=Source("lf", "Appendix A"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false", "correction_holds"),
    part_of="lf.lem3.1",
)


@row.equal(lambda: [(values, clip) for values in ((1, 2), (3, -1), (5, -4, 0)) for clip in (1, 2, 9)])
def _(values: tuple[int, ...], clip: int) -> Sides:
    """by enumeration of the batches, in fractions"""
    return (
        _inner_with_signal(values, clip) - _mean(values) ** 2,
        _inner_with_bias(values, clip),
        _inner_with_signal(values, clip),
    )
