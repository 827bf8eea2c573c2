"""Parts of a run: what a step releases, as data. A composition is a list of them."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.privacy._bounds import MAX_RELEASES, MAX_STEPS, NOISE, RATE, Direction, added_up, double_above, total_loss
from dptheory.privacy.methods.renyi._curves import FreshMask
from dptheory.pruning import SubsetMallows

LEAST_NOISE, MOST_NOISE = 1e-15, 1e15
LEAST_RATE = 1e-12


@dataclass(frozen=True, kw_only=True)
class Step:
    """Steps of DP-SGD that are alike: Gaussian noise on the clipped sum of a Poisson sample; at rate 1 a Gaussian release.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, in [1e-15, 1e15].
        sampling_rate: with which every record joins a step, independently, in [1e-12, 1].
        count: number of such steps, 1..1e12.

    Source: GIP, Lemma 1 (gip.lem1).

    Example: a schedule is a list of these.
        >>> from dptheory.privacy import Step
        >>> schedule = [Step(noise_multiplier=sigma, sampling_rate=0.02, count=500) for sigma in (1.5, 1.0)]
        >>> sum(step.count for step in schedule)
        1000
    """

    noise_multiplier: float
    sampling_rate: float
    count: int

    def __post_init__(self) -> None:
        _check(self)

    @classmethod
    def of_epochs(cls, *, noise_multiplier: float, train_size: int, batch_size: int, epochs: float) -> "Step":
        """The steps of a number of passes, each record in every batch with the rate batch_size / train_size.

        A pass has train_size / batch_size steps, rounded up. A loader that draws with one over this number of steps, as Opacus's does,
        draws no more often: the result bounds what it spends.

        Args:
            noise_multiplier: as for the class.
            train_size: N, number of training records, 1..1e12.
            batch_size: B, mean size of a batch, 1..train_size.
            epochs: passes, in (0, 1e12]; the steps are rounded up.

        Source: GIP, Lemma 1 (gip.lem1).

        Example: 59 steps a pass.
            >>> from dptheory.privacy import Step
            >>> Step.of_epochs(noise_multiplier=1.0, train_size=60_000, batch_size=1024, epochs=10).count
            590
        """
        train_size = _validate.integer("train_size", train_size, 1, MAX_RELEASES)
        batch_size = _validate.integer("batch_size", batch_size, 1, train_size)
        epochs = _validate.real("epochs", epochs, 0.0, 1e12, ends="(]")
        steps = -(-train_size // batch_size) * epochs
        # nine digits: 30 times .1 is 3, and not 3 and a last digit
        return cls(
            noise_multiplier=noise_multiplier,
            sampling_rate=batch_size / train_size,
            count=max(1, math.ceil(round(steps, 9))),
        )


@dataclass(frozen=True, kw_only=True)
class JointStep:
    """Steps of GIP that are alike: index sets and noisy values released from one Poisson sample.

    Index sets that are released for given batches, without amplification by sampling, are
    :class:`dptheory.privacy.IndexSteps`.

    Args:
        noise_multiplier: of the values, in [1e-15, 1e15].
        sampling_rate: in [1e-12, 1].
        mechanism: index mechanism of one group.
        groups: number of groups, 1..1e12.
        count: number of such steps, 1..1e12.

    Source: GIP, Theorem 2 (gip.thm2).

    Example: by hand: 10 groups at theta 0.001 spend 10 times 0.052 in a step.
        >>> from dptheory.privacy import JointStep
        >>> from dptheory.pruning import SubsetMallows
        >>> law = SubsetMallows(256, 26, theta=1e-3)
        >>> step = JointStep(noise_multiplier=1.0, sampling_rate=0.02, mechanism=law, groups=10, count=5)
        >>> round(step.index_epsilon, 6)
        0.52
    """

    noise_multiplier: float
    sampling_rate: float
    mechanism: SubsetMallows
    groups: int = 1
    count: int

    def __post_init__(self) -> None:
        _check(self)
        _validate.instance("mechanism", self.mechanism, SubsetMallows)
        _validate.store(self, groups=_validate.integer("groups", self.groups, 1, MAX_RELEASES))

    @property
    def index_epsilon(self) -> float:
        """Pure epsilon of the index sets of one step, for a given batch."""
        return total_loss(2.0 * self.mechanism.theta, self.groups * self.mechanism.max_swaps)


@dataclass(frozen=True, kw_only=True)
class MaskedStep:
    """Steps of DP-SGD that are alike, each with a fresh random-k mask that nobody can tell before it is used.

    Args:
        noise_multiplier: of the entries kept, in [1e-15, 1e15].
        sampling_rate: in [1e-12, 1].
        mask: the law of the mask, with the conditions of :class:`dptheory.privacy.FreshMask`.
        count: number of such steps, 1..1e12.

    Source: GIP, Proposition 1 (gip.prop1).

    Example: a tenth of the entries in every step.
        >>> from dptheory.privacy import FreshMask, MaskedStep
        >>> step = MaskedStep(noise_multiplier=1.0, sampling_rate=0.02, mask=FreshMask(dim=1000, keep=100), count=500)
        >>> step.mask.keep / step.mask.dim
        0.1
    """

    noise_multiplier: float
    sampling_rate: float
    mask: FreshMask
    count: int

    def __post_init__(self) -> None:
        _check(self)
        _validate.instance("mask", self.mask, FreshMask)


@dataclass(frozen=True, kw_only=True)
class IndexSteps:
    """Steps of GIP that share one index mechanism; a run whose dispersion changes is a sequence of them.

    Args:
        steps: how many, 1..1e12.
        mechanism: index mechanism of one group.
        groups: number of groups, 1..1e12.

    Source: GIP, Algorithm 2 (gip.alg2).

    Example: by hand: 100 steps of 10 groups at theta 0.001 spend 1000 times 0.052.
        >>> from dptheory.privacy import IndexSteps
        >>> from dptheory.pruning import SubsetMallows
        >>> round(IndexSteps(steps=100, mechanism=SubsetMallows(256, 26, theta=0.001), groups=10).epsilon, 6)
        52.0
    """

    steps: int
    mechanism: SubsetMallows
    groups: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", _validate.integer("steps", self.steps, 1, MAX_RELEASES))
        object.__setattr__(self, "groups", _validate.integer("groups", self.groups, 1, MAX_RELEASES))
        _validate.instance("mechanism", self.mechanism, SubsetMallows)

    @property
    def epsilon(self) -> float:
        """Pure epsilon of all index sets of these steps, by basic composition."""
        return total_loss(2.0 * self.mechanism.theta, self.steps * self.groups * self.mechanism.max_swaps)

    @property
    def zcdp_rho(self) -> float:
        """zCDP of all index sets of these steps."""
        return zcdp_rho(self.mechanism, self.steps * self.groups)


@dataclass(frozen=True, kw_only=True)
class FixedSizeStep:
    """Steps on batches of a fixed size that are alike: a fresh sample without replacement, Gaussian noise on the clipped sum.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, in [1e-15, 1e15].
        sampling_rate: size of the batch over the number of records, in [1e-12, 1].
        count: number of such steps, 1..1e12.

    Source: RF, section 4 (rf.shuffle).

    Example: a record that is replaced moves the sum by up to twice the clip.
        >>> from dptheory.privacy import Composition, FixedSizeStep, Step
        >>> steps = {"sampling_rate": 1.0, "count": 10}
        >>> fixed = Composition([FixedSizeStep(noise_multiplier=8.0, **steps)], adjacency="replace-one")
        >>> plain = Composition([Step(noise_multiplier=4.0, **steps)])
        >>> fixed.epsilon(1e-5).upper == plain.epsilon(1e-5).upper
        True
    """

    noise_multiplier: float
    sampling_rate: float
    count: int

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True, kw_only=True)
class RandomAllocation:
    """Epochs in each of which a record takes part in exactly k of the t steps, drawn afresh: what a shuffle of single records is not.

    With one participation: balls in bins. All sets of k steps are equally likely, whatever the other records do, and every step
    releases Gaussian noise on the clipped sum.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, in [1e-15, 1e15].
        steps_per_epoch: t, 1..1e6.
        participations: k, 1..t.
        count: number of such epochs, 1..1e12.
        stopped_after: number of steps, 1..t, after which every one of these epochs was cut short; None where none was.

    Source: RF, section 4 (rf.shuffle).

    Example: by hand: who takes part in all steps of an epoch releases what Gaussian steps do.
        >>> from dptheory.privacy import Composition, RandomAllocation, Step
        >>> epochs = RandomAllocation(noise_multiplier=8.0, steps_per_epoch=4, participations=4, count=5)
        >>> steps = Step(noise_multiplier=8.0, sampling_rate=1.0, count=20)
        >>> Composition([epochs]).epsilon(1e-5) == Composition([steps]).epsilon(1e-5)
        True
    """

    noise_multiplier: float
    steps_per_epoch: int
    participations: int = 1
    count: int
    stopped_after: int | None = None

    def __post_init__(self) -> None:
        steps = _validate.integer("steps_per_epoch", self.steps_per_epoch, 1, MAX_STEPS)
        stopped = self.stopped_after
        _validate.store(
            self,
            noise_multiplier=_validate.real("noise_multiplier", self.noise_multiplier, LEAST_NOISE, MOST_NOISE),
            steps_per_epoch=steps,
            participations=_validate.integer("participations", self.participations, 1, steps),
            count=_validate.integer("count", self.count, 1, MAX_RELEASES),
            stopped_after=None if stopped is None else _validate.integer("stopped_after", stopped, 1, steps),
        )

    @property
    def steps(self) -> int:
        """Of an epoch, as far as it went."""
        return self.steps_per_epoch if self.stopped_after is None else self.stopped_after

    @classmethod
    def of_steps(
        cls, *, noise_multiplier: float, steps_per_epoch: int, steps: int, participations: int = 1
    ) -> "tuple[RandomAllocation, ...]":
        """Whole epochs, and the last one where it was cut short.

        Args:
            noise_multiplier, steps_per_epoch, participations: as for the class.
            steps: of all epochs, 1..1e12.

        Returns:
            One part or two.

        Source: RF, section 4 (rf.shuffle).

        Example: two epochs and a half.
            >>> from dptheory.privacy import RandomAllocation
            >>> [(part.count, part.steps) for part in RandomAllocation.of_steps(noise_multiplier=1.0, steps_per_epoch=4, steps=10)]
            [(2, 4), (1, 2)]
        """
        one = cls(
            noise_multiplier=noise_multiplier, steps_per_epoch=steps_per_epoch, participations=participations, count=1
        )
        whole, rest = divmod(_validate.integer("steps", steps, 1, MAX_RELEASES), one.steps_per_epoch)
        found = (replace(one, count=whole),) if whole else ()
        return (*found, replace(one, stopped_after=rest)) if rest else found


@dataclass(frozen=True, kw_only=True)
class LaplaceRelease:
    """Numbers that a run releases besides its steps, with Laplace noise: a count, a histogram.

    Args:
        noise_multiplier: scale of the noise over what one record changes all numbers of a release by, added up; in [0.01, 1e15].
        count: number of such releases, 1..1e12.

    Source: GIP, Theorem 2 (gip.thm2).

    Example: by hand: of one release delta(epsilon) = 1 - exp((epsilon - 1 / b) / 2).
        >>> import math
        >>> from dptheory.privacy import Composition, LaplaceRelease
        >>> found = Composition([LaplaceRelease(noise_multiplier=0.5, count=1)]).delta(1.0)
        >>> round(found.upper, 6) == round(1 - math.exp(-0.5), 6)
        True
    """

    noise_multiplier: float
    count: int

    def __post_init__(self) -> None:
        _validate.store(
            self,
            noise_multiplier=_validate.real("noise_multiplier", self.noise_multiplier, 0.01, MOST_NOISE),
            count=_validate.integer("count", self.count, 1, MAX_RELEASES),
        )


@dataclass(frozen=True, kw_only=True)
class BlackBox:
    """What a run releases besides its steps, and of which no more is known than that it is (epsilon, delta)-private.

    Bounds are those of the least private release of that kind, which is revealed with probability delta and is
    randomized response otherwise: from above they hold for every one, from below for that one.

    Args:
        epsilon: of each, for the neighbours of the run, in [0, 100].
        delta: of each, in [0, 1).
        count: number of such releases, 1..1e12.

    Source: GIP, Theorem 2 (gip.thm2).

    Example: by hand: two bits, each told rightly with probability 3/4, are both right with 9/16, and both wrong with 1/16.
        >>> import math
        >>> from dptheory.privacy import BlackBox, Composition
        >>> found = Composition([BlackBox(epsilon=math.log(3), delta=0.0, count=2)]).delta(math.log(3))
        >>> round(found.upper, 4) == round(9 / 16 - 3 / 16, 4)
        True
    """

    epsilon: float
    delta: float
    count: int

    def __post_init__(self) -> None:
        _validate.store(
            self,
            epsilon=_validate.real("epsilon", self.epsilon, 0.0, 100.0),
            delta=_validate.real("delta", self.delta, 0.0, 1.0, ends="[)"),
            count=_validate.integer("count", self.count, 1, MAX_RELEASES),
        )


Part = Step | JointStep | MaskedStep | IndexSteps | FixedSizeStep | RandomAllocation | LaplaceRelease | BlackBox
"""What a composition may hold."""
Apart = RandomAllocation | LaplaceRelease | BlackBox
"""With methods of their own."""
Noised = Step | JointStep | MaskedStep | FixedSizeStep | RandomAllocation
"""With noise that a budget asks for."""
Parts = tuple[Part, ...]
Steps = tuple[Step, ...]
"""Noisy values alone."""


def checked_step(noise_multiplier: float, sampling_rate: float, steps: int) -> Step:
    """Steps in the range in which they are all but exact; an error says whether a composition, whose range is wider, has bounds."""
    try:
        return Step(
            noise_multiplier=_validate.real("noise_multiplier", noise_multiplier, *NOISE),
            sampling_rate=_validate.real("sampling_rate", sampling_rate, *RATE),
            count=_validate.integer("steps", steps, 1, MAX_STEPS),
        )
    except ArgumentError as error:
        try:
            Step(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, count=steps)
        except ValueError:
            raise error from None
        raise error.retold(f"{error}; Composition([Step(...)]) has wider bounds there, which hold") from None


def alike(step: FixedSizeStep) -> Step:
    """What is attained where all other records are alike: to be in the batch then means to be in place of one of them."""
    return Step(noise_multiplier=step.noise_multiplier / 2, sampling_rate=step.sampling_rate, count=step.count)


def taking_part_always(epochs: RandomAllocation) -> Step:
    """As if the steps in which the record takes part were known: sampling only helps."""
    most = min(epochs.participations, epochs.steps)
    return Step(noise_multiplier=epochs.noise_multiplier, sampling_rate=1.0, count=most * epochs.count)


def values_of(parts: Parts, *, hidden: bool) -> Steps:
    """The noisy values of steps: of masked ones none (``hidden``), or as if no mask hid anything. Equal kinds are counted together."""
    counts: Counter[tuple[float, float]] = Counter()
    for part in parts:
        if isinstance(part, IndexSteps | Apart):
            continue
        if not (isinstance(part, MaskedStep) and hidden):
            counts[part.noise_multiplier, part.sampling_rate] += part.count
    return tuple(
        Step(noise_multiplier=noise, sampling_rate=rate, count=count) for (noise, rate), count in sorted(counts.items())
    )


def plain(parts: Parts) -> Parts:
    """Each part as what it is: a mask that keeps all or nothing, and index sets that say nothing, are not there."""
    found: list[Part] = []
    for part in parts:
        if (isinstance(part, MaskedStep) and part.mask.keep == part.mask.dim) or (
            isinstance(part, JointStep) and part.mechanism.theta == 0.0
        ):
            found += values_of((part,), hidden=False)
        elif isinstance(part, RandomAllocation) and part.participations == part.steps_per_epoch:
            found.append(taking_part_always(part))
        elif not (isinstance(part, MaskedStep) and part.mask.keep == 0) and not (
            isinstance(part, IndexSteps) and part.mechanism.theta == 0.0
        ):
            found.append(part)
    return tuple(found)


def scaled(parts: Parts, factor: float) -> Parts:
    """All noise multipliers of steps times ``factor``; index sets and other releases as they are."""
    return tuple(
        replace(part, noise_multiplier=factor * part.noise_multiplier) if isinstance(part, Noised) else part
        for part in parts
    )


def index_epsilon(parts: Parts) -> float:
    """Pure epsilon of all index sets, for given batches; never rounded down."""
    return added_up(
        part.epsilon if isinstance(part, IndexSteps) else total_loss(part.index_epsilon, part.count)
        for part in parts
        if isinstance(part, IndexSteps | JointStep) and part.mechanism.theta > 0.0
    )


def index_zcdp_rho(parts: Parts) -> float:
    """zCDP of all index sets, for given batches; never rounded down."""
    return added_up(
        part.zcdp_rho if isinstance(part, IndexSteps) else zcdp_rho(part.mechanism, part.count * part.groups)
        for part in parts
        if isinstance(part, IndexSteps | JointStep)
    )


def zcdp_rho(mechanism: SubsetMallows, releases: int) -> float:
    """theta^2 times the largest distance of two references, for so many releases; never rounded down."""
    theta = mechanism.theta
    return math.inf if math.isinf(theta) else double_above(Fraction(theta) ** 2 * 2 * mechanism.max_swaps * releases)


def chance(steps: Steps) -> float:
    """Chance that the record takes part in a step at all: delta(0) is at most that, whatever the noise. Never rounded down."""
    if any(step.sampling_rate == 1.0 for step in steps):
        return 1.0
    if len(steps) == steps[0].count == 1:
        return steps[0].sampling_rate
    log_never = math.fsum(step.count * math.log1p(-step.sampling_rate) for step in steps)
    return min(1.0, -math.expm1(log_never) * (1 + 1e-15))


class Noisy(Protocol):
    """Steps that are alike, as far as their noise goes: those of a run, or their losses."""

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the noise over the clipping norm."""

    @property
    def count(self) -> int:
        """How many they are."""


def unsampled_mu(steps: Iterable[Noisy], direction: Direction) -> float:
    """mu of the Gaussian mechanism that reveals every record in every step."""
    size = 2.0 if direction == "replace" else 1.0
    return size * math.sqrt(math.fsum(step.count / step.noise_multiplier / step.noise_multiplier for step in steps))


def _check(step: Step | JointStep | MaskedStep | FixedSizeStep) -> None:
    _validate.store(
        step,
        noise_multiplier=_validate.real("noise_multiplier", step.noise_multiplier, LEAST_NOISE, MOST_NOISE),
        sampling_rate=_validate.real("sampling_rate", step.sampling_rate, LEAST_RATE, 1.0),
        count=_validate.integer("count", step.count, 1, MAX_RELEASES),
    )
