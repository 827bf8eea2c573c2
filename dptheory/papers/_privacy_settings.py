"""The noise multipliers that the five papers print, beside those that their budgets ask for.

Source: RF, Tables 5-9; LF, Appendix D; GIP, Table 4; GEP, section 4 (gip.thm2, rs.thm3.1).
"""

import math
from dataclasses import dataclass
from typing import Any

from dptheory.papers import _hyperparameters
from dptheory.privacy import EpsilonBounds
from dptheory.privacy import epsilon_bounds as _epsilon
from dptheory.privacy import least_noise_multiplier as _noise_multiplier
from dptheory.privacy import max_steps as _steps

MNIST, CIFAR10, FASHION_MNIST, SVHN_EXTENDED, IMAGENET = 60_000, 50_000, 60_000, 604_388, 1_281_167


@dataclass(frozen=True, kw_only=True)
class PaperSetting:
    """One row of a paper: a budget, and as much of the run as it prints.

    Attributes:
        name: "RF, Table 5, End-to-end CNN".
        epsilon, delta: the budget that the Gaussian noise has to keep (of GIP 99% of the printed epsilon).
        batch_size: B, as printed.
        train_size: N; the published size of the data set.
        epochs: as printed, or None.
        noise_multiplier: the printed noise multiplier, or None.
        releases: vectors released a step, each clipped; GEP releases two, so that its noise is sqrt 2 times sigma.
    """

    name: str
    epsilon: float
    delta: float
    batch_size: int
    train_size: int
    epochs: float | None = None
    noise_multiplier: float | None = None
    releases: int = 1

    @property
    def sampling_rate(self) -> float:
        """B / N."""
        return self.batch_size / self.train_size

    @property
    def steps(self) -> int | None:
        """Steps of the printed epochs, or None."""
        return None if self.epochs is None else math.ceil(self.epochs / self.sampling_rate)

    def needed_noise_multiplier(self) -> float | None:
        """The least noise multiplier for the budget over the printed epochs; of GEP that of each released vector."""
        if self.steps is None:
            return None
        sigma = _noise_multiplier(
            epsilon=self.epsilon, delta=self.delta, sampling_rate=self.sampling_rate, steps=self.steps
        )
        return sigma * math.sqrt(self.releases)

    def spent(self) -> EpsilonBounds | None:
        """Epsilon of the printed noise over the printed epochs."""
        if self.steps is None or self.noise_multiplier is None:
            return None
        return _epsilon(
            noise_multiplier=self.noise_multiplier, sampling_rate=self.sampling_rate, steps=self.steps, delta=self.delta
        )

    def allowed_steps(self) -> int | None:
        """The most steps that the printed noise can run for within the budget."""
        if self.noise_multiplier is None:
            return None
        return _steps(
            epsilon=self.epsilon,
            delta=self.delta,
            noise_multiplier=self.noise_multiplier,
            sampling_rate=self.sampling_rate,
        )


def paper_settings() -> tuple[PaperSetting, ...]:
    """Every setting from which a noise multiplier or a number of steps follows."""
    return (*_rf(), *_lf(), *_gip(), *_gep())


def _rf() -> tuple[PaperSetting, ...]:
    rows = []
    for one in _hyperparameters.all_presets():
        known: dict[str, Any] = {
            "epsilon": one.epsilon,
            "delta": one.delta,
            "batch_size": one.batch_size,
            "train_size": one.train_size,
            "epochs": one.epochs,
            "noise_multiplier": one.noise_multiplier,
        }
        if one.name.startswith("rf.") and None not in known.values():
            rows.append(PaperSetting(name=f"{one.source}: {one.framework}", **known))
    return tuple(rows)


def _lf() -> tuple[PaperSetting, ...]:
    rows = (
        ("MNIST", MNIST, 2048, 1.923, (1, 2, 3)),
        ("FashionMNIST", FASHION_MNIST, 2048, 2.15, (1, 2, 3)),
        ("CIFAR10", CIFAR10, 512, 1.0, (3,)),
        ("CIFAR10", CIFAR10, 2048, 1.47, (7,)),
    )
    return tuple(
        PaperSetting(
            name=f"LF, Appendix D: {data}",
            epsilon=epsilon,
            delta=1e-5,
            batch_size=batch,
            train_size=size,
            noise_multiplier=sigma,
        )
        for data, size, batch, sigma, budgets in rows
        for epsilon in budgets
    )


def _gip() -> tuple[PaperSetting, ...]:
    rows = (
        ("WRN-16-4, CIFAR10", CIFAR10, 4096, 1e-5, (0.5, 1.0, 2.0, 4.0), (13.0, 10.0, 6.0, 4.0)),
        ("WRN-28-10, CIFAR10", CIFAR10, 16384, 1e-5, (0.25, 0.5, 1.0, 2.0), (30.0, 22.0, 21.1, 15.8)),
        ("ImageNet", IMAGENET, 16384, 8e-7, (0.2, 0.4, 0.6, 0.8), (2.5, 2.5, 2.5, 2.5)),
    )
    return tuple(
        PaperSetting(
            name=f"GIP, Table 4: {name}",
            epsilon=0.99 * epsilon,
            delta=delta,
            batch_size=batch,
            train_size=size,
            noise_multiplier=sigma,
        )
        for name, size, batch, delta, budgets, sigmas in rows
        for epsilon, sigma in zip(budgets, sigmas, strict=True)
    )


def _gep() -> tuple[PaperSetting, ...]:
    rows = (
        ("MNIST", MNIST, 1e-5, (50, 100, 200)),
        ("SVHN", SVHN_EXTENDED, 1e-6, (5, 10, 20)),
        ("CIFAR10", CIFAR10, 1e-5, (50, 100, 200)),
    )
    return tuple(
        PaperSetting(
            name=f"GEP, section 4: {data}",
            epsilon=epsilon,
            delta=delta,
            batch_size=1000,
            train_size=size,
            epochs=run,
            releases=2,
        )
        for data, size, delta, epochs in rows
        for epsilon, run in zip((2, 5, 8), epochs, strict=True)
    )
