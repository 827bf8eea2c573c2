"""The subspace of anchor gradients, and how its vectors are shared out."""

import torch

from dptheory.training.mechanisms import power_iteration, shared_dimensions
from tests.refused import refused


def test_every_group_gets_a_vector_and_none_more_than_it_has_entries() -> None:
    assert shared_dimensions([4, 10_000], 4) == [1, 4]
    assert shared_dimensions([1, 1], 10) == [1, 1]
    assert shared_dimensions([1, 9, 4], 12) == [1, 6, 4]


def test_one_vector_is_the_least() -> None:
    anchors = torch.eye(3)
    assert power_iteration(anchors, dim=1, iterations=1, generator=None).shape == (1, 3)
    for dim in (0, 4):
        with refused("dim", "1..3"):
            power_iteration(anchors, dim=dim, iterations=1, generator=None)
    with refused("dim", "1..2"):
        power_iteration(torch.ones(2, 5), dim=3, iterations=1, generator=None)
    with refused("iterations"):
        power_iteration(anchors, dim=1, iterations=0, generator=None)


def test_power_iteration_finds_the_principal_subspace() -> None:
    generator = torch.Generator().manual_seed(0)
    low = torch.randn(30, 3, generator=generator) @ torch.randn(3, 20, generator=generator)
    basis = power_iteration(low, dim=3, iterations=1, generator=generator)
    torch.testing.assert_close(low - low @ basis.T @ basis, torch.zeros_like(low), atol=1e-4, rtol=0)
    assert shared_dimensions([100, 400, 900], 60) == [10, 20, 30]
    with refused("dim", "1..20"):
        power_iteration(low, dim=21, iterations=1, generator=generator)
