"""Norms, clip factors and clipped sums of per-sample gradients, without a loop over samples.

Rounding. A clipped gradient is at most 1.00001 C long, C the clip: its norm comes out at most 8e-6 of it too short
(:func:`dptheory.training.per_example.square_sums`), and the clip, the factor and the product add 2^-24 each. What a sum over n
samples rounds off comes on top, as in every implementation in float32; it is at most n 2^-24 of the sum of the clipped norms, and
it can differ between neighbouring data sets.
"""

import torch

from dptheory.training.mechanisms._base import Contribution, Samples, Tensors
from dptheory.training.per_example import as_gradients


def sample_norms(samples: Samples, *, mask: Tensors | None = None) -> torch.Tensor:
    r"""Euclidean norm :math:`|m\odot g_i|` of each sample's whole gradient; m is 1 where no mask is given.

    Clipping divides by these norms, so that one that is too short lets a sample move the sum by more than C.

    Args:
        samples: per-sample gradients, formed or not; tensors have shapes (n, \*parameter.shape), one n.
        mask: 0/1 tensors in the shapes of the parameters.

    Returns:
        Norms, shape (n,), in the widest type of the gradients; infinite or NaN where an entry is, and infinite where the norm
        itself is beyond the type's range.

    Raises:
        ValueError: another number of masks than of parameters.

    Source: RS, Algorithm 1, line 5 (rs.alg1.divisor).

    Example: one sample of two tensors, 3 and 4, has norm 5.
        >>> import torch
        >>> from dptheory.training.mechanisms import sample_norms
        >>> sample_norms([torch.tensor([[3.0, 0.0]]), torch.tensor([[4.0]])])
        tensor([5.])
    """
    gradients = as_gradients(samples)
    return gradients.square_norms(mask).sqrt().to(gradients.dtype)


def clip_factors(norms: torch.Tensor, clip_norm: float) -> torch.Tensor:
    """min(1, C / norm), 1 for the zero gradient and 0 where the norm is not finite.

    A factor below the type's smallest normal number (1.2e-38 in float32) is 0 too: it would have few digits, and could be too
    large.

    Args:
        norms: shape (n,), >= 0; NaN and infinity are taken.
        clip_norm: C, > 0; infinity for no clipping.

    Returns:
        Factors in [0, 1], shape (n,).

    Source: RS, Algorithm 1, line 5 (rs.alg1.divisor).

    Example: a norm of 4 is scaled by a quarter, one of 0.5 stays, and an infinite one counts nothing.
        >>> import torch
        >>> from dptheory.training.mechanisms import clip_factors
        >>> clip_factors(torch.tensor([0.0, 0.5, 4.0, float("inf")]), 1.0)
        tensor([1.0000, 1.0000, 0.2500, 0.0000])
    """
    factors = (clip_norm / norms.clamp_min(torch.finfo(norms.dtype).tiny)).clamp_max(1.0)
    precise = torch.isfinite(norms) & (factors >= torch.finfo(norms.dtype).tiny)
    return torch.where(precise, factors, torch.zeros_like(factors))


def weighted_sum(samples: Samples, factors: torch.Tensor, *, mask: Tensors | None = None) -> Contribution:
    """Sum of factor times gradient over the samples, masked where a mask is given; samples of factor 0 add nothing.

    Samples with NaN or infinity are those of factor 0 and are counted: a gradient is never clipped to zero.
    """
    return Contribution(as_gradients(samples).weighted_sum(factors, mask), int((factors == 0).sum()))


def clipped_sum(samples: Samples, clip_norm: float, *, mask: Tensors | None = None) -> Contribution:
    r"""Sum over the samples of the masked gradients, each clipped: :math:`\sum_i\mathrm{clip}_C(m\odot g_i)`.

    Args:
        samples: per-sample gradients, formed or not; tensors have shapes (n, \*parameter.shape), one n.
        clip_norm: C, > 0.
        mask: 0/1 tensors in the shapes of the parameters; None for ones.

    Returns:
        Sums in the shapes of the parameters, in float32 at least, and the number of samples with NaN or infinity, which
        count as 0.

    Raises:
        ValueError: another number of masks than of parameters.

    Source: RS, Algorithm 1, lines 4 and 5 (rs.alg1.divisor), without the division.

    Example: masked first, (3, 4) becomes (3, 0), which is clipped to (1, 0).
        >>> import torch
        >>> from dptheory.training.mechanisms import clipped_sum
        >>> clipped_sum([torch.tensor([[3.0, 4.0]])], 1.0, mask=[torch.tensor([1.0, 0.0])]).total
        [tensor([1., 0.])]
    """
    gradients = as_gradients(samples)
    if mask is not None:  # numbers once, for norms and sums
        mask = [own.to(part.dtype) for own, part in zip(mask, gradients.parts, strict=True)]
    return weighted_sum(gradients, clip_factors(sample_norms(gradients, mask=mask), clip_norm), mask=mask)
