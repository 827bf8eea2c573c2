"""From a training setup to the choice: which noise, batch, steps, clip and learning rate, and which method."""

from dptheory.planning._plan import plan
from dptheory.planning._records import Choice, Interval, MethodForecast, Part, Plan, Rule
from dptheory.planning._setup import TrainingSetup
from dptheory.planning._statistics import (
    GradientStats,
    MethodMoments,
    MomentStats,
    read_statistics,
    write_statistics,
)

__all__ = [
    "Choice",
    "GradientStats",
    "Interval",
    "MethodForecast",
    "MethodMoments",
    "MomentStats",
    "Part",
    "Plan",
    "Rule",
    "TrainingSetup",
    "plan",
    "read_statistics",
    "write_statistics",
]
