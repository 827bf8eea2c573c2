"""The command line answers every bad option in one line that names it, with exit code 2 and never with a traceback."""

import functools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.testing
from typer.testing import CliRunner, Result

from dptheory import claims, cli
from tests.calls.command_line import ALTERNATIVES, COMMANDS, LEAVES
from tests.calls.judgement import Here

NEVER = ("nan", "abc", "", "1,x", "0x10")  # no number, and no text that means anything
NUMBERS = ("0", "-1", "1e308", "-inf", "inf", "5e-324", "1e400", "1" + "0" * 30, "0.5", "1e160", "1e-160", "2147483648")


_PATHS = {
    *("--out", "--json", "--plot", "--composition"),
    *("DIRECTORY", "FILE", "FOLDER"),
}
"""Any text may be one: only those where nothing can be are wrong."""
_WORDS = {"QUERY": ("", "?!", "- -", "x" * 201)}
"""Any text may be looked for: only those without a word, or too long, are wrong."""
_TEXTS = {"--mechanism", "--unit", "--public", "--sampler", "--randomness", "--tuning"}
"""Any text may stand in a statement: only an empty one is wrong."""
TOGETHER = {name: (COMMANDS[name], *ALTERNATIVES.get(name, ())) for name in COMMANDS}
"""The valid command lines of a command."""
CASES = [
    (name, option, base)
    for name, lines in TOGETHER.items()
    for place, base in enumerate(lines)
    for option in base
    if not any(option in earlier for earlier in lines[:place])
]
"""Every option once, in the first line that has it."""
_FLAGS = {
    "--help",
    "--evidence",
    "--md",
    "--latex",
    "--open",
    "--cite",
    "--certified",
    "--seeded",
    "--scheduler",
    "--resume",
}
"""Those that take no value, and one whose valid value is a scheduler that runs."""


