"""What our own runs look like: the pictures of measured claims, below the results."""

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from dptheory.claims import Verdict, all_claims

RESULTS = "proofs/results"


def gallery() -> str:
    """The pictures of the measured claims, once each, with the claims that they answer."""
    shown: dict[str, list[str]] = {}
    for claim in all_claims(verdict=Verdict.EMPIRICAL):
        if claim.figure:
            shown.setdefault(claim.figure, []).append(f"[{claim.id}]({claim.page}): {claim.title} ({claim.state})")
    parts = ["", "## Pictures of our own runs"]
    for figure, lines in shown.items():
        parts += ["", *(f"- {line}" for line in lines), "", f"![{figure.replace('_', ' ')}](figures/{figure}.png)"]
    return "\n".join(parts) + "\n"


def _below_results(_app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == RESULTS:
        source[0] += gallery()


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("source-read", _below_results)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
