"""Norms, clip factors and clipped sums of per-sample gradients, without a loop over samples."""

import math

import torch

from dptheory.training.mechanisms._base import Contribution, Tensors

_WIDE = (torch.float32, torch.float64)
_CPU_PRODUCTS, _DEVICE_PRODUCTS = 1 << 18, 1 << 26
"""Products held at once: what stays in a CPU's cache, and 256 MiB on other devices."""


def widened(samples: Tensors) -> Tensors:
    """The gradients in float32 at least: sums in half precision lose small contributions."""
    return [s if s.dtype in _WIDE else s.float() for s in samples]


def as_rows(sample: torch.Tensor) -> torch.Tensor:
    """Per-sample gradients of one parameter, shape (n, *parameter.shape), as rows (n, p); p is 1 for a parameter of shape ()."""
    return sample.reshape(len(sample), math.prod(sample.shape[1:]))


def sample_norms(samples: Tensors, *, mask: Tensors | None = None) -> torch.Tensor:
    r"""Euclidean norm :math:`|m\odot g_i|` of each sample's whole gradient; m is 1 where no mask is given.

    Args:
        samples: per-sample gradients, shapes (n, \*parameter.shape), one n.
        mask: 0/1 tensors in the shapes of the parameters.

    Returns:
        Norms, shape (n,).

    Raises:
        ValueError: another number of masks than of parameters.

    Source: RS, Algorithm 1, line 5 (rs.alg1.divisor).

    Example: one sample of two tensors, 3 and 4, has norm 5.
        >>> import torch
        >>> from dptheory.training.mechanisms import sample_norms
        >>> sample_norms([torch.tensor([[3.0, 0.0]]), torch.tensor([[4.0]])])
        tensor([5.])
    """
    if mask is None:
        parts = [as_rows(s).norm(dim=1) for s in samples]
    else:
        parts = [_masked_norms(as_rows(s), m.flatten().to(s.dtype)) for s, m in zip(samples, mask, strict=True)]
    return torch.stack(parts, dim=1).norm(dim=1)  # type: ignore[no-any-return]


def _masked_norms(rows: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Norms of rows times mask, a few rows at a time: a fresh tensor for all products takes four times as long on the CPU."""
    size = _CPU_PRODUCTS if rows.device.type == "cpu" else _DEVICE_PRODUCTS
    count = min(len(rows), max(1, size // max(mask.numel(), 1)))
    products = rows.new_empty(count, mask.numel())
    norms = []
    for part in torch.split(rows, max(count, 1)):
        torch.mul(part, mask, out=products[: len(part)])
        norms.append(torch.linalg.vector_norm(products[: len(part)], dim=1))
    return torch.cat(norms)


def clip_factors(norms: torch.Tensor, clip_norm: float) -> torch.Tensor:
    """min(1, C / norm), 1 for the zero gradient and 0 where the norm is not finite.

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
    return torch.where(torch.isfinite(norms), factors, torch.zeros_like(factors))


def weighted_sum(samples: Tensors, factors: torch.Tensor, *, mask: Tensors | None = None) -> Contribution:
    """Sum of factor times gradient over the samples, masked where a mask is given; samples of factor 0 add nothing.

    Samples with NaN or infinity are those of factor 0 and are counted: a gradient is never clipped to zero.
    """
    bad = factors == 0
    nonfinite = int(bad.sum())
    if nonfinite:
        samples = [s.masked_fill(bad.view(-1, *[1] * (s.dim() - 1)), 0.0) for s in samples]
    sums = [torch.einsum("n,n...->...", factors.to(s.dtype), s) for s in samples]
    if mask is not None:
        sums = [s * m for s, m in zip(sums, mask, strict=True)]
    return Contribution(sums, nonfinite)


def clipped_sum(samples: Tensors, clip_norm: float, *, mask: Tensors | None = None) -> Contribution:
    r"""Sum over the samples of the masked gradients, each clipped: :math:`\sum_i\mathrm{clip}_C(m\odot g_i)`.

    Args:
        samples: per-sample gradients, shapes (n, \*parameter.shape), one n.
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
    wide = widened(samples)
    return weighted_sum(wide, clip_factors(sample_norms(wide, mask=mask), clip_norm), mask=mask)
