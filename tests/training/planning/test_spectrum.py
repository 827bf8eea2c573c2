"""Curvature and clipped gradients measured on networks where they are known: quadratics, logistic regression, and dense matrices."""

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from dptheory.convergence import noisy_quadratic_loss
from dptheory.training.planning import _spectrum
from dptheory.training.planning._spectrum import Spectrum, measure_spectrum, quadratic_of
from tests.refused import refused

EPS = 2**-52
RECORDS = 40
Problem = tuple[nn.Module, Callable[[Any, torch.Tensor], torch.Tensor], torch.Tensor, torch.Tensor]


def _normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _set(model: nn.Module, seed: int) -> nn.Module:
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(_normal(*p.shape, seed=seed + i) / 2)
    return model.double()


def quadratic() -> Problem:
    """Least squares on orthogonal features: the Hessian is diagonal, 2 times the mean squares of the features."""
    features = torch.zeros(RECORDS, 4, dtype=torch.float64)
    for i, size in enumerate((0.5, 1.0, 2.0, 3.0)):
        features[i::4, i] = size
    return _set(nn.Linear(4, 1, bias=False), 1), mse_loss, features, _normal(RECORDS, 1, seed=9)


def logistic() -> Problem:
    labels = torch.randint(3, (RECORDS,), generator=torch.Generator().manual_seed(3))
    return _set(nn.Linear(3, 3), 2), cross_entropy, _normal(RECORDS, 3, seed=4), labels


def network() -> Problem:
    model = _set(nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)), 5)
    return (model, *logistic()[1:])


