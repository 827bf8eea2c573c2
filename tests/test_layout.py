"""Rooms and floors: which package may import which, what is private, and the mirror in tests/."""

import importlib
import pkgutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import grimp
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

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
    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == EXIT_STATUS_SUCCESS


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
        assert len(data) >= {"dptheory": 7, TRAINING: 50}[package]


# --- the mirror ---------------------------------------------------------------------------------------------------------

_TESTS = ROOT / "tests"

NO_MIRROR = ("dptheory.claims", "dptheory.cli")
"""Claims are held by tests/test_claims.py, one for all; the command line by tests/cli and the README's commands."""

TESTED_IN = {
    "dptheory.training.audits._bits": "training/test_planted_bugs.py",
    "dptheory.training.audits._resumes": "training/test_planted_bugs.py",
    "dptheory.sparsification._split_free": "sparsification/test_kappa.py",
    "dptheory.sparsification._isotropic": "sparsification/test_kappa.py",
    "dptheory.privacy.report._attack": "privacy/test_composition.py",
    "dptheory.privacy.epsilon": "privacy/test_accountant.py",
    "dptheory.privacy.methods._method": "privacy/test_accountant.py",
    "dptheory.privacy.methods.gaussian._bracket": "privacy/test_accountant.py",
    "dptheory.privacy.methods.lattice._method": "privacy/test_accountant.py",
    "dptheory.privacy.methods.references._fixed_size_rdp": "privacy/test_accountant.py",
    "dptheory.privacy.methods.saddle._noise": "privacy/methods/saddle/test_brackets.py",
    "dptheory.privacy.methods._added": "privacy/index_sets/test_joint.py",
    "dptheory.privacy.methods.lattice._index_law": "privacy/index_sets/test_budgets.py",
    "dptheory.privacy.methods.references._cross_check": "privacy/test_accountant.py",
    "dptheory.privacy._bounds": "privacy/test_composition.py",
    "dptheory.privacy.methods.grid._bounds": "privacy/test_composition.py",
    "dptheory.privacy.methods.grid._law": "privacy/test_composition.py",
    "dptheory.privacy.methods.grid._sum": "privacy/test_composition.py",
    "dptheory.privacy.methods.renyi._parts": "privacy/test_composition.py",
    "dptheory.privacy.report._statement_file": "privacy/report/test_statement.py",
    "dptheory.privacy._parts": "privacy/test_composition.py",
    "dptheory.privacy.report._tradeoff": "privacy/test_composition.py",
    "dptheory.privacy.report._tradeoff_plot": "privacy/test_composition.py",
    "dptheory.training.engine._check_rows_apart": "training/engine/test_dry_steps.py",
    "dptheory.training.engine._composed": "training/engine/test_accountant.py",
    "dptheory.training.engine._distributed_optimizer": "training/engine/test_distributed.py",
    "dptheory.training.engine._dry_forward": "training/engine/test_dry_steps.py",
    "dptheory.training.engine._random_states": "training/engine/test_dry_steps.py",
    "dptheory.training.engine._restored": "training/engine/test_private.py",
    "dptheory._adjacency": "embedding/test_calibration.py",
    "dptheory._rounding": "training/test_plan_command.py",
    "dptheory._validate": "test_bad_input.py",
    "dptheory._vectors": "sparsification/test_kappa.py",
    "dptheory.checks._equality": "checks/test_mean.py",
    "dptheory.checks._evidence": "checks/test_mean.py",
    "dptheory.checks._from_draws": "checks/test_refute.py",
    "dptheory.checks._law": "checks/test_mean.py",
    "dptheory.checks._search": "checks/test_mean.py",
    "dptheory.checks._shrink": "checks/test_refute.py",
    "dptheory.embedding._clipped_risk": "embedding/test_risk.py",
    "dptheory.embedding._worst_risk": "embedding/test_risk.py",
    "dptheory.convergence._budget": "convergence/test_bounds.py",
    "dptheory.convergence._drawn_size": "convergence/test_bounds.py",
    "dptheory.convergence._held_epochs": "convergence/test_bounds.py",
    "dptheory.convergence._held_masks": "convergence/test_bounds.py",
    "dptheory.convergence._least_gradient": "convergence/test_bounds.py",
    "dptheory.convergence._momentum_masks": "convergence/test_bounds.py",
    "dptheory.convergence._plain_mean": "convergence/test_bounds.py",
    "dptheory.convergence._power_sums": "convergence/test_bounds.py",
    "dptheory.convergence._tuned_rate": "convergence/test_bounds.py",
    "dptheory.convergence._quadratic": "convergence/test_bounds.py",
    "dptheory.convergence._ranges": "convergence/test_bounds.py",
    "dptheory.convergence._terms": "convergence/test_bounds.py",
    "dptheory.embedding._clipping_bias": "embedding/test_release.py",
    "dptheory.embedding._groups": "embedding/test_release.py",
    "dptheory.embedding._mse": "embedding/test_release.py",
    "dptheory.embedding._sizes": "embedding/test_calibration.py",
    "dptheory.errors": "embedding/test_calibration.py",
    "dptheory.freezing._bias_turn": "freezing/test_effects.py",
    "dptheory.freezing._expected_angle": "freezing/test_effects.py",
    "dptheory.gradients._angle_law": "gradients/test_angles.py",
    "dptheory.gradients._angle_summary": "gradients/test_angles.py",
    "dptheory.gradients._biased_angle": "gradients/test_angles.py",
    "dptheory.gradients._masks": "sparsification/test_kappa.py",
    "dptheory.gradients._projections": "gradients/test_mask_effects.py",
    "dptheory.gradients._quadratic_form": "gradients/test_gradient_mse.py",
    "dptheory.gradients._snr_slope": "gradients/test_angles.py",
    "dptheory.gradients._subset_sums": "sparsification/test_reconstruction.py",
    "dptheory.papers._embedding_settings": "embedding/test_release.py",
    "dptheory.papers._records": "papers/test_data.py",
    "dptheory.privacy._budgets": "privacy/test_accountant.py",
    "dptheory.privacy.methods._closed_forms": "privacy/test_accountant.py",
    "dptheory.privacy._crossing": "privacy/test_accountant.py",
    "dptheory.privacy.methods.references._pld": "privacy/test_accountant.py",
    "dptheory.privacy.methods.fixed_size._divergence": "privacy/methods/fixed_size/test_bounds.py",
    "dptheory.privacy.methods.references._index_prv": "privacy/index_sets/test_budgets.py",
    "dptheory.privacy.methods.renyi._curves": "privacy/index_sets/test_joint.py",
    "dptheory.privacy.index_sets._largest_theta": "privacy/index_sets/test_budgets.py",
    "dptheory.privacy.methods.lattice._epsilon": "privacy/samplers/test_other_units.py",
    "dptheory.privacy.methods.lattice._loss": "privacy/index_sets/test_budgets.py",
    "dptheory.privacy.methods.lattice._moments": "privacy/index_sets/test_budgets.py",
    "dptheory.privacy.methods.lattice._sums": "privacy/methods/fixed_size/test_bounds.py",
    "dptheory.privacy.methods._log_sum": "privacy/index_sets/test_joint.py",
    "dptheory.privacy.methods.references._prv": "privacy/test_accountant.py",
    "dptheory.privacy.methods.renyi._conversion": "privacy/index_sets/test_budgets.py",
    "dptheory.privacy.methods.lattice._rising_loss": "privacy/samplers/test_other_units.py",
    "dptheory.privacy.methods.saddle._delta": "privacy/methods/saddle/test_brackets.py",
    "dptheory.privacy.methods.saddle._epsilon": "privacy/methods/saddle/test_brackets.py",
    "dptheory.privacy.methods.saddle._points": "privacy/methods/saddle/test_line.py",
    "dptheory.privacy.methods._sampled_loss": "privacy/test_accountant.py",
    "dptheory.privacy.samplers._selection": "privacy/samplers/test_other_units.py",
    "dptheory.privacy.samplers._shuffled": "privacy/samplers/test_other_units.py",
    "dptheory.pruning._direction": "pruning/test_error.py",
    "dptheory.pruning._index_budget": "pruning/test_mallows.py",
    "dptheory.pruning._randomized_response": "pruning/test_mallows.py",
    "dptheory.sparsification._masked_rows": "sparsification/test_kappa.py",
    "dptheory.training._commands": "training/test_command_line.py",
    "dptheory.training._argument_ranges": "training/test_ranges.py",
    "dptheory.training._machine": "training/test_randomness.py",
    "dptheory.training.audits._attacks": "training/audits/test_findings.py",
    "dptheory.training.audits._board": "training/audits/test_findings.py",
    "dptheory.training.audits._cases": "training/audits/test_findings.py",
    "dptheory.training.audits._laws": "training/audits/test_findings.py",
    "dptheory.training.audits._measure": "training/audits/test_findings.py",
    "dptheory.training.audits._report": "training/audits/test_findings.py",
    "dptheory.training.audits._runs": "training/audits/test_findings.py",
    "dptheory.training.audits._worlds": "training/audits/test_steps.py",
    "dptheory.training.benchmarks._calculators": "training/benchmarks/test_timing.py",
    "dptheory.training.benchmarks._arms": "training/benchmarks/test_steps.py",
    "dptheory.training.benchmarks._memory": "training/benchmarks/test_steps.py",
    "dptheory.training.benchmarks._networks": "training/benchmarks/test_steps.py",
    "dptheory.training.benchmarks._mechanisms": "training/benchmarks/test_timing.py",
    "dptheory.training.data._files": "training/data/test_images.py",
    "dptheory.training.data._formats": "training/data/test_images.py",
    "dptheory.training.engine._noise": "training/mechanisms/test_mechanisms.py",
    "dptheory.training.engine._uncopied": "training/test_optimizer_state.py",
    "dptheory.training.engine._privacy_report": "training/engine/test_private.py",
    "dptheory.training.engine._sample_gradients": "training/engine/test_optimizer.py",
    "dptheory.training.mechanisms._dpsgd": "training/engine/test_optimizer.py",
    "dptheory.training.per_example._batch": "training/per_example/test_per_example.py",
    "dptheory.training.per_example._convolution": "training/per_example/test_per_example.py",
    "dptheory.training.per_example._dense": "training/per_example/test_per_example.py",
    "dptheory.training.per_example._formed": "training/per_example/test_per_example.py",
    "dptheory.training.per_example._like_tensor": "training/per_example/test_per_example.py",
    "dptheory.training.per_example._mixed": "training/per_example/test_per_example.py",
    "dptheory.training.per_example._representation": "training/per_example/test_per_example.py",
    "dptheory.training.per_example._squares": "training/per_example/test_per_example.py",
    "dptheory.training.per_example._table": "training/per_example/test_per_example.py",
    "dptheory.training.networks._mlp": "training/networks/test_paper_networks.py",
    "dptheory.training.networks._small_cnn": "training/engine/test_optimizer.py",
    "dptheory.training.planning._judged": "training/planning/test_pilot.py",
    "dptheory.training.planning._mixtures": "training/planning/test_simulated.py",
    "dptheory.training.planning._norms": "training/planning/test_pilot.py",
    "dptheory.training.planning._point": "training/planning/test_choice.py",
    "dptheory.training.planning._ranges": "training/planning/test_choice.py",
    "dptheory.training.planning._theory": "training/planning/test_plan.py",
    "dptheory.training.planning._workers": "training/planning/test_plan.py",
    "dptheory.training._measure_commands": "training/test_command_line.py",
    "dptheory.training.measure._figures": "training/test_training_figures.py",
    "dptheory.training.measure._rows_angles": "training/measure/test_rows.py",
    "dptheory.training.measure._rows_attack": "training/measure/test_rows.py",
    "dptheory.training.measure._rows_clipping": "training/measure/test_rows.py",
    "dptheory.training.measure._rows_embedding": "training/measure/test_rows.py",
    "dptheory.training.measure._rows_mse": "training/measure/test_rows.py",
    "dptheory.training.measure._rows_pruning": "training/measure/test_rows.py",
    "dptheory.training.measure._snapshot": "training/measure/test_validation.py",
}
"""Modules without a test file of their name, and the file in tests/ that holds them: they are parts of its subject."""


