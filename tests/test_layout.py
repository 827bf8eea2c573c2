"""Rooms and floors: which package may import which, what is private, and where the tests of a room stand."""

import importlib
import pkgutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import grimp

import dptheory

ROOT = Path(__file__).parents[1]
TOPS = ("dptheory", "figures")
TRAINING = "dptheory.training"
"""Imported under this name, which no folder of a user hides; the folder itself is ``training/``."""


def _modules() -> dict[str, Path]:
    """Dotted name and path of every module; rglob does not follow the link ``dptheory/training``."""
    folders = [ROOT / "dptheory", ROOT / "dptheory/training", ROOT / "figures"]
    paths = [path.relative_to(ROOT) for folder in folders for path in folder.rglob("*.py")]
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): ROOT / path for path in paths}


ALL = _modules()


@cache
def arrows() -> frozenset[tuple[str, str]]:
    """Who imports whom, anywhere in a module."""
    graph = grimp.build_graph(*TOPS, cache_dir=None)
    assert set(graph.modules) == set(ALL)
    return frozenset((name, one) for name in ALL for one in graph.find_modules_directly_imported_by(name))


def room(module: str) -> str:
    """The first two parts, or three of training: the package of a module."""
    return ".".join(module.split(".")[: 3 if module.startswith(TRAINING) else 2])


def test_rooms_import_from_lower_floors_alone() -> None:
    """The contracts of pyproject.toml."""
    run = "import sys; from importlinter import cli; sys.exit(cli.lint_imports(config_filename='pyproject.toml', no_cache=True))"
    subprocess.run(
        [sys.executable, "-c", run], cwd=ROOT, check=True
    )  # in a process of its own: it turns all loggers off


def test_no_files_import_each_other_in_a_circle() -> None:
    """Also inside functions; a package stands for its ``__init__``, which imports its files and which they do not import."""
    below = {name: {one for who, one in arrows() if who == name} for name in ALL}
    while leaves := {name for name, needs in below.items() if not needs & set(below)}:
        below = {name: needs for name, needs in below.items() if name not in leaves}
    assert {(name, one) for name, needs in below.items() for one in needs & set(below)} == set()


OPEN_DOORS = {"dptheory.privacy.epsilon"}
"""Files that a reader is meant to open: the map of the methods."""


def test_modules_of_a_package_are_private_and_its_names_stand_in_all() -> None:
    open_doors = {
        name
        for name, path in ALL.items()
        if name.count(".") == room(name).count(".") + 1
        and path.name != "__init__.py"
        and not name.rsplit(".", 1)[1].startswith("_")
    }
    assert {one for one in open_doors if room(one) not in ("dptheory.claims",)} == OPEN_DOORS
    for name, path in ALL.items():
        if (
            path.name == "__init__.py"
            and name == room(name)
            and name not in (*TOPS, TRAINING, f"{TRAINING}.benchmarks")
        ):  # which only runs
            package = importlib.import_module(name)
            assert package.__doc__ and set(package.__all__) <= set(vars(package)), name


_SHARED_PRINTING = ("dptheory.cli._common", "dptheory.cli._plan")


def test_private_modules_are_imported_by_their_own_room_and_by_claims_alone() -> None:
    """Claims look at parts on purpose; the command lines of training and figures print like that of the theory."""
    private = {a for a in arrows() if room(a[0]) != room(a[1]) and "._" in a[1].removeprefix(room(a[1]))}
    allowed = {a for a in private if room(a[0]) == "dptheory.claims" or a[1] in _SHARED_PRINTING}
    assert private - allowed == set()


def test_every_public_module_is_reached_after_import_dptheory() -> None:
    public = [one.name for one in pkgutil.walk_packages(dptheory.__path__, "dptheory.") if "._" not in one.name]
    assert "dptheory.pruning" in public and "dptheory.files" in public
    code = "import dptheory\n" + "\n".join(name for name in public if name.count(".") == 1)
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    assert set(dir(dptheory)) == {name.split(".")[1] for name in public}


def test_everything_goes_into_the_wheel() -> None:
    """Printed numbers, configurations, the excerpt: each is named by ``package-data``; and every module is in a package."""
    named = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"]
    for package in ("dptheory", TRAINING):
        folder = ROOT / package.rpartition(".")[2]
        own = [
            path for path in folder.rglob("*") if folder / "training" not in path.parents
        ]  # a folder in an unpacked sdist
        data = {path for path in own if path.is_file() and path.suffix not in (".py", ".pyc", ".pyi")}
        carried = {path for pattern in named[package] for path in folder.glob(pattern)}
        assert data - carried == set()
        without = {path.parent for path in folder.rglob("*.py")} - {path.parent for path in folder.rglob("__init__.py")}
        assert without == set(), "setuptools leaves out folders without __init__.py"
        assert len(data) >= {"dptheory": 7, TRAINING: 35}[package]


# --- the mirror ---------------------------------------------------------------------------------------------------------

_TESTS = ROOT / "tests"


def _test_file(module: str, path: Path) -> Path:
    """Where the mirror has the tests of a module: ``dptheory/privacy/methods/references/_prv.py`` and ``tests/privacy/test_prv.py``."""
    folder = path.parent.relative_to(ROOT)
    home = folder.relative_to("dptheory")
    return _TESTS / home / f"test_{path.stem.removeprefix('_')}.py"


def test_every_test_file_of_a_room_has_its_module() -> None:
    """A file in the folder of a room tests one module of it, or the room as a whole: ``test_<room>.py``."""
    rooms_of = {name: path for name, path in ALL.items() if not name.startswith("figures")}
    homes = {_test_file(name, path) for name, path in rooms_of.items()}
    homes |= {home.parent / f"test_{home.parent.name}.py" for home in homes}
    rooms = {home.parent for home in homes} - {_TESTS, _TESTS / "training"}
    strange = {str(test.relative_to(ROOT)) for room in rooms for test in room.glob("test_*.py") if test not in homes}
    assert strange == set(), "name it after the module that it tests, or move it up to tests/ or tests/training/"
