"""The optimizer: plain DP-SGD agrees with Opacus, masks and virtual batches do what they say, and errors name the remedy."""

import copy
import itertools
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from opacus import PrivacyEngine
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dptheory.training import make_private
from dptheory.training._streams import simulation
from dptheory.training.engine import attach
from dptheory.training.mechanisms import (
    Constant,
    DpSgd,
    LayerFreezing,
    Mechanism,
    RandomSparsification,
    RankedSparsification,
)
from dptheory.training.mechanisms._layer_freezing import freeze
from dptheory.training.networks import small_tanh_cnn

N, B = 64, 16

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG")


def loader(pixels: torch.Tensor | None = None, seed: int = 3) -> DataLoader:
    if pixels is None:
        pixels = torch.randn(N, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(len(pixels)) % 10
    generator = torch.Generator().manual_seed(seed)
    return DataLoader(TensorDataset(pixels, labels), batch_size=B, generator=generator)


def train(mechanism: Mechanism, steps: int = 3, physical: int | None = None, **options):
    model = small_tanh_cnn(0)
    sgd = options.pop("optimizer", lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9))(model.parameters())
    settings = {"noise_multiplier": 0.7, "max_grad_norm": 0.5} | options.pop("settings", {})
    data = options.pop("data", None) or loader()
    private, optimizer, batches = make_private(
        module=model, optimizer=sgd, data_loader=data, mechanism=mechanism,
        noise_generator=torch.Generator().manual_seed(5), **settings, **options,
    )  # fmt: skip
    run(private, optimizer, batches, steps, physical)
    return model, optimizer


def run(private, optimizer, batches, steps, physical=None) -> None:
    if physical is None:
        while optimizer.accountant.steps < steps:
            for pixels, labels in batches:
                one(private, optimizer, pixels, labels)
                if optimizer.accountant.steps == steps:
                    return
    else:
        with BatchMemoryManager(data_loader=batches, max_physical_batch_size=physical, optimizer=optimizer) as small:
            while optimizer.accountant.steps < steps:
                for pixels, labels in small:
                    one(private, optimizer, pixels, labels)
                    if optimizer.accountant.steps == steps:
                        return


def one(private, optimizer, pixels, labels) -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(private(pixels), labels).backward()
    optimizer.step()


def flat(model) -> np.ndarray:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).numpy()


def test_plain_dp_sgd_is_opacus() -> None:
    """On the same batches: Opacus divides by norm + 1e-6, and a simulation draws the noise in the same order from the same
    generator."""
    ours, model = small_tanh_cnn(0), small_tanh_cnn(0)
    with simulation():
        mine, attached = attach(
            module=ours, optimizer=torch.optim.SGD(ours.parameters(), lr=0.5, momentum=0.9), mechanism=DpSgd(),
            sampling_rate=B / N, train_size=N, noise_multiplier=0.7, max_grad_norm=0.5,
            noise_generator=torch.Generator().manual_seed(5),
        )  # fmt: skip
    engine = PrivacyEngine(accountant="rdp")
    private, optimizer, batches = engine.make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9), data_loader=loader(),
        noise_multiplier=0.7, max_grad_norm=0.5, noise_generator=torch.Generator().manual_seed(5),
    )  # fmt: skip
    for pixels, labels in itertools.islice(batches, 3):
        one(private, optimizer, pixels, labels)
        one(mine, attached, pixels, labels)
    np.testing.assert_allclose(flat(ours), flat(model), atol=1e-5)
    assert np.abs(flat(ours) - flat(small_tanh_cnn(0))).max() > 0.01


@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch"])
@pytest.mark.parametrize("physical", [None, 5])
def test_virtual_batches_and_modes_change_nothing(mode: str, physical: int | None) -> None:
    base, _ = train(RandomSparsification(Constant(0.5), seed=2))
    other, optimizer = train(RandomSparsification(Constant(0.5), seed=2), physical=physical, grad_sample_mode=mode)
    np.testing.assert_allclose(flat(base), flat(other), atol=1e-5)
    assert optimizer.accountant.steps == 3


