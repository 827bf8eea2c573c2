"""From a training setup to the choice: which noise, batch, steps, clip and learning rate, and which method."""

from dptheory.planning._advice import Advice, advice, recommended
from dptheory.planning._answer import plan_training
from dptheory.planning._compare import compare_runs
from dptheory.planning._config import RUN_DATA, RUN_MODELS, config_text
from dptheory.planning._plan import plan
from dptheory.planning._private_statistics import SHARE_PARTS, STATISTICS_RELEASES, PrivateStats
from dptheory.planning._records import (
    Choice,
    Interval,
    MethodForecast,
    MethodResult,
    Part,
    Plan,
    PlannedTraining,
    ReleasedStatistics,
    Rule,
)
from dptheory.planning._report import to_json, to_markdown
from dptheory.planning._setup import TrainingSetup
from dptheory.planning._shipped import shipped_names, shipped_statistics
from dptheory.planning._statistics import (
    GradientStats,
    MethodMoments,
    MomentStats,
    read_statistics,
    statistics_text,
)

__all__ = [
    "RUN_DATA",
    "RUN_MODELS",
    "SHARE_PARTS",
    "STATISTICS_RELEASES",
    "Advice",
    "Choice",
    "GradientStats",
    "Interval",
    "MethodForecast",
    "MethodMoments",
    "MethodResult",
    "MomentStats",
    "Part",
    "Plan",
    "PlannedTraining",
    "PrivateStats",
    "ReleasedStatistics",
    "Rule",
    "TrainingSetup",
    "advice",
    "compare_runs",
    "config_text",
    "plan",
    "plan_training",
    "read_statistics",
    "recommended",
    "shipped_names",
    "shipped_statistics",
    "statistics_text",
    "to_json",
    "to_markdown",
]
