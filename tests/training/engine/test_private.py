"""`make_private`, and what it states."""

import copy
import dataclasses
import itertools
import math
import textwrap
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from dptheory import privacy
from dptheory._rounding import rounded_up
from dptheory.privacy import Composition, Step
from dptheory.training import make_private, mechanisms
from dptheory.training import mechanisms as m
from dptheory.training._streams import simulation
from dptheory.training.engine import MechanismOptimizer
from dptheory.training.mechanisms import DpSgd, Mechanism, NoisySgd, _random_sparsification
from dptheory.training.per_example import HookedModule
from tests.refused import refused
from tests.training import sgd
from tests.training.sgd import epoch

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")

# make_private: whose the rate and the divisor are, what it refuses, what it reports, and that a failure leaves no
# trace


FEATURES, DELTA = 6, 1e-5


def data(count: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    return TensorDataset(torch.randn(count, FEATURES, generator=generator), torch.arange(count) % 2)


def private(loader: DataLoader | None = None, model: nn.Module | None = None, **options):
    model = nn.Linear(FEATURES, 2) if model is None else model
    chosen = {"mechanism": m.DpSgd(), "noise_multiplier": 1.0, "max_grad_norm": 1.0} | options
    return sgd.make_private(model, DataLoader(data(40), 10) if loader is None else loader, **chosen)


# --- rate, divisor, steps ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("examples", "batch_size"), [(1000, 100), (1001, 100), (1002, 64)])
def test_the_divisor_does_not_depend_on_the_number_of_examples(examples: int, batch_size: int) -> None:
    _, optimizer, loader = private(DataLoader(data(examples), batch_size))
    assert optimizer.expected_batch_size == batch_size  # and not by a rounding error from it
    assert optimizer.accountant.sampling_rate == loader.batch_sampler.sample_rate == batch_size / examples
    assert len(loader) == round(examples / batch_size)
    report = optimizer.privacy(DELTA)
    assert report.sampler == "Poisson"
    assert report.adjacency == "zero-out" and "number of training examples" in report.public


@pytest.mark.parametrize("examples", [1000, 1001])
def test_rate_and_divisor_of_the_caller(examples: int) -> None:
    _, optimizer, loader = private(
        DataLoader(data(examples), 7), sampling_rate=0.03, expected_batch_size=29.5, probe=False
    )
    assert optimizer.expected_batch_size == 29.5
    assert optimizer.accountant.sampling_rate == loader.batch_sampler.sample_rate == 0.03
    assert len(loader) == sum(1 for _ in loader) == 33
    report = optimizer.privacy(DELTA)
    assert report.adjacency == "add-remove" and "number of training examples" not in report.public


def test_the_update_is_divided_by_the_callers_constant() -> None:
    model = nn.Linear(FEATURES, 2, bias=False)
    made = private(model=model, sampling_rate=1.0, expected_batch_size=5.0, noise_multiplier=0.0)
    before = model.weight.detach().clone()
    optimizer = epoch(made)
    moved = before - model.weight.detach()
    torch.testing.assert_close(moved, 0.1 * optimizer.clipped_total[0] / 5.0)


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize(("examples", "batch_size"), [(30, 7), (45, 20)])
def test_the_loader_draws_with_the_reported_rate(examples: int, batch_size: int, secure: bool) -> None:
    """Binomial counts of every example, and of all: a rate of 1 / len(loader) would be off by a sixth."""
    torch.manual_seed(0)
    _, optimizer, loader = private(DataLoader(data(examples), batch_size), secure=secure, probe=False)
    counts, passes = np.zeros(examples), 0
    while passes * len(loader) < 1500:
        passes += 1
        for indices in loader.batch_sampler:
            counts[indices] += 1
    rate, steps = optimizer.accountant.sampling_rate, passes * len(loader)
    assert rate == batch_size / examples
    for count in counts:
        assert 1e-9 < binom.cdf(count, steps, rate) < 1 - 1e-9
    assert 1e-9 < binom.cdf(counts.sum(), steps * examples, rate) < 1 - 1e-9


def test_the_recipe_for_empty_batches_of_models_that_fail_on_them() -> None:
    """As ``proofs/opacus.md`` has it."""
    page = Path(__file__).parents[3] / "proofs" / "opacus.md"
    recipe = textwrap.dedent(page.read_text(encoding="utf-8").split("```py\n")[1].split("  ```")[0])
    images = DataLoader(TensorDataset(torch.randn(40, 1, 4, 4), torch.arange(40) % 2), 2)
    model, optimizer, loader = private(
        images, model=nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2)), grad_sample_mode="functorch",
        sampling_rate=1e-6, expected_batch_size=2.0, probe=False,
    )  # fmt: skip
    features, labels = next(iter(loader))
    assert len(labels) == 0
    given = {"features": features, "labels": labels, "model": model, "optimizer": optimizer}
    exec(recipe, given | {"criterion": nn.functional.cross_entropy})
    assert optimizer.accountant.steps == 1 and optimizer.params[0].grad.any()  # noise alone


