"""Layers and attention through the hooks, and products that lose nothing."""

import itertools
from collections.abc import Iterator

import pytest
import torch
from opacus.layers import DPMultiheadAttention
from opacus.validators import ModuleValidator
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

from dptheory.training import make_private
from dptheory.training import mechanisms as m
from dptheory.training.engine import GRAD_SAMPLE_MODES
from dptheory.training.engine._attention import Attention, adapt_attention
from dptheory.training.engine._optimizer import exact_products
from dptheory.training.mechanisms import Constant, DpSgd, RandomSparsification
from tests.refused import refused
from tests.training import errors_table as t
from tests.training.sgd import epoch

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")

# Models of which a part is trained, frozen and unfrozen later (Opacus's issues 315, 472, 477, 542, 645, 687, 729)


DATA = TensorDataset(torch.randn(40, 6, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))


def private(model: nn.Module, params=None, mechanism: m.Mechanism | None = None, **options):
    optimizer = torch.optim.SGD(model.parameters() if params is None else params, lr=0.1, momentum=0.9)
    chosen = {"mechanism": mechanism or m.DpSgd(), "noise_multiplier": 1.0, "max_grad_norm": 1.0} | options
    return make_private(module=model, optimizer=optimizer, data_loader=DataLoader(DATA, 10), **chosen)


def moved(model: nn.Module, made) -> set[str]:
    """The parameters that a pass changes."""
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    epoch(made)
    return {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}


ALL = {"0.weight", "0.bias", "2.weight", "2.bias"}

MECHANISMS = (
    m.DpSgd, lambda: m.RandomSparsification(m.Constant(0.2), 0, refresh_steps=3), lambda: m.PosteriorFreeze(m.Constant(0.2), 0),
    lambda: m.RankedSparsification(m.Constant(0.2), steps_per_epoch=3, seed=0),
    lambda: m.IndexPruning(1.0, m.Constant(0.5), group_size=4),
    lambda: m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=10**6),
)  # fmt: skip


@pytest.mark.parametrize("mode", GRAD_SAMPLE_MODES)
def test_every_way_to_train_a_part(mode: str) -> None:
    """Frozen before; part of a layer; an optimizer that holds a part, the others frozen."""
    frozen = network()
    frozen[0].requires_grad_(False)
    assert moved(frozen, private(frozen, grad_sample_mode=mode)) == {"2.weight", "2.bias"}
    both = network()
    both[0].requires_grad_(False)
    assert moved(both, private(both, both[2].parameters(), grad_sample_mode=mode)) == {"2.weight", "2.bias"}
    biases = network()
    for layer in (biases[0], biases[2]):
        layer.weight.requires_grad_(False)
    assert moved(biases, private(biases, grad_sample_mode=mode)) == {"0.bias", "2.bias"}


@pytest.mark.parametrize("mode", GRAD_SAMPLE_MODES)
def test_what_is_frozen_later_stays_and_what_is_unfrozen_moves(mode: str) -> None:
    """Whole layers and parts; with momentum, which would move on what keeps a gradient of zeros."""
    model = network()
    model[0].requires_grad_(False)
    made = private(model, grad_sample_mode=mode)
    assert moved(model, made) == {"2.weight", "2.bias"}
    model[0].requires_grad_(True)
    assert moved(model, made) == ALL
    model[2].weight.requires_grad_(False)
    model[0].requires_grad_(False)
    assert moved(model, made) == {"2.bias"}
    model[2].weight.requires_grad_(True)
    assert moved(model, made) == {"2.weight", "2.bias"}
    assert made[1].accountant.steps == 16
    assert model[0].weight.grad_sample is None and model[0].weight.grad is None


def test_every_mechanism_goes_along() -> None:
    for build in MECHANISMS:
        mechanism, model = build(), network()
        model[0].requires_grad_(False)
        made = private(model, mechanism=mechanism)
        assert moved(model, made) == {"2.weight", "2.bias"}, mechanism.title
        model[0].requires_grad_(True)
        epoch(made)
        assert "0.weight" in moved(model, made), mechanism.title
        model[0].requires_grad_(False)
        assert moved(model, made) <= {"2.weight", "2.bias"}, mechanism.title


