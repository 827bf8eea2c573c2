"""The optimizer: what it does at a step, what a state holds, and what is done to gradients between steps."""

import copy
import itertools
import math
import pickle
import random
from collections import UserDict, namedtuple
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from opacus import PrivacyEngine
from opacus.schedulers import ExponentialGradClip
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.ao.quantization import FakeQuantize, MovingAverageMinMaxObserver
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader, TensorDataset, default_collate

from dptheory.privacy import Composition
from dptheory.training import PrivacyEngine as OurEngine
from dptheory.training import make_private
from dptheory.training import mechanisms as m
from dptheory.training._streams import simulation
from dptheory.training.engine import MechanismOptimizer, PartitionBatches, attach, secure_noise
from dptheory.training.engine._empty_batches import CollateAlsoNone
from dptheory.training.mechanisms import (
    AnchorGradients,
    Constant,
    DpSgd,
    GepJoint,
    LayerFreezing,
    Mechanism,
    RandomSparsification,
    RankedSparsification,
)
from dptheory.training.mechanisms._base import noised
from dptheory.training.networks import small_tanh_cnn
from tests.refused import refused
from tests.training import sgd
from tests.training.sgd import epoch

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG")

# The optimizer: plain DP-SGD agrees with Opacus, masks and virtual batches do what they say, and errors name the
# remedy


N, B = 64, 16


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
        mine, attached = sgd.attach(
            ours, lr=0.5, momentum=0.9, sampling_rate=B / N, train_size=N, noise_multiplier=0.7, max_grad_norm=0.5,
            noise_generator=torch.Generator().manual_seed(5),
        )  # fmt: skip
    engine = PrivacyEngine(accountant="rdp")
    private, optimizer, batches = engine.make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9), data_loader=loader(),
        noise_multiplier=0.7, max_grad_norm=0.5, noise_generator=torch.Generator().manual_seed(5),
    )  # fmt: skip
    for pixels, labels in itertools.islice(batches, 3):
        one(private, optimizer, pixels, labels)
        sgd.step(mine, attached, pixels, labels)
    np.testing.assert_allclose(flat(ours), flat(model), atol=1e-5)
    assert np.abs(flat(ours) - flat(small_tanh_cnn(0))).max() > 0.01


@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch"])
@pytest.mark.parametrize("physical", [None, 5])
def test_virtual_batches_and_modes_change_nothing(mode: str, physical: int | None) -> None:
    base, _ = train(RandomSparsification(Constant(0.5), seed=2))
    other, optimizer = train(RandomSparsification(Constant(0.5), seed=2), physical=physical, grad_sample_mode=mode)
    np.testing.assert_allclose(flat(base), flat(other), atol=1e-5)
    assert optimizer.accountant.steps == 3


def test_empty_batch_adds_noise_only() -> None:
    model = small_tanh_cnn(0)
    private, optimizer = attach(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), sampling_rate=B / N, train_size=N, mechanism=DpSgd(),
        noise_multiplier=2.0, max_grad_norm=0.5, noise_generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    before = flat(model)
    sgd.step(private, optimizer, torch.zeros(0, 1, 28, 28), torch.zeros(0, dtype=torch.long))
    change = (flat(model) - before) * B
    assert not any(t.any() for t in optimizer.clipped_total)
    assert abs(change.std() - 1.0) < 0.02 and optimizer.accountant.steps == 1


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
    private, optimizer = sgd.attach(
        model, lr=1.0, mechanism=mechanism, sampling_rate=0.1, train_size=100, noise_multiplier=sigma,
        max_grad_norm=clip, secure=secure, noise_generator=None if secure else torch.Generator().manual_seed(1),
    )  # fmt: skip
    before = flat(model)
    sgd.step(private, optimizer, torch.randn(8, 1, 28, 28), torch.arange(8))
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
    private, optimizer = sgd.attach(
        model, lr=0.0, mechanism=mechanism, sampling_rate=0.1, train_size=100, noise_multiplier=sigma,
        max_grad_norm=clip,
    )  # fmt: skip
    for _ in range(4 + 2):
        sgd.step(private, optimizer, torch.randn(0, 1, 28, 28), torch.zeros(0, dtype=torch.long))
    masked = torch.cat([s[~k] for s, k in zip(mechanism._sums, mechanism.mask, strict=True)])
    assert float(masked.std()) == pytest.approx(sigma * clip * 2**0.5, rel=0.05)


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.idle = nn.Linear(784, 10), nn.Linear(3, 3)

    def forward(self, x):
        return self.used(x.flatten(1))


