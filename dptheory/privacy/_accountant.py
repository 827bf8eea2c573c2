"""Epsilon and delta of DP-SGD with steps that are alike."""

from dptheory import _validate
from dptheory._adjacency import ADJACENCIES
from dptheory.privacy._bounds import RTOL, EpsilonBounds, ProbabilityBounds, valid_delta
from dptheory.privacy._composition import alike_steps
from dptheory.privacy._parts import checked_step
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.renyi._sampled import sampled_renyi_epsilon


def epsilon_bounds(
    *,
    noise_multiplier: float,
    sampling_rate: float | None = None,
    steps: int,
    delta: float,
    adjacency: str = "add-remove",
    sampling: str = "poisson",
    steps_per_epoch: int | None = None,
    participations: int | None = None,
    direction: str = "worst",
    certified: bool = False,
    rtol: float = RTOL,
) -> EpsilonBounds:
    r"""Bounds of the smallest epsilon of ``steps`` subsampled Gaussian steps (DP-SGD).

    Each step releases the sum of the sampled, clipped gradients plus noise of standard deviation noise_multiplier times the
    clipping norm. With P, Q the laws of T steps on two neighbours, epsilon is the least one with

    .. math:: \sup_S\, P(S) - e^\epsilon Q(S) \le \delta .

    Two adjacencies and three ways of sampling:

    - "poisson": every record joins a step independently with probability ``sampling_rate``. Neighbours differ by a record
      more or less ("add-remove") or by the content of one ("replace-one": two opposite gradients are the
      worst pair, gip.replace_one).
    - "without replacement": every step takes exactly a share ``sampling_rate`` of the records; "replace-one" only. The
      lower bound is attained by data whose other records are all alike; the upper one holds for all data, also where the
      gradients of a step depend on earlier outputs. For epsilon above 1 and delta up to 1e-4 they are 1 to 5 % apart, as
      a rule; far more for small epsilon by rare sampling (26 % at noise 2, rate .001, 1,000 steps, delta 1e-4; 54 % at noise
      1.5, rate 1e-5, 10^5 steps, delta 1e-5), and for large delta, where the lower one can be 0 and the upper one is not
      (a table: proofs/privacy/fixed_size_batches.md).
    - "random allocation": every record takes part in exactly ``participations`` of the ``steps_per_epoch`` steps of an epoch, all such
      sets being equally likely, whatever the other records do, and afresh in every epoch. With one participation: balls in
      bins. It has no ``sampling_rate``; ``steps`` counts all steps, and a last epoch that is cut short costs at most a whole
      one. For one participation and "add-remove" the bounds are within 1e-3 of each other, relative, for noise 0.5 to 20, up to
      10^4 steps an epoch and up to 10^3 epochs. For several, and for "replace-one", both hold and are proved, and are further
      apart (proofs/privacy/random_allocation.md). Shuffled batches of one size are not this: which batch a record is in then
      says where the others are.

    For Poisson sampling the bounds come from one integral with every error bounded (proofs/privacy/saddle_line.md). delta at
    either bound is within 1e-9 of ``delta``, relative, for noise 0.4 to 20, rates from 1e-4, 100 to 10^6 steps and delta 1e-15
    to 0.1; within 1e-4 nearly everywhere else; in the rest the bounds hold, but are wider. Rounding is covered by a stated
    assumption about NumPy; ``certified`` computes the same integral in ball arithmetic, in seconds, and assumes nothing.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, in [0.05, 1000].
        sampling_rate: in [1e-8, 1]; left out for "random allocation".
        steps: >= 1; at most 10^6, and 10^12 with "random allocation".
        delta: in [1e-30, 0.99].
        adjacency: "add-remove" or "replace-one".
        sampling: "poisson", "without replacement" or "random allocation".
        steps_per_epoch: of random allocation, 1 to 10^6.
        participations: of random allocation, 1 to ``steps_per_epoch``; 1 if left out.
        direction: for "add-remove": "remove" (P has the record), "add" (Q has it), or "worst", the larger epsilon.
        certified: an enclosure in ball arithmetic (needs python-flint: ``pip install 'dptheory[certified]'``); Poisson sampling,
            noise in [0.4, 20], rates from 1e-4, 100 steps or more; or random allocation, one participation, add-remove.
        rtol: in (0, 1); of Poisson sampling, the relative width of delta at which nothing is asked that takes seconds.

    Returns:
        The bounds and what gave them. For sampling_rate 1 delta at either is within 2e-9 of ``delta``, relative: the closed form's.

    Raises:
        ValueError: an argument outside its range, or a combination that no accountant covers.

    Source: GIP, Lemma 1 and Theorem 2 (gip.thm2); RS, Theorem 3.1 (rs.thm3.1); RF, Tables 5-9 (rf.sigmas).

    Example: 100 steps on 2 % of the records, to ten digits.
        >>> from dptheory.privacy import epsilon_bounds
        >>> found = epsilon_bounds(noise_multiplier=1.0, sampling_rate=0.02, steps=100, delta=1e-5)
        >>> round(found.estimate, 2), found.upper - found.lower <= 1e-10
        (1.43, True)

        20 epochs of 50 steps, each record in one step of each: Poisson samples of the same size cost 3.90.
        >>> epochs = {"noise_multiplier": 1.0, "steps": 1000, "delta": 1e-5}
        >>> found = epsilon_bounds(**epochs, sampling="random allocation", steps_per_epoch=50)
        >>> round(found.lower, 2), round(found.upper, 2)
        (3.64, 3.64)
        >>> round(epsilon_bounds(**epochs, sampling_rate=1 / 50).upper, 2)
        3.9
    """
    run = alike_steps(
        noise_multiplier,
        sampling_rate,
        steps,
        adjacency=adjacency,
        sampling=sampling,
        steps_per_epoch=steps_per_epoch,
        participations=participations,
    )
    return run.epsilon(delta, direction=direction, certified=certified, rtol=rtol)


