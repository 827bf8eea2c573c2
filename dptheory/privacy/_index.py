"""Privacy of the index mechanism: the law of its privacy loss, and the dispersion that a budget allows."""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dptheory import _validate, pruning
from dptheory.privacy import _renyi
from dptheory.privacy._largest_theta import largest_theta
from dptheory.privacy._lattice_loss import MAX_RELEASES, LatticeLoss
from dptheory.pruning import SubsetMallows

Array = NDArray[np.float64]
Method = Literal["basic", "zcdp", "exact"]

_METHODS = ("basic", "zcdp", "exact")
_CUT = 230.0  # nats: three factors of e^-230 do not underflow
_POINT_MASS = 300.0  # dispersion above which the mechanism returns its reference, up to e^-500


def loss_law(*, mechanism: SubsetMallows, distance: int | None = None) -> LatticeLoss:
    r"""Law of the privacy loss of two references at Hamming distance ``distance``, on the lattice of step 2 theta.

    With A, B the references, m = distance / 2 = |A \\ B| and I drawn around A, the loss is
    :math:`2\theta(X - Y)`, X = \|I ∩ (A \\ B)\|, Y = \|I ∩ (B \\ A)\|, and

    .. math:: P(x, y) \propto \binom mx\binom my e^{2\theta x}\; [t^{K-x-y}]\,(1 + e^{2\theta}t)^{K-m}(1+t)^{d-K-m} .

    The two orders of the pair have the same law. The pair at the largest distance dominates all others, so its law is the
    one to compose; releases compose as in :meth:`dptheory.privacy.LatticeLoss.delta`.

    The counts of X, Y, of the other members and of the other entries of I have binomial weights. Those below e^-230 of their
    largest are left out; ``log_omitted`` is then log(d^3 e^-230 / Z), Z the sum of all products of the four weights, each
    relative to its largest, with the odds tilted so that the mean size of I is K. Where nothing is left out it is -inf.

    Args:
        mechanism: the mechanism.
        distance: even integer in 2..2 max_swaps; None for the largest.

    Returns:
        The law.

    Raises:
        ValueError: distance outside its range.

    Source: GIP, Theorems 1 and 2 (gip.tight).

    Example: by hand: keep one of two at odds 3 : 1. The loss is log 3 three times in four, else -log 3.
        >>> import math
        >>> from dptheory.privacy import loss_law
        >>> from dptheory.pruning import SubsetMallows
        >>> law = loss_law(mechanism=SubsetMallows(2, 1, theta=math.log(3) / 2))
        >>> round(law.spacing, 4), law.low, [round(math.exp(log), 4) for log in law.log_pmf]
        (1.0986, -1, [0.25, 0.0, 0.75])
    """
    _validate.instance("mechanism", mechanism, SubsetMallows)
    if distance is None:
        distance = 2 * mechanism.max_swaps
    distance = _validate.integer("distance", distance, 2, 2 * mechanism.max_swaps)
    mechanism.epsilon(distance)  # an odd distance is an error
    m, theta = distance // 2, mechanism.theta
    if theta > _POINT_MASS:
        return LatticeLoss(spacing=2.0 * theta, low=m, log_pmf=np.zeros(1), top=m)
    # A tilt tau of all sizes changes nothing, as |I| is fixed; this one makes K the mean size of independent choices.
    log_tau = _log_size_tilt(mechanism)
    members, others = log_tau + 2.0 * theta, log_tau
    x_low, x_weight, x_cut = _binomial(m, members)
    y_low, y_weight, y_cut = _binomial(m, others)
    in_low, inside, in_cut = _binomial(mechanism.keep - m, members)
    out_low, outside, out_cut = _binomial(mechanism.dim - mechanism.keep - m, others)
    rest_low, rest = in_low + out_low, np.convolve(inside, outside)

    low = x_low - (y_low + y_weight.size - 1)
    law = np.zeros(x_weight.size + y_weight.size - 1)
    for y, weight in enumerate(y_weight, start=y_low):
        # x from x_low on; the rest of I has K - x - y members, which falls as x rises
        first = max(x_low, mechanism.keep - y - (rest_low + rest.size - 1))
        last = min(x_low + x_weight.size - 1, mechanism.keep - y - rest_low)
        if first > last:
            continue
        sizes = rest[mechanism.keep - y - last - rest_low : mechanism.keep - y - first - rest_low + 1][::-1]
        law[first - y - low : last - y - low + 1] += weight * x_weight[first - x_low : last - x_low + 1] * sizes
    total = float(law.sum())
    with np.errstate(divide="ignore"):
        log_pmf = np.log(law / total)
    omitted = (
        3.0 * math.log(mechanism.dim) - _CUT - math.log(total) if x_cut or y_cut or in_cut or out_cut else -math.inf
    )
    return LatticeLoss(spacing=2.0 * theta, low=low, log_pmf=log_pmf, top=m, log_omitted=omitted)


