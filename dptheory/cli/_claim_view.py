"""`dptheory claim`: one row of the ledger, the verdict first, its formulas as Unicode."""

import re

from rich.console import Console
from rich.text import Text

from dptheory.claims import PAPERS, Claim
from dptheory.cli._tables import COLOURS, claim_code, claim_sections
from dptheory.cli._unicode_math import unicode_text


def show_claim_on(console: Console, claim: Claim, latex: bool) -> None:
    """Verdict, title, place and reason; then the sections, and what can be typed or opened."""
    colour = f"bold {COLOURS[claim.verdict.name]}"
    meaning = "; ".join(one.value for one in (claim.verdict, claim.severity) if one)
    _print(console, Text.assemble((claim.judgement, colour), f": {meaning} ({claim.state})"))
    _print(console, Text(f"{claim.id}: {claim.title}", "bold"))
    place = "our own result, " if claim.ours else ""
    _print(console, Text(f"{PAPERS[claim.source.paper]}, {place}{claim.source}"))
    _show(console, claim.summary, "", latex)
    for name, texts in claim_sections(claim):
        _print(console, Text(name, "bold"))
        for text in texts:
            _show(console, text, "  ", latex)
    for name, lines in claim_code(claim):
        _print(console, Text(name, "bold"))
        for line in lines:
            console.print(Text(f"  {line}"), soft_wrap=True, highlight=False)


def _show(console: Console, markdown: str, indent: str, latex: bool) -> None:
    """Paragraphs and items of lists, each on lines of its own; LaTeX keeps its lines."""
    if latex:
        for line in markdown.splitlines():
            console.print(Text(f"{indent}{line}"), soft_wrap=True, highlight=False)
        return
    for block in re.split(r"\n\s*\n|\n(?=(?:-|\d+\.) )", unicode_text(markdown)):
        text = _links(" ".join(block.split()))
        if text:
            _print(console, Text(text), f"{indent}  " if block.startswith("    ") else indent)


def _print(console: Console, text: Text, indent: str = "") -> None:
    """Wrapped at the width, the further lines of an item under its first word, with nothing behind the last letter."""
    item = re.match(r"(-|\d+\.) ", text.plain)
    further = indent + " " * (len(item[0]) if item else 0)
    for i, line in enumerate(text.wrap(console, max(console.width - len(further), 20))):
        line.rstrip()
        console.print(Text(further if i else indent) + line, highlight=False, soft_wrap=True)


def _links(text: str) -> str:
    """Links to other pages as the id alone."""
    return re.sub(r"\[([^\]]+)\]\(([^)\s]+\.md[^)\s]*)\)", r"\1", text)
