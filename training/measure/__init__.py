"""What is measured on gradients: predicted against measured on short DP-SGD runs, and what the papers' figures show."""

from dptheory.training.measure._gradient import measure_gradient
from dptheory.training.measure._instrument import QUANTITIES, measure_instrument
from dptheory.training.measure._linear_attack import LinearGradient, attack
from dptheory.training.measure._measurements import MEASUREMENTS
from dptheory.training.measure._report import (
    row_table,
    summary,
    to_dict,
    write_figure,
    write_json,
)
from dptheory.training.measure._rows import (
    GAUSSIAN,
    NONE,
    MeasureSettings,
    Moment,
    Result,
    Row,
    ValidateSettings,
)
from dptheory.training.measure._snapshot import Snapshot, prepare, snapshots
from dptheory.training.measure._validation import DATA, validate, validate_images

__all__ = [
    "DATA",
    "GAUSSIAN",
    "MEASUREMENTS",
    "NONE",
    "QUANTITIES",
    "LinearGradient",
    "MeasureSettings",
    "Moment",
    "Result",
    "Row",
    "Snapshot",
    "ValidateSettings",
    "attack",
    "measure_gradient",
    "measure_instrument",
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
