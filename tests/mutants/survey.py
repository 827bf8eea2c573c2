"""Lists the surviving mutants of some calculators, or of all: ``cd tests && python -m mutants.survey convergence freezing``.

``--write`` puts them into ``known_survivors.txt``, in place of what it says of the same calculators.
"""

import sys
import time
from pathlib import Path

from mutants.holders import holders, outcomes
from mutants.surface import targets

KNOWN = Path(__file__).with_name("known_survivors.txt")


def known() -> dict[str, set[str]]:
    """Calculator to the mutants of it that are known to survive."""
    found: dict[str, set[str]] = {}
    for line in KNOWN.read_text(encoding="utf-8").splitlines():
        name, mutant = line.split(": ", 1)
        found.setdefault(name, set()).add(mutant)
    return found


def main(arguments: list[str]) -> None:
    prefixes = tuple(a for a in arguments if not a.startswith("--")) or ("",)
    listed = known()
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
        listed[target.name] = {str(one.mutant) for one in alive}
    if "--write" in arguments:
        names = [t.name for t in targets()]
        lines = [f"{name}: {mutant}\n" for name in names for mutant in sorted(listed.get(name, ()))]
        KNOWN.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
