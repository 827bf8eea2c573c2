"""The file of statistics: what is written is read, what is shipped is what the files hold, and bad files are refused by name."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from dptheory import planning
from dptheory.planning import GradientStats, TrainingSetup, plan, read_statistics, shipped_statistics, statistics_text
from tests.planning.made import LAYERS, STATS

FOLDER = Path(planning.__file__).parent / "statistics"


def plain(value: Any) -> Any:
    """Lists in place of tuples, five digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value


def as_file(stats: GradientStats) -> Any:
    return {"format": "dptheory-statistics-1", **plain(dataclasses.asdict(stats))}


def test_what_is_written_is_the_record() -> None:
    text = statistics_text(STATS)
    assert json.loads(text) == as_file(STATS) and text.endswith("}\n")


def test_what_is_written_is_read() -> None:
    path = Path(__file__).parent / "made.json"
    assert json.loads(path.read_text()) == as_file(STATS)
    assert as_file(read_statistics(path)) == json.loads(path.read_text())
    assert read_statistics(path).moments[0].methods[0].setting == 0.0


def test_shipped_statistics_are_their_files() -> None:
    names = sorted(path.stem.replace("__", "/") for path in FOLDER.glob("*.json"))
    assert planning.shipped_names() == tuple(names) and len(names) >= 2
    for name in names:
        found = shipped_statistics(name)
        assert as_file(found) == json.loads((FOLDER / f"{name.replace('/', '__')}.json").read_text())
        assert found.name == name and found.public and [one.name for one in found.moments] == ["start", "middle", "end"]


def test_shipped_statistics_are_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.glob("*.json")) < 250_000


def test_sizes_add_up() -> None:
    assert STATS.dim == sum(LAYERS) == 200
    assert TrainingSetup(num_examples=10, epsilon=1.0, delta=1e-5, layer_sizes=LAYERS).entries == 200
    assert TrainingSetup(num_examples=10, epsilon=1.0, delta=1e-5, dim=7).entries == 7


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (
            ("format",),
            "other",
            "must hold the format dptheory-statistics-1 or dptheory-private-statistics-1, got 'other'",
        ),
        (("name",), 3, "stats.name must be of type str, got 3"),
        (("public",), 1, "stats.public must be of type bool, got 1"),
        (("public",), False, "stats.public must be true, got False"),
        (("examples",), True, "stats.examples must be of type int, got True"),
        (("examples",), 1, "stats.examples must be an integer"),
        (("layer_sizes",), [], "stats.layer_sizes must be a row of integers"),
        (("moments",), [], "stats.moments must all have dp-sgd measured"),
        (("moments", 0, "extra"), 1, "stats.moments[0] must have the entries name, step"),
        (("moments", 0, "norm_quantiles", 0), [1.0], "stats.moments[0].norm_quantiles[0] must be a list of 2"),
        (("moments", 0, "entry_shares", 0, 1), -1.0, "stats.moments.entry_shares must hold numbers in [0, inf)"),
        (
            ("moments", 0, "methods", 0, "clip_norm"),
            0.25,
            "stats.moments must all have dp-sgd measured, at the same clips",
        ),
        (("moments", 1, "methods", 2, "alignments"), [1.0], "two folds or more, as many of each kind, got [1, 6, 6]"),
        (("moments", 1, "methods", 2, "noise_dim"), -1.0, "stats.moments.methods.noise_dim must be a number in"),
        (("moments", 1, "methods", 2, "curvatures"), [1.0], "curvatures must be a list of 3"),
        (("moments", 1, "methods", 2, "setting"), "x", "methods[2].setting must be of type float, got 'x'"),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path: Path, place: tuple[Any, ...], value: Any, message: str) -> None:
    content = as_file(STATS)
    spot = content
    for step in place[:-1]:
        spot = spot[step]
    spot[place[-1]] = value
    path = tmp_path / "stats.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=re.escape(message)):
        read_statistics(path)


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "stats.json"
    for text in ("", "{", '{"a": NaN}', "[1]"):
        path.write_text(text)
        with pytest.raises(ValueError, match=re.escape(str(path))):
            read_statistics(path)
    for data in (b"\xff\xfe", b"[" * 10**5):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=re.escape(f"{path} must be JSON, got ")):
            read_statistics(path)
    with pytest.raises(OSError):
        read_statistics(tmp_path / "nothing")


def test_made_statistics_are_checked_when_a_plan_uses_them() -> None:
    broken = dataclasses.replace(STATS, moments=())
    with pytest.raises(ValueError, match=r"stats.moments must all have dp-sgd measured"):
        plan(TrainingSetup(num_examples=10, epsilon=1.0, delta=1e-5, dim=200), stats=broken)
