"""`dptheory refute`: exit codes, one line for what is wrong, a counterexample that can be called."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dptheory import cli

EXAMPLES = Path(__file__).parents[2] / "proofs" / "refute"


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["refute", *arguments])


def test_exit_codes_and_a_call_that_shows_it() -> None:
    file = str(EXAMPLES / "layer_freezing.py")
    both = _run(file)
    assert both.exit_code == 1
    assert both.stdout.splitlines() == [
        "printed: REFUTED",
        "  printed_bound(clip=1, noise_multiplier=1, dim=1, batch_size=1) = 1, but the truth is 2: a relative error of 0.5",
        "corrected: not refuted",
        "  it holds at all 108 points of the ranges; a relative error of 1e-09 at any of them would have been seen",
    ]
    names: dict[str, object] = {}
    exec((EXAMPLES / "layer_freezing.py").read_text(), names)
    assert eval("printed_bound(clip=1, noise_multiplier=1, dim=1, batch_size=1)", names) == 1
    assert eval("truth(clip=1, noise_multiplier=1, dim=1, batch_size=1)", names) == 2
    assert (_run(file, "printed").exit_code, _run(file, "corrected").exit_code) == (1, 0)


def test_as_json() -> None:
    result = _run(str(EXAMPLES / "layer_freezing.py"), "--json", "--seed", "3")
    found = json.loads(result.stdout)
    assert result.exit_code == 1 and list(found) == ["printed", "corrected"]
    assert found["printed"]["refuted"] is True and found["printed"]["kind"] == "EXACT"
    assert found["printed"]["parameters"] == {"clip": 1, "noise_multiplier": 1, "dim": 1, "batch_size": 1}
    assert found["corrected"]["detectable"] == 1e-9 and found["corrected"]["seed"] == 3


def test_parameters_and_infinities_as_json(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import math\nfrom dptheory.checks import Conjecture\n"
        "c = Conjecture(claimed=lambda x, y: math.inf, truth=lambda x, y: 1, ranges={'x': [math.inf], 'y': [(1, 2)]})\n"
    )
    found = json.loads(_run(str(file), "--json").stdout)["c"]
    assert found["parameters"] == {"x": "inf", "y": "(1, 2)"}
    assert (found["claimed"], found["observed"], found["error"]) == (None, 1.0, None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = (\n", "mine.py, line 1: '(' was never closed"),
        ("x = 1\n", "mine.py "),
        ("import sys\nsys.exit(0)\n", "mine.py, line 2: SystemExit: 0"),
        (
            "from dptheory.checks import Conjecture\n\ndef truth(n):\n    return 1 / n\n\n"
            "claim = Conjecture(claimed=lambda n: n, truth=truth, ranges={'n': [0]})\n",
            "mine.py, line 4: ZeroDivisionError",
        ),
        (
            "import sys\nfrom dptheory.checks import Conjecture\n"
            "claim = Conjecture(claimed=lambda n: sys.exit(0), truth=lambda n: 1, ranges={'n': [0]})\n",
            "mine.py, line 3: SystemExit: 0, in claimed(n=0)",
        ),
    ],
)
def test_mistakes_in_the_file_are_one_line_and_code_two(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    result = _run(str(file))
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert says in result.stderr and "Traceback" not in result.stderr


def test_a_missing_file_and_an_unknown_name(tmp_path: Path) -> None:
    for path in (tmp_path / "none.py", tmp_path):
        result = _run(str(path))
        assert result.exit_code == 2 and "'file'" in result.stderr.lower() and result.stderr.count("\n") == 1
    result = _run(str(EXAMPLES / "layer_freezing.py"), "nothing")
    assert re.fullmatch(r"Error: names .*printed, corrected.*'nothing'\n", result.stderr)
