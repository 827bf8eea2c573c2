"""Randomised response on an index vector: every bit is kept with probability p, flipped otherwise."""

import math

import scipy

from dptheory import _validate

_MOST_BITS = 10**18


def randomized_response_epsilon(*, probability: float, distance: int) -> float:
    """Exact pure-DP epsilon for two index vectors at Hamming distance ``distance``: distance * |log(p / (1 - p))|.

    Args:
        probability: chance p of keeping a bit, in [0, 1]; 0 and 1 give inf unless distance is 0.
        distance: number of bits in which the two vectors differ, 0..1e18.

    Returns:
        Epsilon in nats, >= 0; inf as said above.

    Source: GIP, Proposition 3 (gip.prop3).

    Example: by hand: 2 log 3. With the 52 bits that one example can change it is 57.
        >>> from dptheory.pruning import randomized_response_epsilon
        >>> [round(randomized_response_epsilon(probability=0.75, distance=bits), 2) for bits in (2, 52)]
        [2.2, 57.13]
    """
    probability = _validate.real("probability", probability, 0.0, 1.0)
    distance = _validate.integer("distance", distance, 0, _MOST_BITS)
    return distance * abs(float(scipy.special.logit(probability))) if distance else 0.0


def randomized_response_probability(*, epsilon: float, distance: int) -> float:
    """Largest p with which :func:`randomized_response_epsilon` is at most ``epsilon``: e^(eps/distance) / (1 + e^(eps/distance)).

    The admissible p are those with max(p, 1 - p) at most this value.

    Args:
        epsilon: pure-DP budget, >= 0 and finite.
        distance: sensitivity of the index vector, 1..1e18.

    Returns:
        The probability, in [1/2, 1].

    Source: GIP, Proposition 3, equation 26 (gip.prop3).

    Example: an epsilon of 1 over 52 bits leaves hardly more than a coin.
        >>> from dptheory.pruning import randomized_response_probability
        >>> round(randomized_response_probability(epsilon=1.0, distance=52), 4)
        0.5048
    """
    epsilon = _validate.real("epsilon", epsilon, 0.0, ends="[)")
    distance = _validate.integer("distance", distance, 1, _MOST_BITS)
    probability = min(float(scipy.special.expit(epsilon / distance)), 1.0 - 2.0**-53)
    while probability > 0.5 and randomized_response_epsilon(probability=probability, distance=distance) > epsilon:
        probability = math.nextafter(probability, 0.0)
    return probability


def mallows_theta(probability: float) -> float:
    """Dispersion theta = log(p / (1 - p)) of the Mallows law that randomised response becomes given the number of ones.

    Args:
        probability: chance p of keeping a bit, in [1/2, 1]; 1 gives inf.

    Returns:
        theta, in [0, inf].

    Raises:
        ValueError: probability outside [1/2, 1].

    Source: GIP, Appendix A.4 (gip.a4).

    Example: by hand: log 3.
        >>> from dptheory.pruning import mallows_theta
        >>> round(mallows_theta(0.75), 4)
        1.0986
    """
    probability = _validate.real("probability", probability, 0.5, 1.0)
    return math.inf if probability == 1.0 else float(scipy.special.logit(probability))
