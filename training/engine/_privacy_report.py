"""What a training run reports about its privacy, and its statement."""

import importlib.metadata
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from dptheory._rounding import rounded_up
from dptheory.privacy import Composition, PrivacyStatement, Step, privacy_statement

_SOFTWARE = ("dptheory", "torch", "opacus", "numpy", "scipy")
_BEFORE = "Gaussian releases of the same records besides the steps"
UNPROTECTED = "none: something is released without noise"


ADD_REMOVE, ZERO_OUT = "add-remove", "zero-out"
ADJACENCIES = (ADD_REMOVE, ZERO_OUT)
_NEIGHBOURS = {
    ADD_REMOVE: "data sets that differ by one record, added or removed",
    ZERO_OUT: "data sets of one public size N in which one record is replaced by a null record, whose gradient is zero",
}
SEEDED = "simulation: seeded"
"""Said of masks, batches and noise alike where any of them comes from an ordinary generator."""
SECURE = "the operating system's cryptographic generator"
CALLER = "Poisson, drawn by the caller"
POISSON = "Poisson"
ALLOCATION = "random allocation"
PARTITION = "shuffled passes cut into batches; every example is taken to be in every batch"


@dataclass(frozen=True, kw_only=True)
class PrivacyReport:
    """The guarantee of the steps made so far, and what it rests on.

    Attributes:
        epsilon: upper bound on epsilon of all steps, inf where something leaves unprotected; masks of a seed amplify nothing.
        delta: that it goes with.
        adjacency: which data sets are neighbours: "add-remove" of one record, or "zero-out" (one record replaced by a null
            record, the number of records being public).
        sampler: how batches are drawn.
        sampling_rate: probability with which each record is in the batch of a step.
        steps: made so far.
        noise: where batches, masks and noise come from: the cryptographic generator, or "simulation: seeded".
        secure: whether all of them come from the operating system's cryptographic generator.
        epsilon_if_secure: what epsilon a secure run of the same steps would have; ``epsilon`` itself in a secure run.
        public: what the guarantee takes to be known to everybody.
        releases: of the same records besides the steps, as statistics of private records: epsilon counts them.
        records_apart: whether dry steps saw that no record changes the gradient of another one, or "not probed" and why.
        batches_left_out: drawn in this process by the loader, without a step before a later one's, or before the next pass.

    Example: before its first step an optimizer has spent nothing, and says what will be protected.
        >>> import torch
        >>> from dptheory.training.engine import attach
        >>> from dptheory.training.mechanisms import DpSgd
        >>> model = torch.nn.Linear(3, 2)
        >>> private, optimizer = attach(module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), mechanism=DpSgd(),
        ...     sampling_rate=0.1, expected_batch_size=10, noise_multiplier=1.0, max_grad_norm=1.0)
        >>> report = optimizer.privacy(delta=1e-5)
        >>> print(report.lines()[1])
        Neighbours (add-remove): data sets that differ by one record, added or removed.
        >>> report.epsilon, report.steps, report.noise
        (0.0, 0, 'simulation: seeded')
    """

    epsilon: float
    delta: float
    adjacency: str
    sampler: str
    sampling_rate: float
    steps: int
    noise: str
    secure: bool
    epsilon_if_secure: float
    public: tuple[str, ...]
    releases: tuple[Step, ...] = ()
    records_apart: str = "not probed"
    batches_left_out: int = 0

    def lines(self) -> list[str]:
        """The report in plain English, one sentence per line; epsilon is rounded up."""
        kept = "Keep checkpoints secret: they hold losses and counts that nothing protects."
        if self.secure:
            source = f"Batches, masks and noise come from {SECURE}. {kept}"
        else:
            source = (
                f"{SEEDED[0].upper()}{SEEDED[1:]}. Batches, masks and noise come from ordinary generators: epsilon holds "
                "only against somebody who knows neither the batches nor the noise, and masks do not amplify it. A secure run "
                f"of the same steps has epsilon = {rounded_up(self.epsilon_if_secure, 6)}."
            )
        counted = [
            f"Counted with the steps: {one.count} Gaussian releases of the same records, noise multiplier "
            f"{one.noise_multiplier:.6g}, sampling rate {one.sampling_rate:g}."
            for one in self.releases
        ]
        # Noise is due for every batch: a loop that leaves out the empty ones shows by its steps how many records there are.
        said = (
            f"Batches drawn without a step: {self.batches_left_out}. Epsilon does not hold where they were left out for what is in "
            "them, as empty ones are."
        )
        left_out = [said] if self.batches_left_out else []
        return [
            f"epsilon = {rounded_up(self.epsilon, 6)} at delta = {self.delta:g} after {self.steps} steps.",
            *counted,
            f"Neighbours ({self.adjacency}): {_NEIGHBOURS[self.adjacency]}.",
            f"Sampling: {_drawn(self)}.",
            source,
            f"Public: {', '.join(self.public)}.",
            f"Records apart, as epsilon needs them: {self.records_apart}.",
            *left_out,
        ]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def allocated(steps_per_epoch: int, participations: int) -> str:
    """Random allocation in words."""
    times = "1 step" if participations == 1 else f"{participations} steps"
    return f"{ALLOCATION}, each record in exactly {times} of the {steps_per_epoch} of an epoch"


def _drawn(report: PrivacyReport) -> str:
    if report.sampler.startswith(ALLOCATION):
        return f"{report.sampler}; an epoch that was begun counts as a whole one"
    return f"{report.sampler}, each record in each step with probability {report.sampling_rate:.6g}"


def stated(
    report: PrivacyReport, composition: Callable[[], Composition | None], *, mechanism: str, seeds: tuple[str, ...]
) -> PrivacyStatement:
    """The statement that goes with a report; where nothing protects the steps, their composition is not asked for."""
    protected = math.isfinite(report.epsilon)
    found = privacy_statement(
        composition=composition() if protected else None,
        delta=report.delta,
        mechanism=mechanism,
        adjacency=report.adjacency,
        public=report.public,
        sampler=_drawn(report),
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
