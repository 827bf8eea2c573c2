"""The three questions of somebody who trains: what is spent, how much noise, how many steps."""

from dataclasses import dataclass

from dptheory.privacy._accountant import epsilon_bounds, rdp_epsilon
from dptheory.privacy._bounds import EpsilonBounds
from dptheory.privacy._budgets import least_noise_multiplier, max_steps


@dataclass(frozen=True, kw_only=True)
class EpsilonReport:
    """What a run spends.

    Attributes:
        bounds: of the smallest epsilon; report ``bounds.upper``.
        rdp: upper bound by Renyi privacy, for comparison; None where the adjacency is not "add-remove".
    """

    bounds: EpsilonBounds
    rdp: float | None


@dataclass(frozen=True, kw_only=True)
class NoiseAnswer:
    """The least noise that keeps a budget.

    Attributes:
        noise_multiplier: sigma; 0.05, the least that is accounted for, where less would do.
        bounds: of the epsilon that the run spends with it.
    """

    noise_multiplier: float
    bounds: EpsilonBounds


@dataclass(frozen=True, kw_only=True)
class StepsAnswer:
    """The most steps that keep a budget.

    Attributes:
        steps: their number; 0 where not even one fits; 10^6, the most that is accounted for, where more may fit.
        epochs: steps * sampling_rate, the mean number of times that a record is drawn.
    """

    steps: int
    epochs: float


def epsilon_report(
    *,
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    adjacency: str = "add-remove",
    sampling: str = "poisson",
    certified: bool = False,
) -> EpsilonReport:
    r"""Epsilon of a run of DP-SGD: the bounds to report, and the bound by Renyi privacy beside them.

    :func:`dptheory.privacy.epsilon_bounds`, and :func:`~dptheory.privacy.rdp_epsilon` for "add-remove".

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, in [0.05, 1000].
        sampling_rate: in [1e-8, 1].
        steps: 1 to 10^6.
        delta: in [1e-30, 0.99].
        adjacency: "add-remove" or "replace-one".
        sampling: "poisson" or "without replacement", the latter with "replace-one".
        certified: the bounds as enclosures in ball arithmetic, as for :func:`dptheory.privacy.epsilon_bounds`.

    Returns:
        The bounds, and epsilon by Renyi privacy, None for other adjacencies.

    Raises:
        ValueError: an argument outside its range, or a combination that no accountant covers.

    Source: GIP, Lemma 1 and Theorem 2 (gip.thm2); RS, Theorem 3.1 (rs.thm3.1).

    Example: one release of the Gaussian mechanism, which is known exactly.
        >>> from dptheory.privacy.answers import epsilon_report
        >>> found = epsilon_report(noise_multiplier=1.0, sampling_rate=1.0, steps=1, delta=1e-5)
        >>> round(found.bounds.upper, 3), found.bounds.method, found.rdp > found.bounds.upper
        (4.377, 'Gaussian', True)
    """
    bounds = epsilon_bounds(
        noise_multiplier=noise_multiplier,
        sampling_rate=sampling_rate,
        steps=steps,
        delta=delta,
        adjacency=adjacency,
        sampling=sampling,
        certified=certified,
    )
    if adjacency != "add-remove":
        return EpsilonReport(bounds=bounds, rdp=None)
    rdp = rdp_epsilon(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, steps=steps, delta=delta)
    return EpsilonReport(bounds=bounds, rdp=rdp)


def noise_for_budget(
    *,
    epsilon: float,
    delta: float,
    sampling_rate: float,
    steps: int,
    adjacency: str = "add-remove",
    sampling: str = "poisson",
    certified: bool = False,
) -> NoiseAnswer:
    r"""The least noise multiplier that keeps a budget, and what the run then spends.

    :func:`dptheory.privacy.least_noise_multiplier`, and :func:`~dptheory.privacy.epsilon_bounds` with it: ``bounds.upper``
    is at most epsilon.

    Args:
        epsilon: the budget, > 0.
        delta: in [1e-30, 0.99].
        sampling_rate: in [1e-8, 1].
        steps: 1 to 10^6.
        adjacency: "add-remove" or "replace-one".
        sampling: "poisson" or "without replacement", the latter with "replace-one".
        certified: the bounds as enclosures in ball arithmetic, as for :func:`dptheory.privacy.epsilon_bounds`.

    Returns:
        The noise multiplier and the bounds of what it spends.

    Raises:
        ValueError: an argument outside its range, or more noise needed than sigma = 1000.

    Source: GIP, Theorem 2 (gip.thm2); RS, Theorem 3.1 (rs.thm3.1); RF, Tables 5-9 (rf.sigmas).

    Example: one release for epsilon = 1.
        >>> from dptheory.privacy.answers import noise_for_budget
        >>> found = noise_for_budget(epsilon=1.0, delta=1e-5, sampling_rate=1.0, steps=1)
        >>> round(found.noise_multiplier, 2), found.bounds.upper <= 1.0
        (3.73, True)
    """
    sigma = least_noise_multiplier(
        epsilon=epsilon,
        delta=delta,
        sampling_rate=sampling_rate,
        steps=steps,
        adjacency=adjacency,
        sampling=sampling,
        certified=certified,
    )
    bounds = epsilon_bounds(
        noise_multiplier=sigma,
        sampling_rate=sampling_rate,
        steps=steps,
        delta=delta,
        adjacency=adjacency,
        sampling=sampling,
        certified=certified,
    )
    return NoiseAnswer(noise_multiplier=sigma, bounds=bounds)


def steps_for_budget(
    *,
    epsilon: float,
    delta: float,
    noise_multiplier: float,
    sampling_rate: float,
    adjacency: str = "add-remove",
    sampling: str = "poisson",
    certified: bool = False,
) -> StepsAnswer:
    r"""The most steps that keep a budget, by :func:`dptheory.privacy.max_steps`, and the epochs that they are.

    Args:
        epsilon: the budget, > 0.
        delta: in [1e-30, 0.99].
        noise_multiplier: standard deviation of the noise over the clipping norm, in [0.05, 1000].
        sampling_rate: in [1e-8, 1].
        adjacency: "add-remove" or "replace-one".
        sampling: "poisson" or "without replacement", the latter with "replace-one".
        certified: the bounds as enclosures in ball arithmetic, as for :func:`dptheory.privacy.epsilon_bounds`.

    Returns:
        The number of steps, and the epochs that they make.

    Raises:
        ValueError: an argument outside its range.

    Source: GIP, Theorem 2 (gip.thm2); RS, Theorem 3.1 (rs.thm3.1).

    Example: full batches with much noise.
        >>> from dptheory.privacy.answers import steps_for_budget
        >>> found = steps_for_budget(epsilon=1.0, delta=1e-5, noise_multiplier=20.0, sampling_rate=1.0)
        >>> found.steps, found.epochs
        (28, 28.0)
    """
    steps = max_steps(
        epsilon=epsilon,
        delta=delta,
        noise_multiplier=noise_multiplier,
        sampling_rate=sampling_rate,
        adjacency=adjacency,
        sampling=sampling,
        certified=certified,
    )
    return StepsAnswer(steps=steps, epochs=steps * float(sampling_rate))
