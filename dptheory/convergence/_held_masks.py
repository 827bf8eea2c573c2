"""The descent bound for masks that are held through an epoch."""

import math
from dataclasses import dataclass

import numpy as np

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.convergence import _ranges as ranges
from dptheory.convergence._terms import DescentBound, batch_second_moment, changing_sums

# --- The arguments of the bounds for masks that are held through epochs, and what an epoch is sure to gain


@dataclass(frozen=True, kw_only=True)
class HeldEpochs:
    """Epochs that hold one mask each; rows have shape (epochs,).

    Attributes:
        gap: 2 G Delta.
        steps_per_epoch: n.
        moves: gamma_e G.
        keeps: x_e, the share of entries that the mask keeps.
        descents: rho_e, the share of the gap that an epoch is sure to gain.
        sampled: s^2 / B.
        noise: d sigma^2 / B^2.
    """

    gap: float
    steps_per_epoch: int
    moves: Array
    keeps: Array
    descents: Array
    sampled: float
    noise: float


def held_epochs(
    *,
    objective_gap: float,
    learning_rate: ArrayLike,
    epochs: int,
    steps_per_epoch: int,
    smoothness: float,
    deviation_norm: float,
    sum_noise_std: float,
    dim: int | None,
    batch_size: int | None,
    drop_rate: ArrayLike,
    most: int,
) -> HeldEpochs:
    """The arguments within their ranges; ``most`` epochs."""
    objective_gap, smoothness = ranges.gap(objective_gap), ranges.positive("smoothness", smoothness)
    deviation_norm, sum_noise_std = (
        ranges.not_negative("deviation_norm", deviation_norm),
        ranges.not_negative("sum_noise_std", sum_noise_std),
    )
    epochs = _validate.integer("epochs", epochs, 1, most)
    steps_per_epoch = _validate.integer("steps_per_epoch", steps_per_epoch, 1, ranges.MAX_COUNT)
    dim = ranges.beside_noise("dim", dim, ranges.MAX_DIM, "sum_noise_std", sum_noise_std)
    batch_size = ranges.beside_noise("batch_size", batch_size, ranges.MAX_COUNT, "sum_noise_std", sum_noise_std)
    rates = _validate.per_step("learning_rate", learning_rate, epochs, 1e-70, 2 / smoothness, ends="[)", each="epochs")
    moves = smoothness * rates
    keeps = 1 - _validate.per_step("drop_rate", drop_rate, epochs, 0.0, 1.0, ends="[)", each="epochs")
    moves, keeps = np.broadcast_to(moves, epochs), np.broadcast_to(keeps, epochs)
    return HeldEpochs(
        gap=2 * smoothness * objective_gap,
        steps_per_epoch=steps_per_epoch,
        moves=moves,
        keeps=keeps,
        descents=_descents(moves, keeps, steps_per_epoch, bool(deviation_norm or sum_noise_std)),
        sampled=deviation_norm**2 / batch_size,
        noise=dim * (sum_noise_std / batch_size) ** 2,
    )


def _descents(moves: Array, keeps: Array, steps_per_epoch: int, noisy: bool) -> Array:
    if noisy or (moves > 1).any():
        return keeps * moves * (2 - moves)
    with np.errstate(divide="ignore"):  # one step of length 1 / G leaves nothing
        return np.asarray(keeps * -np.expm1(2 * steps_per_epoch * np.log1p(-moves)))


_MAX_EPOCHS = 10**7


