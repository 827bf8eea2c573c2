"""The start page is the README itself, with the tree of the site below it."""

import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from dptheory.claims import PAPERS

TREE = """
```{toctree}
:hidden:
:titlesonly:

proofs/README
proofs/new
proofs/kernel
proofs/results
proofs/website/sharp_edges
proofs/website/tutorial
proofs/website/planner
proofs/plan
proofs/planner
proofs/opacus
proofs/speed
proofs/refute
proofs/glossary
proofs/website/modules/index
CONTRIBUTING
CHANGELOG
training/excerpt/README
```
"""
PLANS = "\n".join(
    ["", "```{toctree}", ":hidden:", ":titlesonly:", "", *(f"plan/{paper}" for paper in PAPERS), "```", ""]
)
"""The papers' pages of plans, below the table of all."""


def _with_tree(_app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] += {"README": TREE, "proofs/plan": PLANS}.get(docname, "")


def _index(app: Sphinx, failure: Exception | None) -> None:
    """``index.html`` beside ``README.html``, so that the folder opens on the start page."""
    if failure is None:
        shutil.copyfile(Path(app.outdir) / "README.html", Path(app.outdir) / "index.html")


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("source-read", _with_tree)
    app.connect("build-finished", _index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
