r"""Moments of the losses of steps of thousands of kinds, for the saddle line.

With :math:`v = tz - t^2/2`, t = 1 / noise multiplier, a step's loss is a function of v and of the rate alone,
:math:`L = \log\Lambda(v)`, :math:`\Lambda(v) = 1 - q + q e^v`, and only the law of v, normal of mean -t^2 / 2 and variance t^2,
knows of the noise. So kinds share the nodes of one trapezoid rule, and the moments of all that have one rate are one product of
matrices: proofs/privacy/saddle_line.md, step 13. "remove" and "add" alone.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptheory.privacy._bounds import Direction, Unresolved
from dptheory.privacy.methods._sampled_loss import ELEMENTARY, HALF, Complexes, Moments, Reals, log_shares

NATS = 46.0
"""Of the exponent of the trapezoid rule's error."""
_REACH = 9.5
"""Deviations of v that the nodes reach beyond where the tilted law is."""
_SHIFT, _WALL, _GROWTH = 1.6, math.pi / 4, 16.0
"""The line's height: so many of the least deviations; twice it, no argument of Lambda is above pi / 2; and what it costs where
Lambda divides."""
_RUNGS = 40
"""Of lower lines, on which the modulus falls sooner: two to a halving of the height."""
_MOST_WEIGHTS, _BLOCK = 20_000_000, 512


@dataclass(frozen=True, eq=False)
class Group:
    """Kinds whose t^2 = 1 / noise^2 lie within a few octaves, by their rates, and how often each occurs.

    Attributes:
        rates: a column of different ones.
        of_rate: slices of the kinds, one for each rate; ``places``: of each kind, its rate's row.
        counts: how often each occurs; weights of either sign where kinds are interpolated.
    """

    rates: Reals
    of_rate: tuple[slice, ...]
    places: NDArray[np.intp]
    variances: Reals
    counts: Reals
    direction: Direction

    def spread(self, values: Any) -> Any:
        """A row for each kind, from rows for rates."""
        return values if len(self.of_rate) == 1 else values[self.places]


def group_of(kinds: Sequence[tuple[float, float, float]], direction: Direction) -> Group:
    """Of kinds as rate, t^2 and count; a count may be a weight of either sign."""
    table = np.array(sorted(kinds), dtype=np.float64)
    rates, places, sizes = np.unique(table[:, 0], return_inverse=True, return_counts=True)
    ends = [0, *np.cumsum(sizes).tolist()]
    of_rate = tuple(slice(first, last) for first, last in itertools.pairwise(ends))
    return Group(rates[:, None], of_rate, places, table[:, 1], table[:, 2], direction)


