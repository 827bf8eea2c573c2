"""What importing the library costs and pulls in."""

import json
import subprocess
import sys

_PROBE = """
import json, sys, time
start = time.perf_counter()
import dptheory
seconds = time.perf_counter() - start
heavy = [name for name in ("torch", "matplotlib", "sympy") if name in sys.modules]
import dptheory.pruning, dptheory.mallows, dptheory.claims
dptheory.claims.all_claims()
later = [name for name in ("torch", "matplotlib", "sympy", "training") if name in sys.modules]
print(json.dumps([seconds, heavy, later]))
"""


def test_import_is_quick_and_light() -> None:
    runs = [json.loads(subprocess.check_output([sys.executable, "-c", _PROBE])) for _ in range(3)]
    assert min(seconds for seconds, _, _ in runs) < 0.5
    assert all(heavy == [] for _, heavy, _ in runs)
    assert all(later == [] for _, _, later in runs), "the ledger itself needs none of the heavy packages"


def test_submodules_load_on_first_use() -> None:
    code = "import dptheory; print(float(dptheory.pruning.random_k_mse(4, 1, 1.0)), 'mallows' in dir(dptheory))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["3.0", "True"]


def test_unknown_submodule_is_an_attribute_error() -> None:
    code = "import dptheory\ntry:\n    dptheory.nothing\nexcept AttributeError as e:\n    print(e)"
    assert "has no attribute 'nothing'" in subprocess.check_output([sys.executable, "-c", code], text=True)
