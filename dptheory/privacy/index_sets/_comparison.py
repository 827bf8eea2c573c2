"""What one budget buys for the index sets of a run under each accounting."""

import operator
from dataclasses import dataclass

from dptheory import _validate, pruning
from dptheory.errors import ArgumentError
from dptheory.privacy.index_sets._budgets import Method, theta_for_delta_budget
from dptheory.privacy.index_sets._joint import MAX_EPSILON, theta_for_joint_budget
from dptheory.privacy.methods.renyi._conversion import epsilon_from_rdp
from dptheory.privacy.methods.renyi._curves import ORDERS, subsampled_gaussian_rdp


@dataclass(frozen=True, kw_only=True)
class IndexChoice:
    """What an accounting allows for.

    Attributes:
        theta: dispersion of the Mallows mechanism.
        retained_gain: share of the top-k gain that it keeps.
    """

    theta: float
    retained_gain: float


@dataclass(frozen=True, kw_only=True)
class IndexAccountings:
    """What the same budget buys under each accounting.

    Attributes:
        basic: epsilons add up.
        zcdp: zero-concentrated privacy adds up.
        exact: the law of the privacy loss is composed.
        joint: index sets and values of one Poisson sample, accounted for together; None without a sample.
        values_epsilon: epsilon of the values alone, by Renyi privacy; None without a sample.
        least_retained_gain: share of the top-k gain needed to point as well as DP-SGD; above 1 even top-k does not.
    """

    basic: IndexChoice
    zcdp: IndexChoice
    exact: IndexChoice
    joint: IndexChoice | None
    values_epsilon: float | None
    least_retained_gain: float


def compare_index_accountings(
    *,
    dim: int,
    keep: int,
    epsilon: float,
    delta: float,
    steps: int = 1,
    groups: int = 1,
    sampling_rate: float | None = None,
    noise_multiplier: float | None = None,
) -> IndexAccountings:
    r"""Dispersion and share of the top-k gain by basic composition, zCDP, exactly, and with the values of one sample.

    :func:`dptheory.privacy.index_sets.theta_for_delta_budget` with its three methods; with a sample also
    :func:`~dptheory.privacy.index_sets.theta_for_joint_budget` at epsilon on top of what the values spend alone by Renyi privacy.

    Args:
        dim: entries of one group, 2..1e12.
        keep: entries kept in one group, 1..dim - 1.
        epsilon: budget that the index sets may add to the run, > 0.
        delta: of the run, in (0, 1).
        steps: steps of the run; at least 1; steps * groups at most 1e12.
        groups: groups in a step.
        sampling_rate: q of the Poisson sample, in [0, 1]; given with ``noise_multiplier``.
        noise_multiplier: sigma of the values, > 0; given with ``sampling_rate``.

    Returns:
        The choices; theta of ``joint`` is inf where an example joins a batch so seldom that delta covers it.

    Raises:
        ValueError: an argument outside its range, values that spend 1e6 and more, or one of ``sampling_rate``
            and ``noise_multiplier`` without the other.

    Source: GIP, Theorem 2 and section 6.1 (gip.thm2, gip.tight).

    Example: the exact composition buys the largest dispersion.
        >>> from dptheory.privacy.index_sets import compare_index_accountings
        >>> found = compare_index_accountings(dim=256, keep=26, epsilon=1.0, delta=1e-5, steps=10, groups=100)
        >>> found.basic.theta < found.zcdp.theta < found.exact.theta
        True
    """
    if (sampling_rate is None) != (noise_multiplier is None):
        given = f"{sampling_rate!r} and {noise_multiplier!r}"
        raise ArgumentError("sampling_rate and noise_multiplier", "be given together", sampling_rate, got=f"{given}")

    epsilon = _validate.real("epsilon", epsilon, 0.0, ends="()")

    def choice(theta: float) -> IndexChoice:
        return IndexChoice(theta=theta, retained_gain=pruning.retained_gain(dim, keep, theta=theta))

    def alone(method: Method) -> IndexChoice:
        return choice(
            theta_for_delta_budget(
                epsilon=epsilon, delta=delta, dim=dim, keep=keep, steps=steps, groups=groups, method=method
            )
        )

    basic, zcdp, exact = alone("basic"), alone("zcdp"), alone("exact")
    joint = values_epsilon = None
    if sampling_rate is not None and noise_multiplier is not None:
        curve = operator.index(steps) * subsampled_gaussian_rdp(
            orders=ORDERS, sampling_rate=sampling_rate, noise_multiplier=noise_multiplier
        )
        values_epsilon = epsilon_from_rdp(orders=ORDERS, rdp=curve, delta=delta)
        if not values_epsilon < MAX_EPSILON:
            raise ArgumentError(
                "noise_multiplier",
                f"leave the values an epsilon below {MAX_EPSILON:g}",
                noise_multiplier,
                got=f"{_validate.shown(noise_multiplier)} with epsilon {values_epsilon:g}",
            )
        theta = theta_for_joint_budget(
            epsilon=values_epsilon + epsilon,
            delta=delta,
            dim=dim,
            keep=keep,
            sampling_rate=sampling_rate,
            noise_multiplier=noise_multiplier,
            steps=steps,
            groups=groups,
        )
        joint = choice(theta)
    return IndexAccountings(
        basic=basic,
        zcdp=zcdp,
        exact=exact,
        joint=joint,
        values_epsilon=values_epsilon,
        least_retained_gain=pruning.least_retained_gain(dim, keep, groups=groups),
    )