def held_mask_bound(
    *,
    objective_gap: float,
    learning_rate: ArrayLike,
    epochs: int,
    steps_per_epoch: int,
    smoothness: float,
    deviation_norm: float = 0.0,
    sum_noise_std: float = 0.0,
    dim: int | None = None,
    batch_size: int | None = None,
    drop_rate: ArrayLike = 0.0,
) -> DescentBound:
    r"""Bound on sum_e rho_e E|grad_e|^2 / sum_e rho_e over the first iterates of epochs that hold one mask for n steps.

    Without deviations and noise, and gamma_e G <= 1: rho_e = x_e (1 - (1 - gamma_e G)^{2n}), and with
    p_e = 1 - prod_{i>=e} (1 - rho_i) the bound is 2 G Delta p_1 / sum_e rho_e: the worst case, attained by L = G |w|^2 / 2.
    Otherwise rho_e = x_e gamma_e G (2 - gamma_e G), what the first step of an epoch is sure to gain, and the bound is
    (2 G Delta p_1 + n sum_e (gamma_e G)^2 (s^2 / B + x_e d sigma^2 / B^2) p_{e+1}) / sum_e rho_e. It is not sharp for n > 1: with
    the least deviation or noise it jumps up, in the example from 0.400 to 1.329. At n = 1 it counts the deviations in full, of
    which a fresh mask passes the share x_e: :func:`plain_mean_bound` and :func:`noisy_sgd_bound` with ``sampling="fixed"`` count
    that share. Where step size and mask are the same in all epochs it bounds the plain mean.

    Needs, and cannot check: L is G-smooth and bounded below; no momentum; at every epoch a fresh mask, independent of the
    iterate; fresh noise and fresh batches of B independent draws, their deviations of mean zero given iterate and mask.

    Args:
        objective_gap: Delta in [0, 1e140].
        learning_rate: gamma_e in [1e-70, 2 / G), a number or shape (epochs,).
        epochs: 1..1e7.
        steps_per_epoch: n, 1..1e12.
        smoothness: G in [1e-35, 1e35].
        deviation_norm: s with E|g_i - grad|^2 <= s^2, 0 or in [1e-35, 1e35].
        sum_noise_std: standard deviation sigma of an entry of the noise on the sum of the batch, 0 or in [1e-35, 1e35].
        dim: d, 1..1e18, counted only where there is noise; needed there.
        batch_size: B, 1..1e12, the number that the sum is divided by; needed where there is noise. Without noise None takes 1,
            whose bound holds for every B.
        drop_rate: share of entries that the mask of an epoch drops, in [0, 1), a number or shape (epochs,).

    Returns:
        The terms; ``clipping`` is the part of the sampling deviation, ``bias`` is 0.

    Source: RS, Algorithm 1 without clipping and momentum; our own (rs.held_masks).

    Example: half of the entries, 10 epochs of 100 steps: little better than 10 steps with fresh masks, far from 1000.
        >>> from dptheory.convergence import held_mask_bound, noisy_sgd_bound
        >>> run = dict(objective_gap=1.0, learning_rate=0.1, smoothness=1.0, drop_rate=0.5)
        >>> round(held_mask_bound(epochs=10, steps_per_epoch=100, **run).value, 3)
        0.4
        >>> round(noisy_sgd_bound(steps=1000, **run).value, 3)
        0.022
    """
    run = held_epochs(
        objective_gap=objective_gap,
        learning_rate=learning_rate,
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        smoothness=smoothness,
        deviation_norm=deviation_norm,
        sum_noise_std=sum_noise_std,
        dim=dim,
        batch_size=batch_size,
        drop_rate=drop_rate,
        most=_MAX_EPOCHS,
    )
    per_gap, per_deviation = changing_sums(run.descents, run.steps_per_epoch * run.moves**2)
    _, per_noise = changing_sums(run.descents, run.steps_per_epoch * run.keeps * run.moves**2)
    return DescentBound(
        optimization=run.gap * per_gap,
        clipping=per_deviation * run.sampled,
        noise=per_noise * run.noise,
        bias=0.0,
    )


# --- The descent bound for the plain mean where step sizes and masks change


_MOST_ONE_BY_ONE = 10**6  # they are gone through one by one


