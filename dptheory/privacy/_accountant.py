"""Epsilon, noise multiplier and number of steps of DP-SGD, each from a bracket that holds."""

import functools
import math
from dataclasses import dataclass, replace

from dptheory import _validate
from dptheory._adjacency import ADJACENCIES
from dptheory.privacy._closed_forms import concentrated_epsilon, distance_bound, one_step_epsilon, participation_epsilon
from dptheory.privacy._crossing import crossing
from dptheory.privacy._dp_accounting import pld_bracket, rdp_of_steps
from dptheory.privacy._gaussian import gaussian_epsilon, gaussian_mu
from dptheory.privacy._prv import MAX_CELLS, prv_bracket, saddle_point
from dptheory.privacy._sampled_loss import Direction, Loss

SAMPLINGS = ("poisson", "without replacement")
DIRECTIONS = ("worst", "add", "remove")
NOISE = (0.1, 1000.0)
MAX_STEPS = 1_000_000
RATE = (1e-6, 1.0)
DELTA = (1e-15, 0.1)
_SMALL_BUDGET, _FEW_CELLS = (
    0.01,
    2**18,
)  # a budget so small asks for brackets that no grid gives: a search stops earlier
_FINE = 1e-3  # width for the number of steps
_ADD_WIDTH = 8.0  # the other direction is first asked for this many times the width: it is seldom the larger


@dataclass(frozen=True)
class EpsilonBounds:
    """What is known of the smallest epsilon.

    Attributes:
        lower: epsilon is at least this.
        estimate: the middle of the bracket.
        upper: epsilon is at most this; the number to report.
        accountant: what gave the bracket: "Gaussian" or "one step" (both exact), "PRV", "PLD", "RDP", "participations"
            (the bound that reveals in which steps an example took part), or "distance" (delta covers a bound on the
            total-variation distance); of two names the first gave the lower bound, the second the upper one.
    """

    lower: float
    estimate: float
    upper: float
    accountant: str


@dataclass(frozen=True)
class CrossCheck:
    """Two independent brackets of one epsilon, and the Renyi upper bound.

    Attributes:
        prv: lower and upper bound by prv-accountant; 0 and inf where it gives none.
        pld: lower and upper bound by dp-accounting's privacy loss distributions; the upper one is inf where its
            rounding errors are not small against delta.
        rdp: upper bound by dp-accounting's Renyi accountant.
    """

    prv: tuple[float, float]
    pld: tuple[float, float]
    rdp: float


@dataclass(frozen=True)
class _Mechanism:
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
        if self.adjacency == "replace-one":
            names = ("replace",)
        elif self.direction == "worst":
            names = ("remove", "add")
        else:
            names = ("add",) if self.direction == "add" else ("remove",)
        return tuple(Loss(name, self.noise_multiplier, self.sampling_rate) for name in names)


def epsilon(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    *,
    width: float = 0.005,
    adjacency: str = "add-remove",
    sampling: str = "poisson",
    direction: str = "worst",
) -> EpsilonBounds:
    r"""Bounds of the smallest epsilon of ``steps`` subsampled Gaussian steps (DP-SGD).

    Each step releases the sum of the sampled, clipped gradients plus noise of standard deviation noise_multiplier times the
    clipping norm. With P, Q the laws of T steps on two neighbours, epsilon is the least one with

    .. math:: \sup_S\, P(S) - e^\epsilon Q(S) \le \delta .

    Two adjacencies and two ways of sampling:

    - "poisson": every record joins a step independently with probability ``sampling_rate``. Neighbours differ by a record
      more or less ("add-remove") or by the content of one ("replace-one": two opposite gradients are the
      worst pair, gip.replace_one).
    - "without replacement": every step takes exactly a share ``sampling_rate`` of the records; "replace-one" only. The upper
      bound is that of Renyi privacy, the lower one is attained by data whose other gradients are 0; they can be far apart.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, in [0.1, 1000].
        sampling_rate: in [1e-6, 1].
        steps: 1 to 10^6.
        delta: in [1e-15, 0.1].
        width: how far apart the bounds should be, times max(1, epsilon); in [1e-4, 1]. It is met where 4 million grid
            points suffice, as they do for the default up to 1,000 steps at least; otherwise the bounds hold but are wider.
        adjacency: "add-remove" or "replace-one".
        sampling: "poisson" or "without replacement".
        direction: for "add-remove": "remove" (P has the record), "add" (Q has it), or "worst", the larger epsilon.

    Returns:
        The bounds and which accountant gave them. ``lower == upper`` up to rounding for sampling_rate 1.

    Raises:
        ValueError: an argument outside its range, or a combination that no accountant covers.

    Source: GIP, Lemma 1 and Theorem 2 (gip.thm2); RS, Theorem 3.1 (rs.thm3.1); RF, Tables 5-9 (rf.sigmas).
    """
    width = _validate.real("width", width, 1e-4, 1.0)
    return _epsilon(_mechanism(noise_multiplier, sampling_rate, steps, delta, adjacency, sampling, direction), width)


