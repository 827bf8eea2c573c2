"""The ledger as a table that filters, and claims where a reader looks for them: by the paper's label, with the verdict."""

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx.util.typing import ExtensionMetadata

from dptheory.claims import PAPERS, Claim, Verdict, all_claims

LEDGER = "proofs/README"
_LABEL = re.compile(
    r"(Theorem|Lemma|Proposition|Corollary|Definition|Assumption|Algorithm|Table|Fig\.) ([A-Z]?\d[\d.]*)"
)
_SHORT = {"Theorem": "Thm", "Lemma": "Lem", "Proposition": "Prop", "Corollary": "Cor", "Definition": "Def"}
_BEFORE_DOMAINS = 840
"""Sphinx collects index entries at 850."""


def kinds(claim: Claim) -> tuple[str, ...]:
    """What kinds of evidence a claim has: those of its checks, or runs of our own."""
    found = {check.kind.value for check in claim.checks}
    if claim.verdict is Verdict.EMPIRICAL and claim.state != "not run":
        found.add("own runs")
    return tuple(sorted(found))


def names(claim: Claim) -> tuple[str, ...]:
    """What somebody types who knows the paper: "GIP Proposition 2", "GIP Prop. 2", "Proposition 2 of GIP"."""
    paper, whole = claim.source.paper.upper(), PAPERS[claim.source.paper]
    found: list[str] = []
    for kind, number in _LABEL.findall(claim.source.label):
        label = f"{kind} {number.rstrip('.')}"
        found += [f"{paper} {label}", f"{label} {paper}", f"{label} of {paper}", f"{whole} {label}"]
        if kind in _SHORT:
            found += [f"{paper} {_SHORT[kind]} {number}", f"{paper} {_SHORT[kind]}. {number}"]
    return tuple(dict.fromkeys(found))


def form() -> str:
    """The filters above the tables, as HTML."""
    claims = all_claims()
    choices = {
        "paper": [(key, name) for key, name in PAPERS.items()],
        "verdict": [(one.name.lower(), one.name) for one in Verdict],
        "kind of evidence": [(one, one) for one in sorted({one for claim in claims for one in kinds(claim)})],
    }
    selects = "".join(
        f'<label>{name} <select id="ledger-{name.split()[0]}"><option value="">all</option>'
        + "".join(f'<option value="{value}">{text}</option>' for value, text in options)
        + "</select></label>"
        for name, options in choices.items()
    )
    return (
        f'<form id="ledger-filter">{selects}'
        '<label>text <input id="ledger-text" type="search" placeholder="GIP Proposition 2, top-k, clipping"></label>'
        f'<output id="ledger-count">{len(claims)} of {len(claims)} claims</output></form>'
    )


def row_classes(claim: Claim) -> list[str]:
    """What the filters ask of a row, as classes of its element."""
    found = [f"paper-{claim.source.paper}", f"verdict-{claim.verdict.name.lower()}"]
    return ["claim", *found, *(f"kind-{kind.replace(' ', '-')}" for kind in kinds(claim))]


class Claims(SphinxTransform):
    """Marks the ledger's rows, enters the pages of claims in the index, links calculators to the pages of their modules."""

    default_priority = _BEFORE_DOMAINS

    def apply(self) -> None:
        docname = self.env.docname
        if docname == LEDGER:
            self._mark_rows()
        for claim in all_claims():
            if claim.verdict is not Verdict.EMPIRICAL and docname == _docname(claim):
                entries = [("single", name, "", "main", None) for name in names(claim)]
                self.document.insert(0, addnodes.index(entries=entries))
        for link in list(self.document.findall(addnodes.download_reference)):
            if re.fullmatch(r"dptheory(\.\w+)+", link.astext()):
                target = link.astext()
                where = addnodes.pending_xref("", refdomain="py", reftype="obj", reftarget=target, refdoc=docname)
                where.extend(link.children)
                link.replace_self(where)

    def _mark_rows(self) -> None:
        claims = {claim.id: claim for claim in all_claims()}
        for row in self.document.findall(nodes.row):
            literal = next(iter(row.findall(nodes.literal)), None)
            claim = claims.get(literal.astext()) if literal is not None else None
            if claim is not None:
                row["classes"] += row_classes(claim)
        page = next(iter(self.document.findall(nodes.section)))
        page.insert(1, nodes.raw("", form(), format="html"))


def _docname(claim: Claim) -> str:
    return f"proofs/{claim.page.removesuffix('.md')}"


def _without_tree(app: Sphinx, docname: str, _source: list[str]) -> None:
    """Proof pages are reached from the ledger and from each other; 140 lines beside every page would hide the rest."""
    if re.fullmatch(r"proofs/(?!website/)\w+/[^/]+", docname):
        app.env.metadata[docname]["orphan"] = True


def _verdict_in_title(_app: Sphinx, env: BuildEnvironment) -> None:
    """In tabs and among what a search found the verdict stands behind the name of a page."""
    for claim in all_claims():
        if claim.verdict is not Verdict.EMPIRICAL:
            named = nodes.title("", f"{claim.id}: {claim.title} [{claim.verdict.name}]")
            env.titles[_docname(claim)] = env.longtitles[_docname(claim)] = named


def setup(app: Sphinx) -> ExtensionMetadata:
    app.add_transform(Claims)
    app.connect("source-read", _without_tree)
    app.connect("env-check-consistency", _verdict_in_title)
    app.add_js_file("ledger.js")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
