"""Measured statistics: unbiased on laws that are known, those of the mechanisms themselves, and fit for a plan."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from dptheory.planning import MethodMoments, TrainingSetup, plan, read_statistics, statistics_text
from dptheory.training import mechanisms
from dptheory.training.probe import moment_statistics, run_statistics
from dptheory.training.probe._method_moments import FOLDS, pair_moments
from dptheory.training.runs import DpSgdSettings

_DIM = 12


def draws(seed: int, count: int = 64) -> torch.Tensor:
    """Gradients of mean 1/2 in every entry and deviation 1."""
    return torch.randn(count, _DIM, generator=torch.Generator().manual_seed(seed)) + 0.5


def test_pairs_by_hand() -> None:
    """Means over pairs of different records, by a loop; a fold left out is a smaller set."""
    g, c = draws(0, 16), draws(1, 16)
    found = pair_moments(g, c, None)
    for place, left_out in enumerate((None, *range(FOLDS))):
        kept = [i for i in range(16) if i * FOLDS // 16 != left_out]
        pairs = [(i, j) for i in kept for j in kept if i != j]
        assert float(found.alignment[place]) == pytest.approx(np.mean([float(g[i] @ c[j]) for i, j in pairs]), rel=1e-5)
        assert float(found.mean_square[place]) == pytest.approx(
            np.mean([float(c[i] @ c[j]) for i, j in pairs]), rel=1e-5
        )
        assert float(found.second_moment[place]) == pytest.approx(float(c[kept].square().sum(1).mean()), rel=1e-5)


def test_with_the_gradient_of_others() -> None:
    g, c, true = draws(0, 16), draws(1, 16), torch.arange(1.0, 13.0)
    found, without = pair_moments(g, c, true), pair_moments(g, c, None)
    for place, left_out in enumerate((None, *range(FOLDS))):
        kept = [i for i in range(16) if i * FOLDS // 16 != left_out]
        assert float(found.alignment[place]) == pytest.approx(float(true @ c[kept].mean(0)), rel=1e-5)
    assert torch.equal(found.mean_square, without.mean_square) and torch.equal(
        found.second_moment, without.second_moment
    )
    with pytest.raises(ValueError, match=r"gradient must be finite, of the shape \(12,\)"):
        moment_statistics(draws(0), name="x", step=0, layer_sizes=[8, 4], gradient=torch.ones(11))


def test_they_are_unbiased() -> None:
    """The mean gradient has the squared norm 12 / 4 = 3; that of a mean of 64 would be too large by 12 / 64."""
    found = [pair_moments(g, g, None) for g in (draws(seed) for seed in range(2000))]
    values = np.array([float(one.mean_square[0]) for one in found])
    assert abs(values.mean() - 3.0) < 5 * values.std() / math.sqrt(len(values)) < 0.19 / 1.5


@pytest.fixture(scope="module")
def measured() -> dict[tuple[str, float], MethodMoments]:
    return {(one.method, one.setting): one for one in _moment().methods}


def _moment():  # type: ignore[no-untyped-def]
    return moment_statistics(draws(0), name="start", step=3, layer_sizes=[8, 4], clips=[2.0], anchors=draws(5, 30))


def released(mechanism: mechanisms.Mechanism, sample: torch.Tensor) -> torch.Tensor:
    """One record's contribution, as the mechanism itself makes and releases it without noise."""
    mechanism.begin_step([torch.zeros(_DIM)])
    total = mechanism.contribute([sample[None]], 2.0).total
    (found,) = mechanism.release(
        total, noise_multiplier=0.0, clip_norm=2.0, noise=lambda like, std: torch.zeros_like(like)
    )
    return found


def contributions(mechanism: mechanisms.Mechanism) -> torch.Tensor:
    return torch.stack([released(mechanism, sample) for sample in draws(0)])


def cases() -> Iterator[tuple[str, float, torch.Tensor, float]]:
    yield "dp-sgd", 0.0, contributions(mechanisms.DpSgd()), 12.0
    rest = draws(0) * (torch.arange(_DIM) >= 8)
    yield "layer-freezing", 1.0, torch.stack([released(mechanisms.DpSgd(), sample) for sample in rest]), 4.0


def test_moments_are_those_of_the_mechanisms(measured: dict[tuple[str, float], MethodMoments]) -> None:
    for method, setting, expected, noise_dim in cases():
        own = pair_moments(draws(0), expected, None)
        found = measured[method, setting]
        assert found.alignments == pytest.approx(own.alignment.tolist(), rel=1e-4)
        assert found.mean_squares == pytest.approx(own.mean_square.tolist(), rel=1e-4)
        assert found.second_moments == pytest.approx(own.second_moment.tolist(), rel=1e-4)
        assert found.noise_dim == noise_dim and found.clip_norm == 2.0 and found.curvatures is None


def test_embeddings_lose_what_lies_outside(measured: dict[tuple[str, float], MethodMoments]) -> None:
    """The joint release is no longer than the clipped gradient; the embedding alone is clipped anew."""
    plain, joint, alone = measured["dp-sgd", 0.0], measured["gep-joint", 10.0], measured["biased-gep", 10.0]
    assert joint.second_moments[0] <= plain.second_moments[0] * (1 + 1e-6) and alone.noise_dim == 10.0
    assert alone.alignments[0] > 0 and 3.5 < alone.second_moments[0] <= 4.0 * (1 + 1e-6)
    assert 10.0 < joint.noise_dim <= 12.0


