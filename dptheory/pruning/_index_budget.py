"""A pure privacy budget of the index vectors, spread over the steps and groups of a run."""

import math
from dataclasses import dataclass
from fractions import Fraction

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.pruning._mallows import SubsetMallows, index_sensitivity

_MAX_DIM = 10**12
_MAX_RELEASES = 10**12


def groups_of(*, dim: int, group_size: int) -> int:
    """Number of groups of ``group_size`` entries in a gradient of ``dim`` entries; pad a gradient that does not divide.

    Args:
        dim: number of entries of the whole gradient, >= 1.
        group_size: entries of one group, a divisor of dim.

    Returns:
        The number of groups.

    Raises:
        ValueError: dim < 1, or a group_size that does not divide it.

    Source: GIP, Algorithm 1, line 1 (gip.budget).

    Example: a gradient of 2.7 million entries, padded to a multiple of 256.
        >>> from dptheory.pruning import groups_of
        >>> groups_of(dim=2_700_032, group_size=256)
        10547
    """
    dim = _validate.integer("dim", dim, 1)
    group_size = _validate.integer("group_size", group_size, 1, dim)
    if dim % group_size:
        raise ArgumentError("group_size", f"divide dim={dim}", group_size)
    return dim // group_size


def theta_for_budget(*, epsilon: float, dim: int, keep: int, steps: int = 1, groups: int = 1) -> float:
    """Dispersion theta that spends ``epsilon`` by basic composition over all groups of all steps.

    theta = epsilon / (steps * groups * index_sensitivity(dim, keep)): one example can move every group, so the groups
    compose like further steps.

    Args:
        epsilon: total pure-DP budget of the indices, > 0.
        dim, keep: size of one group, 2..1e12, and number kept in it, 1 <= keep < dim.
        steps, groups: numbers of steps and of groups per step, 1..1e12.

    Returns:
        theta, > 0.

    Source: GIP, Theorem 1 and section 4.2 (gip.thm1, gip.budget).

    Example: by hand: 1 / 52, as one example can change 52 places of the index vector.
        >>> from dptheory.pruning import theta_for_budget
        >>> round(theta_for_budget(epsilon=1.0, dim=256, keep=26), 5)
        0.01923
    """
    epsilon, dim, keep, releases = _checked(epsilon, dim, keep, steps, groups)
    spent = releases * index_sensitivity(dim, keep)
    theta = epsilon / spent
    return theta if Fraction(theta) * spent <= Fraction(epsilon) else math.nextafter(theta, 0.0)


def _checked(epsilon: float, dim: int, keep: int, steps: int, groups: int) -> tuple[float, int, int, int]:
    """epsilon, dim, keep and the number of releases, steps * groups."""
    epsilon = _validate.real("epsilon", epsilon, 0.0, ends="()")
    dim = _validate.integer("dim", dim, 2, _MAX_DIM)
    keep = _validate.integer("keep", keep, 1, dim - 1)
    steps = _validate.integer("steps", steps, 1, _MAX_RELEASES)
    return epsilon, dim, keep, steps * _validate.integer("groups", groups, 1, _MAX_RELEASES)


@dataclass(frozen=True, kw_only=True)
class IndexBudget:
    """What an index budget buys.

    Attributes:
        theta: dispersion.
        retained_gain: share of the top-k gain.
        total_variation: bound on the distance of the whole run from random-k.
    """

    theta: float
    retained_gain: float
    total_variation: float


