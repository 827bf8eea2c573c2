"""Training runs, from configuration to checkpoint, and sweeps of studies with their answers."""

from dptheory.training.runs._build import (
    BUILDERS,
    Auxiliary,
    MechanismSetting,
    build_mechanism,
    parameter_groups,
)
from dptheory.training.runs._checkpoint import CSV, JSON, STATE, STATEMENT, STATEMENT_JSON, metrics, write_statement
from dptheory.training.runs._comparisons import ComparisonResult, compare
from dptheory.training.runs._config import OptimizerConfig, RunConfig, from_dict, read_config
from dptheory.training.runs._instruments import Instrument, Measuring, read_instrument
from dptheory.training.runs._measured import write_measured
from dptheory.training.runs._model import build_model, build_optimizer
from dptheory.training.runs._own import own_network, own_records
from dptheory.training.runs._plain_dp_sgd import DpSgdSettings, Step, accuracy, dp_sgd, pick_device, sampling_rate
from dptheory.training.runs._prepare import Run, images_of, prepare
from dptheory.training.runs._progress import Lines
from dptheory.training.runs._rerun import Rerun, rerun, seconds_taken
from dptheory.training.runs._results import code_that_counts
from dptheory.training.runs._results_page import write_answers
from dptheory.training.runs._statistics import Difference, Equivalence, equivalence, paired_difference, sign_flip_p
from dptheory.training.runs._status import show
from dptheory.training.runs._study import Study, read_study, study_from_dict
from dptheory.training.runs._sweep import Outcome, Places, Standing, standing, sweep
from dptheory.training.runs._train import one_step, train

__all__ = [
    "BUILDERS",
    "CSV",
    "JSON",
    "STATE",
    "STATEMENT",
    "STATEMENT_JSON",
    "Auxiliary",
    "ComparisonResult",
    "Difference",
    "DpSgdSettings",
    "Equivalence",
    "Instrument",
    "Lines",
    "Measuring",
    "MechanismSetting",
    "OptimizerConfig",
    "Outcome",
    "Places",
    "Rerun",
    "Run",
    "RunConfig",
    "Standing",
    "Step",
    "Study",
    "accuracy",
    "build_mechanism",
    "build_model",
    "build_optimizer",
    "code_that_counts",
    "compare",
    "dp_sgd",
    "equivalence",
    "from_dict",
    "images_of",
    "metrics",
    "one_step",
    "own_network",
    "own_records",
    "paired_difference",
    "parameter_groups",
    "pick_device",
    "prepare",
    "read_config",
    "read_instrument",
    "read_study",
    "rerun",
    "sampling_rate",
    "seconds_taken",
    "show",
    "sign_flip_p",
    "standing",
    "study_from_dict",
    "sweep",
    "train",
    "write_answers",
    "write_measured",
    "write_statement",
]
