import math
from fractions import Fraction

from dptheory import sparsification
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

Sizes = tuple[int, int, int, int]
"""Dimension, basis, samples, gradients."""


def _counted(dim: int, basis: int, samples: int, gradients: int) -> tuple[int, int]:
    """Multiplications of the power step and of the projection, counted while multiplying row by column."""
    count = 0

    def multiply(rows: int, inner: int, columns: int) -> int:
        nonlocal count
        for _ in range(rows * columns):
            for _ in range(inner):
                count += 1
        return count

    power = multiply(samples, dim, basis)  # W'V
    power = multiply(dim, samples, basis)  # W (W'V)
    return power, multiply(basis, dim, gradients) - power


def _operations(dim: int, basis: int, samples: int, gradients: int) -> sparsification.Operations:
    return sparsification.projection_operations(dim=dim, subspace_dim=basis, anchors=samples, gradient_count=gradients)


def _scaled_total(x: Fraction, both: bool, sizes: Sizes) -> sparsification.Operations:
    """Operations when a share x of the rows stays, and of b and s too where ``both``."""
    dim, basis, samples, gradients = sizes
    factor = x if both else Fraction(1)
    return _operations(int(x * dim), int(factor * basis), int(factor * samples), gradients)


_SIZES: tuple[Sizes, ...] = ((24, 4, 8, 8), (12, 6, 4, 20))


def _cost_ratio(x: Fraction, sizes: Sizes) -> Fraction:
    """Projection with d and b scaled, counted, over the dense count."""
    dim, basis, samples, gradients = sizes
    smaller = _counted(int(x * dim), int(x * basis), int(x * samples), gradients)
    return Fraction(smaller[1], _counted(*sizes)[1])


def _multiplied(dim: int, basis: int, samples: int, gradients: int, iterations: int, part: str) -> int:
    """Multiplications by the shapes of the factors, rows by inner by columns."""
    shapes = [(samples, dim, basis), (dim, samples, basis)] * iterations if part != "projection" else []
    shapes += [(basis, dim, gradients)] if part != "power_method" else []
    return sum(map(math.prod, shapes))


row = new_row(
    id="rf.cost",
    source=Source("rf", "section 4, Advantages of sparsity"),
    verdict=Verdict.LOOSE,
    kernel_theorems=("printed_holds", "reading_is_false", "correction_holds"),
    calculators=(sparsification.projection_operations,),
)


@row.equal(lambda: [(*sizes, part) for sizes in _SIZES for part in (0, 1)])
def _(dim: int, basis: int, samples: int, gradients: int, part: int) -> Sides:
    """multiplications counted one by one"""
    sizes = (dim, basis, samples, gradients)
    found = _operations(*sizes)
    stated = Fraction((found.power_method, found.projection)[part])
    return stated, lambda: Fraction(_counted(*sizes)[part]), Fraction(dim * basis * samples)


@row.equal(lambda: [(Fraction(1, 2), sizes) for sizes in _SIZES], kind=Kind.COUNTEREXAMPLE)
def _(x: Fraction, sizes: Sizes) -> Sides:
    """projection with d and b halved"""
    return (
        Fraction(
            _scaled_total(x, True, sizes).projection,
            _operations(*sizes).projection,
        ),
        lambda: _cost_ratio(x, sizes),
        x**3,
    )


@row.equal(
    lambda: [
        (*sizes, iterations, part)
        for sizes in ((50, 6, 9, 20), (550_000, 1000, 2000, 1000))
        for iterations in (1, 3)
        for part in ("power_method", "projection", "total")
    ]
)
def _(dim: int, basis: int, samples: int, gradients: int, iterations: int, part: str) -> Sides:
    """shapes multiplied, users' sizes, three power iterations"""
    stated = getattr(
        sparsification.projection_operations(
            dim=dim, subspace_dim=basis, anchors=samples, gradient_count=gradients, iterations=iterations
        ),
        part,
    )
    counted = _multiplied(dim, basis, samples, gradients, iterations, part)
    return Fraction(stated), Fraction(counted), Fraction(dim * basis * samples)