def _log_size_tilt(model: SubsetMallows) -> float:
    """log tau with K p(tau e^(2 theta)) + (d - K) p(tau) = K, p(o) = o / (1 + o)."""
    excess = float(model.dim - 2 * model.keep)
    product = 4.0 * model.keep * (model.dim - model.keep) * math.exp(2.0 * model.theta)
    root = math.sqrt(excess**2 + product)
    if excess >= 0:
        return math.log(2.0 * model.keep / (excess + root))
    return math.log((root - excess) / (2.0 * (model.dim - model.keep))) - 2.0 * model.theta


def _binomial(trials: int, log_odds: float) -> tuple[int, Array, bool]:
    """First value, weights relative to the mode, and whether weights below e^-230 were left out."""
    x = np.arange(trials, dtype=np.float64)
    ratios = np.log((trials - x) / (x + 1.0)) + log_odds
    mode = int(np.count_nonzero(ratios > 0))
    left = -np.cumsum(ratios[:mode][::-1])[::-1]
    logs = np.concatenate([left, [0.0], np.cumsum(ratios[mode:])])
    kept = np.flatnonzero(logs > -_CUT)
    return int(kept[0]), np.exp(logs[kept]), kept.size < logs.size


def theta_for_delta_budget(
    *, epsilon: float, delta: float, dim: int, keep: int, steps: int = 1, groups: int = 1, method: Method = "exact"
) -> float:
    r"""Dispersion with which steps * groups index releases are (epsilon, delta)-private, by one of three accountings.

    - ``"basic"``: pure epsilons add up, :func:`dptheory.pruning.theta_for_budget`; delta buys nothing.
    - ``"zcdp"``: rho = 2 theta^2 min(K, d - K) a release adds up: theta = sqrt(rho(epsilon, delta) / (2 N min(K, d - K))).
    - ``"exact"``: the composed lattice law of the worst pair itself; never less than the other two.

    All are for a given batch: nothing is amplified by sampling. Where index and values share one Poisson sample, use
    :func:`dptheory.privacy.theta_for_joint_budget`.

    Args:
        epsilon: in (0, 1e6].
        delta: in (0, 1).
        dim, keep: size of one group and number kept in it, 1 <= keep < dim.
        steps, groups: >= 1; every group of every step is one release, 1e12 releases at most.
        method: see above.

    Returns:
        theta, > 0.

    Raises:
        ValueError: an argument outside its range.

    Source: GIP, Theorems 1 and 2, section 4.2 (gip.tight).

    Example: 100 releases at epsilon 1: a delta of 1e-5 affords thirty times the theta of pure accounting, 1 / 5200.
        >>> from dptheory.privacy import theta_for_delta_budget
        >>> budget = dict(epsilon=1.0, delta=1e-5, dim=256, keep=26, steps=100)
        >>> [round(theta_for_delta_budget(**budget, method=how), 5) for how in ("basic", "zcdp", "exact")]
        [0.00019, 0.00242, 0.00613]
    """
    method = _validate.choice("method", method, _METHODS)  # type: ignore[assignment]
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    basic = pruning.theta_for_budget(epsilon=epsilon, dim=dim, keep=keep, steps=steps, groups=groups)
    steps, groups = _validate.integer("steps", steps, 1), _validate.integer("groups", groups, 1)
    rho = _renyi.zcdp_budget(epsilon=epsilon, delta=delta)
    if method == "basic":
        return basic
    concentrated = math.sqrt(rho / (steps * groups * pruning.index_sensitivity(dim, keep)))
    if method == "zcdp":
        return concentrated
    releases = _releases(steps, groups)

    def log_delta(theta: float) -> float:
        spent = loss_law(mechanism=SubsetMallows(dim, keep, theta=theta)).delta(epsilon=epsilon, count=releases)
        return math.log(spent) if spent > 0.0 else -math.inf

    return largest_theta(log_delta, math.log(delta), max(basic, concentrated))


