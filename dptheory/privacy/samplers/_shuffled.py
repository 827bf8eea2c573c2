"""What shuffled batches cost: at least, by attacks whose success is known exactly; at most, their order being told."""

import math
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import _validate
from dptheory.privacy._bounds import DELTA, NOISE
from dptheory.privacy._composition import epsilon_bounds
from dptheory.privacy.methods._closed_forms import gaussian_epsilon
from dptheory.privacy.methods.lattice._epsilon import attained_epsilon
from dptheory.privacy.methods.lattice._sums import LatticeMasses

Array = NDArray[np.float64]

MAX_BATCHES = 10**6
MAX_EPOCHS = 1000
_CELLS = 20_000
_SMALLEST = -690.0
_SHIFTS = {"replace-one": ((2.0, 0.0),), "add-remove": ((2.0, 1.0), (1.0, 0.0))}


def shuffled_epsilon_lower_bound(
    *, noise_multiplier: float, batches: int, epochs: int, delta: float, adjacency: str = "add-remove"
) -> float:
    r"""What a run on shuffled batches spends at least, whatever it was accounted as.

    In every epoch the records are shuffled and cut into batches, so that a record is in exactly one. All other records have
    the gradient -e, the record in question +e. Of an epoch the attacker looks at the largest noisy sum along e only,
    moved by the constant that the others give: its distribution function is

    .. math:: F_a(x) = \Phi(x)^{m-1} \Phi(x - a), \quad m = \text{batches},

    a = 2 / sigma with the record, 1 / sigma if it is empty (gradient 0), 0 if it is -e. Epochs are independent, and their losses
    are composed on a lattice, rounded down. Also tried: the sum over all batches, and other records of gradient 0.

    Compare with ``epsilon_bounds(sampling_rate=1/batches, steps=batches * epochs, ...)``: where this is above its upper
    bound, accounting as if batches were Poisson's is wrong by at least the difference; where it is not, nothing follows.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, in [0.05, 1000].
        batches: in one epoch, 1 to 10^6.
        epochs: 1 to 1000, each shuffled afresh.
        delta: in [1e-30, 0.99].
        adjacency: "replace-one", or "add-remove": the record against an empty one that keeps its place, so that all batches
            keep their sizes.

    Returns:
        The lower bound, >= 0.

    Source: the attack of Chua et al., "How private are DP-SGD implementations?" (2024), proved in
        proofs/privacy/other_samplers.md; on RF, section 4, and RS, Appendix K, which train so (rf.shuffle).

    Example: ten epochs of 100 batches; with Poisson's batches it would be 1.83.
        >>> from dptheory.privacy.samplers import shuffled_epsilon_lower_bound
        >>> round(shuffled_epsilon_lower_bound(noise_multiplier=1.0, batches=100, epochs=10, delta=1e-5), 2)
        9.36
    """
    sigma = _validate.real("noise_multiplier", noise_multiplier, *NOISE)
    m = _validate.integer("batches", batches, 1, MAX_BATCHES)
    epochs = _validate.integer("epochs", epochs, 1, MAX_EPOCHS)
    delta = _validate.real("delta", delta, *DELTA)
    adjacency = _validate.adjacency(adjacency)
    best = 0.0
    for with_, without in _SHIFTS[adjacency]:
        a, b = with_ / sigma, without / sigma
        best = max(best, gaussian_epsilon((a - b) * math.sqrt(epochs / m), delta) * (1 - 1e-9))
        for first, second in ((a, b), (b, a)):
            best = max(best, _largest_sum_epsilon(m, first, second, epochs, delta))
    return best


def shuffled_epsilon_upper_bound(
    *, noise_multiplier: float, epochs: int, delta: float, adjacency: str = "add-remove"
) -> float:
    r"""What a run spends at most in whose every epoch each record is in exactly one batch, in whatever order.

    The attacker is told the order. Then an epoch is one Gaussian mechanism, and the run one with

    .. math:: \mu = a \sqrt{\text{epochs}} / \sigma,

    a = 1 for a record against an empty one, 2 for a replaced one. It holds for batches shuffled afresh in each epoch, for an order
    that is kept, and for batches of any sizes, as long as the order does not depend on the records.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, in [0.05, 1000].
        epochs: 1 to 1000.
        delta: in [1e-30, 0.99].
        adjacency: "replace-one", or "add-remove": the record against an empty one that keeps its place.

    Returns:
        The upper bound, >= 0; what is surely spent of shuffled batches is :func:`shuffled_epsilon_lower_bound`.

    Source: proved in proofs/privacy/other_samplers.md; on RF, section 4, and RS, Appendix K, which train so (rf.shuffle).

    Example: ten epochs, of which at least 9.36 are spent where there are 100 batches.
        >>> from dptheory.privacy.samplers import shuffled_epsilon_upper_bound
        >>> round(shuffled_epsilon_upper_bound(noise_multiplier=1.0, epochs=10, delta=1e-5), 2)
        17.86
    """
    epochs = _validate.integer("epochs", epochs, 1, MAX_EPOCHS)
    told: dict[str, Any] = {"noise_multiplier": noise_multiplier, "delta": delta, "adjacency": adjacency}
    return epsilon_bounds(**told, sampling_rate=1.0, steps=epochs).upper


def _largest_sum_epsilon(m: int, first: float, second: float, epochs: int, delta: float) -> float:
    losses, masses = _largest_sum(m, first, second)

    def rounded_down(spacing: float) -> LatticeMasses:
        places = np.floor((losses - 1e-9) / spacing).astype(np.intp)
        low = int(places.min())
        return LatticeMasses(spacing, low, np.asarray(np.bincount(places - low, masses), dtype=np.float64))

    return attained_epsilon(rounded_down, float(np.ptp(losses)), epochs, delta)


def _largest_sum(m: int, first: float, second: float) -> tuple[Array, Array]:
    """Losses and probabilities of the cells of the largest of m sums, one of them moved by ``first`` against by ``second``."""
    top = math.sqrt(2 * math.log(m)) + max(first, second) + 12.0
    edges = np.concatenate([np.linspace(-12.0, top, _CELLS), [np.inf]])
    log_first, log_second = _log_probabilities(m, first, edges), _log_probabilities(m, second, edges)
    seen = (log_first > _SMALLEST) & (log_second > _SMALLEST)
    return (log_first - log_second)[seen], np.exp(log_first[seen])


def _log_probabilities(m: int, shift: float, edges: Array) -> Array:
    log_below = (m - 1) * scipy.special.log_ndtr(edges) + scipy.special.log_ndtr(edges - shift)
    with np.errstate(divide="ignore"):
        return np.asarray(log_below[1:] + np.log(-np.expm1(log_below[:-1] - log_below[1:])))