def test_the_gradients_of_an_unfrozen_layer_are_those_of_a_layer_that_always_was_trained() -> None:
    features, labels = DATA[:7]
    found = []
    for late in (False, True):
        model = network()
        model[0].requires_grad_(not late)
        wrapped, optimizer, _ = private(model)
        model[0].requires_grad_(True)
        optimizer.loader_drew(7)
        nn.functional.cross_entropy(wrapped(features), labels).backward()
        found.append([p.grad_sample for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_a_layer_frozen_between_backward_and_step_does_not_take_the_bare_gradient() -> None:
    """backward() leaves the sum of the batch, neither clipped nor with noise, in ``p.grad``."""
    model = network()
    wrapped, optimizer, _ = private(model, noise_multiplier=0.0, max_grad_norm=1e-9)
    before = model[0].weight.detach().clone()
    optimizer.loader_drew(40)
    nn.functional.cross_entropy(wrapped(DATA.tensors[0]), DATA.tensors[1]).backward()
    assert model[0].weight.grad.abs().max() > 1e-3
    model[0].requires_grad_(False)
    optimizer.step()
    assert torch.equal(model[0].weight, before)


def test_parts_of_a_batch_have_the_same_trained_parameters() -> None:
    model = network()
    wrapped, optimizer, _ = private(model)
    optimizer.loader_drew(8)
    for freeze in (False, True):
        optimizer.signal_skip_step(not freeze)
        model[0].requires_grad_(not freeze)
        nn.functional.cross_entropy(wrapped(DATA.tensors[0][:4]), DATA.tensors[1][:4]).backward()
        if freeze:
            with refused("requires_grad"):
                optimizer.step()
        else:
            optimizer.step()
        optimizer.zero_grad()
    assert optimizer.accountant.steps == 0


def mixing() -> dict[str, nn.Module]:
    return {
        "BatchNorm1d": nn.BatchNorm1d(5).requires_grad_(False),
        "without parameters": nn.BatchNorm1d(5, affine=False),
        "without statistics of its own": nn.BatchNorm1d(5, affine=False, track_running_stats=False).eval(),
        "statistics of instances": nn.Sequential(
            nn.Unflatten(1, (5, 1)), nn.InstanceNorm1d(5, track_running_stats=True), nn.Flatten()
        ),
    }


def test_frozen_layers_that_mix_samples_are_refused_in_training_and_not_in_eval() -> None:
    """Opacus looks at layers with trained parameters alone, and takes frozen batch normalisation, which mixes."""
    for name, layer in mixing().items():
        model = nn.Sequential(nn.Linear(6, 5), layer, nn.Linear(5, 2))
        with refused("module", "1"):
            private(model)
        if name.startswith("without statistics"):
            continue
        layer.eval()
        made = private(model)
        assert moved(model, made) == {"0.weight", "0.bias", "2.weight", "2.bias"}, name
        made[0].train()  # the whole model, as loops do it before every pass
        with refused("module"):
            epoch(made)


@pytest.mark.parametrize("name", ["BatchNorm1d", "statistics of instances"])
@pytest.mark.parametrize("mode", GRAD_SAMPLE_MODES)
def test_no_pass_of_the_inner_model_or_of_a_copy_takes_running_statistics(mode: str, name: str) -> None:
    """``update_bn`` moved the running mean by exact statistics of the private records, and epsilon said nothing of it."""
    net = nn.Sequential(nn.Linear(6, 5), mixing()[name].eval(), nn.Linear(5, 2))
    made = private(net, grad_sample_mode=mode)
    epoch(made)
    x = DATA.tensors[0]
    for model in (net, AveragedModel(net)):
        before = {key: one.clone() for key, one in model.state_dict().items() if "running" in key}
        assert torch.isfinite(model.eval()(x)).all()
        model.train()
        with refused("module", "eval()"):
            model(x)
        assert before and all(torch.equal(one, model.state_dict()[key]) for key, one in before.items())
        if name == "BatchNorm1d":
            with refused("module", "update_bn"):
                update_bn([x], model)
    net[1].eval()
    epoch(made)
    update_bn([x], made[0].to_standard_module())  # the run is over
    assert not any(layer._forward_pre_hooks for layer in net.modules())


def test_a_layer_that_mixes_samples_cannot_be_unfrozen() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5).requires_grad_(False).eval(), nn.Linear(5, 2))
    made = private(model)
    epoch(made)
    model[1].requires_grad_(True)
    with refused("module"):
        epoch(made)


