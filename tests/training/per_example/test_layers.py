"""Layers: their hooks, their gradients, and those that are misread."""

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

from dptheory.training.per_example._layer_gradients import Places, call_of, of_a_call, trained
from dptheory.training.per_example._layer_hooks import MODES, HookedModule, Resting
from tests.refused import refused
from tests.training import errors_table as t
from tests.training import sgd
from tests.training.engine.test_logical_batch import ROWS as N
from tests.training.engine.test_logical_batch import attached_sum as attached
from tests.training.engine.test_logical_batch import step

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")

# --- The private model's hooks: what a copy and a file keep, export, and the bookkeeping of passes ---


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
            with refused("model", "state_dict()"):
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
        optimizer.loader_drew(len(x))
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
        sgd.make_private(private, t.DataLoader(t.TensorDataset(t.X, t.Y), t.N))
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
    optimizer.loader_drew(len(x))
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
    optimizer.loader_drew(t.N)
    optimizer.zero_grad()
    gradient = torch.ones(t.N, 3)
    private(x).backward(gradient)
    (x if what == "input" else gradient).mul_(2.0)
    with refused("inputs and outputs of layers", "step()"):
        optimizer.step()
    backward(private, optimizer, x)
    optimizer.step()
    x.mul_(2.0)  # after the step it is the loop's


@pytest.mark.parametrize("recorded", [True, False])
def test_an_interrupt_freezes_no_weight(monkeypatch: pytest.MonkeyPatch, recorded: bool) -> None:
    """Ctrl-C in a notebook within a layer, and on with the next cell."""
    model, private, optimizer = of_two()
    optimizer.loader_drew(t.N)

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


# --- Per-example gradients of one call of a layer; whole loops are in `tests/training/test_errors_with_cause.py` ---


class Masked(nn.Module):
    """A tensor of the batch, a mask that is none, a number; one that looks at values, which vmap cannot."""

    def __init__(self, looks: bool = False) -> None:
        super().__init__()
        self.weight, self.looks = nn.Parameter(torch.arange(1.0, 5.0)), looks

    def forward(self, x: torch.Tensor, mask: torch.Tensor, power: int = 1) -> torch.Tensor:
        assert x.dim() == 2
        if self.looks:
            assert float(x.sum()) < 100.0
        return (x * self.weight) ** power @ mask


def samples(layer: nn.Module, *args, by_forward: bool = False, **kwargs) -> dict[nn.Parameter, torch.Tensor]:
    """Of the sum of squares of the output's rows."""
    output = layer(*args, **kwargs)
    call = call_of(layer, args, kwargs, output, Places())
    return of_a_call(layer, call, 0, 2.0 * output.detach(), by_forward=by_forward)


@pytest.mark.numerics
@pytest.mark.parametrize("looks", [False, True])
def test_a_mask_without_examples_is_as_it_was(looks: bool) -> None:
    """Of another size than the batch; by vmap, and one at a time where the layer looks at values."""
    layer, mask = Masked(looks), torch.eye(4).roll(1, 0)
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [-1.0, -2.0, -3.0, -4.0], [0.5, 0.0, 0.0, -1.0]])
    (found,) = samples(layer, x, mask=mask, power=2).values()
    wanted = [torch.autograd.grad(layer(row[None], mask, 2).square().sum(), layer.weight)[0] for row in x]
    assert torch.equal(found, torch.stack(wanted))


@pytest.mark.numerics
def test_formula_and_forward_agree() -> None:
    torch.manual_seed(0)
    layer, x = nn.Conv2d(2, 3, 2).double(), torch.randn(4, 2, 5, 5, dtype=torch.float64)
    formula, forward = samples(layer, x), samples(layer, x, by_forward=True)
    for p in layer.parameters():
        torch.testing.assert_close(formula[p], forward[p])


@pytest.mark.numerics
def test_no_rows_are_no_rows() -> None:
    for layer, x in ((nn.Conv1d(2, 3, 1), torch.zeros(0, 2, 4)), (nn.PReLU(), torch.zeros(0, 3))):
        assert all(len(rows) == 0 for rows in samples(layer, x, by_forward=True).values())
    assert samples(nn.EmbeddingBag(5, 2), torch.zeros(0, 3, dtype=torch.long)).popitem()[1].shape == (0, 5, 2)


@pytest.mark.numerics
def test_a_token_that_is_twice_in_a_bag_counts_twice() -> None:
    layer = nn.EmbeddingBag(3, 1, mode="sum")
    nn.init.ones_(layer.weight)
    (found,) = samples(layer, torch.tensor([[0, 0], [1, 2]])).values()
    assert found.squeeze(2).tolist() == [[8.0, 0.0, 0.0], [0.0, 4.0, 4.0]]  # 2 * 2 for each time


@pytest.mark.numerics
def test_what_is_trained_of_a_layer() -> None:
    """Of one that Opacus does not know also what is inside."""
    cell, linear = nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2)
    linear.bias.requires_grad_(False)
    assert trained(linear) == [linear.weight] and len(trained(cell)) == 2


