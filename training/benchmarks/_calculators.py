"""What the calculators take at users' sizes, beside a sort of a million numbers: a busy or slow machine slows both alike."""

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from dptheory import gradients, privacy, pruning, sparsification
from dptheory._arrays import Array
from dptheory.gradients import DistortionAngle
from dptheory.pruning import SubsetMallows
from dptheory.training.benchmarks._steps import Part, measured
from dptheory.training.benchmarks._timing import Work, in_turns

_SORT = 0.08
"""Seconds of the sort on an idle core of 2020, by which seconds become goals."""


_NUMBERS = np.random.default_rng(0).random(10**6)


def kappa(dim: int = 10**6) -> Work:
    """kappa of a gradient with one entry that holds half its square."""
    gradient, keep = _uneven(dim), max(1, dim // 10**4)
    return lambda: sparsification.kappa(gradient, clip_norm=0.04, drop_rate=1 - keep / dim)


def best_rate(dim: int = 10**6) -> Work:
    """The best of some fifty rates."""
    gradient = _uneven(dim)
    return lambda: sparsification.best_rate(gradient, clip_norm=0.04, delta_c=1.0, step_noise=1e3)


def sampler() -> Work:
    """Index sets of a whole gradient, 2.7 million coordinates in groups of 256."""
    model, rng = SubsetMallows(256, 26, theta=1e-3), np.random.default_rng(0)
    reference = rng.permuted(np.arange(256) < np.full((10_547, 1), 26), axis=1)
    return lambda: model.sample(reference, rng)


def exact_top_k() -> Work:
    """The exact top-k MSE, whatever the dimension: five calls."""
    sizes = ((2, 1), (10**5, 10**4), (10**9, 10**8), (10**9, 1), (10**9, 10**9 - 1))
    return lambda: [pruning.top_k_mse(d, k, sigma_g=1.0) for d, k in sizes]


def epsilon() -> Work:
    """The bracket of a typical run, of its own in every round: results are remembered."""
    steps = itertools.count(1000)
    return lambda: privacy.epsilon_bounds(noise_multiplier=1.0, sampling_rate=0.02, steps=next(steps), delta=1e-5)


def epsilon_after_every_epoch(epochs: int = 60) -> Work:
    """A question after each epoch of a run whose noise falls by 2 % an epoch."""
    rate = itertools.count(1000)

    def work() -> None:
        each = next(rate) / 10**5
        steps = tuple(privacy.Step(noise_multiplier=2 * 0.98**k, sampling_rate=each, count=100) for k in range(epochs))
        for k in range(epochs):
            privacy.Composition(steps[: k + 1]).epsilon(1e-5)

    return work


def noise_multiplier() -> Work:
    """sigma for epsilon = 3 over a typical run."""
    steps = itertools.count(2000)
    return lambda: privacy.least_noise_multiplier(epsilon=3.0, delta=1e-5, sampling_rate=0.02, steps=next(steps))


def joint_budget(groups: int, **run: float) -> Work:
    """theta for a whole run of GIP, index sets and noisy sums."""
    more = itertools.count(groups)
    return lambda: privacy.index_sets.theta_for_joint_budget(delta=1e-5, groups=next(more), **run)  # type: ignore[arg-type]


def angle() -> Work:
    """Ten laws of the distortion angle at d = 1e6."""
    laws = [DistortionAngle(10**6, snr=977.0 * snr) for snr in range(1, 11)]
    return lambda: [law.cdf([0.5, 1.0]) for law in laws]


def largest_form() -> Work:
    """E max of a thousand quadratic forms with a thousand distinct eigenvalues."""
    eigenvalues = np.arange(1.0, 1001.0) ** -0.7
    return lambda: gradients.expected_max_quadratic_form(eigenvalues, 1000)


_PAPERS = {
    "epsilon": 1.12,
    "dim": 256,
    "keep": 26,
    "sampling_rate": 4096 / 45_000,
    "noise_multiplier": 10.0,
    "steps": 875,
}
_MANY = {"epsilon": 3.0, "dim": 20, "keep": 5, "sampling_rate": 1e-4, "noise_multiplier": 2.0, "steps": 10**6}
CASES: dict[str, tuple[Callable[[], Work], float, int]] = {
    "kappa, d = 1e6": (kappa, 1.0, 15),
    "best_rate, d = 1e6": (best_rate, 20.0, 2),
    "Mallows sampler, d = 2.7e6": (sampler, 0.5, 15),
    "top_k_mse, five sizes": (exact_top_k, 0.25, 15),
    "epsilon_bounds": (epsilon, 0.5, 15),
    "epsilon after each of 60 epochs": (epsilon_after_every_epoch, 10.0, 2),
    "least_noise_multiplier": (noise_multiplier, 6.0, 3),
    "theta_for_joint_budget": (partial(joint_budget, 10_547, **_PAPERS), 5.0, 3),
    "theta_for_joint_budget, 1e12 releases": (partial(joint_budget, 10**6, **_MANY), 5.0, 3),
    "ten laws of the angle, d = 1e6": (angle, 0.1, 15),
    "expected_max_quadratic_form, 1,000 eigenvalues": (largest_form, 0.5, 15),
}
"""By name: what is timed, the seconds that it may take on an idle core, and the most rounds."""


def parts(rounds: int) -> Iterator[tuple[str, Part]]:
    """Names of what is measured, and how: its time over that of the sort, and the goal for that."""
    for name, (build, seconds, most) in CASES.items():
        yield name, partial(_beside, build, _sort, seconds / _SORT, min(rounds, most))
    yield "import dptheory", partial(_beside, partial(_importing, "dptheory"), _importing("numpy"), 1.5, rounds)


def _beside(build: Callable[[], Work], other: Work, goal: float, rounds: int) -> dict[str, object]:
    found = measured(lambda: {"times": in_turns({"work": build(), "other": other}, rounds)})
    ratio = found["times"]["work"]["median"] / found["times"]["other"]["median"]
    return found | {"ratio": ratio, "goal": goal, "reached": ratio <= goal}


def _sort() -> object:
    return np.sort(_NUMBERS)


def _uneven(dim: int) -> Array:
    """A unit vector, half of whose square lies in one entry."""
    gradient = np.full(dim, (0.5 / (dim - 1)) ** 0.5)
    gradient[0] = 0.5**0.5
    return gradient


def _importing(package: str) -> Work:
    """In an interpreter of its own."""
    return lambda: subprocess.run([sys.executable, "-c", f"import {package}"], check=True)
