"""Training runs, from configuration to checkpoint."""

from dptheory.training.runs._build import (
    BUILDERS,
    Auxiliary,
    MechanismSetting,
    build_mechanism,
    parameter_groups,
)
from dptheory.training.runs._checkpoint import (
    CSV,
    JSON,
    STATE,
    STATEMENT,
    STATEMENT_JSON,
    WEIGHTS,
    metrics,
    write_statement,
    write_weights,
)
from dptheory.training.runs._config import OptimizerConfig, RunConfig, from_dict, read_config
from dptheory.training.runs._own import own_network, own_records
from dptheory.training.runs._plain_dp_sgd import DpSgdSettings, accuracy, pick_device, sampling_rate
from dptheory.training.runs._prepare import Run, build_model, build_optimizer, images_of, prepare
from dptheory.training.runs._train import one_step, pooled_channels_last, train

__all__ = [
    "BUILDERS",
    "CSV",
    "JSON",
    "STATE",
    "STATEMENT",
    "STATEMENT_JSON",
    "WEIGHTS",
    "Auxiliary",
    "DpSgdSettings",
    "MechanismSetting",
    "OptimizerConfig",
    "Run",
    "RunConfig",
    "accuracy",
    "build_mechanism",
    "build_model",
    "build_optimizer",
    "from_dict",
    "images_of",
    "metrics",
    "one_step",
    "own_network",
    "own_records",
    "parameter_groups",
    "pick_device",
    "pooled_channels_last",
    "prepare",
    "read_config",
    "sampling_rate",
    "train",
    "write_statement",
    "write_weights",
]
