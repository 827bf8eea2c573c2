"""Brackets of epsilon and delta of subsampled Gaussian steps: who gives them, and in which direction.

The integral on the saddle line gives nearly all of them (proofs/privacy/saddle_line.md). Where its bracket is wider than it
promises, the bracket of prv-accountant or dp-accounting and a closed form take over as far as they are narrower.
"""

import functools
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from types import ModuleType

from dptheory import _validate
from dptheory._adjacency import ADJACENCIES
from dptheory.privacy._ball_arithmetic import enclosures
from dptheory.privacy._bound_names import CHANCE
from dptheory.privacy._closed_forms import participation_epsilon
from dptheory.privacy._dp_accounting import fixed_size_rdp_delta, fixed_size_rdp_epsilon, pld_bracket
from dptheory.privacy._fixed_size import fixed_size_upper
from dptheory.privacy._gaussian import gaussian_epsilon
from dptheory.privacy._moments import Direction, Unresolved
from dptheory.privacy._prv import prv_bracket
from dptheory.privacy._saddle_brackets import (
    Composition,
    SampledGaussian,
    chance,
    direction_delta,
    direction_epsilon,
)
from dptheory.privacy._sampled_loss import Loss
from dptheory.privacy._sampled_renyi import sampled_renyi_epsilon

SAMPLINGS = ("poisson", "without replacement")
DIRECTIONS = ("worst", "add", "remove")
NOISE = (0.05, 1000.0)
MAX_STEPS = 1_000_000
RATE = (1e-8, 1.0)
DELTA = (1e-30, 0.99)
_WITNESS_WIDTH = 0.005  # of prv-accountant's bracket, where the saddle line's is wider than it promises


@dataclass(frozen=True, kw_only=True)
class EpsilonBounds:
    """What is known of the smallest epsilon.

    Attributes:
        lower: epsilon is at least this.
        estimate: the middle of the bracket, whatever gave its ends: lower <= estimate <= upper.
        upper: epsilon is at most this; the number to report.
        method: what gave the bracket: "saddle line" (the inversion integral), "certified" (the same in ball arithmetic),
            "Gaussian" or "one step" (closed forms), "PRV" or "PLD" (prv-accountant and dp-accounting, where the integral
            gives a wide bracket only), "participations" (the bound that reveals in which steps an example took part), or,
            without replacement, "dominating pair" or "divergence" (proofs/privacy/fixed_size_batches.md); of two names the
            first gave the lower bound, the second the upper one, and the middle says no more than that epsilon is near where
            they are close.
    """

    lower: float
    estimate: float
    upper: float
    method: str


@dataclass(frozen=True, kw_only=True)
class ProbabilityBounds:
    """What is known of a probability, such as the smallest delta.

    Attributes:
        lower: it is at least this.
        upper: it is at most this; of delta the number to report.
        method: what gave the bounds, in the words of :class:`EpsilonBounds`; of two names the first gave the lower bound, the
            second the upper one.
    """

    lower: float
    upper: float
    method: str


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
        from dptheory.privacy._steps import Step  # which imports this module

        try:
            Step(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, count=steps)
        except ValueError:
            raise error from None
        raise ValueError(f"{error}; Composition([Step(...)]) has wider bounds there, which hold") from None


def valid_delta(delta: float) -> float:
    """In the accountant's range; the error for another probability says which bound still holds."""
    try:
        return _validate.real("delta", delta, *DELTA)
    except ValueError as error:
        try:
            number = _validate.real("delta", delta, 0.0, 1.0, ends="()")
        except ValueError:
            raise error from None
        if number > DELTA[1]:
            raise ValueError(f"{error}; the epsilon of delta = {DELTA[1]:g} holds there too") from None
        raise ValueError(
            f"{error}; there zcdp_epsilon holds for noisy values, at zcdp_rho = steps s^2 / (2 sigma^2), s = 1 (replace-one: 2)"
        ) from None


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


@functools.lru_cache(maxsize=512)
def bracketed(asked: Mechanism, certified: bool = False) -> EpsilonBounds:
    if certified:
        with _enclosure(asked) as module:
            lower, upper = module.worst_epsilon(asked.composition, delta=asked.delta, among=asked.directions)
        return EpsilonBounds(lower=lower, estimate=(lower + upper) / 2, upper=upper, method="certified")
    if chance(asked.composition) <= asked.delta:
        return EpsilonBounds(lower=0.0, estimate=0.0, upper=0.0, method=CHANCE)
    if asked.sampling_rate == 1.0:
        exact = gaussian_epsilon(asked.shift * math.sqrt(asked.steps), asked.delta)
        return EpsilonBounds(lower=exact, estimate=exact, upper=exact, method="Gaussian")
    lower, upper, name = _worst_direction(asked)
    if asked.sampling == "without replacement" and asked.steps > 1:
        upper, other = _fixed_size_upper(asked)
        name = f"{name}, {other}"
    if lower > upper:
        raise ArithmeticError(f"lower bound {lower!r} above upper bound {upper!r}: please report {asked}")
    return EpsilonBounds(lower=lower, estimate=(lower + upper) / 2, upper=upper, method=name)