@dataclass(frozen=True, eq=False)
class Rule:
    r"""The moments :math:`E \Lambda^{a \pm iu}` of the kinds of a group, on one line Im v = height and on the real line.

    Attributes:
        exponent: a = 1 + c, or -c of "add".
        losses: log Lambda at the nodes, with an imaginary part >= 0, a row for each rate.
        weights: a row for each kind: the terms of the moment at u = 0, over their sum.
        real_weights: the same on the real line; deviations: of the loss under them, about.
        log_moments: log of that sum; moment_errors: of it; errors: of the rule, relative, whatever u.
        loss_rounding: bound of what rounding does to a moment over u.
        decay_errors: of the rule on the real line, relative.
        slopes: at the first and the last node, by which the law falls beyond.
    """

    group: Group
    exponent: float
    height: float
    places: Reals
    losses: Complexes
    weights: Complexes
    real_losses: Reals
    real_weights: Reals
    deviations: Reals
    log_moments: Reals
    moment_errors: Reals
    errors: Reals
    loss_rounding: Reals
    decay_errors: Reals
    slopes: Reals

    @property
    def log_moment(self) -> float:
        """log of an upper bound of the moment of all steps at u = 0."""
        counts = self.group.counts
        return float(counts @ self.log_moments + np.abs(counts) @ self.moment_errors)

    def terms(
        self, h: float, count: int, about: Callable[[slice], Complexes] = lambda _: np.ones(1, dtype=np.complex128)
    ) -> tuple[Complexes, Reals]:
        """log of the product of all moments at u = 0, h .. h count, and by how much the log of its modulus may be larger.

        Of a value the logarithm is that of the value over ``about`` of its kinds, whose own phase is left out.
        """
        u = h * np.arange(count + 1)
        logs, errors = np.zeros(u.size, dtype=np.complex128), np.zeros(u.size)
        for losses, kinds in zip(self.losses, self.group.of_rate, strict=True):
            powers = turned(losses, h, count)
            for first in range(kinds.start, kinds.stop, _BLOCK):
                rows = slice(first, min(first + _BLOCK, kinds.stop))
                counts = self.group.counts[rows]
                ratio = self.weights[rows] @ powers  # less 1
                square = 2 * ratio.real + ratio.real**2 + ratio.imag**2
                near = square > -0.5
                far = np.log(np.maximum(np.abs(1 + ratio), 1e-300))
                log_size = np.where(near, 0.5 * np.log1p(np.where(near, square, 0.0)), far)
                logs += counts @ (log_size + 1j * np.angle((1 + ratio) * np.conj(about(rows))))
                error = np.outer(self.loss_rounding[rows], u) + 3 * self.errors[rows, None] * (u > 0)
                share = error * np.exp(-log_size)
                # a power of 1 + d: |(1 + d)^T - 1| <= (1 + |d|)^T - 1 needs a natural T; |log(1 + d)| <= -log(1 - |d|) none
                natural = (counts >= 0.0) & (counts == np.floor(counts))
                errors += np.abs(counts) @ np.where(natural[:, None], np.log1p(share), -log_less(share))
                errors += np.abs(counts) @ (4 * ELEMENTARY * np.abs(log_size))
        logs += float(self.group.counts @ self.log_moments)
        errors += float(np.abs(self.group.counts) @ self.moment_errors)
        return (logs.conj() if self.group.direction == "add" else logs), errors

    def log_decay(self, u: float) -> float:
        """log of a bound of the modulus at all v >= u, over that at 0: each kind on the line that is best for it."""
        logs, shares = self.log_falls(u, self.rungs(u))
        return float(self.group.counts @ np.minimum(logs + np.log1p(shares) + self.moment_errors, 0.0))

    def rungs(self, u: float) -> Reals:
        """The lower line on which each kind's modulus at u is bounded: of a nearly Gaussian loss of deviation w, height t u w."""
        best = u * np.sqrt(self.group.variances) * self.deviations
        return np.asarray(np.clip(np.round(2 * np.log2(self.height / np.maximum(best, 1e-300))), 0, _RUNGS) / 2)

    def log_falls(self, u: float, rungs: Reals) -> tuple[Reals, Reals]:
        """log of the bound of the modulus at u over that at 0 of each kind on its line, and the share of its error in that bound."""
        sums = np.empty(rungs.size)
        for rung in np.unique(rungs):
            line = self.places + 1j * self.height_of(rung)
            kinds = np.flatnonzero(rungs == rung)
            for block in np.array_split(kinds, math.ceil(kinds.size / _BLOCK)):
                rates, places = np.unique(self.group.places[block], return_inverse=True)
                raised = log_shares(self.group.rates[rates], line)
                falls = np.exp(self.exponent * (raised.real - self.real_losses[rates]) - u * raised.imag)
                sums[block] = np.einsum("ij,ij->i", self.real_weights[block], falls[places])
        return np.log(sums) + self.height_of(rungs) ** 2 / (2 * self.group.variances), self.decay_errors / sums

    def height_of(self, rung: Any) -> Any:
        return self.height * 2.0**-rung


def log_less(shares: Reals) -> Reals:
    """log(1 - share), minus infinity from 1 on."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log1p(-np.minimum(shares, 1.0)))


def turned(losses: Complexes, h: float, count: int) -> Complexes:
    """exp(iuL) - 1 at u = 0, h .. h count: with u = v + v', v a multiple of a block, (1 + E) (1 + E') - 1."""
    block = math.isqrt(count) + 1
    coarse = np.expm1(1j * np.outer(losses, h * block * np.arange(count // block + 1)))[:, :, None]
    fine = np.expm1(1j * np.outer(losses, h * np.arange(block)))[:, None, :]
    return np.asarray((coarse * fine + (coarse + fine)).reshape(losses.size, -1)[:, : count + 1])


def moments_about(group: Group, c: float) -> Moments:
    """About log M and its derivatives, by the rule on the real line."""
    exponent, _, spacing, x = _nodes(group, c)
    spacing, x = 2 * spacing, x[::2]  # ten digits do
    rates = np.minimum(group.rates, 1 - HALF)
    losses = group.spread(np.where(group.rates < 1.0, np.log1p(rates * np.expm1(np.minimum(x, 600.0))), x))
    logs = _log_normal(group, x, spacing)
    raised = exponent * losses
    if np.abs(raised).max() < 0.5:
        weights = np.exp(logs)
        excess = (weights * np.expm1(raised)).sum(axis=1)
        values, weights = np.log1p(excess), weights * np.exp(raised)
    else:
        top = (logs + raised).max(axis=1, keepdims=True)
        weights = np.exp(logs + raised - top)
        values = top[:, 0] + np.log(weights.sum(axis=1))
    weights /= weights.sum(axis=1, keepdims=True)
    means = (weights * losses).sum(axis=1)
    curvatures = (weights * (losses - means[:, None]) ** 2).sum(axis=1)
    sign = 1.0 if group.direction == "remove" else -1.0
    return Moments(*(float(group.counts @ one) for one in (values, sign * means, curvatures)))


def _log_normal(group: Group, v: Any, spacing: float) -> Any:
    """log of the spacing times the density of v, of each kind."""
    tau = group.variances[:, None]
    return math.log(spacing) - 0.5 * np.log(2 * math.pi * tau) - (v + tau / 2) ** 2 / (2 * tau)


def _nodes(group: Group, c: float) -> tuple[float, float, float, Reals]:
    """The exponent of Lambda, the line's height, and spacing and real parts of the nodes."""
    exponent = 1.0 + c if group.direction == "remove" else -c
    up, down = max(exponent, 0.0), max(-exponent, 0.0)
    variances = group.variances
    low, high = math.sqrt(float(variances.min())), math.sqrt(float(variances.max()))
    height = min(_SHIFT * low, _WALL, math.sqrt(_GROWTH / down) if down > 0.0 else _WALL)
    spacing = 2 * math.pi * height / NATS
    left = -(high**2) / 2 - _REACH * high - down * high**2 * float(group.rates.max())
    right = max((up - 0.5) * low**2, (up - 0.5) * high**2) + _REACH * high
    first, last = math.floor(left / spacing), math.ceil(right / spacing)
    if (last - first) * variances.size > _MOST_WEIGHTS:
        raise Unresolved(f"{last - first} nodes of {variances.size} kinds of steps")
    return exponent, height, spacing, spacing * np.arange(first, last + 1, dtype=np.float64)


