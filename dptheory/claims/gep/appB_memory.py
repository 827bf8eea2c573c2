"""gep.appB.memory: memory of the anchor subspace."""

from dptheory import embedding
from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict
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


row = Row(
    Claim(
        id="gep.appB.memory",
        title="memory of the anchor subspace",
        source=Source("gep", "Appendix B, Table 4"),
        statement=r"Beyond the $n$ private gradients GEP stores $\max(0,(m-n+k)p+mk)$ floating-point numbers; with $g$ "
        r"groups $\max(0,(m-n+k/g)p+mk)$.",
        verdict=Verdict.CONDITIONAL,
        kernel="gep/appB_memory.v",
        kernel_theorems=("printed_holds", "reading_is_false", "correction_holds"),
        summary=r"right for all of GEP if and only if $m\ge n$; where there are more private than anchor gradients, the "
        "basis and the embeddings still have to be held beside the private gradients.",
        conditions=(
            r'Unstated: $m\ge n$, if "the additional costs of GEP" are meant, as the sentence that introduces Table 4 '
            'says. Appendix B\'s first sentence has the costs of "the construction of anchor subspace" and the caption '
            "those of a single power iteration: read so, of the first stage alone, the printed value is "
            "right for all $m$, $n$ (step 1).",
            "Counted: Algorithm 1 is carried out with whole matrices. The private gradients are computed after the "
            "anchor gradients are deleted (line 8). If they are there from the start, as the algorithm's list of "
            "inputs has it, the first stage takes $(m+k/g)p+mk$ beyond them, and this is the larger of the two "
            r"stages whenever $mp+mk\ge nk$.",
            "Counted: what can be in place is: $A^TG$ replaces the basis, orthogonalisation and clipping overwrite, "
            "the residual replaces the private gradients. Single numbers and rows are not counted.",
            "Counted: the $A$ of every group is held, as in the printed $mk$. If one group follows the other, "
            "$mk/g$ is enough in the first stage. If embeddings are clipped and summed row by row, $k$ is enough "
            "for $nk$ in the second. Even so the basis is there: at least $kp/g$ in all.",
        ),
        correction=r"""$$\max\Big(\big(m-n+\tfrac kg\big)p+mk,\thickspace\frac{kp}g+nk\Big) = \frac{kp}g+\max(m,n)k+\max(m-n,0)p .$$

The basis and the embeddings are still there when the private gradients are. The printed value is right if and only if $m\ge n$.""",
        printed=printed_extra_floats,
        calculators=(embedding.extra_floats,),
        proved=True,
    )
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