def index_budget(*, epsilon: float, dim: int, keep: int, steps: int = 1, groups: int = 1) -> IndexBudget:
    r"""theta by :func:`theta_for_budget`, the rho that it leaves, and how far the run is from random-k.

    ``total_variation`` bounds the total-variation distance between everything that the index mechanism puts out over the
    whole run and the same run with random-k, whatever the gradients:
    :math:`\min(\tanh(\epsilon/4), \tfrac12\sqrt{2 N \theta \rho \mu})`, N = steps * groups, mu = keep (dim - keep) / dim.

    Args:
        epsilon, dim, keep, steps, groups: as for :func:`theta_for_budget`.

    Returns:
        theta, the retained gain, and the bound on the total variation.

    Source: GIP, section 6.1 (gip.budget).

    Example: an epsilon of 1 over 10,547 groups and 1000 steps leaves 3 of 10^10 parts of the top-k gain: it is random-k.
        >>> from dptheory.pruning import index_budget
        >>> f"{index_budget(epsilon=1.0, dim=256, keep=26, steps=1000, groups=10_547).retained_gain:.1e}"
        '3.3e-10'
    """
    epsilon, dim, keep, releases = _checked(epsilon, dim, keep, steps, groups)
    theta = epsilon / (releases * index_sensitivity(dim, keep))
    rho = SubsetMallows(dim, keep, theta=theta).retained_gain()
    # KL(P, U) + KL(U, P) is 2 N mu theta rho; theta * rho on its own may underflow.
    scale = releases * 2.0 * keep * (dim - keep) / dim
    pinsker = 0.5 * math.sqrt(scale) * math.sqrt(theta) * math.sqrt(rho)
    return IndexBudget(theta=theta, retained_gain=rho, total_variation=min(math.tanh(epsilon / 4), pinsker))


@dataclass(frozen=True, kw_only=True)
class SparseIndexBudget:
    """What an index budget buys where every example's gradient is sparse.

    Attributes:
        swaps: most entries that one example can exchange in a step, all groups together.
        theta: dispersion.
        retained_gain: share of the top-k gain.
    """

    swaps: int
    theta: float
    retained_gain: float


def sparse_index_budget(
    *, epsilon: float, nonzeros: int, dim: int, keep: int, steps: int = 1, groups: int = 1
) -> SparseIndexBudget:
    r"""theta and the retained gain if no example's gradient has more than ``nonzeros`` entries that are not zero.

    One example then exchanges at most :math:`\min(s, G\min(K, d - K))` members of the G top-K sets of a step, all groups
    together, and :math:`\theta = \epsilon / (2 T \min(s, G\min(K, d - K)))` spends epsilon over T steps. That is
    :func:`theta_for_budget` where s is as large as the gradient.

    Args:
        epsilon: total pure-DP budget of the indices, > 0.
        nonzeros: s, entries of the whole gradient (all groups) that one example can change, >= 1. Where neighbours replace an
            example it is twice as many as an example has.
        dim, keep: size of one group, 2..1e12, and number kept in it, 1 <= keep < dim.
        steps, groups: numbers of steps and of groups per step, 1..1e12.

    Returns:
        The swaps, theta and the retained gain.

    Source: GIP, new, on Theorem 1 (gip.sparse_examples).

    Example: one example in a hundred entries: ten times the theta, and still next to nothing of the top-k gain.
        >>> from dptheory.pruning import index_budget, sparse_index_budget
        >>> setting = dict(epsilon=1.0, dim=256, keep=26, steps=1000, groups=10_547)
        >>> bought = sparse_index_budget(nonzeros=27_000, **setting)
        >>> bought.swaps, round(bought.theta / index_budget(**setting).theta, 2), f"{bought.retained_gain:.1e}"
        (27000, 10.16, '3.4e-09')
    """
    epsilon = _validate.real("epsilon", epsilon, 0.0, ends="()")
    nonzeros = _validate.integer("nonzeros", nonzeros, 1, _MAX_DIM * _MAX_RELEASES)
    dim = _validate.integer("dim", dim, 2, _MAX_DIM)
    keep = _validate.integer("keep", keep, 1, dim - 1)
    steps = _validate.integer("steps", steps, 1, _MAX_RELEASES)
    groups = _validate.integer("groups", groups, 1, _MAX_RELEASES)
    swaps = min(nonzeros, groups * index_sensitivity(dim, keep) // 2)
    theta = epsilon / (steps * 2 * swaps)
    return SparseIndexBudget(
        swaps=swaps, theta=theta, retained_gain=SubsetMallows(dim, keep, theta=theta).retained_gain()
    )
