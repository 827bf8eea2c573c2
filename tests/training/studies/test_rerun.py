"""A result made again: by which code, with what told to it, and what is said to differ."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dptheory.cli import app
from dptheory.training import studies
from dptheory.training.data import data_folder
from dptheory.training.studies import _processes, _rerun, rerun, seconds_taken
from dptheory.training.studies._processes import Ending
from tests.refused import refused

ROOT = Path(__file__).parents[3]
WORKER = """
import json, sys
task = json.loads(sys.stdin.readline())
found = {name: task[name] for name in ("study", "phase", "arm", "point", "config")}
found |= json.loads(open(__file__.replace("_worker.py", "says.json")).read())
open(task["result"], "w").write(json.dumps(found | {"device": task["device"]}))
"""
INSTRUMENT = """
import json, os, pathlib, sys
_, kind, name, _, seed, _, device, _, out = sys.argv
assert kind == "instrument" and [os.environ[n] for n in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")] == ["1", "1"]
path = pathlib.Path(out) / "instruments" / f"{name}_seed={seed}.json"
path.parent.mkdir(parents=True)
says = pathlib.Path(__file__).parent / "runs" / "says.json"
path.write_text(json.dumps(json.loads(says.read_text()) | {"instrument": name, "seed": int(seed), "device": device}))
"""
SAYS: dict[str, Any] = {
    "epochs": {"accuracy": [0.5, 0.75], "loss": [2.0, None]},
    "diverged": False,
    "versions": {"torch": "2.13.0"},
    "quantities": {"gain": 1.5},
    "arms": {"dp-sgd": {"noise": 1.0}},
    "seconds": {"epochs": [1.0, 2.5]},
    "cpu_seconds": 7,
}
RUN = {"study": "s", "phase": "p", "arm": "a", "point": {"lr": 0.5}, "config": {"seed": 3}, "device": "cpu"}
MEASURED = {"instrument": "masks", "seed": 3, "device": "cpu"}
KINDS = pytest.mark.parametrize("kind", [RUN, MEASURED], ids=["run", "instrument"])


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """A checkout whose code writes down what it is told to say; each call is one more commit."""
    root = tmp_path / "checkout"
    (root / "training" / "runs").mkdir(parents=True)
    (root / "training" / "__init__.py").touch()
    (root / "training" / "runs" / "__init__.py").touch()
    (root / "training" / "runs" / "_worker.py").write_text(WORKER)
    (root / "training" / "__main__.py").write_text(INSTRUMENT)
    who = ("-c", "user.name=who", "-c", "user.email=who@example.org", "-c", "commit.gpgsign=false")

    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True).stdout

    def commit(**says: Any) -> str:
        (root / "training" / "runs" / "says.json").write_text(json.dumps(SAYS | {"code": {}} | says))
        git("add", ".")
        git(*who, "commit", "--quiet", "--message", "one more")
        return git("rev-parse", "HEAD").strip()

    git("init", "--quiet")
    monkeypatch.setattr(_rerun, "_ROOT", root)
    monkeypatch.chdir(ROOT)  # where another package of that name lies
    return commit


def written(folder: Path, kind: dict[str, Any], **changes: Any) -> Path:
    path = folder / "result.jsonl"
    path.write_text(json.dumps({"run": "it"} | SAYS | kind | changes) + "\n")
    return path


def code(commit: str) -> dict[str, Any]:
    return {"commit": commit, "dirty": False}


def coming_out(history: Callable[..., str], folder: Path, kind: dict[str, Any], **says: Any) -> studies.Rerun:
    """When the code says something else than the file, which it cannot be told of its commit."""
    path = written(folder, kind, code=code(history(**says)))
    found = rerun(path, "it")
    assert found.changed[-1].startswith("code.") and json.loads(path.read_text())["code"]["commit"] == found.commit
    return studies.Rerun(commit=found.commit, changed=found.changed[:-2], machine=found.machine)


@KINDS
def test_the_code_is_that_of_the_commit(history: Callable[..., str], tmp_path: Path, kind: dict[str, Any]) -> None:
    """Of three commits the middle one, and neither checkout nor file is touched."""
    history(diverged=True)
    middle = history()
    last = history(diverged=True)
    path = written(tmp_path, kind, code=code(middle))
    before = path.read_text()
    found = rerun(path, "it")
    assert (found.commit, found.machine) == (middle, ())
    assert found.changed == (
        f'code.commit: "{middle}" before, null now',
        "code.dirty: false before, null now",
    )
    assert path.read_text() == before and sorted(p.name for p in tmp_path.iterdir()) == ["checkout", "result.jsonl"]
    head = subprocess.run(
        ["git", "-C", str(tmp_path / "checkout"), "rev-parse", "HEAD"], capture_output=True, text=True
    )
    assert head.stdout.strip() == last
    assert rerun(written(tmp_path, kind, code=code(last)), "it").changed[0] == "diverged: false before, true now"


@KINDS
@pytest.mark.parametrize(
    ("says", "changed"),
    [
        ({}, ()),
        ({"seconds": {"epochs": [9.0]}, "cpu_seconds": 99}, ()),
        (
            {"epochs": {"accuracy": [0.5, 0.8], "loss": [2.0, 3.0]}},
            ("epochs.accuracy[1]: 0.75 before, 0.8 now", "epochs.loss[1]: null before, 3.0 now"),
        ),
        (
            {"epochs": {"accuracy": [0.5], "loss": [2.0, None]}},
            ("epochs.accuracy: [0.5, 0.75] before, [0.5] now",),
        ),
        ({"quantities": {"gain": 1.5, "loss": 2}}, ("quantities.loss: null before, 2 now",)),
        ({"arms": {"other": {}}}, ('arms.dp-sgd: {"noise": 1.0} before, null now', "arms.other: null before, {} now")),
    ],
)  # fmt: skip
def test_what_came_out_otherwise(
    history: Callable[..., str], tmp_path: Path, kind: dict[str, Any], says: dict[str, Any], changed: tuple[str, ...]
) -> None:
    found = coming_out(history, tmp_path, kind, **says)
    assert (found.changed, found.machine, found.same) == (changed, (), not changed)


@KINDS
def test_other_versions_and_devices_are_said_and_are_no_change(
    history: Callable[..., str], tmp_path: Path, kind: dict[str, Any]
) -> None:
    found = coming_out(history, tmp_path, kind | {"device": "cpu (AVX512)"}, versions={"torch": "2.14.0"})
    versions = 'versions.torch: "2.13.0" before, "2.14.0" now'
    assert found.same and set(found.machine) == {versions, 'device: "cpu (AVX512)" before, "cpu" now'}


@KINDS
@pytest.mark.parametrize(("name", "device"), [("cuda: NVIDIA A100", "cuda"), ("cpu (AVX2)", "cpu"), ("cpu", "cpu")])
def test_the_device(history: Callable[..., str], tmp_path: Path, kind: dict[str, Any], name: str, device: str) -> None:
    found = coming_out(history, tmp_path, kind | {"device": name})
    assert found.machine == (() if name == device else (f'device: "{name}" before, "{device}" now',))


@pytest.mark.parametrize("made_by", [{"package": "0.2.0"}, {"commit": "c0ffee", "dirty": True}])
@KINDS
def test_code_that_nobody_can_find_again(tmp_path: Path, kind: dict[str, Any], made_by: dict[str, Any]) -> None:
    with refused("run"):
        rerun(written(tmp_path, kind, code=made_by), "it")


@pytest.mark.parametrize("text", [None, "{", "[]\n", "{}\n", json.dumps({"config": {}}) + "\n"])
@pytest.mark.parametrize("of", [rerun, seconds_taken])
def test_a_file_without_results(tmp_path: Path, of: Callable[[Path, str], Any], text: str | None) -> None:
    if text is not None:
        (tmp_path / "result.jsonl").write_text(text)
    with refused("path"):
        of(tmp_path / "result.jsonl", "it")


@pytest.mark.parametrize("of", [rerun, seconds_taken])
@KINDS
def test_a_run_that_is_not_among_them(tmp_path: Path, of: Callable[[Path, str], Any], kind: dict[str, Any]) -> None:
    with refused("run", "'it'", "'that'"):
        of(written(tmp_path, kind, code={}), "that")


@KINDS
def test_code_that_writes_lines(history: Callable[..., str], tmp_path: Path, kind: dict[str, Any]) -> None:
    """As it does after 0.3.0: what comes out is the same, and the name of the run is no entry."""
    root = tmp_path / "checkout" / "training"
    worker = (root / "runs" / "_worker.py").read_text()
    (root / "runs" / "_worker.py").write_text(
        worker.replace("dumps(found |", 'dumps({"run": "it"} | found |') + '\nopen(task["result"], "a").write("\\n")\n'
    )
    measuring = (root / "__main__.py").read_text().replace("{name}_seed={seed}.json", "instruments.jsonl")
    (root / "__main__.py").write_text(measuring.replace("dumps(", 'dumps({"run": "it"} | '))
    path = written(tmp_path, kind, code=code(history()))
    assert [line.split(":")[0] for line in rerun(path, "it").changed] == ["code.commit", "code.dirty"]


def test_a_commit_that_is_not_there(history: Callable[..., str], tmp_path: Path) -> None:
    history()
    with pytest.raises(OSError, match="git cat-file failed"):
        rerun(written(tmp_path, RUN, code=code("c0ffee" * 6 + "c0ff")), "it")


def test_an_installed_package_has_no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_rerun, "_ROOT", tmp_path)
    with pytest.raises(OSError, match="made again from a git checkout"):
        rerun(written(tmp_path, RUN, code=code("c0ffee")), "it")


def test_a_run_that_fails(history: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, RUN, code=code(history()))
    monkeypatch.setattr(_processes, "_worker_of", lambda code: ("-c", "raise SystemExit('no such thing')"))
    with pytest.raises(ValueError, match="the run was not made again: no such thing"):
        rerun(path, "it")
    monkeypatch.setattr(_processes, "in_fresh_process", lambda *_, **__: Ending(_processes.BUSY))
    with pytest.raises(ValueError, match="the run was not made again: busy"):
        rerun(path, "it")


def test_measurements_that_fail(history: Callable[..., str], tmp_path: Path) -> None:
    path = written(tmp_path, MEASURED, code=code(history()))
    path.write_text(path.read_text().replace('"masks"', '"../masks"'))
    with pytest.raises(ValueError, match=r"the measurements were not made again: Traceback[^$]*FileNotFoundError"):
        rerun(path, "it")


def test_how_long_it_took(tmp_path: Path) -> None:
    assert seconds_taken(written(tmp_path, RUN, code={}), "it") == 3.5
    assert seconds_taken(written(tmp_path, MEASURED, code={}), "it") == 7.0


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, RUN, code=code("c0ffee"))

    def invoke(**found: tuple[str, ...]) -> tuple[int, list[str]]:
        monkeypatch.setattr(
            studies,
            "rerun",
            lambda path, run: studies.Rerun(**({"commit": "c0ffee", "changed": (), "machine": ()} | found)),
        )
        result = CliRunner().invoke(app, ["rerun", str(path), "it"])
        return result.exit_code, result.output.splitlines()

    same = "the same but for the times, by the code of commit c0ffee"
    assert invoke() == (0, [same])
    assert invoke(machine=("torch",)) == (0, ["torch", same])
    told = (1, ["torch", "loss", "gain", "2 entries came out otherwise, by the code of commit c0ffee"])
    assert invoke(machine=("torch",), changed=("loss", "gain")) == told


def test_errors_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(app, ["rerun", "nowhere.jsonl", "it"])
    assert result.exit_code == 2 and "path must be a file of results" in result.output

    def interrupted(path: Path, run: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(studies, "rerun", interrupted)
    assert CliRunner().invoke(app, ["rerun", str(written(tmp_path, RUN, code={})), "it"]).exit_code == 130


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the history")
@pytest.mark.parametrize(
    ("study", "run"), [("instruments", "inversion_seed=0"), ("cause", "no-noise-large-clip_clipped-90_seed=21")]
)
def test_a_committed_result_comes_out_again(study: str, run: str) -> None:
    """Some minutes of one core."""
    if not (data_folder() / "fashion-mnist" / "train-images-idx3-ubyte").is_file():
        pytest.skip(f"needs the published FashionMNIST files in {data_folder() / 'fashion-mnist'}")
    assert rerun(ROOT / "proofs" / "results" / f"{study}.jsonl", run).changed == ()
