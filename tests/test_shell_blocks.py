"""The shell commands of README and guides: every option exists; what takes seconds is run, with --slow the trainings too."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dptheory import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "proofs" / "guides").glob("*.md"))]
QUICK = {"find", "claim", "claims", "check", "bound", "preset", "privacy"}
"""Commands that end in seconds and train nothing."""


def _blocks() -> list[tuple[str, list[list[str]]]]:
    """For each block its page, and its ``dptheory`` commands as words."""
    found = []
    for page in PAGES:
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
            lines = [
                shlex.split(part.strip(), comments=True) for line in block.splitlines() for part in line.split("&&")
            ]
            commands = [words[1:] for words in lines if words[:1] == ["dptheory"]]
            if commands:
                found.append((page.stem, commands))
    return found


BLOCKS = _blocks()


@pytest.mark.parametrize(("page", "commands"), BLOCKS, ids=[page for page, _ in BLOCKS])
def test_every_option_exists(page: str, commands: list[list[str]]) -> None:
    for words in commands:
        path = words[:2] if words[0] in ("privacy", "bound", "preset") else words[:1]
        shown = CliRunner().invoke(cli.app, [*path, "--help"])
        assert shown.exit_code == 0, words
        for option in (word.split("=")[0] for word in words if word.startswith("--")):
            assert option in shown.stdout, (words, option)


@pytest.mark.parametrize(("page", "commands"), BLOCKS, ids=[page for page, _ in BLOCKS])
def test_the_commands_run(page: str, commands: list[list[str]], tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """In their order, in an empty folder; a block with trainings only with --slow."""
    quick = all(words[0] in QUICK and "--open" not in words for words in commands)
    if not quick and not pytestconfig.getoption("slow"):
        pytest.skip("trains: run it with --slow")
    for words in commands:
        if "--open" in words:
            continue
        done = subprocess.run([sys.executable, "-m", "dptheory", *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stderr)
