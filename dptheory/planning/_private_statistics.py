"""What is released of the per-sample gradients of private records, and what can be said by the noise's law.

The proof of what a release costs and of the intervals is proofs/planning/private_statistics.md.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from dptheory import _validate
from dptheory.planning._records import Interval
from dptheory.privacy import Step

SHARE_PARTS = 2**20
"""Parts of a record's share of a layer: whole numbers, so that no sum is rounded."""
STATISTICS_RELEASES = 2
"""The counts of the norms, and the sums of the layers' shares; each changes by at most 1 with one record."""
_MISS = 0.025
"""Chance that one of the intervals of the norms is wrong, and as much for the layers: together all hold with 95 %."""
_CLAIMS = ("gip.lem1",)
_MOST_BINS = 10_000


@dataclass(frozen=True, kw_only=True)
class PrivateStats:
    """What was released of per-sample gradients of private records, before training, at starting weights that are public.

    The counts and the sums are noisy; what is derived from them costs nothing more. All intervals of
    :meth:`clip_probability`, :meth:`norm_quantile` and :meth:`layer_shares` together hold with probability 95 %, over the noise,
    whatever the records are. Other statistics than these were not released, and a plan takes them as not measured.

    Attributes:
        name: as "small-cnn/my-records".
        data, network: on what they were measured.
        num_examples: N, taken as public; all of them were measured.
        layer_sizes: parameters of each layer, from the input on.
        norm_edges: where the bins of norms begin, rising, the same whatever the records are; the last bin has no end. A norm
            equal to an edge lies below it, and what is up to the first edge is not counted.
        norm_counts: noisy number of records with a norm in each bin.
        layer_sums: of each layer, the noisy sum over the records of its share of the record's squared norm.
        noise_multiplier: standard deviation of the noise on every count and every sum; one record changes the counts, and the
            sums, by at most 1 in norm.
        secure: whether the noise is of a cryptographic generator; with an ordinary one of known seed nothing is protected.

    Raises:
        ValueError: numbers outside their range, or that do not go together.

    Source: new, on GIP, Lemma 1 (gip.lem1).

    Example: 1,000 records, half of them with norms up to 1, half above.
        >>> from dptheory.planning import PrivateStats
        >>> stats = PrivateStats(name="made", data="made", network="made", num_examples=1000, layer_sizes=(10, 5),
        ...     norm_edges=(0.5, 1.0, 2.0), norm_counts=(500.0, 500.0, 0.0), layer_sums=(800.0, 200.0),
        ...     noise_multiplier=10.0, secure=True)
        >>> print(stats.clip_probability(1.0), "of the norms are above 1; the median lies in", stats.norm_quantile(0.5))
        0.463 to 0.537 of the norms are above 1; the median lies in 0.5 to 2
        >>> print(stats.release)
        Step(noise_multiplier=10.0, sampling_rate=1.0, count=2)
    """

    name: str
    data: str
    network: str
    num_examples: int
    layer_sizes: tuple[int, ...]
    norm_edges: tuple[float, ...]
    norm_counts: tuple[float, ...]
    layer_sums: tuple[float, ...]
    noise_multiplier: float
    secure: bool

    def __post_init__(self) -> None:
        for name in ("name", "data", "network"):
            _validate.instance(name, getattr(self, name), str)
        sizes = _validate.integers("layer_sizes", self.layer_sizes, 1, 10**9)
        edges = _checked_edges(self.norm_edges)
        counts = _validate.bounded("norm_counts", self.norm_counts)
        sums = _validate.bounded("layer_sums", self.layer_sums)
        if counts.shape != edges.shape:
            raise ValueError(f"norm_counts must be one per edge, {edges.size}, got {_validate.shown(self.norm_counts)}")
        if sums.shape != (len(sizes),):
            raise ValueError(f"layer_sums must be one per layer, {len(sizes)}, got {_validate.shown(self.layer_sums)}")
        _validate.store(
            self,
            num_examples=_validate.integer("num_examples", self.num_examples, 2, 10**9),
            layer_sizes=tuple(sizes),
            norm_edges=tuple(edges.tolist()),
            norm_counts=tuple(counts.tolist()),
            layer_sums=tuple(sums.tolist()),
            noise_multiplier=_validate.real("noise_multiplier", self.noise_multiplier, 1e-6, 1e6),
            secure=_validate.flag("secure", self.secure),
        )

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return sum(self.layer_sizes)

    @property
    def release(self) -> Step:
        """What the statistics cost: ``Composition([stats.release, *training])`` is the whole account of the records."""
        return Step(noise_multiplier=self.noise_multiplier, sampling_rate=1.0, count=STATISTICS_RELEASES)

    def clip_probability(self, clip_norm: float) -> Interval:
        """Share of the records whose gradient is longer than the clip.

        Args:
            clip_norm: C, in [1e-12, 1e12]; between two edges the interval holds what both allow.

        Returns:
            The interval.

        Raises:
            ValueError: a clip outside its range.

        Source: new, on GIP, Lemma 1 (gip.lem1).

        Example: nearly no noise; a third of the records has norms in each bin.
            >>> from dptheory.planning import PrivateStats
            >>> stats = PrivateStats(name="made", data="made", network="made", num_examples=300, layer_sizes=(2,),
            ...     norm_edges=(1.0, 2.0), norm_counts=(100.0, 100.0), layer_sums=(300.0,), noise_multiplier=1e-3,
            ...     secure=True)
            >>> print(stats.clip_probability(1.0), "and", stats.clip_probability(1.5))
            0.667 and 0.333 to 0.667
        """
        clip = _validate.size("clip_norm", clip_norm, 1e-12, 1e12)
        lower = max((low for edge, (low, _) in self._longer if edge >= clip), default=0.0)
        upper = min((high for edge, (_, high) in self._longer if edge <= clip), default=1.0)
        return Interval(lower=lower, upper=upper, claims=_CLAIMS)

    def norm_quantile(self, level: float) -> Interval:
        """The least norm that a share of the records does not exceed.

        Args:
            level: the share, in (0, 1).

        Returns:
            The interval between two edges; from 0, or to inf, where the edges do not tell.

        Raises:
            ValueError: a level outside its range.

        Source: new, on GIP, Lemma 1 (gip.lem1).

        Example: nearly no noise; the median of norms in three bins is in the middle one.
            >>> from dptheory.planning import PrivateStats
            >>> stats = PrivateStats(name="made", data="made", network="made", num_examples=300, layer_sizes=(2,),
            ...     norm_edges=(1.0, 2.0), norm_counts=(100.0, 100.0), layer_sums=(300.0,), noise_multiplier=1e-3,
            ...     secure=True)
            >>> print(stats.norm_quantile(0.5))
            1 to 2
        """
        level = _validate.real("level", level, 0.0, 1.0, ends="()")
        more = 1.0 - level
        lower = max((edge for edge, (low, _) in self._longer if low > more), default=0.0)
        upper = min((edge for edge, (_, high) in self._longer if high <= more), default=math.inf)
        return Interval(lower=lower, upper=upper, claims=_CLAIMS)

    def layer_shares(self) -> tuple[Interval, ...]:
        """Of each layer: its share of a record's squared norm, the mean over all records.

        It is the mean of the shares, a record of a short gradient counting as much as one of a long one; the ``layer_shares`` of
        :class:`MomentStats` are of the mean gradient, which private records do not tell.

        Returns:
            An interval per layer, from the input on.

        Source: new, on GIP, Lemma 1 (gip.lem1).

        Example: nearly no noise; three quarters of the squared norms are the first layer's.
            >>> from dptheory.planning import PrivateStats
            >>> stats = PrivateStats(name="made", data="made", network="made", num_examples=300, layer_sizes=(6, 2),
            ...     norm_edges=(1.0,), norm_counts=(200.0,), layer_sums=(225.0, 75.0), noise_multiplier=1e-3, secure=True)
            >>> [str(one) for one in stats.layer_shares()]
            ['0.75', '0.25']
        """
        reach = _width(len(self.layer_sums)) * self.noise_multiplier / self.num_examples
        cut = 1.0 / SHARE_PARTS  # every share was rounded down to a part
        return tuple(
            Interval(
                lower=min(1.0, max(0.0, total / self.num_examples - reach)),
                upper=min(1.0, max(0.0, total / self.num_examples + reach + cut)),
                claims=_CLAIMS,
            )
            for total in self.layer_sums
        )

    @functools.cached_property
    def _longer(self) -> tuple[tuple[float, tuple[float, float]], ...]:
        """(edge, between which the share of the records above it lies), for all edges at once.

        A sum of m counts has the noise of sqrt(m) of them; a share above an edge is no larger than one above a lower edge.
        """
        counts, bins = np.array(self.norm_counts), len(self.norm_edges)
        above = counts[::-1].cumsum()[::-1]
        reach = _width(bins) * self.noise_multiplier * np.sqrt(np.arange(bins, 0, -1))
        lower = np.maximum.accumulate(((above - reach) / self.num_examples)[::-1])[::-1]
        upper = np.minimum.accumulate((above + reach) / self.num_examples)
        ends = zip(np.clip(lower, 0.0, 1.0).tolist(), np.clip(upper, 0.0, 1.0).tolist(), strict=True)
        return tuple(zip(self.norm_edges, ends, strict=True))


def _checked_edges(norm_edges: ArrayLike) -> NDArray[np.float64]:
    """Edges of bins.

    Raises:
        ValueError: they are none.
    """
    edges = _validate.bounded("norm_edges", norm_edges)
    if edges.ndim != 1 or not 1 <= edges.size <= _MOST_BINS or edges[0] <= 0.0 or (np.diff(edges) <= 0.0).any():
        raise ValueError(
            f"norm_edges must be 1 to {_MOST_BINS} rising numbers above 0, got {_validate.shown(norm_edges)}"
        )
    return edges


def _width(count: int) -> float:
    """Standard deviations that none of so many Gaussian numbers leaves, to either side, but with the chance ``_MISS``."""
    return -float(ndtri(_MISS / (2 * count)))
