"""How long the gradients of single records are at the start."""

import copy

import torch
from opacus import GradSampleModule
from torch import nn

from dptheory.training._streams import simulation
from dptheory.training.engine import attach
from dptheory.training.mechanisms import DpSgd, sample_norms
from dptheory.training.per_example import as_gradients
from dptheory.training.planning._pilot import Problem

_RECORDS = 256


def hooked(model: nn.Module) -> GradSampleModule:
    """A copy that computes per-sample gradients as a run does, attention adapted.

    Raises:
        ValueError: the engine does not take it.
    """
    network = copy.deepcopy(model).train()
    with simulation():
        private, _ = attach(
            module=network,
            optimizer=torch.optim.SGD([p for p in network.parameters() if p.requires_grad], lr=1.0),
            mechanism=DpSgd(),
            sampling_rate=1.0,
            expected_batch_size=1.0,
            noise_multiplier=0.0,
            max_grad_norm=1.0,
            grad_sample_mode="hooks",
        )
    return private


def median_norm(problem: Problem) -> float:
    """The median over public records of the norm of the loss's gradient, at the starting weights; 1 where that is 0."""
    private = hooked(problem.model)
    features, labels = problem.features[:_RECORDS], problem.labels[:_RECORDS]
    problem.loss(private(features), labels).backward()  # type: ignore[no-untyped-call]
    samples = [
        p.grad_sample for p in private.parameters() if p.requires_grad and getattr(p, "grad_sample", None) is not None
    ]
    norms = sample_norms(as_gradients(samples))
    found = float(norms[torch.isfinite(norms)].median()) if torch.isfinite(norms).any() else 0.0
    return found or 1.0
