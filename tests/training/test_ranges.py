"""Ranges of numbers, and lengths of lists."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dptheory.errors import ArgumentError
from dptheory.privacy import DELTA
from dptheory.training import _argument_ranges, engine, measure, mechanisms, runs
from dptheory.training import mechanisms as m
from dptheory.training._randomness import own_generator
from dptheory.training._streams import simulation
from dptheory.training.audits import _attacks, _board, _cases, _measure, _suite
from dptheory.training.data import Images
from dptheory.training.measure import ValidateSettings
from dptheory.training.mechanisms import Contribution, sample_norms
from dptheory.training.mechanisms._clipping import weighted_sum
from dptheory.training.runs import DpSgdSettings, accuracy, sampling_rate
from tests.refused import refused
from tests.training import sgd
from tests.training.made_rows import Anchors

# --- The documented range of every number that training takes: both ends, and what lies just outside ---


Make = Callable[[Any], object]
HALF = m.Constant(0.5)
SGD = DpSgdSettings(steps=13, batch_size=5, noise_multiplier=1.0, max_grad_norm=1.0, learning_rate=1.0, seed=0)
SETTINGS = ValidateSettings(SGD)
RUN = runs.RunConfig(data="excerpt", model="small-cnn", epochs=1, batch_size=1, max_grad_norm=1.0, noise_multiplier=1.0)
GRADIENTS = measure.MeasureSettings((0.5,), draws=2, noise_multiplier=1.0, max_grad_norm=1.0)
LAYER = nn.Linear(2, 1)
PIXELS = torch.zeros(3, 2)
MOST = 10**9
SEEDS = (0, 2**63 - 1)


def changed(whole: Any, name: str) -> Make:
    return lambda value: dataclasses.replace(whole, **{name: value})


def made(name: str, **named: Any) -> Make:
    """``make_private`` with one argument changed."""

    def make(value: Any) -> object:
        model = nn.Linear(2, 1)
        given = {"noise_multiplier": 1.0, "max_grad_norm": 1.0} | named | {name: value}
        return sgd.make_private(model, DataLoader(TensorDataset(PIXELS), 1), lr=1.0, **given)

    return make


INTEGERS: list[tuple[str, Make, int, int | None]] = [
    ("own generator", own_generator, *SEEDS),
    ("LayerFreezing.frozen", lambda v: m.LayerFreezing(m.DpSgd(), frozen_layers=v, from_step=1), 1, None),
    ("AnchorGradients.chunk", lambda v: mechanisms.AnchorGradients(LAYER, PIXELS, classes=2, seed=0, chunk=v), 1, MOST),
    ("sampling_rate.batch_size", lambda v: sampling_rate(batch_size=v, train_size=7), 1, 7),
    ("PoissonBatches.step", lambda v: engine.PoissonBatches(train_size=3, sampling_rate=0.5, seed=0).batch(v), 0, None),
    (
        "PoissonBatches.part",
        lambda v: engine.PoissonBatches(train_size=3, sampling_rate=0.5, seed=0).batch(0, v, 3),
        0,
        2,
    ),
    (
        "PoissonBatches.parts",
        lambda v: engine.PoissonBatches(train_size=3, sampling_rate=0.5, seed=0).batch(0, 0, v),
        1,
        MOST,
    ),
    ("DpSgdSettings.batch_size", changed(SGD, "batch_size"), 1, MOST),
    ("ValidateSettings.window", changed(SETTINGS, "window"), 1, 10),  # of 13 steps
    ("ValidateSettings.pool", changed(SETTINGS, "pool"), 2, MOST),
    ("ValidateSettings.anchors", changed(dataclasses.replace(SETTINGS, subspace_dims=(1,)), "anchors"), 1, MOST),
    ("ValidateSettings.subspace_dims", lambda v: changed(SETTINGS, "subspace_dims")((v,)), 1, 256),
    ("RunConfig.batch_size", changed(RUN, "batch_size"), 1, MOST),
]


@pytest.mark.parametrize(
    ("name", "make", "least", "most"), INTEGERS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_integers(name: str, make: Make, least: int, most: int | None) -> None:
    make(least)
    with pytest.raises(ArgumentError):
        make(least - 1)
    if most is not None:
        make(most)
        with pytest.raises(ArgumentError):
            make(most + 1)


REALS: list[tuple[str, Make, float, float, str]] = [
    *((f"shares {e}", lambda v, e=e: _argument_ranges.shares("a", (v,), e), 0.0, 1.0, e) for e in ("[]", "(]", "[)", "()")),
    ("RandomSparsification.drop_rate", lambda v: m.RandomSparsification(lambda step: v, 0), 0.0, 1.0, "[)"),
    ("RankedSparsification.drop_rate", lambda v: m.RankedSparsification(lambda step: v, steps_per_epoch=1, seed=0),
     0.0, 1.0, "[)"),
    ("IndexPruning.keep_share", lambda v: m.IndexPruning(0.2, lambda step: v), 0.0, 1.0, "[]"),
    ("GepJoint.residual_clip", lambda v: m.GepJoint(Anchors(torch.ones(2, 2)), subspace_dim=1, residual_clip=v, groups=[[0]],
    seed=0).check_clip(0.7), 1e-15, 0.7, "[]"),
    ("PrivacyAccountant.limit.epsilon", lambda v: engine.PrivacyAccountant(0.5).limit(epsilon=v, delta=0.1), 0.0, math.inf, "()"),
    ("PrivacyAccountant.limit.delta", lambda v: engine.PrivacyAccountant(0.5).limit(epsilon=1.0, delta=v), *DELTA, "[]"),
    ("MeasureSettings.keep_shares", lambda v: changed(GRADIENTS, "keep_shares")((v,)), 0.0, 1.0, "(]"),
    ("ValidateSettings.keep_shares", lambda v: changed(SETTINGS, "keep_shares")((v,)), 0.0, 1.0, "()"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "make", "least", "most", "ends"), REALS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_reals(name: str, make: Make, least: float, most: float, ends: str) -> None:
    inside, outside = [least, most], [float(np.nextafter(least, -math.inf)), float(np.nextafter(most, math.inf))]
    if ends[0] == "(":
        inside[0], outside[0] = float(np.nextafter(least, math.inf)), least
    if ends[1] == ")":
        inside[1], outside[1] = float(np.nextafter(most, -math.inf)), most
    for value in inside:
        make(value)
    for value in outside:
        if not (math.isinf(value) and ends[1] == "]"):
            with pytest.raises(ArgumentError):
                make(value)


@pytest.mark.parametrize(
    "make",
    [
        changed(RUN, "noise_multiplier"),
        changed(SGD, "noise_multiplier"),
        made("noise_multiplier"),
    ],
)
def test_no_noise_at_all_may_be_wanted(make: Make) -> None:
    make(0.0)
    with pytest.raises(ArgumentError):
        make(-1e-300)
    with pytest.raises(ArgumentError):
        make(1e-300)


def test_shares_are_a_row() -> None:
    assert _argument_ranges.shares("a", [0.25, 0.5], "()") == (0.25, 0.5)
    for bad in ([], 0.5, [[0.5]], [0.5, 1.0]):
        with refused("a", "0", "1"):
            _argument_ranges.shares("a", bad, "()")


def test_a_validation_has_three_steps_beside_its_window() -> None:
    for window in (1, 4):
        steps = window + 3
        found = ValidateSettings(dataclasses.replace(SGD, steps=steps), window=window)
        assert found.moments == {"start": 0, "middle": 1, "end": 2}
        with refused("training.steps", steps, steps - 1, "3"):
            ValidateSettings(dataclasses.replace(SGD, steps=steps - 1), window=window)
    long = ValidateSettings(dataclasses.replace(SGD, steps=60, max_grad_norm=0.5, noise_multiplier=3.0))
    assert long.moments == {"start": 0, "middle": 24, "end": 49}
    assert (long.clip_norm, long.sum_noise_std) == (0.5, 1.5)
    with refused("training.noise_multiplier"):
        ValidateSettings(dataclasses.replace(SGD, noise_multiplier=0.0))


def test_streams_are_those_of_numpys_seed_sequences() -> None:
    """One seed gives one run, in every version; no two purposes share a stream."""
    settings = dataclasses.replace(SGD, seed=7)
    for purpose in range(5):
        wanted = np.random.SeedSequence((7, purpose)).generate_state(1, np.uint64)[0]
        assert settings.stream(purpose) == int(wanted)
    validation = dataclasses.replace(SETTINGS, training=settings)
    assert [validation.stream(moment) for moment in range(3)] == [settings.stream(10 + moment) for moment in range(3)]


def test_every_default_of_a_configuration() -> None:
    plain = runs.RunConfig(
        data="excerpt", model="small-cnn", epochs=1, batch_size=1, max_grad_norm=1.0, epsilon=1.0
    ).as_dict()
    assert plain == {
        "data": "excerpt", "model": "small-cnn", "epochs": 1, "batch_size": 1, "max_grad_norm": 1.0, "delta": 1e-5,
        "noise_multiplier": None, "epsilon": 1.0, "physical_batch_size": 256, "seed": 0, "inputs": "standardised",
        "grad_sample_mode": "factors", "secure": False, "sampling": "poisson",
        "optimizer": {"name": "sgd", "learning_rate": 1.0, "momentum": 0.0, "weight_decay": 0.0},
        "mechanism": {"name": "dp-sgd"},
    }  # fmt: skip


def test_noise_and_normals_of_a_range() -> None:
    assert not engine.secure_noise(PIXELS, 0.0).any() and engine.secure_noise(PIXELS, 1e-30).any()
    assert engine.secure_noise(PIXELS, 2.0).shape == PIXELS.shape
    assert not engine.generator_noise(None)(PIXELS, 0.0).any()
    assert engine.generator_noise(None)(PIXELS, 1.0).any() and engine.secure_noise(PIXELS, 1.0).any()
    state = torch.Generator().manual_seed(3)
    with simulation():
        noise = engine.generator_noise(torch.Generator().manual_seed(3))
    torch.testing.assert_close(noise(PIXELS, 2.0), torch.normal(0.0, 2.0, PIXELS.shape, generator=state))


# --- Lists that must be of one length are refused where they are not, never cut to the shorter one ---


TWO = [torch.ones(4), torch.ones(2)]
SAMPLES = [torch.ones(3, 4), torch.ones(3, 2)]


def begun(mechanism: m.Mechanism) -> m.Mechanism:
    mechanism.begin_step(TWO)
    return mechanism


def released(mechanism: m.Mechanism, total: list[torch.Tensor]) -> object:
    return begun(mechanism).release(
        total, noise_multiplier=1.0, clip_norm=1.0, noise=lambda like, std: torch.zeros_like(like)
    )


def ranked_by_others() -> None:
    true = begun(m.RankedByTrueGradients(HALF, steps_per_epoch=5, seed=0))
    true._true = TWO[:1]
    true.end_step(TWO, 1.0)


def embedded(change: Callable[[list[torch.Tensor]], list[torch.Tensor]]) -> None:
    gep = m.Gep(Anchors(torch.eye(4), torch.ones(4, 2)), subspace_dim=2, residual_clip=1.0, groups=[[0], [1]], seed=0)
    released(gep, change(begun(gep).contribute(SAMPLES, 1.0).total))


def ranked() -> m.Mechanism:
    return m.RankedSparsification(HALF, steps_per_epoch=5, seed=0)


MASKED: list[Callable[[], m.Mechanism]] = [
    lambda: m.RandomSparsification(HALF, 0), lambda: m.PosteriorFreeze(HALF, 0), ranked,
]  # fmt: skip
UNEVEN: dict[str, Callable[[], object]] = {
    **{f"fewer totals, {i}": lambda make=make: released(make(), TWO[:1]) for i, make in enumerate(MASKED)},
    **{f"more totals, {i}": lambda make=make: released(make(), [*TWO, torch.ones(1)]) for i, make in enumerate(MASKED)},
    "releases of other parameters": lambda: begun(ranked()).end_step(TWO[:1], 1.0),
    "true gradients of other parameters": ranked_by_others,
    "fewer masks, of norms": lambda: sample_norms(SAMPLES, mask=TWO[:1]),
    "fewer masks, of a sum": lambda: weighted_sum(SAMPLES, torch.ones(3), mask=TWO[:1]),
    "fewer samples than masks": lambda: begun(m.PosteriorFreeze(HALF, 0)).contribute(SAMPLES[:1], 1.0),
    "fewer embeddings": lambda: embedded(lambda total: total[:2]),
    "more embeddings": lambda: embedded(lambda total: [*total, torch.ones(1)]),
    "images without labels": lambda: accuracy(
        nn.Linear(3, 2), Images("a", torch.zeros(2000, 3), torch.zeros(1000, dtype=torch.int64)), torch.device("cpu")
    ),
}


@pytest.mark.parametrize("name", UNEVEN)
def test_lists_of_unequal_length(name: str) -> None:
    with pytest.raises(ValueError, match="zip"):
        UNEVEN[name]()


class Uneven(m.DpSgd):
    """Forgets a tensor in its release, or in the second part of a batch."""

    def __init__(self, in_release: bool) -> None:
        self.in_release, self.parts = in_release, 0

    def contribute(self, samples: list[torch.Tensor], clip_norm: float) -> Contribution:
        found = super().contribute(samples, clip_norm)
        self.parts += 1
        return found if self.in_release or self.parts == 1 else Contribution(found.total[:1], 0)

    def release(self, total, *, noise_multiplier, clip_norm, noise):
        return total[:1] if self.in_release else total


@pytest.mark.filterwarnings("ignore:Full backward hook")
@pytest.mark.parametrize("in_release", [False, True])
def test_a_mechanism_that_forgets_a_tensor(in_release: bool) -> None:
    model = nn.Linear(3, 2)
    private, optimizer = sgd.attach(model, lr=1.0, mechanism=Uneven(in_release), sampling_rate=0.5, train_size=8)
    optimizer.begin_batch(4)
    with pytest.raises(ValueError, match="zip"):
        for more in (True, False):
            optimizer.zero_grad()
            optimizer.signal_skip_step(do_skip=more)
            private(torch.ones(2, 3)).sum().backward()
            optimizer.step()


def trace(steps: int) -> _board.Trace:
    one = _board.Step(np.array([0]), np.ones(1000), np.ones(1000), np.zeros(0))
    return _board.Trace(_suite.plan(0), (one,) * steps, lambda delta: SimpleNamespace(epsilon=1.0))


def test_trainings_of_unequal_length(monkeypatch: pytest.MonkeyPatch) -> None:
    case = _cases.cases()[0]
    made = iter((trace(2), trace(1)))
    monkeypatch.setattr(_board, "train", lambda *a: next(made))
    with pytest.raises(ValueError, match="zip"):
        _measure._farthest(case, _suite.plan(0), _suite.plan(0), 0)
    short = replace(trace(1), plan=_suite.plan(0))
    monkeypatch.setattr(_board, "train", lambda *a: short)
    monkeypatch.setattr(_attacks, "foretold", lambda *a: [np.ones(1000)] * 2)
    with pytest.raises(ValueError, match="zip"):
        _attacks.foreseen(_suite.random_k, 1000, 1.0, 2, 1e-2, 1, 0)
