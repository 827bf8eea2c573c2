"""DP-SGD and its two ablations."""

from dptheory.training.mechanisms._base import Contribution, Noise, Samples, Tensors
from dptheory.training.mechanisms._clipping import Clipped, NotPrivate, clip_factors, sample_norms, weighted_sum


class DpSgd(Clipped):
    r"""Clip every sample's gradient to C, add Gaussian noise to the sum: :math:`\sum_i \mathrm{clip}_C(g_i) + \sigma C z`.

    :math:`\mathrm{clip}_C(g) = g \min(1, C/|g|)`, z ~ N(0, I_d).

    Args:
        clipping: another rule than this one.

    Raises:
        ValueError: ``clipping`` is no rule.

    Source: GIP, Algorithm 2 without its line 9 (gip.alg2).

    Example: of two gradients of norms 5 and 0.5 the first is scaled down to norm 1.
        >>> import torch
        >>> from dptheory.training.mechanisms import DpSgd
        >>> samples = [torch.tensor([[3.0, 4.0], [0.3, 0.4]])]
        >>> DpSgd().contribute(samples, clip_norm=1.0).total
        [tensor([0.9000, 1.2000])]
    """

    title = "DP-SGD"


class NoisySgd(NotPrivate, DpSgd):
    r"""Noise without clipping, to see what clipping costs: :math:`\sum_i g_i + \sigma C z`. Not private: its cost is infinite.

    Source: RS, Fig. 3, "noise alone" (rs.fig3).

    Example: gradients are summed without clipping, which is accounted for as no noise at all.
        >>> import torch
        >>> from dptheory.training.mechanisms import NoisySgd
        >>> NoisySgd().contribute([torch.tensor([[3.0, 4.0], [0.3, 0.4]])], clip_norm=1.0).total
        [tensor([3.3000, 4.4000])]
        >>> NoisySgd().cost(noise_multiplier=1.0).noise_multiplier
        0.0
    """

    title = "noisy SGD (NOT PRIVATE)"

    def __init__(self) -> None:
        super().__init__()

    def contribute(self, samples: Samples, clip_norm: float) -> Contribution:
        return weighted_sum(samples, clip_factors(sample_norms(samples), float("inf")))


class ClippedSgd(NotPrivate, DpSgd):
    r"""Clipping without noise, to see what noise costs: :math:`\sum_i \mathrm{clip}_C(g_i)`. Not private: its cost is infinite.

    Args:
        clipping: another rule than this one.

    Raises:
        ValueError: ``clipping`` is no rule.

    Source: RS, Fig. 3, "clipping alone" (rs.fig3).

    Example: a gradient of norm 5 is clipped to norm 1 and released as it is.
        >>> import torch
        >>> from dptheory.training.mechanisms import ClippedSgd
        >>> mechanism = ClippedSgd()
        >>> total = mechanism.contribute([torch.tensor([[3.0, 4.0]])], clip_norm=1.0).total
        >>> mechanism.release(total, noise_multiplier=1.0, clip_norm=1.0, noise=torch.normal)
        [tensor([0.6000, 0.8000])]
    """

    title = "clipped SGD (NOT PRIVATE)"

    def release(self, total: Tensors, *, noise_multiplier: float, clip_norm: float, noise: Noise) -> Tensors:
        return total
