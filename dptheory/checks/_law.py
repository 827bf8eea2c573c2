"""Monte Carlo: does a sampler follow a finite law?"""

import math
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory._arrays import Array
from dptheory.checks._evidence import Evidence, Kind, failing, stream
from dptheory.checks._mean import SIGMAS, chunk_size, chunks
from dptheory.errors import ArgumentError

OutcomeSampler = Callable[[np.random.Generator, int], NDArray[np.intp]]
"""``sampler(rng, n)`` gives n independent outcomes 0, 1, ..., shape (n,). Picklable."""

_FALSE_ALARM = math.erfc(SIGMAS / math.sqrt(2))


@dataclass(frozen=True)
class _CountsOfChunk:
    sampler: OutcomeSampler
    outcomes: int

    def __call__(self, seed: np.random.SeedSequence, size: int) -> NDArray[np.intp]:
        drawn = self.sampler(np.random.default_rng(seed), size)
        if drawn.shape != (size,) or drawn.min() < 0 or drawn.max() >= self.outcomes:
            raise ArgumentError("sampler", f"give shape ({size},) of outcomes below {self.outcomes}", drawn.shape)
        return np.bincount(drawn, minlength=self.outcomes)


@dataclass(frozen=True)
class LawCheck:
    r"""Outcomes of ``sampler`` follow ``law()`` by Pearson's chi-square, and do not follow ``wrong()``.

    The number of draws is fixed beforehand so that an effect :math:`w = \sqrt{\sum (p' - p)^2 / p}` of ``resolution`` is
    missed as rarely as a false alarm happens (5 sigma); the evidence's ``detectable`` is that effect.

    Args:
        name: unique within the claim.
        sampler: see :data:`OutcomeSampler`.
        law: the claimed probabilities of the outcomes, shape (outcomes,), all positive.
        wrong: probabilities that have to be rejected, same shape.
        row_bytes: memory that one draw takes inside the sampler.
        resolution: the effect that the check must be able to see.

    Example: a fair coin, told from one that falls on heads 3 times in 5.
        >>> import math
        >>> import numpy as np
        >>> from dptheory.checks import LawCheck
        >>> LawCheck(
        ...     "coin",
        ...     sampler=lambda rng, count: rng.integers(0, 2, count),
        ...     law=lambda: np.array([0.5, 0.5]),
        ...     wrong=lambda: np.array([0.4, 0.6]),
        ...     row_bytes=8,
        ...     resolution=0.1,
        ... ).run(math.inf, 0).passed
        True
    """

    name: str
    sampler: OutcomeSampler
    law: Callable[[], Array]
    wrong: Callable[[], Array]
    row_bytes: int
    resolution: float = 0.01

    @property
    def kind(self) -> Kind:
        return Kind.MONTE_CARLO

    def run(self, budget: float, seed: int, executor: Executor | None = None) -> Evidence:
        start = time.perf_counter()
        law, wrong = probabilities("law", self.law()), probabilities("wrong", self.wrong())
        critical, noncentrality = power(law.size)
        draws = draws_for(law.size, self.resolution)
        own = stream(seed, self.name)
        counts = count_outcomes(self.sampler, law.size, draws, budget, own, self.row_bytes, executor)
        found, off = pearson(counts, law), pearson(counts, wrong)
        reach = float(np.sqrt(noncentrality / counts.sum()))
        problems = failing(
            (found <= critical, f"chi-square {found:.1f} > {critical:.1f}"),
            (bool(counts.sum() >= draws), f"budget spent: could have detected an effect of {reach:.3g} only"),
            (off > critical, f"does not reject the wrong law (chi-square {off:.1f})"),
        )
        p_value = float(scipy.special.chdtrc(law.size - 1, found))
        return Evidence(
            check=self.name,
            kind=self.kind,
            passed=not problems,
            detectable=reach,
            samples=int(counts.sum()),
            seconds=time.perf_counter() - start,
            seed=seed,
            detail="; ".join(problems) or f"chi-square {found:.1f} (p = {p_value:.2g}); rejects wrong law at {off:.3g}",
            finished=bool(counts.sum() >= draws),
        )


def probabilities(name: str, law: Array) -> Array:
    """``law`` if it gives two or more outcomes positive probabilities with sum 1."""
    if law.ndim != 1 or law.size < 2 or not (law > 0).all() or abs(law.sum() - 1) > 1e-9:
        raise ArgumentError(name, "hold two or more positive probabilities with sum 1", law)
    return law


def count_outcomes(
    sampler: OutcomeSampler,
    outcomes: int,
    draws: int,
    budget: float,
    seed: int,
    row_bytes: int,
    executor: Executor | None = None,
) -> NDArray[np.intp]:
    """How often each outcome comes in at least ``draws`` draws, or in those of ``budget`` seconds."""
    deadline = time.monotonic() + budget
    counts = np.zeros(outcomes, dtype=np.intp)
    for chunk in chunks(_CountsOfChunk(sampler, outcomes), chunk_size(row_bytes), seed, executor):
        counts = counts + chunk
        if counts.sum() >= draws or time.monotonic() > deadline:
            break
    return counts


def pearson(counts: NDArray[np.intp], law: Array) -> float:
    """Pearson's chi-square of the counts."""
    expected = counts.sum() * law
    return float(np.sum((counts - expected) ** 2 / expected))


def power(outcomes: int) -> tuple[float, float]:
    """The critical chi-square (a false alarm as rare as 5 sigma), and the noncentrality that is missed as rarely."""
    critical = float(scipy.stats.chi2.isf(_FALSE_ALARM, outcomes - 1))
    return critical, _least_noncentrality(critical, outcomes - 1)


def draws_for(outcomes: int, resolution: float) -> int:
    """Draws that show an effect of ``resolution``."""
    return int(np.ceil(power(outcomes)[1] / resolution**2))


def _least_noncentrality(critical: float, freedom: int) -> float:
    """Noncentrality at which chi-square stays below ``critical`` as rarely as a false alarm happens."""
    return float(
        scipy.optimize.brentq(
            lambda nc: float(scipy.stats.ncx2.cdf(critical, freedom, nc)) - _FALSE_ALARM, 1e-9, 100 * critical
        )
    )