class Stream(IterableDataset):
    def __iter__(self):
        return iter([])


TEN = data(10)


@pytest.mark.parametrize(
    ("loader", "says"),
    [
        (lambda: DataLoader(TEN, 2, sampler=WeightedRandomSampler([1.0] * 10, 10)), ('data_loader',)),
        (lambda: DataLoader(TEN, 2, sampler=SubsetRandomSampler([0, 1])), ('data_loader',)),
        (lambda: DataLoader(TEN, 2, sampler=RandomSampler(TEN, replacement=True)), ('data_loader',)),
        (lambda: DataLoader(TEN, 2, sampler=RandomSampler(TEN, num_samples=5)), ('data_loader',)),
        (lambda: DataLoader(TEN, 2, sampler=[0, 0, 0]), ('data_loader',)),
        (lambda: DataLoader(TEN, batch_sampler=BatchSampler(SequentialSampler(TEN), 3, False)), ('data_loader',)),
        (lambda: DataLoader(TEN, batch_size=None), ('data_loader',)),
        (lambda: DataLoader(Stream(), 2), ('data_loader',)),
        (lambda: DataLoader(TEN, 11), ('batch_size of data_loader', '1..10', '11')),
        (lambda: DataLoader(Subset(TEN, []), 2), ('data_loader',)),
        (lambda: [1, 2], ('data_loader',)),
        (lambda: private()[2], ('data_loader',)),
    ],
)  # fmt: skip
def test_loaders_that_are_not_uniform_are_refused(loader, says: str) -> None:
    with refused(*says):
        private(loader())


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"drop_last": True}])
def test_uniform_loaders(options: dict) -> None:
    _, optimizer, loader = private(DataLoader(data(25), 10, **options))
    assert optimizer.accountant.sampling_rate == 0.4 and len(loader) == 2


# --- what is reported -------------------------------------------------------------------------------------------------
def test_the_report_of_a_seeded_run_counts_no_mask() -> None:
    """The same steps, as a simulation and securely: DP-SGD's epsilon, and less."""
    most = m.Constant(0.9)
    plain = epoch(private()).privacy(DELTA)
    seeded = epoch(private(mechanism=m.PosteriorFreeze(most, 3))).privacy(DELTA)
    half_seeded = epoch(private(mechanism=m.PosteriorFreeze(most, None))).privacy(DELTA)
    secure = epoch(private(mechanism=m.PosteriorFreeze(most, None), secure=True)).privacy(DELTA)
    assert (
        plain.epsilon
        == plain.epsilon_if_secure
        == privacy.epsilon_bounds(noise_multiplier=1.0, sampling_rate=0.25, steps=4, delta=DELTA).upper
    )
    assert seeded.epsilon == half_seeded.epsilon == plain.epsilon
    assert seeded.epsilon_if_secure == half_seeded.epsilon_if_secure == secure.epsilon == secure.epsilon_if_secure
    assert secure.epsilon < 0.9 * plain.epsilon
    assert not seeded.secure and seeded.noise == "simulation: seeded" and secure.secure
    assert "masks, once they are used" in secure.public and "masks, once they are used" not in plain.public
    text = str(seeded)
    assert f"epsilon = {rounded_up(seeded.epsilon, 6)} at delta = 1e-05 after 4 steps." in text
    assert "Simulation: seeded." in text and f"has epsilon = {rounded_up(secure.epsilon, 6)}." in text
    assert "Keep checkpoints secret" in str(secure) and "imulation" not in str(secure)
    assert "null record" in text and text.splitlines() == seeded.lines()