def attempt(model: nn.Module, **options) -> None:
    private, optimizer, batches = sgd.make_private(
        model, loader(), **{"mechanism": DpSgd(), "noise_multiplier": 1.0, "max_grad_norm": 1.0} | options
    )
    run(private, optimizer, batches, 1)


def test_a_layer_that_takes_no_part_is_refused_by_name() -> None:
    with refused("idle.weight", "requires_grad_"):
        attempt(Unused())


def test_step_without_zero_grad_is_refused() -> None:
    model = small_tanh_cnn(0)
    private, optimizer, batches = sgd.make_private(model, loader())
    pixels, labels = next(iter(batches))
    one(private, optimizer, pixels, labels)
    with refused("conv1.weight", "zero_grad()"):
        optimizer.step()


@pytest.mark.parametrize("cleared_by", ["model", "optimizer"])
def test_no_step_holds_examples_of_the_one_before(cleared_by: str) -> None:
    """Also after ``model.zero_grad()``, which knows nothing of the optimizer's totals."""
    model = small_tanh_cnn(0)
    private, optimizer, batches = sgd.make_private(
        model, loader(), noise_multiplier=0.0, max_grad_norm=0.001, probe=False
    )
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


# --- The batch of no examples: its form is worked out before the run, whatever the collate function gives ---


FIRST, OTHER = (torch.arange(6.0), torch.tensor(1)), (torch.arange(6.0) + 1, torch.tensor(2))
Named = namedtuple("Named", "x y")


class Encoding(UserDict):
    """As Hugging Face's: entries are attributes, and ``to`` moves it."""

    def __init__(self, data, lengths):
        super().__init__(data)
        self.lengths = lengths

    def __getattr__(self, name):
        if name == "data" or name not in self.data:
            raise AttributeError(name)
        return self.data[name]

    def to(self, device):
        return self


@dataclass(frozen=True, slots=True)
class Slotted:
    x: torch.Tensor
    words: list


class Plain:
    def __init__(self, x):
        self.x, self.kind = x, "plain"


def empty(collate, chance: float = 0.5):
    return CollateAlsoNone(collate, FIRST, OTHER, chance=chance)([])


def xs(rows) -> torch.Tensor:
    return torch.stack([row[0] for row in rows])


def test_tensors_lists_and_mappings() -> None:
    x, y = empty(default_collate)
    assert x.shape == (0, 6) and y.shape == (0,) and y.dtype == torch.int64
    assert empty(lambda rows: rows) == []
    assert empty(lambda rows: {"text": ["a"] * len(rows), "one": ["a"], "n": len(rows), "none": None}) == {
        "text": [], "one": ["a"], "n": 0, "none": None,
    }  # fmt: skip
    assert empty(lambda rows: (tuple("a" for _ in rows), 2.5)) == ((), 2.5)


def test_kinds_stay_what_they_are() -> None:
    found = empty(lambda rows: Named(xs(rows), [1]))
    assert type(found) is Named and found.x.shape == (0, 6) and found.y == [1]
    found = empty(lambda rows: Encoding({"x": xs(rows)}, [6] * len(rows))).to("cpu")
    assert type(found) is Encoding and found.x.shape == (0, 6) and found["x"] is found.x and found.lengths == []
    found = empty(lambda rows: Slotted(xs(rows), ["w"] * len(rows)))
    assert type(found) is Slotted and found.x.shape == (0, 6) and found.words == []
    found = empty(lambda rows: [Plain(xs(rows)), {"deep": (xs(rows),)}])
    assert type(found[0]) is Plain and found[0].x.shape == (0, 6) and found[0].kind == "plain"
    assert found[1]["deep"][0].shape == (0, 6)


