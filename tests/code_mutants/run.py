"""Run the tests that cover a mutant against a copy of the tree that holds it."""

import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from tests.code_mutants.cover import Covering
from tests.code_mutants.mutate import Mutant, mutated_source

_HEAVY = ("numpy", "scipy.stats", "scipy.optimize", "scipy.integrate", "scipy.signal", "sympy", "hypothesis", "matplotlib",
          "torch", "opacus", "mpmath", "pytest", "sybil")  # fmt: skip
_SPARE = 60.0
"""Seconds that a run may take beside ten times what its tests take without a mutant."""

_copy: Path | None = None


def judged(
    root: Path, mutants: Iterable[Mutant], covering: Covering, *, workers: int, patience: float, first: list[str]
) -> Iterator[tuple[Mutant, str]]:
    """Each mutant with the test that noticed it.

    "" for a survivor of ``patience`` seconds of tests, "time" where the tests did not end, "no test" where none runs it.
    The tests named in ``first`` run before all others.
    """
    with ProcessPoolExecutor(workers, initializer=_prepare, initargs=(root,)) as pool:
        waiting = {}
        for mutant in mutants:
            rounds = [one for one in (first, *covering.rounds(mutant.path, mutant.line, patience=patience)) if one]
            waiting[pool.submit(_judge, root, mutant, rounds, 10 * patience + _SPARE)] = mutant
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def _prepare(root: Path) -> None:
    """Import what does not change once, and copy the tree: every mutant is judged in a fork of this process."""
    global _copy
    _copy = Path(tempfile.mkdtemp(prefix="mutant-"))
    tracked = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, text=True).split("\n")
    for name in filter(None, tracked):
        if (root / name).is_file():
            (_copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, _copy / name)
    for name in _HEAVY:
        importlib.import_module(name)
    sys.path[:] = [
        str(_copy),
        str(_copy / "tests"),
        *(path for path in sys.path if Path(path).resolve() != root.resolve()),
    ]
    os.environ["PYTHONPATH"] = f"{_copy}{os.pathsep}{_copy / 'tests'}"
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


def _judge(root: Path, mutant: Mutant, rounds: list[list[str]], limit: float) -> str:
    assert _copy is not None
    if not rounds:
        return "no test"
    source = _copy / mutant.path
    source.write_text(mutated_source(root, mutant))
    try:
        return next(filter(None, (_forked(_copy, tests, limit) for tests in rounds)), "")
    finally:
        shutil.copy(root / mutant.path, source)


def _forked(folder: Path, tests: list[str], limit: float) -> str:
    """The first test that fails in a fork of this process, "" if all pass."""
    said = folder / ".mutant-outcome"
    said.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.chdir(folder)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        import pytest

        first = _First(said)
        code = pytest.main(
            ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--hypothesis-seed=0", *tests], plugins=[first]
        )
        os._exit(int(code))
    deadline = time.monotonic() + limit
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return "" if code == 0 else (said.read_text() if said.exists() else f"exit code {code}")
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "time"
        time.sleep(0.02)


class _First:
    """Notes the first failure."""

    def __init__(self, said: Path) -> None:
        self._said = said

    def pytest_runtest_logreport(self, report: object) -> None:
        if report.failed and not self._said.exists():  # type: ignore[attr-defined]
            self._said.write_text(report.nodeid)  # type: ignore[attr-defined]

    def pytest_collectreport(self, report: object) -> None:
        if report.failed and not self._said.exists():  # type: ignore[attr-defined]
            self._said.write_text(f"collection of {report.nodeid}")  # type: ignore[attr-defined]
