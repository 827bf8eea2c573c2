"""Gradient index pruning: a private choice, in groups, of the entries of the clipped sum that get noise and leave."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from dptheory import _validate
from dptheory.pruning import SubsetMallows
from dptheory.training.mechanisms._base import Noise, StepCost, Tensors, with_noise
from dptheory.training.mechanisms._clipping import FLAT, Clipped, Clipping
from dptheory.training.mechanisms._rates import Checked, Schedule

_MIN_GROUP = 2

Dispersion = Callable[[int, int, int], float]
"""theta of a step as a function of (entries of a group, entries kept in it, number of groups)."""


def grouped(flat: torch.Tensor, size: int) -> torch.Tensor:
    """The entries in order as rows of ``size``; the last row is filled up with -inf, which is chosen last."""
    rows = -(-flat.numel() // size)
    return nn.functional.pad(flat, (0, rows * size - flat.numel()), value=-math.inf).view(rows, size)


def top_mask(values: torch.Tensor, keep: int) -> torch.Tensor:
    """Bool mask of the ``keep`` largest entries of every row."""
    mask = torch.zeros(values.shape, dtype=torch.bool, device=values.device)
    return mask.scatter_(1, values.topk(keep, dim=1, sorted=False).indices, True)


def sample_subsets(
    reference: torch.Tensor, model: SubsetMallows, uniform: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """One draw of the Mallows model for each row of ``reference``, on its device.

    The number of swapped pairs by inversion; given it, the members that leave and those that enter are those of smallest random
    keys on either side.

    Source: GIP, Appendix A.2 (gip.alg_a2).
    """
    rows = len(reference)
    blank = torch.zeros((), dtype=torch.float64, device=reference.device)
    cdf = torch.as_tensor(model.swap_pmf(), device=reference.device).cumsum(0)
    swaps = torch.searchsorted(cdf / cdf[-1], uniform(blank.expand(rows)))  # also of a uniform that rounds to 1
    keys = uniform(blank.expand(reference.shape))
    result = reference.clone()
    for side, size in ((reference, model.keep), (~reference, model.dim - model.keep)):
        places = side.nonzero()[:, 1].view(rows, size)
        order = keys.gather(1, places).argsort(dim=1)
        first = torch.arange(size, device=reference.device) < swaps[:, None]
        leaving = torch.zeros_like(first).scatter_(1, order, first)
        result.scatter_(1, places, result.gather(1, places) ^ leaving)
    return result


class _GroupedSelection(Clipped):
    """Clip, sum, choose entries in groups, add noise to what was chosen."""

    def __init__(self, keep_share: Schedule, group_size: int, *, clipping: Clipping = FLAT) -> None:
        super().__init__(clipping=clipping)
        self._keep_share = Checked("keep_share", keep_share)
        self._size = _validate.integer("group_size", group_size, _MIN_GROUP)
        self._step = 0
        self._width = self._rows = self._keep = 0
        self.mask: torch.Tensor | None = None
        """The entries of the flattened gradient that left in the last step, bool."""

    def begin_step(self, params: Tensors) -> None:
        dim = _validate.integer("number of trainable entries", sum(p.numel() for p in params), _MIN_GROUP)
        self._width = min(self._size, dim)
        self._rows = -(-dim // self._width)
        self._keep = min(max(round(self._keep_share(self._step) * self._width), 1), self._width - 1)

    def release(self, total: Tensors, *, noise_multiplier: float, clip_norm: float, noise: Noise) -> Tensors:
        flat = torch.cat([t.flatten() for t in total])
        noised = with_noise(flat, noise_multiplier * clip_norm, noise)
        self.mask = self._select(flat, noised, clip_norm, noise)
        chosen = noised * self.mask
        return [c.view(t.shape) for c, t in zip(torch.split(chosen, [t.numel() for t in total]), total, strict=True)]

    def end_step(self, released: Tensors, std: float) -> None:
        self._step += 1

    def state_dict(self) -> dict[str, Any]:
        return {"step": self._step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._step = state["step"]

    def _select(self, flat: torch.Tensor, noised: torch.Tensor, clip_norm: float, noise: Noise) -> torch.Tensor:
        scores = grouped(self._scores(flat, noised, clip_norm, noise), self._width)
        return self._choose(scores, noise).flatten()[: flat.numel()]

    def _scores(self, flat: torch.Tensor, noised: torch.Tensor, clip_norm: float, noise: Noise) -> torch.Tensor:
        """What the choice ranks by."""
        return flat.abs()

    def _choose(self, scores: torch.Tensor, noise: Noise) -> torch.Tensor:
        """The entries of every row that are kept."""
        return top_mask(scores, self._keep)


class IndexPruning(_GroupedSelection):
    r"""Top-k of the clipped sum in every group as the reference, a Mallows draw around it, noise on the entries drawn.

    Released is :math:`1_I\odot(\sum_i\mathrm{clip}_C(g_i) + \sigma C z)`. In every group of d entries I has K of them, and the
    number i that are not among the K largest has :math:`P(i)\propto\binom Ki\binom{d-K}i e^{-2\theta i}`.

    Args:
        theta: dispersion, >= 0; or a function that gives that of a step, as ``functools.partial`` of
            :func:`dptheory.pruning.theta_for_budget`: what a theta spends depends on the number kept, which ``keep_share``
            moves.
        keep_share: share of entries kept, over the steps, in [0, 1]; at least one and not all of a group.
        group_size: entries of a group, >= 2; the paper has 256. The last group is filled up.
        clipping: the rule; the choice of entries is from the sum of what it leaves.

    Raises:
        TypeError: ``keep_share`` is no schedule, or ``clipping`` no rule.

    Source: GIP, Algorithm 2 (gip.alg2, gip.alg_a2, gip.thm2).

    Example: so large a theta draws the top-k itself, two of eight entries, which the cost says too.
        >>> import torch
        >>> from dptheory.training.mechanisms import Constant, IndexPruning
        >>> mechanism = IndexPruning(100.0, Constant(0.25), group_size=8)
        >>> mechanism.begin_step([torch.zeros(8)])
        >>> total = [torch.tensor([0.1, -0.9, 0.2, 0.0, 0.3, 0.7, 0.0, 0.1])]
        >>> mechanism.release(total, noise_multiplier=0.0, clip_norm=1.0, noise=lambda like, std: torch.zeros_like(like))
        [tensor([ 0.0000, -0.9000,  0.0000,  0.0000,  0.0000,  0.7000,  0.0000,  0.0000])]
        >>> groups, law = mechanism.cost(1.0).selection
        >>> groups, law.dim, law.keep
        (1, 8, 2)
    """

    title = "gradient index pruning"

    def __init__(
        self, theta: float | Dispersion, keep_share: Schedule, *, group_size: int = 256, clipping: Clipping = FLAT
    ) -> None:
        super().__init__(keep_share, group_size, clipping=clipping)
        self._theta = theta if callable(theta) else _validate.real("theta", theta, 0.0)

    def _choose(self, scores: torch.Tensor, noise: Noise) -> torch.Tensor:
        reference = top_mask(scores, self._keep)
        return sample_subsets(reference, self._law(), lambda like: torch.special.ndtr(noise(like, 1.0)))

    def cost(self, noise_multiplier: float) -> StepCost:
        return StepCost(noise_multiplier, selection=(self._rows, self._law()))

    def _law(self) -> SubsetMallows:
        theta = self._theta(self._width, self._keep, self._rows) if callable(self._theta) else self._theta
        return SubsetMallows(self._width, self._keep, theta=theta)


class TopKOfReleased(_GroupedSelection):
    r"""Top-k of the noisy sum itself: costs nothing on top of DP-SGD, but prefers large noise.

    Released is :math:`1_I\odot y`, :math:`y = \sum_i\mathrm{clip}_C(g_i) + \sigma C z`, I the K largest :math:`|y_j|` of every
    group.

    Args:
        keep_share, group_size, clipping: as for :class:`IndexPruning`.

    Raises:
        TypeError: ``keep_share`` is no schedule, or ``clipping`` no rule.

    Source: new, on GIP, section 4 (gip.alternatives).

    Example: entries chosen from a release cost nothing beside it.
        >>> from dptheory.training.mechanisms import Constant, TopKOfReleased
        >>> TopKOfReleased(Constant(0.25), 8).cost(noise_multiplier=1.0).noise_multiplier
        1.0
    """

    title = "top-k of the released gradient"

    def _scores(self, flat: torch.Tensor, noised: torch.Tensor, clip_norm: float, noise: Noise) -> torch.Tensor:
        return noised.abs()


class NoisyMagnitudeTopK(_GroupedSelection):
    r"""Top-k of magnitudes that have noise of their own: a second Gaussian release of sensitivity C.

    With :math:`s = \sum_i\mathrm{clip}_C(g_i)` released is :math:`1_I\odot(s + \sigma C z)`, I the K largest entries of
    :math:`|s| + \tau C z'` of every group, tau = ``selection_multiplier``. It costs what one release at
    :math:`(\sigma^{-2} + \tau^{-2})^{-1/2}` does.

    Args:
        selection_multiplier: noise multiplier tau of the ranked magnitudes, > 0.
        keep_share, group_size, clipping: as for :class:`IndexPruning`.

    Raises:
        TypeError: ``keep_share`` is no schedule, or ``clipping`` no rule.

    Source: new, on GIP, section 4 (gip.alternatives).

    Example: multipliers 3 and 4 together spend as much as 2.4 alone.
        >>> from dptheory.training.mechanisms import Constant, NoisyMagnitudeTopK
        >>> round(NoisyMagnitudeTopK(3.0, Constant(0.1)).cost(noise_multiplier=4.0).noise_multiplier, 6)
        2.4
    """

    title = "top-k of noisy magnitudes"

    def __init__(
        self, selection_multiplier: float, keep_share: Schedule, *, group_size: int = 256, clipping: Clipping = FLAT
    ) -> None:
        super().__init__(keep_share, group_size, clipping=clipping)
        self._selection = _validate.real("selection_multiplier", selection_multiplier, 0.0, ends="()")

    def _scores(self, flat: torch.Tensor, noised: torch.Tensor, clip_norm: float, noise: Noise) -> torch.Tensor:
        magnitudes = flat.abs()
        return with_noise(magnitudes, self._selection * clip_norm, noise)

    def cost(self, noise_multiplier: float) -> StepCost:
        return StepCost(1 / math.hypot(1 / noise_multiplier, 1 / self._selection) if noise_multiplier else 0.0)
