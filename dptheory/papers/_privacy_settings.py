"""The noise multipliers that the five papers print, beside those that their budgets ask for.

Source: RF, Tables 5-9; LF, Appendix D; GIP, Table 4; GEP, section 4 (gip.thm2, rs.thm3.1).
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dptheory.papers import _data

if TYPE_CHECKING:
    from dptheory.privacy import EpsilonBounds


@dataclass(frozen=True, kw_only=True)
class PaperSetting:
    """One row of a paper: a budget, and as much of the run as it prints.

    Attributes:
        name: "RF, Tables 1, 2 and 5: End-to-end CNN, CIFAR10".
        epsilon, delta: the budget that the Gaussian noise has to keep (of GIP 99% of the printed epsilon).
        batch_size: B, as printed.
        train_size: N as printed (GIP); else the published size of the data set.
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
        """The least noise multiplier for the budget over the printed epochs; of GEP that of each released vector.

        Returns:
            The noise multiplier; None where no epochs are printed.

        Raises:
            ValueError: a budget, rate or number of steps that :func:`dptheory.privacy.least_noise_multiplier` refuses.

        Example: one step on all records at epsilon 1 needs the 3.73 of the Gaussian mechanism.
            >>> from dptheory.papers import PaperSetting
            >>> setting = PaperSetting(name="one step", epsilon=1.0, delta=1e-5, batch_size=60_000, train_size=60_000, epochs=1)
            >>> round(setting.needed_noise_multiplier(), 2)
            3.73
        """
        if self.steps is None:
            return None
        from dptheory import privacy  # reading what is printed needs no calculator

        sigma = privacy.least_noise_multiplier(
            epsilon=self.epsilon, delta=self.delta, sampling_rate=self.sampling_rate, steps=self.steps
        )
        return sigma * math.sqrt(self.releases)

    def spent(self) -> "EpsilonBounds | None":
        """Epsilon of the printed noise over the printed epochs.

        Returns:
            The bounds of epsilon; None where noise or epochs are not printed.

        Raises:
            ValueError: noise, rate or number of steps that :func:`dptheory.privacy.epsilon_bounds` refuses.

        Example: one step on all records with noise as large as the sensitivity spends 4.38.
            >>> from dptheory.papers import PaperSetting
            >>> setting = PaperSetting(name="one step", epsilon=1.0, delta=1e-5, batch_size=60_000, train_size=60_000, epochs=1,
            ...                        noise_multiplier=1.0)
            >>> round(setting.spent().estimate, 2)
            4.38
        """
        if self.steps is None or self.noise_multiplier is None:
            return None
        from dptheory import privacy

        return privacy.epsilon_bounds(
            noise_multiplier=self.noise_multiplier, sampling_rate=self.sampling_rate, steps=self.steps, delta=self.delta
        )

    def allowed_steps(self) -> int | None:
        """The most steps that the printed noise can run for within the budget.

        Returns:
            The number of steps; None where no noise multiplier is printed.

        Raises:
            ValueError: a budget, noise or rate that :func:`dptheory.privacy.max_steps` refuses.

        Example: by hand: epsilon 1 asks for 3.731 in one step, so that 20 suffice for (20 / 3.731)^2 = 28.7.
            >>> from dptheory.papers import PaperSetting
            >>> PaperSetting(name="full batches", epsilon=1.0, delta=1e-5, batch_size=60_000, train_size=60_000,
            ...              noise_multiplier=20.0).allowed_steps()
            28
        """
        if self.noise_multiplier is None:
            return None
        from dptheory import privacy

        return privacy.max_steps(
            epsilon=self.epsilon,
            delta=self.delta,
            noise_multiplier=self.noise_multiplier,
            sampling_rate=self.sampling_rate,
        )


def paper_settings() -> tuple[PaperSetting, ...]:
    """Every setting from which a noise multiplier or a number of steps follows.

    Returns:
        The settings.

    Example: RF's CNN at epsilon 3 is the first.
        >>> from dptheory.papers import paper_settings
        >>> paper_settings()[0].name, paper_settings()[0].noise_multiplier
        ('RF, Tables 1, 2 and 5: End-to-end CNN, CIFAR10', 1.54)
    """
    return tuple(
        PaperSetting(
            name=f"{one.source}: {one.model}, {one.dataset}",
            epsilon=(1 - (one.index_share or 0)) * one.number("epsilon"),
            delta=one.number("delta"),
            batch_size=one.whole("batch_size"),
            train_size=one.whole("train_size"),
            epochs=one.epochs,
            noise_multiplier=one.noise_multiplier,
            releases=one.releases or 1,
        )
        for paper in ("rf", "lf", "gip", "gep")
        for one in _data.settings(paper)
        if None not in (one.epsilon, one.delta, one.batch_size, one.train_size)
        and (one.noise_multiplier or one.epochs) is not None
    )