def upper_bound(asked: Mechanism, certified: bool = False) -> float:
    """The upper bound of :func:`bracketed`, without the lower one where that is another computation."""
    fixed_size = asked.sampling == "without replacement" and asked.sampling_rate < 1.0 and asked.steps > 1
    if fixed_size and not certified and chance(asked.composition) > asked.delta:
        return _fixed_size_upper(asked)[0]
    return bracketed(asked, certified).upper


def _fixed_size_upper(asked: Mechanism) -> tuple[float, str]:
    guard = participation_epsilon(asked.shift, asked.sampling_rate, asked.steps, asked.delta)
    found = fixed_size_upper(
        noise_multiplier=asked.noise_multiplier,
        sampling_rate=asked.sampling_rate,
        steps=asked.steps,
        delta=asked.delta,
    )
    return min(found, (guard, "participations"))


@functools.lru_cache(maxsize=512)
def delta_bracketed(asked: Run, epsilon: float, certified: bool = False) -> ProbabilityBounds:
    if certified:
        with _enclosure(asked) as module:
            lower, upper = module.worst_delta(asked.composition, epsilon=epsilon, among=asked.directions)
        return ProbabilityBounds(lower=lower, upper=upper, method="certified")
    name = "Gaussian" if asked.sampling_rate == 1.0 else "one step" if asked.steps == 1 else "saddle line"
    found = [_delta(asked, direction, epsilon) for direction in asked.directions]
    lower, upper = max(low for low, _ in found), max(high for _, high in found)
    if asked.sampling == "without replacement" and asked.sampling_rate < 1.0 and asked.steps > 1:
        upper, name = fixed_size_rdp_delta(_replaced(asked), asked.steps, epsilon), f"{name}, RDP"
    return ProbabilityBounds(lower=lower, upper=upper, method=name)


def _delta(asked: Run, direction: Direction, epsilon: float) -> tuple[float, float]:
    try:
        return direction_delta(asked.composition, epsilon=epsilon, direction=direction)
    except Unresolved as wide:
        return wide.lower, wide.upper


def _worst_direction(asked: Mechanism) -> tuple[float, float, str]:
    first, *others = asked.directions
    lower, upper, name = _bracket(first, asked)
    for direction in others:
        if _delta(asked, direction, lower)[1] > asked.delta:
            low, high, other = _bracket(direction, asked)
            if high > upper:
                name = other
            lower, upper = max(lower, low), max(upper, high)
    return lower, upper, name


def _bracket(direction: Direction, asked: Mechanism) -> tuple[float, float, str]:
    name = "one step" if asked.steps == 1 else "saddle line"
    try:
        return *direction_epsilon(asked.composition, delta=asked.delta, direction=direction), name
    except Unresolved as wide:
        lower, upper = wide.lower, wide.upper
    low, high, witness = _witness(asked.loss(direction), asked)
    below = witness if low > lower else name
    above = witness if high < upper else name
    return max(lower, low), min(upper, high), below if below == above else f"{below}, {above}"


def _witness(loss: Loss, asked: Mechanism) -> tuple[float, float, str]:
    """The bracket by another accountant, where the integral's is wide."""
    found, name = prv_or_none(loss, asked, _WITNESS_WIDTH), "PRV"
    if found is None:
        lower, upper = pld_bracket(loss, asked.steps, asked.delta)
        # dp-accounting takes the larger of both directions: no lower bound of one alone.
        alone = loss.direction == "add" or (loss.direction == "remove" and asked.direction != "worst")
        found, name = (0.0 if alone else lower, upper), "PLD"
    guard = participation_epsilon(asked.shift, asked.sampling_rate, asked.steps, asked.delta)
    return (*found, name) if found[1] <= guard else (found[0], guard, "participations")


def prv_or_none(loss: Loss, asked: Mechanism, width: float) -> tuple[float, float] | None:
    try:
        return prv_bracket(loss, asked.steps, asked.delta, width)
    except (ArithmeticError, RuntimeError, MemoryError):  # RuntimeError: the package's own
        return None


def renyi_bound(asked: Mechanism) -> float:
    if asked.sampling == "poisson":
        return sampled_renyi_epsilon(asked.loss(asked.directions[0]), asked.steps, asked.delta)
    return fixed_size_rdp_epsilon(_replaced(asked), asked.steps, asked.delta)


def _replaced(asked: Run) -> Loss:
    return Loss("replace", asked.noise_multiplier, asked.sampling_rate)


def _enclosure(asked: Run) -> AbstractContextManager[ModuleType]:
    """The module that computes in ball arithmetic; its refusals as errors that name the argument."""
    if asked.sampling != "poisson":
        raise ValueError(
            f"certified must be False for sampling {asked.sampling!r}, whose upper bound is not an enclosure"
        )
    return enclosures()
