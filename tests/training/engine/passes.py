"""A pass over the data as a user writes it."""

from torch import nn

from dptheory.training.engine import MechanismOptimizer


def epoch(made) -> MechanismOptimizer:
    """One pass of what ``make_private`` returned: model, optimizer, loader."""
    model, optimizer, loader = made
    for features, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(features), labels).backward()
        optimizer.step()
    return optimizer
