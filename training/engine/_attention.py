"""Opacus's attention with the examples first in all of its layers, and with every mask of torch's."""

import math

import torch
from opacus.layers import DPMultiheadAttention
from torch import nn

from dptheory.errors import ArgumentError


def adapt_attention(module: nn.Module) -> None:
    """Make every ``DPMultiheadAttention`` of a model one that computes what ``nn.MultiheadAttention`` does; it stays one.

    Opacus 1.6 refuses ``is_causal`` and, with ``batch_first=True``, every mask; it mixes up heads and places there, and takes places
    for examples without it.
    """
    for layer in module.modules():
        if type(layer) is DPMultiheadAttention:
            layer.__class__ = Attention
            for name in ("seq_bias_k", "seq_bias_v"):
                if hasattr(layer, name):
                    getattr(layer, name).batch_first = True


class Attention(DPMultiheadAttention):  # type: ignore[misc]
    """Its parameters and their names, with the forward pass of ``nn.MultiheadAttention``."""

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_padding_mask: torch.Tensor | None = None,
        need_weights: bool = True,
        attn_mask: torch.Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """As ``nn.MultiheadAttention``, for batches; ``is_causal`` without a mask builds it."""
        if query.dim() != 3 or key.dim() != 3 or value.dim() != 3:
            raise ArgumentError(
                f"query, key and value of {type(self).__name__}",
                "have a batch, a place and a feature dimension",
                tuple(query.shape),
                got=f"shapes {tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}",
                then=": give a single example a batch of one",
            )
        if not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        size, places, _ = query.shape
        k, v = self.klinear(key), self.vlinear(value)
        if self.add_bias_kv:
            k, v = self.seq_bias_k(k), self.seq_bias_v(v)
        if self.add_zero_attn:
            k, v = (torch.cat([x, x.new_zeros(size, 1, x.shape[2])], dim=1) for x in (k, v))
        q, k, v = (x.unflatten(2, (self.num_heads, self.head_dim)).transpose(1, 2) for x in (self.qlinear(query), k, v))
        scores = q @ k.transpose(2, 3) / math.sqrt(self.head_dim)
        if is_causal and attn_mask is None:
            attn_mask = torch.ones(places, key.shape[1], dtype=torch.bool, device=query.device).triu(1)
        for name, mask in (("attn_mask", attn_mask), ("key_padding_mask", key_padding_mask)):
            if mask is not None:
                shaped = self._shaped(name, mask, size, places, key.shape[1])
                scores = scores + _added(shaped, scores.shape[3], scores.dtype)
        weights = self.dropout(scores.softmax(dim=3))
        out = self.out_proj((weights @ v).transpose(1, 2).flatten(2))
        out = out if self.batch_first else out.transpose(0, 1)
        if not need_weights:
            return out, None
        return out, weights.mean(dim=1) if average_attn_weights else weights

    def _shaped(self, name: str, mask: torch.Tensor, size: int, places: int, keys: int) -> torch.Tensor:
        """The mask with dimensions for examples, heads, places and keys."""
        allowed: dict[str, dict[tuple[int, ...], tuple[int, ...]]] = {
            "key_padding_mask": {(size, keys): (size, 1, 1, keys)},
            "attn_mask": {
                (places, keys): (1, 1, places, keys),
                (size * self.num_heads, places, keys): (size, self.num_heads, places, keys),
            },
        }
        shapes = allowed[name]
        if tuple(mask.shape) not in shapes:
            raise ArgumentError(
                f"{name} of {type(self).__name__}", f"have shape {' or '.join(map(str, shapes))}", tuple(mask.shape)
            )
        return mask.reshape(shapes[tuple(mask.shape)])


def _added(mask: torch.Tensor, keys: int, dtype: torch.dtype) -> torch.Tensor:
    """What a mask adds to the scores: nothing at the keys that were put behind those of the caller."""
    if not mask.is_floating_point():
        mask = torch.zeros_like(mask, dtype=dtype).masked_fill(mask.bool(), -math.inf)
    return nn.functional.pad(mask, (0, keys - mask.shape[3]))