def plain_mean_bound(
    *,
    objective_gap: float,
    learning_rate: ArrayLike,
    epochs: int,
    steps_per_epoch: int,
    smoothness: float,
    deviation_norm: float = 0.0,
    sum_noise_std: float = 0.0,
    dim: int | None = None,
    batch_size: int | None = None,
    drop_rate: ArrayLike = 0.0,
) -> DescentBound:
    r"""Bound on the plain mean (1/E) sum_e E|grad_e|^2 over the first iterates of E epochs that hold one mask for n steps.

    With rho_e as in :func:`held_mask_bound` and q_e = q_{e+1} + max(0, 1 - rho_e q_{e+1}), q_{E+1} = 0, the bound is
    (2 G Delta q_1 + n sum_e (gamma_e G)^2 (y_e s^2 / B + x_e d sigma^2 / B^2) q_{e+1}) / E, y_e = x_e for n = 1 and 1 for n > 1.

    Where rho_e never falls (a mask that is relaxed at a fixed step size) it is the worst case for n = 1, and without deviation
    and noise for gamma_e G <= 1. Where rho_e falls (gradual cooling, a decaying step) early epochs can count for nothing, as if
    the run had begun later: a function can save its gap for the epochs that use little of it. For n > 1 the least deviation or
    noise lifts it, as it does :func:`held_mask_bound`.

    Needs, and cannot check: what :func:`held_mask_bound` needs.

    Args:
        objective_gap: Delta in [0, 1e140].
        learning_rate: gamma_e in [1e-70, 2 / G), a number or shape (epochs,).
        epochs: E, 1..1e6; with fresh masks the number of steps.
        steps_per_epoch: n, 1..1e12; 1 for fresh masks.
        smoothness: G in [1e-35, 1e35].
        deviation_norm: s with E|g_i - grad|^2 <= s^2, 0 or in [1e-35, 1e35].
        sum_noise_std: standard deviation sigma of an entry of the noise on the sum of the batch, 0 or in [1e-35, 1e35].
        dim: d, 1..1e18, counted only where there is noise; needed there.
        batch_size: B, 1..1e12, the number that the sum is divided by; needed where there is noise. Without noise None takes 1,
            whose bound holds for every B.
        drop_rate: share of entries that the mask of an epoch drops, in [0, 1), a number or shape (epochs,).

    Returns:
        The terms; ``clipping`` is the part of the sampling deviation, ``bias`` is 0.

    Source: RS and RF, gradual cooling, without clipping and momentum; our own (rs.cooled_masks).

    Example: 1000 fresh masks: from none to 90 % dropped, the other way round, and 90 % all the time.
        >>> import numpy as np
        >>> from dptheory.convergence import plain_mean_bound
        >>> run = dict(objective_gap=1.0, learning_rate=0.1, epochs=1000, steps_per_epoch=1, smoothness=1.0)
        >>> cooling = np.linspace(0.0, 0.9, 1000)
        >>> [round(plain_mean_bound(drop_rate=rate, **run).value, 3) for rate in (cooling, cooling[::-1], 0.9)]
        [0.062, 0.081, 0.105]
    """
    run = held_epochs(
        objective_gap=objective_gap,
        learning_rate=learning_rate,
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        smoothness=smoothness,
        deviation_norm=deviation_norm,
        sum_noise_std=sum_noise_std,
        dim=dim,
        batch_size=batch_size,
        drop_rate=drop_rate,
        most=_MOST_ONE_BY_ONE,
    )
    counted = [0.0]  # q_e from the last epoch on: what a gap at the start of epoch e can add to the sum, over 2 G
    for descent in run.descents[::-1].tolist():
        counted.append(counted[-1] + max(0.0, 1 - descent * counted[-1]))
    kicks = run.steps_per_epoch * run.moves**2 * counted[-2::-1]
    reached = run.keeps if run.steps_per_epoch == 1 else 1.0  # a held mask acts on the deviations through the iterate
    return DescentBound(
        optimization=run.gap * counted[-1] / len(run.descents),
        clipping=float((kicks * reached).mean()) * run.sampled,
        noise=float((kicks * run.keeps).mean()) * run.noise,
        bias=0.0,
    )


# --- The descent bound for masked SGD with momentum, masks fresh or held through an epoch, over all steps


