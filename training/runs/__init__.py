"""Training runs: configuration, models and mechanisms built from it, the run itself, checkpoints."""

from training.runs._build import BUILDERS, build_mechanism, build_model, build_optimizer, parameter_groups
from training.runs._checkpoint import CSV, JSON, STATE, metrics
from training.runs._config import OptimizerConfig, RunConfig, from_dict, read_config
from training.runs._plain_dp_sgd import DpSgdSettings, Step, accuracy, dp_sgd, pick_device, sampling_rate
from training.runs._train import Run, prepare, train

__all__ = [
    "BUILDERS",
    "CSV",
    "JSON",
    "STATE",
    "DpSgdSettings",
    "OptimizerConfig",
    "Run",
    "RunConfig",
    "Step",
    "accuracy",
    "build_mechanism",
    "build_model",
    "build_optimizer",
    "dp_sgd",
    "from_dict",
    "metrics",
    "parameter_groups",
    "pick_device",
    "prepare",
    "read_config",
    "sampling_rate",
    "train",
]
