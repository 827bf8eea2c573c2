"""Who hands what to whom: a run, ``make_private`` and a validation, with everything that they call noted down."""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from rich.progress import Progress
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dptheory import privacy
from dptheory.training import mechanisms as m
from dptheory.training.data import Images, standardised
from dptheory.training.engine import POISSON, GeneratorBatches, PoissonBatches, SecureBatches
from dptheory.training.measure import LinearGradient, Moment, Result, Row, ValidateSettings
from dptheory.training.measure import _report as report_of
from dptheory.training.measure import _snapshot as snapshot_of
from dptheory.training.measure import _validation as validate_of
from dptheory.training.networks import small_tanh_cnn
from dptheory.training.runs import DpSgdSettings, _checkpoint
from dptheory.training.runs import _prepare as prepare_of
from dptheory.training.runs import _train as run_of
from tests.refused import refused
from tests.training import sgd
from tests.training.made_rows import row as made_row
from tests.training.tiny import TEST, TRAIN, made_up_data, tiny_config, tiny_load

CPU = torch.device("cpu")

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG")


def stream(seed: int, purpose: int, kind: type = np.uint32) -> int:
    """Of the weights (0), the batches (1), the noise (2) and the masks (3)."""
    return int(np.random.SeedSequence((seed, purpose)).generate_state(1, kind)[0])


# --- a run ----------------------------------------------------------------------------------------------------------------


def prepared(
    monkeypatch: pytest.MonkeyPatch, mechanism: dict | None = None, **changes: Any
) -> tuple[Any, dict[str, Any]]:
    asked: dict[str, Any] = {}
    plain = prepare_of.attach
    made_up_data(monkeypatch)
    monkeypatch.setattr(prepare_of, "attach", lambda **given: asked.update(given) or plain(**given))
    return prepare_of.prepare(tiny_config(mechanism, **changes), CPU), asked


def test_every_stream_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run, asked = prepared(monkeypatch, {"name": "random-sparsification", "drop_rate": 0.5})
    assert asked["noise_generator"].initial_seed() == stream(5, 2)
    assert run.batches == PoissonBatches(train_size=TRAIN, sampling_rate=0.25, seed=stream(5, 1))
    for found, wanted in zip(run.model.parameters(), small_tanh_cnn(stream(5, 0)).parameters(), strict=True):
        assert torch.equal(found, wanted)
    (masks,) = asked["mechanism"].streams()
    assert masks.on("cpu").initial_seed() == stream(5, 3)
    assert run.optimizer.noise_stream.on("cpu") is asked["noise_generator"]
    assert len({prepare_of.stream(5, purpose) for purpose in range(4)}) == 4
    assert [prepare_of.stream(5, purpose) for purpose in range(4)] == [stream(5, purpose) for purpose in range(4)]


