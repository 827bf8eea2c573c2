"""Compares the evidence of two versions of the ledger, check by check; the time that a check took does not count.

    dptheory check --json BEFORE.json      # on the old version; the same patterns on both
    dptheory check --json AFTER.json       # on the new one
    python -m tests.compare_evidence BEFORE.json AFTER.json ['gip.*' ...]

Prints every difference and exits with 1 where there is one. With patterns, only the claims whose ids match one of them count.
"""

import fnmatch
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

IGNORED = {"seconds"}

Evidence = dict[str, Any]


def differences(before: Sequence[Evidence], after: Sequence[Evidence]) -> list[str]:
    """What differs, in words; order counts within a claim, not between claims."""
    found = []
    old, new = _by_claim(before), _by_claim(after)
    for claim in sorted(old.keys() | new.keys()):
        names = [[one["check"] for one in rows.get(claim, ())] for rows in (old, new)]
        found += [f"{claim}: check {name!r} is gone" for name in names[0] if name not in names[1]]
        found += [f"{claim}: check {name!r} is new" for name in names[1] if name not in names[0]]
        found += [
            f"{claim}: check {name!r} stands twice" for n in names for name in sorted({x for x in n if n.count(x) > 1})
        ]
        if sorted(names[0]) == sorted(names[1]) and names[0] != names[1]:
            found.append(f"{claim}: the checks stand in another order")
        later = {one["check"]: one for one in new.get(claim, ())}
        for one in old.get(claim, ()):
            if one["check"] in later:
                found += _changed(claim, one, later[one["check"]])
    return found


def _changed(claim: str, before: Evidence, after: Evidence) -> list[str]:
    keys = sorted((before.keys() | after.keys()) - IGNORED)
    return [
        f"{claim}, {before['check']}: {key} was {before.get(key)!r}, is {after.get(key)!r}"
        for key in keys
        if (key in before, before.get(key)) != (key in after, after.get(key))
    ]


def _by_claim(rows: Sequence[Evidence]) -> dict[str, list[Evidence]]:
    found: dict[str, list[Evidence]] = {}
    for one in rows:
        found.setdefault(one["claim"], []).append(one)
    return found


def main(arguments: Sequence[str]) -> int:
    """Compare two files; 0 where nothing differs."""
    if len(arguments) < 2:
        print(__doc__)
        return 2
    before, after = (_read(Path(name), arguments[2:]) for name in arguments[:2])
    if not before and not after:
        print("no claim matches: nothing was compared")
        return 2
    found = differences(before, after)
    print("\n".join(found) or f"{len(before)} checks of {len(_by_claim(before))} claims agree")
    return 1 if found else 0


def _read(path: Path, patterns: Sequence[str]) -> list[Evidence]:
    rows: list[Evidence] = json.loads(path.read_text(encoding="utf-8"))
    return [one for one in rows if not patterns or any(fnmatch.fnmatch(one["claim"], p) for p in patterns)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
