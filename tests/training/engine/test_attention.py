"""Opacus's attention, adapted: what ``nn.MultiheadAttention`` computes, with every mask, and the examples first in its layers."""

import itertools

import pytest
import torch
from opacus.layers import DPMultiheadAttention
from opacus.validators import ModuleValidator
from torch import nn

from dptheory.training.engine._attention import Attention, adapt_attention
from tests.refused import refused
from tests.training import errors_table as t

SIZE, QUERIES, KEYS = 3, 4, 5
CASES = [
    {"batch_first": first, "add_bias_kv": biases, "add_zero_attn": zero, "bias": not zero}
    for first, biases, zero in itertools.product([True, False], repeat=3)
]
HIDDEN = torch.arange(SIZE * 2 * QUERIES * KEYS).view(SIZE * 2, QUERIES, KEYS) % 7 == 3
MASKS = {
    "none": {},
    "bool": {"attn_mask": torch.ones(QUERIES, KEYS).triu(2).bool()},
    "float": {"attn_mask": torch.linspace(-2, 2, QUERIES * KEYS).view(QUERIES, KEYS)},
    "for each head": {"attn_mask": HIDDEN},
    "padding": {"key_padding_mask": torch.arange(KEYS) >= torch.tensor([3, 5, 4])[:, None]},
    "padding and mask": {
        "key_padding_mask": torch.where(torch.arange(KEYS) >= torch.tensor([3, 5, 4])[:, None], -torch.inf, 0.0),
        "attn_mask": torch.zeros(QUERIES, KEYS).masked_fill(torch.ones(QUERIES, KEYS).triu(2).bool(), -torch.inf),
    },
    "by head": {"average_attn_weights": False},
}  # fmt: skip


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("options", CASES, ids=str)
def test_computes_what_torch_does(options: dict, masks: str) -> None:
    """After ``ModuleValidator.fix``; outputs and weights, in double precision."""
    torch.manual_seed(0)
    right = nn.MultiheadAttention(6, 2, **options)
    for p in right.parameters():
        nn.init.normal_(p)
    fixed = ModuleValidator.fix(right).double()
    right.double()
    adapt_attention(fixed)
    tensors = [torch.randn(SIZE, places, 6, dtype=torch.float64) for places in (QUERIES, KEYS, KEYS)]
    if not options["batch_first"]:
        tensors = [one.transpose(0, 1) for one in tensors]
    given = {
        k: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in MASKS[masks].items()
    }
    for found, wanted in zip(fixed(*tensors, **given), right(*tensors, **given), strict=True):
        torch.testing.assert_close(found, wanted)


def test_causal_without_a_mask_builds_it() -> None:
    layer = DPMultiheadAttention(6, 2, batch_first=True)
    adapt_attention(layer)
    x = torch.randn(2, 5, 6)
    found, weights = layer(x, x, x, is_causal=True)
    wanted, _ = layer(x, x, x, attn_mask=t.CAUSAL)
    assert torch.equal(found, wanted) and not weights[:, t.CAUSAL].any()
    assert layer(x, x, x, need_weights=False)[1] is None


def test_stays_opacus_own_with_its_names_and_goes_back_after_a_failure() -> None:
    model = nn.ModuleDict({"a": DPMultiheadAttention(6, 2, add_bias_kv=True)})
    names = list(model.state_dict())
    with refused("max_grad_norm"):
        t.private_loop(model, (t.X, t.Y), max_grad_norm=0.0)
    assert type(model["a"]) is DPMultiheadAttention
    t.private_loop(model, (t.X, t.Y))
    assert type(model["a"]) is Attention and isinstance(model["a"], DPMultiheadAttention)
    assert list(model.state_dict()) == names and model["a"].seq_bias_k.batch_first


@pytest.mark.parametrize(
    ("shapes", "masks", "says"),
    [
        ((5, 6), {}, "^query, key and value of Attention must"),
        ((2, 5, 6), {"attn_mask": torch.zeros(4, 5)}, r"^attn_mask of Attention must have shape \(5, 5\) or \(4, 5, 5\)"),
        ((2, 5, 6), {"key_padding_mask": torch.zeros(5, 2)}, r"^key_padding_mask of Attention must have shape \(2, 5\)"),
    ],
)  # fmt: skip
def test_other_shapes_are_refused(shapes: tuple[int, ...], masks: dict, says: str) -> None:
    layer = DPMultiheadAttention(6, 2, batch_first=True)
    adapt_attention(layer)
    x = torch.zeros(shapes)
    with pytest.raises(ValueError, match=says):
        layer(x, x, x, **masks)
