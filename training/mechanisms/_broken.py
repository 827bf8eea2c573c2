"""Variants that break the guarantee, each as a paper prints it or as it is easily miswritten: privacy audits must catch them."""

from dptheory import _validate
from dptheory.training.mechanisms._base import Contribution, Noise, Samples, StepCost, Tensors
from dptheory.training.mechanisms._clipping import clipped_sum
from dptheory.training.mechanisms._dpsgd import DpSgd
from dptheory.training.mechanisms._random_sparsification import RandomSparsification
from dptheory.training.mechanisms._ranked import RankedSparsification, largest_entries
from dptheory.training.mechanisms._rates import Constant
from dptheory.training.per_example import as_gradients


class UnnoisedVelocity(RankedSparsification):
    r"""The velocity takes the un-noised sum :math:`\sum_i\mathrm{clip}_C(m\odot g_i)`, as printed; the ranking alone is noised.

    Args:
        drop_rate, steps_per_epoch, seed, clipping: as for :class:`RankedSparsification`.

    Raises:
        TypeError: ``drop_rate`` is no schedule.
        ValueError: an argument outside its range.

    Source: RF, Algorithm 2; RS, Algorithm 4, line 9 (rf.alg2, rs.alg4).

    Example: it is accounted for as a step without noise.
        >>> from dptheory.training.mechanisms import Constant, UnnoisedVelocity
        >>> UnnoisedVelocity(Constant(0.5), steps_per_epoch=1, seed=0).cost(noise_multiplier=1.0).noise_multiplier
        0.0
    """

    title = "ranked sparsification as printed (NOT PRIVATE)"

    def release(self, total: Tensors, *, noise_multiplier: float, clip_norm: float, noise: Noise) -> Tensors:
        self._noised = super().release(total, noise_multiplier=noise_multiplier, clip_norm=clip_norm, noise=noise)
        return total

    def end_step(self, released: Tensors, std: float) -> None:
        super().end_step(self._noised, std)

    def cost(self, noise_multiplier: float) -> StepCost:
        return StepCost(0.0)


class BatchSizeDivisor(RandomSparsification):
    r"""Divides sum and noise by the number n of examples drawn, which is private under Poisson sampling.

    The model gets :math:`\frac1n m\odot(\sum_i\mathrm{clip}_C(m\odot g_i) + \sigma C z)`.

    Args:
        expected_batch_size: what the optimizer will divide by, > 0.
        drop_rate: share of entries dropped, the same at every step, in [0, 1).
        seed: of the masks, 0 to 2^63 - 1.

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Algorithm 1, lines 5 and 6 (rs.alg1.divisor).

    Example: it is accounted for as a step without noise.
        >>> from dptheory.training.mechanisms import BatchSizeDivisor
        >>> BatchSizeDivisor(expected_batch_size=64.0, drop_rate=0.5, seed=0).cost(noise_multiplier=1.0).noise_multiplier
        0.0
    """

    title = "division by the drawn batch size (NOT PRIVATE)"

    def __init__(self, *, expected_batch_size: float, drop_rate: float, seed: int) -> None:
        drop_rate = _validate.real("drop_rate", drop_rate, 0.0, 1.0, ends="[)")
        super().__init__(Constant(drop_rate), _validate.integer("seed", seed, 0))
        self._expected = _validate.real("expected_batch_size", expected_batch_size, 0.0, ends="()")
        self._drawn = 0

    def begin_step(self, params: Tensors) -> None:
        super().begin_step(params)
        self._drawn = 0

    def contribute(self, samples: Samples, clip_norm: float) -> Contribution:
        self._drawn += as_gradients(samples).examples
        return super().contribute(samples, clip_norm)

    def release(self, total: Tensors, *, noise_multiplier: float, clip_norm: float, noise: Noise) -> Tensors:
        scale = self._expected / max(self._drawn, 1)
        return [
            r * scale
            for r in super().release(total, noise_multiplier=noise_multiplier, clip_norm=clip_norm, noise=noise)
        ]

    def cost(self, noise_multiplier: float) -> StepCost:
        return StepCost(0.0)


class TopKWithoutNoise(DpSgd):
    r"""Keeps the largest entries of the private sum and adds noise to them alone: which ones they are is not protected.

    Released is :math:`1_I\odot(s + \sigma C z)`, :math:`s = \sum_i\mathrm{clip}_C(g_i)`, I the K largest :math:`|s_j|`.

    Args:
        keep_share: share of entries kept, in [1e-15, 1].

    Raises:
        ValueError: an argument outside its range; where a step begins to release, a share that keeps no entry.

    Source: GIP, section 4 (gip.alternatives).

    Example: the two largest magnitudes of four, as the data have them.
        >>> import torch
        >>> from dptheory.training.mechanisms import TopKWithoutNoise
        >>> mechanism = TopKWithoutNoise(0.5)
        >>> total = mechanism.contribute([torch.tensor([[0.1, -0.4, 0.3, 0.2]])], clip_norm=1.0).total
        >>> mechanism.release(total, noise_multiplier=1.0, clip_norm=1.0, noise=lambda like, std: torch.zeros_like(like))
        [tensor([ 0.0000, -0.4000,  0.3000,  0.0000])]
    """

    title = "top-k by private magnitudes (NOT PRIVATE)"

    def __init__(self, keep_share: float) -> None:
        super().__init__()
        self._drop_rate = 1.0 - _validate.real("keep_share", keep_share, 1e-15, 1.0)

    def contribute(self, samples: Samples, clip_norm: float) -> Contribution:
        return clipped_sum(samples, clip_norm)

    def release(self, total: Tensors, *, noise_multiplier: float, clip_norm: float, noise: Noise) -> Tensors:
        mask = largest_entries(total, self._drop_rate)
        return [(t + noise(t, noise_multiplier * clip_norm)) * m for t, m in zip(total, mask, strict=True)]

    def cost(self, noise_multiplier: float) -> StepCost:
        return StepCost(0.0)
