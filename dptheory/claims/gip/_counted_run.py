"""A run of the index mechanism by counting: the laws of loss and swaps, what 150 releases cost, and what a budget buys."""

import math
from typing import get_args

import numpy as np
import scipy

from dptheory import privacy
from dptheory.claims._row import Row, Sides
from dptheory.claims.gip._index_at_scale import counted_mean_swaps
from dptheory.claims.gip._loss_at_scale import counted_delta
from dptheory.privacy.index_sets._budgets import Method


def best_on_grid(rho: float, delta: float) -> float:
    """Least epsilon with delta = e^((a-1)(rho a - epsilon)) max_u u^(a-1) (1 - u), reached at u = (a-1)/a, over a grid of orders."""
    excess = np.exp(np.arange(-4000, 4000) / 500)
    largest = excess * np.log(excess / (1 + excess)) - np.log1p(excess)
    return float(np.min(rho * (1 + excess) + (largest - math.log(delta)) / excess))


_RUN = (40, 10, 30, 5)  # dim, keep, steps, groups
_METHODS = get_args(Method)


def _epsilon_by_counting(theta: float, delta: float, method: str) -> float:
    """What the run's 150 releases cost: 20 theta each, 20 theta^2 each, or the least of the two and of the counted law composed."""
    dim, keep, steps, groups = _RUN
    releases = steps * groups
    basic, zcdp = releases * 2 * keep * theta, best_on_grid(releases * 2 * keep * theta**2, delta)
    if method != "exact":
        return basic if method == "basic" else zcdp
    exact = scipy.optimize.brentq(
        lambda epsilon: counted_delta(dim, keep, theta, releases, epsilon) - delta,
        0.0,
        basic,
        xtol=1e-14,
    )
    return min(basic, zcdp, float(exact))


def _theta_by_counting(epsilon: float, delta: float, method: str) -> float:
    """Dispersion at which the run spends the budget."""
    dim, keep, steps, groups = _RUN

    def excess(theta: float) -> float:
        if method == "exact":
            return counted_delta(dim, keep, theta, steps * groups, epsilon) - delta
        return _epsilon_by_counting(theta, delta, method) - epsilon

    return float(scipy.optimize.brentq(excess, 1e-9, 1.0, xtol=1e-16, rtol=1e-9))


def _counted_gain(theta: float) -> float:
    """1 - E[i] / (its mean under random-k), the swaps of the run's index sets counted."""
    dim, keep, *_ = _RUN
    return 1 - counted_mean_swaps(dim, keep, theta) / counted_mean_swaps(dim, keep, 0.0)


def _gain_by_counting(epsilon: float, delta: float, method: str) -> float:
    return _counted_gain(_theta_by_counting(epsilon, delta, method))


def _cost_by_counting(gain: float, method: str) -> float:
    """Epsilon of the run at the dispersion whose gain, by the counted swaps, is this one."""
    theta = float(scipy.optimize.brentq(lambda theta: _counted_gain(theta) - gain, 0.0, 20.0, xtol=1e-14))
    return _epsilon_by_counting(theta, 1e-5, method)


def add_checks(row: Row) -> None:
    """To the row of gip.tight."""
    dim, keep, steps, groups = _RUN

    @row.equal((1e-3, 1e-5), (0.5, 1e-6), (5.0, 1e-10), tolerance=1e-5)
    def _(rho: float, delta: float) -> Sides:
        """zCDP conversion at its best order"""
        return (
            privacy.zcdp_epsilon(zcdp_rho=rho, delta=delta),
            lambda: best_on_grid(rho, delta),
            rho + 2 * math.sqrt(rho * math.log(1 / delta)),
        )

    @row.equal((0.01, 1e-5), (1.0, 1e-5), (8.0, 1e-9), tolerance=1e-5)
    def _(epsilon: float, delta: float) -> Sides:
        """zCDP budget spends all of it, over a grid of orders"""
        return (
            best_on_grid(privacy.zcdp_budget(epsilon=epsilon, delta=delta), delta),
            epsilon,
            lambda: best_on_grid(epsilon**2 / (4 * math.log(1 / delta)), delta),
        )

    def theta(epsilon: float, delta: float, method: Method) -> float:
        return privacy.index_sets.theta_for_delta_budget(
            epsilon=epsilon, delta=delta, dim=dim, keep=keep, steps=steps, groups=groups, method=method
        )

    @row.equal(lambda: [(e, 1e-5, method) for e in (0.3, 4.0) for method in _METHODS], tolerance=1e-5)
    def _(epsilon: float, delta: float, method: Method) -> Sides:
        """theta for an (epsilon, delta) budget: the loss counted and composed, theta by root finding"""
        return (
            theta(epsilon, delta, method),
            lambda: _theta_by_counting(epsilon, delta, method),
            lambda: theta(1.01 * epsilon, delta, method),
        )

    @row.equal(lambda: [(g, m) for g in (1e-3, 0.1, 0.65, 0.99) for m in _METHODS], tolerance=1e-5)
    def _(gain: float, method: Method) -> Sides:
        """epsilon that a share of the gain costs: laws of loss and swaps counted"""
        found = privacy.index_sets.epsilon_for_retained_gain(
            retained_gain=gain, delta=1e-5, dim=dim, keep=keep, steps=steps, groups=groups, method=method
        )
        return found, lambda: _cost_by_counting(gain, method), 1.01 * found

    @row.equal(lambda: [(e, 1e-5, method) for e in (0.01, 4.0) for method in _METHODS], tolerance=1e-5)
    def _(epsilon: float, delta: float, method: Method) -> Sides:
        """share of the gain for a budget: laws of loss and swaps counted"""
        found = privacy.index_sets.retained_gain_for_delta_budget(
            epsilon=epsilon, delta=delta, dim=dim, keep=keep, steps=steps, groups=groups, method=method
        )
        # wrong: the leading term in theta, with d for d - 1
        return (
            found,
            lambda: _gain_by_counting(epsilon, delta, method),
            lambda: 2 * 0.25 * 0.75 * _theta_by_counting(epsilon, delta, method),
        )
