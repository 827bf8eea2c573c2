"""Poisson batches, and those of random allocation, in parts for several processes."""

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from opacus.utils.uniform_sampler import UniformWithReplacementSampler

from dptheory import _validate
from dptheory._arrays import Array
from dptheory.errors import ArgumentError
from dptheory.privacy import MAX_STEPS
from dptheory.training import _argument_ranges
from dptheory.training._streams import BATCHES, Stream, this_process
from dptheory.training.engine._random_states import Collating

# --- A Poisson sample of the numbers 0 to N - 1, drawn at the cost of what it holds: its size first, then that many numbers


Words = Callable[[int], NDArray[np.uint64]]
"""So many independent uniform 64-bit words."""

_WORD = 2**64
_LEFT_OUT = 129 * math.log(2)
"""Of Bernstein's bound 2 exp(-this) on the sizes outside the table: 2^-128."""
_DENSE = 8
"""From one record in so many on, marks on all records cost less than sorting those that are drawn."""


def poisson_subset(records: int, rate: float, words: Words) -> NDArray[np.int64]:
    """Every number below ``records`` is in the subset with probability ``rate``, independently.

    A subset of k numbers has the probability rate^k (1 - rate)^(records - k): it depends on k alone. So the size is drawn from
    its law, Binomial(records, rate), and then a subset of this size, all alike. The second draw is exact; the first is off by the
    factor that :class:`SizeLaw` states, and so is the chance of every subset. The rate is exactly the number that is given, no
    multiple of anything; the numbers come in ascending order.
    """
    if rate == 1.0 or records == 0:
        return np.arange(records)
    size = size_law(records, rate).draw(words)
    if 2 * size <= records:
        return _uniform_subset(size, records, words)
    kept = np.ones(records, dtype=bool)
    kept[_uniform_subset(records - size, records, words)] = False
    return np.flatnonzero(kept)


@dataclass(frozen=True, eq=False)
class SizeLaw:
    r"""The law Binomial(N, q), tabled where it has mass.

    With u = 2^-53 and s the standard deviation, the chance with which k is drawn is the binomial one times a factor within
    :math:`1\pm u(6|k-Nq|+12(s+1))`, to first order in u. Ratios of neighbouring chances have six roundings, and multiply up
    from the mode on. Adding up from the nearer end moves a chance by u times the sum there; that is at most about (1.3 s + 1)
    chances on the nearer side of the median, and the number that is looked up has as many digits. The sizes left out have the
    chance 2^-128. At N q = 256 and ten standard deviations the factor is 1 + 1.3e-13, which a million steps add up to 3e-7 of
    epsilon at most; the total variation is 1e-14 of one step.

    Attributes:
        first: the smallest size in the table.
        below: chances of at most ``first``, ``first`` + 1, ... .
        above: chances of at least the last size, the one before, ... .
    """

    first: int
    below: Array
    above: Array

    def draw(self, words: Words) -> int:
        """A size, by inversion of a number of 127 bits from the end that one more bit picks: also rare sizes come as they must."""
        high, low = (int(word) for word in words(2))
        # In [0, 1/2], rounded once. A number near 1 would be rounded to steps of 2^-53, and sizes rarer than that would never come.
        uniform = (high << 63 | low >> 1) / 2**128
        if low & 1:
            return self.first + len(self.above) - 1 - int(np.searchsorted(self.above, uniform, side="right"))
        return self.first + int(np.searchsorted(self.below, uniform, side="right"))


@lru_cache(maxsize=16)
def size_law(records: int, rate: float) -> SizeLaw:
    """The law of the size of a Poisson sample of N >= 1 records at a rate q in (0, 1)."""
    mode = min(int((records + 1) * rate), records)
    variance = records * rate * (1.0 - rate)
    # where t^2 = 2 L (variance + t / 3), of Bernstein's bound 2 exp(-t^2 / (2 (variance + t / 3))) on a distance of t
    third = _LEFT_OUT / 3
    reach = math.ceil(third + math.sqrt(third**2 + 2 * _LEFT_OUT * variance)) + 2  # and from the mode to the mean
    sizes = np.arange(max(0, mode - reach), min(records, mode + reach) + 1)
    ratios = (records - sizes[:-1]) / (sizes[:-1] + 1) * (rate / (1.0 - rate))
    down, up = ratios[: mode - sizes[0]], ratios[mode - sizes[0] :]
    chances = np.r_[np.cumprod(1.0 / down[::-1])[::-1], 1.0, np.cumprod(up)]
    chances /= chances.sum()
    return SizeLaw(int(sizes[0]), np.cumsum(chances), np.cumsum(chances[::-1]))


