"""The commands of training in the one program: always shown, loaded when they are called, and clear about what they lack."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from dptheory.cli import _joining, app
from dptheory.cli._joining import GROUP, TRAIN, MissingPackageError, joining

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CALLS = {
    "answers": [],
    "audit": [],
    "demo": [],
    "instrument": ["masks"],
    "plan": ["x.py:build", "--public", "x.npz", "--num-examples", "50", "--epsilon", "1", "--delta", "1e-5"],
    "probe": [],
    "rerun": ["x.jsonl", "run"],
    "run": ["x.toml"],
    "sweep": ["x.toml"],
    "validate": [],
}
"""The least that each takes."""

WITHOUT_TRAIN = f"""
import json, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {TRAIN}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from typer.testing import CliRunner
from dptheory.cli import app

def said(*arguments):
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.stdout, result.stderr

calls = json.loads(sys.argv[1])
print(json.dumps([said("--help"), [[said(name, "--help"), said(name, *given)] for name, given in calls.items()]]))
"""


def test_the_commands_are_those_that_pyproject_names() -> None:
    """Fails where the installed metadata are older than pyproject.toml: install again."""
    found = {name: entry.value for name, entry in joining().items() if entry.value.startswith("dptheory.")}
    assert found == PROJECT["entry-points"][GROUP] and found.keys() == CALLS.keys()


def test_without_torch_commands_are_shown_and_say_which_extra_they_need(tmp_path: Path) -> None:
    done = subprocess.check_output([sys.executable, "-c", WITHOUT_TRAIN, json.dumps(CALLS)], cwd=tmp_path, text=True)
    (code, shown, _), each = json.loads(done)
    assert code == 0 and all(f" {name} " in shown for name in CALLS)
    for name, ((helped, page, _), (ended, out, error)) in zip(CALLS, each, strict=True):
        assert helped == 0 and f"dptheory {name}" in page, "its help shows an example"
        assert (ended, out) == (2, "") and error.count("\n") == 1, error
        assert f"dptheory {name} needs the package " in error and "dptheory[train]" in error
    assert list(tmp_path.iterdir()) == []


def test_what_the_extra_brings() -> None:
    first, *packages = PROJECT["optional-dependencies"]["train"]
    assert first == "dptheory[accountants]"
    assert tuple(one.partition(">")[0] for one in packages) == TRAIN


def test_as_a_module() -> None:
    shown = subprocess.check_output([sys.executable, "-m", "dptheory", "run", "--help"], text=True)
    assert "Usage: dptheory run " in shown


def _lacking(package: str) -> Callable[[], None]:
    def command() -> None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    return command


def test_another_missing_module_is_no_matter_of_the_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named 'mine'"):
        _joining._or_what_it_lacks("run", _lacking("mine"))()
    with pytest.raises(MissingPackageError) as refused:
        _joining._or_what_it_lacks("run", _lacking("torch.nn"))()
    assert refused.value.args == ("run", "torch")


def test_no_other_package_takes_the_place_of_a_command_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_joining, "joining", lambda: {"claims": EntryPoint("claims", "no.such:thing", GROUP)})
    assert "gip.mse_t0" in CliRunner().invoke(app, ["claims"]).stdout
    tree = typer.main.get_command(app)
    assert isinstance(tree, _joining.JoinedCommands)
    assert tree.list_commands(None).count("claims") == 1