def test_releases_before_the_steps_are_in_epsilon_report_and_statement() -> None:
    _, optimizer, _ = private()
    assert optimizer.privacy(DELTA).releases == ()
    release = privacy.Step(noise_multiplier=9.0, sampling_rate=1.0, count=2)
    optimizer.accountant.record_release(release)
    report, stated = optimizer.privacy(DELTA), optimizer.statement(DELTA)
    assert report.epsilon == optimizer.epsilon(DELTA) == privacy.Composition((release,)).epsilon(DELTA).upper
    assert report.releases == (release,) and report.lines()[1] == (
        "Counted with the steps: 2 Gaussian releases of the same records, noise multiplier 9, sampling rate 1."
    )
    assert stated.composition == ("2 at noise multiplier 9 and sampling rate 1",) and stated.epsilon == report.epsilon
    assert stated.covered.startswith("Gaussian releases of the same records besides the steps, and ")
    assert stated.output.startswith("Gaussian releases of the same records besides the steps, and ")


def test_a_secure_mask_is_drawn_after_the_gradients_of_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = m.PosteriorFreeze(m.Constant(0.5), None)
    model, optimizer, loader = private(mechanism=mechanism, secure=True, probe=False)
    features, labels = next(batch for batch in loader if len(batch[1]) > 0)
    drawn, right = [], mechanisms.draw_mask

    def draw_mask(*given):
        drawn.append(right(*given))
        return drawn[-1]

    monkeypatch.setattr(_random_sparsification, "draw_mask", draw_mask)
    for step in range(1, 4):
        optimizer.loader_drew(len(labels))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(features), labels).backward()
        assert len(drawn) == step - 1
        optimizer.step()
        assert len(drawn) == step
    assert "mask" not in mechanism.state_dict()


def test_masks_used_again_never_amplify() -> None:
    optimizer = epoch(private(mechanism=m.PosteriorFreeze(m.Constant(0.9), None, refresh_steps=2), secure=True))
    assert (
        optimizer.privacy(DELTA).epsilon
        == privacy.epsilon_bounds(noise_multiplier=1.0, sampling_rate=0.25, steps=4, delta=DELTA).upper
    )


@pytest.mark.parametrize(
    "mechanism",
    [
        m.PosteriorFreeze(m.Constant(0.5), 0),
        m.RandomSparsification(m.Constant(0.5), 0),
        m.RankedSparsification(m.Constant(0.5), steps_per_epoch=3, seed=0),
        m.LayerFreezing(m.RandomSparsification(m.Constant(0.5), 0), frozen_layers=1, from_step=1),
    ],
)
def test_secure_runs_have_no_seed(mechanism: m.Mechanism) -> None:
    with refused("mechanism"):
        private(mechanism=mechanism, secure=True)
    with refused("noise_generator"):
        private(secure=True, noise_generator=torch.Generator())
    with refused("data_loader"):
        private(DataLoader(data(40), 10, generator=torch.Generator()), secure=True)


def test_secure_randomness_ignores_torchs_seeds() -> None:
    def run() -> torch.Tensor:
        torch.manual_seed(0)
        model = nn.Linear(FEATURES, 2)
        mechanism = m.RandomSparsification(m.Constant(0.5), None)
        made = private(model=model, mechanism=mechanism, secure=True)
        torch.manual_seed(1)
        epoch(made)
        return torch.cat([k.flatten() for k in mechanism.mask]), model.weight.detach().clone()

    batches = []
    for _ in range(2):
        loader = private(secure=True)[2]
        torch.manual_seed(0)
        batches.append([tuple(indices) for indices in loader.batch_sampler])
    assert batches[0] != batches[1]
    masks, weights = zip(*(run() for _ in range(6)), strict=True)
    assert len({tuple(mask.tolist()) for mask in masks}) > 1
    assert all(not torch.equal(weights[0], other) for other in weights[1:])


def test_noise_and_batches_ignore_torchs_seeds_without_a_generator() -> None:
    """A seed that is set again, by an evaluation or by a script that resumes, repeats no release."""

    def released(made) -> tuple[torch.Tensor, list[tuple[int, ...]]]:
        torch.manual_seed(0)
        optimizer = epoch(made)
        return optimizer.params[0].grad.clone(), [tuple(indices) for indices in made[2].batch_sampler]

    found = []
    for _ in range(2):
        torch.manual_seed(0)
        made = private(noise_multiplier=1e6)
        found += [released(made), released(made)]
    for (noise, batches), (other, drawn) in itertools.combinations(found, 2):
        assert (noise - other).abs().max() > 1.0 and batches != drawn


