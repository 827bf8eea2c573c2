"""What any private selection can retain: limits, order, scale."""

import math

import numpy as np
import pytest

from dptheory.pruning import random_k_mse, selection_gain_bound, top_k_energy, top_k_mse
from dptheory.pruning._selection_limit import _most_gain


def _bound(rho: float, *, dim: int = 256, keep: int = 26, ratio: float = 0.3, clip_norm: float = 1.0) -> float:
    return selection_gain_bound(
        zcdp_rho=rho, dim=dim, keep=keep, groups=7, sigma_g=ratio * clip_norm, clip_norm=clip_norm
    )


def test_bound_rises_from_nothing_to_all() -> None:
    for dim, keep in ((2, 1), (256, 1), (256, 26), (256, 255), (10**9, 1), (10**9, 10**9 - 1)):
        bounds = [_bound(float(rho), dim=dim, keep=keep) for rho in np.logspace(-70, 70, 29)]
        assert (np.diff(bounds) >= 0).all() and bounds[-1] == 1, (dim, keep)
        assert 0 < bounds[0] < 1e-20, (dim, keep)


def test_bound_is_at_most_the_root_of_the_information() -> None:
    for dim, keep in ((256, 1), (256, 26), (256, 128), (256, 240)):
        gain = float(random_k_mse(dim, keep, sigma_g=1.0) - top_k_mse(dim, keep, sigma_g=1.0)) / dim
        for rho in (1e-20, 1e-3, 0.1, 1.0):
            nats = rho * (0.3 * math.sqrt(1 - 2 / math.pi) + 1 / math.sqrt(7 * dim)) ** 2
            assert _bound(rho, dim=dim, keep=keep) <= math.sqrt(nats) / gain * (1 + 1e-9), (dim, keep, rho)


def test_bound_depends_on_the_ratio_alone() -> None:
    assert _bound(0.1) == pytest.approx(_bound(0.1, clip_norm=1e-60), rel=1e-12)


def test_one_entry_kept_of_many() -> None:
    """What top-k gains is not the difference of two mean squared errors of the size of the group."""
    dim = 10**9
    for nats in (1e-20, 1e-9):
        rho = nats / (math.sqrt(1 - 2 / math.pi) * 0.3 + 1 / math.sqrt(7 * dim)) ** 2
        gain = float(top_k_energy(dim, 1, sigma_g=1.0) - 1) / dim
        assert _bound(rho, dim=dim, keep=1) == pytest.approx(_most_gain(1 / dim, nats) / gain, rel=1e-11, abs=0)
