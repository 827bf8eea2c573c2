"""What measurements see: gradients against torch's own, masks of the run, angles."""

import math

import pytest
import torch
from torch import nn

from dptheory.training.measure._view import angle, gradients_of, module_slices
from dptheory.training.mechanisms import LayerFreezing, RandomSparsification
from dptheory.training.networks import mean_gradient, small_tanh_cnn
from tests.training.measure.looked_at import invented, run_after, view_of

pytestmark = [pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG"), pytest.mark.numerics]


def test_gradients_are_those_of_one_image_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_of(run_after(1, monkeypatch), 3)
    images = view.test(0, 3)
    for number in range(3):
        loss = nn.functional.cross_entropy(view.model(images.pixels[number : number + 1]), images.labels[number][None])
        alone = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(view.model.parameters()))])
        torch.testing.assert_close(view.gradients[number], alone, atol=1e-6, rtol=1e-4)
    whole = gradients_of(view.model, view.run.test).mean(0)
    torch.testing.assert_close(view.true, whole, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(
        mean_gradient(view.model, images.pixels, images.labels), view.gradients.mean(0), atol=1e-6, rtol=1e-4
    )
    run = {name: value for name, value in view.run.model.state_dict().items()}
    assert all(torch.equal(value, run[name]) for name, value in view.model.state_dict().items())


def test_layers_are_weights_and_bias_together() -> None:
    assert module_slices(small_tanh_cnn(0)) == {
        "conv1": slice(0, 1040), "conv2": slice(1040, 9264), "fc1": slice(9264, 25680), "fc2": slice(25680, 26010)
    }  # fmt: skip


def test_masks_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    sparse = run_after(1, monkeypatch, {"name": "random-sparsification", "drop_rate": 0.5})
    assert isinstance(sparse.optimizer.mechanism, RandomSparsification)
    mask = torch.cat([m.flatten() for m in sparse.optimizer.mechanism.mask])
    assert torch.equal(view_of(sparse).kept, mask) and int(mask.sum()) == 13005
    unmasked = run_after(1, monkeypatch, {"name": "random-k", "keep_share": 0.5})  # masked after the clipping
    assert view_of(unmasked).kept.all()
    frozen = run_after(2, monkeypatch, {"name": "layer-freezing", "frozen_layers": 2, "after": 0.15})
    assert isinstance(frozen.optimizer.mechanism, LayerFreezing)
    kept = view_of(frozen).kept
    assert not kept[:9264].any() and kept[9264:].all()
    assert torch.equal(view_of(unmasked).without_first(2), kept)
    assert view_of(run_after(1, monkeypatch, {"name": "layer-freezing", "frozen_layers": 2, "after": 0.5})).kept.all()


def test_masked_norms_and_clipped_means() -> None:
    view = invented(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), clip=1.0)
    both, first = torch.tensor([True, True]), torch.tensor([True, False])
    assert view.norms(both).tolist() == pytest.approx([5.0, 0.5])
    assert view.clipped_mean(both).tolist() == pytest.approx([(0.6 + 0.3) / 2, (0.8 + 0.4) / 2])
    assert view.clipped_mean(first).tolist() == pytest.approx([(1.0 + 0.3) / 2, 0.0])
    masks = torch.stack([both, first], dim=1)
    assert torch.allclose(view.clipped_mean(masks), torch.stack([view.clipped_mean(both), view.clipped_mean(first)]))
    assert view.sum_noise_std == 1.0 and view.dim == 2
    assert view.drawn_masks(0.5, 4).sum(0).tolist() == [1] * 4 and view.drawn_masks(0.0, 2).all()


def test_angles() -> None:
    one, other = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0])
    assert angle(one, other) == pytest.approx(math.pi / 4) and angle(one, -one) == pytest.approx(math.pi)
    assert angle(one, torch.zeros(2)) is None
