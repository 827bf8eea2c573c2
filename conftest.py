"""Runs the code blocks of the proof pages and of the README, adds the option for slow tests, and gives all one terminal."""

import os

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

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

pytest_collect_file = Sybil(parsers=[PythonCodeBlockParser(), SkipParser()], patterns=["*.md"]).pytest()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the deeper tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--slow"):
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs --slow"))