def delta_bounds(
    *,
    noise_multiplier: float,
    sampling_rate: float | None = None,
    steps: int,
    epsilon: float,
    adjacency: str = "add-remove",
    sampling: str = "poisson",
    steps_per_epoch: int | None = None,
    participations: int | None = None,
    direction: str = "worst",
    certified: bool = False,
    rtol: float = RTOL,
) -> ProbabilityBounds:
    r"""Bounds of the smallest delta of ``steps`` subsampled Gaussian steps at a given epsilon.

    .. math:: \delta(\epsilon) = \sup_S\, P(S) - e^\epsilon Q(S)

    The integral that :func:`epsilon_bounds` inverts; as narrow as is said there.

    Args:
        noise_multiplier, sampling_rate, steps, adjacency, sampling, steps_per_epoch, participations, direction, certified, rtol: as
            for :func:`epsilon_bounds`.
        epsilon: >= 0.

    Returns:
        The bounds, in [0, 1].

    Raises:
        ValueError: an argument outside its range, or a combination that no accountant covers.

    Source: GIP, Lemma 1 and Theorem 2 (gip.thm2).

    Example: the run that :func:`epsilon_bounds` gives 1.43 for at delta 1e-5.
        >>> from dptheory.privacy import delta_bounds
        >>> found = delta_bounds(noise_multiplier=1.0, sampling_rate=0.02, steps=100, epsilon=1.43)
        >>> f"{found.upper:.1e}", found.upper - found.lower <= 1e-9 * found.upper
        ('9.8e-06', True)
    """
    run = alike_steps(
        noise_multiplier,
        sampling_rate,
        steps,
        adjacency=adjacency,
        sampling=sampling,
        steps_per_epoch=steps_per_epoch,
        participations=participations,
    )
    return run.delta(epsilon, direction=direction, certified=certified, rtol=rtol)


def rdp_epsilon(
    *,
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    adjacency: str = "add-remove",
) -> float:
    """Upper bound of epsilon by Renyi differential privacy, for comparison; inf where it has none.

    Of Poisson samples: the least over all real orders in (1, 1e7], of the exact curve of
    :func:`dptheory.privacy.subsampled_gaussian_rdp`. The conversion is that of Balle et al. (2020), Theorem 21, which GIP
    uses; 0 where delta covers the distance that Bretagnolle and Huber's inequality allows, sqrt(1 - e^-R).

    Args:
        noise_multiplier, sampling_rate, steps, delta, adjacency: as for :func:`epsilon_bounds`.

    Returns:
        The upper bound.

    Raises:
        ValueError: an argument outside its range, or a combination that no accountant covers.

    Source: GIP, Lemma 1 (gip.lem1, gip.thm2); GEP, section 3 (gep.thm3.1).

    Example: 0.41 more than the 1.43 that :func:`epsilon_bounds` gives.
        >>> from dptheory.privacy import rdp_epsilon
        >>> round(rdp_epsilon(noise_multiplier=1.0, sampling_rate=0.02, steps=100, delta=1e-5), 2)
        1.84
    """
    step = checked_step(noise_multiplier, sampling_rate, steps)
    replaced = _validate.choice("adjacency", adjacency, ADJACENCIES) == "replace-one"
    loss = Loss("replace" if replaced else "remove", step.noise_multiplier, step.sampling_rate)
    return sampled_renyi_epsilon(loss, step.count, valid_delta(delta))
