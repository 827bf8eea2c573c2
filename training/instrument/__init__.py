"""Instrumented runs: what the papers' figures show of gradients, measured on the way of small trainings."""

from dptheory.training.instrument._quantities import QUANTITIES
from dptheory.training.instrument._record import MEASUREMENTS, measure

__all__ = ["MEASUREMENTS", "QUANTITIES", "measure"]
