"""How long the gradients of single records are at the start."""

import copy

import torch

from dptheory.training.engine._attention import adapt_attention
from dptheory.training.mechanisms import sample_norms
from dptheory.training.per_example import HookedModule, as_gradients
from dptheory.training.planning._pilot import Problem

_RECORDS = 256


def median_norm(problem: Problem) -> float:
    """The median over public records of the norm of the loss's gradient, at the starting weights; 1 where that is 0."""
    network = copy.deepcopy(problem.model).train()
    adapt_attention(network)
    private = HookedModule(network, mode="hooks")
    features, labels = problem.features[:_RECORDS], problem.labels[:_RECORDS]
    problem.loss(private(features), labels).backward()  # type: ignore[no-untyped-call]
    samples = [
        p.grad_sample for p in private.parameters() if p.requires_grad and getattr(p, "grad_sample", None) is not None
    ]
    norms = sample_norms(as_gradients(samples))
    found = float(norms[torch.isfinite(norms)].median()) if torch.isfinite(norms).any() else 0.0
    return found or 1.0
