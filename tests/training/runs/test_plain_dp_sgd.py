"""The network and the DP-SGD loop."""

import itertools

import pytest
import torch
from torch import nn

from dptheory.training.data import Images
from dptheory.training.networks import layer_slices, small_tanh_cnn
from dptheory.training.runs import DpSgdSettings, Step, accuracy, dp_sgd, pick_device, sampling_rate
from tests.refused import refused

CPU = torch.device("cpu")


def some_images(count: int) -> Images:
    generator = torch.Generator().manual_seed(5)
    return Images(
        "random",
        torch.rand((count, 1, 28, 28), generator=generator),
        torch.randint(0, 10, (count,), generator=generator),
    )


def settings(**changes: object) -> DpSgdSettings:
    values = dict(steps=3, batch_size=16, noise_multiplier=1.0, max_grad_norm=1.0, learning_rate=0.5, seed=0)
    return DpSgdSettings(**(values | changes))  # type: ignore[arg-type]


def run(chosen: DpSgdSettings, count: int = 64, device: torch.device = CPU) -> tuple[nn.Module, list[Step]]:
    model = small_tanh_cnn(chosen.stream(0))
    return model, list(dp_sgd(model, some_images(count), chosen, device))


def test_parameter_count_and_output() -> None:
    model = small_tanh_cnn(0)
    assert sum(p.numel() for p in model.parameters()) == 26_010
    assert model(torch.zeros(3, 1, 28, 28)).shape == (3, 10)


def test_layer_slices_cover_the_gradient_in_order() -> None:
    slices = layer_slices(small_tanh_cnn(0))
    assert list(slices)[:2] == ["conv1.weight", "conv1.bias"]
    parts = list(slices.values())
    assert parts[0].start == 0
    assert parts[-1].stop == 26_010
    assert all(a.stop == b.start for a, b in itertools.pairwise(parts))


def test_weights_depend_on_the_seed_and_leave_the_global_state() -> None:
    before = torch.random.get_rng_state()
    a, b, c = small_tanh_cnn(1), small_tanh_cnn(1), small_tanh_cnn(2)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(a.fc1.weight, b.fc1.weight)
    assert not torch.equal(a.fc1.weight, c.fc1.weight)


def test_same_seed_twice_is_bit_equal() -> None:
    (first, steps), (second, again) = run(settings()), run(settings())
    assert all(torch.equal(p, q) for p, q in zip(first.parameters(), second.parameters(), strict=True))
    assert all(torch.equal(a.gradient, b.gradient) for a, b in zip(steps, again, strict=True))


def test_another_seed_is_another_run() -> None:
    assert not torch.equal(run(settings())[1][0].gradient, run(settings(seed=1))[1][0].gradient)


@pytest.mark.parametrize("clip", [0.05, 0.7, 1000.0])
def test_recorded_gradient_is_the_sum_of_the_gradients_clipped_by_hand(clip: float) -> None:
    """At sampling rate 1 every image is drawn, so the batch is known."""
    images = some_images(12)
    chosen = settings(steps=1, batch_size=12, max_grad_norm=clip)
    by_hand, clipped = torch.zeros(26_010), 0
    model = small_tanh_cnn(chosen.stream(0))
    for pixels, label in zip(images.pixels, images.labels, strict=True):
        model.zero_grad()
        nn.functional.cross_entropy(model(pixels[None]), label[None]).backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
        clipped += int(gradient.norm() > clip)
        by_hand += gradient / max(1.0, float(gradient.norm()) / clip)
    (step,) = dp_sgd(small_tanh_cnn(chosen.stream(0)), images, chosen, CPU)
    assert step.batch_size == 12
    assert clipped == {0.05: 12, 1000.0: 0}.get(clip, clipped)
    # Opacus divides by norm + 1e-6, hence no closer than 1e-6 / norm
    torch.testing.assert_close(step.gradient, by_hand, rtol=1e-4, atol=1e-6)


def test_update_is_the_noisy_sum_over_the_expected_batch_size() -> None:
    chosen = settings(steps=1, batch_size=64, noise_multiplier=0.0, learning_rate=2.0)
    before = torch.cat([p.detach().flatten() for p in small_tanh_cnn(chosen.stream(0)).parameters()])
    model, (step,) = run(chosen)
    after = torch.cat([p.detach().flatten() for p in model.parameters()])
    torch.testing.assert_close(before - after, 2.0 * step.gradient / 64, rtol=1e-4, atol=1e-7)


