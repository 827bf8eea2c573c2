"""What is asked about steps that are alike: checked arguments."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from dptheory import _validate
from dptheory._adjacency import ADJACENCIES
from dptheory.privacy._bounds import DIRECTIONS, MAX_STEPS, NOISE, RATE, valid_delta
from dptheory.privacy._parts import Step
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.saddle._brackets import Composition, SampledGaussian
from dptheory.privacy.methods.saddle._moments import Direction

SAMPLINGS = ("poisson", "without replacement")


@dataclass(frozen=True, kw_only=True)
class Run:
    """Checked arguments: what is released, and which neighbours are told apart."""

    noise_multiplier: float
    sampling_rate: float
    steps: int
    adjacency: str
    sampling: str
    direction: str

    @property
    def shift(self) -> float:
        """What one record changes, in standard deviations of the noise."""
        return (2.0 if self.adjacency == "replace-one" else 1.0) / self.noise_multiplier

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The one that mostly gives the larger epsilon first."""
        if self.adjacency == "replace-one" and self.sampling == "poisson":
            return ("replace",)
        if self.direction == "worst":
            return ("remove", "add")
        return ("add",) if self.direction == "add" else ("remove",)

    @property
    def composition(self) -> Composition:
        """The run as the integral takes it.

        In a batch of a fixed size all other records may be what replaces the record, or what is replaced: it then adds or
        removes twice the clip.
        """
        sigma = self.noise_multiplier if self.sampling == "poisson" else self.noise_multiplier / 2
        return (SampledGaussian(noise_multiplier=sigma, sampling_rate=self.sampling_rate, count=self.steps),)

    def loss(self, direction: Direction) -> Loss:
        """Of one step."""
        (step,) = self.composition
        return Loss(direction, step.noise_multiplier, step.sampling_rate)


@dataclass(frozen=True, kw_only=True)
class Mechanism(Run):
    """A run, and the delta at which its epsilon is wanted."""

    delta: float

    @property
    def run(self) -> Run:
        return Run(**{field.name: getattr(self, field.name) for field in fields(Run)})


def checked_run(
    noise_multiplier: float, sampling_rate: float, steps: int, adjacency: str, sampling: str, direction: str
) -> Run:
    with _saying_what_holds(noise_multiplier, sampling_rate, steps):
        noise_multiplier = _validate.real("noise_multiplier", noise_multiplier, *NOISE)
        sampling_rate = _validate.real("sampling_rate", sampling_rate, *RATE)
        steps = _validate.integer("steps", steps, 1, MAX_STEPS)
    asked = Run(
        noise_multiplier=noise_multiplier,
        sampling_rate=sampling_rate,
        steps=steps,
        adjacency=_validate.choice("adjacency", adjacency, ADJACENCIES),
        sampling=_validate.choice("sampling", sampling, SAMPLINGS),
        direction=_validate.choice("direction", direction, DIRECTIONS),
    )
    if sampling == "without replacement" and adjacency != "replace-one":
        raise ValueError(
            "adjacency must be 'replace-one' for sampling 'without replacement' (a batch of a fixed size is not defined on "
            f"neighbours of different sizes), got {adjacency!r}; or use sampling 'poisson'"
        )
    if adjacency == "replace-one" and direction != "worst":
        raise ValueError(
            f"direction must be 'worst' for adjacency 'replace-one', which is symmetric, got {direction!r}"
        )
    return asked


@contextmanager
def _saying_what_holds(noise_multiplier: float, sampling_rate: float, steps: int) -> Iterator[None]:
    """Add to an error whether a composition, whose range is wider, has bounds."""
    try:
        yield
    except ValueError as error:
        try:
            Step(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, count=steps)
        except ValueError:
            raise error from None
        raise ValueError(f"{error}; Composition([Step(...)]) has wider bounds there, which hold") from None


def checked(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    adjacency: str,
    sampling: str,
    direction: str,
) -> Mechanism:
    run = checked_run(noise_multiplier, sampling_rate, steps, adjacency, sampling, direction)
    return Mechanism(**vars(run), delta=valid_delta(delta))
