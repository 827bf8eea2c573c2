"""The privacy statement of a run."""

import importlib.metadata
import math
from collections.abc import Callable
from dataclasses import replace

from dptheory.privacy import Composition, PrivacyStatement, privacy_statement
from dptheory.training.engine._privacy_report import PrivacyReport

_SOFTWARE = ("dptheory", "torch", "opacus", "numpy", "scipy")
_BEFORE = "Gaussian releases of the same records besides the steps"
UNPROTECTED = "none: something is released without noise"


def stated(
    report: PrivacyReport, composition: Callable[[], Composition | None], *, mechanism: str, seeds: tuple[str, ...]
) -> PrivacyStatement:
    """The statement that goes with a report.

    Args:
        report: what the run reports.
        composition: gives its steps; not asked where nothing protects them.
        mechanism: what was run.
        seeds: of a run that is not secure, in words.
    """
    protected = math.isfinite(report.epsilon)
    found = privacy_statement(
        composition=composition() if protected else None,
        delta=report.delta,
        mechanism=mechanism,
        adjacency=report.adjacency,
        public=report.public,
        sampler=f"{report.sampler}, each record in each step with probability {report.sampling_rate:.6g}",
        randomness="; ".join((report.noise, *seeds)),
        secure=report.secure,
        epsilon_if_secure=report.epsilon_if_secure,
        software=tuple(f"{name} {importlib.metadata.version(name)}" for name in _SOFTWARE),
    )
    if not protected:
        return replace(found, steps=report.steps, epsilon=math.inf, accountant=UNPROTECTED)
    found = replace(found, covered=f"{found.covered}; records apart: {report.records_apart}")
    if report.releases:
        found = replace(found, output=f"{_BEFORE}, and {found.output}", covered=f"{_BEFORE}, and {found.covered}")
    return replace(found, steps=report.steps, epsilon=min(found.epsilon, report.epsilon))
