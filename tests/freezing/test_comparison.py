"""Freezing forecast in one call: both parts against the calculators that the ledger checks."""

import pytest

from dptheory.freezing import FreezingComparison, compare_freezing, freezing_bounds, freezing_effect
from tests.refused import refused

_STEP = {"frozen_layers": 1, "clip_norm": 1.0, "noise_multiplier": 1.5, "batch_size": 256}
_DESCENT = {"objective_gap": 2.0, "learning_rate": 0.1, "steps": 100, "smoothness": 3.0}


@pytest.mark.parametrize("sizes", [[100, 200, 300], [100_000, 200_000, 300_000]])
@pytest.mark.parametrize("alignment", [1.0, 0.25])
@pytest.mark.parametrize(("sampling", "sampling_rate"), [("poisson", None), ("poisson", 0.01), ("fixed", None)])
def test_every_field(sizes: list[int], alignment: float, sampling: str, sampling_rate: float | None) -> None:
    norms = [1.0, 2.0, 3.0]
    batches = {"sampling": sampling, "sampling_rate": sampling_rate}
    found = compare_freezing(sizes, layer_norms=norms, **_STEP, **_DESCENT, alignment=alignment, **batches)  # type: ignore[arg-type]
    assert found == FreezingComparison(
        effect=freezing_effect(sizes, layer_norms=norms, **_STEP, alignment=alignment),  # type: ignore[arg-type]
        bounds=freezing_bounds(sizes, **_STEP, **_DESCENT, **batches),  # type: ignore[arg-type]
    )


def test_defaults_are_gradients_of_one_direction_and_poisson_batches() -> None:
    sizes, norms = [5, 10], [1.0, 2.0]
    assert compare_freezing(sizes, layer_norms=norms, **_STEP, **_DESCENT) == compare_freezing(  # type: ignore[arg-type]
        sizes, layer_norms=norms, **_STEP, **_DESCENT, alignment=1.0, sampling="poisson", sampling_rate=None  # type: ignore[arg-type]
    )  # fmt: skip


def test_noise_outside_the_ranges_of_both_parts_is_refused() -> None:
    for noise in (0.0, 1e-36, 1e36):
        with refused("noise_multiplier", "1e-35", "1e+35"):
            compare_freezing([5, 10], layer_norms=[1.0, 2.0], **(_STEP | _DESCENT | {"noise_multiplier": noise}))  # type: ignore[arg-type]
