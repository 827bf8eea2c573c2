"""What is measured on gradients: predicted against measured on short DP-SGD runs, and what the papers' figures show."""

from dptheory.training.measure._instrument import measure_instrument
from dptheory.training.measure._linear_attack import LinearGradient, attack, linear_attack, linear_gradient
from dptheory.training.measure._measurements import MEASUREMENTS
from dptheory.training.measure._probe import DATA, measure_gradient, run_probe, spread_steps
from dptheory.training.measure._quantities import QUANTITIES
from dptheory.training.measure._report import (
    fit_table,
    row_table,
    summary,
    to_dict,
    write_figure,
    write_gradients,
    write_json,
)
from dptheory.training.measure._rows import (
    GAUSSIAN,
    NONE,
    Fit,
    MeasureSettings,
    Moment,
    ProbeSettings,
    Result,
    Row,
    ValidateSettings,
)
from dptheory.training.measure._snapshot import Snapshot, prepare, snapshots
from dptheory.training.measure._validation import validate, validate_images

__all__ = [
    "DATA",
    "GAUSSIAN",
    "MEASUREMENTS",
    "NONE",
    "QUANTITIES",
    "Fit",
    "LinearGradient",
    "MeasureSettings",
    "Moment",
    "ProbeSettings",
    "Result",
    "Row",
    "Snapshot",
    "ValidateSettings",
    "attack",
    "fit_table",
    "linear_attack",
    "linear_gradient",
    "measure_gradient",
    "measure_instrument",
    "prepare",
    "row_table",
    "run_probe",
    "snapshots",
    "spread_steps",
    "summary",
    "to_dict",
    "validate",
    "validate_images",
    "write_figure",
    "write_gradients",
    "write_json",
]
