"""What the privacy statements are held against: a private run drawn at random, and the budget of the paper's settings."""

import functools
import math

import numpy as np

from dptheory import papers
from dptheory._arrays import Array
from dptheory.claims.gip import _mixture
from dptheory.claims.lf._testbed import clip
from dptheory.papers import Cell, Setting

DELTA = 1e-5
_ORDERS = list(range(2, 65))


# --- two steps of DP-SGD-LF in the plane, on the whole data ---

SIGMA, CLIP, EPSILON, STEPS = 2.0, 1.0, 0.5, 2
_COMMON = np.array([[0.3, 0.1], [-0.4, 0.8]])
_ADDED = np.array([50.0, -40.0])  # so far away that its gradient is clipped at every step


def delta_draws(rng: np.random.Generator, n: int, frozen: tuple[int, ...]) -> Array:
    """(1 - exp(EPSILON - loss))_+ for runs on the data with the added record; the mean is delta(EPSILON).

    The loss is log p/q of all iterates, p the density with the record and q that without it. ``frozen``: how many of the
    coordinates are frozen at each step.
    """
    theta, loss = np.zeros((n, 2)), np.zeros(n)
    std = SIGMA * CLIP
    for still in frozen:
        moving = (np.arange(2) >= still).astype(np.float64)
        shared = sum(clip((theta - row) * moving, CLIP) for row in _COMMON)
        added = clip((theta - _ADDED) * moving, CLIP)
        noise = std * rng.standard_normal((n, 2)) * moving
        loss += ((added**2).sum(axis=1) / 2 + (added * noise).sum(axis=1)) / std**2
        theta = theta - 0.5 * (shared + added + noise)
    return np.asarray(np.maximum(-np.expm1(EPSILON - loss), 0.0))


# --- steps that a budget allows ---


@functools.cache
def affordable_steps(epsilon: float, sigma: float, batch_size: int, examples: int) -> int:
    """Steps that fit into the budget at delta = 1e-5, at the best whole Renyi order; the budget may allow a few more.

    The divergence of a step by quadrature, and (epsilon - what the conversion adds) / divergence steps at each order.
    """
    return max(
        math.floor(
            (epsilon - math.log(1 - 1 / a) + math.log(DELTA * a) / (a - 1))
            / _mixture.divergence(a, batch_size / examples, sigma)
        )
        for a in _ORDERS
    )


def frozen_steps(setting: str) -> float:
    """Steps between the epoch at which layers are frozen, by appendix D, and the end of the budget."""
    one = SETTINGS[setting]
    batch_size, examples = one.whole("batch_size"), one.whole("train_size")
    before = one.whole("frozen_after_epoch") * examples / batch_size
    return affordable_steps(one.number("epsilon"), one.number("noise_multiplier"), batch_size, examples) - before


# LF: Table 1 and the settings of Appendix D by the name of the setting, such as "MNIST, CNN, epsilon 1".


_CELLS = papers.table("lf.table1").cells

TABLE_1: dict[str, tuple[Cell, Cell]] = {
    # without freezing, with freezing
    without.name.removesuffix(f", {without.key('column')}"): (without, frozen)
    for without, frozen in zip(_CELLS[::2], _CELLS[1::2], strict=True)
}

SETTINGS: dict[str, Setting] = {
    f"{one.dataset}, CNN, epsilon {one.epsilon}": one
    for one in papers.settings("lf")
    if one.frozen_after_epoch is not None
}
"""Those whose noise multiplier is printed: not the Wide-ResNet."""
