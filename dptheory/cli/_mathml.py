"""Formulas as MathML, for the page in the browser and for the site; needs the extra ``docs``."""

import re

from math_core import LatexToMathML

_CONVERTER = LatexToMathML(macros={"cr": r"\\", "tag": r"\qquad(#1)"}, fancy_error=False)


_CLOSING_BASE = re.compile(r"(<(?:msup|msub|msubsup)>)<mo( [^>]*minsize[^>]*)>([^<]*)</mo>")
"""A large bracket that carries an exponent: browsers take it for the opening one, and draw it low and small."""


def mathml(latex: str, *, display: bool) -> str:
    """MathML of a formula of a page; what one formula defines is forgotten before the next."""
    try:
        found: str = _CONVERTER.convert_with_local_state(latex.strip(), displaystyle=display)
    except Exception as error:
        raise ValueError(f"formula {latex!r}: {error}") from error
    return _CLOSING_BASE.sub(r'\1<mrow><mo form="postfix"\2>\3</mo></mrow>', found)