def momentum_mask_bound(
    *,
    objective_gap: float,
    learning_rate: float,
    momentum: float,
    epochs: int,
    steps_per_epoch: int,
    smoothness: float,
    deviation_norm: float = 0.0,
    sum_noise_std: float = 0.0,
    dim: int | None = None,
    batch_size: int | None = None,
    drop_rate: ArrayLike = 0.0,
) -> float:
    r"""Bound on the mean of E|grad_t|^2 over all steps t, weighted by x_t, of masked SGD with momentum.

    With g = gamma G / (1 - mu), k = g mu / (1 - mu), P = 2 - g, V the mean second moment of deviation and noise on the kept
    entries, N = (1 - mu) V, T steps, R = 2 Delta (1 - mu) / (gamma T) + g V:

    K = (P R + 2 k^2 N + 2 k sqrt(R^2 + P R N + k^2 N^2)) / (P^2 - 4 k^2)

    bounds the mean of E|m * grad|^2 for any masks. With fresh masks (n = 1) the bound is K over the mean of x_e. With masks
    held for n steps it is (sqrt(K) + sqrt(W))^2 over the mean of x_e, with
    sqrt(W) = g sqrt(n (n - 1) / 2) (sqrt(K) + sqrt(V / n)) + k sqrt(K + N). Where it is less, what holds
    at every step is taken: (sqrt(2 G Delta + g^2 (1 + mu) (T - 1) U) + k sqrt((1 - mu) (T K + U)))^2, U the largest second
    moment of a step.

    Within a factor of two of the worst case over long runs with fresh masks of one ``drop_rate`` where
    gamma G <= 0.4 (1 - mu)^2 / (1 + mu); further from it in short runs.

    Needs, and cannot check: L is G-smooth and bounded below; momentum as torch.optim.SGD has it (velocity 0 at first,
    no dampening, no Nesterov), never reset; a mask uniform given the past at the start of each epoch; fresh noise and fresh
    batches of B independent draws, their deviations of mean zero given iterate and mask.

    Args:
        objective_gap: Delta in [0, 1e140].
        learning_rate: gamma in [1e-70, 2 (1 - 1e-9) (1 - mu)^2 / ((1 + mu) G)].
        momentum: mu in [0, 1 - 1e-6].
        epochs: 1..1e7; with fresh masks the number of steps.
        steps_per_epoch: n, 1..1e12; 1 for fresh masks.
        smoothness: G in [1e-35, 1e35].
        deviation_norm: s with E|g_i - grad|^2 <= s^2, 0 or in [1e-35, 1e35].
        sum_noise_std: standard deviation sigma of an entry of the noise on the sum of the batch, 0 or in [1e-35, 1e35].
        dim: d, 1..1e18, counted only where there is noise; needed there.
        batch_size: B, 1..1e12, the number that the sum is divided by; needed where there is noise. Without noise None takes 1,
            whose bound holds for every B.
        drop_rate: share of entries that the mask of an epoch drops, 1 - x_e in [0, 1), a number or shape (epochs,).

    Returns:
        The bound, in squared units of the gradient. With one ``drop_rate`` for all epochs it bounds the plain mean.

    Source: RS, Algorithm 1 without clipping; our own (rs.momentum_masks, rs.held_steps).

    Example: by hand: half of the entries, no noise: 2 Delta / (x gamma T (2 - gamma G)); at n gamma G = 1 nearly 3 times that.
        >>> from dptheory.convergence import momentum_mask_bound
        >>> run = dict(objective_gap=1.0, learning_rate=0.001, momentum=0.0, smoothness=1.0, drop_rate=0.5)
        >>> [round(momentum_mask_bound(epochs=10**6 // n, steps_per_epoch=n, **run), 5) for n in (1, 1000)]
        [0.002, 0.00583]
    """
    objective_gap, smoothness = ranges.gap(objective_gap), ranges.positive("smoothness", smoothness)
    deviation_norm, sum_noise_std = (
        ranges.not_negative("deviation_norm", deviation_norm),
        ranges.not_negative("sum_noise_std", sum_noise_std),
    )
    momentum = _validate.real("momentum", momentum, 0.0, 1 - 1e-6)
    rest = 1 - momentum
    longest = 2 * (1 - 1e-9) * rest**2 / ((1 + momentum) * smoothness)
    learning_rate = _validate.real("learning_rate", learning_rate, 1e-70, longest)
    epochs = _validate.integer("epochs", epochs, 1, _MAX_EPOCHS)
    held = _validate.integer("steps_per_epoch", steps_per_epoch, 1, ranges.MAX_COUNT)
    dim = ranges.beside_noise("dim", dim, ranges.MAX_DIM, "sum_noise_std", sum_noise_std)
    batch_size = ranges.beside_noise("batch_size", batch_size, ranges.MAX_COUNT, "sum_noise_std", sum_noise_std)
    rates = _validate.per_step("drop_rate", drop_rate, epochs, 0.0, 1.0, ends="[)", each="epochs")
    keeps = 1 - np.atleast_1d(rates)
    share = float(keeps.mean())
    variance, largest = (
        # a fresh mask is independent of the deviations; a held one acts on them through the iterate
        (kept_share if held == 1 else 1.0) * deviation_norm**2 / batch_size
        + kept_share * dim * (sum_noise_std / batch_size) ** 2
        for kept_share in (share, float(keeps.max()))
    )
    move = learning_rate / rest * smoothness
    steps, lag, restless = epochs * held, move * momentum / rest, rest * variance
    kept = _kept_mean(move, momentum, 2 * objective_gap * (rest / learning_rate) / steps + move * variance, restless)
    height = 2 * smoothness * objective_gap + move**2 * (1 + momentum) * (steps - 1) * largest
    at_every_step = math.sqrt(height) + lag * math.sqrt(rest * (steps * kept + largest))
    over_the_run = math.sqrt(kept)
    if held > 1 and (keeps < 1).any():
        drift = move * math.sqrt(held * (held - 1) / 2) * (math.sqrt(kept) + math.sqrt(variance / held))
        over_the_run += drift + lag * math.sqrt(kept + restless)
    return min(at_every_step**2, over_the_run**2 / share)