def _dense(problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradient and Gauss-Newton matrix by functions of all weights."""
    model, loss, features, labels = problem
    shapes = {name: p.shape for name, p in model.named_parameters()}
    at = torch.cat([p.detach().flatten() for p in model.parameters()])

    def outputs(weights: torch.Tensor) -> torch.Tensor:
        parts = torch.split(weights, [shape.numel() for shape in shapes.values()])
        named = {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
        return torch.func.functional_call(model, named, (features,))

    def value(weights: torch.Tensor) -> torch.Tensor:
        return loss(outputs(weights), labels)

    jacobian = torch.autograd.functional.jacobian(outputs, at).flatten(0, 1)
    ends = outputs(at).detach()
    inner = torch.autograd.functional.hessian(lambda z: loss(z.view_as(ends), labels), ends.flatten())
    return torch.autograd.functional.jacobian(value, at), jacobian.T @ inner @ jacobian


def _per_example(problem: Problem) -> torch.Tensor:
    model, loss, features, labels = problem
    rows = []
    for i in range(len(features)):
        found = torch.autograd.grad(loss(model(features[i : i + 1]), labels[i : i + 1]), list(model.parameters()))
        rows.append(torch.cat([part.flatten() for part in found]))
    return torch.stack(rows)


def _measured(problem: Problem, **options: Any) -> Spectrum:
    return measure_spectrum(*problem, **({"clips": [1.0], "vectors": 30, "curved": RECORDS} | options))


def test_all_is_known_of_a_quadratic() -> None:
    problem = quadratic()
    model, _, features, labels = problem
    curvature = 2 * features.square().mean(0)
    gradient = 2 * ((model(features) - labels) * features).mean(0).detach()
    found = _measured(problem, probes=3)
    assert found.dim == 4
    assert found.curvature == pytest.approx(curvature.flip(0).numpy(), rel=1e3 * EPS)
    assert found.gradient_energy == pytest.approx(gradient.square().flip(0).numpy(), rel=1e4 * EPS)
    assert found.noise_curvature == pytest.approx(np.tile(curvature.flip(0).numpy(), 3), rel=1e3 * EPS)
    assert found.multiplicities == pytest.approx(np.full(12, 1 / 3), rel=1e4 * EPS)


@pytest.mark.parametrize("clip", [0.3, 1.0, 1e6])
def test_clipped_gradients_of_a_quadratic(clip: float) -> None:
    """Its directions are the features, the last first."""
    samples = _per_example(quadratic())
    norms = samples.norm(dim=1)
    clipped = samples * (clip / norms).clamp(max=1.0)[:, None]
    mean = samples.mean(0)
    ((at, found),) = _measured(quadratic(), clips=[clip]).clipped.items()
    assert at == clip
    assert found.slope == pytest.approx(float(clipped.mean(0) @ mean / mean.square().sum()), rel=1e3 * EPS)
    spread = float(clipped.square().sum(1).mean() - clipped.mean(0).square().sum())
    assert found.spread == pytest.approx(spread, rel=1e3 * EPS)
    assert found.variances == pytest.approx(clipped.var(0, unbiased=False).flip(0).numpy(), rel=1e4 * EPS)


@pytest.mark.parametrize("problem", [logistic, network])
def test_products_are_those_of_the_dense_matrix(problem: Callable[[], Problem]) -> None:
    expected = _dense(problem())[1]
    product = _spectrum._product(*problem())
    found = torch.stack([product(one) for one in torch.eye(len(expected), dtype=torch.float64)])
    assert torch.allclose(found, expected, rtol=0, atol=100 * EPS * float(expected.abs().max()))


@pytest.mark.parametrize("vectors", [1, 3, 5])
@pytest.mark.parametrize("problem", [logistic, network])
def test_k_ritz_values_match_the_gradients_first_2k_moments(problem: Callable[[], Problem], vectors: int) -> None:
    """Gauss quadrature: sum of energy times value^p is g' H^p g for p = 0..2k-1, against the matrix itself."""
    gradient, curvature = _dense(problem())
    found = _measured(problem(), vectors=vectors, probes=1)
    assert found.curvature.shape == (vectors,) and (np.diff(found.curvature) < 0).all()
    size, moved = float(torch.linalg.matrix_norm(curvature, 2)), gradient.clone()
    for power in range(2 * vectors):
        moment = float(found.gradient_energy @ found.curvature**power)
        scale = size**power * float(gradient.square().sum())
        assert moment == pytest.approx(float(gradient @ moved), abs=1e3 * EPS * scale)
        moved = curvature @ moved


def test_enough_vectors_find_all_curvatures_of_a_logistic_regression() -> None:
    """Twelve parameters, of which the softmax leaves eight directions that change an output."""
    expected = np.linalg.eigvalsh(_dense(logistic())[1].numpy())[::-1]
    found = _measured(logistic(), probes=1)
    assert found.curvature[:8] == pytest.approx(expected[:8], rel=1e-6)
    assert len(found.curvature) <= 9 and np.abs(found.curvature[8:]).max(initial=0.0) < 1e-6 * expected[0]


def test_trace_is_hutchinsons_estimate() -> None:
    """Its error is that of signs: at most the root of twice the squares beside the diagonal, over the number of probes."""
    dense = _dense(logistic())[1]
    beside = dense - torch.diag(dense.diagonal())
    found = _measured(logistic(), probes=100, vectors=3)
    spread = math.sqrt(2 * float(beside.square().sum()))
    trace = float(found.multiplicities @ found.noise_curvature)
    assert abs(trace - float(dense.trace())) < 5 * spread / 10
    assert found.multiplicities.sum() == pytest.approx(12, rel=100 * EPS)


def test_it_ends_with_the_directions_that_the_gradient_lies_in() -> None:
    """Two of four, one of them with little of it."""
    model, loss, features, _ = quadratic()
    curvature = 2 * features.square().mean(0)
    gradient = torch.tensor([0.0, 1e-5, 0.0, 1.0], dtype=torch.float64)
    labels = model(features).detach() - (features @ (gradient / curvature))[:, None]
    found = _measured((model, loss, features, labels))
    assert found.curvature == pytest.approx(curvature[[3, 1]].numpy(), rel=1e-9)
    assert np.sqrt(found.gradient_energy) == pytest.approx([1.0, 1e-5], rel=1e-9)


def test_curvature_of_some_records() -> None:
    """Of all where there are fewer than asked for; the gradient is that of all in any case."""
    some, every, more = (_measured(logistic(), curved=n) for n in (10, RECORDS, 10**6))
    energy = (float(one.gradient_energy.sum()) for one in (some, every))
    assert next(energy) == pytest.approx(next(energy), rel=1e3 * EPS) and some.curvature[0] != every.curvature[0]
    assert (every.curvature == more.curvature).all()


def test_only_trained_parameters_count_and_the_model_stays_as_it_is() -> None:
    model, loss, features, labels = network()
    model = nn.Sequential(*model, nn.Dropout(0.9)).eval()  # type: ignore[arg-type]
    model[0].requires_grad_(False)
    before = copy.deepcopy(model.state_dict())
    state = torch.random.get_rng_state()
    found = measure_spectrum(model, loss, features, labels, clips=[1.0])
    assert torch.equal(state, torch.random.get_rng_state()) and found.dim == 12
    alone = nn.Linear(3, 3).double()
    alone.load_state_dict(model[2].state_dict())
    inner = torch.tanh(model[0](features)).detach()
    expected = measure_spectrum(alone, loss, inner, labels, clips=[1.0])
    assert found.curvature == pytest.approx(expected.curvature, rel=1e-9, abs=1e-12)
    assert found.clipped[1.0].spread == pytest.approx(expected.clipped[1.0].spread, rel=1e3 * EPS)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(module.training for module in model.modules())
    assert all(p.grad is None and not hasattr(p, "grad_sample") for p in model.parameters())


def test_the_model_of_a_quadratic_predicts_its_runs_exactly() -> None:
    """Against the formula with the true eigenvalues: nothing is clipped, batches are large, noise is private."""
    model, loss, features, labels = quadratic()
    found = _measured((model, loss, features, labels), clips=[1e9])
    run = {"learning_rate": [0.1, 0.2], "steps": 50, "momentum": 0.5}
    noise = np.array([0.1, 0.3])
    given = quadratic_of(found, found.clipped[1e9], batch_size=1e30, noise_std=noise)
    curvature = 2 * features.square().mean(0).numpy()
    gradient = 2 * ((model(features) - labels) * features).mean(0).detach().numpy()
    once = noisy_quadratic_loss(curvature, gradient_energy=gradient**2, noise_std=noise, **run)
    assert given["variance"].shape == (2, len(given["curvature"]))
    assert noisy_quadratic_loss(**given, **run) == pytest.approx(once, rel=1e-9)


def test_noise_of_the_batch_is_where_it_was_measured() -> None:
    found = _measured(quadratic(), clips=[1.0])
    given = quadratic_of(found, found.clipped[1.0], batch_size=[5, 50], noise_std=0.0)
    total = (given["variance"] * given["multiplicities"]).sum(axis=1)
    assert total == pytest.approx(found.clipped[1.0].spread / np.array([5, 50]), rel=1e4 * EPS)


def test_negative_curvature_is_left_out_of_the_model() -> None:
    """That of a loss that is not convex in the outputs."""
    model, _, features, labels = network()
    found = _measured((model, lambda outputs, _: outputs.cos().mean(), features, labels))
    assert (found.curvature < 0).any()
    given = quadratic_of(found, found.clipped[1.0], batch_size=10, noise_std=0.1)
    assert (given["curvature"] > 0).all() and np.isfinite(noisy_quadratic_loss(**given, learning_rate=0.1, steps=9))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("clips", [0.0]), ("clips", [math.nan]), ("loss", lambda outputs, labels: outputs),
        ("loss", lambda outputs, labels: outputs.sum() * math.nan),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(name: str, value: Any) -> None:
    model, loss, features, labels = logistic()
    given = {"model": model, "loss": loss, "features": features, "labels": labels, "clips": [1.0]} | {name: value}
    with refused(name):
        measure_spectrum(**given)


def test_a_gradient_of_zero_has_no_direction() -> None:
    model, loss, features, _ = quadratic()
    with refused("model"):
        measure_spectrum(model, loss, features, model(features).detach(), clips=[1.0])