def test_sizes_go_on_to_none() -> None:
    """Examples second, one behind another, pairs of them, offsets; numpy's arrays."""
    assert empty(lambda rows: xs(rows).T).shape == (6, 0)
    assert empty(lambda rows: xs(rows).flatten()).shape == (0,)
    assert empty(lambda rows: torch.ones(len(rows), len(rows), 2)).shape == (0, 0, 2)
    assert empty(lambda rows: torch.arange(len(rows) + 1)).tolist() == [0]
    found = empty(lambda rows: np.ones((2, len(rows)), dtype=np.float32))
    assert found.shape == (2, 0) and found.dtype == np.float32


def test_nothing_of_an_example_stays() -> None:
    """A constant does; what differs between examples is zero."""
    assert empty(lambda rows: torch.eye(3)).tolist() == torch.eye(3).tolist()
    assert empty(lambda rows: xs(rows).mean(0)).tolist() == [0.0] * 6
    assert empty(lambda rows: float(rows[0][0][0])) == 0.0
    assert empty(lambda rows: int(rows[0][1])) == 0


def test_every_empty_batch_is_a_new_one() -> None:
    collate = CollateAlsoNone(lambda rows: [torch.eye(2)], FIRST, OTHER, chance=0.5)
    collate([])[0].zero_()
    assert collate([])[0].any() and collate([FIRST])[0].any()


UNKNOWN = {
    "packed": lambda rows: pack_sequence([row[0] for row in rows]),
    "joined text": lambda rows: "a" * len(rows),
    "a generator": lambda rows: (row for row in rows),
    "nested": lambda rows: torch.nested.nested_tensor([row[0] for row in rows]),
    "another kind": lambda rows: xs(rows) if len(rows) == 1 else [xs(rows)],
    "faster than the examples": lambda rows: torch.ones(len(rows) ** 2),
    "other entries": lambda rows: {f"x{i}": row for i, row in enumerate(rows)},
    "fails on one": lambda rows: rows[1],
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", UNKNOWN)
def test_what_cannot_be_told_is_refused_at_once(name: str) -> None:
    loader = DataLoader(TensorDataset(torch.zeros(20, 6), torch.zeros(20)), 2, collate_fn=UNKNOWN[name])
    model = nn.Linear(6, 1)
    with refused("data_loader", "collate_fn"):
        sgd.make_private(model, loader)


def test_what_never_comes_is_not_asked_for() -> None:
    collate = CollateAlsoNone(UNKNOWN["packed"], FIRST, OTHER, chance=1e-19)
    assert collate([FIRST]).data.shape == (6,)
    with refused("data_loader"):
        collate([])


def test_the_runs_own_randomness_is_left_alone() -> None:
    def augmented(rows):
        return xs(rows) + torch.rand(6) + random.random() + np.random.random()  # noqa: NPY002

    drawn = []
    for looked in (False, True):
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        if looked:
            CollateAlsoNone(augmented, FIRST, OTHER, chance=0.5)
        drawn.append(augmented([FIRST]))
    assert torch.equal(*drawn)


# --- A forward pass in training that writes to parameters or buffers is refused, and what writes elsewhere is not ---


def made(model: nn.Module, features: torch.Tensor | None = None, mechanism=None, **options):
    data = TensorDataset(torch.randn(40, 5) if features is None else features, torch.arange(40) % 3)
    return sgd.make_private(
        model, DataLoader(data, batch_size=20), momentum=0.9, mechanism=mechanism or DpSgd(), **options
    )


class Centred(nn.Module):
    """Takes off a running mean."""

    def __init__(self, replaced: bool) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(5))
        self.replaced = replaced

    def forward(self, x):
        if self.training and self.replaced:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        elif self.training:
            self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return x - self.mean


