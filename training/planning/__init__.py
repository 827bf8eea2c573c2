"""What to train with: ``plan`` decides by short trainings on public records, at the noise that a budget asks for."""

from dptheory.training.planning._choice import Choice, MethodGain, PrivateTuning
from dptheory.training.planning._plan import plan
from dptheory.training.planning._point import Point, Range
from dptheory.training.planning._public import Shipped, Synthetic
from dptheory.training.planning._search import Effort

__all__ = ["Choice", "Effort", "MethodGain", "Point", "PrivateTuning", "Range", "Shipped", "Synthetic", "plan"]
