"""Lists the surviving mutants of some calculators, or of all: ``cd tests && python -m mutants.survey convergence freezing``."""

import sys
import time

from tests.mutants.holders import holders, outcomes
from tests.mutants.surface import targets


def main(arguments: list[str]) -> None:
    prefixes = tuple(arguments) or ("",)
    for target in targets():
        if not target.name.startswith(prefixes):
            continue
        start = time.process_time()
        found = outcomes(target)
        alive = [one for one in found if one.noticed is None]
        claims = ", ".join(claim.id for claim in holders(target)) or "no claim"
        seconds = time.process_time() - start
        print(f"{target.name} ({claims}): {len(alive)} of {len(found)} survive, {seconds:.1f} s", flush=True)
        for one in alive:
            print(f"    {one.mutant}: {one.reason}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