class Clamped(nn.Linear):
    def forward(self, x):
        with torch.no_grad():
            self.weight.clamp_(-1.0, 1.0)
        return super().forward(x)


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (lambda: Centred(False), "0.mean"),
        (lambda: Centred(True), "0.mean"),
        (lambda: FakeQuantize(observer=MovingAverageMinMaxObserver), "0."),
        (lambda: Clamped(5, 5), "0.weight"),
    ],
)
@pytest.mark.parametrize("with_gradients", [True, False])
def test_a_forward_pass_that_writes_is_refused(layer, name: str, with_gradients: bool) -> None:
    private, optimizer, _ = made(nn.Sequential(layer(), nn.Linear(5, 3)))
    with refused("module", name), torch.set_grad_enabled(with_gradients):
        private(torch.randn(8, 5))
    assert optimizer.accountant.steps == 0


def test_the_layer_may_be_put_into_eval() -> None:
    model = nn.Sequential(Centred(False), nn.Linear(5, 3))
    private, optimizer, batches = made(model)
    model[0].eval()
    assert epoch((private, optimizer, batches)).accountant.steps == 2


def test_evaluation_may_write() -> None:
    private, _, _ = made(nn.Sequential(Clamped(5, 5), nn.Linear(5, 3)))
    private.eval()
    private(torch.randn(8, 5))


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
@pytest.mark.parametrize("trained", [True, False])
def test_embeddings_that_renormalise_are_refused_at_once(kind, trained: bool) -> None:
    embedding = kind(7, 5, max_norm=1.0)
    embedding.weight.requires_grad_(trained)
    model = nn.Sequential(embedding, nn.Flatten(), nn.Linear(5, 3))
    with refused("module", kind.__name__, "0", "1.0"):
        made(model, torch.randint(7, (40, 1)))


def test_an_embedding_that_renormalises_later_is_refused_too() -> None:
    embedding = nn.Embedding(7, 5)
    private, _, _ = made(nn.Sequential(embedding, nn.Flatten(), nn.Linear(5, 3)), torch.randint(7, (40, 1)))
    embedding.max_norm = 1.0
    with refused("module", "1.0"):
        private(torch.randint(7, (4, 1)))


@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch"])
def test_what_a_run_does_beside_is_no_write(mode: str) -> None:
    """Steps with momentum, dropout, parts, layers frozen on the way, weights loaded between passes, evaluation."""
    model = nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5), nn.GroupNorm(2, 4), nn.Linear(4, 3))
    private, optimizer, batches = made(
        model, mechanism=LayerFreezing(DpSgd(), frozen_layers=1, from_step=2), grad_sample_mode=mode
    )
    epoch((private, optimizer, batches))
    kept = {name: value.clone() for name, value in private.state_dict().items()}
    private.eval()
    private(torch.randn(8, 5))
    private.train()
    private.load_state_dict(kept)
    with BatchMemoryManager(data_loader=batches, max_physical_batch_size=8, optimizer=optimizer) as small:
        epoch((private, optimizer, small))
    assert optimizer.accountant.steps == 4


class Changing(nn.Module):
    """Puts another layer in the place of one of its own."""

    def __init__(self, first: nn.Module, then: nn.Module) -> None:
        super().__init__()
        self.part, self._then = first, [then]

    def forward(self, x):
        self.part = self._then[0]
        return self.part(x)


def test_a_layer_that_is_replaced_is_refused_where_it_holds_something() -> None:
    with_buffer = Centred(False).eval()
    private, _, _ = made(nn.Sequential(Changing(nn.Tanh(), nn.ReLU()), nn.Linear(5, 3)))
    private(torch.randn(8, 5))
    private, _, _ = made(nn.Sequential(Changing(with_buffer, nn.ReLU()), nn.Linear(5, 3)))
    with refused("module", "0.part"):
        private(torch.randn(8, 5))