def test_masks_of_a_secure_run_are_not_in_its_state_and_fresh_after_a_resume() -> None:
    big = [torch.zeros(100)]
    mechanism = m.PosteriorFreeze(m.Constant(0.5), None, refresh_steps=10)
    mechanism.begin_step(big)
    mechanism.end_step(big, 0.0)
    state = mechanism.state_dict()
    assert state == {"step": 1}
    masks = [mechanism.mask[0]]
    for _ in range(2):
        again = m.PosteriorFreeze(m.Constant(0.5), None, refresh_steps=10)
        again.load_state_dict(state)
        again.begin_step(big)
        masks.append(again.mask[0])
    assert not any(torch.equal(a, b) for a, b in zip(masks, [*masks[1:], masks[0]], strict=True))
    assert (
        mechanism.shared() == mechanism.mask and m.PosteriorFreeze(m.Constant(0.5), 0).shared() == []
    )  # before its first step


# --- what goes wrong --------------------------------------------------------------------------------------------------
def snapshot(model: nn.Module):
    def plain(value):
        return dict(value) if isinstance(value, dict) else value

    modules = {name: {k: plain(v) for k, v in vars(one).items()} for name, one in model.named_modules()}
    return modules, {n: (dict(vars(p)), p.requires_grad, p.grad) for n, p in model.named_parameters()}


class Rude(m.DpSgd):
    """Fails after it has been let loose on the model."""

    def attach(self, module) -> None:
        for p in module.parameters():
            p.requires_grad_(False)
        module._module.spoiled = True
        raise RuntimeError("rude")


FAILURES = [
    ("frozen_layers", "1..1", {"mechanism": m.LayerFreezing(m.DpSgd(), frozen_layers=5, from_step=0)}),
    ("drop_rate", 0.999, {"mechanism": m.RandomSparsification(m.Constant(0.999), 0)}),
    ("mechanism", "'dp-sgd'", {"mechanism": "dp-sgd"}),
    ("noise_multiplier", "1e+15", {"noise_multiplier": 1e308}),
    ("noise_multiplier", "1e-15", {"noise_multiplier": 1e-300}),
    ("sampling_rate and expected_batch_size", 0.5, {"sampling_rate": 0.5}),
    ("sampling_rate and expected_batch_size", 5, {"expected_batch_size": 5}),
    ("expected_batch_size", -5, {"sampling_rate": 0.5, "expected_batch_size": -5}),
]


@pytest.mark.parametrize(("argument", "shown", "options"), FAILURES)
def test_a_refusal_leaves_the_model_as_it_was(argument: str, shown: object, options: dict) -> None:
    model = nn.Sequential(nn.Linear(FEATURES, 3), nn.Linear(3, 2))
    before = snapshot(model)
    with refused(argument, shown):
        private(model=model, **options)
    assert snapshot(model) == before
    assert epoch(private(model=model)).accountant.steps == 4


def test_a_failure_halfway_leaves_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: HookedModule) -> None:
        raise NotImplementedError("halfway through")

    model = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, 2))
    before = snapshot(model)
    with pytest.raises(RuntimeError, match="rude"):
        private(model=model, mechanism=Rude())
    assert snapshot(model) == before
    monkeypatch.setattr(HookedModule, "enable_hooks", fails)
    with pytest.raises(NotImplementedError):
        private(model=model)
    assert snapshot(model) == before


def test_a_private_model_is_refused_and_stays_private() -> None:
    model = nn.Linear(FEATURES, 2)
    made = private(model=model)
    for again in (model, made[0], nn.Sequential(model)):
        with refused("module"):
            private(model=again)
    assert epoch(made).accountant.steps == 4
    assert epoch(private(model=made[0].to_standard_module())).accountant.steps == 4


def test_optimizers_of_other_models_are_refused() -> None:
    model, other = nn.Linear(FEATURES, 2), nn.Linear(FEATURES, 2)
    settings = {
        "mechanism": m.DpSgd(),
        "noise_multiplier": 1.0,
        "max_grad_norm": 1.0,
        "data_loader": DataLoader(data(40), 10),
    }
    with refused("optimizer"):
        make_private(module=model, optimizer=torch.optim.SGD(other.parameters(), lr=0.1), **settings)
    frozen = copy.deepcopy(model).requires_grad_(False)
    with refused("optimizer"):
        make_private(module=frozen, optimizer=torch.optim.SGD(frozen.parameters(), lr=0.1), **settings)