def rdp_epsilon(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    *,
    adjacency: str = "add-remove",
    sampling: str = "poisson",
) -> float:
    """Upper bound of epsilon by Renyi differential privacy at the usual orders, for comparison; inf where it has none.

    The conversion is that of Balle et al. (2020), Theorem 21, which GIP uses. For Poisson sampling only "add-remove".

    Args:
        noise_multiplier, sampling_rate, steps, delta, adjacency, sampling: as for :func:`epsilon`.

    Raises:
        ValueError: an argument outside its range, or "replace-one" with Poisson sampling.

    Source: GIP, Lemma 1 (gip.thm2); GEP, section 3 (gep.thm3.1).
    """
    asked = _mechanism(noise_multiplier, sampling_rate, steps, delta, adjacency, sampling, "worst")
    if asked.sampling == "poisson" and asked.adjacency == "replace-one":
        raise ValueError(
            "adjacency must be 'add-remove' for Renyi privacy of Poisson sampling, got 'replace-one'; use epsilon()"
        )
    return _rdp(asked)


def cross_check(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    *,
    width: float = 0.005,
    adjacency: str = "add-remove",
) -> CrossCheck:
    """Ask prv-accountant and dp-accounting about the same Poisson-sampled steps.

    Args:
        noise_multiplier, sampling_rate, steps, delta, width, adjacency: as for :func:`epsilon`.

    Returns:
        The brackets, which overlap.

    Raises:
        ValueError: an argument outside its range.
        ArithmeticError: the brackets contradict each other; one accountant is wrong.

    Source: GIP, Theorem 2 (gip.thm2); RS, Theorem 3.1 (rs.thm3.1).
    """
    width = _validate.real("width", width, 1e-4, 1.0)
    asked = _mechanism(noise_multiplier, sampling_rate, steps, delta, adjacency, "poisson", "worst")
    brackets = [_prv(loss, asked, width) or (0.0, math.inf) for loss in asked.losses()]
    prv = (max(low for low, _ in brackets), max(high for _, high in brackets))
    pld = pld_bracket(asked.losses()[0], asked.steps, asked.delta)
    rdp = _rdp(asked) if asked.adjacency == "add-remove" else math.inf
    if max(prv[0], pld[0]) > min(prv[1], pld[1], rdp) * (1 + 1e-9) + 1e-12:
        raise ArithmeticError(f"the accountants contradict each other: PRV {prv}, PLD {pld}, RDP <= {rdp}")
    return CrossCheck(prv, pld, rdp)


def noise_multiplier(
    epsilon: float,
    delta: float,
    sampling_rate: float,
    steps: int,
    *,
    tolerance: float = 1e-3,
    adjacency: str = "add-remove",
    sampling: str = "poisson",
    direction: str = "worst",
) -> float:
    """The least noise multiplier whose upper bound of epsilon fits the budget.

    At the returned sigma the upper bound of the bracket of width ``tolerance`` is at most ``epsilon``, at sigma / (1 + tolerance)
    it is not. The coarser bracket that :func:`epsilon` gives by default may end a little above the budget. For budgets below
    0.01 the grid of the bracket is limited, so that a search takes seconds: sigma is then safe, but not the least.

    Args:
        epsilon: > 0.
        delta, sampling_rate, steps, adjacency, sampling, direction: as for :func:`epsilon`.
        tolerance: relative, in [1e-4, 0.1].

    Returns:
        sigma in [0.1, 1000]; 0.1 where less would do.

    Raises:
        ValueError: an argument outside its range, or sigma = 1000 is not enough.

    Source: GIP, Theorem 2 (gip.thm2); RS, Theorem 3.1 (rs.thm3.1); RF, Tables 5-9 (rf.sigmas).
    """
    budget = _validate.real("epsilon", epsilon, 0.0, ends="()")
    tolerance = _validate.real("tolerance", tolerance, 1e-4, 0.1)
    asked = _mechanism(1.0, sampling_rate, steps, delta, adjacency, sampling, direction)

    least, most = NOISE
    # Without subsampling this much noise would do.
    enough = 1.00001 * asked.shift * math.sqrt(asked.steps) / gaussian_mu(min(budget, 1e100), asked.delta)
    found = crossing(
        lambda sigma: _log_ratio(_rough(replace(asked, noise_multiplier=sigma)), budget),
        lambda sigma: _log_excess(replace(asked, noise_multiplier=sigma), tolerance, budget),
        min(most, max(1.01 * least, enough)),
        least,
        1 + tolerance,
    )
    last = replace(asked, noise_multiplier=most)
    if (
        found is None
        and _rough(last) <= max(budget, 1e-6)
        and _epsilon(last, tolerance * min(1.0, budget)).upper <= budget
    ):
        return most  # a budget so small that only the finest grid shows that it is kept
    if found is None:
        raise ValueError(
            f"epsilon must be larger, or delta, or steps fewer: sigma = {most:g} is not enough, got {budget!r}"
        )
    return found


