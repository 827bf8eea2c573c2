"""Poisson batches, in parts for several processes."""

import os
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from dptheory import _validate

_BITS = 53


class Batches(Protocol):
    """The batch of every step, 0, 1, ..."""

    def batch(self, step: int, part: int = 0, parts: int = 1) -> torch.Tensor:
        """Indices of the batch of a step, ascending; of ``parts`` processes, the one numbered ``part`` gets its part."""
        ...


@dataclass(frozen=True)
class PoissonBatches:
    """Every example is in the batch of a step with probability ``rate``, independently.

    Batches depend on seed and step alone, so that a run resumes anywhere and on any number of processes.

    Args:
        examples: number of training examples, >= 1.
        rate: in (0, 1].
        seed: >= 0; who knows it knows the batches, and sampling hides nothing from him.
    """

    examples: int
    rate: float
    seed: int

    def __post_init__(self) -> None:
        _validate.integer("seed", self.seed, 0)
        _check(self.examples, self.rate)

    def batch(self, step: int, part: int = 0, parts: int = 1) -> torch.Tensor:
        """Indices of the batch of a step, ascending; of ``parts`` processes, the one numbered ``part`` gets every parts-th."""
        rng = np.random.default_rng(np.random.SeedSequence((self.seed, _validate.integer("step", step, 0))))
        drawn = np.flatnonzero(rng.random(self.examples) < self.rate)
        return torch.from_numpy(drawn[_validate.integer("part", part, 0, parts - 1) :: parts])


@dataclass(frozen=True)
class SecureBatches:
    """The same law from the operating system's cryptographic generator: nobody can tell the batches, which never repeat.

    Each process draws from its own share of the examples.

    Args:
        examples: number of training examples of all processes, >= 1.
        rate: in (0, 1].
    """

    examples: int
    rate: float

    def __post_init__(self) -> None:
        _check(self.examples, self.rate)

    def batch(self, step: int, part: int = 0, parts: int = 1) -> torch.Tensor:
        """Indices, ascending, of a batch of examples part, part + parts, part + 2 parts, ...; another one at every call."""
        own = np.arange(_validate.integer("part", part, 0, parts - 1), self.examples, parts)
        bits = np.frombuffer(os.urandom(8 * len(own)), dtype=np.uint64) >> np.uint64(64 - _BITS)
        return torch.from_numpy(own[bits * 2.0**-_BITS < self.rate])


def _check(examples: int, rate: float) -> None:
    _validate.integer("examples", examples, 1)
    _validate.real("rate", rate, 0.0, 1.0, ends="(]")
