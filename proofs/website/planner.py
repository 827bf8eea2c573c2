"""The planner's scripts, on its page alone."""

from typing import Any

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

PLANNER = "proofs/website/planner"


def _scripts(app: Sphinx, docname: str, _template: str, _context: dict[str, Any], _tree: Any) -> None:
    if docname == PLANNER:
        app.add_js_file("curves.js")
        app.add_js_file("planner.js")


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("html-page-context", _scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
