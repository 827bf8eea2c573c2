"""Which tests run a line, and how long each takes: from one run of the whole suite under coverage."""

import json
import os
import sqlite3
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from coverage.numbits import numbits_to_nums

_LEFT_OUT = ("tests/test_mutations.py", "tests/code_mutants")
"""Mutants of mutants: slow, and they notice what the ledger's own checks notice."""

_ROUND = 150
"""Tests of a round: most mutants fall in the first one."""


@dataclass(frozen=True)
class Covering:
    """Tests by line of a file, and by file; the quick ones first.

    Attributes:
        by_line: {path: {line: tests}}.
        by_file: {path: tests that run any line of a function of it}.
        seconds: of each test.
    """

    by_line: dict[str, dict[int, list[str]]]
    by_file: dict[str, list[str]]
    seconds: dict[str, float]

    def rounds(self, path: str, line: int, *, patience: float) -> list[list[str]]:
        """Tests that run the line, the quick ones first, as far as ``patience`` seconds reach.

        The module's own tests come first. Where the line runs on import alone: tests that run anything of its file.
        """
        tests = self.by_line.get(path, {}).get(line) or self.by_file.get(path, [])
        own = f"/test_{Path(path).stem.lstrip('_')}.py::"
        tests = sorted(tests, key=lambda test: own not in test)  # stable: still the quick ones first
        kept = [test for test, spent in zip(tests, accumulate(self.seconds[test] for test in tests), strict=True)
                if spent <= patience] or tests[:1]  # fmt: skip
        return [kept[start : start + _ROUND] for start in range(0, len(kept), _ROUND)]


def measured(root: Path, folder: Path, workers: int) -> Covering:
    """Run the suite under coverage where ``folder`` does not hold the outcome yet, and read it."""
    data, seconds = folder / "coverage.db", folder / "seconds.json"
    if not seconds.exists():
        environment = {**os.environ, "COVERAGE_FILE": str(data), "TEST_SECONDS": str(seconds),
                       "PYTHONPATH": str(root)}  # fmt: skip
        command = [sys.executable, "-m", "pytest", "-n", str(workers), "-p", "tests.code_mutants.plugin", "--cov=dptheory",
                   "--cov=training", "--cov-context=test", "--cov-report=", "-p", "no:cacheprovider",
                   *(f"--ignore={path}" for path in _LEFT_OUT)]  # fmt: skip
        subprocess.run(command, cwd=root, env=environment, check=False)
    return _read(root, data, json.loads(seconds.read_text()))


def _read(root: Path, data: Path, seconds: dict[str, float]) -> Covering:
    lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    with sqlite3.connect(data) as database:
        rows = database.execute(
            "select file.path, context.context, line_bits.numbits from line_bits"
            " join file on file.id = line_bits.file_id join context on context.id = line_bits.context_id"
        )
        for path, context, numbits in rows:
            test = context.removesuffix("|run").removesuffix("|setup").removesuffix("|teardown")
            if test in seconds:
                for line in numbits_to_nums(numbits):
                    lines[str(Path(path).resolve().relative_to(root.resolve()))][line].add(test)

    def ordered(tests: set[str]) -> list[str]:
        return sorted(tests, key=lambda test: (seconds[test], test))

    by_line = {path: {line: ordered(tests) for line, tests in found.items()} for path, found in lines.items()}
    by_file = {path: ordered(set().union(*found.values())) for path, found in lines.items()}
    return Covering(by_line, by_file, seconds)
