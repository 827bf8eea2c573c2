"""Norms, clip factors and clipped sums of per-sample gradients, without a loop over samples.

Rounding. A clipped gradient is at most 1.00001 C long, C the clip: its norm comes out at most 8e-6 of it too short
(:func:`dptheory.training.per_example.square_sums`), and the clip, the factor and the product add 2^-24 each. What sums round off
comes on top, and can differ between neighbouring data sets: samples are added up in float32 in runs of at most 256, the runs and
the parts of a batch in float64, and what is handed to the mechanism is rounded once, by 2^-24 of each entry of the sum.
"""

import abc

import torch
from opacus import GradSampleModule

from dptheory.errors import ArgumentTypeError
from dptheory.training.mechanisms._base import Contribution, Mechanism, Samples, StepCost, Tensors
from dptheory.training.per_example import as_gradients, masked


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


class Clipping(abc.ABC):
    """A rule: the factors by which the gradient of an example is scaled, one for each group of parameters.

    Its guarantee, for every example: the scaled gradient has norm C at most over all groups together.

    Source: new, on RS, Algorithm 1 (rs.clip_descent).

    Example: a rule of one's own that leaves a margin.
        >>> import torch
        >>> from dptheory.training.mechanisms import Clipping, DpSgd, clip_factors
        >>> class Cautious(Clipping):
        ...     def factors(self, norms, clip_norm):
        ...         return clip_factors(norms, 0.9 * clip_norm)
        >>> DpSgd(clipping=Cautious()).contribute([torch.tensor([[3.0, 4.0]])], clip_norm=1.0).total
        [tensor([0.5400, 0.7200])]
    """

    def attach(self, module: GradSampleModule) -> None:  # noqa: B027 -- most rules take all parameters together
        """Called once, with the wrapped module."""

    def groups(self, parameters: int) -> list[list[int]]:
        """Numbers of the trained parameters that share a factor; each in one group. By default all of them."""
        return [list(range(parameters))]

    @abc.abstractmethod
    def factors(self, norms: torch.Tensor, clip_norm: float) -> torch.Tensor:
        """Factors >= 0 of the gradients, shape (n, groups); 0 where a norm is not finite.

        Args:
            norms: of the groups of each example, shape (n, groups).
            clip_norm: C.
        """

    def kept(self, factors: torch.Tensor) -> torch.Tensor | None:
        """Which examples the rule leaves as they are, shape (n,), bool; None of a rule that changes all of them."""
        return (factors >= 1).all(1)


class FlatClipping(Clipping):
    r"""The whole gradient is shortened to C where it is longer: :math:`g\min(1, C/|g|)`.

    Source: GIP, Algorithm 2 (gip.alg2).

    Example: a norm of 5 becomes 1; one of 0.5 stays.
        >>> import torch
        >>> from dptheory.training.mechanisms import FlatClipping
        >>> FlatClipping().factors(torch.tensor([[5.0], [0.5]]), clip_norm=1.0)
        tensor([[0.2000],
                [1.0000]])
    """

    def factors(self, norms: torch.Tensor, clip_norm: float) -> torch.Tensor:
        return clip_factors(norms, clip_norm)


FLAT = FlatClipping()


def clipped_sum(
    samples: Samples, clip_norm: float, *, mask: Tensors | None = None, clipping: Clipping = FLAT
) -> Contribution:
    r"""Sum over the samples of the masked gradients, each clipped: :math:`\sum_i\mathrm{clip}_C(m\odot g_i)`.

    Args:
        samples: per-sample gradients, formed or not; tensors have shapes (n, \*parameter.shape), one n.
        clip_norm: C, > 0.
        mask: 0/1 tensors in the shapes of the parameters; None for ones.
        clipping: the rule.

    Returns:
        Sums in the shapes of the parameters, in float32 at least, the number of samples with NaN or infinity, which count as 0,
        and how many more the clip left as they were than it shortened, halved.

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
    groups = clipping.groups(len(gradients))
    masks = [None if mask is None else [mask[i] for i in group] for group in groups]
    parts = [gradients.of(group) for group in groups]
    found = [sample_norms(part, mask=own) for part, own in zip(parts, masks, strict=True)]
    norms = torch.stack([one.to(gradients.dtype) for one in found], 1)
    factors = clipping.factors(norms, clip_norm)
    bad = (factors == 0).any(1)  # not finite in one group: the sample counts nothing in any
    kept = clipping.kept(factors)
    votes = None if kept is None else float((kept[~bad & (norms > 0).any(1)].double() - 0.5).sum())
    factors = factors.masked_fill(bad[:, None], 0.0)
    sums: dict[int, torch.Tensor] = {}
    for place, group in enumerate(groups):
        sums |= zip(group, parts[place].weighted_sum(factors[:, place]), strict=True)
    total = [sums[i] for i in range(len(gradients))]
    return Contribution(total if mask is None else masked(total, mask), int(bad.sum()), votes)


class Clipped(Mechanism):
    """A mechanism that clips by a rule, all parameters together where nobody says otherwise."""

    _clipping: Clipping = FLAT  # also of a mechanism of one's own that derives from DpSgd and sets nothing

    def __init__(self, *, clipping: Clipping = FLAT) -> None:
        if not isinstance(clipping, Clipping):
            raise ArgumentTypeError("clipping", "be a rule such as LayerClipping()", clipping)
        self._clipping = clipping

    def attach(self, module: GradSampleModule) -> None:
        self._clipping.attach(module)

    def contribute(self, samples: Samples, clip_norm: float) -> Contribution:
        return clipped_sum(samples, clip_norm, clipping=self._clipping)


class NotPrivate(Mechanism):
    """A mechanism that protects nothing, whatever noise it adds."""

    def cost(self, noise_multiplier: float) -> StepCost:
        return StepCost(0.0)
