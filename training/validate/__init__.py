"""Predicted against measured: the theory's numbers beside those of a short DP-SGD run on real images."""

from dptheory.training.validate._figure import write_figure
from dptheory.training.validate._linear_attack import LinearGradient, attack, linear_attack, linear_gradient
from dptheory.training.validate._report import row_table, summary, to_dict, write_json
from dptheory.training.validate._rows import Row
from dptheory.training.validate._run import Moment, Validation, validate, validate_images
from dptheory.training.validate._settings import ValidateSettings
from dptheory.training.validate._snapshot import Snapshot, prepare, snapshots

__all__ = [
    "LinearGradient",
    "Moment",
    "Row",
    "Snapshot",
    "ValidateSettings",
    "Validation",
    "attack",
    "linear_attack",
    "linear_gradient",
    "prepare",
    "row_table",
    "snapshots",
    "summary",
    "to_dict",
    "validate",
    "validate_images",
    "write_figure",
    "write_json",
]