def _test_file(module: str, path: Path) -> Path:
    """Where the mirror has the tests of a module: ``dptheory/privacy/methods/references/_prv.py`` and ``tests/privacy/test_prv.py``."""
    folder = path.parent.relative_to(ROOT)
    home = folder.relative_to("dptheory")
    return _TESTS / home / f"test_{path.stem.removeprefix('_')}.py"


def _mirrored() -> dict[str, Path]:
    return {
        name: _test_file(name, path)
        for name, path in ALL.items()
        if not name.startswith(("figures", *NO_MIRROR)) and path.name != "__init__.py"
        if path.name != "__main__.py"
    }


def test_every_module_has_a_test_file_of_its_name() -> None:
    without = {name for name, test in _mirrored().items() if not test.is_file()}
    says = "write tests/<room>/test_<module>.py, or name the file that tests the module in TESTED_IN"
    assert without - set(TESTED_IN) == set(), says
    assert set(TESTED_IN) - without == set(), "has a test file of its name, or is no module: take it out of TESTED_IN"
    assert {test for test in TESTED_IN.values() if not (_TESTS / test).is_file()} == set()


def test_every_test_file_of_a_room_has_its_module() -> None:
    """A file in the folder of a room tests one module of it, or the room as a whole: ``test_<room>.py``."""
    rooms_of = {name: path for name, path in ALL.items() if not name.startswith("figures")}
    homes = {_test_file(name, path) for name, path in rooms_of.items()}
    homes |= {home.parent / f"test_{home.parent.name}.py" for home in homes}
    rooms = {home.parent for home in homes} - {_TESTS, _TESTS / "training"}
    strange = {str(test.relative_to(ROOT)) for room in rooms for test in room.glob("test_*.py") if test not in homes}
    assert strange == set(), "name it after the module that it tests, or move it up to tests/ or tests/training/"