def test_a_layer_that_stands_in_two_places_is_looked_at() -> None:
    shared = Centred(False)
    private, _, _ = made(nn.Sequential(nn.Sequential(shared), shared, nn.Linear(5, 3)))
    with refused("module", "0.0.mean"):
        private(torch.randn(8, 5))


# --- States of an optimizer: those of a run that rests on something else are refused ---


DATA = TensorDataset(torch.randn(40, 6, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2)
CALLERS = {"sampling_rate": 0.25, "expected_batch_size": 10.0}


def an_engine(secure: bool = False, **options):
    engine, model = OurEngine(m.DpSgd(), secure_mode=secure), nn.Linear(6, 2)
    return engine, engine.make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=DataLoader(DATA, 10),
        noise_multiplier=1.0, max_grad_norm=1.0, **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "now", "shown"),
    [
        ({}, {"secure": True}, (True, False)),
        ({"secure": True}, {}, (False, True)),
        ({}, CALLERS, ("'add-remove'", "'zero-out'")),
        (CALLERS, {}, ("'zero-out'", "'add-remove'")),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_steps_that_rest_on_something_else_are_refused(
    tmp_path: Path, before: dict, now: dict, shown: tuple, whole: bool
) -> None:
    """The report would say of seeded steps that they are secure, and of one adjacency that it is the other."""
    engine, made = an_engine(**before)
    epoch(made)
    engine.save_checkpoint(path=tmp_path / "one.pt", module=made[0], optimizer=made[1])
    other, again = an_engine(**now)
    with refused("state", *shown):
        other.load_checkpoint(path=tmp_path / "one.pt", module=again[0], optimizer=again[1] if whole else None)
    assert other.accountant.steps == 0
    same, third = an_engine(**before)
    same.load_checkpoint(path=tmp_path / "one.pt", module=third[0], optimizer=third[1])
    assert same.accountant.steps == 4


def test_steps_of_another_sampler_are_refused() -> None:
    """A partition is counted like Poisson batches that hold every example, but is none."""

    def attached(**options) -> MechanismOptimizer:
        model = nn.Linear(6, 2)
        return sgd.attach(model, sampling_rate=1.0, expected_batch_size=40, **options)[1]

    parted, poisson = attached(batches=PartitionBatches(train_size=40, batch_size=10, seed=0)), attached()
    parted.accountant.record(m.StepCost(1.0))
    with refused("state"):
        poisson.load_state_dict(parted.state_dict())


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_optimizer_is_not_copied(copied) -> None:
    """A copy that torch made had its hooks in the class: no private optimizer of the process made a step any more."""
    made = an_engine()[1]
    with pytest.raises(TypeError, match="MechanismOptimizer"):
        copied(made[1])
    epoch(made)
    assert made[1].accountant.steps == 4
    copy.deepcopy(made[1].state_dict())


# --- The clip may change from batch to batch: one batch has one, and a step sees whether it is a clip at all ---


class Clips(DpSgd):
    """DP-SGD that notes the clips it is handed, and the noise that it is told of."""

    def __init__(self) -> None:
        self.parts: list[float] = []
        self.batches: list[tuple[list[float], float, float]] = []

    def contribute(self, samples, clip_norm):
        self.parts.append(clip_norm)
        return super().contribute(samples, clip_norm)

    def release(self, total, *, noise_multiplier, clip_norm, noise):
        self.released = clip_norm
        return super().release(total, noise_multiplier=noise_multiplier, clip_norm=clip_norm, noise=noise)

    def end_step(self, released, std: float) -> None:
        self.batches.append((self.parts, self.released, std))
        self.parts = []


def with_clip(mechanism, model):
    data = TensorDataset(torch.randn(64, 5), torch.arange(64) % 3)
    return sgd.make_private(
        model, DataLoader(data, batch_size=32, generator=torch.Generator().manual_seed(0)), mechanism=mechanism,
        max_grad_norm=8.0, noise_multiplier=0.5, probe=False,
    )  # fmt: skip


def test_a_schedule_that_moves_between_parts_leaves_each_batch_one_clip() -> None:
    mechanism = Clips()
    private, optimizer, batches = with_clip(mechanism, nn.Linear(5, 3))
    schedule = ExponentialGradClip(optimizer, gamma=0.5)
    with BatchMemoryManager(data_loader=batches, max_physical_batch_size=8, optimizer=optimizer) as small:
        for part in small:
            one(private, optimizer, *part)
            schedule.step()
    assert len(mechanism.batches) == 2 and all(len(parts) > 2 for parts, _, _ in mechanism.batches)
    for parts, released, std in mechanism.batches:
        assert set(parts) == {released} and std == 0.5 * released
    assert mechanism.batches[0][1] == 8.0 and mechanism.batches[1][1] == 8.0 * 0.5 ** len(mechanism.batches[0][0])


@pytest.mark.parametrize("clip", [0, -1.0, 1e-20, math.inf, math.nan, None, [1.0, 1.0], "1"])
def test_a_step_sees_the_clip_that_it_is_left(clip) -> None:
    private, optimizer, batches = with_clip(DpSgd(), nn.Linear(5, 3))
    optimizer.max_grad_norm = clip
    with refused("max_grad_norm"):
        one(private, optimizer, *next(iter(batches)))
    assert optimizer.accountant.steps == 0


def test_a_step_sees_whether_the_mechanism_takes_the_clip() -> None:
    model = nn.Linear(5, 3)
    anchors = AnchorGradients(model, torch.randn(20, 5), classes=3, seed=0)
    private, optimizer, batches = with_clip(
        GepJoint(anchors, subspace_dim=3, residual_clip=0.5, groups=[[0, 1]], seed=0), model
    )
    optimizer.max_grad_norm = 0.4
    with refused("residual_clip"):
        one(private, optimizer, *next(iter(batches)))


# --- Groups of parameters with settings of their own leave what a mechanism does as it is ---


ROWS = 12


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


def grouped(model: nn.Module) -> list[dict]:
    """Weights with decay of zero, biases without: in another order than the model's."""
    named = list(model.named_parameters())
    return [
        {"params": [p for name, p in named if "bias" in name]},
        {"params": [p for name, p in named if "weight" in name], "weight_decay": 0.0},
    ]


def trained(model: nn.Module, params, mechanism: m.Mechanism, sigma: float = 0.0) -> list[torch.Tensor]:
    """The released gradients after a step."""
    private, optimizer = attach(
        module=model, optimizer=torch.optim.SGD(params, lr=0.1), mechanism=mechanism, sampling_rate=0.1, expected_batch_size=ROWS,
        noise_multiplier=sigma, max_grad_norm=1.0, noise_generator=torch.Generator().manual_seed(1),
    )  # fmt: skip
    features = torch.randn(ROWS, 5, generator=torch.Generator().manual_seed(2))
    sgd.step(private, optimizer, features, torch.arange(ROWS) % 3)
    return [p.grad.clone() for p in model.parameters() if p.requires_grad]


def gep(model: nn.Module, groups: list[list[int]]) -> m.Gep:
    pixels = torch.randn(40, 5, generator=torch.Generator().manual_seed(3))
    anchors = m.AnchorGradients(model, pixels, classes=3, seed=0)
    return m.Gep(anchors, subspace_dim=6, residual_clip=0.5, groups=groups, seed=0)


BUILD = {
    "gep": lambda model: gep(model, [[0, 1, 2, 3]]),
    "gep in groups": lambda model: gep(model, [[0, 1], [2, 3]]),
    "quiet layers": lambda _: m.QuietLayers(quiet=1, from_step=0),
    "random sparsification": lambda _: m.RandomSparsification(m.Constant(0.5), 0),
    "layer freezing": lambda _: m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=0),
}