@pytest.mark.numerics
def test_no_argument_with_examples() -> None:
    layer = Masked()
    output = torch.zeros(3, 4)
    with pytest.raises(ValueError, match=r"\b3\b"):
        of_a_call(
            layer, call_of(layer, (torch.zeros(1, 4), torch.eye(4)), {}, output, Places()), 0, output, by_forward=False
        )


# --- Per-sample gradients do not depend on the order in which images lie in memory
LAYERS = {
    "1d": (nn.Conv1d(4, 3, 3), (4, 9)),
    "2d": (nn.Conv2d(4, 3, 3), (4, 9, 7)),
    "2d padded": (nn.Conv2d(4, 3, 3, padding=1), (4, 9, 7)),
    "2d same": (nn.Conv2d(4, 3, (3, 2), padding="same", dilation=2), (4, 9, 7)),
    "2d strided": (nn.Conv2d(4, 3, 3, stride=2, padding=(2, 1)), (4, 9, 7)),
    "2d in groups": (nn.Conv2d(4, 6, 3, groups=2), (4, 9, 7)),
    "3d": (nn.Conv3d(4, 3, 2, padding=1), (4, 5, 4, 3)),
}


def laid_down(images: torch.Tensor, order: str) -> torch.Tensor:
    """The same images in another order of memory."""
    if order == "channels last":
        return images.movedim(1, -1).contiguous().movedim(-1, 1)
    if order == "examples innermost":  # a gradient that is read elsewhere in memory then is another example's, too
        return images.movedim(0, -1).contiguous().movedim(-1, 0)
    if order == "transposed":
        return images.transpose(-1, -2).contiguous().transpose(-1, -2)
    spread = torch.empty(*images.shape[:-1], 2 * images.shape[-1])
    spread[..., ::2] = images
    return spread[..., ::2]


@pytest.mark.numerics
@pytest.mark.filterwarnings("ignore:Full backward hook")
@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch"])
@pytest.mark.parametrize("order", ["channels last", "examples innermost", "transposed", "every other"])
@pytest.mark.parametrize("name", LAYERS)
def test_of_a_convolution(name: str, order: str, mode: str) -> None:
    """Against the gradients of one example at a time, in the usual order."""
    layer, shape = LAYERS[name]
    model = nn.Sequential(copy.deepcopy(layer))
    images = torch.rand(3, *shape, generator=torch.Generator().manual_seed(1))
    expected = [torch.autograd.grad(layer(image[None]).square().sum(), list(layer.parameters())) for image in images]
    private, optimizer = sgd.attach(
        model, lr=0.0, sampling_rate=0.5, expected_batch_size=3, grad_sample_mode=mode, loss_reduction="sum"
    )
    optimizer.begin_batch(3)
    other = laid_down(images, order)
    assert torch.equal(images, other) and not other.is_contiguous()
    private(other).square().sum().backward()
    for found, wanted in zip(optimizer.grad_samples, zip(*expected, strict=True), strict=True):
        assert torch.allclose(found, torch.stack(wanted), rtol=1e-4, atol=1e-5)


# --- Layers that Opacus misreads are read by functorch, and those whose gradients count the batch are refused
def convolution(dim: int, mode: str, **options) -> nn.Module:
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dim - 1]
    return nn.Sequential(kind(2, 3, 3, padding=1, padding_mode=mode, **options), nn.Flatten(), nn.Linear(3 * 4**dim, 3))


def embedding(**options) -> nn.Module:
    return nn.Sequential(nn.Embedding(7, 4, **options), nn.Flatten(), nn.Linear(20, 3))


MISREAD = [
    (lambda mode=mode, dim=dim: convolution(dim, mode), torch.randn(N, 2, *[4] * dim))
    for mode in ("circular", "reflect", "replicate")
    for dim in (1, 2, 3)
] + [
    (lambda: convolution(2, "circular", bias=False), torch.randn(N, 2, 4, 4)),
    (lambda: embedding(padding_idx=0), torch.randint(2, (N, 5))),
]  # fmt: skip


@pytest.mark.numerics
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(("build", "features"), MISREAD)
def test_layers_that_opacus_misreads(build, features, reduction: str) -> None:
    model = build()
    alone = copy.deepcopy(model)
    wanted = [
        torch.autograd.grad(nn.functional.cross_entropy(alone(features[i : i + 1]), torch.tensor([i % 3])), alone.parameters())
        for i in range(N)
    ]  # fmt: skip
    private, optimizer = attached(model, reduction=reduction)
    samples = step(private, optimizer, features, reduction)
    for found, *examples in zip(samples, *wanted, strict=True):
        torch.testing.assert_close(found.detach(), torch.stack(examples))
    step(private, optimizer, features[:0], reduction)
    assert not any(total.any() for total in optimizer.clipped_total)
    model[0].requires_grad_(False)
    step(private, optimizer, features, reduction)
    model[0].requires_grad_(True)
    step(private, optimizer, features, reduction)
    assert optimizer.accountant.steps == 4


@pytest.mark.numerics
def test_counts_over_the_batch_are_refused() -> None:
    with refused("module", "0"):
        attached(embedding(scale_grad_by_freq=True))
