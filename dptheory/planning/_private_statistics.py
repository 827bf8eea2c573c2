"""What is released of the per-sample gradients of private records, and what can be said by the noise's law.

The proof of what a release costs and of the intervals is proofs/planning/private_statistics.md.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import kolmogi, ndtri

from dptheory import _validate
from dptheory.planning._records import Interval
from dptheory.privacy import Step

FINENESS = 2**20
"""Parts of a record's share of a layer: whole numbers, so that no sum is rounded."""
RELEASES = 2
"""The counts of the norms, and the sums of the layers' shares; each changes by at most 1 with one record."""
_MISS = 0.025
"""Chance that an interval of the norms is wrong, and as much for one of the layers: together all hold with 95 %."""
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
        norm_edges: of the bins of norms, rising, the same whatever the records are; the first bin begins at 0, the last has no end.
        norm_counts: noisy number of records with a norm in each bin (a norm equal to an edge lies below it), one more than edges.
        layer_sums: of each layer, the noisy sum over the records of its share of the record's squared norm.
        noise_multiplier: standard deviation of the noise on every count and every sum, each kind of which one record changes by at
            most 1 in norm.
        secure: whether the noise is of a cryptographic generator; with an ordinary one of known seed nothing is protected.

    Raises:
        ValueError: numbers outside their range, or that do not go together.

    Source: new, on GIP, Lemma 1 (gip.lem1).

    Example: 1,000 records, half of them with norms up to 1, half above.
        >>> from dptheory.planning import PrivateStats
        >>> stats = PrivateStats(name="made", data="made", network="made", num_examples=1000, layer_sizes=(10, 5),
        ...     norm_edges=(0.5, 1.0, 2.0), norm_counts=(0.0, 500.0, 500.0, 0.0), layer_sums=(800.0, 200.0),
        ...     noise_multiplier=10.0, secure=True)
        >>> print(stats.clip_probability(1.0), "of the norms are above 1; the median lies in", stats.norm_quantile(0.5))
        0.47 to 0.53 of the norms are above 1; the median lies in 0.5 to 2
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
        edges = _validate.bounded("norm_edges", self.norm_edges)
        counts = _validate.bounded("norm_counts", self.norm_counts)
        sums = _validate.bounded("layer_sums", self.layer_sums)
        if edges.ndim != 1 or not 1 <= edges.size < _MOST_BINS or edges[0] <= 0.0 or (np.diff(edges) <= 0.0).any():
            raise ValueError(
                f"norm_edges must be 1 to {_MOST_BINS - 1} rising numbers above 0, got {_validate.shown(self.norm_edges)}"
            )
        if counts.shape != (edges.size + 1,):
            raise ValueError(
                f"norm_counts must be {edges.size + 1}, one more than norm_edges, got {_validate.shown(self.norm_counts)}"
            )
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
        return Step(noise_multiplier=self.noise_multiplier, sampling_rate=1.0, count=RELEASES)

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
            ...     norm_edges=(1.0, 2.0), norm_counts=(100.0, 100.0, 100.0), layer_sums=(300.0,), noise_multiplier=1e-3,
            ...     secure=True)
            >>> print(stats.clip_probability(1.0), "and", stats.clip_probability(1.5))
            0.667 and 0.333 to 0.667
        """
        clip = _validate.size("clip_norm", clip_norm, 1e-12, 1e12)
        below = _place(self.norm_edges, lambda edge: edge <= clip)
        above = _place(self.norm_edges, lambda edge: edge < clip)
        upper = 1.0 if below == 0 else min(1.0, self._longer[below - 1] + self._reach)
        lower = 0.0 if above == len(self.norm_edges) else max(0.0, self._longer[above] - self._reach)
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
            ...     norm_edges=(1.0, 2.0), norm_counts=(100.0, 100.0, 100.0), layer_sums=(300.0,), noise_multiplier=1e-3,
            ...     secure=True)
            >>> print(stats.norm_quantile(0.5))
            1 to 2
        """
        level = _validate.real("level", level, 0.0, 1.0, ends="()")
        # share up to an edge: 1 - longer; surely less than the level, or surely as much
        short = [edge for edge, longer in zip(self.norm_edges, self._longer, strict=True) if 1 - longer + self._reach < level]
        long = [edge for edge, longer in zip(self.norm_edges, self._longer, strict=True) if 1 - longer - self._reach >= level]
        return Interval(lower=max(short, default=0.0), upper=min(long, default=math.inf), claims=_CLAIMS)

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
            ...     norm_edges=(1.0,), norm_counts=(100.0, 200.0), layer_sums=(225.0, 75.0), noise_multiplier=1e-3, secure=True)
            >>> [str(one) for one in stats.layer_shares()]
            ['0.75', '0.25']
        """
        reach = -float(ndtri(_MISS / (2 * len(self.layer_sums)))) * self.noise_multiplier / self.num_examples
        cut = 1.0 / FINENESS  # every share was rounded down to a part
        return tuple(
            Interval(
                lower=min(1.0, max(0.0, total / self.num_examples - reach)),
                upper=min(1.0, max(0.0, total / self.num_examples + reach + cut)),
                claims=_CLAIMS,
            )
            for total in self.layer_sums
        )

    @functools.cached_property
    def _longer(self) -> tuple[float, ...]:
        """Share of the records above each edge, falling, within [0, 1]: no further from the truth than the noise is."""
        counts = np.array(self.norm_counts)
        counts += (self.num_examples - counts.sum()) / counts.size  # the true ones sum to N
        above: NDArray[np.float64] = counts[::-1].cumsum()[::-1][1:] / self.num_examples
        return tuple(np.clip(isotonic_regression(above, increasing=False).x, 0.0, 1.0).tolist())

    @property
    def _reach(self) -> float:
        """Noise of the shares above the edges is at most this, at all edges at once: they are points of a Brownian bridge."""
        return float(kolmogi(_MISS)) * self.noise_multiplier * math.sqrt(len(self.norm_counts)) / self.num_examples


def _place(edges: tuple[float, ...], holds: Callable[[float], bool]) -> int:
    """How many edges it holds for, which are the first ones."""
    return sum(map(holds, edges))
