"""What the studies leave out: noise on the first layers, clipping under a mask, the amplification of Poisson batches."""

import contextlib
import json
import math
from pathlib import Path

import pytest
import torch

from dptheory import privacy
from dptheory.training import runs as runs
from dptheory.training.engine import BudgetError, PartitionBatches, PrivacyAccountant
from dptheory.training.mechanisms import StepCost
from dptheory.training.runs import RunConfig, _prepare, from_dict, prepare
from dptheory.training.runs._train import one_step
from dptheory.training.studies import Study, read_study
from tests.refused import refused
from tests.training.tiny import TRAIN, tiny_config, tiny_load

CPU = torch.device("cpu")
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG")


@pytest.fixture(autouse=True)
def small_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_prepare, "load", tiny_load)


def released(run: runs.Run) -> list[torch.Tensor]:
    """What the next step releases, on all eight tensors of the network."""
    one_step(run)
    assert len(run.optimizer.params) == 8
    return [p.grad * run.config.batch_size for p in run.optimizer.params]


def test_quiet_layers_get_no_noise_and_the_others_the_same_as_without() -> None:
    """Two of four layers are four of eight tensors; the noise begins to be left out at step 2 of 12."""
    quiet = prepare(tiny_config({"name": "quiet-layers", "after": 2 / 12}), CPU)
    plain, silent = prepare(tiny_config(), CPU), prepare(tiny_config({"name": "clipped-sgd"}), CPU)
    for _ in range(2):
        for one, other in zip(released(quiet), released(plain), strict=True):
            assert torch.equal(one, other)
    silent.model.load_state_dict(quiet.model.state_dict())
    silent.step = 2
    rows = zip(released(quiet), released(plain), released(silent), strict=True)
    for place, (found, noisy, bare) in enumerate(rows):
        assert torch.equal(found, bare if place < 4 else noisy)
    assert math.isinf(quiet.optimizer.epsilon(1e-5)) and "NOT PRIVATE" in quiet.optimizer.mechanism.title


def test_noisy_sparsification_masks_and_adds_noise_but_does_not_clip() -> None:
    run = prepare(
        tiny_config({"name": "noisy-sparsification", "drop_rate": 0.5}, max_grad_norm=1e-3, noise_multiplier=1.0), CPU
    )
    clipped = prepare(
        tiny_config({"name": "random-sparsification", "drop_rate": 0.5}, max_grad_norm=1e-3, noise_multiplier=0.0), CPU
    )
    free = prepare(
        tiny_config({"name": "random-sparsification", "drop_rate": 0.5}, max_grad_norm=1e6, noise_multiplier=0.0), CPU
    )
    found, small, expected = (torch.cat([r.flatten() for r in released(r)]) for r in (run, clipped, free))
    assert torch.equal(found == 0, expected == 0) and 0.4 < (found == 0).float().mean() < 0.6
    kept = found != 0
    assert (found - expected)[kept].std().item() == pytest.approx(1e-3, rel=0.05)  # sigma C
    assert expected.norm() > 100 * small.norm()
    assert math.isinf(run.optimizer.epsilon(1e-5)) and "NOT PRIVATE" in run.optimizer.mechanism.title


def test_a_partition_holds_every_example_once_per_pass() -> None:
    batches = PartitionBatches(train_size=12, batch_size=3, seed=1)
    passes = [torch.cat([batches.batch(4 * number + step) for step in range(4)]) for number in range(2)]
    assert all(sorted(p.tolist()) == list(range(12)) for p in passes) and passes[0].tolist() != passes[1].tolist()
    for step in range(8):
        indices = batches.batch(step).tolist()
        assert len(indices) == 3 and indices == sorted(indices)
    parts = torch.cat([batches.batch(5, part, 2) for part in range(2)])
    assert sorted(parts.tolist()) == batches.batch(5).tolist()
    assert PartitionBatches(train_size=12, batch_size=3, seed=2).batch(0).tolist() != batches.batch(0).tolist()
    with refused("batch_size", "12", "5"):
        PartitionBatches(train_size=12, batch_size=5, seed=1)


def test_a_partition_amplifies_nothing() -> None:
    """Each of three steps costs what it would with all examples in it."""
    run = prepare(tiny_config(sampling="partition", noise_multiplier=20.0), CPU)
    for _ in range(3):
        one_step(run)
    report = run.optimizer.privacy(1e-5)
    assert report.epsilon >= privacy.gaussian_epsilon(math.sqrt(3) / 20, 1e-5) * (1 - 1e-9)
    assert report.epsilon == pytest.approx(privacy.gaussian_epsilon(math.sqrt(3) / 20, 1e-5), rel=0.02)
    assert (report.sampling_rate, report.adjacency) == (1.0, "zero-out") and "shuffled" in report.sampler
    assert run.optimizer.expected_batch_size == 30 and TRAIN % 30 == 0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sampling": "shuffle"}, "sampling 'poisson' 'partition'"),
        ({"sampling": "partition", "secure": True}, "sampling 'poisson'"),
        ({"sampling": "partition", "noise_multiplier": None, "epsilon": 1.0}, "noise_multiplier"),
    ],
)
def test_refuses(changes: dict, says: str) -> None:
    with refused(*says.split()):
        from_dict(tiny_config().as_dict() | changes)


