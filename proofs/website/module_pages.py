"""A page for each package that ``modules.md`` lists, written before Sphinx looks for its sources."""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "proofs" / "website"
    for page in re.findall(r"^modules/(\w+)$", (folder / "modules.md").read_text(encoding="utf-8"), re.MULTILINE):
        name = f"dptheory.{page.replace('training_', 'training.')}"
        text = f"# {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n```\n"
        file = folder / "modules" / f"{page}.md"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
