"""A conjecture at one point against draws: of a mean, or of a law."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dptheory.checks._conjecture import Conjecture, bad_result, guarded, stated
from dptheory.checks._evidence import stream
from dptheory.checks._law import count_outcomes, draws_for, pearson, power, probabilities
from dptheory.checks._mean import SIGMAS, Moments, estimate

_MIN_DRAWS = 2_000


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """What draws say at one point.

    Attributes:
        parameters: the point.
        refuted: the claim is missed by more than 5 standard errors.
        claimed, observed, standard_error: the two numbers, and how well the second is known.
        error: relative amount by which the claim is missed; negative: what a bound has to spare.
        detectable: the relative error that would have been seen.
        count: draws.
        finished: whether they are as many as the resolution asks for.
        outcome: of a law, the outcome that is off most; the numbers are its probabilities.
    """

    parameters: dict[str, Any]
    refuted: bool
    claimed: float
    observed: float
    standard_error: float
    error: float
    detectable: float
    count: int
    finished: bool
    outcome: int | None = None


def mean_at(conjecture: Conjecture, parameters: dict[str, Any], budget: float, seed: int, part: str) -> Drawn:
    """The claimed mean against that of the sampler; an error counts from 5 standard errors on, 10 are seen for sure."""
    claimed = float(stated(conjecture, "claimed", parameters))
    if not math.isfinite(claimed):
        raise bad_result(
            "claimed", conjecture.claimed, parameters, f"must be finite where draws judge it, got {claimed}"
        )

    def scale(found: Moments) -> float:
        return max(abs(claimed), abs(found.mean) if conjecture.relation == "==" else 0.0) or math.inf

    def reach(found: Moments) -> float:
        size = scale(found)
        return math.inf if math.isinf(size) else 2 * SIGMAS * found.standard_error / size

    sampler = _sampler(conjecture, "sampler", parameters)
    own = stream(seed, f"{conjecture.call(parameters)}, {part}")
    found = estimate(sampler, lambda m: reach(m) <= conjecture.resolution, budget, own, conjecture.row_bytes)
    gap = {"==": abs(found.mean - claimed), "<=": found.mean - claimed, ">=": claimed - found.mean}[conjecture.relation]
    rounding = max(conjecture.absolute_tolerance, conjecture.tolerance * max(abs(claimed), abs(found.mean)))
    size, enough = scale(found), found.count >= _MIN_DRAWS
    error = gap / size if math.isfinite(size) else math.copysign(math.inf, gap) if gap else 0.0
    spare = 0.0 if conjecture.relation == "==" else max(-error, 0.0)
    return Drawn(
        parameters=parameters,
        refuted=enough and gap > SIGMAS * found.standard_error + rounding,
        claimed=claimed,
        observed=found.mean,
        standard_error=found.standard_error,
        error=error,
        detectable=spare + reach(found) if enough else math.inf,
        count=found.count,
        finished=enough and reach(found) <= conjecture.resolution,
    )


def law_at(conjecture: Conjecture, parameters: dict[str, Any], budget: float, seed: int, part: str) -> Drawn:
    """The claimed probabilities against the outcomes drawn, by Pearson's chi-square; see :class:`LawCheck`."""
    given = guarded("claimed", conjecture.claimed, parameters)
    try:
        law = probabilities("claimed", np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError):
        says = f"must give two or more positive probabilities with sum 1, got {given}"
        raise bad_result("claimed", conjecture.claimed, parameters, says) from None
    critical, noncentrality = power(law.size)
    draws = draws_for(law.size, conjecture.resolution)
    own = stream(seed, f"{conjecture.call(parameters)}, {part}")
    sampler = _sampler(conjecture, "outcomes", parameters, law.size)
    counts = count_outcomes(sampler, law.size, draws, budget, own, conjecture.row_bytes)
    count = int(counts.sum())
    observed = counts / count
    deviation = (observed - law) / np.sqrt(law * (1 - law) / count)
    worst = int(np.argmax(np.abs(deviation)))
    statistic, enough = pearson(counts, law), count >= _MIN_DRAWS
    return Drawn(
        parameters=parameters,
        refuted=enough and statistic > critical,
        claimed=float(law[worst]),
        observed=float(observed[worst]),
        standard_error=math.sqrt(float(law[worst] * (1 - law[worst])) / count),
        error=math.sqrt(statistic / count),
        detectable=math.sqrt(noncentrality / count) if enough else math.inf,
        count=count,
        finished=enough and count >= draws,
        outcome=worst,
    )


def _sampler(
    conjecture: Conjecture, role: str, parameters: dict[str, Any], outcomes: int | None = None
) -> Callable[[np.random.Generator, int], Any]:
    """The user's sampler at one point; what it draws is checked here, so that the error names it."""
    function = getattr(conjecture, role)

    def draw(rng: np.random.Generator, count: int) -> Any:
        drawn = np.asarray(guarded(role, function, parameters, rng, count))
        numbers = drawn.dtype.kind in ("iu" if outcomes else "biuf")
        inside = numbers and (((drawn >= 0) & (drawn < outcomes)).all() if outcomes else bool(np.isfinite(drawn).all()))
        if drawn.shape != (count,) or not inside:
            what = f"whole numbers 0..{outcomes - 1}" if outcomes else "finite numbers"
            got = f"shape {drawn.shape}" if drawn.shape != (count,) else f"{drawn[:5]}"
            raise bad_result(role, function, parameters, f"must give {count} {what}, shape ({count},), got {got}")
        return drawn.astype(np.intp if outcomes else np.float64)

    return draw
