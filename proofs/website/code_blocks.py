"""Code without the empty line at its end, which doctest asks for and readers do not."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.typing import ExtensionMetadata


class WithoutBlankEnd(SphinxTransform):
    """Strips blocks of code."""

    default_priority = 800

    def apply(self) -> None:
        for block in self.document.findall(nodes.literal_block):
            text = block.astext().rstrip()
            block.rawsource = text
            block.children = []
            block += nodes.Text(text)


def setup(app: Sphinx) -> ExtensionMetadata:
    app.add_transform(WithoutBlankEnd)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