def test_labels_of_anchors_are_another_stream_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Than the start of the power iteration, whose seed they once had; also in a secure run, where they alone have a seed."""
    table = {"name": "gep", "subspace_dim": 12, "residual_clip": 0.3, "anchors": 12}
    _, asked = prepared(monkeypatch, table)
    start, labels = (one.on("cpu").initial_seed() for one in asked["mechanism"].streams())
    assert start == stream(5, 3) and labels not in {5, *(stream(5, purpose) for purpose in range(4))}
    _, asked = prepared(monkeypatch, table, secure=True)
    (alone,) = asked["mechanism"].streams()
    assert alone.on("cpu").initial_seed() not in {5, labels}


def test_what_a_run_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    run, asked = prepared(monkeypatch, max_grad_norm=0.7, noise_multiplier=1.5, grad_sample_mode="functorch")
    assert (asked["sampling_rate"], asked["train_size"], asked["noise_multiplier"]) == (0.25, TRAIN, 1.5)
    assert (asked["max_grad_norm"], asked["grad_sample_mode"], asked["secure"]) == (0.7, "functorch", False)
    assert asked["module"] is run.model and run.model.training and isinstance(asked["mechanism"], m.DpSgd)
    group = asked["optimizer"].param_groups[0]
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.5, 0.9, 0.0)
    assert (run.steps, run.step, run.losses, run.seen, run.seconds, run.spent, run.rows) == (
        12,
        0,
        0.0,
        0,
        0.0,
        False,
        [],
    )
    for found, train in ((run.train, True), (run.test, False)):
        assert torch.equal(found.pixels, standardised(tiny_load("excerpt", train=train)).pixels)
    assert len(run.test) == TEST and run.optimizer.accountant._budget is None
    assert run.device == CPU
    _, asked = prepared(monkeypatch, optimizer={"name": "adam", "learning_rate": 0.25, "weight_decay": 0.125})
    assert isinstance(asked["optimizer"], torch.optim.Adam)
    assert [asked["optimizer"].param_groups[0][name] for name in ("lr", "weight_decay")] == [0.25, 0.125]


def test_a_secure_run_takes_nothing_from_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    run, asked = prepared(monkeypatch, {"name": "random-sparsification", "drop_rate": 0.5}, secure=True)
    assert asked["noise_generator"] is None and asked["secure"] is True and not asked["mechanism"].seeded
    assert run.batches == SecureBatches(train_size=TRAIN, sampling_rate=0.25)


def test_noise_for_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[Any] = []
    monkeypatch.setattr(privacy, "least_noise_multiplier", lambda **a: wanted.append(tuple(a.values())) or 1.25)
    run, asked = prepared(monkeypatch, noise_multiplier=None, epsilon=4.0, delta=1e-4)
    assert wanted == [(4.0, 1e-4, 12, 0.25)] and asked["noise_multiplier"] == 1.25
    assert run.optimizer.accountant._budget == (4.0, 1e-4)


@pytest.mark.parametrize(
    ("epoch", "rate", "steps"),
    [(1, 0.25, 4), (3, 0.25, 12), (1, 0.3, 3), (2, 0.3, 7), (1, 1.0, 1), (5, 1.0, 5), (3, 0.9, 3)],
)
def test_steps_of_the_epochs(epoch: int, rate: float, steps: int) -> None:
    assert prepare_of.last_step(epoch, rate) == steps


def test_half_of_the_test_images_at_most_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    gep = {"name": "gep", "subspace_dim": 2, "residual_clip": 0.3, "anchors": TEST // 2}
    assert len(prepared(monkeypatch, gep)[0].test) == TEST // 2
    with refused("mechanism.anchors"):
        prepared(monkeypatch, gep | {"anchors": TEST // 2 + 1})
    assert prepare_of.AUXILIARY == {
        "excerpt": "excerpt", "fashion-mnist": "fashion-mnist", "mnist": "excerpt", "cifar-10": "cifar-10"
    }  # fmt: skip


def test_auxiliary_images_of_another_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of another set leave all test images to judge the run by; no set that shares images with the run's, nor of other
    shape."""
    gep = {"name": "gep", "subspace_dim": 2, "residual_clip": 0.3, "anchors": 7}
    for name, left in (("excerpt", TEST - 7), ("mnist", TEST)):
        run = prepared(monkeypatch, gep | {"auxiliary": name})[0]
        source = vars(run.optimizer.mechanism)["_anchors"]
        wanted = standardised(tiny_load(name, train=False)).pixels[:7]
        assert len(run.test) == left and torch.equal(vars(source)["_pixels"], wanted)
    for data, name, *shown in (
        ("excerpt", "fashion-mnist", "'excerpt'"),
        ("fashion-mnist", "excerpt", "'fashion-mnist'"),
        ("mnist", "cifar-10", (1, 28, 28), (3, 32, 32)),
    ):
        with refused("mechanism.auxiliary", repr(name), *shown):
            prepared(monkeypatch, gep | {"auxiliary": name}, data=data)


