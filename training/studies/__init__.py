"""Studies: questions with their runs in paired seeds, sweeps that make them, and what the results answer."""

from dptheory.training.studies._comparisons import ComparisonResult, compare
from dptheory.training.studies._instruments import Instrument, Measuring, read_instrument
from dptheory.training.studies._measured import write_measured
from dptheory.training.studies._progress import Lines, show
from dptheory.training.studies._rerun import Rerun, rerun, seconds_taken
from dptheory.training.studies._results import code_that_counts
from dptheory.training.studies._results_page import write_answers
from dptheory.training.studies._statistics import Difference, Equivalence, equivalence, paired_difference, sign_flip_p
from dptheory.training.studies._study import Study, read_study, study_from_dict
from dptheory.training.studies._sweep import Outcome, Places, Standing, standing, sweep

__all__ = [
    "ComparisonResult",
    "Difference",
    "Equivalence",
    "Instrument",
    "Lines",
    "Measuring",
    "Outcome",
    "Places",
    "Rerun",
    "Standing",
    "Study",
    "code_that_counts",
    "compare",
    "equivalence",
    "paired_difference",
    "read_instrument",
    "read_study",
    "rerun",
    "seconds_taken",
    "show",
    "sign_flip_p",
    "standing",
    "study_from_dict",
    "sweep",
    "write_answers",
    "write_measured",
]