def _uniform_subset(count: int, records: int, words: Words) -> NDArray[np.int64]:
    """A subset of ``count`` numbers below ``records``, all alike: numbers come until so many different ones are there.

    A round draws as many as are missing, so that the last number of all is the first that makes it ``count``; which these are
    has the same chance for every subset, since it has for every order of the numbers.
    """
    if count * _DENSE > records:
        marked = np.zeros(records, dtype=bool)
        while missing := count - int(np.count_nonzero(marked)):
            marked[_uniform(missing, records, words)] = True
        return np.flatnonzero(marked)
    found = np.zeros(0, dtype=np.int64)
    while missing := count - len(found):
        found = np.sort(np.concatenate((found, _uniform(missing, records, words))))
        found = np.concatenate((found[:1], found[1:][found[1:] > found[:-1]]))
    return found


def _uniform(count: int, records: int, words: Words) -> NDArray[np.int64]:
    """At most ``count`` numbers below ``records``, each with the same chance: words beyond the last multiple are left out."""
    drawn = words(count)
    # Without this the first 2^64 mod N records would be a little likelier than the rate that the accountant is told.
    drawn = drawn[drawn <= np.uint64(_WORD - 1 - _WORD % records)]
    return (drawn % np.uint64(records)).astype(np.int64)


# --- Random allocation: of every number in how many of the batches of an epoch it is, exactly


def allocation(records: int, steps: int, participations: int, words: Words) -> list[NDArray[np.int64]]:
    """The batches of an epoch: every number below ``records`` is in exactly ``participations`` of them, independently of the others.

    All sets of so many steps have the same chance, whatever the words: Floyd's algorithm, for all numbers at once. The numbers of
    each batch come in ascending order.
    """
    chosen = np.empty((participations, records), dtype=np.int64)
    for place, last in enumerate(range(steps - participations, steps)):
        drawn = _exactly(records, last + 1, words)
        taken = (chosen[:place] == drawn).any(0)
        chosen[place] = np.where(taken, last, drawn)
    flat = chosen.ravel()
    order = np.argsort(flat, kind="stable") % max(1, records)
    ends = np.cumsum(np.bincount(flat, minlength=steps))
    return [np.sort(batch) for batch in np.split(order, ends[:-1])]


def _exactly(count: int, below: int, words: Words) -> NDArray[np.int64]:
    """``count`` independent numbers below ``below``, each with the same chance."""
    found = _uniform(count, below, words)
    while len(found) < count:
        found = np.concatenate((found, _uniform(count - len(found), below, words)))
    return found


_MOST_EXAMPLES = 10**9


class Batches(Protocol):
    """The batch of every step, 0, 1, ...: what a class must do to give a run its batches.

    Example: with sampling rate 1 every second example is that of the second process.
        >>> from dptheory.training.engine import Batches, PoissonBatches
        >>> batches: Batches = PoissonBatches(train_size=10, sampling_rate=1.0, seed=0)
        >>> batches.batch(0, 1, 2).tolist()
        [1, 3, 5, 7, 9]
    """

    def batch(self, step: int, part: int, parts: int) -> torch.Tensor:
        """Indices of the batch of a step, ascending; of ``parts`` processes, the one numbered ``part`` gets its part."""
        ...


@dataclass(frozen=True, kw_only=True)
class PoissonBatches:
    """Every example is in the batch of a step with probability ``sampling_rate``, independently.

    Batches depend on seed and step alone, so that a simulation resumes anywhere and on any number of processes. Whoever asks for
    the batch of a step again gets it again, which sampling then does not amplify: a run that may go back takes
    :class:`GeneratorBatches` or :class:`SecureBatches`.

    Args:
        train_size: number of training examples, 1..1e9; a batch costs what it holds.
        sampling_rate: in (0, 1].
        seed: 0 to 2^64 - 1. Anyone who knows it knows the batches, and sampling then hides nothing.

    Source: RS, Algorithm 1, line 3, the Poisson-sampled batch (rs.alg1.divisor).

    Example: a step has one batch however often it is asked for, of about a tenth of the examples.
        >>> from dptheory.training.engine import PoissonBatches
        >>> batches = PoissonBatches(train_size=1000, sampling_rate=0.1, seed=0)
        >>> bool((batches.batch(7) == batches.batch(7)).all()), 50 < len(batches.batch(7)) < 150
        (True, True)
    """

    train_size: int
    sampling_rate: float
    seed: int

    def __post_init__(self) -> None:
        examples, rate = _checked(self.train_size, self.sampling_rate)
        _validate.store(self, train_size=examples, sampling_rate=rate, seed=_argument_ranges.stream("seed", self.seed))

    def batch(self, step: int, part: int = 0, parts: int = 1) -> torch.Tensor:
        """Indices of the batch of a step, ascending; of ``parts`` processes, the one numbered ``part`` gets every parts-th."""
        step, part, parts = _part(step, part, parts)
        words = np.random.PCG64(np.random.SeedSequence((self.seed, step))).random_raw
        return torch.from_numpy(poisson_subset(self.train_size, self.sampling_rate, words)[part::parts])


