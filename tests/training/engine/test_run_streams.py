"""What a run releases is never drawn again: histories of steps, states, forks and new runs, and streams of equal seeds."""

import copy
import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dptheory.training import PrivacyEngine, make_private
from dptheory.training import mechanisms as m
from tests.training.in_a_fork import in_a_fork

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")
ROWS, FEATURES, SEED = 64, 40, 7  # so many entries that no mask comes twice by chance
DATA = TensorDataset(torch.randn(ROWS, FEATURES, generator=torch.Generator().manual_seed(0)), torch.arange(ROWS))
PARTS = ["all", "no optimizer", "by hand", "accountant"]
STARTED = {name: torch.Generator().manual_seed(SEED).get_state() for name in ("noise", "batches")}


class Watched(m.RandomSparsification):
    """Notes the noise that it draws and the masks that it uses."""

    def __init__(self) -> None:
        super().__init__(m.Constant(0.5), SEED)
        self.noises: list[bytes] = []
        self.masks: list[bytes] = []

    def release(self, total: m.Tensors, *, noise: m.Noise, **given: Any) -> m.Tensors:
        def noted(like: torch.Tensor, std: float) -> torch.Tensor:
            drawn = noise(like, std)
            self.noises.append(drawn.numpy().tobytes())
            return drawn

        self.masks.append(torch.cat([mask.flatten() for mask in self.mask]).numpy().tobytes())
        return super().release(total, noise=noted, **given)


class Running:
    """A run that can be stepped, and what is known of it: the steps in its history, by number."""

    def __init__(self, model: nn.Module, lr: float) -> None:
        self.model, self.mechanism = model, Watched()
        self.engine = PrivacyEngine(self.mechanism)
        self.given = {name: torch.Generator() for name in STARTED}
        self.set_generators_back()
        trained = [p for p in model.parameters() if p.requires_grad]
        self.private, self.optimizer, self.loader = self.engine.make_private(
            module=model, optimizer=torch.optim.SGD(trained, lr=lr, momentum=0.9), noise_multiplier=2.0,
            data_loader=DataLoader(DATA, ROWS // 2, generator=self.given["batches"]), max_grad_norm=1.0,
            noise_generator=self.given["noise"], probe=False,
        )  # fmt: skip
        self.steps: set[object] = set()
        self.batches: list[bytes] = []

    def set_generators_back(self) -> None:
        for name, generator in self.given.items():
            generator.set_state(STARTED[name])

    def step(self) -> None:
        """On the first batch of a pass, left after it."""
        for features, names in self.loader:
            self.batches.append(names.numpy().tobytes())
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.private(features), names % 2).backward()
            self.optimizer.step()
            break

    def released(self) -> dict[str, list[bytes]]:
        return {"noise": self.mechanism.noises, "mask": self.mechanism.masks, "batch": self.batches}


