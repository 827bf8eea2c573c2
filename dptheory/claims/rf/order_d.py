import math

from dptheory import gradients
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

row = new_row(
    id="rf.order_d",
    source=Source("rf", "section 1, after equation 3"),
    verdict=Verdict.CONDITIONAL,
    calculators=(gradients.clipped_gradient_mse,),
)


def _error(dim: int, norm: float) -> float:
    """The error of the clipped and noisy gradient (norm, 0, ..., 0), C = sigma C / B = 1: entry by entry."""
    clipped = min(norm, 1.0)
    return (norm - clipped) ** 2 + sum(1.0 for _ in range(dim))


@row.equal((16, 16.0), (16, 4.0), (400, 20.0), (10, 0.5), tolerance=1e-12, kind=Kind.COUNTEREXAMPLE)
def _(dim: int, norm: float) -> Sides:
    """the error, against that of a gradient of norm sqrt d"""
    found = gradients.clipped_gradient_mse(
        grad_norm=norm, dim=dim, deviation=0.0, clip_norm=1.0, noise_multiplier=1.0, batch_size=1, drop_rate=0.5
    )
    return found.full.mse, lambda: _error(dim, norm), _error(dim, math.sqrt(dim)) if norm > math.sqrt(dim) else 0.0
