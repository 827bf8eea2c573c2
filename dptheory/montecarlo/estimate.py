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
from numpy.typing import NDArray

from dptheory.montecarlo._evidence import Evidence, Kind, stream

Sampler = Callable[[np.random.Generator, int], NDArray[np.float64]]
"""``sampler(rng, n)`` gives n independent draws, shape (n,). Picklable, so that processes can run it."""

SIGMAS = 5.0
"""Standard errors by which a statement may be off: a false alarm in about two million checks."""

_T = TypeVar("_T")
_CHUNK_BYTES = 32 * 2**20
_MAX_CHUNK = 65_536
_MIN_DRAWS = 2_000
_IN_FLIGHT = 16


@dataclass(frozen=True)
class Moments:
    """Count, mean and sum of squared deviations of a stream of numbers."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def merge(self, other: "Moments") -> "Moments":
        """Moments of both streams together (Chan's form of Welford's update)."""
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


def moments(values: NDArray[np.float64]) -> Moments:
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
        return moments(self.sampler(np.random.default_rng(seed), size))


def estimate(
    sampler: Sampler,
    enough: Callable[[Moments], bool],
    budget: float,
    seed: int,
    executor: Executor | None = None,
    row_bytes: int = 8,
) -> Moments:
    """Mean of ``sampler`` over chunks until ``enough(moments)`` or ``budget`` seconds are spent.

    Args:
        sampler: draws values; see :data:`Sampler`.
        enough: looks at spread and count only, so that stopping does not favour an outcome.
        budget: seconds.
        seed: chunk i uses SeedSequence(seed, spawn_key=(i,)).
        executor: any concurrent.futures executor; None runs in this thread. The result is the same.
        row_bytes: memory that one draw takes inside the sampler, which sets the chunk size.
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
    error of that size is missed once in two million runs) is at most ``resolution``, and the wrong value is rejected:
    ``wrong()``, or where none is given both ``claimed() * (1 +- detectable)``.

    Args:
        name: unique within the claim.
        sampler: see :data:`Sampler`.
        claimed: the statement's value, computed by the calculator.
        wrong: the value of the printed formula of a false claim.
        row_bytes: memory that one draw takes inside the sampler.
        resolution: largest detectable relative error with which the check may pass.
    """

    name: str
    sampler: Sampler
    claimed: Callable[[], float]
    wrong: Callable[[], float] | None = None
    row_bytes: int = 8
    resolution: float = 0.01

    @property
    def kind(self) -> Kind:
        return Kind.MONTE_CARLO

    def run(self, budget: float, seed: int, executor: Executor | None = None) -> Evidence:
        start = time.perf_counter()
        claimed = self.claimed()

        def detectable(found: Moments) -> float:
            return 2 * SIGMAS * found.standard_error / abs(claimed)

        found = estimate(
            self.sampler,
            lambda m: detectable(m) <= self.resolution,
            budget,
            stream(seed, self.name),
            executor,
            self.row_bytes,
        )
        reach = detectable(found)
        wrong = [self.wrong()] if self.wrong else [claimed * (1 - reach), claimed * (1 + reach)]

        def accepts(value: float) -> bool:
            return abs(found.mean - value) <= SIGMAS * found.standard_error

        rejects = not any(accepts(value) for value in wrong)
        label = "wrong" if self.wrong else "perturbed"
        problems = [
            *([] if accepts(claimed) else ["the claim is off by more than 5 standard errors"]),
            *([] if reach <= self.resolution else [f"budget spent: could have detected {reach:.2%} only"]),
            *([] if rejects else [f"does not reject the {label} value {', '.join(f'{v:.6g}' for v in wrong)}"]),
        ]
        offs = ", ".join(f"{v:.6g} ({(v - found.mean) / found.standard_error:+.0f} SE)" for v in wrong)
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
        )