@dataclass(frozen=True, kw_only=True)
class SecureBatches:
    """The law of :class:`PoissonBatches` from the operating system's cryptographic generator: batches never repeat.

    Each process draws from its own share of the examples, and nobody can tell the batches.

    Args:
        train_size: number of training examples of all processes, 1..1e9; a batch costs what it holds.
        sampling_rate: in (0, 1].

    Source: RS, Algorithm 1, line 3, the Poisson-sampled batch (rs.alg1.divisor).

    Example: nobody can draw the same batch again.
        >>> from dptheory.training.engine import SecureBatches
        >>> batches = SecureBatches(train_size=1000, sampling_rate=0.5)
        >>> batches.batch(7).tolist() == batches.batch(7).tolist()
        False
    """

    train_size: int
    sampling_rate: float

    def __post_init__(self) -> None:
        examples, rate = _checked(self.train_size, self.sampling_rate)
        _validate.store(self, train_size=examples, sampling_rate=rate)

    def batch(self, step: int, part: int = 0, parts: int = 1) -> torch.Tensor:
        """Indices, ascending, of a batch of examples part, part + parts, part + 2 parts, ...; another one at every call."""
        _, part, parts = _part(step, part, parts)
        own = len(range(part, self.train_size, parts))
        return torch.from_numpy(poisson_subset(own, self.sampling_rate, _secure_words) * parts + part)