@pytest.mark.slow
def test_noise_that_the_studies_state() -> None:
    """The index budgets fit into epsilon = 1 with all steps; the arms without a budget have the noise of the others."""
    freezing = read_study(Path("configs/studies/freezing.toml"))
    quiet = freezing.config(freezing.phase("fashion-1"), arm="quiet-layers", point={}, seed=100)
    assert _least(freezing, "fashion-1", "dp-sgd") == pytest.approx(quiet.noise_multiplier, rel=1e-6)
    study = read_study(Path("configs/studies/index_pruning.toml"))
    final = study.phase("final")
    for arm in ("index-pruning", "index-pruning-1000"):
        config = study.config(final, arm=arm, point={}, seed=0)
        steps = config.epochs * 60_000 // config.batch_size
        cost = _cost(config, steps)
        for more, fits in ((0, True), (steps // 100, False)):
            accountant = PrivacyAccountant(config.batch_size / 60_000)
            accountant.limit(epsilon=1.0, delta=1e-5)
            accountant._spent[cost] = steps - 1 + more
            with contextlib.nullcontext() if fits else pytest.raises(BudgetError):
                accountant.clear(cost)
    magnitudes = study.config(study.phase("others"), arm="noisy-magnitudes", point={}, seed=0)
    joint = 1 / math.hypot(1 / magnitudes.noise_multiplier, 1 / magnitudes.mechanism["selection_multiplier"])
    least = _least(study, "others", "dp-sgd")
    assert joint == pytest.approx(least, rel=1e-3) and joint >= least


def test_entries_that_a_step_of_the_study_of_index_pruning_keeps() -> None:
    """As its answers say: of 26,010; the padding of the last group of index pruning is among what it chooses from."""
    study, kept = read_study(Path("configs/studies/index_pruning.toml")), dict[str, int]()
    for arm in ("random-k", "index-pruning", "index-pruning-1000"):
        table = study.config(study.phase("final"), arm=arm, point={}, seed=0).as_dict()
        run = prepare(
            from_dict(table | {"data": "excerpt", "batch_size": 30, "noise_multiplier": 1.0, "epsilon": None}), CPU
        )
        kept[arm] = sum(int(one.count_nonzero()) for one in released(run))
    assert kept["random-k"] == 2601 and all(2630 <= kept[arm] <= 2650 for arm in kept if arm != "random-k"), kept


def test_index_pruning_at_two_budgets_often_makes_the_same_run() -> None:
    """As the study says."""
    path = Path(__file__).parents[3] / "proofs" / "results" / "index_pruning.jsonl"
    rows = {row["run"]: row["epochs"]["test_accuracy"] for row in map(json.loads, path.read_text().splitlines())}
    one, other = (
        [rows[f"final_{arm}_seed={seed}"] for seed in range(16)] for arm in ("index-pruning", "index-pruning-1000")
    )
    assert sum(a == b for a, b in zip(one, other, strict=True)) >= 8


def test_shuffled_passes_have_the_noise_of_the_poisson_batches() -> None:
    study = read_study(Path("configs/studies/masking.toml"))
    partition = study.config(study.phase("final"), arm="dp-sgd-partition", point={}, seed=0)
    assert partition.noise_multiplier == pytest.approx(_least(study, "final", "dp-sgd"), rel=1e-6)


def _least(study: Study, phase: str, arm: str) -> float:
    """The noise that a run of the arm resolves its epsilon to, on 60,000 examples."""
    config = study.config(study.phase(phase), arm=arm, point={}, seed=study.phase(phase).seeds[0])
    rate = config.batch_size / 60_000
    return privacy.least_noise_multiplier(
        epsilon=config.epsilon, delta=config.delta, sampling_rate=rate, steps=round(config.epochs / rate)
    )


def _cost(config: RunConfig, steps: int) -> StepCost:
    """Of a step of index pruning in a run of that many, on the tiny data."""
    small = from_dict(config.as_dict() | {"data": "excerpt", "batch_size": 2, "epsilon": None})
    run = prepare(small, CPU)
    assert run.steps == steps
    one_step(run)
    return run.optimizer.mechanism.cost(run.optimizer.noise_multiplier)
