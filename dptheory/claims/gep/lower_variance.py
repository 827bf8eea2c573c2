from fractions import Fraction

from dptheory import embedding
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.gep._mechanism import traced_energy

_MU = 0.5
_PAPERS = tuple((dim, k) for dim in (269_722, 100_000) for k in (250, 500, 1000, 1500, 2000))
"""p, of ResNet20 and of a smaller network, and the k of section 4."""

row = new_row(
    id="gep.lower_variance",
    source=Source("gep", "section 1, second contribution"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("printed_is_false", "correction_holds"),
    calculators=(embedding.gep_mse, embedding.clipping_bias),
)


def _stated_ratio(dim: int, k: int, share: Fraction) -> Fraction:
    return 2 * (Fraction(k, dim) + share**2)


def _traced_ratio(dim: int, k: int, share: float) -> float:
    """Trace of GEP's noise over that of plain perturbation's."""
    published, plain = (
        traced_energy(way, dim, k, 10.0, 10.0 * share, _MU, 0.0, None) for way in ("published", "plain")
    )
    return published / plain


def _calculated_ratio(dim: int, k: int, share: float) -> float:
    found = embedding.gep_mse(dim=dim, subspace_dim=k, clip_norm=10.0, residual_clip=10.0 * share, mu=_MU)
    return found.published / found.plain


@row.equal(
    lambda: [(*sizes, share) for sizes in _PAPERS for share in (Fraction(1, 5), Fraction(7, 10))], tolerance=1e-12
)
def _(dim: int, k: int, share: Fraction) -> Sides:
    """ratio of the variances at the paper's sizes, and just below what the condition allows"""
    traced = _traced_ratio(dim, k, float(share))
    return _calculated_ratio(dim, k, float(share)), traced, traced - 2 * k / dim


@row.equal(lambda: _PAPERS, kind=Kind.COUNTEREXAMPLE, tolerance=1e-12)
def _(dim: int, k: int) -> Sides:
    """equal clips: more than twice the variance"""
    return float(_stated_ratio(dim, k, Fraction(1))), _traced_ratio(dim, k, 1.0), 1.0


@row.equal(lambda: [(dim, k, side) for dim, k in _PAPERS for side in (Fraction(999, 1000), Fraction(1001, 1000))])
def _(dim: int, k: int, side: Fraction) -> Sides:
    """the condition: lower just below it, higher just above"""
    share = float(side) * (0.5 - k / dim) ** 0.5
    return _traced_ratio(dim, k, share) < 1, side < 1, _traced_ratio(dim, k, share / 1.01) < 1


@row.equal(lambda: [(n, clip) for n in (1, 7) for clip in (2, 3, 5)], kind=Kind.COUNTEREXAMPLE, tolerance=1e-12)
def _(rows: int, clip: int) -> Sides:
    """residuals of norm 5 and a clip below it: what the mean misses, per gradient"""
    bias = embedding.clipping_bias(
        [[0.0]] * rows, residuals=[[3.0, 4.0]] * rows, embedding_clip=10.0, residual_clip=float(clip)
    )
    return bias.square, float((rows * (5 - clip)) ** 2), 1.0