@pytest.mark.parametrize("build", [torch.optim.Adam, torch.optim.RMSprop, torch.optim.AdamW])
def test_any_torch_optimizer(build) -> None:
    model, optimizer = train(DpSgd(), optimizer=lambda p: build(p, lr=0.01))
    assert np.isfinite(flat(model)).all() and optimizer.accountant.steps == 3


def test_bfloat16_model() -> None:
    model = small_tanh_cnn(0).bfloat16()
    pixels = torch.randn(N, 1, 28, 28).bfloat16()
    private, optimizer, batches = make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=loader(pixels),
        mechanism=RandomSparsification(Constant(0.5), 0), noise_multiplier=1.0, max_grad_norm=1.0,
    )  # fmt: skip
    run(private, optimizer, batches, 2)
    assert all(t.dtype == torch.float32 for t in optimizer.clipped_total)
    assert all(p.dtype == torch.bfloat16 and torch.isfinite(p).all() for p in model.parameters())


def test_empty_batch_adds_noise_only() -> None:
    model = small_tanh_cnn(0)
    private, optimizer = attach(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), sampling_rate=B / N, train_size=N, mechanism=DpSgd(),
        noise_multiplier=2.0, max_grad_norm=0.5, noise_generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    optimizer.begin_batch(0)
    before = flat(model)
    nn.functional.cross_entropy(private(torch.zeros(0, 1, 28, 28)), torch.zeros(0, dtype=torch.long)).backward()
    optimizer.step()
    change = (flat(model) - before) * B
    assert not any(t.any() for t in optimizer.clipped_total)
    assert abs(change.std() - 1.0) < 0.02 and optimizer.accountant.steps == 1


def test_sample_that_is_not_finite_is_counted_and_left_out() -> None:
    pixels = torch.randn(N, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    pixels[::7] = torch.nan
    model, optimizer = train(DpSgd(), data=loader(pixels))
    assert np.isfinite(flat(model)).all()
    assert 0 < optimizer.nonfinite_samples <= 3 * N


@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch"])
def test_freezing_in_the_middle_of_a_run(mode: str) -> None:
    """Up to the step it is the run without freezing; from there on the first layers stay, momentum or not."""
    with simulation():  # two mechanisms have other noise otherwise
        plain, _ = train(DpSgd(), steps=2)
        frozen, optimizer = train(LayerFreezing(DpSgd(), frozen_layers=2, from_step=2), steps=4, grad_sample_mode=mode)
    for (name, a), b, c in zip(
        plain.named_parameters(), frozen.parameters(), small_tanh_cnn(0).parameters(), strict=True
    ):
        assert not torch.equal(a, c)
        assert torch.allclose(a, b, atol=1e-6) == name.startswith("conv")
    assert len(optimizer.params) == 4 and optimizer.accountant.steps == 4


def test_freezing_from_the_start_and_a_layer_with_frozen_weight_and_trained_bias() -> None:
    frozen, _ = train(LayerFreezing(DpSgd(), frozen_layers=1, from_step=0))
    start = small_tanh_cnn(0)
    assert torch.equal(frozen.conv1.weight, start.conv1.weight) and not torch.equal(
        frozen.conv2.weight, start.conv2.weight
    )
    for mode in ("factors", "hooks", "functorch"):
        model = small_tanh_cnn(0)
        model.conv2.weight.requires_grad_(False)
        private, optimizer, batches = make_private(
            module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5), data_loader=loader(), mechanism=DpSgd(),
            noise_multiplier=1.0, max_grad_norm=1.0, grad_sample_mode=mode,
        )  # fmt: skip
        run(private, optimizer, batches, 2)
        assert torch.equal(model.conv2.weight, start.conv2.weight) and not torch.equal(
            model.conv2.bias, start.conv2.bias
        )


@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch"])
def test_freezing_part_of_a_layer_and_a_layer_in_the_middle_while_running(mode: str) -> None:
    model = small_tanh_cnn(0)
    private, optimizer, batches = make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9), data_loader=loader(),
        mechanism=DpSgd(), noise_multiplier=1.0, max_grad_norm=1.0, grad_sample_mode=mode,
    )  # fmt: skip
    run(private, optimizer, batches, 2)
    freeze([*model.conv2.parameters(), model.fc1.weight])
    assert not private.grad_accumulation_allowed and private.force_functorch == (mode == "functorch")
    before = {n: p.clone() for n, p in model.named_parameters()}
    run(private, optimizer, batches, 4)
    still = {n for n, p in model.named_parameters() if torch.equal(p, before[n])}
    assert still == {"conv2.weight", "conv2.bias", "fc1.weight"}


