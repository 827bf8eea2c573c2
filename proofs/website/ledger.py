"""The ledger as a table that filters, and the verdict of a claim where its page is named."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.typing import ExtensionMetadata

from dptheory.claims import PAPERS, Claim, Verdict, all_claims

LEDGER = "proofs/README"


def kinds(claim: Claim) -> tuple[str, ...]:
    """What kinds of evidence a claim has: those of its checks, or a run of our own."""
    found = sorted({check.kind.value for check in claim.checks})
    return (*found, "run") if claim.answer and claim.state != "not run" else tuple(found)


def form() -> str:
    """The filters above the table."""
    claims = all_claims()
    options = {
        "paper": [(key, f"{key}: {name}") for key, name in PAPERS.items()],
        "verdict": [(one.name.lower(), one.name) for one in Verdict],
        "kind": [(one, one) for one in sorted({one for claim in claims for one in kinds(claim)})],
    }
    names = {"paper": "paper", "verdict": "verdict", "kind": "kind of evidence"}
    selects = "".join(
        f'<label>{names[key]} <select id="ledger-{key}"><option value="">all</option>'
        + "".join(f'<option value="{value}">{text}</option>' for value, text in values)
        + "</select></label>"
        for key, values in options.items()
    )
    return (
        f'<form id="ledger-filter" role="search">{selects}'
        '<label>text <input id="ledger-text" type="search" placeholder="GIP Proposition 2, top-k, clipping"></label>'
        f'<output id="ledger-count">{len(claims)} of {len(claims)} claims</output></form>'
    )


def _row_classes(claim: Claim) -> list[str]:
    found = [f"paper-{claim.source.paper}", f"verdict-{claim.verdict.name.lower()}"]
    return ["claim", *found, *(f"kind-{kind.replace(' ', '-')}" for kind in kinds(claim))]


def _without_tree(app: Sphinx, docname: str, _source: list[str]) -> None:
    """Proof pages are reached from the ledger and from each other; 140 lines beside every page would hide the rest."""
    if docname.startswith("proofs/") and docname.count("/") == 2 and not docname.startswith("proofs/website/"):
        app.env.metadata[docname]["orphan"] = True


def _mark_rows(app: Sphinx, doctree: nodes.document) -> None:
    """Each row of the ledger says in its classes what the filters ask for."""
    if app.env.docname != LEDGER:
        return
    claims = {claim.id: claim for claim in all_claims()}
    for row in doctree.findall(nodes.row):
        literal = next(row.findall(nodes.literal), None)
        claim = claims.get(literal.astext()) if literal is not None else None
        if claim is not None:
            row["classes"] += _row_classes(claim)
    first = next(doctree.findall(nodes.section))
    place = next(i for i, child in enumerate(first) if isinstance(child, nodes.section))
    first.insert(place, nodes.raw("", form(), format="html"))


def _verdict_in_title(_app: Sphinx, env: BuildEnvironment) -> None:
    """Wherever a page is named (tab, search, navigation) its verdict stands behind it."""
    for claim in all_claims():
        docname = f"proofs/{claim.page.removesuffix('.md')}"
        if claim.verdict is not Verdict.EMPIRICAL and docname in env.titles:
            env.titles[docname] = nodes.title("", f"{env.titles[docname].astext()} [{claim.verdict.name}]")


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("source-read", _without_tree)
    app.connect("doctree-read", _mark_rows)
    app.connect("env-check-consistency", _verdict_in_title)
    app.add_js_file("ledger.js", loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
