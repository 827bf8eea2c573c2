import math
from fractions import Fraction

from dptheory import embedding
from dptheory._adjacency import Adjacency
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.gep._mechanism import (
    most_concatenated,
    normalised_move,
)

row = new_row(
    id="gep.concat",
    source=Source("gep", "section 4, implementation details"),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds",),
    calculators=(embedding.joint_mu,),
)


@row.equal(("add-remove",), ("replace-one",), tolerance=1e-12)
def _(adjacency: Adjacency) -> Sides:
    """squared sensitivity, by enumeration in fractions"""
    return (
        round(embedding.joint_mu([1.0, 1.0], adjacency=adjacency) ** 2, 12),
        lambda: most_concatenated(adjacency),
        Fraction(1 if adjacency == "add-remove" else 4),
    )


@row.inequality(
    {name: Range(-20, 20) for name in ("w1", "w2", "r1", "r2")}
    | {name: Range(0.01, 20, log=True) for name in ("clip", "residual_clip")},
    # wrong: the longer of the two parts alone
    wrong=lambda **point: 1 - normalised_move(**point),
)
def within_slack(**point: float) -> float:
    """no gradient moves the sum further"""
    return math.sqrt(2) - normalised_move(**point)