def test_one_step_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The losses of all examples of the batch, and how many there were."""
    run, _ = prepared(monkeypatch, noise_multiplier=0.0, physical_batch_size=7)
    indices = run.batches.batch(0)
    signals: list[bool] = []
    plain = run.optimizer.signal_skip_step
    monkeypatch.setattr(run.optimizer, "signal_skip_step", lambda do_skip: signals.append(do_skip) or plain(do_skip))
    with torch.no_grad():
        losses = nn.functional.cross_entropy(
            run.model(run.train.pixels[indices]), run.train.labels[indices], reduction="sum"
        )
    found = run_of.one_step(run)
    assert found == (pytest.approx(float(losses), rel=1e-5), len(indices)) and run.step == 1
    assert signals == [True] * (math.ceil(len(indices) / 7) - 1) + [False]


def test_rows_of_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch that was interrupted has no row and keeps its sums; the next call ends it."""
    run, _ = prepared(monkeypatch)
    calls: list[int] = []
    run_of._epoch(run, lambda: run.step == 2, lambda: calls.append(run.step))
    assert (run.step, run.rows, calls) == (2, [], [1, 2]) and run.seen > 0 and run.losses > 0
    seen, losses, seconds = run.seen, run.losses, run.seconds
    first = [len(run.batches.batch(step)) for step in range(4)]
    assert seen == sum(first[:2]) and seconds > 0
    run_of._epoch(run, lambda: False, lambda: None)
    (row,) = run.rows
    assert (row["epoch"], row["step"], row["nonfinite_samples"]) == (1, 4, 0)
    assert row["epsilon"] == run.optimizer.epsilon(1e-5) and row["seconds"] > seconds
    assert losses / sum(first) < row["train_loss"] < 10
    assert (run.losses, run.seen, run.seconds) == (0.0, 0, 0.0)
    run_of._epoch(run, lambda: True, lambda: None)
    run_of._epoch(run, lambda: True, lambda: None)
    assert run.step == 6 and len(run.rows) == 1
    run.spent = True
    run_of._epoch(run, lambda: False, lambda: None)
    assert [(one["epoch"], one["step"]) for one in run.rows] == [(1, 4), (2, 6)]
    run_of._epoch(run, lambda: False, lambda: None)
    assert len(run.rows) == 2  # nothing was done since


def test_numbers_that_json_lacks() -> None:
    given = {"a": math.inf, "b": math.nan, "c": -math.inf, "d": 1.5, "e": 3, "f": "inf", "g": None}
    assert _checkpoint._plain(given) == given | {"a": None, "b": None, "c": None}


# --- make_private -----------------------------------------------------------------------------------------------------------


def made(loader: DataLoader | None = None, **options: Any) -> Any:
    model = nn.Linear(3, 2)
    given = {"mechanism": m.DpSgd(), "noise_multiplier": 1.5, "max_grad_norm": 0.7} | options
    return sgd.make_private(
        model, DataLoader(TensorDataset(torch.zeros(20, 3)), 5) if loader is None else loader, **given
    )


def test_defaults_of_make_private() -> None:
    _, optimizer, loader = made()
    assert (optimizer.noise_multiplier, optimizer.max_grad_norm, optimizer.expected_batch_size) == (1.5, 0.7, 5.0)
    assert optimizer.loss_reduction == "mean" and loader.generator is None and not optimizer.secure
    assert optimizer.accountant.sampling_rate == 0.25 and len(loader) == 4
    sampler = loader.batch_sampler
    assert isinstance(vars(sampler)["_batches"], GeneratorBatches)
    assert (sampler.num_samples, sampler.sample_rate, sampler.steps) == (20, 0.25, 4)
    assert vars(sampler)["_place"] == (0, 1) and vars(sampler)["_listener"] is optimizer
    assert vars(sampler)["_drawn_ahead"] is False
    assert optimizer.privacy(1e-5).sampler == POISSON
    generator, noise = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    given = DataLoader(TensorDataset(torch.zeros(20, 3)), 5, generator=generator)
    _, optimizer, loader = made(given, noise_generator=noise, loss_reduction="sum")
    assert optimizer.loss_reduction == "sum"
    assert vars(loader.batch_sampler)["_batches"].generator is generator
    own = optimizer.noise_stream.on("cpu"), vars(loader.batch_sampler)["_batches"].stream.on("cpu"), loader.generator
    assert len({id(one) for one in (*own, generator, noise)}) == 5 and optimizer.generator is None
    _, optimizer, loader = made(secure=True)
    assert optimizer.secure and vars(loader.batch_sampler)["_batches"] == SecureBatches(
        train_size=20, sampling_rate=0.25
    )


@pytest.mark.parametrize(("rate", "steps"), [(1.0, 1), (0.7, 1), (0.3, 3), (0.03, 33)])
def test_steps_of_a_pass(rate: float, steps: int) -> None:
    loader = made(sampling_rate=rate, expected_batch_size=3.0)[2]
    assert len(loader) == steps


