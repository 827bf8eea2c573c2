"""The package: rooms and floors, what is imported, and what a release states."""

import ast
import importlib
import json
import pkgutil
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import grimp
from packaging.specifiers import SpecifierSet

import dptheory
from dptheory import claims, privacy

# --- Rooms and floors: which package may import which, what is private, and where the tests of a room stand ---


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


def test_no_module_gives_a_name_twice() -> None:
    """A constant of a module that joins two others took the place of its namesake, and a check of 28 cases asked for 20 GB."""
    twice = []
    for module, path in ALL.items():
        names: set[str] = set()
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
            inside = [part for target in targets if target for part in ast.walk(target)]
            given = {part.id for part in inside if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
            twice += [f"{module}.{name}" for name in given & names]
            names |= given
    assert not twice


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


_SHARED_PRINTING = ("dptheory.cli._common", "dptheory.cli._plan", "dptheory.cli._cluster")


def test_the_room_of_privacy_stays_small_enough_to_hold() -> None:
    """Names of the accountant, and files beside its rooms; what is about one claim stands in the room of its paper's method."""
    assert len(privacy.__all__) <= 45
    assert len(list(Path(privacy.__path__[0]).glob("*.py"))) <= 16


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


def test_every_room_has_its_tests() -> None:
    """In the folder of its name, or in the file of its name where one is enough."""
    folders = {path.parent.relative_to(ROOT / "dptheory") for path in ALL.values() if ROOT / "dptheory" in path.parents}
    rooms = {Path(*one.parts[: 2 if one.parts[0] == "training" else 1]) for one in folders if one.parts}
    for one in rooms - {Path("training")}:
        home = ROOT / "tests" / one
        assert home.with_name(f"test_{home.name}.py").is_file() or any(home.glob("test_*.py")), one


# What an import pulls in; how long it takes is a benchmark (`python -m dptheory.training.benchmarks calculators --only
# importing`)


HEAVY = {
    "torch",
    "opacus",
    "matplotlib",
    "sympy",
    "hypothesis",
    "PEPit",
    "dp_accounting",
    "prv_accountant",
    "kymatio",
    "pylatexenc",
}


def loaded(statements: str) -> set[str]:
    """The modules that some statements load into a fresh interpreter, beyond those that it starts with."""
    code = f"import sys, json\nbefore = set(sys.modules)\n{statements}\nprint(json.dumps(sorted(set(sys.modules) - before)))"
    return set(json.loads(subprocess.check_output([sys.executable, "-c", code])))


def test_import_loads_the_standard_library_alone() -> None:
    """So that it takes milliseconds: NumPy and SciPy come with the first submodule that is asked for."""
    found = {name for name in loaded("import dptheory") if name.split(".")[0] not in sys.stdlib_module_names}
    assert found == {"dptheory"}


STAGES = (
    ("import dptheory.pruning, dptheory.privacy", "numpy"),
    ("import dptheory.claims; dptheory.claims.all_claims(); dptheory.claims.find('kappa')", "scipy"),
    ("import dptheory.cli; dptheory.cli.app", "typer"),
    ("import dptheory.training._commands", "dptheory.training"),
)
"""What people import, and what it needs; one after the other in one interpreter."""


def test_heavy_packages_wait_for_those_who_need_them() -> None:
    note = "stages.append(sorted(set(sys.modules) - before))"
    lines = (line for statements, _ in STAGES for line in (statements, note))
    code = "\n".join(("import sys, json", "before, stages = set(sys.modules), []", *lines, "print(json.dumps(stages))"))
    stages = json.loads(subprocess.check_output([sys.executable, "-c", code]))
    for (statements, needed), modules in zip(STAGES, stages, strict=True):
        assert needed in modules, statements
        assert not {name.split(".")[0] for name in modules} & HEAVY, statements
        assert "dptheory.training" not in modules or "training" in statements, statements


def test_submodules_load_on_first_use() -> None:
    code = "import dptheory; print(float(dptheory.pruning.random_k_mse(4, 1, sigma_g=1.0)), 'privacy' in dir(dptheory))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["3.0", "True"]


def test_unknown_submodule_is_an_attribute_error() -> None:
    code = "import dptheory\ntry:\n    dptheory.nothing\nexcept AttributeError as e:\n    print(e)"
    assert "has no attribute 'nothing'" in subprocess.check_output([sys.executable, "-c", code], text=True)


# One version, one license and one description in all files that state them, and Pythons that the code is written for


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def cited(field: str) -> str:
    """A line of CITATION.cff."""
    found = re.findall(rf'^{field}: "?(.+?)"?$', (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(found) == 1, field
    return found[0]


def test_version_license_and_title_are_said_alike() -> None:
    headings = re.findall(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert PROJECT["version"] == cited("version") == headings[0]
    assert f"date = {{{cited('date-released')}}}" in claims.bibtex(claims.get("rs.thm3.4"))
    assert PROJECT["license"] == cited("license") == "Apache-2.0"
    title = cited("title")
    assert title.lower() == f"{PROJECT['name']}: {PROJECT['description']}".lower()


def test_the_pythons_declared_are_those_allowed() -> None:
    """Each was installed into and tried; a later one is allowed, not promised."""
    declared = [
        one.rsplit(" ", 1)[1]
        for one in PROJECT["classifiers"]
        if one.startswith("Programming Language :: Python :: 3.")
    ]
    assert declared == ["3.11", "3.12", "3.13"]
    assert all(one in SpecifierSet(PROJECT["requires-python"]) for one in declared)
    assert "3.10" not in SpecifierSet(PROJECT["requires-python"])


def test_every_extra_is_in_all_or_named_apart() -> None:
    extras = set(PROJECT["optional-dependencies"])
    (everything,) = PROJECT["optional-dependencies"]["all"]
    together = set(re.findall(r"\w+", everything.partition("[")[2]))
    assert extras - together == {"all", "architectures", "browser", "cluster", "docs", "evidence"}


def test_the_source_archive_carries_what_its_tests_and_pages_need() -> None:
    carried = (ROOT / "MANIFEST.in").read_text(encoding="utf-8")
    top = {
        path.name for path in ROOT.iterdir() if not path.name.startswith(".") and not path.name.endswith(".egg-info")
    }
    named = {name for name in top if re.search(rf"^(graft|include) .*\b{re.escape(name)}", carried, re.MULTILINE)}
    ours = {
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "conftest.py",
        "constraints.txt",
        "figures",
        "proofs",
        "tests",
        "training",
    }
    assert ours <= named
