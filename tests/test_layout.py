"""Rooms and floors: which package may import which, what is private, how long a module may be, and the mirror in tests/."""

import ast
import importlib
import pkgutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import dptheory

ROOT = Path(__file__).parents[1]
TOPS = ("dptheory", "training", "figures")
LONGEST = 400

FLOORS: tuple[frozenset[str], ...] = tuple(
    frozenset(f"dptheory.{room}" for room in rooms)
    for rooms in (
        ("_adjacency", "_validate", "errors", "files"),
        ("_vectors", "checks"),
        ("gradients", "convergence"),
        ("pruning", "freezing"),
        ("sparsification", "privacy"),
        ("embedding",),
        ("papers",),
        ("claims",),
        ("cli",),
    )
)
"""The rooms of the theory, the lowest first: a room imports from floors below its own alone."""

TRAINING_FLOORS: tuple[frozenset[str], ...] = tuple(
    frozenset(f"training.{room}" for room in rooms)
    for rooms in (
        ("_argument_ranges", "_machine", "_randomness", "data"),
        ("mechanisms", "networks"),
        ("engine",),
        ("runs",),
        ("probe", "audits"),
        ("validate", "benchmarks"),
        ("__main__",),
    )
)


def modules(top: str) -> Iterator[tuple[str, Path]]:
    """Dotted name and path of every module of a package."""
    for path in sorted((ROOT / top).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(name: str, path: Path) -> set[str]:
    """Modules of the project that a module imports, anywhere in it: each as far as it is a file or a folder."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively"
            assert node.module is not None
            found |= {f"{node.module}.{alias.name}" if _exists(node.module, alias.name) else node.module
                      for alias in node.names}  # fmt: skip
    return {one for one in found if one.split(".")[0] in TOPS}


def _exists(module: str, name: str) -> bool:
    path = ROOT / Path(*module.split("."), name)
    return path.is_dir() or path.with_suffix(".py").is_file()


def room(module: str) -> str:
    """The first two parts: the package of a module of the theory or of training."""
    return ".".join(module.split(".")[:2])


ALL = {name: path for top in TOPS for name, path in modules(top)}
ARROWS = {(name, one) for name, path in ALL.items() for one in imports(name, path)}


def test_the_theory_knows_neither_training_nor_figures_and_figures_know_no_training() -> None:
    assert {a for a in ARROWS if a[0].startswith("dptheory") and not a[1].startswith("dptheory")} == set()
    assert {a for a in ARROWS if a[0].startswith("figures") and a[1].startswith("training")} == set()
    assert {a for a in ARROWS if a[0].startswith("training") and a[1].startswith("figures")} == set()


@pytest.mark.parametrize("floors", [FLOORS, TRAINING_FLOORS], ids=["dptheory", "training"])
def test_rooms_import_from_lower_floors_alone(floors: tuple[frozenset[str], ...]) -> None:
    level = {one: floor for floor, rooms in enumerate(floors) for one in rooms}
    top = next(iter(level)).split(".")[0]
    known = {room(name) for name in ALL if name.startswith(f"{top}.")}
    assert known == set(level), "every room has its floor, and every floor its rooms"
    wrong = {
        (name, one)
        for name, one in ARROWS
        if {room(name), room(one)} <= set(level) and room(name) != room(one) and level[room(name)] <= level[room(one)]
    }
    assert wrong == set()


def test_no_calculator_imports_a_claim() -> None:
    """Said by the floors; here once more without them."""
    above = {"dptheory.claims", "dptheory.cli"}
    assert {
        a for a in ARROWS if room(a[1]) in above and a[0].startswith("dptheory.") and room(a[0]) not in above
    } == set()


def test_modules_of_a_package_are_private_and_its_names_stand_in_all() -> None:
    open_doors = {
        name
        for name, path in ALL.items()
        if name.count(".") == 2 and path.name != "__init__.py" and not name.rsplit(".", 1)[1].startswith("_")
    }
    assert {one for one in open_doors if room(one) not in ("dptheory.claims",)} == set()
    for name, path in ALL.items():
        if path.name == "__init__.py" and name.count(".") == 1 and name != "training.benchmarks":  # which only runs
            package = importlib.import_module(name)
            assert package.__doc__ and set(package.__all__) <= set(vars(package)), name


def test_private_modules_are_imported_by_their_own_room_and_by_claims_alone() -> None:
    """Claims look at parts on purpose; the command lines of training and figures print like that of the theory."""
    private = {a for a in ARROWS if room(a[0]) != room(a[1]) and "._" in a[1] and a[1].count(".") >= 2}
    allowed = {a for a in private if room(a[0]) == "dptheory.claims" or a[1] == "dptheory.cli._common"}
    assert private - allowed == set()


def test_no_module_is_longer_than_a_sitting() -> None:
    long = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in ALL.items()}
    long = {name: lines for name, lines in long.items() if lines > LONGEST}
    assert {name for name in long if not name.startswith("dptheory.claims.")} == set()


def test_every_public_module_is_reached_after_import_dptheory() -> None:
    public = [one.name for one in pkgutil.walk_packages(dptheory.__path__, "dptheory.") if "._" not in one.name]
    assert "dptheory.pruning" in public and "dptheory.files" in public
    code = "import dptheory\n" + "\n".join(name for name in public if name.count(".") == 1)
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    assert set(dir(dptheory)) == {name.split(".")[1] for name in public}


def test_every_data_file_goes_into_the_wheel() -> None:
    """Printed numbers, configurations, the excerpt: each is named by ``package-data``."""
    named = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"]
    for package in ("dptheory", "training"):
        data = {
            path
            for path in (ROOT / package).rglob("*")
            if path.is_file() and path.suffix not in (".py", ".pyc", ".pyi")
        }
        carried = {path for pattern in named[package] for path in (ROOT / package).glob(pattern)}
        assert data - carried == set()
        assert len(data) >= {"dptheory": 7, "training": 50}[package]


# --- the mirror ---------------------------------------------------------------------------------------------------------

_TESTS = ROOT / "tests"


def mirrored() -> Iterator[tuple[Path, Path]]:
    """A test in a folder of tests/ that is named like a room, and the module that it is named after."""
    for path in sorted(_TESTS.rglob("test_*.py")):
        folder = path.parent.relative_to(_TESTS)
        home = folder if folder.parts[:1] == ("training",) else "dptheory" / folder
        if len(home.parts) > 1:
            yield path, ROOT / home / f"_{path.stem.removeprefix('test_')}.py"


def test_tests_mirror_the_packages() -> None:
    assert {str(test.relative_to(ROOT)) for test, module in mirrored() if not module.is_file()} == set()
