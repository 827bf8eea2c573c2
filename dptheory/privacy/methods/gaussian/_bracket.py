"""One Gaussian release as a method: steps without sampling, and what sampled steps spend at most.

Sampling only helps: whoever knows in which steps the record took part knows no less.
"""

import math
from collections.abc import Callable

from dptheory.privacy._bounds import CLOSED, Direction, Unresolved
from dptheory.privacy._parts import Parts, Step, Steps, unsampled_mu
from dptheory.privacy.methods._method import Bracket
from dptheory.privacy.methods.gaussian._gaussian import gaussian_epsilon, gaussian_log_delta

Curve = Callable[[float], tuple[float, float]]
"""Bounds of delta at an epsilon."""

CLOSED_FORM = 3e-10
"""Error of log delta of a Gaussian mechanism, for |log delta| < 1e5."""
LEAST = 5e-324
"""An upper end is never rounded down to 0."""
_MAX_MU = 1e100


class Gaussian:
    """The closed form: exact without sampling, an upper bound with it."""

    name = CLOSED

    def serves(self, parts: Parts, direction: Direction) -> bool:
        steps = tuple(part for part in parts if isinstance(part, Step))
        return len(steps) == len(parts) and unsampled_mu(steps, direction) <= _MAX_MU

    def delta(self, steps: Steps, direction: Direction, epsilon: float) -> Bracket:
        low, high = gaussian_bracket(unsampled_mu(steps, direction), epsilon)
        return Bracket(low, high, True) if _unsampled(steps) else Bracket(0.0, high)

    def epsilon(self, steps: Steps, direction: Direction, delta: float) -> Bracket:
        mu = unsampled_mu(steps, direction)
        if gaussian_bracket(mu, 0.0)[1] <= delta:
            return Bracket(0.0, 0.0, True)
        try:
            low, high, _ = unsampled_ends(mu, delta)
        except Unresolved as refused:
            return Bracket(refused.lower, refused.upper)
        return Bracket(low, high, True) if _unsampled(steps) else Bracket(0.0, high)


def _unsampled(steps: Steps) -> bool:
    return all(step.sampling_rate == 1.0 for step in steps)


def gaussian_bracket(mu: float, epsilon: float) -> tuple[float, float]:
    log_delta = gaussian_log_delta(mu, epsilon)
    return math.exp(log_delta - CLOSED_FORM), min(1.0, max(math.exp(log_delta + CLOSED_FORM), LEAST))


def unsampled_ends(mu: float, delta: float) -> tuple[float, float, Curve]:
    """Bounds of epsilon of a Gaussian mechanism, and the bracket of delta that they come from."""

    def bracket(epsilon: float) -> tuple[float, float]:
        return gaussian_bracket(mu, epsilon)

    epsilon = gaussian_epsilon(mu, delta)
    step = 1e-12 * epsilon + 1e-300
    return (
        first_that_holds(lambda e: bracket(e)[0] >= delta, epsilon, -step),
        first_that_holds(lambda e: bracket(e)[1] <= delta, epsilon, step),
        bracket,
    )


def first_that_holds(holds: Callable[[float], bool], epsilon: float, step: float) -> float:
    """The first of epsilon + step, + 2 step, + 4 step, ... that holds; 0 where it falls below."""
    for _ in range(40):
        if epsilon + step <= 0:
            return 0.0
        if holds(epsilon + step):
            return epsilon + step
        step *= 2
    raise Unresolved(f"no bound of epsilon near {epsilon!r}: delta is known too roughly there")
