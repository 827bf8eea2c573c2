from collections.abc import Iterator
from fractions import Fraction

from dptheory import gradients
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

row = new_row(
    id="rs.fig1.range",
    source=Source("rs", "Fig. 1, caption"),
    verdict=Verdict.CONDITIONAL,
    calculators=(gradients.relaxed_gradient_ratio,),
)


def _square_over_largest(g: tuple[int, ...]) -> Fraction:
    """Squared norm over the square of the largest entry, entry by entry."""
    return Fraction(sum(x * x for x in g), max(x * x for x in g))


@row.equal((4,), (100,), (10_000,), kind=Kind.COUNTEREXAMPLE)
def _(dim: int) -> Sides:
    """squared norm over the square of the largest entry, of (d, 1, ..., 1)"""
    return (
        1 + Fraction(dim - 1, dim * dim),
        lambda: _square_over_largest((dim, *[1] * (dim - 1))),
        lambda: _square_over_largest((1,) * dim),
    )


def _small_clips() -> Iterator[tuple[tuple[int, int], float]]:
    for g in ((3, 4), (5, 12), (8, 15)):
        for clip in (4.0, 2.5, 0.5, 1e-3):
            yield g, clip


def _kept_entry(entry: Fraction, norm: Fraction, clip: Fraction) -> Fraction:
    return entry * min(Fraction(1), clip / norm)


@row.equal(_small_clips, tolerance=1e-14)
def _(g: tuple[int, int], clip: float) -> Sides:
    """growth of the kept entry of two, the second, for clips down to 0: in fractions"""
    norm = Fraction(round(sum(x * x for x in g) ** 0.5))
    kept, limit = Fraction(g[1]), Fraction(clip)

    def grown() -> Fraction:
        return _kept_entry(kept, kept, limit) / _kept_entry(kept, norm, limit)

    found = gradients.relaxed_gradient_ratio(grad_norm=float(norm), masked_norm=float(kept), clip_norm=clip)
    return float(found), grown, 1.0
