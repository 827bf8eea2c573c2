from dataclasses import replace

from dptheory import sparsification
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.rs import _kappa

row = new_row(
    id="rs.kappa_error",
    source=Source("rs", "new, on Lemma 3.3"),
    verdict=Verdict.HOLDS,
    calculators=(sparsification.kappa,),
)


@row.equal(lambda: _kappa.UNEVEN)
def _(dim: int, keep: int, present: int, share: float, scale: float) -> Sides:
    """one to five large entries: the error bars hold and are at most a thousandth"""
    return (
        _kappa.bar_holds(
            _kappa.uneven_found(dim, keep, present, share, scale),
            _kappa.uneven_ratio(dim, keep, present, share, scale),
            1.1e-3,
        ),
        True,
        lambda: _kappa.bar_holds(
            replace(_kappa.uneven_found(dim, keep, present, share, scale), error=0.0),
            _kappa.uneven_ratio(dim, keep, present, share, scale),
            1.1e-3,
        ),
    )


@row.equal((8, 0.75), (6, 0.25))
def _(keep: int, z: float) -> Sides:
    """rows: the error bars of 100 draws hold"""
    return _kappa.rows_bars_hold(keep, z), True, lambda: _kappa.rows_bars_hold(keep, z, 0.1)


@row.equal(("standard_error", 8, 0.75), ("standard_error", 6, 0.25), ("error", 8, 0.75), tolerance=6e-3)
def _(what: str, keep: int, z: float) -> Sides:
    """rows: mean standard error and error of 300 draws, by the spread over all masks and Bernstein's inequality"""
    return (
        _kappa.rows_bar(what, keep, z),
        lambda: _kappa.rows_bar_exact(what, keep, z),
        lambda: 1.01 * _kappa.rows_bar(what, keep, z),
    )


@row.equal((8, 0.75), tolerance=0.12)
def _(keep: int, z: float) -> Sides:
    """rows: mean square of (value - exact) / standard error over 300 draws"""
    return _kappa.rows_z_score(keep, z), 1.0, lambda: 1.2 * _kappa.rows_z_score(keep, z)