def _kept_mean(move: float, momentum: float, fixed: float, restless: float) -> float:
    """The positive root K of (2 - g) K - 2 k sqrt(K (K + N)) = R, k = g mu / (1 - mu); R = fixed, N = restless."""
    unit = max(fixed, restless)
    if unit == 0:
        return 0.0
    fixed, restless = fixed / unit, restless / unit  # their squares neither over- nor underflow
    lag = move * momentum / (1 - momentum)
    most = 2 - move
    slack = 2 - move * (1 + momentum) / (1 - momentum)  # most - 2 lag, without its rounding
    root = math.sqrt(fixed**2 + most * fixed * restless + (lag * restless) ** 2)
    return unit * (most * fixed + 2 * lag**2 * restless + 2 * lag * root) / (slack * (most + 2 * lag))


# --- Descent bounds for the printed algorithm: clipped gradients, masks held through an epoch that are tightened, momentum


def clipped_mask_bound(
    *,
    objective_gap: float,
    learning_rate: float,
    momentum: float,
    epochs: int,
    steps_per_epoch: int,
    smoothness: float,
    clip_norm: float,
    noise_multiplier: float = 0.0,
    dim: int | None = None,
    batch_size: int | None = None,
    drop_rate: ArrayLike = 0.0,
    probability: float = 1.0,
    deviation_share: float = 0.75,
    bias: float | None = None,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
) -> float:
    r"""Bound on the mean of E phi(|grad_t|) over all steps t, weighted by x_t: clipped gradients, held masks, momentum, noise.

    phi(a) = a min(a, c), c = (1 - z) C. With g = gamma G / (1 - mu), k = g mu / (1 - mu), R = Delta (1 - mu) / (gamma T), S the
    variance of a batch ((1 - q) C^2 / B for Poisson batches, C^2 / B for those of fixed size), V = S + x d (C sigma / B)^2:

    K = (R + g (C^2 + V) / 2 + k C sqrt(C^2 + (1 - mu) V) - bias) / p

    bounds the mean of E phi(|m * grad|), for any masks; with symmetric deviations so does
    (R + (1 + mu) g V / 2) / (p - g (1 + mu) / (2 (1 - mu) (1 - z))), where its divisor is positive, and the smaller one is taken.
    With fresh masks (n = 1) the bound is K over the mean of x_e. With masks held for n steps it is
    (sqrt(K) + (1 + sqrt(max x_e)) sqrt(W))^2 over it: W = phi(y), y = g sqrt(n (n - 1) / 2) (sqrt(U) + sqrt(V / n)) +
    k sqrt(U + (1 - mu) V), U = C^2, with symmetric deviations min(C^2, K / (1 - z)). With symmetric deviations what holds at
    every step is taken where it is less, which it is in short runs (rs.clipped_masks).

    Needs, and cannot check: L is G-smooth and bounded below; momentum as torch.optim.SGD has it (velocity 0 at first,
    no dampening, no Nesterov), never reset; a mask uniform given the past at the start of each epoch; fresh noise and fresh
    batches; at every step p is at most P(|xi| < z C) under a law of the deviations that is symmetric given the iterate, and
    ``bias`` the mean over the steps of E<mask * grad, clipped> under the true law minus that under the symmetric one.
    For Poisson batches divided by their drawn size take "fixed" with ``batch_size`` qN over the root of
    :func:`drawn_size_factor`, rounded down. Batches that use each record once in an epoch: :func:`allocated_mask_bound`.

    Args:
        objective_gap: Delta in [0, 1e140].
        learning_rate: gamma in [1e-70, 1e70].
        momentum: mu in [0, 1 - 1e-6].
        epochs: 1..1e7; with fresh masks the number of steps.
        steps_per_epoch: n, 1..1e12; 1 for fresh masks.
        smoothness: G in [1e-35, 1e35].
        clip_norm: C in [1e-35, 1e35].
        noise_multiplier: sigma, 0 or in [1e-35, 1e35].
        dim: d, 1..1e18, counted only where there is noise; needed there.
        batch_size: B, 1..1e12, the number that the sum is divided by; needed where there is noise. Without noise None takes 1,
            whose bound holds for every B.
        drop_rate: share of entries that the mask of an epoch drops, 1 - x_e in [0, 1), a number or shape (epochs,).
        probability: p in [1e-35, 1], at most P(|xi| < z C) at each step.
        deviation_share: z in (0, 1).
        bias: mean of the bias over the steps, of size at most 1e140; None says that the deviations are symmetric.
        sampling: "poisson" or "fixed", see :mod:`dptheory.convergence`.
        sampling_rate: q of Poisson batches; None takes 0, right for every q. Not allowed with "fixed".

    Returns:
        The bound, in squared units of the gradient. With one ``drop_rate`` for all epochs it bounds the plain mean; a mean over
        masks that are tightened is at most it times the mean of x_e over the least one.

    Source: RS, Algorithm 1; our own (rs.clipped_masks).

    Example: half of the entries: holding the mask costs 5 % at n gamma G = 0.01, and a factor of 12 at 1.
        >>> from dptheory.convergence import clipped_mask_bound
        >>> run = dict(objective_gap=1.0, momentum=0.0, smoothness=1.0, clip_norm=1.0, batch_size=1000, drop_rate=0.5)
        >>> [round(clipped_mask_bound(learning_rate=1e-3, epochs=10**6 // n, steps_per_epoch=n, **run), 6) for n in (1, 10, 1000)]
        [0.002005, 0.002113, 0.02388]
    """
    run = _run(
        objective_gap, learning_rate, momentum, epochs, steps_per_epoch, smoothness, clip_norm, noise_multiplier, dim,
        batch_size, drop_rate, probability, deviation_share, bias,
    )  # fmt: skip
    square = run.clip_norm**2
    sampled = batch_second_moment(
        mean_norm=0.0,
        second_moment=square,
        batch_size=run.batch_size,
        sampling=sampling,
        sampling_rate=sampling_rate,
    )
    spread, most = (sampled + keep * run.noise for keep in (run.share, run.most_kept))
    mu, move, lag, rest = run.momentum, run.move, run.lag, 1 - run.momentum

    def lost(variance: float) -> float:
        """What a step may lose, over gamma', where clipped gradients are counted at length C."""
        return move * (square + variance) / 2 + lag * run.clip_norm * math.sqrt(square + rest * variance)

    kept = max(0.0, run.fall + lost(spread) - run.bias) / run.probability
    length, rise = square, lost(most)
    if run.symmetric:
        slack = run.probability - move * (1 + mu) / (2 * rest * (1 - run.deviation_share))
        if slack > 0:
            rise = min(rise, (1 + mu) * move * most / 2)
            kept = min(kept, (run.fall + (1 + mu) * move * spread / 2) / slack)
        length = min(square, kept / (1 - run.deviation_share))
    found, behind = run.over_all_steps(kept=kept, length=length, spread=spread)
    if run.symmetric:
        height = 2 * (run.smoothness * run.objective_gap + move * (run.steps - 1) * rise)
        at_every_step = math.sqrt(run.descended(math.sqrt(height)))
        at_every_step += math.sqrt(run.most_kept / run.share * run.descended(behind))
        found = min(found, at_every_step**2)
    return found


