"""Runs before their first step, features, and plain DP-SGD."""

import functools
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from dptheory import privacy
from dptheory._rounding import rounded_up
from dptheory.training import networks, runs
from dptheory.training.audits import _draws
from dptheory.training.data import Images, standardised
from dptheory.training.engine import PartitionBatches
from dptheory.training.networks import small_tanh_cnn
from dptheory.training.runs import _prepare, accuracy, pick_device, sampling_rate
from tests.refused import refused
from tests.said import says
from tests.training.tiny import TEST, TRAIN, tiny_config, tiny_load

pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG"),
    pytest.mark.usefixtures("small_data"),
]

# A run before its first step: its images, the images that nothing protects, its noise and its streams of random
# numbers


CPU = torch.device("cpu")
SPARSE = {"name": "random-sparsification", "drop_rate": 0.5}
GEP = {"name": "gep", "subspace_dim": 12, "residual_clip": 0.3, "anchors": 14}


def test_images_taken_as_not_protected_are_not_judged_by() -> None:
    test = standardised(tiny_load("excerpt", train=False))
    taken = runs.prepare(tiny_config(GEP), CPU)
    assert len(taken.test) == TEST - 14
    assert torch.equal(taken.test.pixels, test.pixels[14:]) and torch.equal(taken.test.labels, test.labels[14:])
    assert torch.equal(taken.optimizer.mechanism._anchors._pixels, test.pixels[:14])
    assert len(runs.prepare(tiny_config(SPARSE), CPU).test) == TEST


def test_a_run_beside_one_with_auxiliary_images_can_be_judged_by_the_same_images() -> None:
    """The larger of what is said and what is taken is left out; the training is the same."""
    taken, plain = (runs.prepare(tiny_config(GEP, unjudged=left), CPU).test for left in (0, 14))
    beside, more = (runs.prepare(tiny_config(unjudged=left), CPU).test for left in (14, 59))
    assert torch.equal(taken.pixels, plain.pixels) and torch.equal(taken.labels, beside.labels)
    assert torch.equal(taken.pixels, beside.pixels) and (len(taken), len(more)) == (TEST - 14, 1)
    assert len(runs.prepare(tiny_config(GEP, unjudged=20), CPU).test) == TEST - 20
    assert "unjudged" not in tiny_config().as_dict() and tiny_config(unjudged=3).as_dict()["unjudged"] == 3
    with refused("unjudged", "60"):
        runs.prepare(tiny_config(unjudged=60), CPU)
    with refused("unjudged", "0..1000000000", "-1"):
        tiny_config(unjudged=-1)


def test_training_images_kept_aside_judge_the_run_and_are_not_trained_on() -> None:
    """A smaller set is trained on, at the noise and the rate that are its own; auxiliary images stay the first test images."""
    train = standardised(tiny_load("excerpt", train=True))
    kept, budget = len(train) - 20, {"epsilon": 3.0, "noise_multiplier": None}
    whole, found = (runs.prepare(tiny_config(GEP, aside=aside, **budget), CPU) for aside in (0, 20))
    assert torch.equal(found.train.pixels, train.pixels[:kept]) and torch.equal(found.train.labels, train.labels[:kept])
    assert torch.equal(found.test.pixels, train.pixels[kept:]) and torch.equal(found.test.labels, train.labels[kept:])
    assert found.batches.sampling_rate == found.config.batch_size / kept > whole.batches.sampling_rate
    assert found.optimizer.noise_multiplier > whole.optimizer.noise_multiplier
    assert torch.equal(found.optimizer.mechanism._anchors._pixels, whole.optimizer.mechanism._anchors._pixels)
    assert "aside" not in tiny_config().as_dict() and tiny_config(aside=3).as_dict()["aside"] == 3
    with refused("aside", str(len(train))):
        runs.prepare(tiny_config(aside=len(train)), CPU)
    with refused("aside", "0..1000000000", "-1"):
        tiny_config(aside=-1)


def test_auxiliary_images_are_loaded_for_those_alone_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(_prepare, "load", lambda name, train: asked.append(name) or tiny_load(name, train=train))
    runs.prepare(tiny_config(SPARSE, data="mnist"), CPU)
    assert asked == ["mnist", "mnist"]


