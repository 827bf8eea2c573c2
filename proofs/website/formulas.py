"""Formulas as MathML, written at build time: a browser draws it without a script, with the font that comes along."""

import re
import shutil
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from docutils import nodes
from math_core import LatexToMathML
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

FONT = "STIXTwoMath-Regular.ttf"
_LONG = 25
"""Characters of a formula that may be wider than a phone."""
_CONVERTER = LatexToMathML(macros={"cr": r"\\", "tag": r"\qquad(#1)"}, fancy_error=False)


@cache
def mathml(latex: str, display: bool) -> str:
    """MathML of a formula; one that cannot be set is an error of the build.

    Args:
        latex: the formula without its dollar signs.
        display: on lines of its own.

    Returns:
        A ``<math>`` element.

    Raises:
        ValueError: a formula that the converter does not know.
    """
    text = latex.strip()
    try:
        found: str = _CONVERTER.convert_with_local_state(text, displaystyle=display)
    except Exception as error:
        raise ValueError(f"formula {latex!r}: {error}") from error
    return found


def _inline(translator: Any, node: nodes.math) -> None:
    """A browser does not break the line within a formula; a long one scrolls on a phone."""
    formula = mathml(node.astext(), False)
    if len(re.sub(r"<[^>]*>", "", formula)) > _LONG:
        formula = f'<span class="long-formula">{formula}</span>'
    translator.body.append(formula)
    raise nodes.SkipNode


def _display(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula">{mathml(node.astext(), True)}</div>')
    raise nodes.SkipNode


def _copy_font(app: Sphinx, failure: Exception | None) -> None:
    if failure is None:
        with as_file(files("ziamath") / "fonts" / FONT) as font:
            shutil.copyfile(font, Path(app.outdir) / "_static" / FONT)


def setup(app: Sphinx) -> ExtensionMetadata:
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    app.connect("build-finished", _copy_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