def rule_of(group: Group, c: float) -> Rule:
    exponent, height, spacing, x = _nodes(group, c)
    up, down = max(exponent, 0.0), max(-exponent, 0.0)
    variances, tau = group.variances, group.variances[:, None]
    v = x + 1j * height
    losses = log_shares(group.rates, v)
    real_losses = np.asarray(log_shares(group.rates, x.astype(np.complex128)).real, dtype=np.float64)
    own, on_line = group.spread(losses), group.spread(real_losses)
    # of a node's loss, relative: of v, whose rounding is largest against |exp(v) - 1| >= about the height
    loss_error = ELEMENTARY * (16 + 2 * np.abs(v)) / min(height, 1.0)

    logs = _log_normal(group, v, spacing) + exponent * own
    top = logs.real.max(axis=1, keepdims=True)
    weights = np.exp(logs - top)
    total = weights.real.sum(axis=1, keepdims=True)
    weights /= total
    log_moments = (top + np.log(total))[:, 0]
    real_weights = np.exp(_log_normal(group, x, spacing) + exponent * on_line - log_moments[:, None])
    means = (real_weights * on_line).sum(axis=1, keepdims=True)
    deviations = np.sqrt((real_weights * (on_line - means) ** 2).sum(axis=1))
    moduli, sizes = np.abs(weights), np.abs(own)
    of_weights = ELEMENTARY * (8 + np.abs(v + tau / 2) ** 2 / tau + 2 * abs(exponent) * sizes + np.abs(top))
    of_weights += abs(exponent) * loss_error * sizes
    of_sum = x.size * HALF
    summed = (moduli * of_weights).sum(axis=1) + of_sum * moduli.sum(axis=1)

    # the trapezoid rule on the line, and on the real line; and what lies beyond the first and the last node
    growth = np.exp(np.minimum(2 * height**2 / variances, 600.0)) * math.cos(height) ** -down
    trapezoid = (1 + growth) / math.expm1(NATS)
    on_real = 2 * growth / math.expm1(NATS)
    beyond = np.zeros(variances.size)
    falling = group.spread(_share(group.rates[:, 0], x[0]))
    slopes = []
    for place, loss, slope in (
        (x[0], on_line[:, 0], -(x[0] + variances / 2) / variances - down * falling),
        (x[-1], on_line[:, -1], (x[-1] + variances / 2) / variances - up),
    ):
        if slope.min() <= 0.0:
            raise Unresolved("the nodes do not reach where the law falls")
        edge = -((place + variances / 2) ** 2) / (2 * variances) - 0.5 * np.log(2 * math.pi * variances)
        edge += exponent * loss - log_moments - down * math.log(math.cos(height / 2))
        beyond += np.exp(edge) / slope
        slopes.append(np.broadcast_to(slope, variances.shape))
    errors = 1.01 * (trapezoid + beyond * np.exp(np.minimum(height**2 / (2 * variances), 600.0)))
    if errors.max() > 0.01:  # shares of the moment, for which the sum stands below
        raise Unresolved("the nodes of a schedule are too few")
    return Rule(
        group,
        exponent,
        height,
        x,
        losses,
        weights,
        real_losses,
        real_weights,
        deviations,
        log_moments,
        1.01 * (errors + summed) + 4 * ELEMENTARY * (1 + np.abs(log_moments)),
        errors,
        # |exp(iuL) - 1| <= u |L|, and of its factors E and E' at most 3 u |L| together: :func:`turned`
        1.01 * (moduli * (of_weights + of_sum + loss_error + 12 * ELEMENTARY) * sizes).sum(axis=1),
        1.01 * (on_real + beyond) + summed,
        np.stack(slopes),
    )


def _share(rates: Reals, x: float) -> Reals:
    """The slope of log Lambda at a real place: it rises from 0 to 1."""
    return rates / (rates + (1.0 - rates) * math.exp(min(-x, 700.0)))
