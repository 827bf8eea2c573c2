"""States on disk."""

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest
import torch
from torch import nn

from dptheory.privacy import Step
from dptheory.training import runs
from dptheory.training._last_weights import LastWeights, first_averaged
from dptheory.training.runs import CSV, JSON, STATE, STATEMENT, STATEMENT_JSON, WEIGHTS, RunConfig, _checkpoint, _train
from tests.refused import refused
from tests.training.tiny import tiny_config

pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG"),
    pytest.mark.usefixtures("small_data"),
]

# --- States on disk: resumed runs are bit for bit those that were never interrupted; nothing is lost or mixed up ---


CPU = torch.device("cpu")
GEP = {"subspace_dim": 12, "residual_clip": 0.3, "anchors": 12}

MECHANISMS = {
    "dp-sgd": {"name": "dp-sgd"},
    "random-sparsification": {"name": "random-sparsification", "drop_rate": 0.5},
    "mask-kept": {"name": "random-sparsification", "drop_rate": 0.5, "cooling_epochs": 2, "refreshes_per_epoch": 1},
    "posterior-freeze": {"name": "posterior-freeze", "drop_rate": 0.5, "refreshes_per_epoch": 2},
    "random-k": {"name": "random-k", "keep_share": 0.3},
    "ranked": {"name": "ranked-sparsification", "drop_rate": 0.5},
    "ranked-true": {"name": "ranked-by-true-gradients", "drop_rate": 0.5},
    "index-pruning": {"name": "index-pruning", "keep_share": 0.1, "index_epsilon": 0.5, "schedule": "linear"},
    "top-k": {"name": "top-k-of-released", "keep_share": 0.2, "schedule": "exponential"},
    "magnitudes": {"name": "noisy-magnitudes", "keep_share": 0.2, "selection_multiplier": 2.0},
    "gep": {"name": "gep", **GEP},
    "gep-optimal": {"name": "gep-optimal", **GEP},
    "gep-joint": {"name": "gep-joint", **GEP},
    "biased-gep": {"name": "biased-gep", **GEP},
    "freezing": {"name": "layer-freezing", "after": 0.5},
    "quiet": {"name": "quiet-layers", "after": 0.5},
    "noisy-sparsification": {"name": "noisy-sparsification", "drop_rate": 0.5},
}


def test_every_mechanism_is_here() -> None:
    missing = set(runs.BUILDERS) - {"noisy-sgd", "clipped-sgd"} - {table["name"] for table in MECHANISMS.values()}
    assert missing == set(), "write a table for each into MECHANISMS: its state is stopped and resumed below"


def start(config: RunConfig, folder: Path | None = None) -> runs.Run:
    run = runs.prepare(config, CPU)
    if folder is not None:
        _checkpoint.restore(run, folder)
    return run


def go(run: runs.Run, steps: int) -> runs.Run:
    for _ in range(steps):
        _train.one_step(run)
    return run


def weights(run: runs.Run) -> list[torch.Tensor]:
    return [p.detach().clone() for p in run.model.parameters()]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(("name", "optimizer"), [*((name, "sgd") for name in MECHANISMS), ("freezing", "adam")])
def test_resumed_runs_are_those_never_interrupted(tmp_path: Path, name: str, optimizer: str) -> None:
    """Interrupted before, at and after the step at which layers freeze (6) and masks change (4, 8)."""
    kind = {"name": optimizer, "learning_rate": 0.1} | ({"momentum": 0.9} if optimizer == "sgd" else {})
    config = tiny_config(MECHANISMS[name], optimizer=kind)
    whole = go(start(config), 9)
    broken = start(config)
    for step in (3, 6, 7, 9):
        go(broken, step - broken.step)
        _checkpoint.save(broken, tmp_path)
        broken = start(config, tmp_path)
        assert broken.step == step
    assert same(weights(whole), weights(broken))
    assert not same(weights(whole), weights(start(config)))
    assert broken.optimizer.epsilon(1e-5) == whole.optimizer.epsilon(1e-5)
    assert broken.optimizer.accountant.steps == 9


def test_freezing_stays_frozen_across_a_resumption(tmp_path: Path) -> None:
    config = tiny_config(MECHANISMS["freezing"])
    run = go(start(config), 6)
    _checkpoint.save(run, tmp_path)
    again = go(start(config, tmp_path), 3)
    frozen = [torch.equal(a, b) for a, b in zip(weights(run), weights(again), strict=True)]
    assert frozen == [True] * 4 + [False] * 4 and len(again.optimizer.params) == 4


