"""The private model's hooks: what a copy and a file keep, export, and the bookkeeping of passes."""

import copy
import gc
import io
import pickle
import weakref

import pytest
import torch
from opacus import GradSampleModule
from torch import nn
from torch.nn import functional as F

from dptheory.training import make_private
from dptheory.training.per_example._layer_hooks import MODES, HookedModule, Resting
from tests.refused import refused
from tests.training import errors_table as t


def trained_model():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(5, 4, 1), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(24, 3))
    made = t.private_loop(model, (t.FRAMES, t.Y), noise_multiplier=1.0)
    t.one_step(made)
    return model, made


def saved(model: nn.Module) -> bytes:
    file = io.BytesIO()
    torch.save(model, file)
    return file.getvalue()


def loaded(written: bytes) -> nn.Module:
    return torch.load(io.BytesIO(written), weights_only=False)


WAYS = {
    "torch.save": lambda model: loaded(saved(model)),
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wrapped", [True, False])
def test_a_private_model_is_saved_and_copied_with_hooks_that_rest(wrapped: bool, way: str) -> None:
    """The wrapped one, and the one that was handed in; both train as plain models, and the original goes on."""
    model, made = trained_model()
    private, optimizer, _ = made
    again = WAYS[way](private if wrapped else model)
    assert torch.equal(again(t.FRAMES), private(t.FRAMES))
    cross = F.cross_entropy(again(t.FRAMES), t.Y)
    cross.backward()
    assert all(p.grad is not None for p in again.parameters())
    assert all(
        held is None or not held.numel() for held in (getattr(p, "grad_sample", None) for p in again.parameters())
    )
    if wrapped:
        assert isinstance(again, GradSampleModule)
        again = again.to_standard_module()
        assert not any(m._forward_hooks for m in again.modules())
        t.one_step(t.private_loop(again, (t.FRAMES, t.Y)))
    optimizer.zero_grad()
    t.one_step(made)
    assert optimizer.accountant.steps == 2


def test_no_gradient_of_an_example_is_in_a_file() -> None:
    """After step() the parameters hold none; between backward() and step() a private model is not saved."""
    model, (private, optimizer, loader) = trained_model()
    assert all(len(p.grad_sample) == 0 for p in optimizer.params)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(private(x), y).backward()
        for way in WAYS.values():
            with pytest.raises(ValueError, match=r"^a private model must be saved or copied between step\(\)"):
                way(private)
        optimizer.step()
    assert len(saved(model)) < 20_000


def test_export_names_the_way() -> None:
    model, (private, _, _) = trained_model()
    for attempt in (
        lambda: torch.jit.script(model),
        lambda: torch.jit.script(private),
        lambda: torch.jit.trace(model, t.FRAMES),
        lambda: torch.export.export(model, (t.FRAMES,)),
    ):
        with pytest.raises((ValueError, AttributeError), match=r"to_standard_module\(\)"):
            attempt()
    standard = private.to_standard_module()
    wanted = standard(t.FRAMES)
    assert torch.equal(torch.jit.script(standard)(t.FRAMES), wanted)
    assert torch.equal(torch.export.export(standard, (t.FRAMES,)).module()(t.FRAMES), wanted)


def test_a_call_lives_as_long_as_its_graph() -> None:
    model, (private, _, _) = trained_model()
    (hook,) = (hook for hook in model[3]._forward_hooks.values())
    out = private(t.FRAMES)
    alive = weakref.ref(next(iter(hook._calls)))
    del out
    gc.collect()
    assert alive() is None and not len(hook._calls)


def test_users_hooks_come_after() -> None:
    """A hook that changes the output, from before the model was private."""
    model = nn.Sequential(nn.Linear(6, 3))
    model[0].register_forward_hook(lambda module, inputs, output: 2.0 * output)
    private, optimizer, loader = t.private_loop(model, (t.X, t.Y), loss_reduction="sum")
    for x, _ in loader:
        optimizer.zero_grad()
        private(x).sum().backward()
        assert torch.equal(model[0].bias.grad_sample, torch.full((t.N, 3), 2.0))
        optimizer.step()


@pytest.mark.parametrize("mode", MODES)
def test_gradients_are_those_of_the_batch_at_hand(mode: str) -> None:
    """Two batches, one after the other, through a layer: each example's own output gradient with its own input."""
    model = nn.Linear(6, 3)
    private, optimizer, _ = t.private_loop(model, (t.X, t.Y), grad_sample_mode=mode, loss_reduction="sum")
    for x in (t.X, t.X.flip(0), t.X[:3]):
        optimizer.begin_batch(len(x))
        optimizer.zero_grad()
        (private(x) * torch.arange(1, 4)).sum().backward()
        wanted = torch.arange(1.0, 4)[:, None] * x[:, None]
        assert torch.equal(model.weight.grad_sample.detach(), wanted)
        optimizer.step()


def test_hooks_are_not_put_twice() -> None:
    private, _, _ = t.private_loop(nn.Sequential(nn.Linear(6, 3)), (t.X, t.Y))
    assert isinstance(private, HookedModule) and Resting()(None, ()) is None
    with refused("module"):
        private.add_hooks()
    with refused("module"):
        make_private(
            module=private, optimizer=torch.optim.SGD(private.parameters(), lr=0.1), mechanism=t.DpSgd(),
            data_loader=t.DataLoader(t.TensorDataset(t.X, t.Y), t.N), noise_multiplier=1.0, max_grad_norm=1.0,
        )  # fmt: skip
    private.disable_hooks()
    private(t.X).sum().backward()
    assert private._module[0].weight.grad_sample is None


def of_two(mode: str = "factors", **options: object):
    """A model without a bias in its first layer, after the steps in which gradients of weights are looked at."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8, bias=False), nn.Tanh(), nn.Linear(8, 3))
    private, optimizer, _ = t.private_loop(
        model, (t.X, t.Y), grad_sample_mode=mode, max_grad_norm=1e6, probe=False, **options
    )
    for _ in range(2):
        backward(private, optimizer)
        optimizer.step()
    return model, private, optimizer


def backward(private: nn.Module, optimizer, x: torch.Tensor = t.X) -> None:
    optimizer.begin_batch(len(x))
    optimizer.zero_grad()
    F.cross_entropy(private(x), t.Y).backward()


def weighted(model: nn.Module) -> None:
    for p in model.parameters():
        p.grad_sample.mul_(0.5)
        p.grad_sample[0] = 0.0


def test_gradients_that_are_written_to_are_those_of_the_step() -> None:
    """Weights of examples, for instance, that a loop puts to their gradients."""
    found = []
    for mode in ("hooks", "factors"):
        model, private, optimizer = of_two(mode)
        backward(private, optimizer)
        weighted(model)
        optimizer.step()
        found.append(torch.cat([p.grad.flatten() for p in optimizer.params]))
        assert optimizer.accumulated_iterations == 1
    # factors round otherwise, in each of so many terms
    terms = t.N * sum(p.numel() for p in model.parameters())
    assert float((found[0] - found[1]).abs().max()) <= terms * torch.finfo(torch.float32).eps * float(
        found[0].abs().max()
    )


@pytest.mark.parametrize("what", ["input", "gradient"])
def test_what_factors_rest_on_must_stay_until_the_step(what: str) -> None:
    """The next batch in the same memory would be released with this one's."""
    _, private, optimizer = of_two(loss_reduction="sum")
    x = t.X.clone()
    optimizer.begin_batch(t.N)
    optimizer.zero_grad()
    gradient = torch.ones(t.N, 3)
    private(x).backward(gradient)
    (x if what == "input" else gradient).mul_(2.0)
    with pytest.raises(ValueError, match="until step"):
        optimizer.step()
    backward(private, optimizer, x)
    optimizer.step()
    x.mul_(2.0)  # after the step it is the loop's


@pytest.mark.parametrize("recorded", [True, False])
def test_an_interrupt_freezes_no_weight(monkeypatch: pytest.MonkeyPatch, recorded: bool) -> None:
    """Ctrl-C in a notebook within a layer, and on with the next cell."""
    model, private, optimizer = of_two()
    optimizer.begin_batch(t.N)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(F, "linear", interrupted)
        private(t.X) if recorded else model[0](t.X)
    assert model[0].weight.requires_grad or not recorded
    before = model[0].weight.detach().clone()
    backward(private, optimizer)
    optimizer.step()
    assert model[0].weight.requires_grad and not torch.equal(model[0].weight, before)


def test_forward_derivatives_beside_a_step() -> None:
    _, private, optimizer = of_two()
    backward(private, optimizer)
    optimizer.step()
    _, slope = torch.func.jvp(private, (t.X,), (torch.zeros_like(t.X),))
    assert not slope.any()
