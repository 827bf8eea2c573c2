"""Configuration of the site: ``python -m sphinx -c proofs/website . build/site``, from the root of the project.

The root is the source: README and proof pages are read where they are, with their links, and nothing is copied. Sphinx with MyST
and not mkdocs-material, because it makes the pages of modules from the docstrings, refuses a dead reference between pages
(``-W``), and its search needs no server.
"""

import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

_ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(_ROOT), str(_ROOT / "proofs")]

project = "dptheory"
author = "the authors of dptheory"
html_show_copyright = False
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "website.formulas",
    "website.docstrings",
    "website.ledger",
    "website.claim_pages",
    "website.pictures",
    "website.tree",
    "website.without_torch",
]
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "training/excerpt/README.md", "proofs/**.md"]
source_suffix = {".md": "markdown"}

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the signature shows annotations in short; the text gives ranges and units
autodoc_default_options = {"members": True, "imported-members": True}
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Source"]
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = "dptheory"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_use_index = False
html_show_sourcelink = False
html_show_sphinx = False
html_copy_source = False
html_show_search_summary = False  # it would be fetched, which a browser refuses for files
html_math_renderer = "mathml"


class WithoutBlankEnd(SphinxTransform):
    """Strips blocks of code of the empty line at their end, which doctest asks for and readers do not."""

    default_priority = 800

    def apply(self) -> None:
        for block in self.document.findall(nodes.literal_block):
            text = block.astext().rstrip()
            block.rawsource = text
            block.children = []
            block += nodes.Text(text)


def setup(app: Sphinx) -> None:
    app.add_transform(WithoutBlankEnd)
