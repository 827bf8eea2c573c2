"""Norms, clip factors and clipped sums of per-sample gradients, without a loop over samples.

Rounding. A clipped gradient is at most 1.00001 C long, C the clip: its norm comes out at most 8.2e-6 of it too short
(:func:`sample_norms`), and the clip, the factor and the product add 2^-24 each. What a sum over n samples rounds off comes
on top, as in every implementation in float32; it is at most n 2^-24 of the sum of the clipped norms, and it can differ
between neighbouring data sets.
"""

import math

import torch

from dptheory.training.mechanisms._base import Contribution, Tensors

_WIDE = (torch.float32, torch.float64)
_CPU_PRODUCTS, _DEVICE_PRODUCTS = 1 << 18, 1 << 26
"""Products held at once: what stays in a CPU's cache, and 256 MiB on other devices."""
_SUMMED = 512
"""Most squares that are added up in float32: with four running sums or more, as every processor's kernel has, the root of the
sum is short by (512 / 4 + 8) 2^-24 / 2, or 4.1e-6 of itself, at most."""
_ROOM = 1024.0
"""How far a norm must be above what underflow can take away: squares below 2^-20 of the total may be lost."""


def widened(samples: Tensors) -> Tensors:
    """The gradients in float32 at least: sums in half precision lose small contributions."""
    return [s if s.dtype in _WIDE else s.float() for s in samples]


def as_rows(sample: torch.Tensor) -> torch.Tensor:
    """Per-sample gradients of one parameter, shape (n, *parameter.shape), as rows (n, p); p is 1 for a parameter of shape ()."""
    return sample.reshape(len(sample), math.prod(sample.shape[1:]))


def sample_norms(samples: Tensors, *, mask: Tensors | None = None) -> torch.Tensor:
    r"""Euclidean norm :math:`|m\odot g_i|` of each sample's whole gradient; m is 1 where no mask is given.

    Clipping divides by these norms, so that one that is too short lets a sample move the sum by more than C. In float32 they
    are short by 8.2e-6 of themselves at most, however many entries a gradient has: at most 512 squares are added up in
    float32, and the rest in float64. Norms whose squares would overflow or underflow are worked out from scaled entries.

    Args:
        samples: per-sample gradients, shapes (n, \*parameter.shape), one n.
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
    rows = [as_rows(s) for s in samples]
    masks = None if mask is None else [m.flatten().to(s.dtype) for m, s in zip(mask, samples, strict=True)]
    norms = _norms_of_all(rows, masks)
    entries = sum(r.shape[1] for r in rows)
    floor = _ROOM * math.sqrt(entries * torch.finfo(norms.dtype).tiny)
    imprecise = ~((norms >= floor) & (norms < math.inf))  # NaN too
    if bool(imprecise.any()):
        norms[imprecise] = _scaled_norms([r[imprecise] for r in rows], masks).to(norms.dtype)
    return norms


def _norms_of_all(rows: Tensors, masks: Tensors | None) -> torch.Tensor:
    """Norms over all parameters, without regard to overflow."""
    parts = map(_row_norms, rows) if masks is None else (_masked_norms(r, m) for r, m in zip(rows, masks, strict=True))
    return _row_norms(torch.stack(list(parts), dim=1))


def _scaled_norms(rows: Tensors, masks: Tensors | None) -> torch.Tensor:
    """The same of gradients divided by their largest entry, so that no square that counts overflows or underflows."""
    if masks is not None:
        rows = [r * m for r, m in zip(rows, masks, strict=True)]
    largest = torch.stack([r.abs().amax(dim=1) if r.shape[1] else r.new_zeros(len(r)) for r in rows]).amax(dim=0)
    scale = torch.where((largest > 0) & torch.isfinite(largest), largest, torch.ones_like(largest))
    return scale * _norms_of_all([r / scale[:, None].to(r.dtype) for r in rows], None)


def _row_norms(rows: torch.Tensor) -> torch.Tensor:
    """Norm of each row; torch's own adds up all squares of a row in float32, which 2^24 equal entries make short by 1.4 %."""
    rows = rows if rows.stride(-1) == 1 else rows.contiguous()  # other strides have kernels of fewer running sums
    if rows.shape[1] <= _SUMMED or rows.dtype == torch.float64:
        return rows.norm(dim=1)  # type: ignore[no-any-return]
    whole = rows.shape[1] // _SUMMED * _SUMMED
    chunks = rows[:, :whole].view(len(rows), whole // _SUMMED, _SUMMED).norm(dim=2)
    rest = rows[:, whole:].norm(dim=1, keepdim=True)
    return torch.cat([chunks, rest], dim=1).norm(dim=1, dtype=torch.float64).to(rows.dtype)  # type: ignore[no-any-return]


def _masked_norms(rows: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Norms of rows times mask, a few rows at a time: a fresh tensor for all products takes four times as long on the CPU."""
    size = _CPU_PRODUCTS if rows.device.type == "cpu" else _DEVICE_PRODUCTS
    count = min(len(rows), max(1, size // max(mask.numel(), 1)))
    products = rows.new_empty(count, mask.numel())
    norms = []
    for part in torch.split(rows, max(count, 1)):
        torch.mul(part, mask, out=products[: len(part)])
        norms.append(_row_norms(products[: len(part)]))
    return torch.cat(norms)


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
