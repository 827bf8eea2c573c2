"""The pages of claims as a whole: what the rows say is put around what is written by hand (see ``dptheory.claims.page_markdown``).

The outcomes of the checks come from a file that ``dptheory check --json`` wrote, where the build names one
(``-D evidence_file=evidence.json``); without it the checks are listed.
"""

import json
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from dptheory.checks import Evidence, Kind
from dptheory.claims import all_claims, page_markdown
from dptheory.claims._markdown import kernel_statements


def evidence_in(file: str | Path) -> dict[str, list[Evidence]]:
    """The outcomes in a file of ``dptheory check --json``, by claim."""
    found: dict[str, list[Evidence]] = {}
    rows: list[dict[str, Any]] = json.loads(Path(file).read_text(encoding="utf-8"))
    for row in rows:
        found.setdefault(row.pop("claim"), []).append(Evidence(**row | {"kind": Kind[row["kind"]]}))
    return found


KERNEL = "proofs/kernel"


def _whole(app: Sphinx, docname: str, source: list[str]) -> None:
    if claim := {f"proofs/{one.page.removesuffix('.md')}": one for one in all_claims()}.get(docname):
        known = evidence_in(app.config.evidence_file) if app.config.evidence_file else {}
        source[0] = page_markdown(claim, known.get(claim.id, ()))
    elif docname == KERNEL:
        source[0] += "\n" + kernel_statements(all_claims(), Path(app.srcdir) / "proofs")


def setup(app: Sphinx) -> ExtensionMetadata:
    app.add_config_value("evidence_file", "", "env")
    app.connect("source-read", _whole)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
