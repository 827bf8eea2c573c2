"""Formulas as MathML, written at build time: a browser draws it without a script, with the font that comes along."""

import re
import shutil
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from dptheory.cli._open import mathml

FONT = "STIXTwoMath-Regular.ttf"
_LONG = 25
"""Characters of a formula that may be wider than a phone."""


def _inline(translator: Any, node: nodes.math) -> None:
    """A browser does not break the line within a formula; a long one scrolls on a phone."""
    formula = mathml(node.astext(), display=False)
    if len(re.sub(r"<[^>]*>", "", formula)) > _LONG:
        formula = f'<span class="long-formula">{formula}</span>'
    translator.body.append(formula)
    raise nodes.SkipNode


def _display(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula">{mathml(node.astext(), display=True)}</div>')
    raise nodes.SkipNode


def _copy_font(app: Sphinx, failure: Exception | None) -> None:
    if failure is None:
        with as_file(files("ziamath") / "fonts" / FONT) as font:
            shutil.copyfile(font, Path(app.outdir) / "_static" / FONT)


def setup(app: Sphinx) -> ExtensionMetadata:
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    app.connect("build-finished", _copy_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