class Histories(RuleBasedStateMachine):
    """Steps, states that are loaded in any order and anywhere, forks, and new runs with the seeds of the old ones."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runs: list[Running] = []
        self.states: list[tuple[Path, frozenset[object]]] = []
        self.elsewhere: dict[str, list[bytes]] = {"noise": [], "mask": [], "batch": []}
        self.numbers = itertools.count()

    def teardown(self) -> None:
        self.folder.cleanup()

    def run_of(self, number: int) -> Running:
        return self.runs[number % len(self.runs)]

    def new(self, model: nn.Module) -> Running:
        self.runs.append(Running(model, 0.5 / (1 + next(self.numbers))))  # a rate of its own
        return self.runs[-1]

    @initialize()
    def first(self) -> None:
        torch.manual_seed(0)
        self.new(nn.Linear(FEATURES, 2))

    @rule(which=st.integers(0, 9))
    def makes_a_step(self, which: int) -> None:
        run = self.run_of(which)
        run.step()
        run.steps.add(next(self.numbers))

    @rule(which=st.integers(0, 9))
    def saves(self, which: int) -> None:
        run, path = self.run_of(which), Path(self.folder.name) / f"{next(self.numbers)}.pt"
        run.engine.save_checkpoint(path=path, module=run.private, optimizer=run.optimizer)
        self.states.append((path, frozenset(run.steps)))

    @precondition(lambda self: self.states)
    @rule(which=st.integers(0, 9), state=st.integers(0, 9), part=st.sampled_from(PARTS))
    def loads(self, which: int, state: int, part: str) -> None:
        """A state of this run or another one, older or newer, whole or in parts."""
        run = self.run_of(which)
        path, steps = self.states[state % len(self.states)]
        if part in ("all", "no optimizer"):
            given = run.optimizer if part == "all" else None
            run.engine.load_checkpoint(path=path, module=run.private, optimizer=given)
        else:
            found = torch.load(path, weights_only=True)
            run.private.load_state_dict(found["module_state_dict"])
            if part == "by hand":
                run.optimizer.load_state_dict(found["optimizer_state_dict"])
            else:
                run.optimizer.accountant.load_state_dict(found["privacy_accountant_state_dict"])
        run.steps |= steps

    @rule(which=st.integers(0, 9))
    def loads_the_mechanism_alone(self, which: int) -> None:
        run = self.run_of(which)
        run.mechanism.load_state_dict(copy.deepcopy(run.mechanism.state_dict()))

    @rule(which=st.integers(0, 9))
    def lowers_the_rate(self, which: int) -> None:
        for group in self.run_of(which).optimizer.param_groups:
            group["lr"] *= 0.5

    @rule(which=st.integers(0, 9))
    def sets_the_generators_back(self, which: int) -> None:
        self.run_of(which).set_generators_back()
        torch.manual_seed(0)

    @precondition(lambda self: len(self.runs) < 4)
    @rule(which=st.integers(0, 9), same=st.booleans())
    def begins_anew(self, which: int, same: bool) -> None:
        """A run with the same seeds on the same model, or on another one with its weights."""
        old = self.run_of(which)
        if same:
            self.runs.remove(old)
            for name, drawn in old.released().items():
                self.elsewhere[name] += drawn
            self.new(old.private.to_standard_module())
        else:
            model = nn.Linear(FEATURES, 2)
            model.load_state_dict(old.model.state_dict())
            self.new(model)

    @rule(which=st.integers(0, 9), joins=st.booleans())
    def forks(self, which: int, joins: bool) -> None:
        """Two steps in a forked process; its state may come back."""
        run = self.run_of(which)
        before = {name: len(drawn) for name, drawn in run.released().items()}

        def two_steps() -> tuple[dict[str, list[bytes]], dict[str, Any]]:
            run.step()
            run.step()
            return run.released(), run.optimizer.accountant.state_dict()

        released, state = in_a_fork(two_steps)
        for name, drawn in released.items():
            self.elsewhere[name] += drawn[before[name] :]
        if joins:
            run.optimizer.accountant.load_state_dict(state)
            run.steps |= {next(self.numbers), next(self.numbers)}

    @invariant()
    def every_step_is_counted(self) -> None:
        for run in self.runs:
            assert run.optimizer.accountant.steps == len(run.steps)

    @invariant()
    def nothing_is_drawn_again(self) -> None:
        for name, drawn in self.elsewhere.items():
            whole = drawn + [one for run in self.runs for one in run.released()[name]]
            assert len(set(whole)) == len(whole), f"a {name} came again"


class TestHistories(Histories.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=25, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck))


# --- the kinds of the machine, one by one -----------------------------------------------------------------------------


def test_noise_of_a_run_that_goes_back_is_in_general_position(tmp_path: Path) -> None:
    """No noise vector is a combination of others: four times two steps from one checkpoint."""
    run = Running(nn.Linear(FEATURES, 2), 0.1)
    run.engine.save_checkpoint(path=tmp_path / "start.pt", module=run.private, optimizer=run.optimizer)
    for _ in range(4):
        run.step(), run.step()
        run.engine.load_checkpoint(path=tmp_path / "start.pt", module=run.private, optimizer=run.optimizer)
    drawn = [np.frombuffer(one, np.float32) for one in run.mechanism.noises]
    weights = np.array([one for one in drawn if one.size == 2 * FEATURES])
    assert weights.shape == (8, 2 * FEATURES) and np.linalg.matrix_rank(weights) == 8
    assert run.optimizer.accountant.steps == 8


def test_a_run_that_is_the_same_is_repeated_and_one_that_differs_shares_nothing() -> None:
    def drawn(lr: float = 0.1, start: int = 0, later: float | None = None) -> list[dict[str, bytes]]:
        torch.manual_seed(start)
        run = Running(nn.Linear(FEATURES, 2), lr)
        for step in range(2):
            if step == 1 and later is not None:
                run.optimizer.param_groups[0]["lr"] = later
            run.step()
        noises = [run.mechanism.noises[2 * step] for step in range(2)]  # of the weights
        steps = zip(noises, run.mechanism.masks, run.batches, strict=True)
        return [dict(zip(("noise", "mask", "batch"), one, strict=True)) for one in steps]

    first = drawn()
    assert drawn() == first
    for other in (drawn(lr=0.05), drawn(start=1)):
        assert all(a[name] != b[name] for a, b in zip(first, other, strict=True) for name in a)
    moved = drawn(later=0.05)
    assert moved[0] == first[0] and all(moved[1][name] != first[1][name] for name in first[1])


@pytest.mark.parametrize("differs", ["weights", "buffer", "activation"])
def test_a_head_on_another_frozen_body_shares_nothing(differs: str) -> None:
    """Else the difference of two first steps would be that of two sums of clipped gradients, without noise."""

    def drawn(other: bool) -> dict[str, list[bytes]]:
        torch.manual_seed(0)
        body = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.BatchNorm1d(FEATURES), nn.ELU(1.0)).requires_grad_(False)
        if other and differs == "weights":
            body[0].weight += 1.0
        if other and differs == "buffer":
            body[1].running_mean += 1.0
        if other and differs == "activation":
            body[2].alpha = 2.0
        model = nn.Sequential(body, nn.Linear(FEATURES, 2))
        model.train()
        body.eval()
        run = Running(model, 0.1)
        run.step()
        return run.released()

    first = drawn(False)
    assert drawn(False) == first
    second = drawn(True)
    assert all(set(first[name]).isdisjoint(second[name]) for name in first)


# --- streams of one seed ----------------------------------------------------------------------------------------------

_WORDS = 4096
_SOURCES = ("normal", "rand", "randn", "randperm", "randint")


def _words(generator: torch.Generator) -> np.ndarray:
    """The next words of a generator, which is left as it is."""
    copied = torch.Generator()
    copied.set_state(generator.get_state())
    return torch.empty(_WORDS, dtype=torch.int32).random_(generator=copied).numpy()


_OF_THE_SEED = _words(torch.Generator().manual_seed(SEED))


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[np.ndarray]]]:
    """Words of the generators from which torch draws, by what asks for them."""
    found: dict[str, list[np.ndarray]] = {}
    busy: list[None] = []

    def noted(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def draw(*given: Any, **named: Any) -> Any:
            source, caller = named.get("generator"), sys._getframe(1)
            if source is not None and not busy and caller.f_code.co_name != "_drawn":
                busy.append(None)
                where = Path(caller.f_code.co_filename).stem
                whole = where == "_randomness" and name in ("randint", "randperm")  # a mask draws by several of them
                found.setdefault(f"{where}.{'random_' if whole else name}", []).append(_words(source))
                busy.pop()
            return plain(*given, **named)

        return draw

    for name in _SOURCES:
        monkeypatch.setattr(torch, name, noted(name, getattr(torch, name)))
    monkeypatch.setattr(torch.Tensor, "random_", noted("random_", torch.Tensor.random_))
    yield found


def gep() -> m.Mechanism:
    anchors = m.AnchorGradients(nn.Linear(FEATURES, 2), torch.rand(20, FEATURES), classes=2, seed=SEED)
    return m.Gep(anchors, subspace_dim=3, residual_clip=0.5, groups=[[0, 1]], seed=SEED)


_NOISE, _BATCHES, _ORDER = "_noise.normal", "_sampling.random_", "dataloader.random_"
_MASKS, _RANKING, _LABELS = "_randomness.random_", "_randomness.randn", "_anchor_gradients.randint"


@pytest.mark.parametrize(
    ("make", "own"),
    [
        (m.DpSgd, set()),
        (lambda: m.RandomSparsification(m.Constant(0.5), SEED), {_MASKS}),
        (lambda: m.RandomSparsification(m.Constant(0.5), SEED, refresh_steps=2), {_MASKS}),
        (lambda: m.PosteriorFreeze(m.Constant(0.5), SEED), {_MASKS}),
        (lambda: m.RankedSparsification(m.Constant(0.5), steps_per_epoch=1, seed=SEED), {_RANKING}),
        (lambda: m.LayerFreezing(m.RandomSparsification(m.Constant(0.5), SEED), frozen_layers=1, from_step=1), {_MASKS}),
        (gep, {_LABELS, _RANKING}),
        (lambda: m.IndexPruning(1.0, m.Constant(0.5), group_size=4), set()),
    ],
    ids=["dp-sgd", "masks", "masks per epoch", "posterior", "ranked", "freezing", "gep", "index pruning"],
)  # fmt: skip
@pytest.mark.parametrize("shared", [False, True])
def test_streams_of_one_seed_share_no_words(
    streams: dict[str, list[np.ndarray]], make: Callable[[], m.Mechanism], own: set[str], shared: bool
) -> None:
    """Batches, noise, data order and what a mechanism draws; with equal seeds, and with one generator for all."""
    mechanism = make()
    sizes = (FEATURES, 4, 2) if own == {_MASKS} else (FEATURES, 2)  # two layers, of which one may freeze
    model = nn.Sequential(*(nn.Linear(*pair) for pair in itertools.pairwise(sizes)))
    first, second = (torch.Generator().manual_seed(SEED) for _ in range(2))
    private, optimizer, loader = make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), mechanism=mechanism, noise_multiplier=1.0,
        max_grad_norm=1.0, data_loader=DataLoader(DATA, ROWS // 4, generator=first),
        noise_generator=first if shared else second, probe=False,
    )  # fmt: skip
    for features, names in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(private(features), names % 2).backward()
        optimizer.step()
    assert set(streams) == {_NOISE, _BATCHES, _ORDER} | own
    streams["the seed itself"] = [_OF_THE_SEED]
    pairs = {name: {pair for words in found for pair in itertools.pairwise(words)} for name, found in streams.items()}
    for one, other in itertools.combinations(streams, 2):
        assert not pairs[one] & pairs[other], f"{one} and {other} share words"
        correlation = np.corrcoef(streams[one][0], streams[other][0])[0, 1]
        assert abs(correlation) < 7 / _WORDS**0.5  # seven standard errors
