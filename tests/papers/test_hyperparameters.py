"""The presets against the rows of the papers' tables, typed a second time, and against what the papers say of them."""

import dataclasses

import pytest

from dptheory import papers
from dptheory.papers import Preset
from tests.refused import refused

# epsilon, sigma, lr, batch size, epoch, momentum, clip, d, r*, total density
TABLES = {
    "rf.end-to-end-cnn.eps3": "3 1.54 1 1000 40 0.9 0.1 550K 0.7 0.65",
    "rf.end-to-end-cnn.eps7.53": "7.53 1.10 1 1000 80 0.9 0.1 550K 0.7 0.65",
    "rf.dp-transfer-learning.eps2": "2 2.30 4 1000 50 0.9 0.1 41K 0.7 0.65",
    "rf.handcrafted-cnn.eps3": "3 5.65 4 8000 80 0.9 0.1 187K 0.6 0.7",
    "rf.gep.eps8": "8 - 0.1 1000 200 0.9 - 268K 0.4 0.8",
    "rf.adjusted-end-to-end-cnn.eps3": "3 1.81 1 1000 60 0 1 550K 0.9 0.6",
    "rf.adjusted-end-to-end-cnn.eps7.53": "7.53 1.18 1 1000 100 0 1 550K 0.9 0.58",
}
FIELDS = (
    "epsilon", "noise_multiplier", "learning_rate", "batch_size", "epochs", "momentum", "clip_norm", "dim", "drop_rate",
    "total_density",
)  # fmt: skip


def _number(cell: str) -> float | None:
    if cell == "-":
        return None
    return float(cell.removesuffix("K")) * (1000 if cell.endswith("K") else 1)


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_rf(name: str) -> None:
    preset = papers.preset(name)
    assert [getattr(preset, field) for field in FIELDS] == [_number(cell) for cell in TABLES[name].split()]
    assert (preset.dataset, preset.train_size, preset.delta) == ("CIFAR10", 50_000, 1e-5)


def test_every_preset_is_found_by_its_name() -> None:
    names = [preset.name for preset in papers.all_presets()]
    assert len(names) == len(set(names)) == 7 + 12 + 9
    assert [papers.preset(name).name for name in names] == names
    assert {name for name in names if name.startswith("rf.")} == set(TABLES)


def test_total_density_is_that_of_the_ramp() -> None:
    """1 - r*/2 for the plain ramp; Table 9 counts its extra epochs, but divides by the epochs of the ramp."""
    for preset in papers.all_presets():
        if preset.total_density is None:
            continue
        assert preset.drop_rate is not None and preset.epochs is not None and preset.ramp_epochs is not None
        extra = preset.epochs - preset.ramp_epochs
        kept = preset.ramp_epochs * (1 - preset.drop_rate / 2) + extra * (1 - preset.drop_rate)
        assert preset.total_density == pytest.approx(kept / preset.ramp_epochs, abs=0.0051)
        assert extra == (20 if "adjusted" in preset.name else 0)


def test_scaling_rule_keeps_clip_over_one_minus_momentum() -> None:
    for preset in papers.all_presets():
        if "end-to-end" in preset.name:
            assert preset.clip_norm is not None and preset.momentum is not None
            assert preset.clip_norm / (1 - preset.momentum) == pytest.approx(1.0)


def test_rows_of_rs() -> None:
    shares = {"cifar10": (187_000, 550_000), "svhn": (187_000, 550_000), "fmnist": (33_000, 26_000)}
    for dataset, dims in shares.items():
        suffix = "-s" if dataset == "fmnist" else ""
        for epsilon in (1, 3):
            for framework, dim in zip(("h-cnn", "dp-cnn"), dims, strict=True):
                preset = papers.preset(f"rs.{framework}{suffix}.{dataset}.eps{epsilon}")
                assert (preset.dim, preset.epsilon) == (dim, epsilon)
                assert preset.noise_multiplier is preset.drop_rate is preset.noise_share is None
    found = {name: papers.preset(f"rs.fig2{name}") for name in "abcdefghi"}
    printed = "a 1 0.25, b 2 0.25, c 4 0.25, d 1 0.5, e 2 0.5, f 4 0.5, g 1 1, h 2 1, i 4 1"
    assert ", ".join(f"{name} {p.noise_multiplier:g} {p.clip_norm:g}" for name, p in found.items()) == printed
    assert {(p.batch_size, p.epochs, p.dim) for p in found.values()} == {(1000, 100, 550_000)}


def test_noise_share() -> None:
    by_hand = {
        "rf.end-to-end-cnn.eps3": 1.30438,
        "rf.end-to-end-cnn.eps7.53": 0.6655,
        "rf.dp-transfer-learning.eps2": 0.21689,
        "rf.handcrafted-cnn.eps3": 0.0932736,
        "rf.gep.eps8": None,
        "rf.adjusted-end-to-end-cnn.eps3": 1.801855,
        "rf.adjusted-end-to-end-cnn.eps7.53": 0.76582,
        "rs.fig2c": 8.8,
    }
    for name, share in by_hand.items():
        found = papers.preset(name).noise_share
        assert found is None if share is None else found == pytest.approx(share, rel=1e-5)


def test_unknown_name_is_answered_with_near_ones() -> None:
    with refused("name", "'rf.gep'"):
        papers.preset("rf.gep")
    with refused("name"):
        papers.preset("")


def test_presets_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        papers.preset("rf.gep.eps8").epochs = 3  # type: ignore[misc]
    assert isinstance(papers.all_presets(), tuple) and isinstance(papers.all_presets()[0], Preset)
