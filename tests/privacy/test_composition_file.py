"""Compositions from files, against the same ones written in Python."""

import json
import tempfile
import tomllib
from pathlib import Path

from dptheory.privacy import Composition, FreshMask, IndexSteps, JointStep, MaskedStep, Step, read_composition
from dptheory.pruning import SubsetMallows
from tests.refused import refused

TEXT = """
adjacency = "add-remove"
[[step]]
noise_multiplier = 2.0
sampling_rate = 0.04
count = 500
[[step]]
noise_multiplier = 1.0
sampling_rate = 0.02
count = 400
[[joint_step]]
noise_multiplier = 3.0
sampling_rate = 0.5
count = 2
dim = 12
keep = 4
theta = 0.05
groups = 3
[[masked_step]]
noise_multiplier = 4.0
sampling_rate = 0.25
count = 7
dim = 10
keep = 3
[[index_steps]]
steps = 6
dim = 9
keep = 5
theta = 0.5
"""


def test_every_kind_of_steps() -> None:
    expected = Composition(
        (
            Step(noise_multiplier=2.0, sampling_rate=0.04, count=500),
            Step(noise_multiplier=1.0, sampling_rate=0.02, count=400),
            JointStep(
                noise_multiplier=3.0, sampling_rate=0.5, mechanism=SubsetMallows(12, 4, theta=0.05), groups=3, count=2
            ),
            MaskedStep(noise_multiplier=4.0, sampling_rate=0.25, mask=FreshMask(dim=10, keep=3), count=7),
            IndexSteps(steps=6, mechanism=SubsetMallows(9, 5, theta=0.5)),
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        toml, plain, other = (Path(folder, name) for name in ("run.toml", "run.json", "other.json"))
        toml.write_text(TEXT)
        plain.write_text(json.dumps(tomllib.loads(TEXT)))
        other.write_text(json.dumps({"adjacency": "replace-one", "step": tomllib.loads(TEXT)["step"]}))
        assert read_composition(toml) == read_composition(str(plain)) == expected
        assert read_composition(other) == Composition(expected.parts[:2], adjacency="replace-one")


def test_what_is_no_composition_is_refused(tmp_path: Path) -> None:
    file, step = tmp_path / "run.json", {"noise_multiplier": 1.0, "sampling_rate": 0.5, "count": 1}
    for plain, *shown in (
        (3,),
        ({}, "masked_step", "none"),
        ({"steps": [step]}, "steps"),
        ({"step": step}, "[[step]]"),
        ({"step": [step | {"rate": 1}]}, "rate", "noise_multiplier"),
        ({"step": [{"count": 1}]}, "noise_multiplier", "sampling_rate"),
        ({"step": [step | {"count": 0}]}, "count", "1..10"),
        ({"adjacency": "replace-one", "masked_step": [step | {"dim": 3, "keep": 1}]}, "adjacency", "'add-remove'"),
        ({"joint_step": [step | {"dim": 3, "keep": 1, "theta": -1}]}, "theta", "-1"),
    ):
        file.write_text(json.dumps(plain))
        with refused("path", file, *shown):
            read_composition(file)
    for text in ("{", "[" * 10**5):
        file.write_text(text)
        with refused("path", file):
            read_composition(file)
    (tmp_path / "run.toml").write_text("step = ")
    with refused("path", "run.toml"):
        read_composition(tmp_path / "run.toml")
