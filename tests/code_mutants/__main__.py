"""``python -m tests.code_mutants``: draw mutants of the code, run the tests against each, and say what share is noticed."""

import argparse
import json
import random
import sys
import tempfile
import tomllib
from pathlib import Path

from scipy.stats import beta

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from tests.code_mutants import cover, run  # noqa: E402
from tests.code_mutants.mutate import Mutant, mutants_of  # noqa: E402

_LEFT_OUT = (
    "dptheory/claims/",
    "dptheory/montecarlo/",
    "dptheory/cli",
    "dptheory/cli/_tables.py",
    "dptheory/cli/_demo.py",
    "training/benchmarks/",
)
"""The ledger is held by field mutants; benchmarks print times, and no test may depend on those."""

EQUIVALENT = Path(__file__).with_name("equivalent.toml")


def main() -> None:
    """Judge a sample, print the survivors and the interval of the share noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.code_mutants", description=__doc__)
    parser.add_argument("package", choices=("dptheory", "training"))
    parser.add_argument("--count", type=int, default=400, help="mutants drawn")
    parser.add_argument("--seed", type=int, default=20261121, help="of the draw")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--cover", type=Path, help="folder that keeps which test runs which line; measured where it is empty"
    )
    parser.add_argument("--json", type=Path, help="where the outcome of every mutant is written")
    parser.add_argument("--only", type=Path, help="an earlier outcome: judge again what survived there")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds of tests that a survivor has to pass")
    parser.add_argument("--first", nargs="*", default=[], help="tests that run before all others, such as new ones")
    asked = parser.parse_args()
    chosen = random.Random(asked.seed).sample(population(asked.package), asked.count)
    if asked.only:
        earlier = json.loads(asked.only.read_text())
        chosen = [one for one in chosen if earlier.get(key(one)) in ("", "no test")]
    with tempfile.TemporaryDirectory() as scratch:
        covering = cover.measured(ROOT, asked.cover or Path(scratch), asked.workers)
    reasons = tomllib.loads(EQUIVALENT.read_text())
    found: dict[str, str] = {}
    verdicts = run.judged(ROOT, chosen, covering, workers=asked.workers, patience=asked.patience, first=asked.first)
    for number, (mutant, noticed) in enumerate(verdicts, 1):
        found[key(mutant)] = noticed
        if noticed in ("", "no test"):
            said = reason(reasons, mutant) or ("SURVIVES" if noticed == "" else "NO TEST RUNS IT")
            print(f"{number}/{len(chosen)} {key(mutant)}: {said}", flush=True)
        if asked.json:
            asked.json.write_text(json.dumps(found, indent=1))
    equivalent = {key(one) for one in chosen if reason(reasons, one)}
    judged = {k: v for k, v in found.items() if not (v in ("", "no test") and k in equivalent)}
    killed = sum(v not in ("", "no test") for v in judged.values())
    print(f"{killed} of {len(judged)} noticed ({len(found) - len(judged)} equivalent); "
          f"at least {lower_limit(killed, len(judged)):.1%} with 95 % confidence")  # fmt: skip


def population(package: str) -> list[Mutant]:
    """All mutants of the calculators, or of the training code, in the order of files and lines."""
    paths = (str(path.relative_to(ROOT)) for path in sorted((ROOT / package).rglob("*.py")))
    return [one for path in paths if not path.startswith(_LEFT_OUT) for one in mutants_of(ROOT, path)]


def reason(reasons: dict[str, str], mutant: Mutant) -> str | None:
    """Why the mutant changes nothing; None where nobody said so."""
    return reasons.get(mutant.id) or reasons.get(mutant.exact)


def key(mutant: Mutant) -> str:
    """Place and change."""
    return f"{mutant.path}:{mutant.line}:{mutant.column} {mutant.was} -> {mutant.now}"


def lower_limit(killed: int, count: int) -> float:
    """Clopper-Pearson: the share of which ``killed`` or more of ``count`` still has a probability of 5 %."""
    return float(beta.ppf(0.05, killed, count - killed + 1)) if killed else 0.0


if __name__ == "__main__":
    main()
