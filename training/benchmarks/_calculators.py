"""What the calculators take at users' sizes, beside a sort of a million numbers: a busy or slow machine slows both alike."""

import itertools
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import torch

from dptheory import gradients, privacy, pruning, sparsification
from dptheory._arrays import Array
from dptheory.gradients import DistortionAngle
from dptheory.pruning import SubsetMallows
from dptheory.training.benchmarks._timing import Case, Work

_SORT = 0.08
"""Seconds of the sort on an idle core of 2020, by which seconds become targets."""


def kappa(device: torch.device, dim: int = 10**6) -> Case:
    """kappa of a gradient with one entry that holds half its square: at most 1 s at d = 1e6."""
    gradient, keep = _uneven(dim), max(1, dim // 10**4)
    return _case(
        f"kappa, d = {dim:,}", lambda: sparsification.kappa(gradient, clip_norm=0.04, drop_rate=1 - keep / dim), 1.0
    )


def best_rate(device: torch.device, dim: int = 10**6) -> Case:
    """The best of some fifty rates: at most 20 s at d = 1e6."""
    gradient = _uneven(dim)
    return _case(
        f"best_rate, d = {dim:,}",
        lambda: sparsification.best_rate(gradient, clip_norm=0.04, delta_c=1.0, step_noise=1e3),
        20.0,
        rounds=2,
    )


def sampler(device: torch.device) -> Case:
    """Index sets of a whole gradient, 2.7 million coordinates in groups of 256: at most 0.5 s."""
    model, rng = SubsetMallows(256, 26, theta=1e-3), np.random.default_rng(0)
    reference = rng.permuted(np.arange(256) < np.full((10_547, 1), 26), axis=1)
    return _case("Mallows sampler, d = 2.7e6", lambda: model.sample(reference, rng), 0.5)


def exact_top_k(device: torch.device) -> Case:
    """The exact top-k MSE, whatever the dimension: at most 50 ms per call."""
    sizes = ((2, 1), (10**5, 10**4), (10**9, 10**8), (10**9, 1), (10**9, 10**9 - 1))
    return _case("top_k_mse, five sizes", lambda: [pruning.top_k_mse(d, k, sigma_g=1.0) for d, k in sizes], 0.25)


def epsilon(device: torch.device) -> Case:
    """The bracket of a typical run: at most 0.5 s."""
    steps = itertools.count(1000)  # a run of its own in every round: results are remembered
    return _case(
        "privacy.epsilon_bounds",
        lambda: privacy.epsilon_bounds(noise_multiplier=1.0, sampling_rate=0.02, steps=next(steps), delta=1e-5),
        0.5,
    )


def epsilon_after_every_epoch(device: torch.device) -> Case:
    """60 questions on a run whose noise falls by 2 % an epoch: at most 10 s, where one on all of it takes a tenth."""
    rate = itertools.count(1000)  # a run of its own in every round

    def work() -> None:
        each = next(rate) / 10**5
        steps = tuple(privacy.Step(noise_multiplier=2 * 0.98**k, sampling_rate=each, count=100) for k in range(60))
        for k in range(60):
            privacy.Composition(steps[: k + 1]).epsilon(1e-5)

    return _case("epsilon after each of 60 epochs", work, 10.0, rounds=2)


def noise_multiplier(device: torch.device) -> Case:
    """sigma for epsilon = 3 over a typical run: at most 6 s."""
    steps = itertools.count(2000)
    return _case(
        "privacy.least_noise_multiplier",
        lambda: privacy.least_noise_multiplier(epsilon=3.0, delta=1e-5, sampling_rate=0.02, steps=next(steps)),
        6.0,
        rounds=3,
    )


def _joint_budget(name: str, groups: int, **run: float) -> Case:
    """theta for a whole run of GIP, index sets and noisy sums: at most 5 s."""
    more = itertools.count(groups)

    def work() -> float:
        return privacy.index_sets.theta_for_joint_budget(delta=1e-5, groups=next(more), **run)  # type: ignore[arg-type]

    return _case(name, work, 5.0, rounds=3)


def joint_budget(device: torch.device) -> Case:
    """Of the paper's size."""
    run = {
        "epsilon": 1.12,
        "dim": 256,
        "keep": 26,
        "sampling_rate": 4096 / 45_000,
        "noise_multiplier": 10.0,
        "steps": 875,
    }
    return _joint_budget("theta_for_joint_budget", 10_547, **run)


def joint_budget_of_many(device: torch.device) -> Case:
    """Of 1e12 releases."""
    run = {"epsilon": 3.0, "dim": 20, "keep": 5, "sampling_rate": 1e-4, "noise_multiplier": 2.0, "steps": 10**6}
    return _joint_budget("theta_for_joint_budget, 1e12 releases", 10**6, **run)


def angle(device: torch.device) -> Case:
    """The law of the distortion angle at d = 1e6: at most 0.1 s for ten."""
    laws = [DistortionAngle(10**6, snr=977.0 * snr) for snr in range(1, 11)]
    return _case("ten laws of the angle, d = 1e6", lambda: [law.cdf([0.5, 1.0]) for law in laws], 0.1)


def largest_form(device: torch.device) -> Case:
    """E max of a thousand quadratic forms with a thousand distinct eigenvalues: at most 0.5 s."""
    eigenvalues = np.arange(1.0, 1001.0) ** -0.7
    return _case(
        "expected_max_quadratic_form, 1,000 eigenvalues",
        lambda: gradients.expected_max_quadratic_form(eigenvalues, 1000),
        0.5,
    )


def importing(device: torch.device) -> Case:
    """``import dptheory`` beside NumPy's own import, each in an interpreter of its own."""
    return Case("import dptheory / import numpy", _interpreter("import dptheory"), _interpreter("import numpy"), 1.5)


CASES: tuple[Callable[[torch.device], Case], ...] = (
    kappa,
    best_rate,
    sampler,
    exact_top_k,
    epsilon,
    epsilon_after_every_epoch,
    noise_multiplier,
    joint_budget,
    joint_budget_of_many,
    angle,
    largest_form,
    importing,
)


def _case(name: str, work: Work, seconds: float, rounds: int | None = None) -> Case:
    numbers = np.random.default_rng(0).random(10**6)
    return Case(f"{name} / sort of 1e6", work, lambda: np.sort(numbers), seconds / _SORT, rounds=rounds)


def _uneven(dim: int) -> Array:
    """A unit vector, half of whose square lies in one entry."""
    gradient = np.full(dim, (0.5 / (dim - 1)) ** 0.5)
    gradient[0] = 0.5**0.5
    return gradient


def _interpreter(code: str) -> Work:
    return lambda: subprocess.run([sys.executable, "-c", code], check=True)