def test_a_loader_keeps_its_ways() -> None:
    def begin(worker: int) -> None:
        pass

    given = DataLoader(
        TensorDataset(torch.zeros(20, 3)), 5, num_workers=2, timeout=7, worker_init_fn=begin, prefetch_factor=3,
        persistent_workers=True, multiprocessing_context="fork",
    )  # fmt: skip
    found = made(given)[2]
    assert vars(found.dataset) is vars(given.dataset)  # reads whole batches
    for name in (
        "num_workers",
        "timeout",
        "worker_init_fn",
        "prefetch_factor",
        "persistent_workers",
        "pin_memory",
    ):
        assert getattr(found, name) == getattr(given, name)
    assert vars(found.batch_sampler)["_drawn_ahead"] is True
    assert found.multiprocessing_context.get_start_method() == "fork"


# --- a validation -------------------------------------------------------------------------------------------------------------

SETTINGS = ValidateSettings(
    DpSgdSettings(steps=7, batch_size=40, noise_multiplier=1.5, max_grad_norm=0.7, learning_rate=0.5, seed=3),
    subspace_dims=(2,),
    pool=30,
    anchors=12,
    window=2,
    draws=20,
)


def images(train: bool) -> Images:
    return tiny_load("excerpt", train=train)


def test_streams_of_a_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    plain = snapshot_of.attach
    monkeypatch.setattr(snapshot_of, "attach", lambda **given: asked.update(given) or plain(**given))
    trainer = snapshot_of.prepare(images(True), images(False).pixels, SETTINGS, CPU)
    training = SETTINGS.training
    assert (asked["sampling_rate"], asked["train_size"]) == (1 / 3, TRAIN)
    assert (asked["noise_multiplier"], asked["max_grad_norm"]) == (1.5, 0.7)
    assert asked["optimizer"].param_groups[0]["lr"] == 0.5 and isinstance(asked["mechanism"], m.DpSgd)
    assert asked["noise_generator"].initial_seed() == training.stream(2)
    assert trainer.batches == PoissonBatches(train_size=TRAIN, sampling_rate=1 / 3, seed=training.stream(1))
    wanted = small_tanh_cnn(training.stream(0)).state_dict()
    assert all(torch.equal(value, wanted[name]) for name, value in trainer.plain.state_dict().items())
    anchors = vars(trainer.anchors)
    assert torch.equal(anchors["_pixels"], images(False).pixels[:12]) and anchors["_classes"] == 10
    assert (
        trainer.anchors.streams()[0].on("cpu").initial_seed() == training.stream(4)
        and anchors["_model"] is trainer.plain
    )
    assert trainer.device == CPU and len(trainer.images) == TRAIN
    for name, most in (("pool", TRAIN), ("anchors", TEST)):
        snapshot_of.prepare(images(True), images(False).pixels, dataclasses.replace(SETTINGS, **{name: most}), CPU)
        with refused(name, most, most + 1):
            large = dataclasses.replace(SETTINGS, **{name: most + 1})
            snapshot_of.prepare(images(True), images(False).pixels, large, CPU)


def gradients(model: nn.Module, indices: torch.Tensor) -> np.ndarray:
    """One example after the other."""
    found, data = [], images(True)
    for index in indices:
        model.zero_grad()
        nn.functional.cross_entropy(model(data.pixels[index][None]), data.labels[index][None]).backward()
        found.append(torch.cat([p.grad.flatten() for p in model.parameters()]).double().numpy())
    return np.array(found)