@pytest.mark.parametrize("sigma", [0.0, 2.0])
@pytest.mark.parametrize("name", BUILD)
def test_groups_change_nothing(name: str, sigma: float) -> None:
    released = []
    for grouping in (nn.Module.parameters, grouped, lambda model: list(model.parameters())[::-1]):
        model = network()
        released.append(trained(model, grouping(model), BUILD[name](model), sigma))
    for other in released[1:]:
        for a, b in zip(released[0], other, strict=True):
            torch.testing.assert_close(a, b)


# --- The bits of a release, and the sum over many parts


@pytest.mark.parametrize("release", ["all together", "one by one"])
def test_the_lowest_bits_of_a_secure_release_are_of_no_data_set(release: str) -> None:
    """Of 1 + noise in [1/4, 1/2) half are odd multiples of the last place there; none were when the noise was rounded first."""
    values = [torch.ones(40_000)] if release == "all together" else [torch.ones(20_000), torch.ones(20_000).double()]
    noisy = torch.cat([one.double() for one in noised(values, 4.0, secure_noise) if one.dtype == torch.float32])
    there = noisy[(noisy >= 0.25) & (noisy < 0.5)] * 2.0**25
    odd = float((there.remainder(2) == 1).double().mean())
    assert len(there) > 300 and abs(odd - 0.5) < 5 * 0.5 / len(there) ** 0.5