def allocated_mask_bound(
    *,
    objective_gap: float,
    learning_rate: float,
    momentum: float,
    epochs: int,
    steps_per_epoch: int,
    smoothness: float,
    clip_norm: float,
    example_smoothness: float,
    noise_multiplier: float = 0.0,
    dim: int | None = None,
    batch_size: int | None = None,
    drop_rate: ArrayLike = 0.0,
    probability: float = 1.0,
    deviation_share: float = 0.75,
    bias: float | None = None,
    sampling: str = "random allocation",
) -> float:
    r"""The bound of :func:`clipped_mask_bound` where every record is used once in each epoch: random allocation, shuffling.

    With the notation there, N = x d (C sigma / B)^2, Q = C^2 (1 + (1 - 1/n) / B) (shuffled: C^2), e = gamma' G_1 C exp(n gamma' G_1)
    / B (shuffled: twice that), what a step of an epoch knows of the steps before it, e' = e (1 - 1/n) / 2, s = e' (c / 4 + C G / G_1):

    K = (R + g (Q + N) / 2 + k sqrt(Q (Q + (1 - mu) N)) + s - bias) / (p - e / c)

    and with symmetric deviations (R + (1 + mu) g N / 2 + l S' + s) / (p - e / c - l / (1 - z)), S' = C^2 / B + 4 e' C,
    l = g (1 + mu) / (2 (1 - mu)), where its divisor is positive and it is less. From K to all steps as there, with N for V and
    U = Q, with symmetric deviations min(Q, K / (1 - z) + S'). inf where e >= p c: it needs n gamma' G_1 below about log(B n).

    Needs, and cannot check: what :func:`clipped_mask_bound` needs, but for the batches; the gradient of each record's loss is
    G_1-Lipschitz; in an epoch each of the n B records is used once, in a step that is drawn for it alone ("random allocation"), or
    every step has B of them ("shuffled"); these draws are made anew for each epoch, independently of all else. A smaller last batch,
    or an order that is kept, is not covered.

    Args:
        objective_gap, learning_rate, momentum, epochs, steps_per_epoch, smoothness, clip_norm: as in :func:`clipped_mask_bound`.
        noise_multiplier, dim, drop_rate, probability, deviation_share, bias: as in :func:`clipped_mask_bound`.
        example_smoothness: G_1 in [smoothness, 1e35], of each record's loss.
        batch_size: B, 1..1e12, the mean number of records in a step, which the sum is divided by; needed where there is noise.
            Without noise None takes 1, whose bound holds for every B.
        sampling: "random allocation" or "shuffled".

    Returns:
        The bound, in squared units of the gradient; inf where it says nothing.

    Source: RS, Algorithm 1 with the batches of most of its runs; our own (rs.clipped_masks).

    Example: one pass of 50 steps for each mask; an epoch that moves too far has no bound.
        >>> from dptheory.convergence import allocated_mask_bound
        >>> run = dict(objective_gap=1.0, momentum=0.0, epochs=2000, steps_per_epoch=50, smoothness=1.0, example_smoothness=2.0,
        ...            clip_norm=1.0, batch_size=100, drop_rate=0.5)
        >>> [round(allocated_mask_bound(learning_rate=gamma, **run), 4) for gamma in (0.001, 0.01, 0.1)]
        [0.0258, 0.0245, inf]
    """
    run = _run(
        objective_gap, learning_rate, momentum, epochs, steps_per_epoch, smoothness, clip_norm, noise_multiplier, dim,
        batch_size, drop_rate, probability, deviation_share, bias,
    )  # fmt: skip
    rough = _validate.real("example_smoothness", example_smoothness, run.smoothness, ranges.LARGEST)
    shuffled = _validate.choice("sampling", sampling, ("random allocation", "shuffled")) == "shuffled"
    mu, held, clip, rest = run.momentum, run.steps_per_epoch, run.clip_norm, 1 - run.momentum
    earlier = 1 - 1 / held  # twice the mean share of the records that were used before
    rate = run.move / run.smoothness
    growth = held * rate * rough
    if growth > 700:
        return math.inf
    known = (2 if shuffled else 1) * rate * rough * clip * math.exp(growth) / run.batch_size
    slack = run.probability - known / run.threshold
    if slack <= 0:
        return math.inf
    square = clip**2 * (1 if shuffled else 1 + earlier / run.batch_size)
    noise = run.share * run.noise
    lost = earlier / 2 * known * (run.threshold / 4 + clip * run.smoothness / rough)
    kept = run.fall + run.move * (square + noise) / 2 + run.lag * math.sqrt(square * (square + rest * noise))
    kept = max(0.0, kept + lost - run.bias) / slack
    length = square
    if run.symmetric:
        per_length = run.move * (1 + mu) / (2 * rest)
        spread = clip**2 / run.batch_size + 2 * earlier * known * clip
        slack -= per_length / (1 - run.deviation_share)
        if slack > 0:
            kept = min(kept, (run.fall + (1 + mu) * run.move * noise / 2 + per_length * spread + lost) / slack)
        length = min(square, kept / (1 - run.deviation_share) + spread)
    return run.over_all_steps(kept=kept, length=length, spread=noise)[0]


