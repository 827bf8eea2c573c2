from dptheory import embedding
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.gep import _counted


def printed_extra_floats(dim: int, basis: int, anchors: int, gradients: int, groups: int = 1) -> int:
    """max(0, (m - n + k / g) p + m k) of Table 4, for g that divides k."""
    return max(0, (anchors - gradients + basis // groups) * dim + anchors * basis)


def _held_floats(dim: int, basis: int, anchors: int, gradients: int, groups: int) -> int:
    """Most numbers held beyond the private gradients, stage by stage."""
    bases = sum((dim // groups) * (basis // groups) for _ in range(groups))
    finding = anchors * dim + bases + anchors * basis
    releasing = gradients * dim + bases + gradients * basis
    return max(finding, releasing) - gradients * dim


row = new_row(
    id="gep.appB.memory",
    source=Source("gep", "Appendix B, Table 4"),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds", "reading_is_false", "correction_holds"),
    printed=printed_extra_floats,
    calculators=(embedding.extra_floats,),
)


def _stated_floats(dim: int, basis: int, anchors: int, gradients: int, groups: int) -> float:
    return embedding.extra_floats(dim=dim, subspace_dim=basis, anchors=anchors, gradient_count=gradients, groups=groups)


@row.equal((6, 2, 1, 4, 1), (12, 3, 5, 6, 3), (270_000, 1000, 2000, 1000, 1), (270_000, 1000, 500, 1000, 5))
def _(dim: int, basis: int, anchors: int, gradients: int, groups: int) -> Sides:
    """numbers held, stage by stage"""
    held = _held_floats(dim, basis, anchors, gradients, groups)
    return (
        _stated_floats(dim, basis, anchors, gradients, groups),
        held,
        held + 1,
    )


@row.equal((2, 1, 1, 2, 1), (6, 2, 1, 4, 1), (6, 2, 3, 9, 2), (12, 3, 5, 6, 3), kind=Kind.COUNTEREXAMPLE)
def _(dim: int, basis: int, anchors: int, gradients: int, groups: int) -> tuple[float, float]:
    """fewer anchor gradients than private ones"""
    sizes = dim, basis, anchors, gradients, groups
    return _stated_floats(*sizes), _counted.held(*sizes)


@row.equal(
    lambda: [
        (dim, basis, anchors, gradients, groups)
        for dim, basis, groups in ((4, 2, 1), (4, 2, 2), (12, 6, 3))
        for anchors in (1, 3, 8)
        for gradients in (1, 3, 4, 20)
    ]
)
def _(dim: int, basis: int, anchors: int, gradients: int, groups: int) -> Sides:
    """the printed value is right for m >= n and for no other"""
    sizes = dim, basis, anchors, gradients, groups
    return (
        printed_extra_floats(*sizes) == _stated_floats(*sizes),
        printed_extra_floats(*sizes) == _counted.held(*sizes),
        anchors + basis // groups >= gradients,
    )
