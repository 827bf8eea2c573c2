"""A short DP-SGD run whose gradients are recorded and held against the theory of pruning."""

from dptheory.training.probe._figure import write_figure
from dptheory.training.probe._measure import measure
from dptheory.training.probe._measurement import EXACT, GAUSSIAN, Fit, Measurement, MeasureSettings, Row
from dptheory.training.probe._probe import DATA, ProbeResult, Record, run_probe, spread_steps
from dptheory.training.probe._report import fit_table, row_table, to_dict, write_gradients, write_json

__all__ = [
    "DATA",
    "EXACT",
    "GAUSSIAN",
    "Fit",
    "MeasureSettings",
    "Measurement",
    "ProbeResult",
    "Record",
    "Row",
    "fit_table",
    "measure",
    "row_table",
    "run_probe",
    "spread_steps",
    "to_dict",
    "write_figure",
    "write_gradients",
    "write_json",
]