@dataclass(frozen=True, kw_only=True)
class _Run:
    """What both bounds need: ``noise`` is d (C sigma / B)^2, ``fall`` Delta / (gamma' T), ``move`` gamma' G."""

    objective_gap: float
    momentum: float
    steps: int
    steps_per_epoch: int
    smoothness: float
    clip_norm: float
    batch_size: int
    share: float
    most_kept: float
    masked: bool
    probability: float
    deviation_share: float
    symmetric: bool
    bias: float
    noise: float
    fall: float
    move: float

    @property
    def lag(self) -> float:
        """By how much G times the way from the shifted to the true iterate exceeds the length of a step."""
        return self.move * self.momentum / (1 - self.momentum)

    @property
    def threshold(self) -> float:
        return (1 - self.deviation_share) * self.clip_norm

    def descended(self, length: float) -> float:
        return length * min(length, self.threshold)

    def over_all_steps(self, *, kept: float, length: float, spread: float) -> tuple[float, float]:
        """From the kept entries to all, where updates have the squared length ``length`` and a fresh part ``spread``.

        Beside the bound: by how much the gradient at the iterate and at the shifted one differ at most.
        """
        held = self.steps_per_epoch
        behind = self.lag * math.sqrt(length + (1 - self.momentum) * spread)
        found = math.sqrt(kept)
        if held > 1 and self.masked:
            moved = (
                self.move * math.sqrt(held * (held - 1) / 2) * (math.sqrt(length) + math.sqrt(spread / held)) + behind
            )
            found += (1 + math.sqrt(self.most_kept)) * math.sqrt(self.descended(moved))
        return found**2 / self.share, behind


