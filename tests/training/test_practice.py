"""The benchmark of practice runs on small models, freezes what it says, and asks for the same gradients by every way."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from dptheory.training.benchmarks import _arms, _networks, _practice
from dptheory.training.benchmarks.__main__ import app
from dptheory.training.benchmarks._networks import FEW, MANY, SEVERAL, VIEWS

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")
NEEDS_TEXT = pytest.mark.skipif(not _networks.installed(), reason="needs dptheory[architectures]")

small = partial(_networks.timed, batch=2, sizes=_networks.SMALL)


def test_further_views_are_as_many_rows_as_further_images() -> None:
    assert VIEWS[SEVERAL].batch == VIEWS[MANY].batch == VIEWS[FEW].batch * VIEWS[SEVERAL].views
    assert VIEWS[FEW].views == VIEWS[MANY].views == 1


@NEEDS_TEXT
@pytest.mark.architectures
def test_every_part_of_text_is_measured() -> None:
    tiny = {name: one for name, one in VIEWS.items() if name == FEW}
    parts = dict(_practice.parts(1, 1, text=small, views=tiny))
    peaks = {f"memory/{arm}/{way}" for arm in (_arms.PLAIN, _arms.DP_SGD) for way in _networks.WAYS}
    peaks |= {f"memory/{_arms.GHOST}/{way}" for way in (_networks.LORA, _networks.EVERYTHING)} | {
        f"memory/{_arms.DP_SGD}/{FEW}"
    }
    assert {name for name in parts if name.startswith("memory/")} == peaks
    found = parts["time/ways"]()
    assert set(found["times"]) == {f"{arm}/{way}" for arm in (_arms.PLAIN, _arms.DP_SGD) for way in _networks.WAYS}
    counts = found["trained"]
    assert (
        sorted(counts, key=counts.get)[-1] == _networks.EVERYTHING and min(counts.values()) == counts["the head alone"]
    )
    assert set(parts[f"time/{_networks.EVERYTHING}"]()["times"]) == set(_practice.OTHERS)


@NEEDS_TEXT
@pytest.mark.architectures
@pytest.mark.parametrize("way", _networks.WAYS)
def test_steps_of_every_arm_are_plain_ones_without_noise_and_clip(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with places and kinds of tokens by hand, and nothing else moves than what is trained."""
    monkeypatch.setattr(_arms, "_SIGMA", 0.0)
    monkeypatch.setattr(_arms, "_CLIP", 1e6)
    moved = {}
    for arm in (_arms.PLAIN, _arms.DP_SGD, *((_arms.GHOST,) if way == _networks.EVERYTHING else ())):
        timed = small(way, by_hand=arm == _arms.GHOST)
        model = timed.model()
        monkeypatch.setattr(type(timed), "model", lambda self, model=model: model)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        _arms.build(arm, timed, *timed.examples(2))()
        monkeypatch.undo()
        monkeypatch.setattr(_arms, "_SIGMA", 0.0)
        monkeypatch.setattr(_arms, "_CLIP", 1e6)
        moved[arm] = {name: p.detach() - before[name] for name, p in model.named_parameters()}
        still = {name for name, p in model.named_parameters() if not p.requires_grad}
        assert not any(moved[arm][name].any() for name in still)
    largest = max(float(p.abs().max()) for p in before.values())
    ulp = torch.finfo(torch.float32).eps * largest  # of a weight, to which the step is added
    for found in moved.values():
        assert any(one.any() for one in found.values())
        assert all(float((found[name] - one).abs().max()) <= 2 * ulp for name, one in moved[_arms.PLAIN].items())


def test_the_command_writes_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "found.json"
    names = ("time/views", "memory/one")
    monkeypatch.setattr(_practice, "parts", lambda rounds, threads: ((n, lambda: {"answer": rounds}) for n in names))
    threads = str(torch.get_num_threads())
    done = CliRunner().invoke(
        app, ["practice", "--out", str(out), "--rounds", "3", "--threads", threads, "--only", "time"]
    )
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(out.read_text("utf-8"))
    assert found["parts"] == {"time/views": {"answer": 3}} and found["rounds"] == 3
    assert {"torch", "opacus"} <= set(found["versions"])


def test_text_is_left_out_where_its_packages_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_practice, "installed", lambda: False)
    assert {name.split("/")[0] for name, _ in _practice.parts(1, 1)} == {"time", "memory"}
    assert len(list(_practice.parts(1, 1))) == 1 + len(VIEWS) and _practice.versions() == {}
