"""Plans: choice, journal, public records, private tuning."""

import json
import math
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from opacus.layers import DPMultiheadAttention
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import Dataset, TensorDataset

import dptheory.training
from dptheory import _progress
from dptheory.planning import candidates
from dptheory.privacy import epsilon_bounds
from dptheory.privacy.samplers import selection_epsilon_upper_bound
from dptheory.training.planning import Choice, MethodGain, Range, Shipped, Synthetic, _plan, _workers, plan
from dptheory.training.planning._choice import noise_of_tuned_runs
from dptheory.training.planning._pilot import Job, Outcome, Score
from dptheory.training.planning._point import AVERAGES, Schedule
from dptheory.training.planning._public import public_records, refuse_private, tensors
from dptheory.training.planning._search import FULL
from dptheory.training.planning._training import METHODS
from dptheory.training.planning._workers import Journal
from tests.refused import refused
from tests.training.planning.small import (
    BUDGET,
    SCHEDULES_AND_AVERAGES,
    Here,
    labelled,
    linear,
    planned,
    point,
    problem,
    public,
)

# --- `plan` on small problems: what is fixed, whom it serves, who runs the pilots, and what is refused ---


def chosen(choice: Choice) -> object:
    return choice.point, choice.expected, choice.as_good, choice.costs, choice.methods


ONE_METHOD = {name: METHODS[name] for name in ("DP-SGD", "random freeze")}


