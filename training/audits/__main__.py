"""``python -m training.audits FILE``: what the audits of one step prove, for the figure ``audit_claims``; takes seconds."""

import json
import sys
from pathlib import Path

from dptheory.files import write_atomically
from training.audits import step_audits

if __name__ == "__main__":
    rows = [
        {"name": a.name, "claimed": a.claimed, "private": a.private, "audited": a.run().epsilon_lower}
        for a in step_audits()
    ]
    write_atomically(Path(sys.argv[1]), json.dumps(rows, indent=1) + "\n")
