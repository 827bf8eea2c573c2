"""``make_private``, ``PrivacyEngine``: the optimizer that runs a mechanism, its noise and sampling, and what is spent."""

from dptheory.training.engine._accountant import BudgetError, PrivacyAccountant
from dptheory.training.engine._check_rows_apart import check_rows_apart
from dptheory.training.engine._distributed import (
    DistributedMechanismOptimizer,
    active,
    communicating,
    first,
    place,
    process_group,
    summed,
)
from dptheory.training.engine._noise import generator_noise, secure_noise
from dptheory.training.engine._optimizer import MechanismOptimizer
from dptheory.training.engine._privacy_engine import PrivacyEngine, make_private_with_epsilon
from dptheory.training.engine._privacy_report import (
    ADD_REMOVE,
    ADJACENCIES,
    CALLER,
    POISSON,
    SECURE,
    SEEDED,
    ZERO_OUT,
    PrivacyReport,
)
from dptheory.training.engine._private import GRAD_SAMPLE_MODES, attach, make_private
from dptheory.training.engine._sampling import (
    AllocatedBatches,
    Batches,
    GeneratorBatches,
    PartitionBatches,
    PoissonBatches,
    PoissonSampler,
    SecureBatches,
)

__all__ = [
    "ADD_REMOVE",
    "ADJACENCIES",
    "CALLER",
    "GRAD_SAMPLE_MODES",
    "POISSON",
    "SECURE",
    "SEEDED",
    "ZERO_OUT",
    "AllocatedBatches",
    "Batches",
    "BudgetError",
    "DistributedMechanismOptimizer",
    "GeneratorBatches",
    "MechanismOptimizer",
    "PartitionBatches",
    "PoissonBatches",
    "PoissonSampler",
    "PrivacyAccountant",
    "PrivacyEngine",
    "PrivacyReport",
    "SecureBatches",
    "active",
    "attach",
    "check_rows_apart",
    "communicating",
    "first",
    "generator_noise",
    "make_private",
    "make_private_with_epsilon",
    "place",
    "process_group",
    "secure_noise",
    "summed",
]
