"""Rules that shorten the gradient of each example otherwise than by one clip: layer by layer, or to nearly one length."""

from collections.abc import Sequence

import torch
from opacus import GradSampleModule
from torch import nn

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training.mechanisms._clipping import Clipping, clip_factors
from dptheory.training.mechanisms._layer_freezing import layers, own_parameters


class LayerClipping(Clipping):
    r"""Each layer has a clip of its own: :math:`g_l\min(1, C_l/|g_l|)`, :math:`C_l = C\sqrt{w_l/\sum w}`.

    So :math:`\sum_l C_l^2 = C^2`, and all layers together are no longer than C. Of layers that are frozen or have no trained
    parameters the share goes to the others, in proportion. A layer is a module that holds parameters of its own, or a parametrized
    one; used without a model, every tensor is one.

    Args:
        shares: the w_l, in the order of :func:`layers`, each in [1e-15, 1e15]; None for equal ones.

    Raises:
        ValueError: an argument outside its range; where it is attached to a model, another number of shares than of layers.

    Source: new, on RS, Algorithm 1 (rs.layer_clip).

    Example: two layers share the square of C = 5 as 16 to 9.
        >>> import torch
        >>> from dptheory.training.mechanisms import DpSgd, LayerClipping
        >>> samples = [torch.tensor([[8.0, 0.0]]), torch.tensor([[0.0, 1.0]])]
        >>> DpSgd(clipping=LayerClipping([16.0, 9.0])).contribute(samples, clip_norm=5.0).total
        [tensor([4., 0.]), tensor([0., 1.])]
    """

    def __init__(self, shares: Sequence[float] | None = None) -> None:
        self._shares = None if shares is None else _shares(shares)
        self._layers: list[list[nn.Parameter]] | None = None

    def attach(self, module: GradSampleModule) -> None:
        seen: set[int] = set()
        found = []
        for layer in layers(module._module):
            own = [
                p for p in own_parameters(layer) if id(p) not in seen
            ]  # one that two layers share is the first one's
            seen |= {id(p) for p in own}
            found.append(own)
        if self._shares is not None and len(self._shares) != len(found):
            raise ArgumentError("shares", f"be one for each of the {len(found)} layers", len(self._shares))
        self._layers = found

    def groups(self, parameters: int) -> list[list[int]]:
        return [group for group in self._numbered(parameters) if group]

    def factors(self, norms: torch.Tensor, clip_norm: float) -> torch.Tensor:
        groups = norms.shape[1]
        trained = [True] * groups if self._layers is None else [_is_trained(layer) for layer in self._layers]
        shares = [1.0] * len(trained) if self._shares is None else self._shares
        kept = [share for share, there in zip(shares, trained, strict=True) if there]
        own = torch.tensor(kept, dtype=torch.float64)
        clips = (clip_norm * (own / own.sum()).sqrt()).tolist()
        return torch.stack([clip_factors(norms[:, i], clip) for i, clip in enumerate(clips)], 1)

    def _numbered(self, parameters: int) -> list[list[int]]:
        """The numbers of the trained parameters of each layer; none of a layer without."""
        if self._layers is None:
            return [[i] for i in range(parameters)]
        trained = sum(p.requires_grad for layer in self._layers for p in layer)
        if trained != parameters:
            raise ArgumentError(
                "samples", f"be of the {trained} trained parameters of the model", parameters, got=f"{parameters}"
            )
        places = iter(range(parameters))
        return [[next(places) for p in layer if p.requires_grad] for layer in self._layers]


class AutomaticClipping(Clipping):
    r"""Each gradient is normalised, whatever its length: :math:`C g/(|g| + \gamma)`, shorter than C.

    Small gradients count nearly as much as large ones. The step is the same for C and learning rate as for 1 and their product.

    Args:
        gamma: in [1e-15, 1e15], in the unit of the gradient; of the order of the gradients that should stay small.

    Source: new, on RS, Algorithm 1 (rs.automatic_clip).

    Example: norms of 1 and 3 become 1/2 and 3/4.
        >>> import torch
        >>> from dptheory.training.mechanisms import AutomaticClipping, DpSgd
        >>> samples = [torch.tensor([[1.0, 0.0], [0.0, 3.0]])]
        >>> DpSgd(clipping=AutomaticClipping(gamma=1.0)).contribute(samples, clip_norm=1.0).total
        [tensor([0.5000, 0.7500])]
    """

    def __init__(self, *, gamma: float = 0.01) -> None:
        self._gamma = _validate.real("gamma", gamma, 1e-15, 1e15)

    def factors(self, norms: torch.Tensor, clip_norm: float) -> torch.Tensor:
        found = clip_norm / (norms + self._gamma)
        precise = torch.isfinite(norms) & (found >= torch.finfo(norms.dtype).tiny)  # as for clip_factors
        return torch.where(precise, found, torch.zeros_like(found))

    def kept(self, factors: torch.Tensor) -> torch.Tensor | None:
        return None


def _is_trained(layer: list[nn.Parameter]) -> bool:
    return any(p.requires_grad for p in layer)


def _shares(shares: Sequence[float]) -> list[float]:
    found = _validate.finite("shares", shares)
    if found.ndim != 1 or not found.size or not ((found >= 1e-15) & (found <= 1e15)).all():
        raise ArgumentError("shares", "be a number in [1e-15, 1e+15] for each layer", shares)
    return [float(share) for share in found]
