"""`dptheory claim`: one row of the ledger, the verdict first, its formulas as Unicode."""

import inspect
import math
import re
from functools import partial
from typing import Any

from rich.console import Console
from rich.text import Text

from dptheory.checks import EqualityCheck, Kind
from dptheory.claims import PAPERS, Claim, Verdict
from dptheory.cli._tables import COLOURS, claim_code, claim_sections
from dptheory.cli._unicode_math import unicode_text


def show_claim_on(console: Console, claim: Claim, latex: bool) -> None:
    """Verdict, title, place and reason; then the sections, and what can be typed or opened."""
    colour = f"bold {COLOURS[claim.verdict.name]}"
    meaning = "; ".join(one.value for one in (claim.verdict, claim.severity) if one)
    if claim.ours:  # no paper prints it
        meaning = "true as stated here"
    print_wrapped(console, Text.assemble((claim.judgement, colour), f": {meaning} ({claim.state})"))
    print_wrapped(console, Text(f"{claim.id}: {claim.title}", "bold"))
    source = str(claim.source).replace("new,", "our own result,", 1) if claim.ours else claim.source
    print_wrapped(console, Text(f"{PAPERS[claim.source.paper]}, {source}"))
    _show(console, claim.summary, "", latex)
    if compared := printed_beside_right(claim):
        print_wrapped(console, Text(compared))
    for name, texts in claim_sections(claim):
        print_wrapped(console, Text(name, "bold"))
        for text in texts:
            _show(console, text, "  ", latex)
    for name, lines in claim_code(claim):
        print_wrapped(console, Text(name, "bold"))
        for line in lines:
            console.print(Text(f"  {line}"), soft_wrap=True, highlight=False)


def printed_beside_right(claim: Claim) -> str | None:
    """The printed number of a false claim beside the right one, where its first counterexample compares numbers."""
    checks = [one for one in claim.checks if isinstance(one, EqualityCheck) and one.kind is Kind.COUNTEREXAMPLE]
    if claim.verdict is not Verdict.FALSE or claim.printed is None or not checks:
        return None
    for case in checks[0].cases():
        sides: tuple[Any, ...] = checks[0].compare(*case)
        right, _, wrong = sides
        printed = wrong() if callable(wrong) else wrong
        if isinstance(right, bool) or printed is None or isinstance(printed, bool):
            return None
        if not math.isclose(printed, right, rel_tol=checks[0].tolerance):
            numbers = f"printed {float(printed):.6g}, right {float(right):.6g}"
            return f"In numbers: {numbers} ({checks[0].name}; {_named(checks[0], case)})"
    return None


def _named(check: EqualityCheck, case: tuple[Any, ...]) -> str:
    """The case with the names that the check's function gives its arguments."""
    (function,) = check.compare.args if isinstance(check.compare, partial) else (check.compare,)
    named = zip(inspect.signature(function).parameters, case, strict=True)
    return ", ".join(f"{name} = {_plain(value)}" for name, value in named)


def _plain(value: Any) -> str:
    return f"({', '.join(map(_plain, value))})" if isinstance(value, tuple) else f"{value}"


def _show(console: Console, markdown: str, indent: str, latex: bool) -> None:
    """Paragraphs and items of lists, each on lines of its own; LaTeX keeps its lines."""
    if latex:
        for line in markdown.splitlines():
            console.print(Text(f"{indent}{line}"), soft_wrap=True, highlight=False)
        return
    for block in re.split(r"\n\s*\n|\n(?=(?:-|\d+\.) )", unicode_text(markdown)):
        text = _links(" ".join(block.split()))
        if text:
            print_wrapped(console, Text(text), f"{indent}  " if block.startswith("    ") else indent)


def print_wrapped(console: Console, text: Text, indent: str = "") -> None:
    """Wrapped at the width, the further lines of an item under its first word, with nothing behind the last letter."""
    item = re.match(r"(-|\d+\.) ", text.plain)
    further = indent + " " * (len(item[0]) if item else 0)
    for i, line in enumerate(text.wrap(console, max(console.width - len(further), 20))):
        line.rstrip()
        console.print(Text(further if i else indent) + line, highlight=False, soft_wrap=True)


def _links(text: str) -> str:
    """Links to other pages as the id alone."""
    return re.sub(r"\[([^\]]+)\]\(([^)\s]+\.md[^)\s]*)\)", r"\1", text)
