import itertools
from collections.abc import Iterator
from fractions import Fraction

from dptheory import gradients
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.rf._quadratic_forms import PAIRED, approximate, gamma_max, spectrum


def _order_cases() -> Iterator[tuple[int, float, int]]:
    yield from itertools.product((2, 5, 30), (0.3, 1.0, 3.0), (1, 2, 20, 10**4))


def _gamma_order(dim: int, decay: float, draws: int) -> bool:
    p = spectrum(dim, decay) / spectrum(dim, decay).sum()
    first, second = (gamma_max(shape, draws) for shape in (0.5 / float(p @ p), 0.5 * dim))
    return first >= second - 1e-9 and second >= 1.0 - 1e-9


def _stated_order(dim: int, decay: float, draws: int, sign: float = 1.0) -> bool:
    """E M1 >= E M2 >= 1 by the calculator; sign = -1 turns the first inequality round."""
    eigenvalues = list(spectrum(dim, decay))
    first = approximate(eigenvalues, draws) / sum(eigenvalues)
    second = approximate([1.0] * dim, draws) / dim
    return sign * (first - second) >= -1e-9 and second >= 1.0 - 1e-9


row = new_row(
    id="rf.eq24",
    source=Source("rf", "Appendix A", (24,)),
    verdict=Verdict.HOLDS,
    calculators=(gradients.expected_max_quadratic_form,),
)


@row.equal(lambda: [(PAIRED[i], n) for i in range(4) for n in (2, 5, 1000)], tolerance=1e-8)
def _(e: tuple[int, ...], n: int) -> Sides:
    """Gamma maxima by quadrature of their own law"""
    shape = sum(e) ** 2 / (2 * sum(x * x for x in e))
    return approximate(e, n) / sum(e), lambda: gamma_max(shape, n), approximate([1.0] * len(e), n) / len(e)


@row.equal(lambda: [(n,) for n in (1, 2, 3, 50)], tolerance=1e-9)
def _(n: int) -> Sides:
    """two equal eigenvalues: harmonic numbers"""
    return approximate([1.0, 1.0], n) / 2, sum((Fraction(1, i) for i in range(1, n + 1)), Fraction(0)), 1.0


@row.equal(_order_cases)
def _(dim: int, decay: float, draws: int) -> Sides:
    """E M1 >= E M2 >= 1 over a grid of spectra"""
    return (
        _stated_order(dim, decay, draws),
        lambda: _gamma_order(dim, decay, draws),
        _stated_order(dim, decay, draws, sign=-1.0),
    )
