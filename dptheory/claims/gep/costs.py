"""GEP: operations and memory."""

from dptheory import embedding
from dptheory.checks import ExactCheck, Kind, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.gep import _counted, _subspace_at_scale

# --- gep.appB.compute -------------------------------------------------------------------------------------------------


def printed_operations(dim: int, basis: int, anchors: int, groups: int = 1) -> int:
    """2 m k p / g + p k^2 / g^2 of Table 4, for g that divides p and k."""
    return (2 * anchors * basis * dim + dim * basis * (basis // groups)) // groups


_SIZES = tuple(
    (dim, basis, anchors, groups)
    for dim, basis, anchors, groups in ((1, 1, 1, 1), (12, 1, 3, 1), (12, 3, 5, 1), (20, 4, 7, 1), (24, 6, 5, 2), (24, 6, 5, 3), (40, 8, 9, 4))
)  # fmt: skip


def _multiply_adds(dim: int, basis: int, anchors: int, groups: int) -> int:
    found = embedding.power_iteration(dim, basis, anchors, groups)
    return found.products + found.orthogonalisation


def _twice_slack(width: int, basis: int, anchors: int) -> float:
    """Without the divisions, operations lie between 1 and 2 times the printed count; p = k width."""
    dim = basis * width
    found = embedding.power_iteration(dim, basis, anchors, unit="operation").total
    printed = printed_operations(dim, basis, anchors)
    return min(2 * printed / (found - dim * basis) - 1, (found - dim * basis) / printed - 1)


def _once_slack(width: int, basis: int, anchors: int) -> float:
    """Wrong statement: the printed count bounds the operations."""
    dim = basis * width
    return (
        printed_operations(dim, basis, anchors) / embedding.power_iteration(dim, basis, anchors, unit="operation").total
        - 1
    )


_COMPUTE = Claim(
    id="gep.appB.compute",
    title="operations of a power iteration",
    source=Source("gep", "Appendix B, Table 4, section 3.1"),
    statement=r"One power iteration costs $2mkp+pk^2$ floating-point operations, $2mkp/g+pk^2/g^2$ with $g$ equal groups.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "a product and its addition count as one operation; Table 4 says floating-point operations, of which there are twice as many",
        "orthogonalisation by Gram-Schmidt; plain matrix products",
        "g divides p and k; normalising the rows (kp/g divisions, k roots) is left out",
    ),
    correction=r"$2mkp/g+pk^2/g^2$ multiply-adds exactly. Floating-point operations: $4mkp/g+2pk^2/g^2$ less $mk+kp/g+\frac k2(\frac kg+1)$, plus $kp/g$ divisions.",
    printed=printed_operations,
    calculators=(embedding.power_iteration,),
    checks=(
        *_subspace_at_scale.COMPUTE,
        ExactCheck(
            name="multiply-adds, counted one by one",
            cases=lambda: _SIZES,
            truth=lambda *sizes: _counted.counted(*sizes)[0],
            statement=_multiply_adds,
            wrong=lambda dim, basis, anchors, groups: 2 * anchors * basis * dim // groups + dim * basis**2 // groups,
        ),
        ExactCheck(
            name="floating-point operations, counted one by one",
            cases=lambda: _SIZES,
            truth=lambda *sizes: _counted.counted(*sizes)[1],
            statement=lambda dim, basis, anchors, groups: (
                embedding.power_iteration(dim, basis, anchors, groups, "operation").total
            ),
            wrong=printed_operations,
            kind=Kind.COUNTEREXAMPLE,
        ),
        SearchCheck(
            name="once to twice the printed count",
            box={
                "width": Range(1, 1e4, integer=True, log=True),
                "basis": Range(1, 1e3, integer=True, log=True),
                "anchors": Range(1, 1e4, integer=True, log=True),
            },
            slack=_twice_slack,
            wrong=_once_slack,
        ),
    ),
    proved=True,
)

# --- gep.appB.memory --------------------------------------------------------------------------------------------------


def printed_extra_floats(dim: int, basis: int, anchors: int, gradients: int, groups: int = 1) -> int:
    """max(0, (m - n + k / g) p + m k) of Table 4, for g that divides k."""
    return max(0, (anchors - gradients + basis // groups) * dim + anchors * basis)


_MEMORY = Claim(
    id="gep.appB.memory",
    title="memory of the anchor subspace",
    source=Source("gep", "Appendix B, Table 4"),
    statement=r"GEP stores $\max(0,(m-n+k)p+mk)$ more floating-point numbers than gradient perturbation; $\max(0,(m-n+k/g)p+mk)$ with $g$ equal groups.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "m >= n; for m < n it counts the power iteration alone, as the caption of Table 4 has it, not all of GEP",
        "Algorithm 1 with whole matrices: the private gradients come after the anchor gradients are deleted, what can be in place is, and the A of every group is held",
    ),
    correction=r"$\max((m-n+k/g)p+mk,\;kp/g+nk) = kp/g+\max(m,n)k+\max(m-n,0)p$: the basis and the embeddings are still there when the private gradients are. "
    r"The printed value is right if and only if $m\ge n$.",
    printed=printed_extra_floats,
    calculators=(embedding.extra_floats,),
    checks=(
        *_subspace_at_scale.MEMORY,
        ExactCheck(
            name="fewer anchor gradients than private ones",
            cases=lambda: [(2, 1, 1, 2, 1), (6, 2, 1, 4, 1), (6, 2, 3, 9, 2), (12, 3, 5, 6, 3)],
            truth=_counted.held,
            statement=lambda *sizes: embedding.extra_floats(*sizes),
            wrong=printed_extra_floats,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="the printed value is right for m >= n and for no other",
            cases=lambda: [
                (dim, basis, anchors, gradients, groups)
                for dim, basis, groups in ((4, 2, 1), (4, 2, 2), (12, 6, 3))
                for anchors in (1, 3, 8)
                for gradients in (1, 3, 4, 20)
            ],
            truth=lambda *sizes: printed_extra_floats(*sizes) == _counted.held(*sizes),
            statement=lambda *sizes: printed_extra_floats(*sizes) == embedding.extra_floats(*sizes),
            wrong=lambda dim, basis, anchors, gradients, groups: anchors + basis // groups >= gradients,
        ),
    ),
    proved=True,
)

CLAIMS = (_COMPUTE, _MEMORY)