def test_a_decayed_learning_rate_goes_on(tmp_path: Path) -> None:
    """Saved in the first epoch and resumed for the second, at whose rate it goes on."""
    config = tiny_config(optimizer={"name": "sgd", "learning_rate": 0.5, "momentum": 0.9, "decay": 0.5})
    run = go(start(config), 4)
    _checkpoint.save(run, tmp_path)
    again = go(start(config, tmp_path), 2)
    assert same(weights(go(run, 2)), weights(again)) and again.optimizer.param_groups[0]["lr"] == 0.375


def test_functorch_and_virtual_batches_resume_too(tmp_path: Path) -> None:
    config = tiny_config(MECHANISMS["random-sparsification"], grad_sample_mode="functorch", physical_batch_size=7)
    whole, run = go(start(config), 5), go(start(config), 2)
    _checkpoint.save(run, tmp_path)
    assert same(weights(whole), weights(go(start(config, tmp_path), 3)))


def test_other_physical_batches_may_resume(tmp_path: Path) -> None:
    config = tiny_config(MECHANISMS["random-sparsification"])
    _checkpoint.save(go(start(config), 2), tmp_path)
    small = tiny_config(MECHANISMS["random-sparsification"], physical_batch_size=5)
    for a, b in zip(weights(go(start(config), 4)), weights(go(start(small, tmp_path), 2)), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 6}, "seed"), ({"noise_multiplier": 0.5}, "noise_multiplier"), ({"epochs": 4}, "epochs"),
        ({"batch_size": 20, "max_grad_norm": 2.0}, "batch_size, max_grad_norm"), ({"epsilon": 1e6}, "epsilon"),
        ({"mechanism": {"name": "random-k", "keep_share": 0.5}}, "mechanism"), ({"optimizer": {"name": "adam"}}, "optimizer"),
    ],
)  # fmt: skip
def test_another_configuration_is_refused(tmp_path: Path, changes: dict, named: str) -> None:
    _checkpoint.save(go(start(tiny_config()), 1), tmp_path)
    other = tiny_config(**({"mechanism": {"name": "dp-sgd"}} | changes)) if "mechanism" not in changes else None
    config = other or tiny_config(changes["mechanism"])
    with refused(STATE, named):
        start(config, tmp_path)


