"""``python -m dptheory.training.audits FILE``: what the audits of one step prove, for the figure ``audit_claims``."""

import json
from pathlib import Path
from typing import Annotated

import typer

from dptheory.cli._common import user_errors
from dptheory.files import require_writable, write_atomically
from dptheory.training.audits import step_audits


def main(out: Annotated[Path, typer.Argument(help="JSON file to write")]) -> None:
    """Audit one step of every mechanism, as in `python -m dptheory.training.audits proofs/figures/audit_claims.json`."""
    with user_errors():
        require_writable(out)
        rows = [
            {"name": a.name, "claimed": a.claimed, "private": a.private, "audited": a.run().epsilon_lower}
            for a in step_audits()
        ]
        write_atomically(out, json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
