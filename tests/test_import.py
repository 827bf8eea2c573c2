"""What an import pulls in; how long it takes is a benchmark (``python -m dptheory.training.benchmarks --only importing``)."""

import json
import subprocess
import sys

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
