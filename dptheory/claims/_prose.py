"""What is said of a claim in words: read from its page, ``proofs/<paper>/<claim>.md``, the one place where it stands.

A page is plain Markdown. Its first heading is ``# id: title``; the paragraph that begins with the verdict in bold gives the
summary, one that begins with ``**For a user.**`` what the result changes, one with ``**Answers.**`` what readers ask. Then the
sections "Key points", "Statement", one of :data:`CORRECTIONS`, "Conditions", "Where the print errs" and "The paper's side", as far
as there is something to say; the proof follows.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dptheory.errors import ArgumentError

CORRECTIONS = ("In full", "Sharper", "Corrected")
"""Headings of what is right: of what holds, of what is loose, of what fails or needs a condition."""

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Prose:
    """A claim in words; all but the title is Markdown with LaTeX math.

    Attributes:
        title: a few words for tables.
        statement: the claim in our words.
        summary: why it has its verdict, in at most 200 characters that can be read alone: the ledger's cell.
        for_users: what a result of ours changes for a user, one sentence.
        questions: what it answers, as a reader would ask, to be found by.
        key_points: what a reader of a long page should take away, three to six sentences.
        conditions: what the claim needs, stated and unstated.
        correction: the right statement, where the printed one fails or is loose.
        printed_error: the step of the paper's argument that fails, where there is one to point at.
        paper_side: the paper's strongest words for the other side, quoted with their place, and the answer.
        proved: whether a proof of the corrected statement stands on the page.
    """

    title: str
    statement: str
    summary: str = ""
    for_users: str = ""
    questions: str = ""
    key_points: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    correction: str | None = None
    printed_error: str | None = None
    paper_side: str = ""
    proved: bool = False


def page_folders() -> tuple[Path, ...]:
    """Where pages lie: in an installed wheel, in the repository."""
    return (_PACKAGE / "pages", _PACKAGE.parent / "proofs")


def page_file(page: str) -> Path:
    """The Markdown of a page, given relative to ``proofs/``."""
    for folder in page_folders():
        if (folder / page).is_file():
            return folder / page
    raise ArgumentError.about(
        "page", page, f"the page proofs/{page} did not come with this installation, or was not written"
    )


def read_prose(page: str) -> Prose:
    """The words of the claim whose page this is."""
    file = page_file(page)
    try:
        return prose_of(file.read_text(encoding="utf-8"))
    except ArgumentError as error:
        raise error.retold(f"{file}: {error}") from None


def prose_of(text: str) -> Prose:
    """The words of a claim from the text of its page."""
    before_proof, *proof = re.split(r"^## Proof$", text, maxsplit=1, flags=re.MULTILINE)
    top, sections = _sections(before_proof)
    title = re.match(r"# \S+: (.+)\n", top)
    if title is None or "Statement" not in sections:
        raise ArgumentError("page", "begin with '# id: title' and have a section '## Statement'", text)
    summary = re.search(r"^\*\*[A-Z][A-Z_]+\b[^*]*\*\*[^:\n]*: (.+)$", top, re.MULTILINE)
    for_users = re.search(r"^\*\*For a user\.\*\* (.+)$", top, re.MULTILINE)
    questions = re.search(r"^\*\*Answers\.\*\* (.+)$", top, re.MULTILINE)
    return Prose(
        title=title[1],
        statement=sections["Statement"],
        summary=summary[1] if summary else "",
        for_users=for_users[1] if for_users else "",
        questions=questions[1] if questions else "",
        key_points=_items(sections.get("Key points", "")),
        conditions=_items(sections.get("Conditions", "")),
        correction=next((sections[heading] for heading in CORRECTIONS if heading in sections), None),
        printed_error=sections.get("Where the print errs"),
        paper_side=sections.get("The paper's side", ""),
        proved=bool(proof),
    )


def _sections(before_proof: str) -> tuple[str, dict[str, str]]:
    """What stands before the first section, and the sections before the proof."""
    top, *rest = re.split(r"^## (.+)\n", before_proof, flags=re.MULTILINE)
    headings: Sequence[str] = rest[::2]
    if len(set(headings)) < len(headings):
        raise ArgumentError("page", "have each section once", headings, got=", ".join(headings))
    return top, {heading: body.strip() for heading, body in zip(headings, rest[1::2], strict=True)}


def _items(text: str) -> tuple[str, ...]:
    """The items of a list; none where there is no list ("None.")."""
    return tuple(item.strip() for item in re.split(r"^- ", text, flags=re.MULTILINE)[1:])
