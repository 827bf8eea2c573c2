"""Instruments are read from TOML, and wrong ones are refused."""

import shutil
import tomllib
from pathlib import Path

import pytest

from dptheory import privacy
from dptheory.training.studies import Measuring, read_instrument
from dptheory.training.studies._instruments import FILE, read_instruments
from tests.refused import refused


def test_what_a_file_says() -> None:
    found = read_instrument("masks")
    assert (found.name, found.examples, found.last_step("ranked"), found.last_step("dp-sgd")) == (
        "masks",
        2000,
        301,
        360,
    )
    norms = next(one for one in found.measurings if one.kind == "norms")
    assert norms == Measuring("norms", ("dp-sgd", "freeze"), (60, 240, 360), {})
    errors = next(one for one in found.measurings if one.kind == "errors")
    assert errors.options == {"drop_rates": [0.1, 0.3, 0.5, 0.7, 0.9], "masks": 4}
    freeze, free = (found.config(arm, seed=7) for arm in ("freeze", "ranked-without-noise"))
    assert (freeze.seed, freeze.epsilon, freeze.mechanism["drop_rate"]) == (7, 7.53, 0.9)
    least = privacy.least_noise_multiplier(epsilon=7.53, delta=1e-5, sampling_rate=1 / 60, steps=360)
    assert free.epsilon is None and 0 < free.noise_multiplier / least - 1 < 5e-4
    assert found.config("ranked-without-noise", seed=7) == free  # and again
    assert set(read_instruments()) == set(tomllib.loads(FILE.read_text(encoding="utf-8")))


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    wrong = [
        ("examples = 2000", "examples = 1", "examples must be an integer in 2..10000"),
        ("examples = 2000", "", "must have the keys"),
        ("examples = 2000", "examples = 2000\nmore = 1", "must have the keys"),
        ("[masks.measure.norms]\n", "[masks.measure.norms]\nsteps = [60, 60]\n#", "is not TOML"),
        (
            "steps = [60, 240, 360]",
            "steps = [240, 60]",
            r"measure.norms.steps must be rising, from 0 on, got \(240, 60\)",
        ),
        ("steps = [60, 240, 360]", "", "measure.norms.steps must be rising"),
        ('arms = ["dp-sgd", "freeze"]', 'arms = ["dp-sgd", "freezes"]', "measure.norms.arms must be one of"),
        ("delta = 1e-5", "delta = 1.0", "delta must be"),
        ("max_grad_norm", "max_norm", "has no key max_norm"),
    ]
    for old, new, says in wrong:
        before, text = FILE.read_text(encoding="utf-8").split("[masks]\n")
        assert old in text
        changed = f"{before}[masks]\n{text.replace(old, new, 1)}"
        (tmp_path / "instruments.toml").write_text(changed, encoding="utf-8")
        with pytest.raises(ValueError, match=says):
            read_instrument("masks", file=tmp_path / "instruments.toml")
    shutil.copy(FILE, tmp_path)
    assert read_instrument("masks", file=tmp_path / "instruments.toml") == read_instrument("masks")
    with refused("name"):
        read_instrument("mask", file=tmp_path / "instruments.toml")