def test_a_partition_has_the_stream_of_the_batches() -> None:
    run = runs.prepare(tiny_config(sampling="partition"), CPU)
    assert torch.equal(
        run.batches.batch(1), PartitionBatches(train_size=TRAIN, batch_size=30, seed=_prepare.stream(5, 1)).batch(1)
    )
    assert run.optimizer.privacy(1e-5).sampling_rate == 1.0
    assert runs.prepare(tiny_config(), CPU).optimizer.privacy(1e-5).sampling_rate == 0.25


@pytest.mark.parametrize("secure", [False, True])
def test_batches_of_a_run_follow_the_law_where_their_size_does_not_divide_the_images(secure: bool) -> None:
    """Rate 2/3; one of whole steps would be 1/2. Six exact statements."""
    run = runs.prepare(tiny_config(batch_size=2 * TRAIN // 3, secure=secure), CPU)
    drawn = [run.batches.batch(step, 0, 1).numpy() for step in range(400)]
    found = _draws.law(drawn, TRAIN, 2 / 3)
    assert len(found) == 6 and [one for one in found if not one.passed] == []


@pytest.mark.parametrize("model", ["scattering-cnn", "scattering-linear"])
def test_the_scattering_networks_take_the_coefficients_of_images_of_their_shape(model: str) -> None:
    few = tiny_load("cifar-10", train=False)
    few = Images(few.name, few.pixels[:3], few.labels[:3])
    config = tiny_config(data="cifar-10", model=model)
    found = _prepare._inputs(config, few)
    assert torch.equal(found.pixels, scattering_features(standardised(few).pixels)) and found.name == few.name
    assert torch.equal(found.labels, few.labels)
    raw = _prepare._inputs(tiny_config(data="cifar-10", model=model, inputs="unit"), few)
    assert torch.equal(raw.pixels, scattering_features(few.pixels))
    unit = tiny_config(inputs="unit")
    assert _prepare._inputs(unit, few) is few
    wrong = Images("x", torch.zeros(2, 3, 32, 31), few.labels[:2])
    with refused("model", (3, 32, 32), "'cifar-10'", (3, 32, 31)):
        _prepare._inputs(tiny_config(data="cifar-10", model=model, inputs="unit"), wrong)


def test_the_small_scattering_network_takes_grey_images_with_a_border_of_background() -> None:
    few = Images("mnist", torch.arange(2.0 * 28 * 28).view(2, 1, 28, 28) - 1.0, torch.tensor([3, 4]))
    found = _prepare._inputs(tiny_config(data="mnist", model="scattering-small-cnn", inputs="unit"), few)
    framed = torch.full((2, 1, 32, 32), -1.0)
    framed[:, :, 2:-2, 2:-2] = few.pixels
    assert torch.equal(found.pixels, scattering_features(framed)) and found.pixels.shape == (2, 81, 8, 8)


def test_noise_is_the_least_that_the_budget_affords_to_six_decimals() -> None:
    config = tiny_config(noise_multiplier=None, epsilon=2.0)
    found, exact = (
        _prepare._noise_multiplier(config, 0.25, 12),
        privacy.least_noise_multiplier(epsilon=2.0, delta=1e-5, sampling_rate=0.25, steps=12),
    )
    assert exact <= found < exact + 1e-6 and found == round(found, 6)
    assert _prepare._noise_multiplier(tiny_config(epsilon=2.0, noise_multiplier=0.3), 0.25, 12) == 0.3


def test_a_mechanism_is_told_steps_and_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secure run has no seed that anyone could know."""
    told: list[runs.MechanismSetting] = []
    build = runs._build.build_mechanism
    monkeypatch.setattr(
        runs._build, "build_mechanism", lambda setting, table: told.append(setting) or build(setting, table)
    )
    for secure in (False, True):
        runs.prepare(tiny_config(SPARSE, secure=secure), CPU)
    assert [(one.steps_per_epoch, one.steps) for one in told] == [(4, 12), (4, 12)]
    assert [one.seed for one in told] == [_prepare.stream(5, 3), None]


# --- Scattering coefficients are computed once for the same images, and are the same from the file
scattering_features = functools.partial(networks.scattering_features, normalised=True)
PIXELS = torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of images whose coefficients were computed; five images are enough to keep."""
    found: list[int] = []
    monkeypatch.setenv("DPTHEORY_DATA", str(tmp_path))
    monkeypatch.setattr(_prepare, "_LEAST", 5)
    monkeypatch.setattr(
        _prepare,
        "scattering_features",
        lambda pixels, normalised: (
            found.append(len(pixels)) or networks.scattering_features(pixels, normalised=normalised)
        ),
    )
    return found


def test_the_same_images_are_computed_once(asked: list[int], tmp_path: Path) -> None:
    wanted = scattering_features(PIXELS)
    for _ in range(3):
        assert torch.equal(_prepare.kept_features(PIXELS), wanted)
    assert asked == [6] and {path.name for path in tmp_path.iterdir()} == {"scattering"}
    other = PIXELS.clone()
    other[5, 2, 31, 31] += 1e-3
    assert not torch.equal(_prepare.kept_features(other), wanted) and asked == [6, 6]
    kept = _prepare.kept_features(PIXELS)
    kept[0] = 0.0  # of this process alone
    assert torch.equal(_prepare.kept_features(PIXELS), wanted) and asked == [6, 6]


def test_few_images_are_not_kept(asked: list[int], tmp_path: Path) -> None:
    for _ in range(2):
        assert torch.equal(_prepare.kept_features(PIXELS[:4]), scattering_features(PIXELS[:4]))
    assert asked == [4, 4] and list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(asked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DPTHEORY_DATA", str(tmp_path / "file"))
    assert torch.equal(_prepare.kept_features(PIXELS), scattering_features(PIXELS)) and asked == [6]


def test_a_folder_that_cannot_be_written(asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_prepare.os, "access", lambda *given: False)
    for _ in range(2):
        _prepare.kept_features(PIXELS)
    assert asked == [6, 6]


# --- Batches, accuracy and device ---


def some_images(count: int) -> Images:
    generator = torch.Generator().manual_seed(5)
    return Images(
        "random",
        torch.rand((count, 1, 28, 28), generator=generator),
        torch.randint(0, 10, (count,), generator=generator),
    )


def test_another_number_of_records_than_planned_is_said_with_what_changes(caplog: pytest.LogCaptureFixture) -> None:
    budget = {"noise_multiplier": None, "epsilon": 3.0}
    kept = runs.prepare(tiny_config(**budget, num_examples=TRAIN), CPU)
    assert "planned for" not in caplog.text
    run = runs.prepare(tiny_config(**budget, num_examples=2 * TRAIN), CPU)
    assert run.steps == kept.steps == 12 and run.optimizer.noise_multiplier == kept.optimizer.noise_multiplier
    planned = privacy.least_noise_multiplier(epsilon=3.0, delta=1e-5, sampling_rate=30 / 240, steps=24)
    (said,) = (record.getMessage() for record in caplog.records if "planned for" in record.getMessage())
    noises = (rounded_up(noise, 6) for noise in (kept.optimizer.noise_multiplier, math.ceil(planned * 1e6) / 1e6))
    assert says(said, 240, 120, 12, 24, *noises, 3, "1e-05")


def test_batch_sizes_follow_the_sampling_rate() -> None:
    assert sampling_rate(batch_size=16, train_size=64) == 0.25
    assert sampling_rate(batch_size=60, train_size=64) == 0.5  # Opacus rounds: 1 / ceil(64 / 60)
    with refused("batch_size", "1..8", "16"):
        sampling_rate(batch_size=16, train_size=8)


def test_accuracy_of_more_images_than_are_held_at_once() -> None:
    labels = torch.arange(2003) % 3
    pixels = nn.functional.one_hot(labels, 3).float()
    pixels[2001:] = pixels[2001:].roll(1, 1)
    assert accuracy(nn.Identity(), Images("x", pixels, labels), CPU) == 2001 / 2003


def test_accuracy_counts_and_keeps_the_mode() -> None:
    model, images = small_tanh_cnn(0), some_images(50)
    with torch.no_grad():
        right = int((model(images.pixels).argmax(1) == images.labels).sum())
    model.train()
    assert accuracy(model, images, CPU) == right / 50
    assert model.training


def test_unknown_device() -> None:
    with refused("wanted", "'auto'", "'cpu'", "'cuda'", "'tpu'"):
        pick_device("tpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_cuda_where_there_is_none() -> None:
    assert pick_device("auto") == CPU
    with refused("device", "'cuda'"):
        pick_device("cuda")
