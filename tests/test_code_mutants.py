"""The tool that makes mutants of the code: each changes one place, and what only a reader sees is left alone."""

import ast
import tomllib
from pathlib import Path

import pytest

from tests.code_mutants.__main__ import EQUIVALENT, lower_limit, population
from tests.code_mutants.mutate import mutants_of, mutated_source

SOURCE = '''
def clipped(x: int, bound: float = 2.5, *, both: bool = True) -> float:
    """Text that says 3."""
    if x > 7:
        raise ValueError(f"x must be at most {7}, got {x!r}")
    kept = min(x, bound) if both else -x
    return kept[1:] + call(x, 4)
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "one.py").write_text(SOURCE)
    return tmp_path


def test_every_mutant_changes_one_place(root: Path) -> None:
    found = mutants_of(root, "one.py")
    plain = ast.unparse(ast.parse(SOURCE))
    texts = [mutated_source(root, one) for one in found]
    assert len(set(texts)) == len(texts) and plain not in texts
    for text in texts:
        changed = [(a, b) for a, b in zip(plain.split("\n"), text.split("\n"), strict=False) if a != b]
        assert len(changed) == 1


def test_kinds_of_mutants(root: Path) -> None:
    changes = {(one.was, one.now) for one in mutants_of(root, "one.py")}
    assert {
        ("x > 7", "x >= 7"), ("7", "8"), ("2.5", "2.75"), ("True", "False"), ("min(x, bound)", "min(bound, x)"),
        ("min", "max"), ("-x", "x"), ("kept[1:]", "kept[:1]"), ("call(x, 4)", "call(4, x)"),
        ("kept[1:] + call(x, 4)", "kept[1:] - call(x, 4)"),
    } <= changes  # fmt: skip
    assert not any("Text" in was or "must be" in was for was, _ in changes)


def test_the_draw_is_over_all_calculators() -> None:
    paths = {one.path for one in population("dptheory")}
    assert "dptheory/pruning/_error.py" in paths and not any("claims" in path for path in paths)


def test_every_reason_is_that_of_a_mutant_which_there_is() -> None:
    names = {
        name for package in ("dptheory", "training") for one in population(package) for name in (one.id, one.exact)
    }
    assert [name for name in tomllib.loads(EQUIVALENT.read_text()) if name not in names] == []


def test_lower_limit() -> None:
    assert lower_limit(219, 239) == pytest.approx(0.8808, abs=1e-4)  # P(Bin(239, p) >= 219) = .05
    assert lower_limit(0, 5) == 0.0
