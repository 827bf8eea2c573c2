"""The run of choices around the best one, and calculators whose least is flat to rounding."""

import numpy as np
import pytest

from dptheory import embedding, sparsification
from dptheory._alike import run_around


@pytest.mark.parametrize(
    ("alike", "best", "ends"),
    [
        ([True], 0, (0, 0)),
        ([True, True, True], 1, (0, 2)),
        ([True, False, True, True, False], 2, (2, 3)),
        ([False, False, False], 1, (1, 1)),
        ([False, True, True], 2, (1, 2)),
    ],
)
def test_ends_of_the_run(alike: list[bool], best: int, ends: tuple[int, int]) -> None:
    assert run_around(np.array(alike), best) == ends


def test_dimensions_whose_eigenvalues_are_lost_in_rounding_are_as_good() -> None:
    """Each of the tiny eigenvalues lowers the tail, and the estimate costs nothing, so the least is at 30; doubles have it at 1."""
    found = embedding.residual_bound(
        eigenvalues=[1.0] + [1e-20] * 39,
        subspace_dim=30,
        anchors=100,
        squared_norm_bound=1.0 + 1e-15,
        failure_probability=0.05,
        fourth_moment=1.0,
    )
    assert (found.first_dim, found.subspace_dim, found.last_dim) == (1, 1, 30)
    sharp = embedding.residual_bound(
        eigenvalues=[1.0, 0.5, 0.1], subspace_dim=2, anchors=10**6, squared_norm_bound=4.0, failure_probability=0.05
    )
    assert sharp.first_dim == sharp.subspace_dim == sharp.last_dim == 2


def test_equal_choices_of_the_subspace_are_all_named() -> None:
    run = dict(dim=1_000_000, train_size=50_000, smoothness=1.0, initial_distance=1.0, mu=0.5)
    rows = [0.1] * 99 + [0.3]
    found = embedding.best_residual_clip(residual_norms=[rows, [0.9] * 100, rows], subspace_dims=[100, 100, 100], **run)
    assert found.subspace_dim == 100 and found.alike_dims == (100, 100)


def test_rates_that_the_error_of_kappa_leaves_open() -> None:
    """A flat least between many rates: the run holds the rates beside it, and none whose bound is surely larger."""
    w = np.random.default_rng(0).standard_t(3, 20_000)
    found = sparsification.best_rate(w / np.linalg.norm(w), clip_norm=0.4, delta_c=1.0, step_noise=20.0)
    assert found.first_rate < found.drop_rate < found.last_rate
    terms = [
        sparsification.relative_bound(
            drop_rate=rate,
            delta_c=1.0,
            step_noise=20.0,
            kappa=sparsification.kappa(w / np.linalg.norm(w), clip_norm=0.4, drop_rate=rate).value,
        )
        for rate in (found.first_rate, found.last_rate)
    ]
    assert max(terms) < found.bound * 1.001
    four = sparsification.best_rate([1.0] * 4, clip_norm=1.0, delta_c=0.01, step_noise=1.0)
    assert four.first_rate == four.drop_rate == four.last_rate == 0.75
