"""Another order of memory changes no number."""

import torch
from torch import nn

from training.networks import pooled_channels_last, small_tanh_cnn


def test_same_scores_and_gradients_from_channels_last() -> None:
    plain, other = small_tanh_cnn(0), small_tanh_cnn(0)
    seen: list[bool] = []
    other.pool1.register_forward_hook(
        lambda _, inputs, output: seen.append(output.is_contiguous(memory_format=torch.channels_last))
    )
    images = torch.rand(5, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    nn.functional.cross_entropy(plain(images), torch.arange(5)).backward()  # type: ignore[no-untyped-call]
    with pooled_channels_last(other):
        scores = other(images)
        nn.functional.cross_entropy(scores, torch.arange(5)).backward()  # type: ignore[no-untyped-call]
    assert torch.allclose(plain(images), scores, rtol=1e-5, atol=1e-6)
    for a, b in zip(plain.parameters(), other.parameters(), strict=True):
        assert a.grad is not None and b.grad is not None
        assert torch.allclose(a.grad, b.grad, rtol=1e-4, atol=1e-7)
    other(images)
    assert seen == [True, False], "the order holds inside the context alone"