def test_a_record_moves_the_total_of_many_parts_by_its_own_gradient() -> None:
    """Added up in float32, neighbours' totals differed by 1.016 C for 1,024 parts of one record, by 5 C for 16,384."""
    n = 1024
    ulp = torch.finfo(torch.float32).eps * n / 4
    slopes = torch.tensor([1.0, 0.5, *[1.0] * (n // 2 - 1), *[-0.75 * ulp] * (n // 2 - 1)])

    def total(first: float) -> float:
        model = nn.Linear(1, 1, bias=False)
        private, optimizer = attach(
            module=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), mechanism=DpSgd(), sampling_rate=1.0,
            train_size=n, noise_multiplier=0.0, max_grad_norm=1.0, loss_reduction="sum",
        )  # fmt: skip
        optimizer.begin_batch(n)
        for place, slope in enumerate([first, *slopes[1:].tolist()]):
            optimizer.signal_skip_step(place < n - 1)
            optimizer.zero_grad()
            (private(torch.ones(1, 1)) * slope).sum().backward()
            optimizer.step()
        return float(optimizer.clipped_total[0])

    assert total(1.0) - total(0.0) == pytest.approx(1.0, abs=n * 2.0**-24)


def test_each_run_keeps_its_own_accountant() -> None:
    """Two runs on the same records: that of the first would count the steps of the second at its own sampling rate."""
    one, two = (
        sgd.attach(nn.Linear(3, 2), sampling_rate=rate, expected_batch_size=10, noise_multiplier=1.0)[1]
        for rate in (0.01, 1.0)
    )
    own = two.accountant
    with refused("accountant", "Composition"):
        two.accountant = one.accountant
    assert two.accountant is own
    one.accountant.record(m.StepCost(1.0))
    own.record(m.StepCost(1.0))
    parts = [part for each in (one, two) for part in each.accountant.composition().parts]  # what the error says to do
    assert Composition(parts).epsilon(1e-5).upper > max(each.epsilon(1e-5) for each in (one, two))


def test_the_divisor_stays() -> None:
    """That of the batch at hand would show how many records were drawn."""
    optimizer = sgd.attach(nn.Linear(3, 2), sampling_rate=0.5, expected_batch_size=10)[1]
    with refused("expected_batch_size", "make_private"):
        optimizer.expected_batch_size = 7
    assert optimizer.expected_batch_size == 10.0


# --- Any other optimizer over the same weights: its step() would take the gradients that backward() left ---


def given_one(**options):
    model = nn.Linear(3, 2)
    sgd_given = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, sgd_given, again_private(model, sgd_given, **options)


def again_private(model: nn.Module, optimizer: torch.optim.Optimizer, make=attach, **options):
    given = {"noise_multiplier": 1.0, "sampling_rate": 0.5, "expected_batch_size": 4} | options
    return make(module=model, optimizer=optimizer, max_grad_norm=1.0, **{"mechanism": DpSgd(), **given})


def backward_of_four(private: nn.Module, optimizer: MechanismOptimizer) -> None:
    sgd.backward(private, optimizer, torch.randn(4, 3), torch.arange(4) % 2)


def test_the_optimizer_that_was_given_makes_no_step_of_its_own() -> None:
    """Neither with a closure, nor under a scheduler, nor with a state of its own; and the private one goes on as before."""
    for mode in ("factors", "hooks", "functorch", "whole network"):
        model, bare, (private, optimizer) = given_one(grad_sample_mode=mode)
        schedulers = [torch.optim.lr_scheduler.StepLR(one, 1) for one in (bare, optimizer)]  # which wrap step()
        backward_of_four(private, optimizer)
        bare.load_state_dict(bare.state_dict())
        before = flat(model)
        for step in (bare.step, lambda bare=bare: bare.step(lambda: 0.0)):
            with refused("optimizer", "make_private", "to_standard_module()"):
                step()
        assert np.array_equal(flat(model), before) and not bare.state and optimizer.accountant.steps == 0
        optimizer.step()
        assert not np.array_equal(flat(model), before) and optimizer.accountant.steps == 1
        optimizer.load_state_dict(optimizer.state_dict())
        with refused("optimizer"):
            bare.step()
        for scheduler in schedulers:
            scheduler.step()
    _, bare, (_, optimizer) = given_one()
    with refused("weight"):
        optimizer.step()  # without a backward pass
    with refused("optimizer"):
        bare.step()


def test_the_optimizer_that_was_given_is_the_users_own_where_the_private_run_is_over() -> None:
    """And in a second run, private again, it is not; neither does the first one's stand in the way."""
    model, bare, (private, optimizer) = given_one()
    for _ in range(2):
        backward_of_four(private, optimizer)
        optimizer.step()
        with refused("optimizer"):
            bare.step()
        assert private.to_standard_module() is model
        before = flat(model)
        nn.functional.cross_entropy(model(torch.randn(4, 3)), torch.arange(4) % 2).backward()
        bare.step()
        assert not np.array_equal(flat(model), before)
        private, optimizer = again_private(model, bare)


def test_a_call_that_fails_leaves_the_given_optimizer_as_it_was() -> None:
    class Failing(DpSgd):
        def belong(self, private: nn.Module) -> None:
            raise ValueError("failed")

    model = nn.Linear(3, 2)
    bare = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="failed"):
        again_private(model, bare, mechanism=Failing())
    model(torch.randn(4, 3)).sum().backward()
    bare.step()
    private, optimizer = again_private(model, bare)
    backward_of_four(private, optimizer)
    optimizer.step()
    with refused("optimizer"):
        bare.step()


@pytest.mark.parametrize("other", [copy.copy, lambda one: torch.optim.Adam(one.param_groups[0]["params"][:1])])
def test_no_other_optimizer_steps_private_weights(other) -> None:
    """A fresh one, or a shallow copy, trained on bare gradients, and epsilon said nothing of it; so one of a layer that came later."""
    model, bare, (private, optimizer) = given_one()
    apart = torch.optim.SGD(nn.Linear(3, 2).parameters(), lr=0.1)
    model.later = nn.Linear(2, 2)
    backward_of_four(private, optimizer)
    before = flat(model)
    for steps in (other(bare).step, torch.optim.SGD(model.later.parameters(), lr=0.1).step):
        with refused("optimizer", "to_standard_module()"):
            steps()
    apart.step()
    assert np.array_equal(flat(model), before)
    optimizer.step()
    private.to_standard_module()
    other(bare).step()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_the_given_optimizer_can_be_copied_and_pickled(copied) -> None:
    """With copies of the parameters, which are nobody's private ones."""
    _, bare, (private, optimizer) = given_one()
    backward_of_four(private, optimizer)
    optimizer.step()
    optimizer.zero_grad()
    other = copied(bare)
    for group in other.param_groups:
        for p in group["params"]:
            p.grad = torch.ones_like(p)
    other.step()
    with refused("optimizer"):
        bare.step()