@pytest.fixture
def one_method(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans that ask one of the papers' methods: two thirds of a plan's pilots are theirs."""
    monkeypatch.setattr(_plan, "METHODS", ONE_METHOD)


@pytest.mark.usefixtures("one_method")
def test_what_is_fixed_is_kept_and_the_budget_too() -> None:
    fixed = {
        "learning_rate": 0.25,
        "momentum": 0.5,
        "clip_norm": 0.7,
        "schedule": "linear",
        "average": 0.2,
        "epochs": 1.5,
    }
    choice = planned(**fixed)
    for name, value in (fixed | {"batch_size": 100, "num_examples": 400, "delta": 1e-5}).items():
        assert getattr(choice, name) == value, name
    assert choice.steps == 6
    spent = epsilon_bounds(noise_multiplier=choice.noise_multiplier, sampling_rate=0.25, steps=6, delta=1e-5).upper
    assert spent <= 3.0


@pytest.mark.usefixtures("one_method")
def test_a_sweep_finds_a_rate_and_clips_are_shares_of_the_median_norm() -> None:
    choice = planned(learning_rate=None, clip_norm=None, epochs=1.0)
    assert choice.learning_rate > 0 and choice.clip_norm > 0
    assert choice.expected.high > 0.5, "better than guessing"
    low, high = choice.as_good["learning rate"].low, choice.as_good["learning rate"].high
    assert low <= choice.learning_rate <= high


@contextmanager
def side_by_side(monkeypatch: pytest.MonkeyPatch, where: str) -> Iterator[Executor | None]:
    if where == "threads":
        with ThreadPoolExecutor(2) as pool:
            yield pool
    else:
        monkeypatch.setattr(_workers, "cores", lambda: 2 if where == "processes" else 1)
        yield None


WHERE = ("threads", "processes", "this process")


def methods_of(model: nn.Module, labels: Tensor) -> list[str]:
    return [name for name, method in METHODS.items() if method.serves(model, labels)]


@pytest.mark.usefixtures("one_method")
@pytest.mark.parametrize("where", WHERE)
def test_pilots_side_by_side_choose_what_they_choose_one_by_one(
    monkeypatch: pytest.MonkeyPatch, whole: tuple[Choice, Path, int], where: str
) -> None:
    with side_by_side(monkeypatch, where) as executor:
        assert chosen(planned(executor=executor)) == chosen(whole[0])


def test_a_pilot_of_every_method_is_the_same_side_by_side_and_leaves_model_and_random_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = linear()
    one, state, found = problem(model, *labelled()), torch.get_rng_state(), []
    names = methods_of(model, one.labels)
    jobs = [Job(point=point(), most_steps=8, batch_size=50, fold=0, seed=1, method=name) for name in names]
    for where in WHERE:
        with side_by_side(monkeypatch, where) as executor, _workers.runner(one, executor) as run:
            found.append({names[place]: outcome.scores for place, outcome in run(jobs)})
    assert found[0] == found[1] == found[2] and len(found[0]) == len(names) >= 5
    assert len({str(scores) for scores in found[0].values()}) > 1
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), linear().parameters(), strict=True))


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
@pytest.mark.parametrize("hanging", [1, 100])
def test_processes_that_never_begin_are_left(
    hanging: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Forked while a thread held the lock of the memory for products: others are forked, and where they hang too, there are none."""
    forked = multiprocessing.get_context("fork").Value("i", 0)

    def product() -> None:
        with forked.get_lock():
            forked.value += 1
            number = forked.value
        time.sleep(1000 if number <= hanging else 0)

    monkeypatch.setattr(_workers, "first_steps", product)
    monkeypatch.setattr(_workers, "_BEGIN_SECONDS", 1.0)
    monkeypatch.setattr(_workers, "cores", lambda: 2)
    monkeypatch.setattr(_workers, "pilot", lambda _, job: (job, os.getpid()))
    with _workers.runner(problem(linear(), *labelled()), None) as run:
        found = dict(run([3, 4, 5]))  # type: ignore[arg-type]
    assert {place: job for place, (job, _) in found.items()} == {0: 3, 1: 4, 2: 5}  # type: ignore[misc]
    here = {process == os.getpid() for _, process in found.values()}  # type: ignore[misc]
    assert here == {hanging == 100} and forked.value == (4 if hanging == 1 else 6)
    assert any("one by one" in one.getMessage() for one in caplog.records) is (hanging == 100)
    assert multiprocessing.active_children() == []


_INTERRUPTED = """
import time, types, torch
from dptheory.training.planning import _workers
_workers.cores, _workers.first_steps = lambda: 2, lambda: time.sleep(1000)
print("begins", flush=True)
with _workers.runner(types.SimpleNamespace(features=torch.zeros(1)), None) as run:
    list(run([0, 1]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
def test_a_plan_can_be_stopped_while_its_processes_hang() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as waits:
        assert waits.stdout is not None and waits.stdout.readline() == b"begins\n"
        time.sleep(1.0)
        waits.send_signal(signal.SIGINT)
        try:
            assert b"KeyboardInterrupt" in waits.communicate(timeout=20)[1]
        finally:
            waits.kill()


@pytest.mark.usefixtures("one_method")
def test_the_model_and_torchs_random_state_stay() -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    planned(model)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None and not hasattr(p, "grad_sample") for p in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


class Attending(nn.Module):
    """A layer of width 6, an attention over what it gives, and two classes."""

    def __init__(self, first: nn.Module) -> None:
        super().__init__()
        self.first, self.last = first, nn.Linear(6, 2)
        self.attention = DPMultiheadAttention(6, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.first(x).view(len(x), -1, 6)
        found: Tensor = self.last(self.attention(seen, seen, seen)[0].mean(1))
        return found


@pytest.mark.usefixtures("one_method")
def test_whole_numbers_as_features_an_embedding_and_attention() -> None:
    words = torch.randint(7, (60, 3), generator=torch.Generator().manual_seed(0))
    model, labels = Attending(nn.Embedding(7, 6)), (words[:, 0] > 3).long()
    assert planned(model, TensorDataset(words, labels)).metric == "accuracy"
    for name in methods_of(model, labels):
        job = Job(point=point(), most_steps=2, batch_size=50, fold=0, seed=1, method=name)
        assert _workers.pilot(problem(model, words, labels), job).scores


@pytest.mark.usefixtures("one_method")
def test_a_loss_and_a_metric_of_ones_own() -> None:
    features, _ = labelled()
    data = TensorDataset(features, features[:, :1])
    plain = planned(linear(classes=1), data, loss=mse_loss)
    assert plain.metric == "metric" and plain.expected.low < 0, "minus the loss"
    judged = planned(linear(classes=1), data, loss=mse_loss, metric=lambda outputs, labels: 7.0)
    assert (judged.expected.low, judged.expected.high) == (7.0, 7.0)


@pytest.mark.usefixtures("one_method")
def test_pilots_that_diverge_are_results() -> None:
    choice = planned(learning_rate=1e6, loss=mse_loss, data=TensorDataset(*_numbers()), model=linear(classes=1))
    assert choice.learning_rate == 1e6
    str(choice)


def _numbers() -> tuple[Tensor, Tensor]:
    features, _ = labelled()
    return features, features[:, :1]


class BatchMean(nn.Module):
    """Mixes the records of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.last(x - x.mean(0))
        return found


def batch_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


class TorchAttention(nn.Module):
    """Hides its layers from the hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.last = nn.MultiheadAttention(5, 1, batch_first=True), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        seen = x[:, None]
        found: Tensor = self.last(self.attention(seen, seen, seen)[0][:, 0])
        return found


def with_labels(low: int, high: int) -> TensorDataset:
    features, _ = labelled()
    return TensorDataset(features, low + torch.arange(60) % (high + 1 - low))


def is_refused(start: str, model: nn.Module | None = None, data: Any = None, **more: Any) -> None:
    executor = Here()
    with refused(start) as error:
        planned(model, data, executor=executor, **more)
    assert executor.done == 0 and "\n" not in str(error.value)


def test_networks_that_cannot_be_trained_are_refused() -> None:
    is_refused("records", BatchMean())
    with refused("model", "1") as error:
        planned(batch_norm())
    assert "torch.nn.GroupNorm" in str(error.value) and "ModuleValidator.fix(model)" in str(error.value)
    is_refused("model", TorchAttention())
    is_refused("model", linear().requires_grad_(False))
    is_refused("model", "resnet")  # type: ignore[arg-type]
    is_refused("model", nn.Sequential(nn.Linear(5, 2), nn.Unflatten(1, (2, 1))))
    is_refused("model", nn.Linear(5, 1))


def test_losses_that_are_no_mean_are_refused() -> None:
    is_refused("loss", loss=lambda outputs, labels: cross_entropy(outputs, labels, reduction="sum"))
    is_refused("loss", loss=lambda outputs, labels: cross_entropy(outputs, labels, reduction="none"))
    weights = torch.tensor([1.0, 10.0])
    is_refused("loss", loss=lambda outputs, labels: cross_entropy(outputs, labels, weight=weights))


def test_records_that_do_not_fit_are_refused() -> None:
    is_refused("public", data=with_labels(0, 2))
    is_refused("public", data=with_labels(-1, 1))
    is_refused("public", data=with_labels(1, 1))
    is_refused("public", data=TensorDataset(*_numbers()))
    is_refused("public", data=public(49))
    features, labels = labelled()
    is_refused("public", data=TensorDataset(torch.where(features == features[3, 1], torch.nan, features), labels))
    is_refused("public", data=public(dim=4))
    is_refused("public", private=public())
    is_refused("num_examples", private=TensorDataset(torch.full((7, 3), 9.0), torch.zeros(7, dtype=torch.long)))


@pytest.mark.parametrize(
    ("start", "value"),
    [
        ("epsilon", 1e-9), ("epsilon", 0.0), ("epsilon", float("nan")), ("delta", 1.0), ("num_examples", 49), ("batch_size", 401),
        ("epochs", 3.0), ("max_epochs", 0.0), ("clip_norm", 0.0), ("learning_rate", -1.0), ("momentum", 1.0),
        ("schedule", "falling"), ("average", 0.3), ("seconds", 0.0), ("seed", -1),
    ],
)  # fmt: skip
def test_arguments_out_of_range_are_refused(start: str, value: Any) -> None:
    is_refused(start, **{start: value})


def test_it_is_the_packages_own() -> None:
    assert dptheory.training.plan is plan and BUDGET["epsilon"] == 3.0


# --- The choice: its code trains for as many steps as it says, within the budget, and what it prints ---


BUDGET_OF_CHOICE: dict[str, Any] = {"num_examples": 60, "epsilon": 3.0, "delta": 1e-5}
(PRICED,) = candidates(**BUDGET_OF_CHOICE, max_epochs=2, batch_size=12, epochs=2)


def choice(**more: Any) -> Choice:
    plain = {
        "batch_size": PRICED.batch_size, "epochs": PRICED.epochs, "steps": PRICED.steps,
        "noise_multiplier": PRICED.noise_multiplier, "clip_norm": 1.0, "learning_rate": 0.5, "momentum": 0.5,
        "schedule": "constant", "average": 0.0, "metric": "accuracy", "expected": Range(0.5, 0.75),
    }  # fmt: skip
    return Choice(**BUDGET_OF_CHOICE, **plain | more)


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        yield


def run(code: str, model: nn.Module, features: torch.Tensor, labels: torch.Tensor) -> dict[str, Any]:
    names: dict[str, Any] = {"model": model, "private": TensorDataset(features, labels)}
    exec(compile(code, "choice", "exec"), names)
    return names


@pytest.mark.parametrize(("schedule", "average"), SCHEDULES_AND_AVERAGES)
def test_the_code_takes_exactly_the_steps_and_keeps_the_budget(schedule: Schedule, average: float) -> None:
    one, model = choice(schedule=schedule, average=average), linear()
    names = run(one.code(), model, *labelled())
    assert names["taken"] == names["optimizer"].accountant.steps == one.steps == 10
    assert names["optimizer"].epsilon(one.delta) <= one.epsilon
    if schedule != "constant":
        assert names["sgd"].param_groups[0]["lr"] == pytest.approx(0.0, abs=1e-12)
    if average:
        mean = names["mean"]
        assert int(mean.n_averaged) == round(average * one.steps)
        assert not torch.equal(mean.module.weight, model.weight)  # type: ignore[arg-type]


def test_the_code_serves_attention_and_a_frozen_part() -> None:
    one, model = choice(average=0.5), Attending(nn.Linear(5, 6).requires_grad_(False))
    before = model.first.weight.clone()
    names = run(one.code(), model, *labelled())
    assert names["taken"] == one.steps
    assert torch.equal(model.first.weight, before) and torch.equal(names["mean"].module.first.weight, before)
    assert not torch.equal(names["mean"].module.last.weight, model.last.weight)


def test_what_is_printed() -> None:
    gain = MethodGain(
        method="layer freezing", setting="half", gain=Range(-0.02, 0.01), learning_rate=0.1, why="it may", claim="lf.x"
    )
    one = choice(
        schedule="cosine", average=0.2, as_good={"learning rate": Range(0.25, 1.0)}, costs={"epochs x 4": 0.125},
        tried={"learning rate": Range(0.5, 2.0), "clip norm": Range(1.0, 1.0), "batch size": Range(6, 60)}, ahead=Range(0.02, 0.04),
        methods=(gain,), pilots=17, public="60 public records",
    )  # fmt: skip
    text = " ".join(str(one).split())
    for part in (
        "2 epochs (10 steps)", "batches of 12", "falling to 0 (cosine)", "momentum 0.5", "the last 20% of the steps",
        "epsilon 3 at delta 1e-05 for 60 records", "0.500 to 0.750", "17 pilots on 60 public records",
        "0.25 to 1 ", "epochs x 4 -0.125", "layer freezing -0.020 to +0.010", "no difference seen", "[lf.x]", "0.600 (", "+0.030",
        "0.5 to 2 smallest tried", "1 as given", "6 to 60", "(--learning-rate) fixed at 0.25",
    ):  # fmt: skip
        assert part in text, part
    assert text.index("+0.030") < text.index(". "), "one sentence"
    assert "--clip-norm" not in text and "--batch-size" not in text
    assert max(map(len, (str(one) + one.code()).splitlines())) <= 80
    assert "falling" not in str(choice()) and "averaged" not in str(choice())
    assert "next to De et al.'s, one of" in " ".join(str(choice(usual="De et al.'s")).split())


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.01, 0.02, "worth trying"), (-0.02, 0.0, "not worth its cost"), (-0.1, 0.1, "no difference seen")],
)
def test_the_verdict_of_a_method(low: float, high: float, verdict: str) -> None:
    gain = MethodGain(method="m", setting="s", gain=Range(low, high), learning_rate=1.0, why="w", claim="c")
    assert gain.verdict == verdict


# --- Where it stands: said to those who ask, at the start and every half a minute ---


@pytest.mark.usefixtures("one_method")
def test_a_plan_says_where_it_stands_to_those_who_ask(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    planned()
    assert caplog.records == [] and capfd.readouterr() == ("", "")
    with caplog.at_level("INFO", "dptheory.progress"), pytest.raises(KeyboardInterrupt):
        planned(executor=Here(most=20), journal=tmp_path / "pilots.jsonl", seconds=77)
    assert "77 s" in caplog.text and str(tmp_path / "pilots.jsonl") in caplog.text


class Paced(Executor):
    """Makes up how good a pilot was, and that it took a second and one for every 1,000 records; two at a time."""

    _max_workers = 2

    def __init__(self) -> None:
        self.seconds = 0.0

    def submit(self, _: Any, problem: Any, job: Job) -> Future[Outcome]:  # type: ignore[override]
        score = 1.0 / (1.0 + abs(math.log(job.point.learning_rate)))
        scores = dict.fromkeys(AVERAGES, Score(aside=score, seen=score, guide=score))
        future: Future[Outcome] = Future()
        future.set_result(Outcome(scores=scores, seconds=1.0 + job.most_steps * job.batch_size / 1000))
        self.seconds += future.result().seconds
        return future


def test_little_time_is_said_to_be_exceeded_and_enough_for_the_papers_methods_is_enough(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pilots_of = Paced()
    given: dict[str, Any] = {"learning_rate": None, "effort": FULL, "executor": pilots_of}
    with caplog.at_level("INFO", "dptheory.progress"):
        short = planned(seconds=10.0, **given)
    (seconds,) = re.findall(r"the least pilots take about ([\d,]+) s", caplog.text)
    took = pilots_of.seconds / 2
    assert 0.7 * took < int(seconds) < 1.3 * took
    assert not short.methods and {"random freeze", "gradient index pruning"} <= set(short.not_compared)
    enough = short.seconds_to_compare
    assert enough > 10.0 and f"--seconds {math.ceil(enough / 10) * 10}" in str(short)
    long = planned(seconds=enough, **given)
    assert {one.method for one in long.methods} | set(long.not_compared) == set(METHODS) - {"DP-SGD"}
    assert long.seconds_to_compare == 0.0 and "want of time" not in str(long)


def test_lines_are_half_a_minute_apart(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    lines = _progress.ProgressLines(lambda: now[0])
    with _progress.lines_on_stderr():
        lines.say("start")
        for now[0] in (29.0, 30.0, 31.0, 59.0, 61.0):
            lines.look(lambda: f"at {now[0]:g}")
    lines.say("nobody hears it")
    assert capsys.readouterr() == ("", "start\nat 30\nat 61\n") and caplog.records == []


def test_a_bar_is_spoken_of_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with _progress.lines_on_stderr(), _progress.spoken_bar(seconds=0.01) as bar:
        bar.add_task("proving", total=None)
        bar.update(bar.add_task("training", total=40), completed=7)
        bar.update(bar.add_task("measuring", total=3), completed=3)
        time.sleep(0.5)
    said = capsys.readouterr().err
    assert "training: 7 of 40 done, for 0 s\n" in said and "proving: under way, " in said and "measuring" not in said
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_a_terminal_has_its_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with _progress.lines_on_stderr():
        _progress.ProgressLines().say("start")
    assert capsys.readouterr() == ("", "")


# --- The journal: a plan that was killed goes on with the pilots it has, and its choice is the same ---


JOB = Job(point=point(), most_steps=5, batch_size=64, fold=0, seed=1)

OUTCOME = Outcome(
    scores={0.0: Score(aside=0.5, seen=0.75, guide=0.25), 0.2: Score(aside=float("nan"), seen=1.0, guide=float("nan"))},
    seconds=0.25,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Choice, Path, int]:
    """A plan, its journal, and how many pilots it took."""
    journal, executor = tmp_path_factory.mktemp("whole") / "pilots.jsonl", Here()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_plan, "METHODS", ONE_METHOD)
        return planned(executor=executor, journal=journal), journal, executor.done


@pytest.mark.usefixtures("one_method")
@pytest.mark.parametrize("cut", [0, 9], ids=["whole lines", "the last line cut off"])
def test_a_killed_plan_goes_on_and_chooses_the_same(
    tmp_path: Path, whole: tuple[Choice, Path, int], cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wanted, _, pilots_of_all), journal = whole, tmp_path / "pilots.jsonl"
    with pytest.raises(KeyboardInterrupt):
        planned(executor=Here(most=20), journal=journal)
    text = journal.read_text("utf-8")
    journal.write_text(text[: len(text) - cut], "utf-8")
    rest = Here()
    found = planned(executor=rest, journal=journal)
    assert chosen(found) == chosen(wanted)
    noted = [line for line in text.splitlines()[1:] if line]
    assert 0 < len(noted) <= 20
    assert rest.done == pilots_of_all - len(noted) + (cut > 0)
    last = Here()
    monkeypatch.setattr(_workers, "time", SimpleNamespace(monotonic=lambda: 7.0))
    again = planned(executor=last, journal=journal)
    assert chosen(again) == chosen(wanted)
    assert again.seconds == max(json.loads(line)["at"] for line in journal.read_text("utf-8").splitlines()[1:])
    assert last.done == 0, "nothing is left"


@pytest.mark.usefixtures("one_method")
@pytest.mark.parametrize("change", ["seed", "metric", "frozen"])
def test_a_journal_of_another_plan_is_begun_anew(tmp_path: Path, whole: tuple[Choice, Path, int], change: str) -> None:
    journal, other, model = Path(shutil.copy(whole[1], tmp_path)), Here(), linear()
    if change == "frozen":
        model.bias.requires_grad_(False)  # type: ignore[union-attr]
    more = {"seed": {"seed": 1}, "metric": {"metric": lambda outputs, labels: 0.5}, "frozen": {}}[change]
    planned(model, journal=journal, executor=other, **more)
    assert other.done >= whole[2] / 2, "pilots are made anew"


def test_what_ended_is_known_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "pilots.jsonl"
    Journal(path, "setup").add(JOB, OUTCOME)
    found = Journal(path, "setup").known(JOB)
    assert found is not None and found.seconds == 0.25
    assert found.scores[0.0] == OUTCOME.scores[0.0]
    assert found.scores[0.2].seen == 1.0 and found.scores[0.2].aside != found.scores[0.2].aside
    assert Journal(path, "setup").known(Job(**vars(JOB) | {"seed": 2})) is None
    assert Journal(path, "another").known(JOB) is None


def test_another_file_is_not_written_over(tmp_path: Path) -> None:
    for text in ("some notes\n", json.dumps({"a": 1}) + "\n"):
        path = tmp_path / "notes"
        path.write_text(text)
        with refused("journal"):
            Journal(path, "setup")
        assert path.read_text() == text


def test_without_a_file_nothing_is_kept() -> None:
    journal = Journal(None, "setup")
    journal.add(JOB, OUTCOME)
    assert journal.known(JOB) is None


# --- Public records: of a data set, shipped or made up; too few, others than pairs, and private ones are refused ---


class Pairs(Dataset[Any]):
    """Pairs, one by one."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> Any:
        return self.rows[place]


def test_pairs_and_tensors_are_the_same_records() -> None:
    features, labels = labelled()
    pairs = Pairs([(row, int(label)) for row, label in zip(features, labels, strict=True)])
    assert all(torch.equal(a, b) for a, b in zip(tensors("public", pairs), (features, labels), strict=True))
    mixed = public_records(pairs, seed=0)
    assert not torch.equal(mixed[0], features)
    assert torch.equal(mixed[0].sort(0).values, features.sort(0).values)
    assert torch.equal(mixed[1], (mixed[0][:, 0] > 0).long()), "each with its own label"


@pytest.mark.parametrize(
    "data",
    [
        public(49),
        Pairs([torch.zeros(3)] * 60),
        Pairs([(torch.zeros(3), 0)] * 59 + [(torch.zeros(4), 0)]),
        Pairs([("a word", 0)] * 60),
        iter([1]),
    ],
    ids=["49", "no pairs", "shapes", "words", "no length"],
)
def test_other_records_are_refused(data: Any) -> None:
    with refused("public"):
        public_records(data, seed=0)


def test_private_records_among_the_public_ones_are_refused() -> None:
    features, _ = labelled()
    others = torch.randn(100, 5, generator=torch.Generator().manual_seed(9))
    refuse_private(features, TensorDataset(others, torch.zeros(100)))
    others[70] = features[3]
    with refused("public", "1"):
        refuse_private(features, TensorDataset(others, torch.zeros(100)))


def test_shipped_records_are_a_draw_of_test_images() -> None:
    pixels, labels = public_records(Shipped(name="excerpt", count=60), seed=0)
    assert pixels.shape == (60, 1, 28, 28) and labels.shape == (60,)
    assert not torch.equal(pixels, public_records(Shipped(name="excerpt", count=60), seed=1)[0])


def test_synthetic_records_have_shape_scale_and_classes_that_can_be_told_apart() -> None:
    features, labels = Synthetic(shape=(2, 4), classes=3, scale=5.0, count=600).records(seed=0)
    assert features.shape == (600, 2, 4) and labels.bincount().tolist() == [200, 200, 200]
    assert float(features.square().mean().sqrt()) == pytest.approx(5.0, rel=1e-5)
    means = torch.stack([features[labels == k].mean(0) for k in range(3)])
    nearest = torch.cdist(features.flatten(1), means.flatten(1)).argmin(1)
    assert float((nearest == labels).double().mean()) > 0.5, "a third by guessing"


# The noise of runs of which the best is published: it keeps the budget by the bound of random stopping, and hardly
# more


RUN = {"sampling_rate": 0.1, "steps": 100, "delta": 1e-5}


def test_the_best_of_such_runs_keeps_the_budget_and_less_noise_would_not() -> None:
    found = noise_of_tuned_runs(epsilon=3.0, noise_multiplier=1.0, mean_runs=5, **RUN)  # type: ignore[arg-type]
    assert found is not None and found > 1.0

    def spent(noise_multiplier: float) -> float:
        return selection_epsilon_upper_bound(noise_multiplier=noise_multiplier, mean_runs=5, **RUN)  # type: ignore[arg-type]

    assert spent(found) <= 3.0 < spent(0.99 * found)


def test_a_budget_that_no_noise_keeps() -> None:
    assert noise_of_tuned_runs(epsilon=1e-6, noise_multiplier=500.0, **RUN) is None  # type: ignore[arg-type]


def test_noise_that_already_suffices_stays() -> None:
    assert noise_of_tuned_runs(epsilon=3.0, noise_multiplier=50.0, **RUN) == pytest.approx(50.0)  # type: ignore[arg-type]


_POOL = """
import os, sys, time, types, torch
from dptheory.training.planning import _workers
_workers.cores = lambda: 2
def pilot(problem, job):
    os.write(1, f"{os.getpid()}\\n".encode())  # in one piece: two pilots write at once
    time.sleep(60)
_workers.pilot = pilot
with _workers.runner(types.SimpleNamespace(features=torch.zeros(1)), None) as run:
    list(run([0, 1]))
"""


def _runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # ended, though nobody has asked how


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
def test_pilots_end_with_a_plan_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", _POOL], stdout=subprocess.PIPE, text=True) as plan_under_way:
        assert plan_under_way.stdout is not None
        pilots = [int(plan_under_way.stdout.readline()) for _ in range(2)]
        plan_under_way.kill()
    ends = time.monotonic() + 20
    while any(_runs(one) for one in pilots) and time.monotonic() < ends:
        time.sleep(0.1)
    left = [one for one in pilots if _runs(one)]
    for one in left:
        os.kill(one, signal.SIGKILL)
    assert not left
