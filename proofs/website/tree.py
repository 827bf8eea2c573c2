"""The tree of the site: the README as its start page, and a page for each package that ``modules.md`` lists."""

import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

TREE = """
```{toctree}
:hidden:
:titlesonly:

proofs/guides/findings
proofs/guides/training
proofs/guides/fine_tuning
proofs/guides/trust
proofs/guides/audit
proofs/guides/calculators
proofs/guides/checks
proofs/guides/several_machines
proofs/guides/from_0_2
proofs/planning
proofs/website/plan
proofs/practice
proofs/README
proofs/new
proofs/kernel
proofs/results
proofs/measured
proofs/website/sharp_edges
proofs/website/tutorial
proofs/opacus
proofs/speed
proofs/refute
proofs/glossary
proofs/website/modules
CONTRIBUTING
CHANGELOG
training/excerpt/README
```
"""


def _modules(app: Sphinx) -> None:
    """Written before Sphinx looks for its sources."""
    folder = Path(app.srcdir) / "proofs" / "website"
    for page in re.findall(r"^modules/(\w+)$", (folder / "modules.md").read_text(encoding="utf-8"), re.MULTILINE):
        name = f"dptheory.{page.replace('training_', 'training.')}"
        text = f"# {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n```\n"
        file = folder / "modules" / f"{page}.md"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")


def _with_tree(_app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] += TREE if docname == "README" else ""


def _index(app: Sphinx, failure: Exception | None) -> None:
    """``index.html`` beside ``README.html``, so that the folder opens on the start page."""
    if failure is None:
        shutil.copyfile(Path(app.outdir) / "README.html", Path(app.outdir) / "index.html")


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("builder-inited", _modules)
    app.connect("source-read", _with_tree)
    app.connect("build-finished", _index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
