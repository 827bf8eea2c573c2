"""The index mechanism as a privacy random variable, for the accountant of the package prv-accountant."""

import math

import numpy as np
from numpy.typing import NDArray

from dptheory import _validate
from dptheory._arrays import ArrayLike
from dptheory.errors import ArgumentError
from dptheory.privacy._bounds import MAX_RELEASES
from dptheory.privacy.methods.lattice import _loss as _lattice_loss
from dptheory.privacy.methods.lattice._index_law import loss_law
from dptheory.pruning import SubsetMallows

Array = NDArray[np.float64]


class IndexPRV:
    """All index releases of a run as one privacy random variable; put it into ``PRVAccountant(prvs=[...])`` once.

    It has the methods of ``prv_accountant.PrivacyRandomVariable``. The loss lives on a lattice and has no density. That
    accountant needs one: it integrates the distribution function numerically, and composes the error of the mean. So every
    atom is spread evenly over the lattice step above it. The loss becomes larger by at most ``error`` and never smaller, so
    the accountant's upper bound stays valid; its lower bound has to be lowered by ``error``. The whole run is one variable
    (``max_self_compositions=[1]``), so this error counts once, however many releases there are.

    Args:
        mechanism: index mechanism of one group.
        releases: steps * groups, 1..1e12.

    Raises:
        ValueError: theta = 0 or above 300, where there is nothing to compose, or releases outside its range.

    Source: GIP, Theorem 2 (gip.tight).

    Example: by hand: keep one of two at odds 3 : 1. The lattice step, and so the error, is log 3.
        >>> import math
        >>> from dptheory.privacy.methods.references import IndexPRV
        >>> from dptheory.pruning import SubsetMallows
        >>> round(IndexPRV(mechanism=SubsetMallows(2, 1, theta=math.log(3) / 2), releases=1).error, 4)
        1.0986
    """

    pm_inf = 0.0

    def __init__(self, *, mechanism: SubsetMallows, releases: int) -> None:
        mechanism = _validate.instance("mechanism", mechanism, SubsetMallows)
        if not 0.0 < mechanism.theta <= 300.0:
            raise ArgumentError("mechanism", "have theta in (0, 300]", mechanism)
        self.releases = _validate.integer("releases", releases, 1, MAX_RELEASES)
        self.error = 2.0 * mechanism.theta
        """Largest amount by which the variable exceeds the loss, 2 theta."""
        self._loss = loss_law(mechanism=mechanism)
        low, log_pmf = _lattice_loss.composed(loss=self._loss, count=self.releases)
        self._nodes = self.error * (low + np.arange(log_pmf.size + 1, dtype=np.float64))
        self._cdf = np.concatenate([[0.0], np.cumsum(np.exp(log_pmf))])
        self._cdf /= self._cdf[-1]

    def cdf(self, t: ArrayLike) -> Array:
        """P(loss <= t), t numbers or infinities of any shape.

        Args:
            t: numbers or infinities, any shape.

        Returns:
            Probabilities, the shape of t.

        Raises:
            ValueError: NaN in t.

        Source: GIP, Theorem 2 (gip.tight).

        Example: by hand: the loss -log 3, of probability 1/4, is spread over [-log 3, 0].
            >>> import math
            >>> from dptheory.privacy.methods.references import IndexPRV
            >>> from dptheory.pruning import SubsetMallows
            >>> law = SubsetMallows(2, 1, theta=math.log(3) / 2)
            >>> IndexPRV(mechanism=law, releases=1).cdf([-math.inf, 0.0, math.inf]).round(4)
            array([0.  , 0.25, 1.  ])
        """
        return np.asarray(np.interp(_validate.numbers_and_infinities("t", t), self._nodes, self._cdf))

    def pdf(self, t: ArrayLike) -> Array:
        """Density at t, numbers or infinities of any shape: constant on every lattice step.

        Args:
            t: numbers or infinities, any shape.

        Returns:
            Densities in 1 / nat, the shape of t.

        Raises:
            ValueError: NaN in t.

        Source: GIP, Theorem 2 (gip.tight).

        Example: by hand: the loss -log 3, of probability 1/4, is spread over [-log 3, 0].
            >>> import math
            >>> from dptheory.privacy.methods.references import IndexPRV
            >>> from dptheory.pruning import SubsetMallows
            >>> (IndexPRV(mechanism=SubsetMallows(2, 1, theta=math.log(3) / 2), releases=1).pdf([-0.5]) * math.log(3)).round(4)
            array([0.25])
        """
        t = _validate.numbers_and_infinities("t", t)
        steps = np.concatenate([[0.0], np.diff(self._cdf), [0.0]]) / self.error
        return np.asarray(steps[np.searchsorted(self._nodes, t, side="right")])

    def probability(self, a: ArrayLike, b: ArrayLike) -> Array:
        """P(a < loss <= b), a and b numbers or infinities whose shapes go together.

        Args:
            a, b: numbers or infinities, shapes that go together.

        Returns:
            Probabilities, the broadcast shape.

        Raises:
            ValueError: NaN, or shapes that do not match.

        Source: GIP, Theorem 2 (gip.tight).

        Example: by hand: above 0 is the loss log 3, three times in four.
            >>> import math
            >>> from dptheory.privacy.methods.references import IndexPRV
            >>> from dptheory.pruning import SubsetMallows
            >>> variable = IndexPRV(mechanism=SubsetMallows(2, 1, theta=math.log(3) / 2), releases=1)
            >>> round(float(variable.probability(0.0, math.inf)), 4)
            0.75
        """
        a, b = _validate.numbers_and_infinities("a", a), _validate.numbers_and_infinities("b", b)
        _validate.broadcast(a=a, b=b)
        return np.asarray(self.cdf(b) - self.cdf(a))

    def mean(self) -> float:
        """Mean of the variable.

        Returns:
            The mean in nats.

        Source: GIP, Theorem 2 (gip.tight).

        Example: by hand: log(3) / 2, and half a lattice step, log(3) / 2, of the spreading.
            >>> import math
            >>> from dptheory.privacy.methods.references import IndexPRV
            >>> from dptheory.pruning import SubsetMallows
            >>> round(IndexPRV(mechanism=SubsetMallows(2, 1, theta=math.log(3) / 2), releases=1).mean(), 4)
            1.0986
        """
        return float(np.diff(self._cdf) @ (self._nodes[:-1] + self._nodes[1:]) / 2.0)

    def rdp(self, alpha: float) -> float:
        """Upper bound on the Renyi divergence of this order, in (1, inf].

        Args:
            alpha: the order, in (1, inf].

        Returns:
            The divergence in nats.

        Source: GIP, Theorem 2 (gip.tight).

        Example: by hand, at order 2: log(9/4 + 1/12) = log(7/3), and the lattice step log 3.
            >>> import math
            >>> from dptheory.privacy.methods.references import IndexPRV
            >>> from dptheory.pruning import SubsetMallows
            >>> round(IndexPRV(mechanism=SubsetMallows(2, 1, theta=math.log(3) / 2), releases=1).rdp(2.0), 4)
            1.9459
        """
        alpha = _validate.real("alpha", alpha, 1.0, ends="(]")
        return self.releases * self._loss.renyi(order=alpha) + (self.error if math.isfinite(alpha) else 0.0)