def test_an_optimizer_that_leaves_trainable_parameters_out_is_refused() -> None:
    """Another optimizer would step them by the bare gradient of the batch."""
    model = nn.Sequential(nn.Linear(FEATURES, 4), nn.Tanh(), nn.Linear(4, 2))

    def make():
        return make_private(
            module=model, optimizer=torch.optim.SGD(model[2].parameters(), lr=0.1), mechanism=m.DpSgd(), noise_multiplier=1.0,
            max_grad_norm=1.0, data_loader=DataLoader(data(40), 10),
        )  # fmt: skip

    with refused("optimizer", "0.weight", "1"):
        make()
    model[0].requires_grad_(False)
    made = make()
    assert epoch(made).accountant.steps == 4
    model[0].bias.requires_grad_(True)
    with refused("optimizer", "0.bias"):
        epoch(made)
    made[1].add_param_group({"params": [model[0].bias]})
    assert epoch(made).accountant.steps == 8


@pytest.mark.parametrize(
    "kind",
    [torch.optim.LBFGS, torch.optim.SparseAdam],
)
def test_optimizers_that_cannot_take_a_released_gradient_are_refused(kind) -> None:
    model = nn.Linear(FEATURES, 2)
    before = snapshot(model)
    with refused("optimizer", kind.__name__):
        make_private(
            module=model, optimizer=kind(model.parameters(), lr=0.1), data_loader=DataLoader(data(40), 10),
            mechanism=m.DpSgd(), noise_multiplier=1.0, max_grad_norm=1.0,
        )  # fmt: skip
    assert snapshot(model) == before


