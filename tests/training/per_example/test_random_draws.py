"""Random numbers of a forward pass are torch's, and come again."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dptheory.training.per_example._random_draws import RandomDraws

X = torch.randn(6, 4, 5, generator=torch.Generator().manual_seed(0))


def drawn() -> torch.Tensor:
    """By every kind of function."""
    x = F.dropout(X, 0.3) + nn.Dropout(0.5, inplace=True)(X.clone()) + F.dropout2d(X[..., None], 0.4)[..., 0]
    x = x + torch.rand(6, 4, 5) + torch.randn_like(X) + torch.bernoulli(X.sigmoid()) + torch.randint(5, (6, 1, 1))
    return x + torch.empty_like(X).bernoulli_(0.5) + torch.zeros_like(X).normal_(1.0, 2.0) + torch.randperm(5)


def test_they_are_those_of_torch_and_come_again() -> None:
    torch.manual_seed(1)
    plain = drawn()
    torch.manual_seed(1)
    with RandomDraws() as draws:
        kept = drawn()
    assert torch.equal(kept, plain)
    with RandomDraws(draws.drawn):
        assert torch.equal(drawn(), plain)
    with RandomDraws(draws.drawn[:-1]), pytest.raises(ValueError, match="more random numbers"):
        drawn()


def test_what_does_not_drop_draws_nothing() -> None:
    with RandomDraws() as draws:
        assert torch.equal(F.dropout(X, 0.5, training=False), X) and torch.equal(F.dropout(X, 0.0), X)
        F.scaled_dot_product_attention(X, X, X)
    assert draws.drawn == []


MASK = torch.rand(4, 4, generator=torch.Generator().manual_seed(2)) > 0.3
MASK[:, 0] = True


@pytest.mark.parametrize("options", [
    {}, {"is_causal": True}, {"attn_mask": MASK}, {"attn_mask": MASK.double()}, {"scale": 0.3}, {"enable_gqa": True},
])  # fmt: skip
def test_attention_that_drops_is_torchs_but_for_what_it_drops(options: dict) -> None:
    """With factors of one for all it is the one that drops nothing; with those drawn it is linear in them."""
    query = torch.randn(6, 4, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    key = query[:, :2] if "enable_gqa" in options else query
    with RandomDraws() as draws:
        F.scaled_dot_product_attention(query, key, key.cos(), dropout_p=0.4, **options)
    (factors,) = draws.drawn
    assert set(factors.unique().tolist()) == {0.0, 1.0 / 0.6} and factors.shape == (6, 4, 4, 4)
    with RandomDraws([torch.ones_like(factors)]):
        found = F.scaled_dot_product_attention(query, key, key.cos(), dropout_p=0.4, **options)
    torch.testing.assert_close(found, F.scaled_dot_product_attention(query, key, key.cos(), **options))
