"""Gradient index pruning: a private choice, in groups, of the entries of the clipped sum that get noise and leave."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from dptheory import _validate
from dptheory.mallows import SubsetMallows
from training.mechanisms._base import Contribution, Mechanism, Noise, StepCost, Tensors
from training.mechanisms.clipping import clipped_sum
from training.mechanisms.rates import Schedule

_MIN_GROUP = 2


@dataclass(frozen=True)
class Groups:
    """How a gradient of ``dim`` entries falls into groups of ``size`` in order; a rest of two or more is a smaller group.

    A rest of one entry joins no group and is always kept.
    """

    dim: int
    size: int

    def split(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """The entries as blocks (groups, size): the full groups, then the rest if it is a group."""
        full = self.dim // self.size * self.size
        blocks = [flat[:full].view(-1, self.size)] if full else []
        if self.dim - full >= _MIN_GROUP:
            blocks.append(flat[full:].view(1, -1))
        return blocks

    def keeps(self, keep_rate: float) -> list[tuple[int, int, int]]:
        """(groups, size, entries kept in each) of every block; at least one and not all are kept."""
        full, rest = divmod(self.dim, self.size)
        sizes = [(full, self.size)] * (full > 0) + [(1, rest)] * (rest >= _MIN_GROUP)
        return [(count, size, min(max(round(keep_rate * size), 1), size - 1)) for count, size in sizes]


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

    Args:
        reference: bool, shape (groups, dim), ``keep`` True in each row.
        model: the law.
        uniform: the source of randomness.

    Source: GIP, Appendix A.2 (gip.alg_a2).
    """
    rows = len(reference)
    blank = torch.zeros((), dtype=torch.float64, device=reference.device)
    cdf = torch.as_tensor(model.swap_pmf(), device=reference.device).cumsum(0)
    drawn = torch.searchsorted(cdf / cdf[-1], uniform(blank.expand(rows)), right=True)
    swaps = drawn.clamp_max(model.max_swaps)  # a uniform that rounds to 1
    keys = uniform(blank.expand(reference.shape))
    result = reference.clone()
    for side, size in ((reference, model.keep), (~reference, model.dim - model.keep)):
        places = side.nonzero()[:, 1].view(rows, size)
        order = keys.gather(1, places).argsort(dim=1)
        first = torch.arange(size, device=reference.device) < swaps[:, None]
        leaving = torch.zeros_like(first).scatter_(1, order, first)
        result.scatter_(1, places, result.gather(1, places) ^ leaving)
    return result


class _GroupedSelection(Mechanism):
    """Clip, sum, choose entries in groups, add noise to what was chosen."""

    def __init__(self, keep_rate: Schedule, group_size: int) -> None:
        self._keep_rate = keep_rate
        self._size = _validate.integer("group_size", group_size, _MIN_GROUP)
        self._step = 0
        self._groups: Groups | None = None
        self.mask: torch.Tensor | None = None
        """The entries of the flattened gradient that left in the last step, bool."""

    def begin_step(self, params: Tensors) -> None:
        dim = sum(p.numel() for p in params)
        _validate.integer("dim", dim, _MIN_GROUP)
        self._groups = Groups(dim, min(self._size, dim))
        self._step += 1

    def contribute(self, samples: Tensors, clip: float) -> Contribution:
        return clipped_sum(samples, clip)

    def release(self, total: Tensors, noise_multiplier: float, clip: float, noise: Noise) -> Tensors:
        flat = torch.cat([t.flatten() for t in total])
        noised = flat + noise(flat, noise_multiplier * clip)
        self.mask = self._select(flat, noised, clip, noise)
        chosen = noised * self.mask
        return [c.view(t.shape) for c, t in zip(torch.split(chosen, [t.numel() for t in total]), total, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        return {"step": self._step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._step = state["step"]

    def _blocks(self) -> list[tuple[int, int, int]]:
        assert self._groups is not None, "begin_step comes first"
        return self._groups.keeps(self._keep_rate(self._step - 1))

    def _select(self, flat: torch.Tensor, noised: torch.Tensor, clip: float, noise: Noise) -> torch.Tensor:
        assert self._groups is not None, "begin_step comes first"
        scores = self._groups.split(self._scores(flat, noised, clip, noise))
        mask = torch.ones_like(flat, dtype=torch.bool)
        for block, score, (_, _, keep) in zip(self._groups.split(mask), scores, self._blocks(), strict=True):
            block.copy_(self._choose(score, keep, noise))
        return mask

    def _scores(self, flat: torch.Tensor, noised: torch.Tensor, clip: float, noise: Noise) -> torch.Tensor:
        """What the choice ranks by."""
        return flat.abs()

    def _choose(self, scores: torch.Tensor, keep: int, noise: Noise) -> torch.Tensor:
        """The entries of every row that are kept."""
        return top_mask(scores, keep)


class IndexPruning(_GroupedSelection):
    """Top-k of the clipped sum in every group as the reference, a Mallows draw around it, noise on the entries drawn.

    Args:
        theta: dispersion, >= 0; see :func:`dptheory.mallows.theta_for_budget`.
        keep_rate: share of entries kept, over the steps.
        group_size: entries of a group, >= 2; the paper has 256.

    Source: GIP, Algorithm 2 (gip.alg2, gip.alg_a2, gip.thm2).
    """

    title = "gradient index pruning"

    def __init__(self, theta: float, keep_rate: Schedule, group_size: int = 256) -> None:
        super().__init__(keep_rate, group_size)
        self._theta = _validate.real("theta", theta, 0.0)

    def _choose(self, scores: torch.Tensor, keep: int, noise: Noise) -> torch.Tensor:
        model = SubsetMallows(scores.shape[1], keep, self._theta)
        return sample_subsets(top_mask(scores, keep), model, lambda like: torch.special.ndtr(noise(like, 1.0)))

    def cost(self, noise_multiplier: float) -> StepCost:
        blocks = self._blocks()
        return StepCost(
            noise_multiplier, tuple((count, SubsetMallows(size, keep, self._theta)) for count, size, keep in blocks)
        )


class TopKOfReleased(_GroupedSelection):
    """Top-k of the noisy sum itself: costs nothing on top of DP-SGD, but prefers large noise.

    Source: GIP, section 4 (gip.alternatives).
    """

    title = "top-k of the released gradient"

    def _scores(self, flat: torch.Tensor, noised: torch.Tensor, clip: float, noise: Noise) -> torch.Tensor:
        return noised.abs()


class NoisyMagnitudeTopK(_GroupedSelection):
    """Top-k of magnitudes that have noise of their own: a second Gaussian release of sensitivity C.

    Args:
        selection_multiplier: noise multiplier of the ranked magnitudes, > 0.
        keep_rate, group_size: as for :class:`IndexPruning`.

    Source: GIP, section 4 (gip.alternatives).
    """

    title = "top-k of noisy magnitudes"

    def __init__(self, selection_multiplier: float, keep_rate: Schedule, group_size: int = 256) -> None:
        super().__init__(keep_rate, group_size)
        self._selection = _validate.real("selection_multiplier", selection_multiplier, 0.0, ends="()")

    def _scores(self, flat: torch.Tensor, noised: torch.Tensor, clip: float, noise: Noise) -> torch.Tensor:
        magnitudes = flat.abs()
        return magnitudes + noise(magnitudes, self._selection * clip)

    def cost(self, noise_multiplier: float) -> StepCost:
        return StepCost((noise_multiplier**-2 + self._selection**-2) ** -0.5 if noise_multiplier else 0.0)