class Scaled(nn.Module):
    """A linear layer times a parameter of shape ()."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.layer = nn.Linear(FEATURES, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * self.layer(x)


class FixedAnchors:
    """Anchor gradients of the parameters of :class:`Scaled`."""

    def __call__(self) -> list[torch.Tensor]:
        shapes = [(), (2, FEATURES), (2,)]
        return [torch.randn(8, *shape, generator=torch.Generator().manual_seed(i)) for i, shape in enumerate(shapes)]

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        pass


@pytest.mark.parametrize(
    "mechanism",
    [
        m.DpSgd(), m.RandomSparsification(m.Constant(0.4), 0), m.PosteriorFreeze(m.Constant(0.4), 0),
        m.RankedSparsification(m.Constant(0.4), steps_per_epoch=2, seed=0), m.RankedSparsification(m.Constant(0.4),
        steps_per_epoch=2, seed=None),
        m.IndexPruning(1.0, m.Constant(0.5), group_size=4), m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=1),
        m.GepOptimal(FixedAnchors(), subspace_dim=4, residual_clip=0.5, groups=[[0], [1, 2]], seed=0),
    ],
    ids=lambda one: one.title,
)  # fmt: skip
def test_a_parameter_of_shape_nothing_is_trained_like_any_other(mechanism: m.Mechanism) -> None:
    """Its per-sample gradients have the shape (n,): one entry each."""
    torch.manual_seed(0)
    model, (of_batches, of_noise) = Scaled(), (torch.Generator().manual_seed(seed) for seed in (1, 101))
    loader = DataLoader(data(40), 10, generator=of_batches)
    made = private(loader, model, mechanism=mechanism, noise_generator=of_noise)
    for _ in range(10):  # index pruning keeps an entry in about half of all steps
        optimizer = epoch(made)
    assert optimizer.accountant.steps == 40 and model.scale.shape == ()
    assert model.scale.item() != 2.0 and math.isfinite(model.scale.item())


def test_gradients_are_zero_after_zero_grad_or_none_where_asked() -> None:
    """As with Opacus and torch."""
    model, optimizer, loader = private()
    features, labels = next(batch for batch in loader if len(batch[1]))
    nn.functional.cross_entropy(model(features), labels).backward()
    optimizer.step()
    optimizer.zero_grad()
    assert all(p.grad is not None and not p.grad.any() and p.grad_sample is None for p in optimizer.params)
    optimizer.zero_grad(set_to_none=True)
    assert all(p.grad is None for p in optimizer.params)


def test_a_new_batch_begins_without_what_is_left_of_passes_that_failed() -> None:
    """The next backward pass would add to what it left at the parameters; its own may not come any more."""
    model, optimizer = sgd.attach(nn.Linear(FEATURES, 2), sampling_rate=0.5, expected_batch_size=2)
    late = model(torch.ones(3, FEATURES))
    model._module.weight.grad_sample = torch.ones(3, 2, FEATURES)  # as a pass leaves it that fails on the way back
    optimizer.begin_batch(2)
    assert model._module.weight.grad_sample is None
    with refused("backward()"):
        late.sum().backward()
    nn.functional.cross_entropy(model(torch.ones(2, FEATURES)), torch.arange(2)).backward()
    optimizer.step()
    assert optimizer.accountant.steps == 1


def test_a_pass_of_a_batch_that_waits_adds_nothing_to_the_next() -> None:
    """A record of both would be in two rows, each clipped by itself."""
    x, y = torch.randn(8, FEATURES), torch.zeros(8, dtype=torch.long)
    model, optimizer, _ = sgd.make_private(nn.Linear(FEATURES, 2), DataLoader(TensorDataset(x, y), batch_size=4))
    optimizer.loader_begins(drawn_ahead=False)
    losses = []
    for rows in (slice(0, 4), slice(4, 8)):
        optimizer.loader_drew(4)
        optimizer.zero_grad()
        losses.append(nn.functional.cross_entropy(model(x[rows]), y[rows]))
    with refused("backward()"):
        sum(losses).backward()


def test_a_signal_says_that_parts_follow() -> None:
    """Without an argument; before a batch was begun nothing can follow."""
    optimizer = private()[1]
    with refused("do_skip", True):
        optimizer.signal_skip_step()
    optimizer.loader_drew(3)
    optimizer.signal_skip_step()


@pytest.mark.parametrize("simulated", [False, True])
def test_noise_goes_on_in_a_simulation_alone(simulated: bool) -> None:
    """No other state says where its noise comes from: whoever has it can neither tell the noise nor bring it back."""

    def made(seed: int) -> MechanismOptimizer:
        with simulation() if simulated else nullcontext():
            return private(noise_generator=torch.Generator().manual_seed(seed))[1]

    first, second = made(1), made(2)
    state = first.state_dict()
    assert (state["generator"] is not None) == simulated
    second.load_state_dict(state)
    drawn = [torch.rand(3, generator=one.noise_stream.on("cpu")) for one in (first, second)]
    assert torch.equal(*drawn) == simulated
    assert first.generator is None and second.generator is None


@pytest.mark.parametrize("epsilon", [1.23456401, 2.0, 0.1234567, 12345.601, math.inf, 0.0])
def test_a_report_rounds_epsilon_up(epsilon: float) -> None:
    report = dataclasses.replace(private()[1].privacy(DELTA), epsilon=epsilon, epsilon_if_secure=epsilon)
    lines = report.lines()
    printed = float(lines[0].split()[2]), float(lines[3].removesuffix(".").split()[-1])
    assert printed[0] == printed[1] >= epsilon and printed[0] <= epsilon * (1 + 1e-5)


FREEZING = {"frozen_layers": 1, "from_step": 4}


@pytest.mark.parametrize(
    "mechanism",
    [
        m.DpSgd(),
        m.LayerFreezing(m.DpSgd(), **FREEZING),
        m.RankedSparsification(m.Constant(0.5), steps_per_epoch=4, seed=0),
        m.RandomSparsification(m.GradualCooling(final_drop_rate=0.9, cooling_epochs=3, steps_per_epoch=4), 0),
    ],
    ids=lambda one: one.title,
)
def test_a_mechanism_belongs_to_one_run(mechanism: m.Mechanism) -> None:
    """In another one it would go on in the state of the first: layers that never freeze, a mask that nobody paid for."""

    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(FEATURES, 3), nn.Linear(3, 2))

    with refused("max_grad_norm"):
        private(mechanism=mechanism, model=model(), max_grad_norm=0.0)  # which leaves it as it was
    private(mechanism=mechanism, model=model())
    for used in (mechanism, copy.deepcopy(mechanism), m.LayerFreezing(mechanism, **FREEZING)):
        again = model()
        with refused("mechanism"):
            private(mechanism=used, model=again)
        assert not any(layer._forward_hooks for layer in again.modules())


def test_a_run_that_goes_back_keeps_its_count_and_never_draws_its_noise_twice() -> None:
    """Of two releases with the same noise, from the same weights, the difference would be that of the batches."""
    model = nn.Linear(FEATURES, 2)
    made = private(model=model, noise_multiplier=1e6, noise_generator=torch.Generator().manual_seed(1))
    start = copy.deepcopy((model.state_dict(), made[1].state_dict()))
    ends = []
    for _ in range(2):
        epoch(made)
        ends.append(model.weight.detach().clone())
        model.load_state_dict(start[0])
        made[1].load_state_dict(start[1])
    assert made[1].privacy(DELTA).steps == 8
    assert float((ends[0] - ends[1]).abs().max()) > 100.0


@pytest.mark.parametrize("name", ["optimizer", "mechanism", "accountant", "nonfinite_samples", "generator"])
def test_a_state_without_one_of_its_parts_is_refused(name: str) -> None:
    optimizer = private()[1]
    state = optimizer.state_dict()
    del state[name]
    with refused("state_dict", name):
        optimizer.load_state_dict(state)


def test_attach_wants_one_of_the_number_of_examples_and_the_divisor() -> None:
    def attached(**given):
        model = nn.Linear(FEATURES, 2)
        return sgd.attach(model, sampling_rate=0.1, **given)[1]

    with refused("train_size or expected_batch_size"):
        attached()
    constant, public = attached(expected_batch_size=7), attached(train_size=70)
    both = attached(train_size=70, expected_batch_size=7)
    assert constant.expected_batch_size == both.expected_batch_size == 7 == pytest.approx(public.expected_batch_size)
    assert [one.privacy(DELTA).adjacency for one in (constant, public, both)] == [
        "add-remove",
        "zero-out",
        "zero-out",
    ]
    assert constant.privacy(DELTA).sampler == "Poisson, drawn by the caller"


def test_largest_noise_and_clip_leave_finite_weights() -> None:
    model = nn.Linear(FEATURES, 2)
    epoch(private(model=model, noise_multiplier=1e15, max_grad_norm=1e15))
    assert all(torch.isfinite(p).all() for p in model.parameters())


# --- The privacy statement of an optimizer: what the report says, with the composition that was recorded ---


def trained(mechanism: Mechanism, steps: int, **options: object) -> MechanismOptimizer:
    model = torch.nn.Linear(3, 2)
    private, optimizer = sgd.attach(
        model, mechanism=mechanism, sampling_rate=0.5, expected_batch_size=10, noise_multiplier=2.0, **options
    )
    for step in range(steps):
        optimizer.noise_multiplier = 2.0 + step % 2  # a schedule
        optimizer.begin_batch(5)
        optimizer.zero_grad()
        private(torch.rand(5, 3)).sum().backward()
        optimizer.step()
    return optimizer


def test_a_schedule_of_noise_is_recorded_and_accounted_for_in_one_call() -> None:
    optimizer = trained(DpSgd(), 4)
    run = Composition([Step(noise_multiplier=sigma, sampling_rate=0.5, count=2) for sigma in (2.0, 3.0)])
    assert optimizer.accountant.composition() == run
    assert optimizer.epsilon(1e-5) == run.epsilon(1e-5).upper
    found, report = optimizer.statement(1e-5, seeds=("seed 3",)), optimizer.privacy(1e-5)
    assert (found.epsilon, found.delta, found.steps) == (report.epsilon, report.delta, 4)
    assert (found.adjacency, found.public, found.secure) == (report.adjacency, report.public, False)
    assert (found.mechanism, found.epsilon_if_secure) == ("DP-SGD", report.epsilon_if_secure)
    assert found.attack == run.attack()
    assert found.randomness == "simulation: seeded; seed 3"
    assert found.sampler.startswith("Poisson, drawn by the caller") and "0.5" in found.sampler
    assert any(one.startswith("torch ") for one in found.software)


@pytest.mark.parametrize(("mechanism", "steps", "epsilon"), [(DpSgd(), 0, 0.0), (NoisySgd(), 1, math.inf)])
def test_before_the_first_step_and_without_protection(mechanism: Mechanism, steps: int, epsilon: float) -> None:
    found = trained(mechanism, steps).statement(1e-5)
    assert (found.epsilon, found.steps, found.attack) == (epsilon, steps, None)
    assert ("no privacy guarantee" in found.markdown()) == math.isinf(epsilon)