def test_noise_has_standard_deviation_sigma_times_clip() -> None:
    chosen = settings(steps=1, batch_size=64, noise_multiplier=3.0, max_grad_norm=0.5, learning_rate=1.0)
    before = torch.cat([p.detach().flatten() for p in small_tanh_cnn(chosen.stream(0)).parameters()])
    model, (step,) = run(chosen)
    after = torch.cat([p.detach().flatten() for p in model.parameters()])
    noise = (before - after) * 64 - step.gradient
    # 26,010 draws: the standard error of the standard deviation is 0.44 %
    assert float(noise.std()) == pytest.approx(1.5, rel=5 * 0.0044)


def test_empty_batches_are_zero_gradients_and_training_goes_on() -> None:
    model, steps = run(settings(steps=24, batch_size=1), count=2)
    empty = [step for step in steps if step.batch_size == 0]
    assert empty  # a quarter of the batches is
    assert len(empty) < len(steps)
    assert all(not step.gradient.any() for step in empty)
    assert all(torch.isfinite(p).all() for p in model.parameters())


def test_model_is_free_of_hooks_after_an_early_stop() -> None:
    chosen = settings()
    model = small_tanh_cnn(0)
    steps = dp_sgd(model, some_images(64), chosen, CPU)
    next(steps)
    steps.close()
    assert len(list(dp_sgd(model, some_images(64), chosen, CPU))) == 3


def test_batch_sizes_follow_the_sampling_rate() -> None:
    assert sampling_rate(batch_size=16, train_size=64) == 0.25
    assert sampling_rate(batch_size=60, train_size=64) == 0.5  # Opacus rounds: 1 / ceil(64 / 60)
    sizes = [step.batch_size for step in run(settings(steps=20))[1]]
    assert sum(sizes) / 20 == pytest.approx(16, abs=5 * (64 * 0.25 * 0.75 / 20) ** 0.5)
    assert len(set(sizes)) > 1


def test_samples_and_noise_have_streams_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    class Noted(torch.Generator):
        def manual_seed(self, seed: int) -> torch.Generator:
            seeds.append(seed)
            return super().manual_seed(seed)

    chosen = settings(steps=1)
    model = small_tanh_cnn(0)
    monkeypatch.setattr(torch, "Generator", Noted)
    next(dp_sgd(model, some_images(64), chosen, CPU))
    assert [one for one in seeds if one != 5] == [chosen.stream(1), chosen.stream(2)]


def test_accuracy_of_more_images_than_are_held_at_once() -> None:
    labels = torch.arange(2003) % 3
    pixels = nn.functional.one_hot(labels, 3).float()
    pixels[2001:] = pixels[2001:].roll(1, 1)
    assert accuracy(nn.Identity(), Images("x", pixels, labels), CPU) == 2001 / 2003


def test_accuracy_counts_and_keeps_the_mode() -> None:
    model, images = small_tanh_cnn(0), some_images(50)
    with torch.no_grad():
        right = int((model(images.pixels).argmax(1) == images.labels).sum())
    model.train()
    assert accuracy(model, images, CPU) == right / 50
    assert model.training


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"steps": 0}, "steps 1..1000000000 0"),
        ({"steps": 2.5}, "steps"),
        ({"batch_size": 0}, "batch_size 1..1000000000 0"),
        ({"noise_multiplier": -1.0}, "noise_multiplier -1.0"),
        ({"noise_multiplier": float("nan")}, "noise_multiplier"),
        ({"noise_multiplier": float("inf")}, "noise_multiplier"),
        ({"max_grad_norm": 0.0}, "max_grad_norm 0.0"),
        ({"learning_rate": 0.0}, "learning_rate 0.0"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"seed": -1}, "seed 0"),
    ],
)
def test_bad_settings(change: dict[str, object], says: str) -> None:
    with refused(*says.split()):
        settings(**change)


def test_batch_larger_than_the_data() -> None:
    with refused("batch_size", "1..8", "16"):
        dp_sgd(small_tanh_cnn(0), some_images(8), settings(), CPU)


def test_unknown_device() -> None:
    with refused("wanted", "'auto'", "'cpu'", "'cuda'", "'tpu'"):
        pick_device("tpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_cuda_where_there_is_none() -> None:
    assert pick_device("auto") == CPU
    with refused("device", "'cuda'"):
        pick_device("cuda")


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_first_gradient_on_cuda_is_that_on_the_cpu() -> None:
    (step,), (there,) = run(settings(steps=1))[1], run(settings(steps=1), device=torch.device("cuda"))[1]
    torch.testing.assert_close(there.gradient.cpu(), step.gradient, rtol=1e-2, atol=1e-4)