class Counting(nn.Module):
    """A layer with a buffer, whose gradients come from a pass of the whole network."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(5))
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


def test_a_layer_with_a_buffer_can_be_unfrozen_and_frozen_again() -> None:
    model = nn.Sequential(nn.Linear(6, 5), Counting().requires_grad_(False), nn.Linear(5, 2))
    made = private(model)
    weights = {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert moved(model, made) == weights
    model[1].requires_grad_(True)
    assert moved(model, made) == {*weights, "1.weight"}
    model[1].requires_grad_(False)
    assert moved(model, made) == weights


# Opacus's attention, adapted: what `nn.MultiheadAttention` computes, with every mask, and the examples first in its
# layers


SIZE, QUERIES, KEYS = 3, 4, 5

CASES = [
    {"batch_first": first, "add_bias_kv": biases, "add_zero_attn": zero, "bias": not zero}
    for first, biases, zero in itertools.product([True, False], repeat=3)
]

HIDDEN = torch.arange(SIZE * 2 * QUERIES * KEYS).view(SIZE * 2, QUERIES, KEYS) % 7 == 3

MASKS = {
    "none": {},
    "bool": {"attn_mask": torch.ones(QUERIES, KEYS).triu(2).bool()},
    "float": {"attn_mask": torch.linspace(-2, 2, QUERIES * KEYS).view(QUERIES, KEYS)},
    "for each head": {"attn_mask": HIDDEN},
    "padding": {"key_padding_mask": torch.arange(KEYS) >= torch.tensor([3, 5, 4])[:, None]},
    "padding and mask": {
        "key_padding_mask": torch.where(torch.arange(KEYS) >= torch.tensor([3, 5, 4])[:, None], -torch.inf, 0.0),
        "attn_mask": torch.zeros(QUERIES, KEYS).masked_fill(torch.ones(QUERIES, KEYS).triu(2).bool(), -torch.inf),
    },
    "by head": {"average_attn_weights": False},
}  # fmt: skip


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("options", CASES, ids=str)
def test_computes_what_torch_does(options: dict, masks: str) -> None:
    """After ``ModuleValidator.fix``; outputs and weights, in double precision."""
    torch.manual_seed(0)
    right = nn.MultiheadAttention(6, 2, **options)
    for p in right.parameters():
        nn.init.normal_(p)
    fixed = ModuleValidator.fix(right).double()
    right.double()
    adapt_attention(fixed)
    tensors = [torch.randn(SIZE, places, 6, dtype=torch.float64) for places in (QUERIES, KEYS, KEYS)]
    if not options["batch_first"]:
        tensors = [one.transpose(0, 1) for one in tensors]
    given = {
        k: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in MASKS[masks].items()
    }
    for found, wanted in zip(fixed(*tensors, **given), right(*tensors, **given), strict=True):
        torch.testing.assert_close(found, wanted)


def test_causal_without_a_mask_builds_it() -> None:
    layer = DPMultiheadAttention(6, 2, batch_first=True)
    adapt_attention(layer)
    x = torch.randn(2, 5, 6)
    found, weights = layer(x, x, x, is_causal=True)
    wanted, _ = layer(x, x, x, attn_mask=t.CAUSAL)
    assert torch.equal(found, wanted) and not weights[:, t.CAUSAL].any()
    assert layer(x, x, x, need_weights=False)[1] is None
    assert layer(*[x[:0]] * 3)[0].shape == (0, 5, 6), "an empty Poisson batch"


def test_stays_opacus_own_with_its_names_and_goes_back_after_a_failure() -> None:
    model = nn.ModuleDict({"a": DPMultiheadAttention(6, 2, add_bias_kv=True)})
    names = list(model.state_dict())
    with refused("max_grad_norm"):
        t.private_loop(model, (t.X, t.Y), max_grad_norm=0.0)
    assert type(model["a"]) is DPMultiheadAttention
    t.private_loop(model, (t.X, t.Y))
    assert type(model["a"]) is Attention and isinstance(model["a"], DPMultiheadAttention)
    assert list(model.state_dict()) == names and model["a"].seq_bias_k.batch_first


@pytest.mark.parametrize(
    ("shapes", "masks", "name", "shown"),
    [
        ((5, 6), {}, "query, key and value", ()),
        ((2, 5, 6), {"attn_mask": torch.zeros(4, 5)}, "attn_mask", ((5, 5), (4, 5, 5))),
        ((2, 5, 6), {"key_padding_mask": torch.zeros(5, 2)}, "key_padding_mask", ((2, 5),)),
    ],
)  # fmt: skip
def test_other_shapes_are_refused(shapes: tuple[int, ...], masks: dict, name: str, shown: tuple) -> None:
    layer = DPMultiheadAttention(6, 2, batch_first=True)
    adapt_attention(layer)
    x = torch.zeros(shapes)
    with refused(f"{name} of Attention", *shown):
        layer(x, x, x, **masks)


# --- A step clips in full precision, whatever the loop has set for its own products ---


LONGEST = 1.00001
"""Of a clipped gradient at clip 1, as dptheory.training.mechanisms._clipping derives it."""


@pytest.fixture(autouse=True)
def precision() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def clipped(layer: nn.Module, inputs: torch.Tensor, mode: str, masked: bool, *, autocast: bool) -> float:
    """Norm of the clipped gradient of one record, with the whole loop under autocast."""
    mechanism = RandomSparsification(Constant(0.5), seed=0) if masked else DpSgd()
    model, optimizer, loader = make_private(
        module=layer, optimizer=torch.optim.SGD(layer.parameters(), lr=1.0), mechanism=mechanism, noise_multiplier=0.0,
        data_loader=DataLoader(TensorDataset(inputs), 1), max_grad_norm=1.0, grad_sample_mode=mode,
    )  # fmt: skip
    for (rows,) in loader:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            optimizer.zero_grad()
            (model(rows).float() ** 3).sum().mul(100).backward()
            optimizer.step()
    assert optimizer.clipped_total is not None
    return float(sum(total.double().square().sum() for total in optimizer.clipped_total)) ** 0.5


LAYERS = {
    "without a sequence": (lambda: nn.Linear(200, 300, bias=False), (200,)),
    "a long way from small": (lambda: nn.Linear(200, 300, bias=False), (5, 200)),
    "formed": (lambda: nn.Linear(6, 8, bias=False), (20, 6)),
    "convolution": (lambda: nn.Conv1d(200, 300, 3, bias=False), (200, 9)),
}


@pytest.mark.parametrize("mode", GRAD_SAMPLE_MODES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("setting", ["autocast", "medium", "high"])
@pytest.mark.parametrize("name", LAYERS)
def test_no_clipped_gradient_is_longer_than_the_clip(name: str, setting: str, masked: bool, mode: str) -> None:
    build, shape = LAYERS[name]
    if setting != "autocast":
        torch.set_float32_matmul_precision(setting)
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)
        found = clipped(
            build(), torch.randn(1, *shape, generator=generator), mode, masked, autocast=setting == "autocast"
        )
        assert 0.99 < found <= LONGEST


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="torch before 2.9")
def test_settings_of_the_loop_hold_again() -> None:
    torch.set_float32_matmul_precision("medium")
    before = torch.backends.mkldnn.matmul.fp32_precision
    with torch.autocast("cpu", torch.bfloat16):
        with pytest.raises(KeyError), exact_products():
            assert not torch.is_autocast_enabled("cpu")
            assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"
            raise KeyError
        assert torch.is_autocast_enabled("cpu")
    assert (torch.get_float32_matmul_precision(), torch.backends.mkldnn.matmul.fp32_precision) == ("medium", before)
