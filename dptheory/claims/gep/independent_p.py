import math
from fractions import Fraction

from dptheory import embedding
from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.gep._noisy_steps import brute_force_risk, excess_at_printed_steps, published_risk

row = new_row(
    id="gep.independent_p",
    source=Source("gep", "section 3.3, after Theorem 3.3"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false",),
    calculators=(embedding.excess_risk, embedding.excess_risk_as_published, embedding.least_risk),
    part_of="gep.thm3.3",
)


@row.equal(lambda: [(q, t) for q in (100, 10**4, 10**8) for t in (1, 3)], kind=Kind.COUNTEREXAMPLE)
def _(q: int, t: int) -> Sides:
    """n and the root of p large at the printed T: does the risk fall like 1/n?"""
    return Fraction(1, 2 * (t + 2)), excess_at_printed_steps(q, t), Fraction(1, t * q)


@row.equal(lambda: [(p, 1.0, 1e-5) for p in (10, 10**4, 10**9)], tolerance=1e-12)
def _(p: int, eps: float, delta: float) -> Sides:
    """at the best T the risk does not see p"""
    return (
        embedding.excess_risk_as_published(
            dim=p,
            subspace_dim=10,
            train_size=50_000,
            smoothness=1.0,
            initial_distance=1.0,
            epsilon=eps,
            delta=delta,
            residual_clip=0.0,
        ).value,
        lambda: published_risk(10, 10, 50_000, 1.0, 1.0, eps, delta, 0.0),
        embedding.least_risk(smoothness=1.0, initial_distance=1.0, steps=max(1, round(50_000 * eps / math.sqrt(p)))),
    )


@row.equal(lambda: [(p, 0.5) for p in (10, 10**4, 10**9)], tolerance=1e-12)
def _(p: int, mu: float) -> Sides:
    """the same at mu-GDP"""
    return (
        embedding.excess_risk(
            dim=p, subspace_dim=10, train_size=300, smoothness=1.0, initial_distance=1.0, mu=mu, residual_clip=0.0
        ).value,
        lambda: brute_force_risk(10, 10, 300, 1.0, 1.0, mu, 0.0),
        math.sqrt(p) / (mu * 300),
    )
