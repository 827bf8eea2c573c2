import functools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import scipy

from dptheory import papers, privacy
from dptheory._arrays import Array
from dptheory.claims._row import Severity, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite
from dptheory.claims.rs._runs import clip
from dptheory.papers import Cell, Setting

# --- What the privacy statements are held against: a private run drawn at random, and the budget of the paper's settings.


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
            / _finite.divergence(a, batch_size / examples, sigma)
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


def _gain(setting: str) -> Fraction:
    """Percentage points that freezing adds to the median."""
    without, frozen = (cell.number() for cell in TABLE_1[setting])
    return 100 * (frozen - without)


abstract = new_row(
    id="lf.abstract",
    source=Source("lf", "Section 1, against Table 1"),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
    kernel_theorems=("printed_is_false", "correction_holds"),
)


@abstract.equal(())
def _() -> Sides:
    """largest difference in Table 1"""
    return Fraction("1.5"), max(map(_gain, TABLE_1)), Fraction("1.3")


@abstract.equal(("more",), ("none",))
def _(which: str) -> Sides:
    """settings that gain more than 1.3 points, and none"""
    return (
        Fraction({"more": 3, "none": 1}[which]),
        Fraction(sum(gain > Fraction("1.3") if which == "more" else gain == 0 for gain in map(_gain, TABLE_1))),
        Fraction(0),
    )


low_epsilon = new_row(
    id="lf.low_epsilon",
    source=Source("lf", "Section 1, on low epsilon"),
    verdict=Verdict.NOT_SHOWN,
)


_LOWEST_AND_HIGHEST = {
    "MNIST, CNN": (1, 3, Fraction(1, 1000)),
    "FashionMNIST, CNN": (1, 3, Fraction(1, 1000)),
    "CIFAR10, CNN": (3, 7, Fraction(1, 1000)),
    "CIFAR10, Wide-ResNet": (1, 2, Fraction(2, 1000)),
}
"""Budgets of each row of Table 1, and by how much the gain at the lower one is above that at the higher one."""


@low_epsilon.equal(lambda: [(name, low, high) for name, (low, high, _) in _LOWEST_AND_HIGHEST.items()])
def _(name: str, low: int, high: int) -> Sides:
    """gain at the lowest budget less gain at the highest, in the table"""
    found = _LOWEST_AND_HIGHEST[name][2]
    return (
        found,
        lambda: (_gain(f"{name}, epsilon {low}") - _gain(f"{name}, epsilon {high}")) / 100,
        2 * found,
    )


def _free_freezing() -> float:
    return privacy.gaussian_delta(math.sqrt(STEPS) / SIGMA, EPSILON)


def _cheaper_freezing() -> float:
    """As if half of the coordinates cost half of the budget."""
    return privacy.gaussian_delta(math.sqrt(1.5) / SIGMA, EPSILON)


def _hockey_stick(epsilon: float, adaptive: bool) -> float:
    """delta(epsilon) of one step that freezes layer 1 always, or, if ``adaptive``, where its gradient is 0.

    One parameter a layer, noise of standard deviation 1. The added record has the gradient (3/5, 4/5), the others 0. If the step
    is adaptive, layer 1 stays exactly where it is without the record, and moves with it: densities on sets that do not meet.
    Otherwise layer 2 alone is released, from gradients 0 and 1, the record being clipped to norm 1 after freezing.
    """
    if adaptive:
        without, added = 0.0, 3 / 5
        frozen_without, frozen_with = without == 0.0, without + added == 0.0
        return float(frozen_without != frozen_with)
    crossing = epsilon + 0.5  # where the log of the ratio of the densities is epsilon
    return float(
        scipy.integrate.quad(
            lambda x: scipy.stats.norm.pdf(x, 1) - math.exp(epsilon) * scipy.stats.norm.pdf(x, 0),
            crossing,
            40,
            epsabs=1e-13,
            limit=200,
        )[0]
    )


privacy_row = new_row(
    id="lf.privacy",
    source=Source("lf", "Section 3.1"),
    verdict=Verdict.HOLDS,
)


@privacy_row.mean(partial(delta_draws, frozen=(0, 1)), wrong=_cheaper_freezing, row_bytes=200)
def _() -> float:
    """privacy loss of two steps, a layer frozen at the second"""
    return _free_freezing()


@privacy_row.equal(
    lambda: [(epsilon, adaptive) for epsilon in (0.1, 1.0, 5.0) for adaptive in (False, True)], tolerance=1e-7
)
def _(epsilon: float, adaptive: bool) -> Sides:
    """fixed and data-dependent schedule: delta"""
    return (
        1.0 if adaptive else privacy.gaussian_delta(1.0, epsilon),
        lambda: _hockey_stick(epsilon, adaptive),
        privacy.gaussian_delta(1.0, epsilon),
    )


def _change_of_spread(setting: str) -> Fraction:
    """-1, 0 or 1: smaller, equal or larger as printed with freezing."""
    before, after = (cell.spread() for cell in TABLE_1[setting])
    assert before is not None and after is not None
    if before == after:
        return Fraction(0)
    return Fraction(-1 if float(after) < float(before) else 1)


_EQUAL_SPREAD = tuple(
    f"{data}, CNN, epsilon {epsilon}"
    for data, epsilon in (("MNIST", 2), ("MNIST", 3), ("FashionMNIST", 1), ("FashionMNIST", 3))
)
_WITH_SPREAD = tuple(name for name, (cell, _) in TABLE_1.items() if cell.spread())


spread = new_row(
    id="lf.spread",
    source=Source("lf", "Section 4, Table 1"),
    verdict=Verdict.LOOSE,
)


@spread.equal(lambda: [(name,) for name in _WITH_SPREAD])
def _(name: str) -> Sides:
    """standard deviations of Table 1"""
    smaller_everywhere = Fraction(-1)
    return Fraction(0 if name in _EQUAL_SPREAD else -1), _change_of_spread(name), smaller_everywhere


_FROZEN_STEPS = {
    "MNIST, CNN, epsilon 1": 50,
    "MNIST, CNN, epsilon 2": 43,
    "MNIST, CNN, epsilon 3": 18,
    "FashionMNIST, CNN, epsilon 1": 69,
    "FashionMNIST, CNN, epsilon 2": 158,
    "FashionMNIST, CNN, epsilon 3": 343,
    "CIFAR10, CNN, epsilon 3": 118,
    "CIFAR10, CNN, epsilon 7": 41,
}


tf = new_row(
    id="lf.tf",
    source=Source("lf", "Section 4, against appendix D"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
)


@tf.equal(lambda: [(name,) for name in SETTINGS])
def _(name: str) -> Sides:
    """steps left at the epochs of appendix D"""
    return _FROZEN_STEPS[name], lambda: math.floor(frozen_steps(name)), 20
