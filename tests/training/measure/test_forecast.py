"""Worth of a step: against the law of DP-SGD's release, with a curvature that differences of gradients confirm."""

from types import SimpleNamespace

import pytest
import torch

from dptheory.training.measure import _forecast
from dptheory.training.networks import loss_hessian
from tests.training.measure.looked_at import run_after, view_of

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG")
SPARSE = {"mechanism": {"name": "random-sparsification", "drop_rate": 0.5}}
FROZEN = {"mechanism": {"name": "layer-freezing", "frozen_layers": 2, "after": 0.0}}


def test_curvature_is_the_change_of_the_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_of(run_after(1, monkeypatch))
    direction = view.noise(view.dim).double()
    images = view.test(0, 30)
    found = loss_hessian(view.model, images.pixels, images.labels)(direction).double()
    model, pixels, size = view.model.double(), images.pixels.double(), 1e-9

    def gradient(step: float) -> torch.Tensor:
        start = 0
        for p in model.parameters():
            p.data += step * direction[start : start + p.numel()].view_as(p)
            start += p.numel()
        loss = torch.nn.functional.cross_entropy(model(pixels), images.labels)
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])

    above = gradient(size)
    below = gradient(-2 * size)
    torch.testing.assert_close(found, (above - below) / (2 * size), atol=2e-3 * float(found.abs().max()), rtol=1e-2)


def test_worth_of_a_step_of_dp_sgd_and_of_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_after(1, monkeypatch)
    before = [p.detach().clone() for p in run.model.parameters()]
    view = view_of(run)
    found = _forecast.forecast(view, {"masked": SPARSE, "frozen": FROZEN}, 100, 10)["methods"]
    assert all(torch.equal(a, b) for a, b in zip(before, run.model.parameters(), strict=True))
    everything = torch.ones(view.dim, dtype=torch.bool)
    centre, true = view.clipped_mean(everything).double(), view.gradients.double().mean(0)
    spread = float(view.norms(everything).clamp_max(view.clip_norm).square().mean()) - float(centre.square().sum())
    noise = view.dim * (view.sum_noise_std / view.batch_size) ** 2
    square = float(centre.square().sum()) + spread / view.batch_size + noise
    plain = float(true @ centre) ** 2 / square
    assert (found["dp-sgd"]["relative_isotropic"], found["dp-sgd"]["relative_curved"]) in ((1.0, 1.0), (1.0, None))
    cosine = float(true @ centre) / float(true.norm()) / square**0.5
    assert found["dp-sgd"]["turned"] == pytest.approx(cosine, rel=0.2)
    masks = view.drawn_masks(0.5, 300)
    masked = float((view.clipped_mean(masks).double() @ true).mean()) ** 2 / (noise / 2)
    for name, expected in (("dp-sgd", plain), ("masked", masked)):
        error = found[name]["isotropic_error"]
        assert abs(found[name]["isotropic"] - expected) < 4 * error < 0.6 * expected, name
    assert found["frozen"]["isotropic"] > 0


def test_the_error_of_a_gain_is_that_of_fresh_draws() -> None:
    """Jackknife over 40 draws against the spread of the gain over 400 other sets of draws."""
    draw = torch.Generator().manual_seed(0)
    descent = 1.0 + 0.5 * torch.randn(400, 40, generator=draw, dtype=torch.float64)
    cost = 2.0 + 0.6 * torch.randn(400, 40, generator=draw, dtype=torch.float64).abs()
    spread = float(_forecast._gain(descent.mean(1), cost.mean(1)).std())
    found = [_forecast._gain_error(*pair) for pair in zip(descent, cost, strict=True)]
    errors = torch.tensor([one for one in found if one is not None])
    assert len(errors) == 400 and float(errors.mean()) == pytest.approx(spread, rel=0.1)
    assert _forecast._gain_error(descent[0], cost[0] - 2.5) is None


def test_the_error_of_a_gain_that_is_hardly_told_apart_from_none() -> None:
    """Of a descent of 0 the jackknife alone would say a fraction of the spread of its square."""
    descent = 0.5 * torch.randn(400, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    cost = torch.ones(400, 40, dtype=torch.float64)
    spread = float((descent.mean(1) ** 2 / 1.0).std())
    errors = torch.tensor([_forecast._gain_error(*pair) for pair in zip(descent, cost, strict=True)])
    assert float(errors.median()) >= 0.9 * spread and float(errors.min()) > 0.4 * spread


def test_the_choice_of_a_batch_is_a_part_of_the_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a batch as large as all examples, without noise: the square is that of examples drawn with replacement."""
    view = view_of(run_after(1, monkeypatch), examples=30)
    view.run.optimizer.noise_multiplier = 0.0
    monkeypatch.setattr(_forecast, "_with", lambda run, _: run)
    descent, everything = view.mean, torch.ones(view.dim, dtype=torch.bool)
    centre = view.clipped_mean(everything).double()
    spread = float(view.norms(everything).clamp_max(view.clip_norm).square().mean()) - float(centre.square().sum())
    assert view.batch_size == 30 and spread / 30 > 0.1 * float(centre.square().sum())
    found = _forecast.forecast(view, {}, 100, 10)["methods"]["dp-sgd"]
    square = float(centre.square().sum()) + spread / 30
    assert found["isotropic"] == pytest.approx(float(descent @ centre) ** 2 / square, rel=0.05)
    assert found["isotropic_error"] < 0.05 * found["isotropic"]


def test_batches_of_a_draw_share_no_example(monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_of(run_after(1, monkeypatch))
    count = len(view.gradients)
    for size, wanted in ((count // 3, 3), (count, 1), (count + 1, 1)):
        view.run = SimpleNamespace(config=SimpleNamespace(batch_size=size))  # type: ignore[assignment]
        one, other = _forecast._batches(view), _forecast._batches(view)
        assert [len(batch) for batch in one] == [size] * wanted
        assert len(torch.cat(one).unique()) == min(wanted * size, count) and not torch.equal(one[0], other[0])


def test_a_frozen_layer_is_given_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_after(1, monkeypatch)
    view = view_of(run)
    released = _forecast._released(view, _forecast._with(run, FROZEN), torch.arange(10))
    assert not released[:9264].any() and released[9264:].all()
    masked = _forecast._released(view, _forecast._with(run, SPARSE), torch.arange(10))
    assert int((masked != 0).sum()) == 13005
