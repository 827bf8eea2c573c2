"""Random numbers of a generator, and of the operating system."""

import os
import platform

import numpy as np
import pytest
import torch
from scipy import stats

from dptheory.training import _machine, _randomness
from dptheory.training._randomness import normal, own_generator, permutation, secure_normal, seeded
from tests.refused import refused


def test_a_seed_fixes_the_numbers_and_none_gives_those_of_the_system() -> None:
    seeded = own_generator(7)
    assert seeded is not None and seeded.initial_seed() == 7 and own_generator(None) is None
    assert torch.equal(permutation(9, own_generator(7)), torch.randperm(9, generator=torch.Generator().manual_seed(7)))
    found = normal((2, 3), own_generator(7))
    assert torch.equal(found, torch.randn(2, 3, generator=torch.Generator().manual_seed(7)))
    one, other = (normal((2, 3), None) for _ in range(2))
    assert one.shape == (2, 3) and one.dtype == torch.float32 and not torch.equal(one, other)


def test_what_a_seed_builds_leaves_the_global_numbers_as_they_were() -> None:
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    one, same, other = (seeded(seed, lambda: torch.randn(4)) for seed in (5, 5, 6))
    assert torch.equal(one, same) and not torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), before)
    with refused("seed"):
        seeded(-1, lambda: torch.randn(4))


def test_permutations_of_the_system_are_uniform() -> None:
    found = [tuple(permutation(3, None).tolist()) for _ in range(1200)]
    counts = [found.count(one) for one in set(found)]
    assert len(counts) == 6 and stats.chisquare(counts).pvalue > 1e-6


def test_normal_numbers_of_the_system_are_normal() -> None:
    found = secure_normal(20_000)
    assert found.dtype == torch.float64 and found.shape == (20_000,)
    assert stats.kstest(found.numpy(), "norm").pvalue > 1e-6


def test_each_is_half_a_sum_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of numbers by inversion of 52 random bits, in the middle of their cell: never 0 or 1."""
    cells = [0, 2**52 - 1, 2**51, -1, 12345, 2**52, 2**53 + 1, -(2**63)]
    drawn: list[int] = []

    def urandom(count: int) -> bytes:
        drawn.append(count)
        return np.array(cells[2 * len(drawn) - 2 : 2 * len(drawn)], dtype=np.int64).tobytes()

    monkeypatch.setattr(os, "urandom", urandom)
    uniform = [(cell % 2**52 + 0.5) / 2**52 for cell in cells]
    expected = stats.norm.ppf(uniform).reshape(4, 2).sum(axis=0) / 2
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(secure_normal(2).numpy(), expected, rtol=1e-9)
    assert drawn == [16] * 4


def test_the_largest_seeds() -> None:
    assert own_generator(2**63 - 1) is not None
    with refused("seed", "0..9223372036854775807"):
        own_generator(2**63)


def test_what_is_said_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _machine.versions()
    assert found["python"] == platform.python_version() and found["numpy"] == np.__version__
    assert set(found) == {"python", "dptheory", "numpy", "scipy", "torch", "opacus"}
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"model of {device}")
    assert _machine.device_name(torch.device("cpu")) == "cpu"
    assert _machine.device_name(torch.device("cuda")) == "cuda: model of cuda"


def test_bits_of_the_system_are_sixty_four() -> None:
    bits = _randomness._secure_bits(4000).numpy().view(np.uint64)
    for place in range(64):
        ones = int(((bits >> np.uint64(place)) & np.uint64(1)).sum())
        assert abs(ones - 2000) < 7 * 1000**0.5