def _releases(steps: int, groups: int) -> int:
    """Number of index releases, which the accounting takes up to 1e12."""
    steps, groups = _validate.integer("steps", steps, 1), _validate.integer("groups", groups, 1)
    releases = steps * groups
    if releases > MAX_RELEASES:
        raise ValueError(f"steps * groups must be an integer in 1..{MAX_RELEASES}, got {steps} * {groups}")
    return releases


def epsilon_for_retained_gain(
    *,
    retained_gain: float,
    delta: float,
    dim: int,
    keep: int,
    steps: int = 1,
    groups: int = 1,
    method: Method = "exact",
) -> float:
    r"""Epsilon that all index releases of a run cost where each retains the share ``retained_gain`` of the top-k gain.

    With theta from :func:`dptheory.pruning.theta_for_retained_gain`, N = steps * groups and s = 2 min(K, d - K):
    N theta s by basic composition, the conversion of N theta^2 s by zCDP, and the composed lattice law of the worst pair
    exactly. Under ``"exact"`` the least of the three; for a given batch, as :func:`theta_for_delta_budget`.

    Args:
        retained_gain: share rho in [0, 1]; 0 is random-k and costs nothing, 1 is top-k and costs inf.
        delta: in (0, 1).
        dim, keep: size of one group and number kept in it, 1 <= keep < dim.
        steps, groups: >= 1, 1e12 releases at most.
        method: "basic", "zcdp" or "exact".

    Returns:
        Epsilon in nats, in [0, inf].

    Raises:
        ValueError: an argument outside its range.

    Source: GIP, Theorems 1 and 2, sections 4.2 and 6.1 (gip.tight, gip.retained_gain).

    Example: one group of 256, 100 steps: 2 % of the top-k gain cost an epsilon of 30, half of it thousands.
        >>> from dptheory.privacy import epsilon_for_retained_gain
        >>> run = dict(delta=1e-5, dim=256, keep=26, steps=100)
        >>> [round(epsilon_for_retained_gain(retained_gain=gain, **run)) for gain in (0.02, 0.5)]
        [30, 4360]
    """
    method = _validate.choice("method", method, _METHODS)  # type: ignore[assignment]
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    theta = pruning.theta_for_retained_gain(retained_gain=retained_gain, dim=dim, keep=keep)
    steps, groups = _validate.integer("steps", steps, 1), _validate.integer("groups", groups, 1)
    releases = _releases(steps, groups)
    model = SubsetMallows(dim, keep, theta=theta)
    basic = releases * model.epsilon(2 * model.max_swaps)
    if method == "basic" or basic == 0.0 or math.isinf(basic):
        return basic
    rho = releases * model.zcdp(2 * model.max_swaps)
    concentrated = _renyi.zcdp_epsilon(zcdp_rho=rho, delta=delta) if rho <= _renyi.MAX_RHO else math.inf
    if method == "zcdp":
        return concentrated
    return min(basic, concentrated, loss_law(mechanism=model).epsilon(delta=delta, count=releases))


def retained_gain_for_delta_budget(
    *, epsilon: float, delta: float, dim: int, keep: int, steps: int = 1, groups: int = 1, method: Method = "exact"
) -> float:
    """Share rho of the top-k gain that the dispersion of :func:`theta_for_delta_budget` leaves.

    Args:
        epsilon, delta, dim, keep, steps, groups, method: as for :func:`theta_for_delta_budget`.

    Returns:
        The share, in [0, 1].

    Raises:
        ValueError: an argument outside its range.

    Source: GIP, section 6.1 (gip.tight).

    Example: an epsilon of 1 for 100 releases of a group of 256 retains a thousandth.
        >>> from dptheory.privacy import retained_gain_for_delta_budget
        >>> budget = dict(epsilon=1.0, delta=1e-5, dim=256, keep=26, steps=100)
        >>> [round(retained_gain_for_delta_budget(**budget, method=how), 4) for how in ("basic", "zcdp", "exact")]
        [0.0, 0.0004, 0.0011]
    """
    return SubsetMallows(
        dim,
        keep,
        theta=theta_for_delta_budget(
            epsilon=epsilon, delta=delta, dim=dim, keep=keep, steps=steps, groups=groups, method=method
        ),
    ).retained_gain()
