import itertools
import math

from dptheory import sparsification
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.rs._kappa import printed_kappa

row = new_row(
    id="rs.appG.kappa",
    source=Source("rs", "Appendix G, text before equation 114"),
    verdict=Verdict.CONDITIONAL,
    calculators=(sparsification.kappa,),
)


_GRADIENT, _CLIP = (2.0, 2.0, 2.0, 2.0), 4.0
_ROWS = (_GRADIENT, tuple(-one for one in _GRADIENT), (0.0,) * 4, (0.0,) * 4)


def _kappa(keep: int) -> float:
    """By enumeration of masks and deviations, as Lemma 3.3 defines it."""

    def part(kept: tuple[int, ...]) -> float:
        norm = math.sqrt(sum(_GRADIENT[j] ** 2 for j in kept))
        below = sum(sum(row[j] ** 2 for j in kept) < (3 * _CLIP / 4) ** 2 for row in _ROWS) / len(_ROWS)
        return below * min(norm, _CLIP / 4) * norm

    masks = list(itertools.combinations(range(4), keep))
    return sum(map(part, masks)) / len(masks) / part((0, 1, 2, 3))


@row.equal((2,), (1,), (3,), tolerance=1e-14, kind=Kind.COUNTEREXAMPLE)
def _(keep: int) -> Sides:
    """kappa of equal entries, deviations of half: by enumeration, not monotone in the rate"""
    rows = [list(row) for row in _ROWS]
    found = sparsification.kappa(list(_GRADIENT), clip_norm=_CLIP, drop_rate=1 - keep / 4, deviation=rows)
    return found.value, lambda: _kappa(keep), printed_kappa(1 - keep / 4)
