r"""The law of the losses of steps of thousands of kinds, as a measure for the saddle line.

With :math:`v = tz - t^2/2`, t = 1 / noise multiplier, a step's loss is a function of v and of the rate alone,
:math:`L = \log\Lambda(v)`, :math:`\Lambda(v) = 1 - q + q e^v`, and only the law of v, normal of mean -t^2 / 2 and variance t^2,
knows of the noise. So kinds of one rate share the nodes of one trapezoid rule, and the moments of all of them are one product of
matrices: proofs/privacy/saddle_line.md, step 13. "remove" and "add" alone.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from dptheory.privacy._bounds import Direction, Unresolved
from dptheory.privacy._parts import Steps
from dptheory.privacy.methods._sampled_loss import ELEMENTARY, HALF, Complexes, Reals, StepLoss, log_mixture
from dptheory.privacy.methods.saddle._line import Losses, total_moments

_NATS = 46.0
"""Of the exponent of the trapezoid rule's error."""
_REACH = 9.5
"""Deviations of v that the nodes reach beyond where the tilted law is."""
_SHIFT, _WALL, _GROWTH = 1.6, math.pi / 4, 16.0
"""The line's height: so many of the least deviations; twice it, no argument of Lambda is above pi / 2; and what it costs where
Lambda divides."""
_OCTAVES = 2.0
"""Of t^2, in kinds that share a rule."""
_LADDER = 2.0 ** (-np.arange(40) / 2)
"""Lower lines, on which the modulus falls sooner."""
_MOST_WEIGHTS, _BLOCK = 20_000_000, 512
_DENSE = 20
"""A product of matrices takes no longer than one in so many of other products."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """The law of the sum of the losses.

    Attributes:
        groups: kinds that share a rule.
        guide: few kinds of about the same law, for what is no bound.
    """

    groups: tuple["Group", ...]
    guide: Losses
    left_out: float = 0.0

    @property
    def steps(self) -> Losses:
        return self.guide

    def about(self, c: float) -> float:
        return total_moments(self.guide, c).value

    def log_bound(self, c: float) -> float:
        if c in (0.0, -1.0):
            return 0.0  # M(0) = M(-1) = 1
        return math.fsum(rule.log_moment for rule in self.at(c).rules)

    def at(self, c: float) -> "_ScheduleAt":
        return _ScheduleAt(tuple(_rule(group, c) for group in self.groups))


@dataclass(frozen=True, eq=False)
class Group:
    """Kinds of one rate, whose t^2 = 1 / noise^2 lie within a few octaves, and how often each occurs."""

    rate: float
    variances: Reals
    counts: Reals
    direction: Direction


def schedule(steps: Steps, direction: Direction, guide: Losses) -> Schedule:
    """Of steps that all are sampled at some rate below 1 or at 1; ``direction``: "remove" or "add"."""
    by_rate: dict[tuple[float, int], list[tuple[float, int]]] = {}
    for step in steps:
        variance = step.noise_multiplier**-2.0
        key = step.sampling_rate, math.floor(math.log2(variance) / _OCTAVES)
        by_rate.setdefault(key, []).append((variance, step.count))
    groups = []
    for (rate, _), kinds in by_rate.items():
        table = np.array(kinds, dtype=np.float64)
        groups.append(Group(rate, table[:, 0], table[:, 1], direction))
    return Schedule(tuple(groups), guide)


@dataclass(frozen=True, eq=False)
class _ScheduleAt:
    """Its moments at c + iu, u >= 0."""

    rules: tuple["_Rule", ...]

    @property
    def log_moment(self) -> float:
        return math.fsum(rule.log_moment for rule in self.rules)

    @property
    def size(self) -> int:
        return 1 + sum(rule.weights.size for rule in self.rules) // _DENSE

    def log_decay(self, u: float) -> float:
        return math.fsum(rule.log_decay(u) for rule in self.rules)

    def terms(self, h: float, count: int) -> tuple[Complexes, Reals]:
        found = [rule.terms(np.asarray(h * np.arange(count + 1), dtype=np.float64)) for rule in self.rules]
        return np.sum([logs for logs, _ in found], axis=0), np.sum([errors for _, errors in found], axis=0)


@dataclass(frozen=True, eq=False)
class _Rule:
    r"""The moments :math:`E \Lambda^{a \pm iu}` of the kinds of a group, on one line Im v = height and on the real line.

    Attributes:
        exponent: a = 1 + c, or -c of "add".
        losses: log Lambda at the nodes, with an imaginary part >= 0.
        weights: a row for each kind: the terms of the moment at u = 0, over their sum.
        real_weights: the same on the real line.
        log_moments: log of that sum; moment_errors: of it; errors: of the rule, relative, whatever u.
        loss_rounding: bound of what rounding does to a moment over u.
        decay_errors: of the rule on the real line, relative.
    """

    group: Group
    exponent: float
    height: float
    places: Reals
    losses: Complexes
    weights: Complexes
    real_losses: Reals
    real_weights: Reals
    log_moments: Reals
    moment_errors: Reals
    errors: Reals
    loss_rounding: Reals
    decay_errors: Reals

    @property
    def log_moment(self) -> float:
        """log of an upper bound of the moment of all steps at u = 0."""
        return float(self.group.counts @ (self.log_moments + self.moment_errors))

    def terms(self, u: Reals) -> tuple[Complexes, Reals]:
        """log of the product of all moments, and by how much the log of its modulus may be larger."""
        turned = np.expm1(1j * np.outer(self.losses, u))
        logs, errors = np.zeros(u.size, dtype=np.complex128), np.zeros(u.size)
        for first in range(0, self.group.counts.size, _BLOCK):
            rows = slice(first, first + _BLOCK)
            counts = self.group.counts[rows]
            ratio = self.weights[rows] @ turned  # less 1
            square = 2 * ratio.real + ratio.real**2 + ratio.imag**2
            near = square > -0.5
            far = np.log(np.maximum(np.abs(1 + ratio), 1e-300))
            log_size = np.where(near, 0.5 * np.log1p(np.where(near, square, 0.0)), far)
            logs += counts @ (log_size + 1j * np.arctan2(ratio.imag, 1 + ratio.real))
            error = np.outer(self.loss_rounding[rows], u) + 3 * self.errors[rows, None] * (u > 0)
            errors += counts @ np.log1p(error * np.exp(-log_size))
            errors += counts @ (4 * ELEMENTARY * np.abs(log_size))
        logs += float(self.group.counts @ self.log_moments)
        errors += float(self.group.counts @ self.moment_errors)
        return (logs.conj() if self.group.direction == "add" else logs), errors

    def log_decay(self, u: float) -> float:
        """log of a bound of the modulus at all v >= u, over that at 0: each kind on the line that is best for it."""
        heights = self.height * _LADDER
        raised = _mixture(self.group.rate, self.places[:, None] + 1j * heights)
        falls = np.exp(self.exponent * (raised.real - self.real_losses[:, None]) - u * raised.imag)
        sums = self.real_weights @ falls + self.decay_errors[:, None]
        logs = np.log(sums) + 0.5 * np.outer(1 / self.group.variances, heights**2)
        return float(self.group.counts @ np.minimum(logs.min(axis=1) + self.moment_errors, 0.0))


@functools.lru_cache(maxsize=16)
def _rule(group: Group, c: float) -> _Rule:
    exponent = 1.0 + c if group.direction == "remove" else -c
    up, down = max(exponent, 0.0), max(-exponent, 0.0)
    variances, q = group.variances, group.rate
    low, high = math.sqrt(float(variances.min())), math.sqrt(float(variances.max()))
    height = min(_SHIFT * low, _WALL, math.sqrt(_GROWTH / down) if down > 0.0 else _WALL)
    spacing = 2 * math.pi * height / _NATS
    left = -(high**2) / 2 - _REACH * high - down * high**2 * q
    right = max((up - 0.5) * low**2, (up - 0.5) * high**2) + _REACH * high
    first, last = math.floor(left / spacing), math.ceil(right / spacing)
    if (last - first) * variances.size > _MOST_WEIGHTS:
        raise Unresolved(f"{last - first} nodes of {variances.size} kinds of steps")
    x = spacing * np.arange(first, last + 1, dtype=np.float64)
    v = x + 1j * height
    losses = _mixture(q, v)
    real_losses = np.asarray(_mixture(q, x.astype(np.complex128)).real, dtype=np.float64)
    # of a node's loss, relative: of v, whose rounding is largest against |exp(v) - 1| >= about the height
    loss_error = ELEMENTARY * (16 + 2 * np.abs(v)) / min(height, 1.0)

    tau = variances[:, None]
    constant = math.log(spacing) - 0.5 * np.log(2 * math.pi * tau)
    logs = constant - (v + tau / 2) ** 2 / (2 * tau) + exponent * losses
    top = logs.real.max(axis=1, keepdims=True)
    weights = np.exp(logs - top)
    total = weights.real.sum(axis=1, keepdims=True)
    weights /= total
    log_moments = (top + np.log(total))[:, 0]
    real_weights = np.exp(constant - (x + tau / 2) ** 2 / (2 * tau) + exponent * real_losses - log_moments[:, None])
    moduli, sizes = np.abs(weights), np.abs(losses)
    of_weights = ELEMENTARY * (8 + np.abs(v + tau / 2) ** 2 / tau + 2 * abs(exponent) * sizes + np.abs(top))
    of_weights += abs(exponent) * loss_error * sizes
    of_sum = x.size * HALF
    summed = (moduli * of_weights).sum(axis=1) + of_sum * moduli.sum(axis=1)

    # the trapezoid rule on the line, and on the real line; and what lies beyond the first and the last node
    growth = np.exp(np.minimum(2 * height**2 / variances, 600.0)) * math.cos(height) ** -down
    trapezoid = (1 + growth) / math.expm1(_NATS)
    on_real = 2 * growth / math.expm1(_NATS)
    beyond = np.zeros(variances.size)
    for place, loss, slope in (
        (x[0], real_losses[0], -(x[0] + variances / 2) / variances - down * _share(q, x[0])),
        (x[-1], real_losses[-1], (x[-1] + variances / 2) / variances - up),
    ):
        if slope.min() <= 0.0:
            raise Unresolved("the nodes do not reach where the law falls")
        edge = -((place + variances / 2) ** 2) / (2 * variances) - 0.5 * np.log(2 * math.pi * variances)
        edge += exponent * loss - log_moments - down * math.log(math.cos(height / 2))
        beyond += np.exp(edge) / slope
    errors = 1.01 * (trapezoid + beyond * np.exp(np.minimum(height**2 / (2 * variances), 600.0)))
    return _Rule(
        group,
        exponent,
        height,
        x,
        losses,
        weights,
        real_losses,
        real_weights,
        log_moments,
        1.01 * (errors + summed) + 4 * ELEMENTARY * (1 + np.abs(log_moments)),
        errors,
        1.01 * (moduli * (of_weights + of_sum + loss_error + 4 * ELEMENTARY) * sizes).sum(axis=1),
        1.01 * (on_real + beyond) + summed,
    )


def _mixture(rate: float, v: Complexes) -> Complexes:
    """log(1 - q + q exp(v)): that of a step of noise 1, whose exponent is z - 1/2."""
    return log_mixture(StepLoss(noise_multiplier=1.0, sampling_rate=rate, count=1, direction="remove"), v + 0.5)


def _share(rate: float, x: float) -> float:
    """The slope of log Lambda at a real place: it rises from 0 to 1."""
    return 1.0 if rate == 1.0 else 1.0 / (1.0 + (1.0 - rate) / rate * math.exp(min(-x, 700.0)))
