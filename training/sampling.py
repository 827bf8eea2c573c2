"""Poisson batches that depend on seed and step alone, so that a run resumes anywhere and on any number of processes."""

from dataclasses import dataclass

import numpy as np
import torch

from dptheory import _validate


@dataclass(frozen=True)
class PoissonBatches:
    """Every example is in the batch of a step with probability ``rate``, independently.

    Args:
        examples: number of training examples, >= 1.
        rate: in (0, 1].
        seed: >= 0.
    """

    examples: int
    rate: float
    seed: int

    def __post_init__(self) -> None:
        _validate.integer("examples", self.examples, 1)
        _validate.real("rate", self.rate, 0.0, 1.0, ends="(]")
        _validate.integer("seed", self.seed, 0)

    def batch(self, step: int, part: int = 0, parts: int = 1) -> torch.Tensor:
        """Indices of the batch of a step, ascending; of ``parts`` processes, the one numbered ``part`` gets every parts-th."""
        rng = np.random.default_rng(np.random.SeedSequence((self.seed, _validate.integer("step", step, 0))))
        drawn = np.flatnonzero(rng.random(self.examples) < self.rate)
        return torch.from_numpy(drawn[part::parts])