def test_frozen_layers_cost_no_per_sample_gradients() -> None:
    model, _ = train(LayerFreezing(DpSgd(), frozen_layers=2, from_step=0))
    assert all(getattr(p, "grad_sample", None) is None for p in (*model.conv1.parameters(), *model.conv2.parameters()))


@pytest.mark.parametrize("simulated", [False, True])
def test_state_goes_round(simulated: bool) -> None:
    """Three steps, saved and restored after the first two, are three steps; the same ones in a simulation alone."""

    def fresh():
        model = small_tanh_cnn(0)
        with simulation() if simulated else nullcontext():
            return model, make_private(
                module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9), data_loader=loader(),
                mechanism=RandomSparsification(Constant(0.5), 2), noise_multiplier=0.7, max_grad_norm=0.5,
                noise_generator=torch.Generator().manual_seed(5), probe=False,
            )  # fmt: skip

    model, (private, optimizer, batches) = fresh()
    data = list(itertools.islice(batches, 3))
    for batch in data[:2]:
        one(private, optimizer, *batch)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    one(private, optimizer, *data[2])
    again, (other, resumed, anew) = fresh()
    again.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    again_drawn = list(itertools.islice(anew, 3))[2]
    assert simulated == (len(again_drawn[1]) == len(data[2][1]) and torch.equal(again_drawn[0], data[2][0]))
    one(other, resumed, *again_drawn)
    assert simulated == np.array_equal(flat(model), flat(again))
    assert resumed.accountant.steps == 3


class Watching(DpSgd):
    """Notes what it is told at the end of a step."""

    def end_step(self, released, std: float) -> None:
        self.told = [r.clone() for r in released], std


@pytest.mark.parametrize("secure", [False, True])
def test_the_mechanism_is_told_the_noise_of_its_release(secure: bool) -> None:
    """The standard deviation is sigma C, of what is released and of what the end of the step is told."""
    model, clip, sigma = small_tanh_cnn(0), 0.25, 3.0
    mechanism = Watching()
    private, optimizer = attach(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), mechanism=mechanism, sampling_rate=0.1,
        train_size=100,
        noise_multiplier=sigma, max_grad_norm=clip, secure=secure,
        noise_generator=None if secure else torch.Generator().manual_seed(1),
    )  # fmt: skip
    before = flat(model)
    one(private, optimizer, torch.randn(8, 1, 28, 28), torch.arange(8))
    released, std = mechanism.told
    assert std == sigma * clip
    noise = torch.cat([(r - t).flatten() for r, t in zip(released, optimizer.clipped_total, strict=True)])
    assert float(noise.std()) == pytest.approx(sigma * clip, rel=5 * 0.0044)
    joined = torch.cat([r.flatten() for r in released])
    np.testing.assert_allclose(before - flat(model), joined / 10, atol=1e-6)


def test_ranked_noise_of_masked_entries_has_the_scale_of_the_release() -> None:
    """Entries masked out get noise of standard deviation sigma C in the ranking, with C other than 1."""
    model, clip, sigma = small_tanh_cnn(0), 0.25, 3.0
    mechanism = RankedSparsification(Constant(0.5), steps_per_epoch=4, seed=0)
    private, optimizer = attach(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.0), mechanism=mechanism, sampling_rate=0.1,
        train_size=100,
        noise_multiplier=sigma, max_grad_norm=clip,
    )  # fmt: skip
    for _ in range(4 + 2):
        one(private, optimizer, torch.randn(0, 1, 28, 28), torch.zeros(0, dtype=torch.long))
    masked = torch.cat([s[~k] for s, k in zip(mechanism._sums, mechanism.mask, strict=True)])
    assert float(masked.std()) == pytest.approx(sigma * clip * 2**0.5, rel=0.05)


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.idle = nn.Linear(784, 10), nn.Linear(3, 3)

    def forward(self, x):
        return self.used(x.flatten(1))


