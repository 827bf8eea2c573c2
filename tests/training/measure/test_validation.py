"""Validations."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from dptheory import embedding, freezing, gradients, pruning, sparsification
from dptheory.cli import app
from dptheory.training._streams import simulation
from dptheory.training.data import Images, load
from dptheory.training.engine._optimizer import exact_products
from dptheory.training.measure import (
    Result,
    Row,
    Snapshot,
    ValidateSettings,
    _validation,
    prepare,
    snapshots,
    to_dict,
    validate_images,
)
from dptheory.training.measure._rows import GAUSSIAN, NONE
from dptheory.training.runs import DpSgdSettings
from tests.refused import refused

# --- Predicted against measured: exact rows hold on real gradients, and a wrong prediction is noticed ---


CPU = torch.device("cpu")

TINY = ValidateSettings(
    DpSgdSettings(steps=6, batch_size=40, noise_multiplier=1.0, max_grad_norm=1.0, learning_rate=2.0, seed=0),
    subspace_dims=(2, 12),
    pool=60,
    anchors=40,
    window=2,
    draws=25,
)

GROUPS = {
    "mse": {"noise_energy", "signal_loss", "mse", "clipped_share"},
    "clipping": {"descent", "descent, symmetrised"},
    "kappa": {
        "kappa",
        "kappa, lower end",
        "kappa, upper end",
        "descent ratio",
        "exact kappa, lower bound",
        "exact kappa, upper bound",
        "exact kappa, larger clip",
    },
    "pruning": {"random_k_mse", "top_k_mse", "grouped_top_k_mse", "noise_mse"},
    "cosines": {"cosine_dp_sgd", "cosine_top_k", "cosine_random_k"},
    "entries": {"ks_distance", "excess_kurtosis"},
    "ranking": {"captured_energy", "captured_energy_next"},
    "angles": {"cos gamma_BP", "gamma_BP", "cos gamma", "gamma"},
    "freezing": {"mean clipped norm", "norm growth", "|signal| after / before", "gamma_B", "signal-to-noise"},
    "projection": {
        "captured, random basis",
        "error, random basis",
        "error, GEP's basis",
    },
    "embedding": {"noise energy", "mse"},
    "attack": {"|gradient|^2", "error where not hidden", "share hidden"},
}


def part(train: bool, count: int) -> Images:
    images = load(name="excerpt", train=train)
    return Images(images.name, images.pixels[:count], images.labels[:count])


@pytest.fixture(scope="module")
def taken() -> list[Snapshot]:
    return snapshots(prepare(part(True, 300), part(False, 60).pixels, TINY, CPU), TINY, lambda: None)


@pytest.fixture(scope="module")
def result() -> Result:
    return validate_images(part(True, 300), part(False, 60), TINY, CPU)


def test_all_kinds_of_rows_at_all_moments(result: Result) -> None:
    assert [(m.name, m.step) for m in result.moments] == [("start", 0), ("middle", 1), ("end", 3)]
    for moment in result.moments:
        assert {g: {r.quantity for r in moment.rows if r.group == g} for g in GROUPS} == GROUPS
        assert {r.group for r in moment.rows} == set(GROUPS)


def test_rows_without_assumption_agree(result: Result) -> None:
    exact = [row for moment in result.moments for row in moment.rows if row.assumption == NONE]
    assert len(exact) > 120
    assert [row for row in exact if not row.within] == []
    assert result.broken == []


def test_real_gradients_are_not_gaussian(result: Result) -> None:
    rows = [row for moment in result.moments for row in moment.rows]
    top = [row for row in rows if row.quantity == "top_k_mse"]
    assert all(row.ratio is not None and row.ratio < 0.95 and not row.within for row in top)
    assert all(row.assumption.startswith("gip.assumption1") for row in top)
    entries = [row for row in rows if row.group == "entries"]
    assert entries and all(row.assumption == GAUSSIAN and not row.within for row in entries)
    found = [row for row in rows if row.quantity == "error, GEP's basis"]
    assert all(row.ratio is not None and row.ratio < 0.95 for row in found)


def test_same_seed_same_numbers(result: Result, taken: list[Snapshot]) -> None:
    snapshot, moment = taken[2], result.moments[2]
    generator = torch.Generator().manual_seed(TINY.stream(2))
    with simulation():  # as the validation takes them
        kappas, notes = _validation.kappa_rows(snapshot, TINY, generator)
        again = [
            *_validation.mse_rows(snapshot, TINY, generator),
            *_validation.clipping_rows(snapshot, TINY),
            *kappas,
        ]
    assert tuple(again) == moment.rows[: len(again)]
    assert notes == moment.notes


def test_snapshots(taken: list[Snapshot]) -> None:
    for snapshot in taken:
        assert snapshot.true.shape == (26_010,)
        assert snapshot.pool.shape == (60, 26_010)
        assert snapshot.anchors.shape == (40, 26_010)
        np.testing.assert_allclose(
            np.outer(snapshot.head.outputs, snapshot.head.pixels), snapshot.head.weights, atol=1e-6
        )
        assert float(snapshot.next_sum.norm()) > 0
    assert _validation.trainable_from(taken[0].layers) == 26_010 - (512 * 32 + 32 + 32 * 10 + 10)


Measured = Callable[[Snapshot], list[Row]]


def torch_seeded(function: Callable[..., Any]) -> Measured:
    return lambda snapshot: function(snapshot, TINY, torch.Generator().manual_seed(1))


def numpy_seeded(function: Callable[..., Any]) -> Measured:
    return lambda snapshot: function(snapshot, TINY, np.random.default_rng(1))


def times(factor: float) -> Callable[[Any], Any]:
    return lambda value: factor * value


def field(*names: str, factor: float) -> Callable[[Any], Any]:
    return lambda value: dataclasses.replace(value, **{name: factor * getattr(value, name) for name in names})


def more_noise(value: gradients.MseBreakdown) -> gradients.MseBreakdown:
    return gradients.MseBreakdown(
        full=field("noise", factor=1.05)(value.full), masked=field("noise", factor=1.05)(value.masked)
    )


ANGLES, ATTACK = torch_seeded(_validation.angle_rows), numpy_seeded(_validation.attack_rows)
KAPPA = torch_seeded(lambda *given: _validation.kappa_rows(*given)[0])


@pytest.mark.parametrize(
    ("owner", "name", "change", "rows", "quantity"),
    [
        (gradients, "clipped_gradient_mse", more_noise, torch_seeded(_validation.mse_rows), "noise_energy"),
        (sparsification, "kappa", field("value", factor=1.2), KAPPA, "kappa"),
        (pruning, "random_k_mse", times(1.05), numpy_seeded(_validation.pruning_rows), "random_k_mse"),
        (pruning, "noise_mse", times(1.05), numpy_seeded(_validation.pruning_rows), "noise_mse"),
        (pruning, "pruned_cosine", times(1.1), numpy_seeded(_validation.pruning_rows), "cosine_dp_sgd"),
        (gradients.DistortionAngle, "expected_cos", times(1.4), ANGLES, "cos gamma_BP"),
        (gradients.DistortionAngle, "mean", times(0.98), ANGLES, "gamma_BP"),
        (gradients, "batch_expected_cos", times(1.6), ANGLES, "cos gamma"),
        (freezing, "expected_angle", times(0.98), ANGLES, "gamma"),
        (freezing, "norm_growth", times(1.01), ANGLES, "mean clipped norm"),
        (
            embedding,
            "random_basis_error",
            times(0.999),
            torch_seeded(_validation.projection_rows),
            "error, random basis",
        ),
        (embedding, "gep_mse", field("joint", factor=1.1), torch_seeded(_validation.embedding_rows), "noise energy"),
        (sparsification, "expected_error", field("given_recoverable", factor=1.3), ATTACK, "error where not hidden"),
    ],
)
def test_a_wrong_prediction_is_noticed(
    taken: list[Snapshot],
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    change: Callable[[Any], Any],
    rows: Measured,
    quantity: str,
) -> None:
    right = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *a, **k: change(right(*a, **k)))
    assert quantity in {row.quantity for row in rows(taken[2]) if row.broken}


def test_two_percent_of_the_error_of_an_attack_are_noticed(
    taken: list[Snapshot], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, right = dataclasses.replace(TINY, draws=1000), sparsification.expected_error
    assert not any(row.broken for row in _validation.attack_rows(taken[2], chosen, np.random.default_rng(1)))
    wrong = field("given_recoverable", factor=1.02)
    monkeypatch.setattr(sparsification, "expected_error", lambda *a, **k: wrong(right(*a, **k)))
    found = _validation.attack_rows(taken[2], chosen, np.random.default_rng(1))
    assert {row.quantity for row in found if row.broken} == {"error where not hidden"}


@pytest.mark.parametrize("quantity", ["kappa", "descent ratio"])
def test_the_error_that_kappa_admits_is_allowed_for(
    taken: list[Snapshot], monkeypatch: pytest.MonkeyPatch, quantity: str
) -> None:
    """A bracket has no standard error: 0.2 off, and said so, is agreement; off by more than what is said is not."""
    right = sparsification.kappa

    def rows(moved: float, error: float) -> list[Row]:
        def kappa(*given: Any, **options: Any) -> sparsification.Kappa:
            found = right(*given, **options)
            return dataclasses.replace(found, value=found.value + moved, error=error, standard_error=0.0)

        monkeypatch.setattr(sparsification, "kappa", kappa)
        found, _ = _validation.kappa_rows(taken[0], TINY, torch.Generator().manual_seed(1))
        return [row for row in found if row.quantity == quantity]

    assert all(row.within and row.error == 0.2 for row in rows(0.2, 0.2))
    assert not any(row.within for row in rows(0.2, 0.1))


def call(*arguments: str) -> tuple[int, str]:
    outcome = CliRunner().invoke(app, ["validate", *arguments])
    return outcome.exit_code, outcome.output


def test_command_writes_its_files(tmp_path: Path, result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dptheory.training.measure.validate", lambda *a: result)
    code, text = call("--device", "cpu", "--out", str(tmp_path / "new"))
    assert code == 0, text
    assert "rows that need no assumption agree within 5 SE" in text
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["validate.json", "validate.png"]
    assert (tmp_path / "new" / "validate.png").read_bytes().startswith(b"\x89PNG")

    def no_constant(name: str) -> None:
        raise AssertionError(f"{name} in the JSON file")

    found = json.loads((tmp_path / "new" / "validate.json").read_text(), parse_constant=no_constant)
    assert found == json.loads(json.dumps(to_dict(result, CPU)))
    assert found["device"] == "cpu"
    assert found["settings"]["training"]["seed"] == 0
    assert {"torch", "opacus", "dptheory"} <= set(found["versions"])
    assert {row["moment"] for row in found["rows"]} == {"start", "middle", "end"}
    assert len(found["rows"]) == sum(len(moment.rows) for moment in result.moments)


@pytest.mark.parametrize("clip", [0.05, 0.7, 1000.0])
def test_a_step_gives_the_sum_of_the_gradients_clipped_by_hand(clip: float) -> None:
    """At sampling rate 1 every image is drawn, so that the batch is known; with next to no noise the weights move by it over B."""
    training = dataclasses.replace(TINY.training, batch_size=12, max_grad_norm=clip, noise_multiplier=1e-6)
    chosen = dataclasses.replace(TINY, training=training, pool=12)
    trainer, by_hand = prepare(part(True, 12), part(False, 60).pixels, chosen, CPU), torch.zeros(26_010)
    for pixels, label in zip(trainer.images.pixels, trainer.images.labels, strict=True):
        trainer.plain.zero_grad()
        torch.nn.functional.cross_entropy(trainer.plain(pixels[None]), label[None]).backward()
        gradient = torch.cat([p.grad.flatten() for p in trainer.plain.parameters()])  # type: ignore[union-attr]
        by_hand += gradient / max(1.0, float(gradient.norm()) / clip)
    before = torch.cat([p.detach().flatten().clone() for p in trainer.plain.parameters()])
    torch.testing.assert_close(trainer.step(0), by_hand, rtol=1e-4, atol=1e-6)
    trainer.synchronize()
    moved = before - torch.cat([p.detach().flatten() for p in trainer.plain.parameters()])
    torch.testing.assert_close(moved, 2.0 * by_hand / 12, rtol=1e-3, atol=1e-5 * max(1.0, clip))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_first_gradient_on_cuda_is_that_on_the_cpu() -> None:
    with exact_products():  # torch's convolutions on a GPU round factors to 11 bits otherwise
        here, there = (
            prepare(part(True, 300), part(False, 60).pixels, TINY, torch.device(name)).step(0)
            for name in ("cpu", "cuda")
        )
    torch.testing.assert_close(there, here, rtol=1e-2, atol=1e-4)


def test_an_empty_batch_gives_a_sum_of_zero_and_training_goes_on() -> None:
    training = dataclasses.replace(TINY.training, batch_size=1, steps=24)
    trainer = prepare(part(True, 60), part(False, 60).pixels, dataclasses.replace(TINY, training=training), CPU)
    sums = [trainer.step(index) for index in range(24)]
    empty = [index for index in range(24) if not len(trainer.batches.batch(index))]
    assert 0 < len(empty) < 24 and [index for index in range(24) if not sums[index].any()] == empty
    assert all(torch.isfinite(p).all() for p in trainer.private.parameters())


def test_empty_batch_is_said() -> None:
    settings = dataclasses.replace(TINY, training=dataclasses.replace(TINY.training, batch_size=1))
    with refused("batch_size"):
        for seed in range(20):
            seeded = dataclasses.replace(settings, training=dataclasses.replace(settings.training, seed=seed))
            snapshots(prepare(part(True, 80), part(False, 60).pixels, seeded, CPU), seeded, lambda: None)


def test_other_images_are_refused() -> None:
    images = Images("large", torch.zeros(300, 3, 32, 32), torch.zeros(300, dtype=torch.int64))
    with refused("images", "1", "28", "3", "32"):
        validate_images(images, images, TINY, CPU)
