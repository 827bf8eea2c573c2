"""Brackets of epsilon of subsampled Gaussian steps: who gives them, and in which direction."""

import functools
import math
from dataclasses import dataclass

from dptheory import _validate
from dptheory._adjacency import ADJACENCIES
from dptheory.privacy._closed_forms import concentrated_epsilon, distance_bound, one_step_epsilon, participation_epsilon
from dptheory.privacy._dp_accounting import pld_bracket, rdp_of_steps
from dptheory.privacy._fixed_size import fixed_size_upper
from dptheory.privacy._gaussian import gaussian_epsilon
from dptheory.privacy._prv import MAX_CELLS, prv_bracket
from dptheory.privacy._sampled_loss import Direction, Loss

SAMPLINGS = ("poisson", "without replacement")
DIRECTIONS = ("worst", "add", "remove")
NOISE = (0.1, 1000.0)
MAX_STEPS = 1_000_000
RATE = (1e-6, 1.0)
DELTA = (1e-15, 0.1)
_ADD_WIDTH = 8.0  # the other direction is first asked for this many times the width: it is seldom the larger


@dataclass(frozen=True, kw_only=True)
class EpsilonBounds:
    """What is known of the smallest epsilon.

    Attributes:
        lower: epsilon is at least this.
        estimate: the middle of the bracket.
        upper: epsilon is at most this; the number to report.
        method: what gave the bracket: "Gaussian" or "one step" (both exact), "PRV", "PLD", "RDP", "participations"
            (the bound that reveals in which steps an example took part), "distance" (delta covers a bound on the
            total-variation distance), or, without replacement, "dominating pair" or "divergence"
            (proofs/privacy/fixed_size_batches.md); of two names the first gave the lower bound, the second the upper one,
            and the estimate has no meaning beyond being between them.
    """

    lower: float
    estimate: float
    upper: float
    method: str


@dataclass(frozen=True)
class Mechanism:
    """Checked arguments: what is released, and which neighbours are told apart."""

    noise_multiplier: float
    sampling_rate: float
    steps: int
    delta: float
    adjacency: str
    sampling: str
    direction: str

    @property
    def shift(self) -> float:
        """What one record changes, in standard deviations of the noise."""
        return (2.0 if self.adjacency == "replace-one" else 1.0) / self.noise_multiplier

    def losses(self) -> tuple[Loss, ...]:
        names: tuple[Direction, ...]
        if (
            self.sampling == "without replacement"
        ):  # the other records may all be what replaces the record, or all the record
            return tuple(Loss(name, self.noise_multiplier / 2, self.sampling_rate) for name in ("remove", "add"))
        if self.adjacency == "replace-one":
            names = ("replace",)
        elif self.direction == "worst":
            names = ("remove", "add")
        else:
            names = ("add",) if self.direction == "add" else ("remove",)
        return tuple(Loss(name, self.noise_multiplier, self.sampling_rate) for name in names)


def checked(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    adjacency: str,
    sampling: str,
    direction: str,
) -> Mechanism:
    asked = Mechanism(
        _validate.real("noise_multiplier", noise_multiplier, *NOISE),
        _validate.real("sampling_rate", sampling_rate, *RATE),
        _validate.integer("steps", steps, 1, MAX_STEPS),
        _validate.real("delta", delta, *DELTA),
        _validate.choice("adjacency", adjacency, ADJACENCIES),
        _validate.choice("sampling", sampling, SAMPLINGS),
        _validate.choice("direction", direction, DIRECTIONS),
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


@functools.lru_cache(maxsize=512)
def bracketed(asked: Mechanism, width: float, cells: int = MAX_CELLS) -> EpsilonBounds:
    if asked.sampling_rate == 1.0:
        exact = gaussian_epsilon(asked.shift * math.sqrt(asked.steps), asked.delta)
        return EpsilonBounds(lower=exact, estimate=exact, upper=exact, method="Gaussian")
    guard = participation_epsilon(asked.shift, asked.sampling_rate, asked.steps, asked.delta)
    if guard == 0.0:
        return EpsilonBounds(lower=0.0, estimate=0.0, upper=0.0, method="participations")
    opposite = asked.adjacency == "replace-one"
    if (
        asked.sampling == "poisson"
        and distance_bound(asked.shift, asked.sampling_rate, asked.steps, opposite) <= asked.delta
    ):
        return EpsilonBounds(lower=0.0, estimate=0.0, upper=0.0, method="distance")
    lower, upper, name = _worst_direction(asked, width, cells)
    if asked.sampling == "without replacement" and asked.steps > 1:
        upper, above = fixed_size_upper(
            noise_multiplier=asked.noise_multiplier,
            sampling_rate=asked.sampling_rate,
            steps=asked.steps,
            delta=asked.delta,
        )
        name = f"{name}, {above}"
    if guard < upper:
        name = name.split(", ")[0] + ", participations" if lower > 0 else "participations"
        upper = guard
    if lower > upper:
        raise ArithmeticError(f"lower bound {lower!r} above upper bound {upper!r}: please report {asked}")
    return EpsilonBounds(lower=lower, estimate=(lower + upper) / 2, upper=upper, method=name)


def _worst_direction(asked: Mechanism, width: float, cells: int) -> tuple[float, float, str]:
    first, *others = asked.losses()
    lower, upper, name = _bracket(first, asked, width, cells)
    for loss in others:
        if _largest_loss(loss, asked.steps) <= lower:
            continue
        low, high, other = _bracket(loss, asked, min(1.0, _ADD_WIDTH * width), cells)
        if high > lower:
            low, high, other = _bracket(loss, asked, width, cells)
        if high > upper:
            name = other
        lower, upper = max(lower, low), max(upper, high)
    return lower, upper, name


def _bracket(loss: Loss, asked: Mechanism, width: float, cells: int) -> tuple[float, float, str]:
    if asked.steps == 1:
        return *one_step_epsilon(loss, asked.delta), "one step"
    found, name = prv_or_none(loss, asked, width, cells), "PRV"
    if found is None:
        lower, upper = pld_bracket(loss, asked.steps, asked.delta)
        # dp-accounting takes the larger of both directions: no lower bound of one alone.
        alone = loss.direction == "add" or (loss.direction == "remove" and asked.direction != "worst")
        found, name = (0.0 if alone else lower, upper), "PLD"
    lower = max(found[0], concentrated_epsilon(loss, asked.steps, asked.delta))
    return lower, min(found[1], _largest_loss(loss, asked.steps)), name


def _largest_loss(loss: Loss, steps: int) -> float:
    """What the losses of all steps never exceed: a sample that holds the record is at least 1 - q times one that does not."""
    if loss.direction != "add" or loss.sampling_rate == 1.0:
        return math.inf
    return -steps * math.log1p(-loss.sampling_rate) * (1 + 1e-12)


def prv_or_none(loss: Loss, asked: Mechanism, width: float, cells: int = MAX_CELLS) -> tuple[float, float] | None:
    try:
        return prv_bracket(loss, asked.steps, asked.delta, width, cells)
    except (ArithmeticError, RuntimeError, MemoryError):  # RuntimeError: the package's own
        return None


def renyi_bound(asked: Mechanism) -> float:
    if asked.sampling == "without replacement":
        replaced = Loss("replace", asked.noise_multiplier, asked.sampling_rate)
        return rdp_of_steps(replaced, asked.steps, asked.delta, without_replacement=True)
    return rdp_of_steps(asked.losses()[0], asked.steps, asked.delta)
