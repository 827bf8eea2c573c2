"""Kinds of steps that a composition may hold, as data."""

from dataclasses import dataclass

from dptheory import _validate
from dptheory.privacy.methods.lattice._loss import MAX_RELEASES
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

    Raises:
        ValueError: an argument outside its range.

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

    Raises:
        ValueError: an argument outside its range.

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
        return self.groups * self.mechanism.epsilon(2 * self.mechanism.max_swaps)


@dataclass(frozen=True, kw_only=True)
class MaskedStep:
    """Steps of DP-SGD that are alike, each with a fresh random-k mask that nobody can tell before it is used.

    Args:
        noise_multiplier: of the entries kept, in [1e-15, 1e15].
        sampling_rate: in [1e-12, 1].
        mask: the law of the mask, with the conditions of :class:`dptheory.privacy.FreshMask`.
        count: number of such steps, 1..1e12.

    Raises:
        ValueError: an argument outside its range.

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

    Raises:
        ValueError: an argument outside its range.

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
        return self.steps * self.groups * self.mechanism.epsilon(2 * self.mechanism.max_swaps)

    @property
    def zcdp_rho(self) -> float:
        """zCDP of all index sets of these steps."""
        return self.steps * self.groups * self.mechanism.zcdp(2 * self.mechanism.max_swaps)


Part = Step | JointStep | MaskedStep | IndexSteps
"""What a composition may hold."""


def _check(step: Step | JointStep | MaskedStep) -> None:
    _validate.store(
        step,
        noise_multiplier=_validate.real("noise_multiplier", step.noise_multiplier, LEAST_NOISE, MOST_NOISE),
        sampling_rate=_validate.real("sampling_rate", step.sampling_rate, LEAST_RATE, 1.0),
        count=_validate.integer("count", step.count, 1, MAX_RELEASES),
    )