@pytest.fixture(autouse=True, scope="module")
def _built_once() -> Iterator[None]:
    """The runner of typer builds all commands anew in every call, which takes three quarters of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", functools.cache(typer.main.get_command))
        patch.setattr("dptheory.privacy.referee._compare.Worker", Here)
        yield


def _run(name: str, options: dict[str, str]) -> Result:
    words = [f"{key}={value}" for key, value in options.items() if key.startswith("-")]
    others = [value for key, value in options.items() if not key.startswith("-")]
    return CliRunner().invoke(cli.app, [*name.split(), *words, "--", *others])


def test_every_option_is_tried() -> None:
    known = {name: {option for line in lines for option in line} for name, lines in TOGETHER.items()}
    found = {
        name: {p.opts[0] if p.opts[0].startswith("-") else p.opts[0].upper() for p in command.params}
        for name, command in LEAVES.items()
    }
    assert {name: options - _FLAGS for name, options in found.items()} == {
        name: {*options, "--json"} if name.startswith(("bound", "preset", "privacy", "find", "refute")) else options
        for name, options in known.items()
    }


@pytest.mark.parametrize(("name", "option", "base"), CASES, ids=[f"{name} {option}" for name, option, _ in CASES])
def test_bad_options(
    name: str, option: str, base: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = []
    for value in _tried(option):
        options = base | {option: value}
        found = _complaint(_run(name, options), name, option, value)
        if found:
            wrong.append(f"{option}={value}: {found}")
    assert not wrong, "\n".join(wrong)


def _tried(option: str) -> tuple[str, ...]:
    if option in _PATHS or option in _TEXTS:
        return ("/dev/null/x",) if option in _PATHS else ("", " ")
    return _WORDS.get(option, (*NEVER, *NUMBERS))


def _complaint(result: Result, name: str, option: str, value: str) -> str | None:
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return repr(result.exception)
    if result.exit_code == 0:
        if value in NEVER or option in _PATHS or option in _TEXTS or option in _WORDS:
            return f"accepted: {result.stdout[:100]}"
        return "NaN" if re.search(r"\bnan\b", result.stdout.lower()) else None
    if result.exit_code != 2:
        return f"exit code {result.exit_code}: {result.output[:200]}"
    if not re.fullmatch(r"Error: [^\n]{1,400}\n", result.stderr):
        return f"not one line: {result.stderr[:200]}"
    named = {p.name: p.opts[0] for p in LEAVES[name].params}
    own = {option.removesuffix("s")}
    allowed = own if value in NEVER else own | set(named.values())
    start = r"Error: (Invalid value for )?['\[]*"
    if any("_" in argument and re.search(rf"\b{argument}\b", result.stderr) for argument in named):
        return f"says an argument where there is an option: {result.stderr[:200]}"
    if option not in _PATHS and not any(re.match(start + one, result.stderr, re.IGNORECASE) for one in allowed):
        return f"does not name it: {result.stderr[:200]}"
    return None


@pytest.mark.parametrize(("given", "shown"), [("2%", "0.02"), (".5 %", "0.005"), ("two", "'two'")])
def test_what_is_no_number_is_shown(given: str, shown: str) -> None:
    said = _run(
        "privacy epsilon", {"--sampling-rate": given, "--noise-multiplier": "1", "--steps": "9", "--delta": "1e-5"}
    )
    assert said.exit_code == 2 and given in said.stderr and shown in said.stderr


def test_a_bad_path_is_refused_before_the_checks_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a check ran")

    monkeypatch.setattr(claims.Claim, "check", never)
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "evidence.json", tmp_path):
        result = _run("check", {"PATTERNS": "gip.eq18", "--json": str(path)})
        assert result.exit_code == 2
        assert str(path) in result.stderr or "file" in result.stderr
        assert result.stderr.count("\n") == 1


def test_ids_are_whole_in_a_narrow_terminal() -> None:
    from dptheory.cli import _tables

    shown = [line.plain.split()[0] for line in _tables.claim_lines(claims.all_claims(), 40)]
    assert shown == [claim.id for claim in claims.all_claims()]


FULL = [("claims",), ("claim", "gip.eq18"), ("claims", "--format", "json"), ("--help",)]
GONE = [("claim", "gip.eq18"), ("claims", "--format", "json"), ("--help",)]

FORKS = """
import json, os, sys
from dptheory import claims
from dptheory.cli import app

claims.all_claims()
for number, (stdout, words) in enumerate(json.loads(sys.argv[1])):
    if os.fork() == 0:
        if stdout == "gone":
            read, write = os.pipe()
            os.close(read)
        else:
            write = os.open(stdout, os.O_WRONLY)
        os.dup2(write, 1)
        os.dup2(os.open(f"{sys.argv[2]}/{number}", os.O_WRONLY | os.O_CREAT), 2)
        break
    code = os.waitstatus_to_exitcode(os.wait()[1])
    print(code, flush=True)
else:
    os._exit(0)
app(words)
"""
"""Starts each command in a process that ends as an interpreter does; what they import is imported once."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, tuple[str, ...]], tuple[int, str]]:
    """Exit code and stderr by (stdout, words of the command)."""
    folder = tmp_path_factory.mktemp("said")
    cases = [("/dev/full", words) for words in FULL if Path("/dev/full").exists()] + [("gone", words) for words in GONE]
    line = [sys.executable, "-c", FORKS, json.dumps(cases), str(folder)]
    codes = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return {
        case: (int(code), (folder / str(number)).read_text(encoding="utf-8"))
        for number, (case, code) in enumerate(zip(cases, codes, strict=True))
    }


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("words", FULL)
def test_a_full_disk_is_one_line(ended: Any, words: tuple[str, ...]) -> None:
    assert ended["/dev/full", words] == (2, "Error: output cannot be written: No space left on device\n")


@pytest.mark.parametrize("words", GONE)
def test_a_reader_that_has_seen_enough_is_no_error(ended: Any, words: tuple[str, ...]) -> None:
    assert ended["gone", words] == (0, "")
