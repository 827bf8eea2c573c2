"""``python -m proofs.kernel [ID ...]``: compile the files of the claims named, or all, and let ``coqchk`` check all of them again."""

import argparse
import json
import sys

from dptheory.claims import Claim, all_claims
from proofs.kernel import _coq


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m proofs.kernel", description=__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID", help="claims, as in the ledger; all where none is given")
    parser.add_argument(
        "--no-coqchk", action="store_true", help="leave out the second check, which takes a minute or two"
    )
    parser.add_argument(
        "--write", action="store_true", help=f"write what was checked to {_coq.FOLDER.name}/checked.json"
    )
    chosen = parser.parse_args(arguments)
    rows = {claim.id: claim for claim in all_claims() if claim.kernel}
    for one in chosen.ids:
        if one not in rows:
            print(f"{one!r} has no file here; the claims that have one: {', '.join(rows)}", file=sys.stderr)
            return 2
    try:
        return _check(
            [rows[one] for one in chosen.ids or rows], coqchk=not (chosen.no_coqchk or chosen.ids), write=chosen.write
        )
    except _coq.CoqError as error:
        print(error, file=sys.stderr)
        return 1


def _check(claims: list[Claim], *, coqchk: bool, write: bool) -> int:
    version = _coq.version()
    files = list(dict.fromkeys(str(claim.kernel).removesuffix(".v") for claim in claims))
    modules = [str(claim.kernel_module) for claim in claims]
    with _coq.workshop() as place:
        _coq.compile_all(files, place)
        theorems, axioms = _coq.check(modules, place)
        for claim, module in zip(claims, modules, strict=True):
            if theorems[module] != claim.kernel_theorems:
                raise _coq.CoqError(
                    f"{claim.id}: the row names {claim.kernel_theorems}, {module} proves {theorems[module]}"
                )
            print(f"{claim.id}: {', '.join(theorems[module])}")
        if coqchk:
            _coq.recheck(files, place)
    print(
        f"{len(claims)} claims, Coq {version}{', and coqchk over all' if coqchk else ''}; axioms: {', '.join(axioms) or 'none'}"
    )
    if write:
        record = {
            "coq": version,
            "coqchk": coqchk,
            "axioms": axioms,
            "claims": {claim.id: claim.kernel_theorems for claim in claims},
        }
        (_coq.FOLDER / "checked.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
