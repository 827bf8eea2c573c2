"""rf.cost: what freezing saves of the cost of projected DP-SGD."""

import math
from fractions import Fraction

from dptheory import sparsification
from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict

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


row = Row(
    Claim(
        id="rf.cost",
        title="cost of projected DP-SGD",
        source=Source("rf", "section 4, Advantages of sparsity"),
        statement=r'''The power method's basic operation $WW^\top V$ with $W\in\mathbb R^{d\times s}$, $V\in\mathbb R^{d\times b}$ costs $O(dbs)$, the
projection $V^\top X$ with $X\in\mathbb R^{d\times n}$ costs $O(dbn)$. Random freeze deletes a share $r$ of the rows, and $b$ and $s$
"might also be able to be reduced. Overall, the computational cost is between $O(1-r)$ and $O((1-r)^3)$."''',
        verdict=Verdict.CONDITIONAL,
        kernel="rf/cost.v",
        kernel_theorems=("printed_holds", "reading_is_false", "correction_holds"),
        summary=(
            "freezing alone gives the factor $1-r$; the cubic end needs a smaller subspace and fewer sample "
            "gradients too, and the projection never reaches it: it stops at $(1-r)^2$."
        ),
        conditions=(
            "The cubic end: $b$ and $s$ are scaled with $d$, which the paper only conjectures, and the power method "
            r"outweighs the projection ($2s\cdot$ iterations $\gg n$).",
            "Dense matrix products. The cost of orthogonalising $V$, $O(db^2)$, is left out by the paper and here. "
            "$n$ is the number of gradients to be projected; it is not a choice.",
        ),
        correction=r"""With $x = 1-r$ the counts of multiplications are: power method $2dbs$ per iteration, projection $dbn$.

| what is scaled by $x$ | power method | projection |
|---|---|---|
| $d$ | $x$ | $x$ |
| $d$, $b$ | $x^2$ | $x^2$ |
| $d$, $b$, $s$ | $x^3$ | $x^2$ |

With only $d$ scaled both scale with $x$; with $b$ and $s$ scaled too the power method scales with $x^3$ and the projection, whose
$n$ is the number of gradients, with $x^2$.""",
        calculators=(sparsification.projection_operations,),
        proved=True,
    )
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
