"""GEP: the stated noise, where it is enough, and the noise of the sum, by quadrature."""

import math

from dptheory import embedding
from dptheory._adjacency import Adjacency
from dptheory.claims.gep import _mechanism
from dptheory.claims.gep._neighbours import best_order_ratio, hockey_stick, least_noise_ratio
from dptheory.errors import ConditionError


def printed_noise_ratio(epsilon: float, delta: float, steps: int = 1) -> float:
    """sigma_i / S_i of Theorems 3.1 and 3.2, whatever epsilon."""
    return 2 * math.sqrt(2 * steps * math.log(1 / delta)) / epsilon


def is_given(share: float, delta: float) -> bool:
    """Whether the calculator gives the stated noise for epsilon = share L."""
    try:
        embedding.release_noise_ratio(epsilon=-share * math.log(delta), delta=delta, method="stated")
    except ConditionError:
        return False
    return True


def is_enough(share: float, delta: float) -> bool:
    """Whether the stated noise keeps delta for epsilon = share L, by quadrature."""
    epsilon = -share * math.log(delta)
    return hockey_stick(math.sqrt(2) / printed_noise_ratio(epsilon, delta), epsilon) <= delta


def delta_of_sum(clip: float, residual_clip: float, epsilon: float, delta: float, steps: int, change: float) -> float:
    """delta of ``steps`` sums with the noise that the calculator says for the sums alone."""
    adjacency: Adjacency = "add-remove" if change == 1 else "replace-one"
    ratio = embedding.output_noise_ratio(
        embedding_clip=clip, residual_clip=residual_clip, epsilon=epsilon, delta=delta, steps=steps, adjacency=adjacency
    )
    return _delta_of_noisy_sum(clip, residual_clip, ratio, epsilon, steps, change)


def delta_of_pair_noise(
    clip: float, residual_clip: float, epsilon: float, delta: float, steps: int, change: float
) -> float:
    """The same with the noise that the pair needs."""
    ratio = change * least_noise_ratio(epsilon, delta, steps)
    return _delta_of_noisy_sum(clip, residual_clip, ratio, epsilon, steps, change)


def _delta_of_noisy_sum(
    clip: float, residual_clip: float, ratio: float, epsilon: float, steps: int, change: float
) -> float:
    mu = _mechanism.mu_of_sum(clip, residual_clip, ratio * clip, ratio * residual_clip)
    return hockey_stick(change * math.sqrt(steps) * mu, epsilon)


def replaced_noise(method: str, epsilon: float, steps: int) -> float:
    """2 sigma / S for T steps at delta = 1e-5, from quadratures, the search over orders, and the printed formula."""
    return (
        2
        * {
            "exact": lambda: least_noise_ratio(epsilon, 1e-5, steps),
            "renyi": lambda: math.sqrt(steps) * best_order_ratio(epsilon, 1e-5),
            "stated": lambda: printed_noise_ratio(epsilon, 1e-5, steps),
        }[method]()
    )