@dataclass(frozen=True, kw_only=True)
class PartitionBatches:
    """Every pass over the examples cuts them, in a random order of its own, into batches of one size: nothing is amplified.

    Args:
        train_size: number of training examples, 1..1e9.
        batch_size: of every batch; divides ``train_size``.
        seed: 0 to 2^64 - 1; batches depend on seed and step alone.

    Source: RS, Table 3 and Appendix K, "partition" (rs.table3).

    Example: three batches of two hold each of six examples once.
        >>> from dptheory.training.engine import PartitionBatches
        >>> batches = PartitionBatches(train_size=6, batch_size=2, seed=0)
        >>> sorted(index for step in range(3) for index in batches.batch(step).tolist())
        [0, 1, 2, 3, 4, 5]
    """

    train_size: int
    batch_size: int
    seed: int

    def __post_init__(self) -> None:
        examples = _validate.integer("train_size", self.train_size, 1, _MOST_EXAMPLES)
        size = _validate.integer("batch_size", self.batch_size, 1, examples)
        if examples % size:
            raise ArgumentError(
                "batch_size",
                f"divide the {examples} examples where batches are a partition",
                self.batch_size,
                got=f"{size}",
            )
        _validate.store(self, train_size=examples, batch_size=size, seed=_argument_ranges.stream("seed", self.seed))

    def batch(self, step: int, part: int = 0, parts: int = 1) -> torch.Tensor:
        """Indices of the batch of a step, ascending; of ``parts`` processes, the one numbered ``part`` gets every parts-th."""
        step, part, parts = _part(step, part, parts)
        passes, place = divmod(step, self.train_size // self.batch_size)
        order = _order_of_a_pass(self.train_size, self.seed, passes)
        return torch.from_numpy(np.sort(order[place * self.batch_size : (place + 1) * self.batch_size])[part::parts])


@dataclass(kw_only=True)
class _Epoch:
    """The epoch under way of :class:`AllocatedBatches`, and what was drawn before it."""

    begun: int = 0
    drawn: int = 0
    of: object = None
    place: int = -1
    batches: list[NDArray[np.int64]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class AllocatedBatches:
    """Random allocation: every example is in exactly k of the t batches of an epoch, all such sets of steps being alike.

    Examples are independent of each other, and so are epochs; with one participation this is balls in bins. The batches of an
    epoch belong together, so that an epoch is drawn whole, held until it is over, and written nowhere: who asks for a step that
    is not behind the last one of the epoch under way, in a forked process or in one that resumed a run, begins another epoch,
    which costs what a whole one costs.

    Args:
        train_size: number of training examples of all processes, 1..1e9; an epoch costs what it holds.
        steps_per_epoch: t, 1..1e6.
        participations: k, 1..t.
        seed: 0 to 2^64 - 1, with which batches depend on seed and step alone, as for :class:`PoissonBatches`; or a generator, from
            which one number is drawn, as for :class:`GeneratorBatches`; None for the operating system's cryptographic generator,
            where each process draws from its own share of the examples.

    Attributes:
        stream: random numbers of the batches; None but for a generator.

    Source: RF, section 4 (rf.shuffle).

    Example: in an epoch of three batches each of six examples is twice.
        >>> from dptheory.training.engine import AllocatedBatches
        >>> batches = AllocatedBatches(train_size=6, steps_per_epoch=3, participations=2, seed=None)
        >>> sorted(index for step in range(3) for index in batches.batch(step).tolist())
        [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    """

    train_size: int
    steps_per_epoch: int
    participations: int = 1
    seed: int | torch.Generator | None
    stream: Stream | None = field(init=False, repr=False, compare=False)
    _epoch: _Epoch = field(init=False, repr=False, compare=False, default_factory=_Epoch)

    def __post_init__(self) -> None:
        steps = _validate.integer("steps_per_epoch", self.steps_per_epoch, 1, MAX_STEPS)
        _validate.store(
            self,
            train_size=_validate.integer("train_size", self.train_size, 1, _MOST_EXAMPLES),
            steps_per_epoch=steps,
            participations=_validate.integer("participations", self.participations, 1, steps),
        )
        if not isinstance(self.seed, torch.Generator | None):
            _validate.store(self, seed=_argument_ranges.stream("seed", self.seed))
        stream = Stream(self.seed, BATCHES) if isinstance(self.seed, torch.Generator) else None
        object.__setattr__(self, "stream", stream)

    @property
    def epochs_begun(self) -> int:
        """Epochs of which a batch was drawn, each as often as it was: what an account must count."""
        return self._epoch.begun

    @property
    def drawn(self) -> int:
        """Batches drawn: at most so many steps were made."""
        return self._epoch.drawn

    def batch(self, step: int, part: int = 0, parts: int = 1) -> torch.Tensor:
        """Indices of the batch of a step, ascending; of ``parts`` processes, the one numbered ``part`` gets its part."""
        step, part, parts = _part(step, part, parts)
        epoch, place = divmod(step, self.steps_per_epoch)
        of = this_process(), epoch, part, parts
        # A batch that came again, here or in a forked process, would tell of a record in it twice: no epoch has such batches.
        if of != self._epoch.of or place <= self._epoch.place:
            self._epoch.batches = self._drawn_for(epoch, part, parts)
            self._epoch.of = of
            self._epoch.begun += 1
        self._epoch.place = place
        self._epoch.drawn += 1
        return torch.from_numpy(self._epoch.batches[place])

    def _drawn_for(self, epoch: int, part: int, parts: int) -> list[NDArray[np.int64]]:
        if self.seed is None:
            own = len(range(part, self.train_size, parts))
            return [batch * parts + part for batch in self._allocation(own, _secure_words)]
        if self.stream is not None:  # processes whose generators are seeded alike draw one epoch together
            whole = self._allocation(self.train_size, _words_of(self.stream.on("cpu")))
            return [batch[batch % parts == part] for batch in whole]
        assert isinstance(self.seed, int)
        words = np.random.PCG64(np.random.SeedSequence((self.seed, epoch))).random_raw
        return [batch[part::parts] for batch in self._allocation(self.train_size, words)]

    def _allocation(self, records: int, words: Words) -> list[NDArray[np.int64]]:
        return allocation(records, self.steps_per_epoch, self.participations, words)


@dataclass(frozen=True, kw_only=True)
class GeneratorBatches:
    """The law of :class:`PoissonBatches` from a torch generator, in its order: the step does not matter.

    Args:
        train_size: number of training examples of all processes, 1..1e9; a batch costs what it holds.
        sampling_rate: in (0, 1].
        generator: one number is drawn from it, as a seed: whoever sets the generator back later brings no batch back. None for a
            seed from the operating system. Processes whose generators are seeded alike draw one batch together.

    Attributes:
        stream: random numbers of the batches.

    Source: RS, Algorithm 1, line 3, the Poisson-sampled batch (rs.alg1.divisor).

    Example: every call draws anew, also for the same step.
        >>> import torch
        >>> from dptheory.training.engine import GeneratorBatches
        >>> batches = GeneratorBatches(train_size=1000, sampling_rate=0.1, generator=torch.Generator().manual_seed(0))
        >>> batches.batch(0).tolist() == batches.batch(0).tolist()  # two draws
        False
    """

    train_size: int
    sampling_rate: float
    generator: torch.Generator | None
    stream: Stream = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        examples, rate = _checked(self.train_size, self.sampling_rate)
        if self.generator is not None:
            _validate.instance("generator", self.generator, torch.Generator)
        _validate.store(self, train_size=examples, sampling_rate=rate)
        object.__setattr__(self, "stream", Stream(self.generator, BATCHES))

    def batch(self, step: int, part: int = 0, parts: int = 1) -> torch.Tensor:
        """Indices, ascending, of the next batch's examples part, part + parts, part + 2 parts, ..."""
        _, part, parts = _part(step, part, parts)
        drawn = poisson_subset(self.train_size, self.sampling_rate, _words_of(self.stream.on("cpu")))
        return torch.from_numpy(drawn[drawn % parts == part])


class Listener(Protocol):
    """What must know which batches a loader draws: the optimizer."""

    def loader_begins(self, *, drawn_ahead: bool) -> None: ...

    def loader_tries(self) -> list[int] | None: ...

    def loader_drew(self, size: int) -> None: ...


class PoissonSampler(UniformWithReplacementSampler):  # type: ignore[misc]
    """The batches of a torch ``DataLoader``, announced to the optimizer as they are drawn; ``make_private`` builds it.

    Before a batch of the run come those that the optimizer wants to compare, whose steps release nothing. They are drawn apart
    from the others, so that the batches of the run are the same with and without them.

    Args:
        batches: their law.
        train_size: number of training examples of this process.
        sampling_rate: that of ``batches``.
        steps: batches per pass, >= 1.
        place: number of this process, and number of processes.
        listener: told of every pass and of every batch.
        drawn_ahead: worker processes draw batches before the loop asks for them.
    """

    def __init__(
        self,
        batches: Batches,
        *,
        train_size: int,
        sampling_rate: float,
        steps: int,
        place: tuple[int, int],
        listener: Listener,
        drawn_ahead: bool,
    ) -> None:
        super().__init__(num_samples=train_size, sample_rate=sampling_rate, steps=_validate.integer("steps", steps, 1))
        self._batches = batches
        self._place = place
        self._listener = listener
        self._drawn_ahead = drawn_ahead

    def __iter__(self) -> Iterator[list[int]]:
        self._listener.loader_begins(drawn_ahead=self._drawn_ahead)
        for step in range(self.steps):
            while (dry := self._listener.loader_tries()) is not None:
                yield dry  # drawn apart from the batches of the run, which are the same without it
            indices = self._batches.batch(step, *self._place).tolist()
            self._listener.loader_drew(len(indices))
            Collating.forget()  # or a state of another run, whose dry batch could not be read, would be set here
            yield indices


@lru_cache(maxsize=1)
def _order_of_a_pass(train_size: int, seed: int, passes: int) -> NDArray[np.int64]:
    """Of all examples: kept from step to step, since it costs what the data set holds."""
    return np.random.default_rng(np.random.SeedSequence((seed, passes))).permutation(train_size)


def _secure_words(count: int) -> NDArray[np.uint64]:
    # not NumPy's or torch's generator: what they give later follows from what they gave before, which others may see
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def _words_of(generator: torch.Generator) -> Words:
    def words(count: int) -> NDArray[np.uint64]:
        # without these ends torch draws 63 bits, and the top half of the words would never come
        drawn = torch.empty(count, dtype=torch.int64).random_(-(2**63), None, generator=generator)
        return drawn.numpy().view(np.uint64)

    return words


def _checked(train_size: int, sampling_rate: float) -> tuple[int, float]:
    return _validate.integer("train_size", train_size, 1, _MOST_EXAMPLES), _validate.real(
        "sampling_rate", sampling_rate, 0.0, 1.0, ends="(]"
    )


def _part(step: int, part: int, parts: int) -> tuple[int, int, int]:
    """Step, number of this process and number of processes, if they can be."""
    parts = _validate.integer("parts", parts, 1, _MOST_EXAMPLES)
    return _validate.integer("step", step, 0), _validate.integer("part", part, 0, parts - 1), parts