def test_masks_keep_their_share(measured: dict[tuple[str, float], MethodMoments]) -> None:
    assert [measured["random-sparsification", rate].noise_dim for rate in (0.1, 0.5, 0.9)] == [11.0, 6.0, 1.0]
    kept = [measured["random-sparsification", rate].second_moments[0] for rate in (0.1, 0.5, 0.9)]
    assert kept == sorted(kept, reverse=True)


def test_the_rest_of_a_moment_by_hand() -> None:
    found, g = _moment(), draws(0).double()
    norms, energy = g.norm(dim=1), g.mean(0).square()
    assert (found.name, found.step) == ("start", 3)
    assert dict(found.norm_quantiles)[0.5] == pytest.approx(float(norms.quantile(0.5)), rel=1e-6)
    assert found.clip_probabilities == ((2.0, float((norms > 2).double().mean())),)
    assert found.layer_shares == pytest.approx(
        [float(part.sum() / energy.sum()) for part in energy.split([8, 4])], rel=1e-6
    )
    assert dict(found.entry_shares)[0.5] == pytest.approx(
        float(energy.sort().values[6:].sum() / energy.sum()), rel=1e-6
    )
    pairs = float(pair_moments(draws(0), draws(0), None).mean_square[0])
    assert found.grad_norm == pytest.approx(math.sqrt(pairs), rel=1e-5)
    along = g @ g.mean(0)
    assert found.skewness == pytest.approx(
        float(((along - along.mean()) / along.std(correction=0)).pow(3).mean()), rel=1e-6
    )
    basis = torch.linalg.svd(draws(5, 30).double(), full_matrices=False).Vh[:3]
    expected = float((g @ basis.T).square().sum() / g.square().sum())
    assert dict(found.spectrum)[3] == pytest.approx(expected, rel=1e-3)


def test_curvature_of_a_quadratic() -> None:
    """With H = diag(1..12): pairs of records, single records, and the trace on what gets noise."""
    diagonal = torch.arange(1.0, 13.0)
    g = draws(0) * 0.1  # never clipped at 100
    found = moment_statistics(g, name="x", step=0, layer_sizes=[8, 4], clips=[100.0], hessian=lambda v: diagonal * v)
    plain = next(one for one in found.methods if one.method == "dp-sgd")
    frozen = next(one for one in found.methods if one.method == "layer-freezing")
    assert plain.curvatures is not None and frozen.curvatures is not None
    few = g[:: 64 // 3][:3]
    along = float((few.square() @ diagonal).mean())
    mean = float(g.mean(0).square() @ diagonal)
    assert plain.curvatures == pytest.approx([(mean - along / 64) * 64 / 63, along, 100.0**2 * 78], rel=1e-4)
    assert frozen.curvatures[2] == pytest.approx(100.0**2 * (9 + 10 + 11 + 12), rel=1e-5)


def test_curvature_of_embeddings_on_a_ball() -> None:
    """With H = I the noise's curvature is its energy, and that of the mean its square, up to what three records scatter."""
    found = moment_statistics(
        draws(0), name="x", step=0, layer_sizes=[8, 4], clips=[2.0], anchors=draws(5, 30), hessian=lambda v: v
    )
    for one in found.methods:
        if one.curvatures is not None:
            assert one.curvatures[2] == pytest.approx(4.0 * one.noise_dim, rel=1e-4)
            assert one.curvatures[0] == pytest.approx(one.mean_squares[0], rel=0.2)
    assert {one.method for one in found.methods if one.curvatures is not None} == {
        "dp-sgd", "random-sparsification", "layer-freezing", "gep-joint", "biased-gep",
    }  # fmt: skip


def test_bad_input_is_refused_by_name() -> None:
    given = {"name": "x", "step": 0, "layer_sizes": [8, 4]}
    bad = draws(0)
    bad[0, 0] = math.nan
    for samples in (bad, draws(0)[:15], torch.zeros(20, _DIM), torch.zeros(3)):
        with pytest.raises(ValueError, match="samples must"):
            moment_statistics(samples, **given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="layer_sizes must sum to the 12 entries of samples"):
        moment_statistics(draws(0), **(given | {"layer_sizes": [8, 5]}))  # type: ignore[arg-type]
    for clips in ([], [2.0, 1.0], [1.0, 1.0]):
        with pytest.raises(ValueError, match="clips must be a rising row"):
            moment_statistics(draws(0), **given, clips=clips)  # type: ignore[arg-type]
    settings = DpSgdSettings(steps=2, batch_size=50, noise_multiplier=1.0, max_grad_norm=1.0, learning_rate=0.1, seed=0)
    with pytest.raises(ValueError, match="training must have 3 steps or more, got 2"):
        run_statistics(data="excerpt", training=settings, examples=16, device=torch.device("cpu"))


def test_a_plan_takes_what_was_measured(tmp_path: Path) -> None:
    """From gradients to a plan by way of the file."""
    from dptheory.planning import GradientStats

    moment = moment_statistics(
        draws(0), name="start", step=0, layer_sizes=[8, 4], clips=[1.0, 4.0], hessian=lambda v: v
    )
    stats = GradientStats(
        name="own/own", data="own", network="own", public=True, examples=64, layer_sizes=(8, 4), moments=(moment,)
    )
    path = tmp_path / "stats.json"
    path.write_text(statistics_text(stats))
    setup = TrainingSetup(num_examples=500, epsilon=3.0, delta=1e-5, dim=12, batch_size=500, epochs=3)
    found = plan(setup, stats=read_statistics(path))
    assert found.learning_rate.value is not None and found.clip_norm.value in (1.0, 4.0)
    assert {one.method: one.verdict for one in found.methods}["random-sparsification"] == "loss"