def _run(
    objective_gap: float,
    learning_rate: float,
    momentum: float,
    epochs: int,
    steps_per_epoch: int,
    smoothness: float,
    clip_norm: float,
    noise_multiplier: float,
    dim: int | None,
    batch_size: int | None,
    drop_rate: ArrayLike,
    probability: float,
    deviation_share: float,
    bias: float | None,
) -> _Run:
    objective_gap, smoothness = ranges.gap(objective_gap), ranges.positive("smoothness", smoothness)
    clip_norm = ranges.positive("clip_norm", clip_norm)
    noise_multiplier = ranges.not_negative("noise_multiplier", noise_multiplier)
    momentum = _validate.real("momentum", momentum, 0.0, 1 - 1e-6)
    learning_rate = ranges.learning_rate(learning_rate)
    epochs = _validate.integer("epochs", epochs, 1, _MAX_EPOCHS)
    steps_per_epoch = _validate.integer("steps_per_epoch", steps_per_epoch, 1, ranges.MAX_COUNT)
    dim = ranges.beside_noise("dim", dim, ranges.MAX_DIM, "noise_multiplier", noise_multiplier)
    batch_size = ranges.beside_noise("batch_size", batch_size, ranges.MAX_COUNT, "noise_multiplier", noise_multiplier)
    rates = _validate.per_step("drop_rate", drop_rate, epochs, 0.0, 1.0, ends="[)", each="epochs")
    keeps = 1 - np.atleast_1d(rates)
    if bias is not None:
        bias = _validate.real("bias", bias, -ranges.LARGEST_SQUARE, ranges.LARGEST_SQUARE)
    rate = learning_rate / (1 - momentum)
    return _Run(
        objective_gap=objective_gap,
        momentum=momentum,
        steps=epochs * steps_per_epoch,
        steps_per_epoch=steps_per_epoch,
        smoothness=smoothness,
        clip_norm=clip_norm,
        batch_size=batch_size,
        share=float(keeps.mean()),
        most_kept=float(keeps.max()),
        masked=bool((keeps < 1).any()),
        probability=_validate.real("probability", probability, ranges.SMALLEST, 1.0),
        deviation_share=_validate.real("deviation_share", deviation_share, 0.0, 1.0, ends="()"),
        symmetric=bias is None,
        bias=bias or 0.0,
        noise=dim * (clip_norm * noise_multiplier / batch_size) ** 2,
        fall=objective_gap / rate / (epochs * steps_per_epoch),
        move=rate * smoothness,
    )