def steps(
    epsilon: float,
    delta: float,
    noise_multiplier: float,
    sampling_rate: float,
    *,
    adjacency: str = "add-remove",
    sampling: str = "poisson",
    direction: str = "worst",
) -> int:
    """The most steps whose upper bound of epsilon fits the budget: one could afford at most 0.1 % more.

    For budgets below 0.01 the bracket is wider, as for :func:`noise_multiplier`: the number is then safe, but may be smaller.

    Args:
        epsilon: > 0.
        delta, noise_multiplier, sampling_rate, adjacency, sampling, direction: as for :func:`epsilon`.

    Returns:
        0 where not even one step fits; at most 10^6, the largest number that is accounted for.

    Raises:
        ValueError: an argument outside its range.

    Source: GIP, Theorem 2 (gip.thm2); RS, Theorem 3.1 (rs.thm3.1); RF, section 4 (rf.sigmas).
    """
    budget = _validate.real("epsilon", epsilon, 0.0, ends="()")
    asked = _mechanism(noise_multiplier, sampling_rate, 1, delta, adjacency, sampling, direction)

    found = crossing(
        lambda count: _log_ratio(_rough(replace(asked, steps=int(count))), budget),
        lambda count: _log_excess(replace(asked, steps=int(count)), _FINE, budget),
        1.0,
        float(MAX_STEPS),
        1 + _FINE,
        whole=True,
    )
    return 0 if found is None else int(found)


def _log_excess(asked: _Mechanism, width: float, budget: float) -> float:
    wanted = width * min(1.0, budget)
    cells = MAX_CELLS if budget >= _SMALL_BUDGET else _FEW_CELLS
    rough = _rough(asked)
    # Far above the budget a bracket that is wide, and cheap, says so: its lower end is above the budget.
    enough = min(1.0, (rough - budget) / (4 * max(1.0, rough)))
    if enough > 2 * wanted:
        found = _epsilon(asked, enough, cells)
        if found.lower > budget:
            return _log_ratio(found.estimate, budget)
    return _log_ratio(_epsilon(asked, wanted, cells).upper, budget)


def _log_ratio(epsilon: float, budget: float) -> float:
    return math.log(max(epsilon, 1e-300)) - math.log(max(budget, 1e-300))


def _rough(asked: _Mechanism) -> float:
    return saddle_point(asked.losses()[0], asked.steps, asked.delta).epsilon


@functools.lru_cache(maxsize=512)
def _epsilon(asked: _Mechanism, width: float, cells: int = MAX_CELLS) -> EpsilonBounds:
    if asked.sampling_rate == 1.0:
        exact = gaussian_epsilon(asked.shift * math.sqrt(asked.steps), asked.delta)
        return EpsilonBounds(exact, exact, exact, "Gaussian")
    guard = participation_epsilon(asked.shift, asked.sampling_rate, asked.steps, asked.delta)
    if guard == 0.0:
        return EpsilonBounds(0.0, 0.0, 0.0, "participations")
    opposite = asked.adjacency == "replace-one"
    if (
        asked.sampling == "poisson"
        and distance_bound(asked.shift, asked.sampling_rate, asked.steps, opposite) <= asked.delta
    ):
        return EpsilonBounds(0.0, 0.0, 0.0, "distance")
    lower, upper, name = _worst_direction(asked, width, cells)
    if asked.sampling == "without replacement":
        upper = _rdp(asked)
        name = f"{name}, RDP"
    if guard < upper:
        name = name.split(", ")[0] + ", participations" if lower > 0 else "participations"
        upper = guard
    if lower > upper:
        raise ArithmeticError(f"lower bound {lower!r} above upper bound {upper!r}: please report {asked}")
    return EpsilonBounds(lower, (lower + upper) / 2, upper, name)


def _worst_direction(asked: _Mechanism, width: float, cells: int) -> tuple[float, float, str]:
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


def _bracket(loss: Loss, asked: _Mechanism, width: float, cells: int) -> tuple[float, float, str]:
    if asked.steps == 1:
        return *one_step_epsilon(loss, asked.delta), "one step"
    found, name = _prv(loss, asked, width, cells), "PRV"
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


def _prv(loss: Loss, asked: _Mechanism, width: float, cells: int = MAX_CELLS) -> tuple[float, float] | None:
    try:
        return prv_bracket(loss, asked.steps, asked.delta, width, cells)
    except (ArithmeticError, RuntimeError, MemoryError):  # RuntimeError: the package's own
        return None


def _rdp(asked: _Mechanism) -> float:
    return rdp_of_steps(asked.losses()[0], asked.steps, asked.delta, asked.sampling == "without replacement")


def _mechanism(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    adjacency: str,
    sampling: str,
    direction: str,
) -> _Mechanism:
    asked = _Mechanism(
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