def test_nothing_to_resume_and_files_that_are_no_states(tmp_path: Path) -> None:
    with refused("out", STATE, "--resume"):
        start(tiny_config(), tmp_path)
    whole = tmp_path / STATE
    _checkpoint.save(go(start(tiny_config()), 1), tmp_path)
    content = whole.read_bytes()
    for bad in (b"", b"no state", content[: len(content) // 2]):
        whole.write_bytes(bad)
        with refused(STATE):
            start(tiny_config(), tmp_path)
    torch.save([1, 2], whole)
    with refused(STATE):
        start(tiny_config(), tmp_path)


@pytest.mark.parametrize("key", ["config", "model", "optimizer", "step", "losses", "seen", "seconds", "spent", "rows"])
def test_a_state_that_lacks_a_part(tmp_path: Path, key: str) -> None:
    _checkpoint.save(go(start(tiny_config()), 1), tmp_path)
    state = torch.load(tmp_path / STATE)
    torch.save({k: v for k, v in state.items() if k != key}, tmp_path / STATE)
    with refused(STATE) as error:
        start(tiny_config(), tmp_path)
    assert error.value.value == (tmp_path / STATE if key == "config" else [key])


def test_parts_that_are_those_of_something_else(tmp_path: Path) -> None:
    _checkpoint.save(go(start(tiny_config()), 1), tmp_path)
    state = torch.load(tmp_path / STATE)
    inner = state["optimizer"]["optimizer"]  # what a plain torch optimizer saves
    for part, other in (("optimizer", inner), ("optimizer", {}), ("optimizer", 3), ("model", {}), ("model", [1])):
        torch.save(state | {part: other}, tmp_path / STATE)
        with refused(STATE):
            start(tiny_config(), tmp_path)


def test_what_no_noise_protects_is_for_its_owner_alone(tmp_path: Path) -> None:
    for secure in (True, False):
        folder, before = tmp_path / str(secure), os.umask(0o022)
        try:
            run = start(tiny_config(secure=secure))
            _checkpoint.save_all(run, folder), runs.write_statement(run, folder), runs.write_weights(run, folder)
        finally:
            os.umask(before)
        modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
        assert modes == dict.fromkeys((STATE, CSV, JSON), 0o600) | dict.fromkeys(
            (STATEMENT, STATEMENT_JSON, WEIGHTS), 0o644
        )


@pytest.mark.parametrize("stage", ["write", "rename"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_write_leaves_the_state_before(tmp_path: Path, monkeypatch, stage: str, error: type) -> None:
    run = go(start(tiny_config()), 2)
    _checkpoint.save(run, tmp_path)
    before = weights(run)
    go(run, 2)

    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("os.fdopen" if stage == "write" else "pathlib.Path.replace", fail)
        with pytest.raises(error):
            _checkpoint.save(run, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [STATE]
    again = start(tiny_config(), tmp_path)
    assert again.step == 2 and same(before, weights(again))


def test_secure_runs_resume_with_fresh_randomness(tmp_path: Path) -> None:
    config = tiny_config(secure=True)
    run = go(start(config), 2)
    _checkpoint.save(run, tmp_path)
    one, two = go(start(config, tmp_path), 1), go(start(config, tmp_path), 1)
    assert one.step == two.step == 3 and not same(weights(one), weights(two))


def test_a_state_is_not_overwritten(tmp_path: Path) -> None:
    runs.train(tiny_config(MECHANISMS["dp-sgd"]), CPU, tmp_path, resume=False)
    before = (tmp_path / STATE).read_bytes()
    with refused("out", "--resume"):
        runs.train(tiny_config(MECHANISMS["dp-sgd"]), CPU, tmp_path, resume=False)
    assert (tmp_path / STATE).read_bytes() == before


@pytest.mark.parametrize("left", [CSV, JSON, STATEMENT, STATEMENT_JSON, WEIGHTS])
def test_no_file_of_an_earlier_run_is_overwritten(tmp_path: Path, left: str) -> None:
    """It may say what was spent, also where its state was removed."""
    (tmp_path / left).write_text("of an earlier run")
    with refused("out", left):
        runs.train(tiny_config(), CPU, tmp_path, resume=False)
    assert (tmp_path / left).read_text() == "of an earlier run"


@pytest.mark.parametrize("broken", ["write_metrics", "save"])
def test_no_file_says_less_than_the_state_has_spent(tmp_path: Path, monkeypatch, broken: str) -> None:
    """Where the second epoch's files are not all written, and no statement is left of the first."""
    run = go(start(tiny_config()), 2)
    _checkpoint.save_all(run, tmp_path)
    runs.write_statement(run, tmp_path)
    runs.write_weights(run, tmp_path)
    go(run, 2)

    def full(*_: object) -> None:
        raise OSError("full")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="full"):
        patch.setattr(_checkpoint, broken, full)
        _checkpoint.save_all(run, tmp_path)
    state = torch.load(tmp_path / STATE, weights_only=True)
    assert json.loads((tmp_path / JSON).read_text())["privacy"]["steps"] >= state["step"] == run.step - 2
    assert not any((tmp_path / name).exists() for name in (STATEMENT, STATEMENT_JSON, WEIGHTS))


def test_a_folder_is_locked_for_one_and_free_again(tmp_path: Path) -> None:
    with (
        _checkpoint.locked(tmp_path / "new"),
        refused("out", tmp_path / "new"),
        _checkpoint.locked(tmp_path / "new"),
    ):
        pass
    with pytest.raises(KeyError), _checkpoint.locked(tmp_path / "new"):
        raise KeyError
    with _checkpoint.locked(tmp_path / "new"):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"), _checkpoint.locked(tmp_path / "file"):
        pass


def test_only_the_first_process_takes_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_checkpoint.engine, "first", lambda: False)
    with _checkpoint.locked(tmp_path / "new"):
        assert not (tmp_path / "new").exists()
    monkeypatch.setattr(_checkpoint.engine, "summed", lambda value, device: value + 1)
    with (
        refused("out", tmp_path / "new"),
        _checkpoint.locked(tmp_path / "new"),
    ):
        pass


def test_a_lock_that_everybody_may_take_and_a_disk_that_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(0o002)
    try:
        with _checkpoint.locked(tmp_path / "new" / "folder"):
            assert (tmp_path / "new" / "folder" / ".lock").stat().st_mode & 0o777 == 0o664
    finally:
        os.umask(before)

    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", none)
    with pytest.raises(OSError, match="No locks available"), _checkpoint.locked(tmp_path):
        pass


def test_the_privacy_statement_of_a_run(tmp_path: Path) -> None:
    run = go(start(tiny_config()), 2)
    runs.write_statement(run, tmp_path)
    said, text = json.loads((tmp_path / STATEMENT_JSON).read_text()), (tmp_path / STATEMENT).read_text()
    assert said["epsilon"] == run.optimizer.epsilon(run.config.delta) and said["steps"] == 2
    assert f"seed {run.config.seed} of the configuration" in said["randomness"] and said["randomness"] in text
    runs.write_weights(run, tmp_path)
    assert hashlib.sha256((tmp_path / WEIGHTS).read_bytes()).hexdigest() in text
    (tmp_path / WEIGHTS).unlink()
    secure = go(start(tiny_config(secure=True)), 1)
    runs.write_statement(secure, tmp_path)
    said = json.loads((tmp_path / STATEMENT_JSON).read_text())
    assert said["secure"] and "seed" not in said["randomness"] and said["steps"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [STATEMENT_JSON, STATEMENT]


def test_a_run_goes_on_with_the_releases_that_it_counted(tmp_path: Path) -> None:
    """Left out on the way, they would no longer be counted."""
    first = start(tiny_config())
    first.optimizer.accountant.record_release(Step(noise_multiplier=9.0, sampling_rate=1.0, count=2))
    _checkpoint.save(go(first, 1), tmp_path)
    again = start(tiny_config())
    _checkpoint.restore(again, tmp_path)
    assert len(again.optimizer.accountant.releases) == 1


# The mean of the last weights, kept while a network trains: what goes in, what a state brings back, and what stays


@pytest.mark.parametrize(
    ("steps", "average", "first"), [(10, 0.2, 8), (10, 1.0, 0), (10, 1e-9, 9), (13, 0.5, 7), (1, 0.5, 0)]
)
def test_the_first_step_of_the_average(steps: int, average: float, first: int) -> None:
    assert first_averaged(steps, average) == first


def network() -> nn.Module:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    return model


def moved(model: nn.Module, mean: LastWeights, values: list[float]) -> None:
    for value in values:
        nn.init.constant_(model[1].weight, value)  # type: ignore[index]
        mean.take()


def test_the_mean_stands_in_for_the_weights_meanwhile() -> None:
    model = network()
    mean = LastWeights(model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with mean.inside():
        assert all(torch.equal(before[name], value) for name, value in model.state_dict().items()), "no mean yet"
    moved(model, mean, [1.0, 2.0, 6.0])
    with pytest.raises(KeyError), mean.inside():
        assert model[1].weight.tolist() == [[3.0, 3.0]]  # type: ignore[index]
        raise KeyError
    assert model[1].weight.tolist() == [[6.0, 6.0]]  # type: ignore[index]
    copy = mean.of(model)
    assert copy[1].weight.tolist() == [[3.0, 3.0]]  # type: ignore[index]
    assert torch.equal(copy[0].weight, before["0.weight"]), "what is frozen is not averaged"  # type: ignore[index]


def test_the_exponential_average_by_its_weights() -> None:
    """One number after the other counts half as much as the next; and next to 1 it is the plain mean."""
    model, values = network(), [1.0, 2.0, 6.0]
    mean = LastWeights(model, decay=0.5)
    moved(model, mean, values[:1])
    assert mean.of(model)[1].weight.tolist() == [[1.0, 1.0]]  # type: ignore[index]
    moved(model, mean, values[1:])
    wanted = (0.25 * 1.0 + 0.5 * 2.0 + 6.0) / 1.75
    assert mean.of(model)[1].weight.flatten().tolist() == pytest.approx([wanted] * 2, rel=3 * 2**-23)  # type: ignore[index]
    slow = LastWeights(model, decay=1.0 - 1e-12)
    moved(model, slow, values)
    assert slow.of(model)[1].weight.flatten().tolist() == pytest.approx([3.0] * 2, rel=3 * 2**-23)  # type: ignore[index]


@pytest.mark.parametrize("decay", [1.0, 0.9])
def test_a_state_goes_on_bit_for_bit(decay: float) -> None:
    model, values = network(), [0.1, 0.7, -0.3, 0.9]
    whole = LastWeights(model, decay=decay)
    moved(model, whole, values)
    first = LastWeights(model, decay=decay)
    moved(model, first, values[:2])
    state = {"count": first.count, "weights": {k: v.clone() for k, v in first.state_dict()["weights"].items()}}
    second = LastWeights(model, decay=decay)
    second.load_state_dict(state)
    moved(model, second, values[2:])
    assert second.count == whole.count == 4
    assert torch.equal(second.of(model)[1].weight, whole.of(model)[1].weight)  # type: ignore[index]


def test_a_state_of_another_network_is_refused() -> None:
    model, other = network(), nn.Linear(3, 1)
    mean = LastWeights(other)
    mean.take()
    with refused("state"):
        LastWeights(model).load_state_dict(mean.state_dict())
    LastWeights(model).load_state_dict(LastWeights(other).state_dict())  # none yet: of any
