"""Monte Carlo: streaming moments in reproducible chunks, and checks that say what they could have detected."""

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dptheory._arrays import Array
from dptheory.checks._evidence import Evidence, Kind, failing, stream
from dptheory.errors import ArgumentError

Sampler = Callable[[np.random.Generator, int], Array]
"""``sampler(rng, n)`` gives n independent draws, shape (n,), of a law whose spread a few thousand draws show: no rare, huge
values. Picklable, so that processes can run it."""

SIGMAS = 5.0
"""Standard errors by which a statement may be off: a false alarm in about two million checks."""

_T = TypeVar("_T")
_CHUNK_BYTES = 32 * 2**20
_MAX_CHUNK = 65_536
_MIN_DRAWS = 2_000
_IN_FLIGHT = 16


@dataclass(frozen=True)
class Moments:
    """Moments of a stream of numbers.

    Attributes:
        count: how many.
        mean: their mean.
        squares: sum of the squared deviations from it.
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def merge(self, other: "Moments") -> "Moments":
        """Moments of both streams together (Chan's form of Welford's update).

        Args:
            other: moments of the other stream, independent of this one.

        Returns:
            The moments.

        Example: by hand: 1 and 3 have the mean 2, and squares of deviations that sum to 2.
            >>> from dptheory.checks import Moments
            >>> Moments(count=1, mean=1.0, squares=0.0).merge(Moments(count=1, mean=3.0, squares=0.0))
            Moments(count=2, mean=2.0, squares=2.0)
        """
        count = self.count + other.count
        if count == 0:
            return self
        shift = other.mean - self.mean
        mean = self.mean + shift * other.count / count
        return Moments(count, mean, self.squares + other.squares + shift**2 * self.count * other.count / count)

    @property
    def standard_error(self) -> float:
        """Standard error of the mean; inf below two draws."""
        return math.sqrt(self.squares / (self.count - 1) / self.count) if self.count > 1 else math.inf


def moments(values: Array) -> Moments:
    """Moments of one chunk; a value that is not finite is an error, not a result."""
    if not np.isfinite(values).all():
        raise FloatingPointError(f"the sampler drew {values[~np.isfinite(values)][0]}")
    mean = float(values.mean())
    return Moments(values.size, mean, float(np.square(values - mean).sum()))


def chunk_size(row_bytes: int) -> int:
    """Draws per chunk: fixed by the memory that one draw takes, never by the number of workers."""
    return max(1, min(_MAX_CHUNK, _CHUNK_BYTES // row_bytes))


def chunks(
    work: Callable[[np.random.SeedSequence, int], _T], size: int, seed: int, executor: Executor | None
) -> Iterator[_T]:
    """Endless results of ``work(seed of the chunk, size)`` in the order of the chunks, spread over the executor."""
    seeds = (np.random.SeedSequence(seed, spawn_key=(i,)) for i in itertools.count())
    if executor is None:
        yield from (work(one, size) for one in seeds)
        return
    waiting: deque[Future[_T]] = deque()
    try:
        for one in seeds:
            waiting.append(executor.submit(work, one, size))
            if len(waiting) == _IN_FLIGHT:
                yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


@dataclass(frozen=True)
class _MomentsOfChunk:
    sampler: Sampler

    def __call__(self, seed: np.random.SeedSequence, size: int) -> Moments:
        values = self.sampler(np.random.default_rng(seed), size)
        if values.shape != (size,):
            raise ArgumentError("sampler", f"give shape ({size},)", values.shape)
        return moments(values)


def estimate(
    sampler: Sampler,
    enough: Callable[[Moments], bool],
    budget: float,
    seed: int,
    row_bytes: int,
    executor: Executor | None = None,
) -> Moments:
    """Mean of ``sampler`` over chunks until ``enough(moments)`` or ``budget`` seconds are spent.

    Args:
        sampler: draws values; see :data:`Sampler`.
        enough: looks at spread and count only, so that stopping does not favour an outcome.
        budget: seconds.
        seed: chunk i uses SeedSequence(seed, spawn_key=(i,)).
        row_bytes: memory that one draw takes inside the sampler, which sets the chunk size.
        executor: any concurrent.futures executor; None runs in this thread. The result is the same.

    Returns:
        Count, mean and spread of the draws.

    Example: the mean of a uniform number, to a hundredth.
        >>> import math
        >>> from dptheory.checks import estimate
        >>> sampler = lambda rng, count: rng.uniform(size=count)
        >>> found = estimate(sampler, lambda moments: moments.standard_error < 0.002, budget=math.inf, seed=0, row_bytes=8)
        >>> abs(found.mean - 0.5) < 0.01
        True
    """
    deadline = time.monotonic() + budget
    total = Moments()
    for chunk in chunks(_MomentsOfChunk(sampler), chunk_size(row_bytes), seed, executor):
        total = total.merge(chunk)
        if total.count >= _MIN_DRAWS and enough(total):
            break
        if time.monotonic() > deadline:
            break
    return total


@dataclass(frozen=True)
class MeanCheck:
    """E[sampler] equals ``claimed()``, and does not equal the wrong value.

    Passes if the mean lies within 5 standard errors of the claim, its detectable relative error (10 standard errors: an
    error of that size is missed once in two million runs) is at most ``resolution``, and the wrong value is rejected.
    That is ``wrong()``; where none is given, ``claimed() * (1 +- detectable)`` has to be rejected by as many fresh draws.

    Args:
        name: unique within the claim.
        sampler: see :data:`Sampler`.
        claimed: the statement's value, computed by the calculator; finite and not 0.
        row_bytes: memory that one draw takes inside the sampler.
        wrong: the value of the printed formula of a false claim, or of a formula close by.
        resolution: largest detectable relative error with which the check may pass.

    Example: the mean of a uniform number is 1/2, and not 0.6.
        >>> import math
        >>> from dptheory.checks import MeanCheck
        >>> MeanCheck(
        ...     "half",
        ...     sampler=lambda rng, count: rng.uniform(size=count),
        ...     claimed=lambda: 0.5,
        ...     row_bytes=8,
        ...     wrong=lambda: 0.6,
        ...     resolution=0.1,
        ... ).run(math.inf, 0).passed
        True
    """

    name: str
    sampler: Sampler
    claimed: Callable[[], float]
    row_bytes: int
    wrong: Callable[[], float] | None = None
    resolution: float = 0.01

    @property
    def kind(self) -> Kind:
        return Kind.MONTE_CARLO

    def run(self, budget: float, seed: int, executor: Executor | None = None) -> Evidence:
        start = time.perf_counter()
        claimed = self.claimed()
        if not math.isfinite(claimed) or claimed == 0:
            raise ArgumentError("claimed", "be finite and not 0", claimed)

        def detectable(found: Moments) -> float:
            return 2 * SIGMAS * found.standard_error / abs(claimed)

        def draw(enough: Callable[[Moments], bool], stream_name: str) -> Moments:
            left = budget - (time.perf_counter() - start)
            return estimate(self.sampler, enough, left, stream(seed, stream_name), self.row_bytes, executor)

        found = draw(lambda m: detectable(m) <= self.resolution, self.name)
        reach = detectable(found)
        if self.wrong is None:
            label, wrong = "perturbed", [claimed * (1 - reach), claimed * (1 + reach)]
            judge = draw(lambda m: m.count >= found.count, f"{self.name}, fresh draws")
        else:
            label, wrong, judge = "wrong", [self.wrong()], found
        refused = ((math.isfinite(v) and not _accepts(judge, v), v) for v in wrong)
        problems = failing(
            (_accepts(found, claimed), "the claim is off by more than 5 standard errors"),
            (reach <= self.resolution, f"budget spent: could have detected {reach:.2%} only"),
            (min(found.count, judge.count) >= _MIN_DRAWS, f"budget spent: fewer than {_MIN_DRAWS} draws"),
            *((rejected, f"does not reject the {label} value {v:.6g}") for rejected, v in refused),
        )
        offs = ", ".join(f"{v:.6g} ({(v - judge.mean) / max(judge.standard_error, 1e-300):+.3g} SE)" for v in wrong)
        return Evidence(
            check=self.name,
            kind=self.kind,
            passed=not problems,
            claimed=claimed,
            observed=found.mean,
            standard_error=found.standard_error,
            detectable=reach,
            samples=found.count,
            seconds=time.perf_counter() - start,
            seed=seed,
            detail="; ".join(problems) or f"rejects {label} {offs}",
            finished=reach <= self.resolution and min(found.count, judge.count) >= _MIN_DRAWS,
        )


def _accepts(found: Moments, value: float) -> bool:
    return abs(found.mean - value) <= SIGMAS * found.standard_error
