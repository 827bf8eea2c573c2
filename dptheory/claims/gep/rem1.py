import math
from fractions import Fraction

from dptheory import embedding
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.gep import _mechanism
from dptheory.claims.gep._mechanism import EntrySum, spread


def _functional(part: str, bias: embedding.ClippingBias) -> float:
    """The square, or the sum of the entries of a part."""
    return bias.square if part == "square" else float(getattr(bias, part).sum())


_CLIP, _RESIDUAL_CLIP = 3.0, 0.8
_FREE = 100.0
"""No row is that long."""
_ROW_BYTES = 8 * 4 * _mechanism.DIM


def _true_sum() -> float:
    return float(_mechanism.gradients().sum())


def _mean_sum(clip: float, residual_clip: float) -> float:
    """Sum of the entries of the mean released sum: the truth plus the bias, back in the coordinates of the gradients."""
    bias = embedding.clipping_bias(
        _mechanism.embeddings(), residuals=_mechanism.residuals(), embedding_clip=clip, residual_clip=residual_clip
    )
    vector = bias.embedding @ _mechanism.basis() + bias.residual @ _mechanism.complement()
    return _true_sum() + float(vector.sum())


def _without_residual() -> float:
    return _true_sum() - float((_mechanism.residuals() @ _mechanism.complement()).sum())


_WHOLE = (
    ((3, 4), (0, 5), Fraction(1), Fraction(2)),
    ((8, 6), (5, 12), Fraction(2), Fraction(1)),
    ((-3, 4), (8, -15), Fraction(7), Fraction(17)),
    ((4, -3), (0, 0), Fraction(1), Fraction(3)),
)
"""Embedding and residual of one example, both of whole norm, and the clips."""


def _exact_square(first: tuple[int, int], second: tuple[int, int], s1: Fraction, s2: Fraction, copies: int) -> Fraction:
    """|bias|^2 of ``copies`` copies of the example and one zero example."""
    shrink = [
        max(Fraction(0), 1 - bound / math.isqrt(x * x + y * y)) if (x, y) != (0, 0) else Fraction(0)
        for (x, y), bound in ((first, s1), (second, s2))
    ]
    return copies**2 * sum(
        (s**2 * (x * x + y * y) for s, (x, y) in zip(shrink, (first, second), strict=True)), Fraction(0)
    )


row = new_row(
    id="gep.rem1",
    source=Source("gep", "Remark 1", (4,)),
    verdict=Verdict.HOLDS,
    calculators=(embedding.clipping_bias,),
)


@row.equal(
    lambda: [
        (part, rows, k, q)
        for part in ("embedding", "residual", "square")
        for rows, k, q in ((1, 2, 4), (3, 2, 20_000), (3, 20_000, 4))
    ],
    tolerance=1e-12,
)
def _(part: str, rows: int, k: int, q: int) -> Sides:
    """bias of clipping apart, part by part"""
    return (
        _functional(
            part,
            embedding.clipping_bias(
                spread(5, rows, k), residuals=spread(12, rows, q), embedding_clip=4.0, residual_clip=2.0
            ),
        ),
        {"embedding": -math.sqrt(k) * rows, "residual": -10 * math.sqrt(q) * rows, "square": rows**2 * (1 + 100.0)}[
            part
        ],
        {"embedding": 1.0, "residual": -12 * math.sqrt(q) * rows, "square": 0.0}[part],
    )


@row.mean(EntrySum("published", _FREE, _FREE, mu=200.0), wrong=_without_residual, row_bytes=_ROW_BYTES)
def _() -> float:
    """gep.rem1: GEP without clipping"""
    return _mean_sum(_FREE, _FREE)


@row.mean(EntrySum("embedding_only", _FREE, _RESIDUAL_CLIP, mu=200.0), wrong=_true_sum, row_bytes=_ROW_BYTES)
def _() -> float:
    """gep.rem1: B-GEP without clipping"""
    return _mean_sum(_FREE, 0.0)


@row.mean(EntrySum("published", _CLIP, _RESIDUAL_CLIP, mu=4.0), wrong=_true_sum, row_bytes=_ROW_BYTES)
def _() -> float:
    """gep.rem1: GEP with clipping"""
    return _mean_sum(_CLIP, _RESIDUAL_CLIP)


@row.equal(lambda: [(*case, copies) for case in _WHOLE for copies in (1, 3)], tolerance=1e-13)
def _(w: tuple[int, int], r: tuple[int, int], s1: Fraction, s2: Fraction, copies: int) -> Sides:
    """squared bias in fractions"""
    return (
        embedding.clipping_bias(
            [w] * copies + [(0, 0)],
            residuals=[r] * copies + [(0, 0)],
            embedding_clip=float(s1),
            residual_clip=float(s2),
        ).square,
        lambda: _exact_square(w, r, s1, s2, copies),
        0.0,
    )