def test_gradients_of_a_snapshot() -> None:
    trainer = snapshot_of.prepare(images(True), images(False).pixels, SETTINGS, CPU)
    model = small_tanh_cnn(SETTINGS.training.stream(0))
    steps: list[int] = []
    taken = snapshot_of.snapshots(trainer, SETTINGS, lambda: steps.append(1))
    assert len(steps) == 7 and [(one.name, one.step) for one in taken] == [("start", 0), ("middle", 2), ("end", 4)]
    first = taken[0]
    batch = trainer.batches.batch(0)
    close = {"rtol": 1e-3, "atol": 1e-6}
    own = gradients(model, batch)
    np.testing.assert_allclose(first.batch.numpy(), own, **close)
    np.testing.assert_allclose(first.true, gradients(model, torch.arange(TRAIN)).mean(0), **close)
    rng = np.random.default_rng((SETTINGS.training.stream(3), 0))
    pool = torch.from_numpy(rng.choice(TRAIN, 30, replace=False))
    np.testing.assert_allclose(first.pool.numpy(), gradients(model, pool), **close)
    np.testing.assert_allclose(first.pool_mean, first.pool.numpy().astype(float).mean(0))
    assert first.anchors.shape == (12, 26_010)
    labels = torch.randint(10, (12,), generator=torch.Generator().manual_seed(SETTINGS.training.stream(4)))
    model.zero_grad()
    nn.functional.cross_entropy(model(images(False).pixels[3][None]), labels[3][None]).backward()
    anchor = torch.cat([p.grad.flatten() for p in model.parameters()])
    np.testing.assert_allclose(first.anchors[3].numpy(), anchor.numpy(), **close)
    slopes = own[:, -10:]
    chosen = int(np.abs(slopes).min(1).argmax())
    assert isinstance(first.head, LinearGradient)
    np.testing.assert_allclose(first.head.outputs, slopes[chosen], **close)
    np.testing.assert_allclose(first.head.weights, own[chosen, -330:-10].reshape(10, 32), **close)
    with torch.no_grad():
        features = model[:-1](images(True).pixels[batch[chosen]][None])[0]
    np.testing.assert_allclose(first.head.pixels, features.numpy(), **close)

    def summed(rows: np.ndarray) -> np.ndarray:
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return (rows * np.minimum(1.0, 0.7 / norms)).sum(0)

    again = snapshot_of.prepare(images(True), images(False).pixels, SETTINGS, CPU)
    sums = []
    for index in range(7):
        sums.append(summed(again.batch_gradients(again.batches.batch(index)).double().numpy()))
        np.testing.assert_allclose(again.step(index).numpy(), sums[-1], **close)
    for one in taken:
        np.testing.assert_allclose(one.window_sum.numpy(), sums[one.step] + sums[one.step + 1], rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(one.next_sum.numpy(), sums[one.step + 2], rtol=1e-3, atol=1e-5)
    again.synchronize()
    trained = trainer.private._module.state_dict()
    assert all(torch.equal(value, trained[name]) for name, value in again.plain.state_dict().items())


def test_gradients_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = snapshot_of.prepare(images(True), images(False).pixels, SETTINGS, CPU)
    whole, true = trainer.batch_gradients(torch.arange(9)), trainer.true_gradient()
    assert all(p.grad is None or not p.grad.any() for p in trainer.optimizer.params)
    monkeypatch.setattr(snapshot_of, "_CHUNK", 4)
    torch.testing.assert_close(trainer.batch_gradients(torch.arange(9)), whole, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(trainer.true_gradient(), true, rtol=1e-3, atol=1e-6)


def rows() -> tuple[Row, ...]:
    return (
        made_row(2.0, 2.1, 0.1, group="first", quantity="one", setting="s"),
        made_row(
            0.0,
            12345.678,
            group="first",
            quantity="two",
            setting="t",
            assumption="rf.eq6: deviations",
            relation="at least",
        ),
        made_row(
            4.0, 9.0, group="second", quantity="three", setting="u", assumption="none", relation="at most", error=0.125
        ),
        made_row(4.0, 9.0, group="second", quantity="four", assumption="rf.eq7: flat"),
    )


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_of_a_validation_is_for_terminals(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(
        "rich.progress.Progress",
        lambda *, console, transient, disable: (
            shown.append((console.stderr, disable)) or Progress(console=console, disable=True)
        ),
    )
    monkeypatch.setattr(validate_of, "prepare", lambda *a: SimpleNamespace(plain=None, synchronize=lambda: None))
    monkeypatch.setattr(validate_of, "snapshots", lambda *a: [])
    monkeypatch.setattr(validate_of, "accuracy", lambda *a: 0.5)
    monkeypatch.setattr("sys.stderr", SimpleNamespace(isatty=lambda: terminal, write=len, flush=lambda: None))
    validate_of.validate_images(images(True), images(False), SETTINGS, CPU)
    assert shown == [(True, not terminal)]


def test_a_moment_of_a_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which rows, in which order, from which random numbers."""
    asked: list[tuple[str, Any]] = []

    def noted(name: str, answer: Any) -> Any:
        def call(snapshot: Any, settings: Any, *source: Any) -> Any:
            kind = [
                s.initial_seed() if isinstance(s, torch.Generator) else s.bit_generator.seed_seq.entropy for s in source
            ]
            asked.append((name, kind))
            assert snapshot.name == "end" and settings is SETTINGS
            return answer

        return call

    names = ("mse", "clipping", "pruning", "ranking", "angle", "projection", "embedding", "attack")
    for number, name in enumerate(names):
        monkeypatch.setattr(validate_of, f"{name}_rows", noted(name, [number]))
    monkeypatch.setattr(validate_of, "kappa_rows", noted("kappa", (["kappa"], ("a note",))))
    snapshot = SimpleNamespace(name="end", step=4, batch=torch.zeros(9, 2))
    found = validate_of._moment(snapshot, SETTINGS, 77)
    assert found == Moment(name="end", step=4, batch_size=9, rows=(0, 1, "kappa", 2, 3, 4, 5, 6, 7), notes=("a note",))
    assert dict(asked) == {name: [] if name == "clipping" else [77] for name in (*names, "kappa")}


def test_a_validation_of_given_images(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    trainer = SimpleNamespace(plain="a model", synchronize=lambda: asked.append("synchronized"))
    monkeypatch.setattr(validate_of, "prepare", lambda *a: asked.append(a) or trainer)

    def snapshots(one: Any, settings: ValidateSettings, stepped: Any) -> list[str]:
        assert one is trainer and settings is SETTINGS
        stepped()
        return ["a", "b", "c"]

    monkeypatch.setattr(validate_of, "snapshots", snapshots)
    monkeypatch.setattr(validate_of, "_moment", lambda snapshot, settings, seed: (snapshot, seed))
    monkeypatch.setattr(validate_of, "accuracy", lambda model, test, device: (model, len(test), device))
    train, test = images(True), images(False)
    found = validate_of.validate_images(train, test, SETTINGS, CPU)
    assert asked[0][0] is train and torch.equal(asked[0][1], test.pixels) and asked[0][2:] == (SETTINGS, CPU)
    assert asked[1] == "synchronized"
    moments = tuple((name, SETTINGS.stream(number)) for number, name in enumerate("abc"))
    assert found == Result(
        data="excerpt",
        train_images=TRAIN,
        test_images=TEST,
        settings=SETTINGS,
        moments=moments,
        accuracy=("a model", TEST, CPU),
    )
    monkeypatch.setattr(validate_of, "load", tiny_load)
    assert validate_of.validate("mnist", SETTINGS, CPU).data == "mnist"
    assert (asked[-2][0].name, len(asked[-2][0]), len(asked[-2][1])) == ("mnist", TRAIN, TEST)
    for wrong in (0, 1):
        both = [train, test]
        both[wrong] = Images("x", torch.zeros(3, 1, 28, 27), torch.zeros(3))
        with refused("images"):
            validate_of.validate_images(*both, SETTINGS, CPU)


def test_the_report_of_a_validation() -> None:
    """What that of measure/test_measurements.py has not: bounds, what rows rest on, what is broken, and the summary."""
    moment = Moment(name="end", step=4, batch_size=9, rows=rows(), notes=("a note",))
    moments = (moment, dataclasses.replace(moment, name="start"))
    result = Result(data="excerpt", train_images=120, test_images=60, settings=SETTINGS, moments=moments, accuracy=0.5)
    assert report_of.to_dict(result, CPU)["settings"] == dataclasses.asdict(SETTINGS)
    table = report_of.row_table(moment)
    columns = {str(column.header): [str(cell) for cell in column.cells] for column in table.columns}
    assert columns["predicted"] == ["", "2", ">= 0", "", "<= 4", "4"]
    assert columns["error"] == ["", "-", "-", "", "0.12", "-"]
    assert columns[""] == ["", "", "", "", "*", "*"]
    assert columns["rests on"] == ["", "-", "rf.eq6", "", "-", "rf.eq7"]
    assert [row.style for row in table.rows] == [None, None, None, None, "red", None]
    assert [row.end_section for row in table.rows] == [False, False, True, False, False, False]
    assert [column.justify for column in table.columns] == ["left", "left", *["right"] * 6, "left", "left"]
    assert str(table.caption) == "rf.eq6: deviations\nrf.eq7: flat\na note" and table.caption_justify == "left"
    assert report_of.summary(result).startswith("2 of 4 rows that need no assumption agree within 5 SE")
    assert report_of.summary(result).endswith("2 of 4 that rest on one; test accuracy 50.0% on 60 images")
    assert [row.quantity for _, row in result.broken] == ["three", "three"]
    less = dataclasses.replace(result, moments=(dataclasses.replace(moment, rows=rows()[:3]),))
    assert report_of.summary(less).startswith("1 of 2 rows that need no assumption agree within 5 SE; 1 of 1 that rest")
