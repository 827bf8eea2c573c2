"""What theory alone proposes for a training: batch size, passes and steps, each at the exact noise that a budget asks for.

This is not enough to train with: it says nothing of clip, learning rate or accuracy. ``dptheory.training.plan`` runs pilots of
one's own network, which decide.
"""

from dptheory.planning._candidates import Candidate, candidates

__all__ = ["Candidate", "candidates"]