def attempt(model: nn.Module, **options) -> None:
    private, optimizer, batches = make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=loader(),
        **{"mechanism": DpSgd(), "noise_multiplier": 1.0, "max_grad_norm": 1.0} | options,
    )  # fmt: skip
    run(private, optimizer, batches, 1)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: attempt(Unused()), "idle.weight has no per-sample gradient.*requires_grad_"),
        (lambda: attempt(nn.Sequential(nn.Flatten(), nn.BatchNorm1d(784), nn.Linear(784, 10))), "group"),
        (lambda: attempt(small_tanh_cnn(0), mechanism=RandomSparsification(Constant(0.99999), 0)), "keep at least one"),
        (lambda: attempt(small_tanh_cnn(0), noise_multiplier=-1.0), "noise_multiplier must be"),
        (lambda: attempt(small_tanh_cnn(0), max_grad_norm=0.0), "max_grad_norm must be"),
        (lambda: attempt(small_tanh_cnn(0), grad_sample_mode="ghost"), "grad_sample_mode must be one of"),
        (
            lambda: attempt(small_tanh_cnn(0), secure=True),
            "data_loader must have no generator",
        ),
        (
            lambda: attempt(small_tanh_cnn(0), mechanism=LayerFreezing(DpSgd(), frozen_layers=4, from_step=0)),
            "frozen_layers must be an integer in 1..3",
        ),
    ],
)
def test_errors_name_the_remedy(call, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


def test_step_without_zero_grad_is_refused() -> None:
    model = small_tanh_cnn(0)
    private, optimizer, batches = make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=loader(), mechanism=DpSgd(),
        noise_multiplier=1.0, max_grad_norm=1.0,
    )  # fmt: skip
    pixels, labels = next(iter(batches))
    one(private, optimizer, pixels, labels)
    with pytest.raises(ValueError, match="zero_grad"):
        optimizer.step()


@pytest.mark.cuda
def test_cuda_agrees_with_the_cpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    on_cpu, _ = train(RandomSparsification(Constant(0.5), 2), settings={"noise_multiplier": 0.0})
    model = small_tanh_cnn(0).cuda()
    private, optimizer, batches = make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9), data_loader=loader(),
        mechanism=RandomSparsification(Constant(0.5), 2), noise_multiplier=0.0, max_grad_norm=0.5,
    )  # fmt: skip
    for pixels, labels in itertools.islice(batches, 3):
        one(private, optimizer, pixels.cuda(), labels.cuda())
    np.testing.assert_allclose(
        flat(on_cpu), torch.cat([p.detach().flatten() for p in model.parameters()]).cpu(), atol=1e-4
    )


@pytest.mark.parametrize("cleared_by", ["model", "optimizer"])
def test_no_step_holds_examples_of_the_one_before(cleared_by: str) -> None:
    """Also after ``model.zero_grad()``, which knows nothing of the optimizer's totals."""
    model = small_tanh_cnn(0)
    private, optimizer, batches = make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=loader(), mechanism=DpSgd(),
        noise_multiplier=0.0, max_grad_norm=1e-3, probe=False,
    )  # fmt: skip
    for pixels, labels in itertools.islice(batches, 4):
        (private if cleared_by == "model" else optimizer).zero_grad()
        nn.functional.cross_entropy(private(pixels), labels).backward()
        samples = [p.grad_sample.flatten(1) for p in optimizer.params]
        optimizer.step()
        moved = sum(float(p.grad.square().sum()) for p in model.parameters()) ** 0.5
        totals = optimizer.clipped_total
        wanted = sum(float((t / B).square().sum()) for t in totals) ** 0.5
        assert moved == pytest.approx(wanted, rel=1e-5)
        norms = torch.cat(samples, 1).norm(dim=1)
        alone = [torch.einsum("n,np->p", (1e-3 / norms).clamp_max(1.0), s) for s in samples]
        for total, expected in zip(totals, alone, strict=True):
            torch.testing.assert_close(total.flatten(), expected, atol=1e-7, rtol=1e-4)
