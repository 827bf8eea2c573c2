from typing import Literal

from dptheory import embedding
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.gep import _counted


def printed_operations(dim: int, basis: int, anchors: int, groups: int = 1) -> int:
    """2 m k p / g + p k^2 / g^2 of Table 4, for g that divides p and k."""
    return (2 * anchors * basis * dim + dim * basis * (basis // groups)) // groups


_SIZES = (
    (1, 1, 1, 1),
    (12, 1, 3, 1),
    (12, 3, 5, 1),
    (20, 4, 7, 1),
    (24, 6, 5, 2),
    (24, 6, 5, 3),
    (40, 8, 9, 4),
)
"""Parameters, basis vectors, anchor gradients and groups."""
Unit = Literal["multiply-add", "operation"]


def _multiply_adds(dim: int, basis: int, anchors: int, groups: int) -> int:
    found = embedding.power_iteration(dim=dim, subspace_dim=basis, anchors=anchors, groups=groups)
    return found.products + found.orthogonalisation


def _once_slack(width: int, basis: int, anchors: int) -> float:
    """Wrong statement: the printed count bounds the operations."""
    dim = basis * width
    return (
        printed_operations(dim, basis, anchors)
        / embedding.power_iteration(dim=dim, subspace_dim=basis, anchors=anchors, unit="operation").total
        - 1
    )


def _counted_parts(part: str, dim: int, basis: int, anchors: int, groups: int, unit: str) -> int:
    """Operations of one power iteration, loop by loop, without running the innermost one."""
    p, k = dim // groups, basis // groups
    fused = unit == "multiply-add"
    found = {"products": 0, "orthogonalisation": 0, "scaling": 0}
    for _ in range(groups):
        found["products"] += anchors * k * (p if fused else p + p - 1)  # entries of A = G B^T: p products, p - 1 sums
        found["products"] += k * p * (anchors if fused else anchors + anchors - 1)
        for row in range(k):
            for _ in range(row):  # an inner product, and a multiple of the earlier row taken off
                found["orthogonalisation"] += (p if fused else p + p - 1) + (p if fused else p + p)
            found["orthogonalisation"] += p if fused else p + p - 1  # the squared norm
            found["scaling"] += p
    return sum(found.values()) if part == "total" else found[part]


row = new_row(
    id="gep.appB.compute",
    source=Source("gep", "Appendix B, Table 4, section 3.1"),
    verdict=Verdict.CONDITIONAL,
    printed=printed_operations,
    calculators=(embedding.power_iteration,),
)


@row.equal(
    lambda: [
        (part, *sizes, unit)
        for part in ("products", "orthogonalisation", "scaling", "total")
        for sizes in ((12, 3, 5, 1), (24, 6, 5, 3), (270_000, 1000, 2000, 1), (270_000, 1000, 2000, 5))
        for unit in ("multiply-add", "operation")
    ]
)
def _(part: str, dim: int, basis: int, anchors: int, groups: int, unit: Unit) -> Sides:
    """every part, loop by loop"""
    case = dim, basis, anchors, groups, unit
    stated = embedding.power_iteration(dim=dim, subspace_dim=basis, anchors=anchors, groups=groups, unit=unit)
    return (
        getattr(stated, part),
        lambda: _counted_parts(part, *case),
        lambda: _counted_parts(part, *case) + 1,
    )


@row.equal(lambda: _SIZES)
def _(dim: int, basis: int, anchors: int, groups: int) -> Sides:
    """multiply-adds, counted one by one"""
    return (
        _multiply_adds(dim, basis, anchors, groups),
        lambda: _counted.counted(dim, basis, anchors, groups)[0],
        2 * anchors * basis * dim // groups + dim * basis**2 // groups,
    )


@row.equal(lambda: _SIZES, kind=Kind.COUNTEREXAMPLE)
def _(dim: int, basis: int, anchors: int, groups: int) -> Sides:
    """floating-point operations, counted one by one"""
    return (
        embedding.power_iteration(dim=dim, subspace_dim=basis, anchors=anchors, groups=groups, unit="operation").total,
        lambda: _counted.counted(dim, basis, anchors, groups)[1],
        printed_operations(dim, basis, anchors, groups),
    )


@row.inequality(
    {
        "width": Range(1, 1e4, integer=True, log=True),
        "basis": Range(1, 1e3, integer=True, log=True),
        "anchors": Range(1, 1e4, integer=True, log=True),
    },
    wrong=_once_slack,
)
def twice_slack(width: int, basis: int, anchors: int) -> float:
    """once to twice the printed count

    Without the divisions, operations lie between 1 and 2 times the printed count; p = k width.
    """
    dim = basis * width
    found = embedding.power_iteration(dim=dim, subspace_dim=basis, anchors=anchors, unit="operation").total
    printed = printed_operations(dim, basis, anchors)
    return min(2 * printed / (found - dim * basis) - 1, (found - dim * basis) / printed - 1)
