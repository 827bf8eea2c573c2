"""The random numbers of a forward pass, kept, and given out again where it is repeated for one example.

A gradient of one example belongs to the dropout that its output had: a second pass with other masks would be the gradient of
another function than the one whose output the loss saw.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

_MULTIPLY: set[Any] = {F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, torch.dropout, torch.feature_dropout}
"""Functions whose result is their input times random numbers: what they make of ones."""
_DRAW: set[Any] = {
    torch.bernoulli, torch.multinomial, torch.normal, torch.poisson, torch.rand, torch.rand_like, torch.randint, torch.randint_like,
    torch.randn, torch.randn_like, torch.randperm,
}  # fmt: skip
_FILL: set[Any] = {
    torch.Tensor.bernoulli_, torch.Tensor.exponential_, torch.Tensor.normal_, torch.Tensor.random_, torch.Tensor.uniform_,
}  # fmt: skip


class RandomDraws(TorchFunctionMode):
    """Within it random numbers are kept in ``drawn``, or those that are given take their place, in the same order.

    Args:
        given: of an earlier pass; None to draw.

    Raises:
        ValueError: more random numbers are asked for than were given.
    """

    def __init__(self, given: Sequence[torch.Tensor] | None = None) -> None:
        super().__init__()
        self.drawn: list[torch.Tensor] = []
        self._given = None if given is None else list(given)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function in _MULTIPLY:
            return self._multiplied(function, *args, **kwargs)
        if function is F.scaled_dot_product_attention and _rate_of_attention(args, kwargs) > 0.0:
            return self._attention(*args, **kwargs)
        if function in _DRAW:
            return self._next(lambda: function(*args, **kwargs))
        if function in _FILL:
            return args[0].copy_(self._next(lambda: function(torch.empty_like(args[0]), *args[1:], **kwargs)))
        return function(*args, **kwargs)

    def _next(self, draw: Callable[[], torch.Tensor]) -> torch.Tensor:
        if self._given is None:
            self.drawn.append(draw().detach().clone())
            return self.drawn[-1].clone()
        if not self._given:
            raise ValueError("the pass of an example alone draws more random numbers than that of its batch")
        return self._given.pop(0).clone()

    def _multiplied(
        self, function: Any, input: torch.Tensor, p: float = 0.5, *others: Any, **options: Any
    ) -> torch.Tensor:
        train = others[0] if others else options.get("training", options.get("train", True))
        inplace = (others[1] if len(others) > 1 else options.get("inplace", False)) is True
        if not train or p == 0.0:
            return input
        factors = self._next(lambda: function(torch.ones_like(input), p, True))
        return input.mul_(factors) if inplace else input * factors

    def _attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        """torch's own, written out, so that the factors of its dropout are there."""
        if enable_gqa:
            key, value = (one.repeat_interleave(query.shape[-3] // one.shape[-3], -3) for one in (key, value))
        scores = query @ key.mT * (1.0 / math.sqrt(query.shape[-1]) if scale is None else scale)
        if is_causal:
            scores = scores.masked_fill(scores.new_ones(scores.shape[-2:]).triu(1).bool(), -math.inf)
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        return self._multiplied(F.dropout, scores.softmax(-1), dropout_p, True) @ value


def _rate_of_attention(args: Sequence[Any], kwargs: dict[str, Any]) -> float:
    return float(args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0))
