"""`dptheory claim ID --open`: the proof page in the browser, its formulas as MathML."""

import html
import re
import tempfile
import webbrowser
from functools import cache
from pathlib import Path
from typing import Any

import typer

from dptheory.claims import Claim, page_markdown
from dptheory.files import write_atomically

_CODE = re.compile(r"^```.*?^```|(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL | re.MULTILINE)
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$]+)\$", re.DOTALL)
_CLOSING_BASE = re.compile(r"(<(?:msup|msub|msubsup)>)<mo( [^>]*minsize[^>]*)>([^<]*)</mo>")
"""A large bracket that carries an exponent: browsers take it for the opening one, and draw it low and small."""
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><base href="{base}/">
<style>
body {{ max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 sans-serif; }}
pre, table {{ display: block; overflow-x: auto; max-width: 100%; }}
math[display="block"] {{ display: block math; overflow-x: auto; max-width: 100%; }}
pre {{ background: #f4f4f4; padding: 0.7rem; }} td, th {{ border: 1px solid #ccc; padding: 0.2rem 0.5rem; }}
table {{ border-collapse: collapse; }} img {{ max-width: 100%; }} math {{ font-family: "STIX Two Math", math; }}
</style></head><body>
{body}
</body></html>
"""


def open_page(claim: Claim) -> None:
    """Write the page of a claim to a file of its own and show it; where there is no browser, say where the file is."""
    folder = claim.page_file.parent
    file = Path(tempfile.mkdtemp(prefix="dptheory-")) / f"{claim.id}.html"
    write_atomically(file, page_html(claim.id, page_markdown(claim), folder))
    shown = webbrowser.open(file.as_uri())
    typer.echo(f"opened {file}" if shown else f"no browser was found; the page is {file}")


def page_html(title: str, markdown: str, folder: Path) -> str:
    """A page in HTML; its pictures and links are looked for from the folder of the page."""
    try:
        from markdown_it import MarkdownIt

        _converter()
    except ImportError:
        raise ValueError("--open needs the extra docs: pip install 'dptheory[docs]'") from None
    formulas: list[str] = []

    def hide(found: re.Match[str]) -> str:
        formulas.append(mathml(found[1] or found[2], display=found[1] is not None))
        return f"\ue000{len(formulas) - 1}\ue001"

    text, start = "", 0
    for code in _CODE.finditer(markdown):
        text += _FORMULA.sub(hide, markdown[start : code.start()]) + code[0]
        start = code.end()
    text += _FORMULA.sub(hide, markdown[start:])
    body = MarkdownIt("commonmark").enable("table").render(text)
    body = re.sub("\ue000(\\d+)\ue001", lambda found: formulas[int(found[1])], body)
    return _PAGE.format(title=html.escape(title), base=folder.as_uri(), body=body)


@cache
def _converter() -> Any:
    from math_core import LatexToMathML

    return LatexToMathML(macros={"cr": r"\\", "tag": r"\qquad(#1)"}, fancy_error=False)


def mathml(latex: str, *, display: bool) -> str:
    """MathML of a formula of a page; what one formula defines is forgotten before the next."""
    try:
        found: str = _converter().convert_with_local_state(latex.strip(), displaystyle=display)
    except Exception as error:
        raise ValueError(f"formula {latex!r}: {error}") from error
    return _CLOSING_BASE.sub(r'\1<mrow><mo form="postfix"\2>\3</mo></mrow>', found)
