"""Renyi curves of one DP-SGD step: noisy values, and noisy values with a fresh public mask."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dptheory import _validate
from dptheory._arrays import ArrayLike
from dptheory.errors import ArgumentError
from dptheory.privacy._bounds import DIRECTIONS, MAX_RELEASES, Direction
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.renyi import _sampled as _sampled_renyi

Array = NDArray[np.float64]

ORDERS = (*range(2, 64), *range(64, 128, 4), *range(128, 257, 16))
"""Whole orders, at which the curves of index sets and values are added up."""


def subsampled_gaussian_rdp(
    *,
    orders: ArrayLike,
    sampling_rate: float,
    noise_multiplier: float,
    adjacency: str = "add-remove",
    direction: str = "worst",
) -> Array:
    r"""Renyi curve of one DP-SGD step, Poisson sampling, noise sigma C on the sum, at every real order a > 1.

    .. math:: R_a = \frac1{a-1}\log E_{z \sim N(0,1)}\left[\left(1 - q + q\,e^{z/\sigma - 1/(2\sigma^2)}\right)^a\right]

    This is D_a(with the example, without it), "remove"; it is never below "add", D_a(without, with). Both are computed by one
    quadrature, to a relative error of 1e-12, as is the curve of "replace-one", whose worst pair are two opposite gradients.

    Args:
        orders: numbers above 1 and up to 1e7, any shape.
        sampling_rate: q in [0, 1].
        noise_multiplier: sigma in (0, inf].
        adjacency: "add-remove" or "replace-one".
        direction: for "add-remove": "remove", "add", or "worst", the larger divergence, that of "remove".

    Returns:
        Array of the shape of orders; inf where the divergence overflows.

    Raises:
        ValueError: an argument outside its range, or a direction of "replace-one", which is symmetric.

    Source: GIP, Lemma 1 (gip.lem1, gip.replace_one).

    Example: by hand, at order 2: log(1 + 0.01^2 (e - 1)); without sampling it is 2 / (2 * 1^2).
        >>> from dptheory.privacy import subsampled_gaussian_rdp
        >>> [subsampled_gaussian_rdp(orders=[2], sampling_rate=q, noise_multiplier=1.0).round(6) for q in (0.01, 1.0)]
        [array([0.000172]), array([1.])]
    """
    order = _validate.finite("orders", orders)
    if order.size == 0 or not ((order > 1) & (order <= _sampled_renyi.MAX_ORDER)).all():
        raise ArgumentError("orders", f"hold numbers above 1, at most {_sampled_renyi.MAX_ORDER:g}", orders)
    sigma = _validate.real("noise_multiplier", noise_multiplier, 0.0, ends="(]")
    rate = _validate.real("sampling_rate", sampling_rate, 0.0, 1.0)
    _validate.adjacency(adjacency)
    _validate.choice("direction", direction, DIRECTIONS)
    if adjacency == "replace-one" and direction != "worst":
        raise ArgumentError("direction", "be 'worst' for adjacency 'replace-one', which is symmetric", direction)
    larger: Direction = "add" if direction == "add" else "remove"  # gip.lem1, step 3
    loss = Loss("replace" if adjacency == "replace-one" else larger, sigma, rate)
    return _sampled_renyi.renyi_divergences(loss, order.ravel()).reshape(order.shape)


@dataclass(frozen=True, kw_only=True)
class FreshMask:
    """A mask with ``keep`` of ``dim`` ones, new in every step, that nobody can tell before it is used, applied after clipping.

    Given everything before, earlier masks included, it is uniform and independent of data, batch and noise; once used it is
    public, a part of the release. A mask from a seed has this property for nobody who knows the seed: an example made for it is
    protected as by DP-SGD, and no better. ``training`` counts amplification in secure runs alone, whose masks come from the
    operating system's cryptographic generator once gradients are computed.

    The other conditions are in what it can do: it computes the curve of masked DP-SGD itself, from the noise and the sampling
    rate, in the direction in which the bound holds; it takes no privacy loss distribution, because the pair of the bound does
    not dominate outside Renyi divergences; and it has no argument for a mask that is used twice or applied before clipping (such
    masks amplify once at most, or not at all).

    Args:
        dim: number of entries, 1..1e9.
        keep: number of ones, 0..dim. Groups with the same share of ones count as one.

    Source: GIP, Proposition 1 (gip.prop1).

    Example: a tenth of the entries is released in every step.
        >>> from dptheory.privacy import FreshMask
        >>> mask = FreshMask(dim=550_000, keep=55_000)
        >>> mask.keep / mask.dim
        0.1
    """

    dim: int
    keep: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", _validate.integer("dim", self.dim, 1, 10**9))
        object.__setattr__(self, "keep", _validate.integer("keep", self.keep, 0, self.dim))

    def rdp(self, *, orders: ArrayLike, sampling_rate: float, noise_multiplier: float, steps: int = 1) -> Array:
        r"""Renyi curve of ``steps`` steps of DP-SGD with random-k: steps log(1 - k + k e^((a-1) R_a)) / (a - 1), k = keep/dim.

        R_a is the curve of :func:`subsampled_gaussian_rdp`. The mask is part of the release. Tight: an example whose clipped
        gradient has one entry attains it.

        Args:
            orders: numbers above 1 and up to 1e7, any shape.
            sampling_rate: q in [0, 1].
            noise_multiplier: sigma in (0, inf], of the entries kept.
            steps: 1..1e12, each with its own mask.

        Returns:
            Array of the shape of orders.

        Source: GIP, Proposition 1 (gip.prop1).

        Example: at order 2, 1000 steps: a mask that keeps a tenth divides what is spent by nearly ten.
            >>> from dptheory.privacy import FreshMask
            >>> [FreshMask(dim=1000, keep=keep).rdp(orders=[2], sampling_rate=0.01, noise_multiplier=1.0, steps=1000).round(4)
            ...  for keep in (1000, 100)]
            [array([0.1718]), array([0.0172])]
        """
        steps = _validate.integer("steps", steps, 1, MAX_RELEASES)
        order = _validate.finite("orders", orders)
        nats = (order - 1.0) * subsampled_gaussian_rdp(
            orders=orders, sampling_rate=sampling_rate, noise_multiplier=noise_multiplier
        )
        share = self.keep / self.dim
        near = np.log1p(share * np.expm1(np.minimum(nats, 500.0)))
        if share == 0.0:
            return np.zeros_like(near)
        far = nats + math.log(share) + np.log1p((1.0 - share) / share * np.exp(-nats))
        return np.asarray(steps * np.where(nats < 500.0, near, far) / (order - 1.0))
