"""Each command is one call of one public function of the library; what else it calls only reads options or prints."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dptheory.cli
from dptheory._progress import ProgressLines, lines_on_stderr
from dptheory._rounding import for_json, rounded_down, rounded_up
from dptheory._validate import meant
from dptheory.claims import bibtex, ledger_markdown, page_markdown
from dptheory.privacy import in_words, of_all
from tests.calls.command_line import LEAVES

PRINTS = {
    ("claims", ledger_markdown.__name__),
    (page_markdown.__name__,),
    ("claims", bibtex.__name__),
    (rounded_down.__name__,),
    (rounded_up.__name__,),
    (for_json.__name__,),
    ("_validate", meant.__name__),
    *((room, form.__name__) for room in ("accounting", "privacy") for form in (in_words, of_all)),
    (lines_on_stderr.__name__,),
    (ProgressLines.__name__,),
}
"""Forms of a result, and of a number; what a word may mean; lines of progress."""
READ = {
    "_app._labelled": ["find"],
    "_other_samplers.other_sampler": [
        "selection_epsilon_upper_bound", "user_epsilon_upper_bound", "truncated_epsilon_upper_bound",
    ],
    "_other_samplers._shuffled": ["epsilon_bounds", "shuffled_epsilon_lower_bound", "shuffled_epsilon_upper_bound"],
    "_privacy_options.Given": [
        "Composition", "Composition", "Composition", "Composition", "Step", "Step", "Step", "adjacency", "of_steps", "read_composition",
    ],
    "_privacy.show_epsilon": ["epsilon_bounds", "rdp_epsilon"],
    "_privacy.show_delta": ["delta_bounds"],
    "_privacy.show_sigma": ["epsilon_bounds", "epsilon_bounds", "least_noise_multiplier"],
    "_privacy.show_steps": ["epsilon_bounds", "max_steps"],
    "_privacy.statement": ["privacy_statement", "read_statement"],
    "_plan.show_candidates": ["candidates"],
    "_compare.compare": ["compare", "search"],
    "_compare._comparison": ["Answer", "Comparison", "Finding", "Setting"],
    "_privacy_options.of_a_run": ["choice"],
    "_privacy_options._step": ["Step", "of_epochs"],
    "_privacy_options.of_epochs": ["of_epochs", "of_epochs"],
}  # fmt: skip
"""What makes the run of the options, and the bounds that they choose."""
_OWN = ("dptheory.cli", "dptheory.files")
"""The command line itself, and writing of files."""


COMMANDS = {name: inspect.unwrap(one.callback) for name, one in LEAVES.items() if " " not in name}
"""Those that stand alone; what the groups call stands in ``READ``."""


def _imported(tree: ast.AST) -> set[str]:
    """Names that stand for something of the library, wherever in the text they are imported."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.split(".")[0] == "dptheory":
            for alias in node.names:
                if not f"{node.module}.{alias.name}".startswith(_OWN):
                    found.add(alias.asname or alias.name)
        elif isinstance(node, ast.Import):
            found |= {alias.asname or "dptheory" for alias in node.names if alias.name.split(".")[0] == "dptheory"}
    return found


def library_calls(function: ast.AST, names: set[str]) -> list[str]:
    """Calls of what is imported from the library, as they are written, without those that print."""
    found = []
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        parts = ast.unparse(node.func).split(".")
        if parts[0] in names and tuple(parts) not in PRINTS:
            found.append(".".join(parts))
    return found


def _calls(function: Callable[..., Any]) -> list[str]:
    module = ast.parse(Path(inspect.getfile(function)).read_text(encoding="utf-8"))
    return library_calls(ast.parse(textwrap.dedent(inspect.getsource(function))), _imported(module))


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_is_one_call(name: str) -> None:
    calls = _calls(COMMANDS[name])
    assert len(calls) == 1, calls


def _last(calls: list[str]) -> list[str]:
    return sorted(call.split(".")[-1] for call in calls)


def test_nothing_but_commands_calls_the_library() -> None:
    """Otherwise a command could compose by way of a helper."""
    commands = {function.__qualname__ for function in COMMANDS.values()}
    found = {}
    for path in sorted(Path(dptheory.cli.__path__[0]).glob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        for node in module.body:
            if isinstance(node, ast.FunctionDef) and node.name in commands:
                continue
            calls = library_calls(node, _imported(module))
            if calls:
                found[f"{path.stem}.{getattr(node, 'name', type(node).__name__)}"] = _last(calls)
    assert found == {name: sorted(calls) for name, calls in READ.items()}


TWO = """
def command():
    from dptheory import pruning
    from dptheory.privacy import gaussian_mu as mu
    with user_errors():
        show(pruning.top_k_mse(3, 1, sigma_g=mu(1.0, 1e-5)))
"""


def test_a_composition_is_seen() -> None:
    tree = ast.parse(TWO)
    assert sorted(library_calls(tree, _imported(tree))) == ["mu", "pruning.top_k_mse"]
