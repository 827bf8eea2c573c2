"""A pytest plugin that notes how long each test takes; ``--cov-context=test`` says which lines it runs."""

import json
import os
from pathlib import Path

import pytest

_seconds: dict[str, float] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up set-up, call and tear-down; the controller hears of all workers."""
    if report.passed or report.when != "call":
        _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration


def pytest_sessionfinish() -> None:
    """Write the file once, in the controlling process."""
    if "PYTEST_XDIST_WORKER" not in os.environ and "TEST_SECONDS" in os.environ:
        Path(os.environ["TEST_SECONDS"]).write_text(json.dumps(_seconds))
