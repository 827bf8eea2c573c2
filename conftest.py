"""Runs the code blocks of pages and README, adds the option for slow tests, deals files to processes, gives all one terminal."""

import doctest
import gc
import os
import re
from pathlib import Path
from typing import Any

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

# As many processes as cores run the tests: more threads would wait for each other; NumPy and torch look when they are imported
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
# Rich and Typer look at these when they are imported: no test may depend on who runs it, and in what window
os.environ.update(COLUMNS="100", LINES="50")
for name in (
    "FORCE_COLOR",
    "PY_COLORS",
    "NO_COLOR",
    "TTY_COMPATIBLE",
    "TTY_INTERACTIVE",
    "TERMINAL_WIDTH",
    "GITHUB_ACTIONS",
):
    os.environ.pop(name, None)

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=doctest.IGNORE_EXCEPTION_DETAIL), SkipParser()],
    patterns=["*.md"],
    excludes=["training/excerpt/*"],
).pytest()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the deeper tests")
    parser.addoption(
        "--kernel", action="store_true", help="also compile the Coq files of proofs/kernel, and their mutants"
    )
    parser.addoption(
        "--mutants", action="store_true", help="also make every field of every result wrong, and see it noticed"
    )


TOGETHER = (
    ("tests/test_claims.py", "tests/test_mutations.py", "tests/test_fields.py"),
    ("tests/training/engine/test_distributed.py", "tests/training/runs/test_train.py"),
)
"""Files that belong into one process: they share the recorded runs of the checks and the values that results are compared
with; the server that processes are forked from."""
HALF = ("rs", "sparsification", "gep", "embedding", "lf", "freezing")
"""Papers, and the rooms of their calculators: about half of what the checks and their mutants take, for a process of its own."""
LONG = (
    *TOGETHER[0],
    "tests/training/audits/test_suite.py",
    "tests/training/test_planted_bugs.py",
    "tests/training/planning/test_plan.py",
    *TOGETHER[1],
    "tests/test_bad_input.py",
    "tests/training/runs/test_checkpoint.py",
    "tests/test_written_pages.py",
)
"""They begin, in this order, so that no process is left with a long file at the end."""
assert all((Path(__file__).parent / file).is_file() for file in LONG), LONG


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One process per file, as with ``--dist loadfile``, and one for those of a group together, or for half of it."""
    from xdist.scheduler import LoadFileScheduling

    class ByGroup(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            scope = super()._split_scope(nodeid)
            if scope in TOGETHER[0]:
                subject = re.search(r"\[(\w+)\.", nodeid)
                return f"{TOGETHER[0][0]}, {'half' if subject and subject[1] in HALF else 'rest'}"
            return next((group[0] for group in TOGETHER if scope in group), scope)

    return ByGroup(config, log)


def pytest_collection_finish() -> None:
    """Modules and items stay to the end: the collector of garbage need not go through them again and again.

    Nor for every 700 new objects: that took 5 % of the time of the checks.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    rank = {file: i for i, file in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(item.nodeid.split("::")[0], len(LONG)))
    for option in ("slow", "mutants", "kernel"):
        if not config.getoption(f"--{option}"):
            for item in items:
                if item.get_closest_marker(option):
                    item.add_marker(pytest.mark.skip(reason=f"needs --{option}"))
